/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "policy/policy-keys.h"
#include "policy/policy-parse.h"
#include "policy/policy-value.h"
#include "policy/policy.h"

/* A refusal a line. */
static void refuse(Buf *b, const char *text, const char *why)
{
        buf_printf(b, "%s%s: %s", b->size > 0 ? "\n" : "", text, why);
}

static char *key_text(const Policy *p, PolicyKey key)
{
        const PolicyKeyInfo *k = policy_keys + key;
        _cleanup_free_ char *value = k->type == POLICY_TYPE_LIST ? strv_join(policy_list(p, key), ", ")
                                                                 : policy_value_format(key, p->values + key);
        char *s;

        return !value || asprintf(&s, "%s.%s=%s", k->section, k->name, value) < 0 ? NULL : s;
}

static bool is_default(const Policy *p, PolicyKey key)
{
        return policy_value_is_default(p->values + key, key);
}

/* "yes" by default means: where it can be. Whoever writes it wants it. */
static const char *records_without_force(const Policy *p)
{
        bool wanted = policy_u64(p, AUDIT_DENIED_SYSCALLS) != 0 && p->values[AUDIT_DENIED_SYSCALLS].source.file;

        if (!wanted || policy_can_record_denied_calls(p))
                return NULL;
        return policy_u64(p, NETWORK_EGRESS) == EGRESS_FILTERED
                               ? "what keeps the record is handed out of the run by sendmsg(), which Deny= refuses"
                               : "its record is kept by the run's warden, which Egress=filtered alone has";
}

/* NULL where the key, as it is set, has force in a service of this version; else why not. */
static const char *without_force(const Policy *p, PolicyKey key)
{
        if (key == AUDIT_DENIED_SYSCALLS)
                return records_without_force(p);
        if (key != NETWORK_ALLOW)
                return is_default(p, key) ? NULL : policy_keys[key].pending;
        STRV_FOREACH(i, policy_list(p, key))
                if (**i == '@')
                        return "the set is missing";
        return NULL;
}

/* NULL where a scope can carry the key as it is set; else why not. */
static const char *beyond_scope(const Policy *p, PolicyKey key)
{
        bool host_tree = streq(policy_string(p, FILES_ROOT), "/");
        uint64_t egress = policy_u64(p, NETWORK_EGRESS);

        if (key == FILES_WORKSPACE_STORE && policy_u64(p, key) == STORE_DISK)
                return "a scope's workspace is in memory";
        if (!policy_is_set(p, key) || policy_keys[key].by & POLICY_BY_SCOPE)
                return NULL;
        if (key == FILES_ROOT)
                return host_tree ? NULL
                                 : "a scope has no file tree of its own; only Root=/ says that none is "
                                   "wanted";
        if (key == NETWORK_EGRESS)
                return egress == EGRESS_OPEN || egress == EGRESS_ADDRESSES
                                       ? NULL
                                       : "a scope has no network of its own; it can carry Egress=addresses "
                                         "and open";
        /* Defaults that speak of the run's own file systems mean nothing where none are wanted. */
        if (host_tree && is_default(p, key) && !p->values[key].source.file)
                return NULL;
        return "a scope cannot enforce it";
}

int policy_check_enforceable(const Policy *p, bool scope, Error **reterr)
{
        _cleanup_problems_ PolicyProblems problems = {};
        _cleanup_buf_ Buf b = {};
        _cleanup_free_ char *all = NULL;
        int r;

        policy_check_consistent(p, &problems);
        r = policy_problems_to_error(&problems, reterr);
        if (r < 0)
                return r;
        for (int k = 0; k < _POLICY_KEY_MAX; k++) {
                _cleanup_free_ char *text = key_text(p, k);
                const char *why = without_force(p, k);

                if (!text)
                        return error_set(reterr, -ENOMEM, "out of memory");
                if (why)
                        refuse(&b, text, why);
                if (scope && (why = beyond_scope(p, k)))
                        refuse(&b, text, why);
                if (!scope && k == FILES_ROOT && streq(policy_string(p, k), "/"))
                        refuse(&b, text, "this is for --unit=scope alone");
        }
        if (b.error == 0 && b.size == 0)
                return 0;
        all = buf_take_string(&b);
        return error_set(reterr, all ? -EOPNOTSUPP : -ENOMEM, "%s", all ? all : "out of memory");
}
