/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "policy/allow-rule.h"
#include "policy/policy-keys.h"
#include "policy/policy-parse.h"
#include "policy/policy-value.h"
#include "policy/policy.h"

#define BLANKS " \t"

/* "SECTION.KEY=VALUE" taken apart; the strings are in l. */
static int parse_assignment(const char *assignment, PolicyLine *l, Error **reterr)
{
        const char *equals = strchr(assignment, '='),
                   *dot = equals ? memchr(assignment, '.', (size_t) (equals - assignment)) : NULL;
        size_t n;

        if (!dot)
                return error_set(reterr, -EINVAL,
                                "\"%s\" is not of the form SECTION.KEY=VALUE, as in Limits.Memory=128M",
                                assignment);
        l->section = strndup(assignment, (size_t) (dot - assignment));
        l->key = strndup(dot + 1, (size_t) (equals - dot - 1));
        l->value = strdup(equals + 1 + strspn(equals + 1, BLANKS));
        if (!l->section || !l->key || !l->value)
                return error_set(reterr, -ENOMEM, "out of memory");
        n = strlen(l->value);
        while (n > 0 && strchr(BLANKS, l->value[n - 1]))
                l->value[--n] = 0;
        return 0;
}

static int find_key(const PolicyLine *l, Error **reterr)
{
        int key = policy_key_find(l->section, l->key);
        const char *near;

        if (key >= 0)
                return key;
        if (!policy_section_known(l->section)) {
                near = policy_section_suggest(l->section);
                return error_set(reterr, -EINVAL, "unknown section \"%s\"%s%s%s", l->section,
                                near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
        }
        near = policy_key_suggest(l->section, l->key);
        return error_set(reterr, -EINVAL, "unknown key %s in section %s%s%s%s", l->key, l->section,
                        near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static bool set_by_caller(const PolicyValue *v)
{
        return !v->source.file && v->source.line > 0;
}

/* Whether one of the items lets through all that item does. */
static bool item_covered(PolicyKey key, char *const *items, const char *item)
{
        AllowRule inner, outer;
        size_t offset;

        if (key != NETWORK_ALLOW)
                return strv_contains(items, item);
        if (allow_rule_parse(item, &inner, &offset, NULL) < 0)
                return false;
        STRV_FOREACH(i, items)
                if (allow_rule_parse(*i, &outer, &offset, NULL) >= 0 && allow_rule_covers(&outer, &inner))
                        return true;
        return false;
}

static int refuse_item(PolicyKey key, const char *asked, char *const *allowed, Error **reterr)
{
        _cleanup_free_ char *all = strv_join(allowed, ", ");
        const PolicyKeyInfo *k = policy_keys + key;
        bool subset = k->order == POLICY_ORDER_SUBSET;

        if (subset)
                return error_set(reterr, -EPERM, "%s.%s=%s is more than the policy allows, which is %s",
                                k->section, k->name, asked, all && *all ? all : "nothing");
        return error_set(reterr, -EPERM,
                        "%s.%s cannot be without %s: the policy has %s, and a caller can only add",
                        k->section, k->name, asked, all && *all ? all : "nothing");
}

static int check_list(PolicyKey key, const PolicyValue *old, const PolicyValue *new, Error **reterr)
{
        /* What the policy itself says, however often the caller has assigned before. */
        char *const *bound = set_by_caller(old) ? old->bound : old->l;

        if (policy_keys[key].order == POLICY_ORDER_SUBSET) {
                STRV_FOREACH(i, new->l)
                        if (!item_covered(key, bound, *i))
                                return refuse_item(key, *i, bound, reterr);
        } else {
                STRV_FOREACH(i, old->l)
                        if (!strv_contains(new->l, *i))
                                return refuse_item(key, *i, old->l, reterr);
        }
        return 0;
}

static int check_scalar(PolicyKey key, const PolicyValue *old, const PolicyValue *new, Error **reterr)
{
        const PolicyKeyInfo *k = policy_keys + key;
        bool lower = k->order == POLICY_ORDER_LOWER;
        PolicyValue bound = { .s = old->s, .u = old->set ? old->u : k->unset };
        uint64_t wanted = new->set ? new->u : k->unset;
        _cleanup_free_ char *asked = NULL, *allowed = NULL;

        if (!old->set && k->unset == 0)
                return 0;
        if ((new->set || k->unset > 0) && (lower ? wanted <= bound.u : wanted >= bound.u))
                return 0;
        asked = new->set ? policy_value_format(key, new) : strdup("");
        allowed = policy_value_format(key, &bound);
        if (!asked || !allowed)
                return error_set(reterr, -ENOMEM, "out of memory");
        return error_set(reterr, -EPERM, "%s.%s=%s is wider than the policy allows, which is %s%s",
                        k->section, k->name, asked, lower ? "at most " : "", allowed);
}

static int check_tightens(PolicyKey key, const PolicyValue *old, const PolicyValue *new, Error **reterr)
{
        switch (policy_keys[key].order) {
        case POLICY_ORDER_LOWER:
        case POLICY_ORDER_HIGHER:
                return check_scalar(key, old, new, reterr);
        case POLICY_ORDER_SUBSET:
        case POLICY_ORDER_SUPERSET:
                return check_list(key, old, new, reterr);
        default:
                return error_set(reterr, -EPERM, "%s.%s is the policy's alone; a caller cannot set it",
                                policy_keys[key].section, policy_keys[key].name);
        }
}

/* Applies the assignment to p, whose value of that key is a copy of old. */
static int assign(Policy *p, PolicyKey key, const PolicyValue *old, const PolicyLine *l, Error **reterr)
{
        _cleanup_problems_ PolicyProblems problems = {};
        PolicyValue *v = p->values + key;
        bool first_cut = policy_keys[key].order == POLICY_ORDER_SUBSET && !set_by_caller(old);
        int r;

        if (first_cut) {
                v->l = strv_free(v->l);
                v->from = strv_free(v->from);
                v->set = false;
        }
        r = policy_assign(p, key, NULL, l, &problems);
        if (r >= 0)
                r = policy_problems_to_error(&problems, reterr);
        if (r < 0)
                return error_prefix(reterr, error_set(reterr, r, "out of memory"), "%s.%s=%s", l->section,
                                l->key, l->value);
        if (key == NETWORK_ALLOW)
                STRV_FOREACH(i, v->l)
                        if (**i == '@')
                                return error_set(reterr, -EINVAL,
                                                "Network.Allow=%s: a set can be named in a policy only; "
                                                "name the "
                                                "rules themselves",
                                                *i);
        /* An empty value has taken the bound away too. */
        strv_free(v->bound);
        v->bound = NULL;
        if (strv_copy(set_by_caller(old) ? old->bound : old->l, &v->bound) < 0)
                return error_set(reterr, -ENOMEM, "out of memory");
        return 0;
}

int policy_tighten(Policy *p, const char *assignment, bool may_widen, Error **reterr)
{
        PolicyLine l = {};
        _cleanup_ini_ PolicyIni owner = { .lines = NULL };
        _cleanup_(policy_value_done) PolicyValue old = {};
        int r, key;

        owner.lines = calloc(1, sizeof(PolicyLine));
        if (!owner.lines)
                return error_set(reterr, -ENOMEM, "out of memory");
        owner.n = 1;
        r = parse_assignment(assignment, owner.lines, reterr);
        if (r < 0)
                return r;
        l = owner.lines[0];
        key = find_key(&l, reterr);
        if (key < 0)
                return key;
        if (!may_widen && !policy_u64(p, ACCESS_TIGHTEN))
                return error_set(reterr, -EPERM,
                                "%s.%s=%s: the policy says [Access] Tighten=no, so callers run it as it is",
                                l.section, l.key, l.value);
        if (policy_value_copy(p->values + key, &old) < 0)
                return error_set(reterr, -ENOMEM, "out of memory");
        r = assign(p, key, &old, &l, reterr);
        if (r >= 0 && !may_widen)
                r = check_tightens(key, &old, p->values + key, reterr);
        if (r < 0) {
                policy_value_done(p->values + key);
                p->values[key] = old;
                old = (PolicyValue){};
        }
        return r;
}
