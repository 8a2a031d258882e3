/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/escape.h"
#include "policy/policy-problems.h"

#define PROBLEMS_MAX 100
#define PROBLEM_TEXT_MAX 1024

void policy_problems_done(PolicyProblems *p)
{
        for (size_t i = 0; i < p->n; i++) {
                free(p->items[i].file);
                free(p->items[i].text);
        }
        free(p->items);
        *p = (PolicyProblems){};
}

/* A backslash stays one: what comes here quotes continued lines and already escaped names. */
static char *safe_text(const char *s)
{
        _cleanup_free_ char *escaped = escape_for_display(s, strlen(s), PROBLEM_TEXT_MAX);
        char *out, *o;

        if (!escaped)
                return NULL;
        o = out = malloc(strlen(escaped) + 1);
        if (!out)
                return NULL;
        for (const char *c = escaped; *c; c++) {
                *o++ = *c;
                if (strncmp(c, "\\x5c", 4) == 0)
                        c += 3;
        }
        *o = 0;
        return out;
}

void policy_problem(
                PolicyProblems *p, const char *file, unsigned line, unsigned column, const char *format, ...)
{
        _cleanup_free_ char *text = NULL, *safe_file = NULL, *safe = NULL;
        PolicyProblem *items;
        va_list ap;
        int n;

        if (p->n >= PROBLEMS_MAX) {
                p->dropped++;
                return;
        }
        va_start(ap, format);
        n = vasprintf(&text, format, ap);
        va_end(ap);
        if (n < 0)
                text = NULL;
        safe = text ? safe_text(text) : NULL;
        safe_file = safe_text(file ? file : "");
        items = reallocarray(p->items, p->n + 1, sizeof(*items));
        if (items)
                p->items = items;
        if (!items || !safe || !safe_file) {
                p->out_of_memory = true;
                return;
        }
        p->items[p->n++] = (PolicyProblem){ TAKE_PTR(safe_file), line, column, TAKE_PTR(safe) };
}

static bool stands_before(const PolicyProblem *a, const PolicyProblem *b)
{
        return a->line != b->line ? a->line < b->line : a->column < b->column;
}

/* By insertion, which keeps the order of equals, and files in the order in which they first had a problem.
 */
static void problems_sort(PolicyProblems *p)
{
        for (size_t i = 1; i < p->n; i++) {
                PolicyProblem x = p->items[i];
                size_t at = i, group_end = i;

                for (size_t j = 0; j < i; j++)
                        if (streq(p->items[j].file, x.file))
                                group_end = j + 1;
                while (at > group_end)
                        p->items[at] = p->items[at - 1], at--;
                while (at > 0 && streq(p->items[at - 1].file, x.file) &&
                                stands_before(&x, &p->items[at - 1]))
                        p->items[at] = p->items[at - 1], at--;
                p->items[at] = x;
        }
}

int policy_problems_to_error(PolicyProblems *p, Error **reterr)
{
        _cleanup_buf_ Buf b = {};
        _cleanup_free_ char *text = NULL;

        if (p->out_of_memory)
                return error_set(reterr, -ENOMEM, "out of memory");
        if (p->n == 0)
                return 0;
        problems_sort(p);
        for (size_t i = 0; i < p->n; i++) {
                const PolicyProblem *x = p->items + i;

                buf_printf(&b, "%s%s", i > 0 ? "\n" : "", x->file);
                if (*x->file && x->line > 0)
                        buf_printf(&b, ":%u:%u", x->line, x->column);
                buf_printf(&b, "%s%s", *x->file ? ": " : "", x->text);
        }
        if (p->dropped > 0)
                buf_printf(&b, "\nand %zu more", p->dropped);
        text = buf_take_string(&b);
        if (!text)
                return error_set(reterr, -ENOMEM, "out of memory");
        return error_set(reterr, -EINVAL, "%s", text);
}
