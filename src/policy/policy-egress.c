/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "policy/allow-rule.h"
#include "policy/policy-keys.h"
#include "policy/policy.h"
#include "policy/prefix-set.h"

static int add_rules(const Policy *p, PrefixSet *set, Error **reterr)
{
        STRV_FOREACH(i, policy_list(p, NETWORK_ALLOW)) {
                AllowRule rule;
                size_t offset;
                int r = allow_rule_parse(*i, &rule, &offset, reterr);

                if (r < 0)
                        return r;
                if (rule.kind != ALLOW_ADDRESS)
                        return error_set(reterr, -EINVAL,
                                        "Network.Allow=%s: Egress=addresses takes addresses and prefixes "
                                        "only",
                                        *i);
                if (prefix_set_add(set, &rule.prefix) < 0)
                        return error_set(reterr, -ENOMEM, "out of memory");
        }
        return 0;
}

int policy_ip_allow_list(const Policy *p, char ***ret, Error **reterr)
{
        _cleanup_prefix_set_ PrefixSet set = {}, metadata = {};
        uint64_t egress = policy_u64(p, NETWORK_EGRESS);
        int r;

        if (egress == EGRESS_OPEN)
                r = prefix_set_add_everything(&set);
        else if (egress == EGRESS_ADDRESSES)
                r = add_rules(p, &set, reterr);
        else
                return error_set(reterr, -EINVAL, "Network.Egress=%s has no list of addresses",
                                policy_keys[NETWORK_EGRESS].names[egress]);
        if (r >= 0)
                r = metadata_prefixes(&metadata);
        if (r >= 0)
                r = prefix_set_subtract(&set, &metadata);
        if (r >= 0)
                r = prefix_set_to_strv(&set, ret);
        return r < 0 ? error_set(reterr, r, "out of memory") : 0;
}
