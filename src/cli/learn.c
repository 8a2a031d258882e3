/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/strv.h"
#include "cli/facts.h"
#include "cli/kernel-denial.h"
#include "cli/learn.h"
#include "cli/limit-advice.h"
#include "cli/message.h"
#include "cli/output.h"
#include "policy/allow-rule.h"
#include "policy/filter-compile.h"
#include "policy/policy-keys.h"
#include "policy/policy-value.h"

enum { COLUMNS = 80, SYSCALLS_MAX = 500, LEFT_OUT_SHOWN = 10 };

void learn_done(Learn *l)
{
        free(l->policy);
        free(l->digest);
        free(l->last_run);
        json_decref(l->ended);
        json_decref(l->syscalls);
        egress_denials_done(&l->egress);
        *l = (Learn){};
}

/* ---- taking records */

static int set_text(char **to, const char *s)
{
        char *copy = strdup(s);

        if (!copy)
                return -ENOMEM;
        free(*to);
        *to = copy;
        return 0;
}

static int take_identity(Learn *l, const json_t *record, Error **reterr)
{
        const char *policy = facts_string(record, "AGENTBOX_POLICY") ?: "?",
                   *digest = facts_string(record, "AGENTBOX_POLICY_DIGEST") ?: "",
                   *run = facts_string(record, "AGENTBOX_RUN_ID") ?: "?";

        if (!l->policy && (set_text(&l->policy, policy) < 0 || set_text(&l->digest, digest) < 0))
                return error_set(reterr, -ENOMEM, "out of memory");
        if (!streq(policy, l->policy))
                return error_set(reterr, -EINVAL,
                                "run %s was under policy %s, the one before it under %s: one policy at a time",
                                run, policy, l->policy);
        /* A refusal comes before the policy was read. */
        l->several_digests |= *digest && *l->digest && !streq(digest, l->digest);
        if (!*l->digest && *digest && set_text(&l->digest, digest) < 0)
                return error_set(reterr, -ENOMEM, "out of memory");
        if (l->last_run && streq(run, l->last_run))
                return 0;
        l->n_runs++;
        return set_text(&l->last_run, run) < 0 ? error_set(reterr, -ENOMEM, "out of memory") : 0;
}

static int take_syscall(Learn *l, const json_t *record)
{
        const char *name = facts_string(record, "AGENTBOX_SYSCALL");
        uint64_t n = egress_record_count(record);
        json_int_t before, sum;

        if (!name || *name == '@' || !filter_name_known(name))
                return 0;
        if (!l->syscalls && !(l->syscalls = json_object()))
                return -ENOMEM;
        before = json_integer_value(json_object_get(l->syscalls, name));
        if (before == 0 && json_object_size(l->syscalls) >= SYSCALLS_MAX)
                return 0;
        if (n > INT64_MAX || __builtin_add_overflow(before, (json_int_t) n, &sum))
                sum = INT64_MAX;
        return json_object_set_new(l->syscalls, name, json_integer(sum)) < 0 ? -ENOMEM : 0;
}

int learn_take(Learn *l, json_t *record, Error **reterr)
{
        const char *event = facts_string(record, "AGENTBOX_EVENT") ?: "";
        int r = take_identity(l, record, reterr);

        if (r < 0)
                return r;
        if (!l->ended && !(l->ended = json_array()))
                return error_set(reterr, -ENOMEM, "out of memory");
        if (streq(event, "run-ended"))
                r = json_array_append(l->ended, record) < 0 ? -ENOMEM : 0;
        else if (streq(event, "syscall-denied") || (streq(event, KERNEL_DENIAL_EVENT) && !kernel_denial_is_foreign(record)))
                r = take_syscall(l, record);
        else
                r = egress_denials_take(&l->egress, record);
        return r < 0 ? error_set(reterr, r, "out of memory") : 0;
}

/* ---- proposals */

/* The narrowest first. */
typedef enum Width {
        WIDTH_NAME,
        WIDTH_NAME_ANY_BYTES,
        WIDTH_NAME_LESS_CHECKED,
        WIDTH_ADDRESS,
        WIDTH_MANY,
        WIDTH_LIMIT
} Width;

typedef struct Proposal {
        PolicyKey key;
        char *value; /* what stands behind "KEY=" */
        Width width;
        bool needs_human;
        uint64_t count; /* attempts; 0: not counted */
        char **runs;
        char *reason;  /* for people, without a period */
        char *meaning; /* what else it opens; or NULL */
} Proposal;

typedef struct Proposals {
        Proposal *items;
        size_t n;
        char **left_out; /* "DESTINATION: why no line allows it" */
        size_t n_left_out;
} Proposals;

