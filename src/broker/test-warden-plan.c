/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/io.h"
#include "broker/warden-plan.h"
#include "broker/warden-unit.h"
#include "policy/policy-keys.h"
#include "warden/address-gate.h"

static WardenPlan plan_of(const char *const *rules, const char *config, const char *resolv_conf)
{
        _cleanup_policy_ Policy *p = policy_new("test");
        WardenPlan plan = {};
        HostConfig host = {};
        Error *e = NULL;

        assert_non_null(p);
        for (; rules && *rules; rules++)
                if (policy_tighten(p, *rules, true, &e) < 0)
                        fail_msg("%s", e->message);
        assert_int_equal(host_config_parse("test", config, strlen(config), &host, &e), 0);
        if (warden_plan_make(p, &host, resolv_conf, &plan, &e) < 0)
                fail_msg("%s", e->message);
        return plan;
}

#define RULES(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* ---- rules */

static void test_nothing_allowed(void **state)
{
        _cleanup_(warden_plan_done) WardenPlan p =
                        plan_of(NULL, "https_proxy=http://proxy.example:1", "nameserver 10.0.0.1\n");

        assert_int_equal(p.n_rules, 0);
        assert_false(p.resolves);
        assert_null(p.host.proxy_host);
        assert_null(p.allow);
        assert_int_equal(p.egress_bytes, UINT64_MAX);
        assert_int_equal(p.connections, WARDEN_CONNECTIONS_DEFAULT);
        assert_true(p.record_allowed);
        assert_true(prefixes_hold(p.deny, "10.0.0.1"));
}

static void test_processor_time(void **state)
{
        static const struct {
                const char *quota;
                uint32_t percent;
        } rows[] = { { "Limits.CPUQuota=1%", 50 }, { "Limits.CPUQuota=70%", 70 }, { "Limits.CPUQuota=100%", 100 }, { "Limits.CPUQuota=800%", 200 } };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_(warden_plan_done) WardenPlan p = plan_of(RULES(rows[i].quota), "", NULL);

                assert_int_equal(p.cpu_percent, rows[i].percent);
        }
}

static void test_rules(void **state)
{
        _cleanup_(warden_plan_done) WardenPlan p = plan_of(
                        RULES("Network.Allow=tls *.Example.org",
                                        "Network.Allow=http example.net:8080 private=allow",
                                        "Network.Allow=tcp [2001:db8::]/33:443",
                                        "Network.Allow=tcp 192.0.2.77:5432", "Network.EgressBytes=1M",
                                        "Network.Connections=7", "Audit.AllowedEgress=no"),
                        "", NULL);
        WardenSpec s = {};

        assert_int_equal(p.n_rules, 4);
        assert_int_equal(p.rules[0].kind, EGRESS_RULE_TLS);
        assert_string_equal(p.rules[0].text, "tls *.example.org");
        assert_string_equal(p.rules[0].name, "example.org");
        assert_true(p.rules[0].wildcard);
        assert_int_equal(p.rules[0].port, 443);
        assert_int_equal(p.rules[1].kind, EGRESS_RULE_HTTP);
        assert_int_equal(p.rules[1].port, 8080);
        assert_true(p.rules[1].private_allow);
        assert_int_equal(p.rules[2].kind, EGRESS_RULE_TCP_ADDRESS);
        assert_int_equal(p.rules[2].address.family, AF_INET6);
        assert_memory_equal(p.rules[2].address.bytes, ((uint8_t[16]){ 0x20, 0x01, 0x0d, 0xb8 }), 16);
        assert_int_equal(p.rules[2].prefix_length, 33);
        assert_string_equal(p.rules[2].name, "");
        assert_int_equal(p.rules[3].address.family, AF_INET);
        assert_memory_equal(p.rules[3].address.bytes, ((uint8_t[16]){ 192, 0, 2, 77 }), 16);
        assert_int_equal(p.rules[3].prefix_length, 32);
        assert_int_equal(p.rules[3].port, 5432);
        assert_true(p.resolves);
        assert_int_equal(p.egress_bytes, 1 << 20);
        assert_int_equal(p.connections, 7);
        assert_false(p.record_allowed);

        /* What it says is a message that the warden accepts. */
        s.run = s.policy = s.digest = s.unit = s.invocation_id = (char *) "x";
        warden_plan_to_spec(&p, &s);
        _cleanup_buf_ Buf b = {};
        WardenSpec again;

        assert_int_equal(wardenspec_encode(&s, &b), 0);
        assert_int_equal(wardenspec_decode(b.data, b.size, &again), 0);
        assert_int_equal(again.n_rules, 4);
        assert_string_equal(again.proxy_host, "");
        wardenspec_done(&again);
}

