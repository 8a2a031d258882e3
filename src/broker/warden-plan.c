/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <netinet/in.h>

#include "broker/warden-plan.h"
#include "policy/allow-rule.h"

static void rule_done(EgressRule *r)
{
        free(r->text);
        free(r->name);
}

void warden_plan_done(WardenPlan *p)
{
        for (uint32_t i = 0; i < p->n_rules; i++)
                rule_done(p->rules + i);
        free(p->rules);
        host_config_done(&p->host);
        strv_free(p->deny);
        strv_free(p->allow);
        *p = (WardenPlan){};
}

static EgressAddress address_of(const Prefix *p)
{
        EgressAddress a = { .family = p->family == PREFIX_IPV4 ? AF_INET : AF_INET6 };
        unsigned n = p->family == PREFIX_IPV4 ? 4 : 16;

        for (unsigned i = 0; i < n; i++)
                a.bytes[i] = (uint8_t) (p->address >> (8 * (n - 1 - i)));
        return a;
}

static int rule_convert(const AllowRule *from, EgressRule *to)
{
        static const EgressRuleKind kinds[_ALLOW_KIND_MAX] = {
                [ALLOW_TLS] = EGRESS_RULE_TLS,
                [ALLOW_HTTP] = EGRESS_RULE_HTTP,
                [ALLOW_TCP] = EGRESS_RULE_TCP,
                [ALLOW_TCP_ADDRESS] = EGRESS_RULE_TCP_ADDRESS,
        };
        bool by_address = from->kind == ALLOW_TCP_ADDRESS;

        *to = (EgressRule){
                .kind = kinds[from->kind],
                .text = allow_rule_format(from),
                .name = strdup(by_address ? "" : from->name),
                .wildcard = from->wildcard,
                .port = from->port,
                .ech_allow = from->ech_allow,
                .private_allow = from->private_allow,
                .peer_first = from->peer_first,
        };
        if (by_address) {
                to->address = address_of(&from->prefix);
                to->prefix_length = (uint8_t) from->prefix.length;
        }
        return to->text && to->name ? 0 : -ENOMEM;
}

static int add_rules(const Policy *p, WardenPlan *plan, Error **reterr)
{
        char *const *list = policy_list(p, NETWORK_ALLOW);

        plan->rules = calloc(strv_length(list) + 1, sizeof(EgressRule));
        if (!plan->rules)
                return error_set(reterr, -ENOMEM, "out of memory");
        STRV_FOREACH(i, list) {
                AllowRule rule;
                size_t offset;
                int r = allow_rule_parse(*i, &rule, &offset, reterr);

                if (r < 0)
                        return r;
                if (rule.kind == ALLOW_ADDRESS || rule.kind == ALLOW_SET)
                        return error_set(reterr, -EOPNOTSUPP,
                                        "Network.Allow=%s has no force under Egress=filtered", *i);
                r = rule_convert(&rule, plan->rules + plan->n_rules++);
                if (r < 0)
                        return error_set(reterr, r, "out of memory");
        }
        return 0;
}

static bool is_name(const char *host)
{
        Prefix p;

        return prefix_parse(host, &p) < 0;
}

static bool must_resolve(const WardenPlan *p)
{
        for (uint32_t i = 0; i < p->n_rules; i++)
                if (p->rules[i].kind != EGRESS_RULE_TCP_ADDRESS)
                        return true;
        return p->host.proxy_host && is_name(p->host.proxy_host);
}

int warden_plan_make(
                const Policy *p, HostConfig *host, const char *resolv_conf, WardenPlan *ret, Error **reterr)
{
        _cleanup_(warden_plan_done) WardenPlan plan = {
                .egress_bytes = policy_is_set(p, NETWORK_EGRESS_BYTES) ? policy_u64(p, NETWORK_EGRESS_BYTES)
                                                                       : UINT64_MAX,
                .connections = policy_is_set(p, NETWORK_CONNECTIONS)
                                               ? (uint32_t) policy_u64(p, NETWORK_CONNECTIONS)
                                               : WARDEN_CONNECTIONS_DEFAULT,
                .cpu_percent = (uint32_t) MAX2(WARDEN_CPU_MIN, MIN2(WARDEN_CPU_MAX, policy_u64(p, LIMITS_CPU_QUOTA))),
                .record_allowed = policy_u64(p, AUDIT_ALLOWED_EGRESS) != 0,
                .host = *host,
        };
        int r;

        *host = (HostConfig){};
        r = add_rules(p, &plan, reterr);
        if (r < 0)
                return r;
        if (plan.n_rules == 0) {
                free(plan.host.proxy_host);
                plan.host.proxy_host = NULL;
                plan.host.proxy_port = 0;
        }
        plan.resolves = must_resolve(&plan);
        r = warden_lock_deny(&plan, &plan.deny);
        if (r >= 0)
                r = warden_lock_allow(&plan, resolv_conf, &plan.allow, &plan.names_metadata);
        if (r < 0)
                return error_set(reterr, r, "cannot work out which addresses the warden may reach: %s",
                                strerror(-r));
        *ret = plan;
        plan = (WardenPlan){};
        return 0;
}

void warden_plan_to_spec(const WardenPlan *p, WardenSpec *ret)
{
        ret->rules = p->rules;
        ret->n_rules = p->n_rules;
        ret->egress_bytes = p->egress_bytes;
        ret->connections = p->connections;
        ret->record_allowed = p->record_allowed;
        ret->proxy_host = p->host.proxy_host ? p->host.proxy_host : (char *) "";
        ret->proxy_port = p->host.proxy_port;
        ret->has_nat64 = p->host.has_nat64;
        memcpy(ret->nat64, p->host.nat64, sizeof(ret->nat64));
        ret->nat64_length = p->host.nat64_length;
}