static void proposals_done(Proposals *p)
{
        for (size_t i = 0; i < p->n; i++) {
                free(p->items[i].value);
                strv_free(p->items[i].runs);
                free(p->items[i].reason);
                free(p->items[i].meaning);
        }
        free(p->items);
        strv_free(p->left_out);
        *p = (Proposals){};
}

static Proposal *find_proposal(const Proposals *p, PolicyKey key, const char *value)
{
        for (size_t i = 0; i < p->n; i++)
                if (p->items[i].key == key && streq(p->items[i].value, value))
                        return p->items + i;
        return NULL;
}

/* The proposal of that line, a new one at need. NULL when out of memory. */
static Proposal *add_proposal(
                Proposals *p, PolicyKey key, const char *value, Width width, const char *reason)
{
        Proposal *items, *q = find_proposal(p, key, value);

        if (q)
                return q;
        items = reallocarray(p->items, p->n + 1, sizeof(*items));
        if (!items)
                return NULL;
        p->items = items;
        q = items + p->n++;
        *q = (Proposal){ .key = key, .width = width, .value = strdup(value), .reason = strdup(reason) };
        return q->value && q->reason ? q : NULL;
}

static Width width_of(const char *text)
{
        AllowRule rule;
        size_t offset;

        if (allow_rule_parse(text, &rule, &offset, NULL) < 0)
                return WIDTH_LIMIT;
        if (rule.wildcard || (rule.kind == ALLOW_TCP_ADDRESS && strchr(text, '/')))
                return WIDTH_MANY;
        if (rule.kind == ALLOW_TCP_ADDRESS)
                return WIDTH_ADDRESS;
        if (rule.private_allow || rule.ech_allow)
                return WIDTH_NAME_LESS_CHECKED;
        return rule.kind == ALLOW_TCP ? WIDTH_NAME_ANY_BYTES : WIDTH_NAME;
}

static int leave_out(Proposals *p, const EgressGroup *g, const Advice *a)
{
        _cleanup_free_ char *where = egress_destination(g);
        char *s;

        if (!where)
                return -ENOMEM;
        p->n_left_out++;
        if (p->n_left_out > LEFT_OUT_SHOWN)
                return 0;
        if (asprintf(&s, "%s: %s", *where ? where : "destinations that were not recorded one by one",
                            a->allowed_now ? "the policy allows it by now" : a->fact) < 0)
                return -ENOMEM;
        if (strv_contains(p->left_out, s)) { /* of another run */
                free(s);
                p->n_left_out--;
                return 0;
        }
        return strv_push(&p->left_out, s);
}

/* "Allow=tls x.example:443" into its key and value. */
static int split_line(const char *line, PolicyKey *ret_key, const char **ret_value)
{
        static const PolicyKey keys[] = { NETWORK_ALLOW, NETWORK_EGRESS_BYTES, NETWORK_CONNECTIONS };

        for (size_t i = 0; i < ELEMENTSOF(keys); i++) {
                const char *rest = startswith(line, policy_keys[keys[i]].name);

                if (rest && *rest == '=') {
                        *ret_key = keys[i];
                        *ret_value = rest + 1;
                        return 0;
                }
        }
        return -EINVAL;
}

/* Whether the policy has dealings with this name already: then more of it is no new party. */
static bool names_host(const Policy *policy, const char *text)
{
        AllowRule wanted, rule;
        size_t offset;

        if (!policy || allow_rule_parse(text, &wanted, &offset, NULL) < 0)
                return false;
        STRV_FOREACH(i, policy_list(policy, NETWORK_ALLOW))
                if (allow_rule_parse(*i, &rule, &offset, NULL) >= 0 && *rule.name &&
                                streq(rule.name, wanted.name) && rule.wildcard == wanted.wildcard)
                        return true;
        return false;
}

static int propose_group(Proposals *p, const EgressGroup *g, const AdviceContext *c)
{
        _cleanup_advice_ Advice a = {};
        const char *value;
        Proposal *q;
        PolicyKey key;
        int r = egress_advise(g, c, &a);

        if (r < 0)
                return r;
        if (!a.line || a.allowed_now || split_line(a.line, &key, &value) < 0)
                return leave_out(p, g, &a);
        q = add_proposal(p, key, value, key == NETWORK_ALLOW ? width_of(value) : WIDTH_LIMIT, a.fact);
        if (!q)
                return -ENOMEM;
        q->needs_human |= a.needs_human || key != NETWORK_ALLOW || !names_host(c->policy, value);
        if (__builtin_add_overflow(q->count, g->count, &q->count))
                q->count = UINT64_MAX;
        if (q->needs_human && !q->meaning)
                q->meaning = TAKE_PTR(a.meaning);
        if (g->run && !strv_contains(q->runs, g->run))
                return strv_extend(&q->runs, g->run);
        return 0;
}