static void test_resolves(void **state)
{
        static const struct {
                const char *rule, *config;
                bool resolves;
        } rows[] = {
                { "Network.Allow=tcp 192.0.2.1:1", "", false },
                { "Network.Allow=tcp 192.0.2.1:1", "https_proxy=http://192.0.2.9:1", false },
                { "Network.Allow=tcp 192.0.2.1:1", "https_proxy=http://proxy.example:1", true },
                { "Network.Allow=tls example.org", "", true },
                { "Network.Allow=tls example.org", "https_proxy=http://192.0.2.9:1", true },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_(warden_plan_done) WardenPlan p =
                                plan_of(RULES(rows[i].rule), rows[i].config, NULL);

                assert_int_equal(p.resolves, rows[i].resolves);
        }
}

/* ---- name servers */

static void test_name_servers(void **state)
{
        static const struct {
                const char *text, *servers;
        } rows[] = {
                { NULL, "127.0.0.1" },
                { "", "127.0.0.1" },
                { "nameserver 127.0.0.53\noptions edns0\n", "127.0.0.53" },
                { "# nameserver 1.1.1.1\nsearch example\nnameserver\t10.0.0.2 # x\nnameserver "
                  "2001:db8::1\r\n",
                                "10.0.0.2,2001:db8::1" },
                { "nameserver fe80::1%eth0\n", "fe80::1" },
                { "nameserver 1.1.1.1\nnameserver 1.1.1.2\nnameserver 1.1.1.3\nnameserver 1.1.1.4\n",
                                "1.1.1.1,1.1.1.2,1.1.1.3" },
                { "nameservers 1.1.1.1\n nameserver 1.1.1.2\nnameserver 1.2.3\nnameserver 10.0.0.0/8\n",
                                "127.0.0.1" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_strv_ char **l = NULL;
                _cleanup_free_ char *joined = NULL;

                assert_int_equal(resolv_conf_servers(rows[i].text, &l), 0);
                joined = strv_join(l, ",");
                assert_string_equal(joined, rows[i].servers);
        }
}

static void test_allowed_all_the_same(void **state)
{
        static const struct {
                const char *rule, *config, *resolv_conf, *allow;
                bool metadata;
        } rows[] = {
                { "Network.Allow=tls example.org", "", "nameserver 127.0.0.53\n", "127.0.0.53/32", false },
                { "Network.Allow=tls example.org", "", "nameserver 8.8.8.8\n", "", false },
                { "Network.Allow=tls example.org", "", "nameserver 169.254.169.254\n", "169.254.169.254/32",
                                true },
                { "Network.Allow=tls example.org", "", "nameserver fd00:ec2::253\nnameserver fe80::1%lo\n",
                                "fd00:ec2::253/128,fe80::1/128", true },
                { "Network.Allow=tls example.org private=allow", "", "nameserver 10.0.0.2\n", "", false },
                { "Network.Allow=tls example.org", "https_proxy=http://127.0.0.1:1", "nameserver 8.8.8.8\n",
                                "127.0.0.1/32", false },
                { "Network.Allow=tls example.org", "https_proxy=http://10.0.0.9:1", "nameserver 10.0.0.9\n",
                                "10.0.0.9/32", false },
                { "Network.Allow=tcp 192.0.2.1:1", "", "nameserver 127.0.0.53\n", "", false },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_(warden_plan_done) WardenPlan p =
                                plan_of(RULES(rows[i].rule), rows[i].config, rows[i].resolv_conf);
                _cleanup_free_ char *joined = strv_join(p.allow, ",");

                assert_string_equal(joined ? joined : "", rows[i].allow);
                assert_int_equal(p.names_metadata, rows[i].metadata);
        }
}

/* ---- the second lock beside the first */

static void text_of(const EgressAddress *a, char ret[static INET6_ADDRSTRLEN])
{
        assert_non_null(inet_ntop(a->family, a->bytes, ret, INET6_ADDRSTRLEN));
}

/* The first and the last address of a range, and their neighbours outside. */
static EgressAddress edge(const AddressRow *row, unsigned which)
{
        EgressAddress a = { .family = row->family };
        unsigned bytes = row->family == AF_INET ? 4 : 16;
        bool last = which & 1;
        int step = !(which & 2) ? 0 : last ? 1 : -1;

        for (unsigned i = 0; i < bytes * 8; i++) {
                bool bit = i < row->length ? row->prefix[i / 8] >> (7 - i % 8) & 1 : last;

                a.bytes[i / 8] |= (uint8_t) (bit << (7 - i % 8));
        }
        for (unsigned i = bytes; i-- > 0 && step != 0;) {
                int v = a.bytes[i] + step;

                a.bytes[i] = (uint8_t) v;
                if (v >= 0 && v <= 255)
                        step = 0;
        }
        return a;
}

/* The IPv4 address as this translator writes it; RFC 6052, 2.2. */
static EgressAddress translated(const EgressAddress *ipv4, const uint8_t prefix[16], unsigned length)
{
        EgressAddress a = { .family = AF_INET6 };
        unsigned at = length / 8;

        memcpy(a.bytes, prefix, length / 8);
        for (unsigned i = 0; i < 4; i++, at++) {
                if (at == 8 && length < 96)
                        at++;
                a.bytes[at] = ipv4->bytes[i];
        }
        return a;
}

typedef void (*AddressCheck)(
                const WardenPlan *p, const WardenSpec *s, const EgressAddress *a, bool private_allowed);

static void each_address(const WardenPlan *p, bool private_allowed, AddressCheck check)
{
        static const uint8_t nat64[16] = { 0, 0x64, 0xff, 0x9b }, six_to_four[16] = { 0x20, 0x02 };
        WardenSpec s = {};

        warden_plan_to_spec(p, &s);
        for (size_t i = 0; i < n_address_rows; i++)
                for (unsigned which = 0; which < 4; which++) {
                        EgressAddress a = edge(address_rows + i, which), t;

                        check(p, &s, &a, private_allowed);
                        if (a.family != AF_INET)
                                continue;
                        t = translated(&a, nat64, 96);
                        check(p, &s, &t, private_allowed);
                        t = translated(&a, six_to_four, 16);
                        check(p, &s, &t, private_allowed);
                        if (!s.has_nat64)
                                continue;
                        t = translated(&a, s.nat64, s.nat64_length);
                        check(p, &s, &t, private_allowed);
                }
}

static void lets_through_what_the_gate_does(
                const WardenPlan *p, const WardenSpec *s, const EgressAddress *a, bool private_allowed)
{
        char text[INET6_ADDRSTRLEN];

        text_of(a, text);
        if (address_gate(a, private_allowed, s) == EGRESS_OK && prefixes_hold(p->deny, text))
                fail_msg("%s may be dialled, and is denied to the unit", text);
}

/* Beside 64:ff9b::/96 there are ranges that nobody has been given, and that the lock leaves to the gate. */
static bool is_nowhere(const EgressAddress *a)
{
        return a->family == AF_INET6 && a->bytes[0] == 0;
}

static void denies_what_the_gate_does(
                const WardenPlan *p, const WardenSpec *s, const EgressAddress *a, bool private_allowed)
{
        char text[INET6_ADDRSTRLEN];

        text_of(a, text);
        if (address_gate(a, private_allowed, s) != EGRESS_OK && !prefixes_hold(p->deny, text) &&
                        !is_nowhere(a))
                fail_msg("%s may not be dialled, and is open to the unit", text);
        if (address_gate(a, private_allowed, s) == EGRESS_METADATA && !prefixes_hold(p->deny, text))
                fail_msg("%s is a metadata service, and open to the unit", text);
}

static const char *const configs[] = { "", "nat64_prefix=2001:67c::/32", "nat64_prefix=2001:67c:1100::/40",
        "nat64_prefix=2001:67c:1::/48", "nat64_prefix=2001:67c:1:100::/56", "nat64_prefix=2001:67c:1:2::/64",
        "nat64_prefix=2001:67c:1:2::/96", "nat64_prefix=fd00:64::/96" };

static void test_lock_and_gate(void **state)
{
        static const struct {
                const char *rule;
                bool private_allowed;
        } rows[] = {
                { "Network.Allow=tls example.org", false },
                { "Network.Allow=tls example.org private=allow", true },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                for (size_t k = 0; k < ELEMENTSOF(configs); k++) {
                        _cleanup_(warden_plan_done) WardenPlan p =
                                        plan_of(RULES(rows[i].rule), configs[k], NULL);

                        each_address(&p, rows[i].private_allowed, lets_through_what_the_gate_does);
                        each_address(&p, rows[i].private_allowed, denies_what_the_gate_does);
                }
}

/* A rule opens what it names, and nothing beside it; what is never opened stays. */
static void test_lock_and_rules(void **state)
{
        _cleanup_(warden_plan_done) WardenPlan p =
                        plan_of(RULES("Network.Allow=tcp 10.1.0.0/16:1", "Network.Allow=tcp [fd00::]/16:1",
                                                "Network.Allow=tcp 100.64.0.0/10:1"),
                                        "", NULL);
        static const char *const open[] = { "10.1.0.0", "10.1.255.255", "fd00::1", "100.100.100.199",
                "8.8.8.8" };
        static const char *const closed[] = { "10.0.255.255", "10.2.0.0", "fd01::1", "fd00:ec2::254",
                "fd00:ec2::23", "100.100.100.200", "127.0.0.1", "169.254.169.254", "192.168.0.1", "::1",
                "0.0.0.0", "224.0.0.1", "255.255.255.255", "fe80::1", "ff02::1", "64:ff9b::7f00:1",
                "64:ff9b::a9fe:a9fe", "168.63.129.16", "2002:7f00:1::", "192.0.0.192" };

        for (size_t i = 0; i < ELEMENTSOF(open); i++)
                if (prefixes_hold(p.deny, open[i]))
                        fail_msg("%s is closed", open[i]);
        for (size_t i = 0; i < ELEMENTSOF(closed); i++)
                if (!prefixes_hold(p.deny, closed[i]))
                        fail_msg("%s is open", closed[i]);
}

/* Nothing that stands in a policy or in the configuration opens this host or a metadata service. */
static void test_never_opened(void **state)
{
        static const char *const never[] = { "127.0.0.1", "127.255.255.253", "169.254.169.254",
                "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "::1", "fe80::1",
                "0.0.0.0" };
        _cleanup_(warden_plan_done) WardenPlan p = plan_of(
                        RULES("Network.Allow=tls a.example private=allow", "Network.Allow=tcp 0.0.0.0/0:1",
                                        "Network.Allow=tcp [::]/0:1"),
                        "https_proxy=http://proxy.example:1\nnat64_prefix=fd00:64::/96",
                        "nameserver 8.8.8.8\n");

        for (size_t i = 0; i < ELEMENTSOF(never); i++) {
                assert_true(prefixes_hold(p.deny, never[i]));
                assert_false(prefixes_hold(p.allow, never[i]));
        }
}

/* ---- the unit */

static void test_props(void **state)
{
        _cleanup_(warden_plan_done) WardenPlan p = plan_of(NULL, "", NULL);
        _cleanup_(unit_props_done) UnitProps old = {}, new = {};
        WardenUnit w = { .systemd_version = 252, .description = "x", .root_directory = "/r", .plan = &p };
        char *binds[] = { (char *) "/a:/b", NULL };

        w.binds = binds;
        assert_int_equal(warden_props(&w, &old), 0);
        assert_null(unit_props_find(&old, "MemoryZSwapMax"));
        assert_null(unit_props_find(&old, "IPAddressAllow"));
        assert_int_equal(unit_props_find(&old, "LimitNOFILE")->u, 2 * WARDEN_CONNECTIONS_DEFAULT + 64);
        assert_string_equal(unit_props_find(&old, "BindReadOnlyPaths")->l[1], "/b");
        assert_int_equal(unit_props_find(&old, "MemoryMax")->u, UINT64_C(256) << 20);
        w.systemd_version = 257;
        /* The most that a policy may have is had: two sockets each, and the warden's own (agentbox-warden.c: OTHER_FDS). */
        p.connections = (uint32_t) policy_keys[NETWORK_CONNECTIONS].max;
        assert_int_equal(warden_props(&w, &new), 0);
        assert_non_null(unit_props_find(&new, "MemoryZSwapMax"));
        assert_non_null(unit_props_find(&new, "BindLogSockets"));
        assert_true(unit_props_find(&new, "LimitNOFILE")->u >= 2 * policy_keys[NETWORK_CONNECTIONS].max + 48);
        assert_int_equal(unit_props_find(&new, "LimitNOFILESoft")->u, unit_props_find(&new, "LimitNOFILE")->u);
        assert_int_equal(unit_props_find(&new, "MemoryMax")->u, UINT64_C(704) << 20);
}

static void test_props_are_once(void **state)
{
        for (size_t i = 0; i < n_warden_prop_rows; i++)
                for (size_t k = i + 1; k < n_warden_prop_rows; k++)
                        assert_string_not_equal(warden_prop_rows[i].name, warden_prop_rows[k].name);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_nothing_allowed),
                cmocka_unit_test(test_processor_time), cmocka_unit_test(test_rules),
                cmocka_unit_test(test_resolves),
                cmocka_unit_test(test_name_servers),
                cmocka_unit_test(test_allowed_all_the_same),
                cmocka_unit_test(test_lock_and_gate),
                cmocka_unit_test(test_lock_and_rules),
                cmocka_unit_test(test_never_opened),
                cmocka_unit_test(test_props),
                cmocka_unit_test(test_props_are_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
