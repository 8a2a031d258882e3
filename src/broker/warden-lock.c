/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>

#include "broker/warden-plan.h"
#include "policy/allow-rule.h"

/* IPAddressDeny= of the warden's unit: the kernel refuses what the warden's own gate (warden/address-gate.c)
 * refuses, so that a fault in one of them opens nothing. What the gate lets through is never denied here. */

#define NAME_SERVERS_MAX 3u /* as many as the C library takes */

/* Rules may open them. */
static const char *const special[] = {
        "10.0.0.0/8",
        "100.64.0.0/10",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "3fff::/20",
        "fc00::/7",
};

/* Nothing opens them: this host itself, link-local, metadata services, multicast, reserved; of IPv6 nearly
 * all that is not 2000::/3 (it is written so that 64:ff9b::/96, a translator's prefix, needs no hole cut
 * around it). */
static const char *const never[] = {
        "0.0.0.0/8",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "224.0.0.0/3",
        "100.100.100.200/32",
        "168.63.129.16/32",
        "192.0.0.192/32",
        "::/96",
        "::ffff:0:0/96",
        "::ffff:0:0:0/96",
        "64:ff9b:1::/48",
        "100::/8",
        "200::/7",
        "400::/6",
        "800::/5",
        "1000::/4",
        "4000::/2",
        "8000::/2",
        "c000::/3",
        "e000::/4",
        "f000::/5",
        "f800::/6",
        "fe00::/7",
        "fd00:ec2::254/128",
        "fd00:ec2::23/128",
        "fd20:ce::254/128",
};

/* Where a translator finds the IPv4 address in an IPv6 one. */
typedef struct Embedding {
        PrefixBits prefix;
        unsigned length; /* of it: 16, 32, 40, 48, 56, 64, 96 */
} Embedding;

