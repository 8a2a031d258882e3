/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cli/egress-denials.h"
#include "cli/facts.h"
#include "cli/message.h"
#include "cli/output.h"

/* From this many different names below one domain on. A program that means well asks for a few. */
enum { FOLD_NAMES = 8 };

static void group_done(EgressGroup *g)
{
        free(g->run);
        free(g->comm);
        free(g->name);
        free(g->address);
        free(g->proto);
        free(g->reason);
        free(g->rule);
        free(g->asked);
        *g = (EgressGroup){};
}

void egress_denials_done(EgressDenials *d)
{
        for (size_t i = 0; i < d->n; i++)
                group_done(d->groups + i);
        free(d->groups);
        json_decref(d->places);
        *d = (EgressDenials){};
}

static uint64_t number(const json_t *record, const char *field, uint64_t fallback)
{
        uint64_t v = facts_text_u64(record, field);

        return v == UINT64_MAX ? fallback : v;
}

uint64_t egress_record_count(const json_t *record)
{
        return number(record, "AGENTBOX_COUNT", 1);
}

static uint64_t add(uint64_t a, uint64_t b)
{
        uint64_t sum;

        return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* ---- taking records */

static bool counts_as_name(const char *name)
{
        return name && *name && !streq(name, "*");
}

/* Of a name, the address that was refused (or asked for it) is no part of what was wanted. */
static char *make_key(const json_t *record)
{
        const char *name = facts_string(record, "AGENTBOX_DEST_NAME");
        const char *const fields[] = { "AGENTBOX_RUN_ID",
                counts_as_name(name) ? "AGENTBOX_DEST_NAME" : "AGENTBOX_DEST_ADDR", "AGENTBOX_DEST_PORT",
                "AGENTBOX_PROTO", "AGENTBOX_REASON", "AGENTBOX_ASKED_NAME" };
        _cleanup_buf_ Buf b = {};

        for (size_t i = 0; i < ELEMENTSOF(fields); i++)
                buf_printf(&b, "%s\n", facts_string(record, fields[i]) ?: "");
        return buf_take_string(&b);
}

static int take_string(const json_t *record, const char *field, char **ret)
{
        const char *s = facts_string(record, field);

        if (!s || !*s)
                return 0;
        *ret = strdup(s);
        return *ret ? 0 : -ENOMEM;
}

static int fill_group(const json_t *record, EgressGroup *g)
{
        const struct {
                const char *field;
                char **member;
        } rows[] = {
                { "AGENTBOX_RUN_ID", &g->run },
                { "AGENTBOX_COMM", &g->comm },
                { "AGENTBOX_DEST_NAME", &g->name },
                { "AGENTBOX_DEST_ADDR", &g->address },
                { "AGENTBOX_PROTO", &g->proto },
                { "AGENTBOX_REASON", &g->reason },
                { "AGENTBOX_RULE", &g->rule },
                { "AGENTBOX_ASKED_NAME", &g->asked },
        };
        uint64_t port = number(record, "AGENTBOX_DEST_PORT", 0);

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (take_string(record, rows[i].field, rows[i].member) < 0)
                        return -ENOMEM;
        if (g->name && streq(g->name, "*")) {
                free(g->name);
                g->name = NULL;
        }
        g->port = port <= UINT16_MAX ? (uint16_t) port : 0;
        g->first_usec = number(record, "__REALTIME_TIMESTAMP", 0);
        return 0;
}

static void join_group(EgressGroup *g, const json_t *record)
{
        const char *comm = facts_string(record, "AGENTBOX_COMM"),
                   *priority = facts_string(record, "PRIORITY");

        if (g->comm && (!comm || !streq(comm, g->comm))) {
                free(g->comm);
                g->comm = NULL;
        }
        g->count = add(g->count, egress_record_count(record));
        g->last_usec = number(record, "__REALTIME_TIMESTAMP", 0);
        g->warns |= priority && priority[0] >= '0' && priority[0] <= '4' && !priority[1];
}

static int add_group(EgressDenials *d, const json_t *record, const char *key, EgressGroup **ret)
{
        EgressGroup *groups = reallocarray(d->groups, d->n + 1, sizeof(*groups));

        if (!groups)
                return -ENOMEM;
        d->groups = groups;
        groups[d->n] = (EgressGroup){};
        if (fill_group(record, groups + d->n) < 0 ||
                        json_object_set_new(d->places, key, json_integer((json_int_t) d->n)) < 0) {
                group_done(groups + d->n);
                return -ENOMEM;
        }
        *ret = groups + d->n++;
        return 0;
}

int egress_denials_take(EgressDenials *d, const json_t *record)
{
        const char *event = facts_string(record, "AGENTBOX_EVENT");
        _cleanup_free_ char *key = NULL;
        uint64_t count = egress_record_count(record);
        const json_t *place;
        EgressGroup *g = NULL;

        if (!event || !streq(event, "egress-denied"))
                return 0;
        if (!d->places && !(d->places = json_object()))
                return -ENOMEM;
        key = make_key(record);
        if (!key)
                return -ENOMEM;
        d->n_records++;
        d->count = add(d->count, count);
        place = json_object_get(d->places, key);
        if (place)
                g = d->groups + json_integer_value(place);
        else if (d->n >= EGRESS_GROUPS_MAX) {
                d->forgotten = add(d->forgotten, count);
                return 1;
        } else if (add_group(d, record, key, &g) < 0)
                return -ENOMEM;
        join_group(g, record);
        g->last = d->n_records;
        return 1;
}

/* ---- folding */

/* The domain right above a name that was looked up and has no rule; NULL where there is none that is
 * anybody's. */
static const char *domain_above(const EgressGroup *g)
{
        const char *dot = g->name ? strchr(g->name, '.') : NULL;

        if (!dot || !strchr(dot + 1, '.') || !g->proto || !streq(g->proto, "dns") || !g->reason ||
                        !streq(g->reason, "no-rule"))
                return NULL;
        return dot + 1;
}

/* Run and domain; *ret is NULL where the group is none to be folded. */
static int fold_key(const EgressGroup *g, char **ret)
{
        const char *domain = domain_above(g);

        *ret = NULL;
        if (!domain)
                return 0;
        if (asprintf(ret, "%s\n%s", g->run ?: "", domain) < 0) {
                *ret = NULL;
                return -ENOMEM;
        }
        return 0;
}

static int count_below(const EgressDenials *d, json_t *ret)
{
        for (size_t i = 0; i < d->n; i++) {
                _cleanup_free_ char *key = NULL;
                json_int_t n;

                if (fold_key(d->groups + i, &key) < 0)
                        return -ENOMEM;
                if (!key)
                        continue;
                n = json_integer_value(json_object_get(ret, key));
                if (json_object_set_new(ret, key, json_integer(n + 1)) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* Moves g into the group of its domain, which is made of the first one that comes. */
static int fold_group(EgressDenials *d, size_t *n, EgressGroup *g, const char *key, json_t *places)
{
        const json_t *place = json_object_get(places, key);
        EgressGroup *folded;
        char *name;

        if (place) {
                folded = d->groups + json_integer_value(place);
                folded->count = add(folded->count, g->count);
                folded->last = MAX2(folded->last, g->last);
                folded->last_usec = MAX2(folded->last_usec, g->last_usec);
                folded->warns |= g->warns;
                folded->n_names++;
                if (!folded->comm || !g->comm || !streq(folded->comm, g->comm)) {
                        free(folded->comm);
                        folded->comm = NULL;
                }
                group_done(g);
                return 0;
        }
        name = strdup(domain_above(g));
        if (!name || json_object_set_new(places, key, json_integer((json_int_t) *n)) < 0) {
                free(name);
                return -ENOMEM;
        }
        free(g->name);
        g->name = name;
        g->n_names = 1;
        d->groups[(*n)++] = *g;
        if (d->groups + *n - 1 != g)
                *g = (EgressGroup){};
        return 0;
}

int egress_denials_fold(EgressDenials *d)
{
        _cleanup_json_ json_t *below = json_object(), *places = json_object();
        size_t n = 0, total = d->n;
        int r = below && places ? count_below(d, below) : -ENOMEM;

        if (r < 0)
                return r;
        for (size_t i = 0; i < total; i++) {
                EgressGroup *g = d->groups + i;
                _cleanup_free_ char *key = NULL;

                if (fold_key(g, &key) < 0)
                        return -ENOMEM;
                if (key && json_integer_value(json_object_get(below, key)) >= FOLD_NAMES) {
                        r = fold_group(d, &n, g, key, places);
                        if (r < 0)
                                return r;
                        continue;
                }
                d->groups[n] = *g;
                if (n++ != i)
                        *g = (EgressGroup){};
        }
        d->n = n;
        json_decref(d->places);
        d->places = NULL;
        return 0;
}

/* ---- words */

char *egress_destination(const EgressGroup *g)
{
        bool looked_up = g->proto && streq(g->proto, "dns");
        _cleanup_free_ char *host = message_clean(g->name ?: g->address ?: "");
        char *s;
        int n;

        if (!host || !*host)
                return TAKE_PTR(host);
        if (g->n_names > 0)
                n = asprintf(&s, "%zu names below %s", g->n_names, host);
        else if (looked_up || g->port == 0)
                n = asprintf(&s, "%s", host);
        else
                n = asprintf(&s, !g->name && strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, g->port);
        return n < 0 ? NULL : s;
}

char *egress_record_destination(const json_t *record)
{
        EgressGroup g = {};
        char *s = fill_group(record, &g) >= 0 ? egress_destination(&g) : NULL;

        group_done(&g);
        return s;
}
