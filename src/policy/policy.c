/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <assert.h>
#include <errno.h>

#include "policy/policy-checks.h"
#include "policy/policy-keys.h"
#include "policy/policy-value.h"
#include "policy/policy.h"

Policy *policy_free(Policy *p)
{
        if (!p)
                return NULL;
        for (int k = 0; k < _POLICY_KEY_MAX; k++)
                policy_value_done(p->values + k);
        free(p->name);
        free(p);
        return NULL;
}

Policy *policy_new(const char *name)
{
        _cleanup_policy_ Policy *p = calloc(1, sizeof(*p));

        if (!p || !(p->name = strdup(name)))
                return NULL;
        for (int k = 0; k < _POLICY_KEY_MAX; k++)
                if (policy_value_reset(p->values + k, k) < 0)
                        return NULL;
        return TAKE_PTR(p);
}

uint64_t policy_u64(const Policy *p, PolicyKey key)
{
        assert(policy_keys[key].type != POLICY_TYPE_STRING && policy_keys[key].type != POLICY_TYPE_LIST);
        return p->values[key].u;
}

const char *policy_string(const Policy *p, PolicyKey key)
{
        assert(policy_keys[key].type == POLICY_TYPE_STRING);
        return p->values[key].s;
}

char *const *policy_list(const Policy *p, PolicyKey key)
{
        assert(policy_keys[key].type == POLICY_TYPE_LIST);
        return p->values[key].l;
}

bool policy_is_set(const Policy *p, PolicyKey key)
{
        return p->values[key].set;
}

bool policy_can_record_denied_calls(const Policy *p)
{
        char *const *deny = policy_list(p, SYSCALLS_DENY);

        return policy_u64(p, NETWORK_EGRESS) == EGRESS_FILTERED && !strv_contains(deny, "sendmsg") &&
               !strv_contains(deny, "@network");
}

bool policy_records_denied_calls(const Policy *p)
{
        return policy_u64(p, AUDIT_DENIED_SYSCALLS) != 0 && policy_can_record_denied_calls(p);
}

static bool names_variable(char *const *l, const char *name, size_t n)
{
        STRV_FOREACH(i, l)
                if (strncmp(*i, name, n) == 0 && ((*i)[n] == '=' || (*i)[n] == 0))
                        return true;
        return false;
}

int policy_check_env(const Policy *p, const char *variable, Error **reterr)
{
        size_t n = strcspn(variable, "="), offset;
        _cleanup_free_ char *name = strndup(variable, n);
        int r;

        if (!name)
                return error_set(reterr, -ENOMEM, "out of memory");
        r = policy_check_pass(name, &offset, NULL, reterr);
        if (r < 0)
                return r;
        if (n > 128)
                return error_set(reterr, -EINVAL, "the name of a variable has at most 128 bytes");
        if (policy_env_name_injects(name) && !names_variable(policy_list(p, ENVIRONMENT_SET), name, n) &&
                        !names_variable(policy_list(p, ENVIRONMENT_PASS), name, n))
                return error_set(reterr, -EPERM,
                                "%s makes programs run other code than they were built with; policy %s does "
                                "not "
                                "name it under [Environment] Pass= or Set=",
                                name, p->name);
        return 0;
}