static int add_texts(PrefixSet *set, const char *const *texts, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                Prefix p;
                int r = prefix_parse(texts[i], &p);

                if (r >= 0)
                        r = prefix_set_add(set, &p);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- what is denied */

static int remove_prefix(PrefixSet *set, const Prefix *p)
{
        _cleanup_prefix_set_ PrefixSet one = {};
        int r = prefix_set_add(&one, p);

        return r < 0 ? r : prefix_set_subtract(set, &one);
}

static Prefix rule_prefix(const EgressRule *rule)
{
        Prefix p = { .family = rule->address.family == AF_INET ? PREFIX_IPV4 : PREFIX_IPV6,
                .length = rule->prefix_length };

        for (unsigned i = 0; i < (p.family == PREFIX_IPV4 ? 4u : 16u); i++)
                p.address = p.address << 8 | rule->address.bytes[i];
        return p;
}

/* A name may resolve to any of them. A proxy's name may, too: the administrator named it. */
static bool opens_all(const WardenPlan *plan)
{
        Prefix p;

        for (uint32_t i = 0; i < plan->n_rules; i++)
                if (plan->rules[i].private_allow)
                        return true;
        return plan->host.proxy_host && prefix_parse(plan->host.proxy_host, &p) < 0;
}

static int add_special(const WardenPlan *plan, PrefixSet *set)
{
        int r = opens_all(plan) ? 0 : add_texts(set, special, ELEMENTSOF(special));

        for (uint32_t i = 0; r >= 0 && i < plan->n_rules; i++)
                if (plan->rules[i].kind == EGRESS_RULE_TCP_ADDRESS) {
                        Prefix p = rule_prefix(plan->rules + i);

                        r = remove_prefix(set, &p);
                }
        return r;
}

/* RFC 6052, 2.2: bits 64 to 71 are left out. A prefix that ends within the four bytes gives one prefix,
 * whichever side of those bits it ends on. */
static Prefix embed(const Embedding *e, const Prefix *p)
{
        Prefix out = { .family = PREFIX_IPV6, .length = e->length + p->length, .address = e->prefix };

        for (unsigned i = 0, at = e->length; i < p->length; i++, at++) {
                if (at == 64 && e->length < 96)
                        at += 8;
                if (p->address >> (31 - i) & 1)
                        out.address |= (PrefixBits) 1 << (127 - at);
                out.length = at + 1;
        }
        return out;
}

static int add_embedded(PrefixSet *set, const Embedding *e, char *const *ipv4)
{
        STRV_FOREACH(i, ipv4) {
                Prefix p, in;
                int r = prefix_parse(*i, &p);

                if (r >= 0 && p.family != PREFIX_IPV4)
                        continue;
                if (r >= 0) {
                        in = embed(e, &p);
                        r = prefix_set_add(set, &in);
                }
                if (r < 0)
                        return r;
        }
        return 0;
}

/* The operator's own prefix lies in any range; what is behind it alone counts. */
static int open_nat64(const WardenPlan *plan, PrefixSet *set, Embedding *ret)
{
        Prefix p = { .family = PREFIX_IPV6, .length = plan->host.nat64_length };

        for (unsigned i = 0; i < 16; i++)
                p.address = p.address << 8 | plan->host.nat64[i];
        *ret = (Embedding){ p.address, p.length };
        return remove_prefix(set, &p);
}

static int add_translated(const WardenPlan *plan, PrefixSet *set)
{
        Embedding embeddings[4] = {
                { (PrefixBits) 0x0064ff9b << 96, 96 }, /* NAT64 */
                { (PrefixBits) 0x2002 << 112, 16 },    /* 6to4 */
                { (PrefixBits) 0x20010000 << 96, 32 }, /* Teredo: its server; the client is no prefix's */
        };
        size_t n = 3;
        _cleanup_strv_ char **ipv4 = NULL;
        int r = prefix_set_to_strv(set, &ipv4); /* IPv4 first, and what stands behind it is left out */

        if (r >= 0 && plan->host.has_nat64)
                r = open_nat64(plan, set, embeddings + n++);
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = add_embedded(set, embeddings + i, ipv4);
        return r;
}

static int deny_set(const WardenPlan *plan, PrefixSet *ret)
{
        _cleanup_prefix_set_ PrefixSet set = {};
        int r = add_special(plan, &set);

        if (r >= 0)
                r = add_texts(&set, never, ELEMENTSOF(never));
        if (r >= 0)
                r = add_translated(plan, &set);
        if (r < 0)
                return r;
        *ret = set;
        set = (PrefixSet){};
        return 0;
}

int warden_lock_deny(const WardenPlan *plan, char ***ret)
{
        _cleanup_prefix_set_ PrefixSet set = {};
        int r = deny_set(plan, &set);

        return r < 0 ? r : prefix_set_to_strv(&set, ret);
}

/* ---- what is allowed all the same */

int resolv_conf_servers(const char *text, char ***ret)
{
        _cleanup_strv_ char **servers = NULL, **lines = NULL;
        int r = strv_split(text ? text : "", "\n", &lines);

        STRV_FOREACH(i, lines) {
                const char *rest = startswith(*i, "nameserver");
                _cleanup_free_ char *address = NULL;
                Prefix p;

                if (r < 0 || strv_length(servers) == NAME_SERVERS_MAX)
                        break;
                if (!rest || (*rest != ' ' && *rest != '\t'))
                        continue;
                rest += strspn(rest, " \t");
                /* A zone belongs to the interface, not to the address. */
                address = strndup(rest, strcspn(rest, " \t\r%#;"));
                if (!address)
                        return -ENOMEM;
                if (!strchr(address, '/') && prefix_parse(address, &p) == 0)
                        r = strv_extend(&servers, address);
        }
        if (r >= 0 && strv_length(servers) == 0)
                r = strv_extend(&servers, "127.0.0.1");
        if (r < 0)
                return r;
        *ret = TAKE_PTR(servers);
        return 0;
}

/* Only what is denied needs it. */
static int allow_one(const PrefixSet *denied, const char *address, char ***list)
{
        char text[PREFIX_TEXT_MAX];
        Prefix p;

        if (prefix_parse(address, &p) < 0 || !prefix_set_covers_prefix(denied, &p))
                return 0;
        prefix_format(&p, false, text);
        return strv_contains(*list, text) ? 0 : strv_extend(list, text);
}

int warden_lock_allow(const WardenPlan *plan, const char *resolv_conf, char ***ret, bool *ret_names_metadata)
{
        _cleanup_strv_ char **list = NULL, **servers = NULL;
        _cleanup_prefix_set_ PrefixSet denied = {}, metadata = {};
        bool names_metadata = false;
        int r = deny_set(plan, &denied);

        if (r >= 0)
                r = metadata_prefixes(&metadata);
        if (r >= 0 && plan->resolves)
                r = resolv_conf_servers(resolv_conf, &servers);
        STRV_FOREACH(i, servers) {
                Prefix p;

                if (r >= 0)
                        r = allow_one(&denied, *i, &list);
                names_metadata |= prefix_parse(*i, &p) == 0 && prefix_set_covers_prefix(&metadata, &p);
        }
        if (r >= 0 && plan->host.proxy_host)
                r = allow_one(&denied, plan->host.proxy_host, &list);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(list);
        *ret_names_metadata = names_metadata;
        return 0;
}

bool prefixes_hold(char *const *prefixes, const char *address)
{
        Prefix p, outer;

        if (prefix_parse(address, &p) < 0)
                return false;
        STRV_FOREACH(i, prefixes)
                if (prefix_parse(*i, &outer) == 0 && prefix_covers(&outer, &p))
                        return true;
        return false;
}