static int propose_syscalls(Proposals *p, const Learn *l)
{
        const char *name;
        json_t *count;

        json_object_foreach((json_t *) l->syscalls, name, count)
        {
                Proposal *q;

                if (!filter_name_allowable(name) || filter_call_has_rules(name)) {
                        char *s;

                        p->n_left_out++;
                        if (asprintf(&s, "%s(): %s", name, filter_name_allowable(name)
                                                                           ? "no line allows it with these arguments"
                                                                           : "it opens a way around the sandbox") < 0 ||
                                        strv_push(&p->left_out, s) < 0)
                                return -ENOMEM;
                        continue;
                }
                q = add_proposal(p, SYSCALLS_ALLOW, name, WIDTH_LIMIT, "the program called it");
                if (!q)
                        return -ENOMEM;
                q->needs_human = true;
                q->count = (uint64_t) json_integer_value(count);
                if (!q->meaning && asprintf(&q->meaning, "It opens more of the kernel: %c%s.",
                                                   tolower((unsigned char) *filter_call_about(name)), filter_call_about(name) + 1) < 0) {
                        q->meaning = NULL;
                        return -ENOMEM;
                }
        }
        return 0;
}

/* Of several runs the one that wants the most decides. */
static int propose_limit(Proposals *p, const LimitRow *row, const json_t *ended, const AdviceContext *c)
{
        uint64_t v = limit_suggestion(row, ended, c->policy),
                 present = c->policy ? policy_u64(c->policy, row->key) : 0;
        _cleanup_free_ char *value = NULL;
        const char *run = facts_string(ended, "AGENTBOX_RUN_ID");
        Proposal *q = NULL;

        if (v == 0 || v <= present)
                return 0;
        value = policy_value_format_u64(row->key, v);
        if (!value)
                return -ENOMEM;
        for (size_t i = 0; i < p->n; i++)
                if (p->items[i].key == row->key)
                        q = p->items + i;
        if (!q)
                q = add_proposal(p, row->key, value, WIDTH_LIMIT, row->text);
        else if (q->count < v) {
                free(q->value);
                q->value = TAKE_PTR(value);
        }
        if (!q || !q->value)
                return -ENOMEM;
        q->count = MAX2(q->count, v); /* for the comparison above; limits are not counted */
        q->needs_human = true;
        return run && !strv_contains(q->runs, run) ? strv_extend(&q->runs, run) : 0;
}

static int propose_limits(Proposals *p, const Learn *l, const AdviceContext *c)
{
        size_t n = json_array_size(l->ended);

        for (size_t i = 0; i < n; i++) {
                const json_t *ended = json_array_get(l->ended, i);
                const LimitRow *row = limit_that_ended(ended, c->policy);
                int r = row ? propose_limit(p, row, ended, c) : 0;

                for (size_t k = 0; r >= 0 && k < n_limit_rows; k++)
                        if (limit_was_felt(limit_rows + k, ended, c->policy))
                                r = propose_limit(p, limit_rows + k, ended, c);
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < p->n; i++)
                if (streq(policy_keys[p->items[i].key].section, "Limits"))
                        p->items[i].count = 0;
        return 0;
}

static int compare_proposals(const void *x, const void *y)
{
        const Proposal *a = x, *b = y;

        if (a->key != b->key)
                return a->key < b->key ? -1 : 1;
        if (a->width != b->width)
                return a->width < b->width ? -1 : 1;
        if (a->needs_human != b->needs_human)
                return a->needs_human ? 1 : -1;
        return strcmp(a->value, b->value);
}

static int propose(Learn *l, const AdviceContext *c, Proposals *ret)
{
        _cleanup_(proposals_done) Proposals p = {};
        int r = egress_denials_fold(&l->egress);

        for (size_t i = 0; r >= 0 && i < l->egress.n; i++)
                r = propose_group(&p, l->egress.groups + i, c);
        if (r >= 0)
                r = propose_limits(&p, l, c);
        if (r >= 0)
                r = propose_syscalls(&p, l);
        if (r < 0)
                return r;
        if (p.n > 0)
                qsort(p.items, p.n, sizeof(*p.items), compare_proposals);
        *ret = p;
        p = (Proposals){};
        return 0;
}

/* ---- printing */

/* A comment, in lines that fit. */
static void print_comment(const char *text, Buf *out)
{
        _cleanup_buf_ Buf wrapped = {};
        _cleanup_free_ char *lines = NULL;

        output_wrap(&wrapped, text, 0, COLUMNS - 2);
        lines = buf_take_string(&wrapped);
        if (!lines) {
                out->error = -ENOMEM;
                return;
        }
        for (const char *line = lines; *line; line += strcspn(line, "\n") + 1) {
                buf_append(out, "# ", 2);
                buf_append(out, line, strcspn(line, "\n") + 1);
        }
}

