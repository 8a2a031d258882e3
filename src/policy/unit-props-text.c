/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/parse.h"
#include "policy/unit-props.h"

/* Unit properties as a unit file would write them. */

/* One word, quoted where systemd's parser would split it or take a part of it for something else. */
static void word(Buf *b, const char *s)
{
        bool quote = *s == 0 || strpbrk(s, " \t\"'\\;#") != NULL;

        if (quote)
                buf_append(b, "\"", 1);
        for (; *s; s++) {
                if (*s == '"' || *s == '\\')
                        buf_append(b, "\\", 1);
                if (*s == '%') /* a specifier */
                        buf_append(b, "%", 1);
                buf_append(b, s, 1);
        }
        if (quote)
                buf_append(b, "\"", 1);
}

static void words(Buf *b, char *const *l)
{
        STRV_FOREACH(i, l) {
                if (i != l)
                        buf_append(b, " ", 1);
                word(b, *i);
        }
}

static void pairs(Buf *b, char *const *l, const char *between)
{
        for (size_t i = 0; l && l[i]; i += 2) {
                if (i > 0)
                        buf_append(b, between, strlen(between));
                word(b, l[i]);
                buf_append(b, ":", 1);
                word(b, l[i + 1]);
        }
}

static int number(Buf *b, const UnitPropRow *row, uint64_t v)
{
        _cleanup_free_ char *usec = NULL;

        if (row->scale > 1) /* CPUQuota= */
                return buf_printf(b, "%llu%%", (unsigned long long) (v / row->scale));
        if (!strstr(row->name, "USec"))
                return buf_printf(b, "%llu", (unsigned long long) v);
        usec = format_usec(v);
        if (!usec)
                return -ENOMEM;
        return buf_printf(b, "%s", usec);
}

int unit_prop_to_text(const UnitProp *q, char **ret)
{
        const UnitPropRow *row = unit_prop_row(q->name);
        _cleanup_buf_ Buf b = {};
        int r = 0;

        if (!row)
                return -ENOENT;
        if (row->file_name && !*row->file_name) {
                *ret = NULL;
                return 0;
        }
        buf_printf(&b, "%s=", row->file_name ? row->file_name : row->name);
        if (row->text)
                buf_printf(&b, "%s", row->text);
        else
                switch (q->type) {
                case UNIT_PROP_STRING:
                        word(&b, q->s);
                        break;
                case UNIT_PROP_BOOL:
                        buf_printf(&b, "%s", q->u ? "yes" : "no");
                        break;
                case UNIT_PROP_U64:
                case UNIT_PROP_I32:
                case UNIT_PROP_U32:
                        r = number(&b, row, q->u);
                        break;
                case UNIT_PROP_BOOL_STRV:
                        if (!q->u)
                                buf_append(&b, "~", 1);
                        words(&b, q->l);
                        break;
                case UNIT_PROP_STRV:
                case UNIT_PROP_PREFIXES:
                case UNIT_PROP_EXEC:
                        words(&b, q->l);
                        break;
                case UNIT_PROP_PAIRS:
                        /* The one list of pairs that takes one a line. */
                        pairs(&b, q->l, streq(q->name, "LoadCredential") ? "\nLoadCredential=" : " ");
                        break;
                case UNIT_PROP_BINDS:
                        pairs(&b, q->l, " ");
                        break;
                }
        if (r < 0)
                return r;
        *ret = buf_take_string(&b);
        return *ret ? 0 : -ENOMEM;
}

char *unit_props_to_text(const UnitProps *p)
{
        _cleanup_buf_ Buf b = {};

        for (size_t i = 0; i < p->n; i++) {
                _cleanup_free_ char *line = NULL;

                if (unit_prop_to_text(p->props + i, &line) < 0)
                        return NULL;
                if (line)
                        buf_printf(&b, "%s\n", line);
        }
        return buf_take_string(&b);
}

static int add_lines(char ***l, const char *text)
{
        _cleanup_strv_ char **lines = NULL;
        int r = strv_split(text, "\n", &lines);

        STRV_FOREACH(i, lines)
                if (r >= 0)
                        r = strv_extend(l, *i);
        return r;
}

int unit_props_text_for_key(const UnitProps *p, PolicyKey key, char ***ret)
{
        _cleanup_strv_ char **l = NULL;

        for (size_t i = 0; i < p->n; i++) {
                const UnitPropRow *row = unit_prop_row(p->props[i].name);
                _cleanup_free_ char *line = NULL;
                int r;

                if (!row || !(row->keys & UNIT_PROP_KEY(key)))
                        continue;
                r = unit_prop_to_text(p->props + i, &line);
                if (r >= 0 && line)
                        r = add_lines(&l, line);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(l);
        return 0;
}
