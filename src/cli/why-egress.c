/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/strv.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/why-egress.h"

enum {
        SHOWN_MAX = 20,
        DESTINATIONS_SHOWN = 4,
        COLUMNS = 80,
        DESTINATION_INDENT = 2,
        FACT_INDENT = 4,
        LINE_INDENT = 6
};

/* A group with its advice, and where others have the same line: those behind it. */
typedef struct Item {
        const EgressGroup *group;
        Advice advice;
        struct Item *next;
        uint64_t count, last;
} Item;

typedef struct Items {
        Item *items;
        size_t n;
        Item **heads; /* one for each line of the policy, or destination without one */
        size_t n_heads;
} Items;

static void items_done(Items *l)
{
        for (size_t i = 0; i < l->n; i++)
                advice_done(&l->items[i].advice);
        free(l->items);
        free(l->heads);
        *l = (Items){};
}

static int compare_heads(const void *x, const void *y)
{
        const Item *a = *(Item *const *) x, *b = *(Item *const *) y;

        if (a->advice.class != b->advice.class)
                return a->advice.class < b->advice.class ? -1 : 1;
        /* What was tried last is what the program ended over. */
        return a->last > b->last ? -1 : a->last < b->last;
}

/* A name that was looked up and then asked for at another one's address needs one line, not two; and of what
 * nothing can allow, the same is said once. */
static bool belongs_to(const Item *item, const Item *head)
{
        const Advice *a = &item->advice, *b = &head->advice;

        if (a->line || b->line)
                return a->line && b->line && streq(a->line, b->line);
        return a->fact == b->fact && streq(a->meaning, b->meaning);
}

static Item *find_head(const Items *l, const Item *item)
{
        for (size_t i = 0; i < l->n_heads; i++)
                if (belongs_to(item, l->heads[i]))
                        return l->heads[i];
        return NULL;
}

static int items_make(const EgressDenials *d, const AdviceContext *c, Items *ret)
{
        _cleanup_(items_done) Items l = { .items = calloc(d->n + 1, sizeof(Item)),
                .heads = calloc(d->n + 1, sizeof(Item *)) };

        if (!l.items || !l.heads)
                return -ENOMEM;
        for (size_t i = 0; i < d->n; i++) {
                const EgressGroup *g = d->groups + i;
                Item *item = l.items + i, *head;
                int r = egress_advise(g, c, &item->advice);

                if (r < 0)
                        return r;
                *item = (Item){ .group = g, .advice = item->advice, .count = g->count, .last = g->last };
                l.n++;
                head = find_head(&l, item);
                if (!head) {
                        l.heads[l.n_heads++] = item;
                        continue;
                }
                item->next = head->next;
                head->next = item;
                head->count += item->count;
                head->last = MAX2(head->last, item->last);
        }
        qsort(l.heads, l.n_heads, sizeof(*l.heads), compare_heads);
        *ret = l;
        l = (Items){};
        return 0;
}

/* ---- words */

static void print_count(uint64_t n, const char *what, Buf *out)
{
        buf_printf(out, "%llu %s%s", (unsigned long long) n, what, n == 1 ? "" : "s");
}

static void print_fact(const Item *i, Buf *out)
{
        _cleanup_free_ char *asked = i->group->asked ? message_clean(i->group->asked) : NULL;
        _cleanup_free_ char *text = NULL;

        if (asprintf(&text, "%s%s%s", i->advice.fact, asked ? ": " : "", asked ?: "") < 0) {
                text = NULL;
                out->error = -ENOMEM;
                return;
        }
        output_wrap(out, text, FACT_INDENT, COLUMNS);
}

static bool same_fact_before(const Item *head, const Item *item)
{
        for (const Item *i = head; i != item; i = i->next)
                if (i->advice.fact == item->advice.fact)
                        return true;
        return false;
}

/* Where one line, or none, is for several destinations, the first few of them. */
static int list_destinations(const Item *head, char **ret)
{
        _cleanup_strv_ char **l = NULL;
        _cleanup_buf_ Buf b = {};
        size_t n = 0;

        for (const Item *i = head; i; i = head->advice.line ? NULL : i->next) {
                _cleanup_free_ char *where = egress_destination(i->group);

                if (!where)
                        return -ENOMEM;
                if (!*where) {
                        free(where);
                        where = strdup("destinations that were not recorded one by one");
                }
                if (!where || strv_contains(l, where))
                        continue;
                if (++n <= DESTINATIONS_SHOWN && strv_extend(&l, where) < 0)
                        return -ENOMEM;
        }
        for (size_t i = 0; l && l[i]; i++)
                buf_printf(&b, "%s%s", i > 0 ? ", " : "", l[i]);
        if (n > DESTINATIONS_SHOWN)
                buf_printf(&b, " and %zu more", n - DESTINATIONS_SHOWN);
        *ret = buf_take_string(&b);
        return *ret ? 0 : -ENOMEM;
}

static void print_head(const Item *head, Buf *out)
{
        _cleanup_free_ char *where = NULL, *text = NULL;

        if (list_destinations(head, &where) < 0 ||
                        asprintf(&text, "%s (%llu attempt%s)", where, (unsigned long long) head->count,
                                        head->count == 1 ? "" : "s") < 0) {
                text = NULL;
                out->error = -ENOMEM;
                return;
        }
        buf_printf(out, "\n");
        output_wrap(out, text, DESTINATION_INDENT, COLUMNS);
        for (const Item *i = head; i; i = i->next)
                if (!same_fact_before(head, i))
                        print_fact(i, out);
        if (head->advice.line)
                buf_printf(out, "%*s%s\n", LINE_INDENT, "", head->advice.line);
        if (head->advice.allowed_now)
                output_wrap(out,
                                "The policy has this line, or a wider one, by now: the run had a stricter "
                                "list, or an older one.",
                                FACT_INDENT, COLUMNS);
        else
                output_wrap(out, head->advice.meaning, FACT_INDENT, COLUMNS);
}

static void print_intro(const EgressDenials *d, Buf *out)
{
        char text[300];

        snprintf(text, sizeof(text),
                        "Refused of the network: %llu attempt%s, the likeliest cause first. Each line "
                        "belongs into [Network] of the policy and is the smallest that would have allowed what stands "
                        "above it.",
                        (unsigned long long) d->count, d->count == 1 ? "" : "s");
        output_wrap(out, text, 0, COLUMNS);
}

int why_egress(const EgressDenials *d, const AdviceContext *c, const char *run, Buf *out)
{
        _cleanup_(items_done) Items l = {};
        uint64_t shown = 0;
        size_t n;
        int r;

        if (d->count == 0)
                return 0;
        r = items_make(d, c, &l);
        if (r < 0)
                return r;
        print_intro(d, out);
        n = MIN2(l.n_heads, (size_t) SHOWN_MAX);
        for (size_t i = 0; i < n; i++) {
                print_head(l.heads[i], out);
                shown += l.heads[i]->count;
        }
        if (shown < d->count) {
                buf_printf(out, "\n  And ");
                print_count(d->count - shown, "attempt", out);
                buf_printf(out, " more: agentbox log --denied %s\n", run);
        }
        return out->error;
}