static void print_header(const Learn *l, const AdviceContext *c, LearnForm form, bool any, Buf *out)
{
        _cleanup_free_ char *digest = c->policy ? policy_digest(c->policy) : NULL,
                            *name = message_clean(l->policy), *text = NULL;
        bool changed = l->several_digests || (digest && !streq(digest, l->digest ?: ""));

        if (asprintf(&text,
                            "What %zu run%s of policy %s %s refused, and the lines that would let it "
                            "through. It is what the code tried, which need not be what the job needs: read "
                            "each line. \"decide\" marks what reaches somebody new, opens more than was seen "
                            "or gives up a check%s.%s",
                            l->n_runs, l->n_runs == 1 ? "" : "s", name ?: "?",
                            l->n_runs == 1 ? "was" : "were",
                            form == LEARN_DROP_IN ? ", and is a comment until somebody has" : "",
                            changed ? " The policy is not as it was then, or a run had --set." : "") < 0) {
                text = NULL;
                out->error = -ENOMEM;
                return;
        }
        print_comment(text, out);
        if (form == LEARN_DIFF && any)
                buf_printf(out, "--- %s\n+++ %s\n", name ?: "?", name ?: "?");
}

static void print_reason(const Proposal *q, Buf *out)
{
        _cleanup_buf_ Buf b = {};
        _cleanup_free_ char *text = NULL;
        size_t n_runs = strv_length(q->runs);

        buf_printf(&b, "%s", q->needs_human ? "decide: " : "");
        if (q->count > 0)
                buf_printf(&b, "%llu attempt%s", (unsigned long long) q->count, q->count == 1 ? "" : "s");
        if (n_runs > 0)
                buf_printf(&b, "%s%zu run%s", q->count > 0 ? " in " : "", n_runs, n_runs == 1 ? "" : "s");
        /* Behind a colon it starts no sentence. */
        buf_printf(&b, "%s%c%s.%s%s", q->count > 0 || n_runs > 0 ? ": " : "",
                        q->count > 0 || n_runs > 0 ? tolower((unsigned char) *q->reason) : *q->reason, *q->reason ? q->reason + 1 : "",
                        q->meaning ? " " : "", q->meaning ?: "");
        text = buf_take_string(&b);
        if (!text)
                out->error = -ENOMEM;
        else
                print_comment(text, out);
}

static void print_lines(const Proposal *q, const Policy *policy, LearnForm form, Buf *out)
{
        const PolicyKeyInfo *k = policy_keys + q->key;
        _cleanup_free_ char *present = NULL;

        if (form == LEARN_DROP_IN) {
                buf_printf(out, "%s%s=%s\n", q->needs_human ? "#" : "", k->name, q->value);
                return;
        }
        if (policy && k->type != POLICY_TYPE_LIST && policy_is_set(policy, q->key)) {
                present = policy_value_format(q->key, policy->values + q->key);
                buf_printf(out, "%s-%s=%s%s\n", output_colour(COLOUR_RED), k->name, present ?: "?",
                                output_colour_end(COLOUR_RED));
        }
        buf_printf(out, "%s+%s=%s%s\n", output_colour(COLOUR_GREEN), k->name, q->value,
                        output_colour_end(COLOUR_GREEN));
}

static void print_left_out(const Proposals *p, Buf *out)
{
        if (p->n_left_out == 0)
                return;
        buf_printf(out, "\n# Not among them:\n");
        STRV_FOREACH(i, p->left_out)
                print_comment(*i, out);
        if (p->n_left_out > strv_length(p->left_out))
                buf_printf(out, "# and %zu more\n", p->n_left_out - strv_length(p->left_out));
}

int learn_print(Learn *l, const AdviceContext *c, LearnForm form, Buf *out)
{
        _cleanup_(proposals_done) Proposals p = {};
        const char *section = "";
        int r = propose(l, c, &p);

        if (r < 0)
                return r;
        print_header(l, c, form, p.n > 0, out);
        if (p.n == 0)
                buf_printf(out, "# There are none: nothing was refused that a line could allow.\n");
        for (size_t i = 0; i < p.n; i++) {
                const char *own = policy_keys[p.items[i].key].section;

                if (!streq(section, own))
                        buf_printf(out, "%s%s[%s]\n", form == LEARN_DROP_IN || *section ? "\n" : "",
                                        form == LEARN_DROP_IN ? "" : " ", own);
                section = own;
                print_reason(p.items + i, out);
                print_lines(p.items + i, c->policy, form, out);
        }
        if (l->egress.forgotten > 0)
                buf_printf(out, "\n# %llu attempts went to more destinations than are told apart here.\n",
                                (unsigned long long) l->egress.forgotten);
        print_left_out(&p, out);
        return out->error;
}
