/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/macro.h"
#include "warden/decide.h"

#define S(s) ((char *) (s))
#define POOL 4096u

static EgressRule tls(const char *name, uint16_t port)
{
        return (EgressRule){ .kind = EGRESS_RULE_TLS, .text = S(name), .name = S(name), .port = port };
}

static EgressRule http(const char *name, uint16_t port)
{
        return (EgressRule){ .kind = EGRESS_RULE_HTTP, .text = S(name), .name = S(name), .port = port };
}

static EgressRule tcp(const char *name, uint16_t port)
{
        return (EgressRule){ .kind = EGRESS_RULE_TCP, .text = S(name), .name = S(name), .port = port };
}

static EgressRule below(EgressRule r)
{
        r.wildcard = true;
        return r;
}

static EgressAddress parse(const char *text)
{
        EgressAddress a = { .family = strchr(text, ':') ? AF_INET6 : AF_INET };

        if (inet_pton(a.family, text, a.bytes) != 1)
                fail_msg("%s", text);
        return a;
}

static EgressRule address(const char *text, unsigned length, uint16_t port)
{
        return (EgressRule){ .kind = EGRESS_RULE_TCP_ADDRESS, .text = S(text), .name = S(""), .address = parse(text),
                .prefix_length = (uint8_t) length, .port = port };
}

static WardenSpec spec_of(EgressRule *rules, size_t n)
{
        return (WardenSpec){ .rules = rules, .n_rules = (uint32_t) n, .connections = 1,
                .seed = { 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3 } };
}

static uint32_t low_bits(const EgressAddress *a)
{
        const uint8_t *p = a->bytes + (a->family == AF_INET ? 0 : 12);

        return ((uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | p[3]) & 0x1ffff;
}

static EgressReason connect_to(Decider *d, const EgressAddress *a, uint16_t port)
{
        EgressDecision decision;

        decider_connection(d, a, port, &decision);
        assert_int_equal(decision.reason == EGRESS_OK, decision.tls || decision.http || decision.tcp);
        return decision.reason;
}

static EgressReason connect_text(Decider *d, const char *text, uint16_t port)
{
        EgressAddress a = parse(text);

        return connect_to(d, &a, port);
}

static EgressAddress mapped(const EgressAddress *ipv4)
{
        EgressAddress a = { .family = AF_INET6, .bytes = { [10] = 0xff, 0xff } };

        memcpy(a.bytes + 12, ipv4->bytes, 4);
        return a;
}

static void test_reasons(void **state)
{
        assert_string_equal(egress_reason_to_string(EGRESS_OK), "");
        assert_string_equal(egress_reason_to_string(EGRESS_NO_RULE), "no-rule");
        assert_string_equal(egress_reason_to_string(EGRESS_DNS_TYPE), "dns-type");
        assert_string_equal(egress_reason_to_string(_EGRESS_REASON_MAX), "unknown");
        for (EgressReason i = 1; i < _EGRESS_REASON_MAX; i++)
                for (EgressReason k = 0; k < i; k++)
                        assert_string_not_equal(egress_reason_to_string(i), egress_reason_to_string(k));
}

static void test_format(void **state)
{
        static const char *const texts[] = { "192.0.2.1", "2001:db8::1", "255.255.255.255",
                "fd80:1111:1111:1111:1111:1111:1111:1111", "::" };
        char text[EGRESS_ADDRESS_TEXT_MAX] = "x";

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                EgressAddress a = parse(texts[i]);

                egress_address_format(&a, text);
                assert_string_equal(text, texts[i]);
        }
        egress_address_format(&(EgressAddress){}, text);
        assert_string_equal(text, "");
}

/* The rules of the case file. */
static void test_names(void **state)
{
        EgressRule rules[] = { tls("github.com", 443), below(tls("example.org", 443)), http("example.net", 80),
                address("192.0.2.77", 32, 5432) };
        static const char *const none[] = { "evilgithub.com", "github.com.evil.example", "gith.ub.com", "com", "ithub.com",
                "example.org", "org", "xexample.org", "a.example.net", "net", "evil.example", "a", "",
                "example.org.evil.example", "192.0.2.77" };
        static const char *const good[] = { "github.com", "example.net", "a.example.org", "a.b.example.org",
                "a_b.example.org", "example.org.example.org", "github.com.example.org" };
        WardenSpec spec = spec_of(rules, ELEMENTSOF(rules));
        _cleanup_(decider_freep) Decider *d = NULL;

        assert_int_equal(decider_new(&spec, &d), 0);
        for (size_t i = 0; i < ELEMENTSOF(none); i++) {
                EgressAddress a = { .family = 77 };

                assert_int_equal(decider_name(d, none[i], &a, NULL), EGRESS_NO_RULE);
                assert_int_equal(a.family, 77);
        }
        for (size_t round = 0; round < 2; round++)
                for (size_t i = 0; i < ELEMENTSOF(good); i++) {
                        EgressAddress ipv4, ipv6, again;

                        assert_int_equal(decider_name(d, good[i], NULL, NULL), EGRESS_OK);
                        assert_int_equal(decider_name(d, good[i], &ipv4, &ipv6), EGRESS_OK);
                        assert_int_equal(decider_name(d, good[i], &again, NULL), EGRESS_OK);
                        assert_memory_equal(&ipv4, &again, sizeof(again));
                        assert_int_equal(decider_name(d, good[i], NULL, &again), EGRESS_OK);
                        assert_memory_equal(&ipv6, &again, sizeof(again));
                        assert_int_equal(ipv4.family, AF_INET);
                        assert_int_equal(ipv4.bytes[0], 198);
                        assert_int_equal(ipv4.bytes[1] & 0xfe, 18);
                        assert_int_equal(ipv6.family, AF_INET6);
                        assert_int_equal(ipv6.bytes[0], 0xfd);
                        assert_true(ipv6.bytes[1] >= 0x80); /* neither the sandbox's own nor a cloud's */
                        assert_int_equal(ipv6.bytes[12], 0);
                        assert_true(ipv6.bytes[13] < 2);
                        assert_int_equal(low_bits(&ipv4), low_bits(&ipv6));
                        for (size_t k = 0; k < i; k++) {
                                decider_name(d, good[k], &again, NULL);
                                assert_true(low_bits(&again) != low_bits(&ipv4));
                        }
                }
}

static void test_metadata_names(void **state)
{
        EgressRule rules[] = { below(tls("internal", 443)), below(tls("google.internal", 443)), below(tls("goog", 443)) };
        WardenSpec spec = spec_of(rules, ELEMENTSOF(rules));
        _cleanup_(decider_freep) Decider *d = NULL;

        assert_int_equal(decider_new(&spec, &d), 0);
        assert_int_equal(decider_name(d, "metadata.google.internal", NULL, NULL), EGRESS_METADATA);
        assert_int_equal(decider_name(d, "x.metadata.google.internal", NULL, NULL), EGRESS_METADATA);
        assert_int_equal(decider_name(d, "metadata.goog", NULL, NULL), EGRESS_METADATA);
        assert_int_equal(decider_name(d, "instance-data", NULL, NULL), EGRESS_METADATA);
        assert_int_equal(decider_name(d, "other.google.internal", NULL, NULL), EGRESS_OK);
}

/* An address that was never given out, belongs to another run, or is around those that were. */
static void test_no_mapping(void **state)
{
        EgressRule rules[] = { tls("a.test", 443), tls("b.test", 443), below(tls("c.test", 443)) };
        WardenSpec spec = spec_of(rules, ELEMENTSOF(rules)), other = spec;
        _cleanup_(decider_freep) Decider *d = NULL, *e = NULL;
        EgressAddress ipv4, ipv6, a;

        other.seed[0]++, other.seed[15]++;
        assert_int_equal(decider_new(&spec, &d), 0);
        assert_int_equal(decider_new(&other, &e), 0);
        assert_int_equal(decider_name(e, "a.test", &ipv4, &ipv6), EGRESS_OK);
        assert_int_equal(connect_to(e, &ipv4, 443), EGRESS_OK);
        assert_int_equal(connect_to(d, &ipv4, 443), EGRESS_NO_MAPPING);
        assert_int_equal(connect_to(d, &ipv6, 443), EGRESS_NO_RULE); /* of another range: some private address */

        /* a.test is index 0: nothing is below; b.test follows, but nobody asked for it. */
        assert_int_equal(decider_name(d, "a.test", &ipv4, &ipv6), EGRESS_OK);
        assert_int_equal(connect_to(d, &ipv4, 443), EGRESS_OK);
        assert_int_equal(connect_to(d, &ipv6, 443), EGRESS_OK);
        for (int step = -1; step <= 3; step++) {
                EgressReason want = step == 0 ? EGRESS_OK : EGRESS_NO_MAPPING;

                a = ipv4, a.bytes[3] = (uint8_t) (a.bytes[3] + step);
                assert_int_equal(connect_to(d, &a, 443), want);
                a = ipv6, a.bytes[15] = (uint8_t) (a.bytes[15] + step);
                assert_int_equal(connect_to(d, &a, 443), want);
        }
        assert_int_equal(decider_name(d, "b.test", &a, NULL), EGRESS_OK);
        assert_int_equal(low_bits(&a), low_bits(&ipv4) + 1);
        assert_int_equal(connect_to(d, &a, 443), EGRESS_OK);
        assert_int_equal(decider_name(d, "x.c.test", NULL, NULL), EGRESS_OK); /* looked up, not given out */
        a.bytes[3]++;
        assert_int_equal(connect_to(d, &a, 443), EGRESS_NO_MAPPING);
        assert_int_equal(decider_name(d, "x.c.test", &a, NULL), EGRESS_OK);
        assert_int_equal(low_bits(&a), low_bits(&ipv4) + 2);
        assert_int_equal(connect_to(d, &a, 443), EGRESS_OK);

        assert_int_equal(connect_text(d, "198.18.0.0", 443), EGRESS_NO_MAPPING);
        assert_int_equal(connect_text(d, "198.19.255.255", 443), EGRESS_NO_MAPPING);
        assert_int_equal(connect_text(d, "198.17.255.255", 443), EGRESS_NO_RULE);
        assert_int_equal(connect_text(d, "198.20.0.0", 443), EGRESS_NO_RULE);
        /* The bits between the prefix and the index are part of the address. */
        a = ipv6, a.bytes[12] = 1;
        assert_int_equal(connect_to(d, &a, 443), EGRESS_NO_MAPPING);
        a = ipv6, a.bytes[13] |= 2;
        assert_int_equal(connect_to(d, &a, 443), EGRESS_NO_MAPPING);
        a = ipv6, a.bytes[11] ^= 1;
        assert_int_equal(connect_to(d, &a, 443), EGRESS_NO_RULE);
}

/* Every name's address lies in its range, whatever the seed is; the range's own first and last address are nobody's. */
static void test_seeds(void **state)
{
        EgressRule *rules = calloc(WARDENSPEC_RULES_MAX, sizeof(*rules));
        char(*names)[16] = calloc(WARDENSPEC_RULES_MAX, sizeof(*names));

        for (size_t i = 0; i < WARDENSPEC_RULES_MAX; i++) {
                snprintf(names[i], sizeof(names[i]), "n%zu.test", i);
                rules[i] = i == 0 ? below(tls("pool.test", 1)) : tls(names[i], 443);
        }
        for (unsigned round = 0; round < 40; round++) {
                WardenSpec spec = spec_of(rules, WARDENSPEC_RULES_MAX);
                _cleanup_(decider_freep) Decider *d = NULL;
                EgressAddress first, last, a;

                /* All zero, all one, and each bit of the last bytes alone. */
                memset(spec.seed, round == 1 ? 0xff : 0, sizeof(spec.seed));
                if (round >= 2)
                        spec.seed[15 - (round - 2) / 8] = (uint8_t) (1u << (round - 2) % 8);
                assert_int_equal(decider_new(&spec, &d), 0);
                assert_int_equal(decider_name(d, names[1], &first, NULL), EGRESS_OK);
                for (unsigned i = 0; i < POOL; i++) {
                        char name[32];

                        snprintf(name, sizeof(name), "%u.pool.test", i);
                        assert_int_equal(decider_name(d, name, &last, NULL), EGRESS_OK);
                }
                assert_true(low_bits(&first) >= 1 && low_bits(&last) < 0x1ffff);
                assert_int_equal(low_bits(&last) - low_bits(&first), WARDENSPEC_RULES_MAX - 1 + POOL - 1);
                assert_int_equal(connect_to(d, &last, 1), EGRESS_OK);
                a = last, a.bytes[3]++;
                assert_true(a.bytes[3] == 0 || connect_to(d, &a, 1) == EGRESS_NO_MAPPING);
        }
        free(names);
        free(rules);
}

/* What the addresses are made of: the seed's last five bytes give the base, the others the prefix. */
static void test_seed(void **state)
{
        EgressRule rules[] = { tls("a.test", 443) };
        WardenSpec spec = spec_of(rules, ELEMENTSOF(rules));
        EgressAddress before, ipv4, ipv6;

        memset(spec.seed, 0, sizeof(spec.seed));
        for (size_t i = 0; i <= WARDENSPEC_SEED_SIZE; i++) {
                _cleanup_(decider_freep) Decider *d = NULL;

                assert_int_equal(decider_new(&spec, &d), 0);
                assert_int_equal(decider_name(d, "a.test", &ipv4, &ipv6), EGRESS_OK);
                assert_int_equal(ipv6.bytes[1], spec.seed[0] | 0x80);
                assert_memory_equal(ipv6.bytes + 2, spec.seed + 1, 10);
                if (i == 0)
                        assert_int_equal(low_bits(&ipv4), 1);
                else if (i > 11)
                        assert_true(low_bits(&ipv4) != low_bits(&before));
                else
                        assert_int_equal(low_bits(&ipv4), low_bits(&before));
                before = ipv4;
                if (i < WARDENSPEC_SEED_SIZE)
                        spec.seed[i] = (uint8_t) (i + 1);
        }
}

/* As many rules of one kind as there may be: each is found, none beside them. */
static void test_many(void **state)
{
        EgressRule *rules = calloc(WARDENSPEC_RULES_MAX, sizeof(*rules));
        WardenSpec spec = spec_of(rules, WARDENSPEC_RULES_MAX);
        _cleanup_(decider_freep) Decider *d = NULL;
        EgressDecision e;

        for (unsigned i = 0; i < WARDENSPEC_RULES_MAX; i++) {
                rules[i] = address("10.0.0.0", 32, (uint16_t) (1 + i % 3));
                rules[i].address.bytes[1] = (uint8_t) (i / 3 >> 7);
                rules[i].address.bytes[2] = (uint8_t) (i / 3 << 1);
        }
        assert_int_equal(decider_new(&spec, &d), 0);
        for (unsigned i = 0; i < WARDENSPEC_RULES_MAX; i++) {
                EgressAddress a = rules[i].address;

                decider_connection(d, &a, rules[i].port, &e);
                assert_ptr_equal(e.tcp, rules + i);
                assert_int_equal(connect_to(d, &a, 4), EGRESS_PORT);
                a.bytes[2] |= 1;
                assert_int_equal(connect_to(d, &a, rules[i].port), EGRESS_NO_RULE);
        }
        free(rules);
}

static void test_pool(void **state)
{
        EgressRule rules[] = { tls("a.test", 443), below(tls("test", 443)), below(http("b.test", 80)) };
        WardenSpec spec = spec_of(rules, ELEMENTSOF(rules));
        _cleanup_(decider_freep) Decider *d = NULL;
        EgressAddress a, first;
        char name[256];

        assert_int_equal(decider_new(&spec, &d), 0);
        for (unsigned i = 0; i < POOL; i++) {
                /* Names as long as can be, in no order. */
                snprintf(name, sizeof(name), "%07u.%0*u.test", i * 7919 % 10007, 240, i);
                assert_int_equal(strlen(name), 253);
                assert_int_equal(decider_name(d, name, &a, NULL), EGRESS_OK);
                if (i == 0)
                        first = a;
                assert_int_equal(low_bits(&a), low_bits(&first) + i);
        }
        assert_int_equal(decider_name(d, "one.more.test", &a, NULL), EGRESS_LIMIT);
        assert_int_equal(decider_name(d, "x.b.test", &a, NULL), EGRESS_LIMIT);
        assert_int_equal(decider_name(d, "foreign.example", &a, NULL), EGRESS_NO_RULE);
        assert_int_equal(decider_name(d, "a.test", &a, NULL), EGRESS_OK);
        assert_int_equal(connect_to(d, &a, 443), EGRESS_OK);
        for (unsigned i = 0; i < POOL; i++) {
                EgressDecision decision;

                snprintf(name, sizeof(name), "%07u.%0*u.test", i * 7919 % 10007, 240, i);
                assert_int_equal(decider_name(d, name, &a, NULL), EGRESS_OK);
                assert_int_equal(low_bits(&a), low_bits(&first) + i);
                decider_connection(d, &a, 443, &decision);
                assert_int_equal(decision.reason, EGRESS_OK);
                assert_string_equal(decision.name, name);
        }
}

static void test_kinds_and_ports(void **state)
{
        EgressRule rules[] = { tls("a.test", 443), http("a.test", 443), tcp("a.test", 443), tls("a.test", 8443),
                tcp("b.test", 22), below(tls("test", 443)), below(http("test", 80)), below(tcp("b.test", 25)) };
        WardenSpec spec = spec_of(rules, ELEMENTSOF(rules));
        _cleanup_(decider_freep) Decider *d = NULL;
        EgressAddress a, b, six, in_six;
        EgressDecision e;

        assert_int_equal(decider_new(&spec, &d), 0);
        assert_int_equal(decider_name(d, "a.test", &a, &six), EGRESS_OK);
        decider_connection(d, &a, 443, &e);
        assert_true(e.tls == rules + 0 && e.http == rules + 1 && e.tcp == rules + 2);
        assert_string_equal(e.name, "a.test");
        decider_connection(d, &six, 8443, &e);
        assert_true(e.tls == rules + 3 && !e.http && !e.tcp);
        in_six = mapped(&a);
        decider_connection(d, &in_six, 80, &e);
        assert_true(!e.tls && e.http == rules + 6 && !e.tcp);
        decider_connection(d, &a, 22, &e);
        assert_true(e.reason == EGRESS_PORT && !e.tls && !e.http && !e.tcp);
        assert_string_equal(e.name, "a.test");
        assert_int_equal(connect_to(d, &a, 0), EGRESS_PORT);

        /* b.test: its own rule, and two of the wildcard around it, but not the one below it. */
        assert_int_equal(decider_name(d, "b.test", &b, NULL), EGRESS_OK);
        assert_int_equal(connect_to(d, &b, 22), EGRESS_OK);
        assert_int_equal(connect_to(d, &b, 443), EGRESS_OK);
        assert_int_equal(connect_to(d, &b, 80), EGRESS_OK);
        assert_int_equal(connect_to(d, &b, 25), EGRESS_PORT);
        /* Three labels: both wildcards, no rule of the name between. */
        assert_int_equal(decider_name(d, "x.b.test", &b, NULL), EGRESS_OK);
        assert_int_equal(connect_to(d, &b, 25), EGRESS_OK);
        assert_int_equal(connect_to(d, &b, 443), EGRESS_OK);
        assert_int_equal(connect_to(d, &b, 22), EGRESS_PORT);
}

/* Of several rules that fit, the one with most options, then the most specific, then the first. */
static void test_options(void **state)
{
        EgressRule rules[] = { tls("a.test", 443), below(tls("test", 443)), tls("b.a.test", 443), below(tls("a.test", 443)),
                below(tls("test", 443)), tls("c.test", 443), tls("c.test", 443) };
        WardenSpec spec = spec_of(rules, ELEMENTSOF(rules));
        _cleanup_(decider_freep) Decider *d = NULL;
        EgressAddress a;
        EgressDecision e;

        rules[1].ech_allow = true;
        rules[3].private_allow = true;
        assert_int_equal(decider_new(&spec, &d), 0);
        decider_name(d, "a.test", &a, NULL);
        decider_connection(d, &a, 443, &e);
        assert_ptr_equal(e.tls, rules + 1); /* wider, but says more */
        decider_name(d, "b.a.test", &a, NULL);
        decider_connection(d, &a, 443, &e);
        assert_ptr_equal(e.tls, rules + 3); /* as much as rules[1], and nearer */
        decider_name(d, "c.test", &a, NULL);
        decider_connection(d, &a, 443, &e);
        assert_ptr_equal(e.tls, rules + 1);
        rules[1].ech_allow = false;
        d = decider_free(d);
        assert_int_equal(decider_new(&spec, &d), 0);
        decider_name(d, "c.test", &a, NULL);
        decider_connection(d, &a, 443, &e);
        assert_ptr_equal(e.tls, rules + 5);
        decider_name(d, "d.test", &a, NULL);
        decider_connection(d, &a, 443, &e);
        assert_ptr_equal(e.tls, rules + 1);
}

static void test_literals(void **state)
{
        EgressRule rules[] = { address("192.0.2.77", 32, 5432), address("10.0.0.0", 8, 80), address("10.1.0.0", 16, 443),
                address("10.1.0.0", 16, 80), address("2001:db8::", 32, 22), address("2001:db8:1::", 47, 23),
                address("0.0.0.0", 0, 9), address("::", 0, 9), address("198.18.0.0", 15, 443) };
        WardenSpec spec = spec_of(rules, ELEMENTSOF(rules));
        _cleanup_(decider_freep) Decider *d = NULL;
        EgressAddress a;
        EgressDecision e;

        rules[5].address.bytes[5] = 0; /* 2001:db8::/47 */
        assert_int_equal(decider_new(&spec, &d), 0);
        assert_int_equal(connect_text(d, "192.0.2.77", 5432), EGRESS_OK);
        assert_int_equal(connect_text(d, "192.0.2.77", 5433), EGRESS_PORT);
        assert_int_equal(connect_text(d, "::ffff:192.0.2.77", 5432), EGRESS_OK);
        assert_int_equal(connect_text(d, "::192.0.2.77", 5432), EGRESS_PORT); /* ::/0 says port 9 */
        a = parse("10.1.2.3");
        decider_connection(d, &a, 80, &e);
        assert_true(e.reason == EGRESS_OK && e.tcp == rules + 3 && !e.tls && !e.http && !e.name);
        decider_connection(d, &a, 443, &e);
        assert_ptr_equal(e.tcp, rules + 2);
        a = parse("10.2.2.3");
        decider_connection(d, &a, 80, &e);
        assert_ptr_equal(e.tcp, rules + 1);
        assert_int_equal(connect_to(d, &a, 443), EGRESS_PORT);
        assert_int_equal(connect_text(d, "2001:db8:1:2::3", 23), EGRESS_OK);
        assert_int_equal(connect_text(d, "2001:db8:1:2::3", 22), EGRESS_OK);
        assert_int_equal(connect_text(d, "2001:db8:2::3", 23), EGRESS_PORT);
        assert_int_equal(connect_text(d, "8.8.8.8", 9), EGRESS_OK);
        assert_int_equal(connect_text(d, "8.8.8.8", 10), EGRESS_PORT);

        /* Whatever a prefix covers: what is no destination stays none, synthetic addresses have names. */
        assert_int_equal(connect_text(d, "169.254.169.254", 9), EGRESS_METADATA);
        assert_int_equal(connect_text(d, "::ffff:169.254.169.254", 9), EGRESS_METADATA);
        assert_int_equal(connect_text(d, "64:ff9b::a9fe:a9fe", 9), EGRESS_METADATA);
        assert_int_equal(connect_text(d, "fd00:ec2::254", 9), EGRESS_METADATA);
        assert_int_equal(connect_text(d, "100.100.100.200", 9), EGRESS_METADATA);
        assert_int_equal(connect_text(d, "168.63.129.16", 9), EGRESS_METADATA);
        assert_int_equal(connect_text(d, "192.0.0.192", 9), EGRESS_METADATA);
        assert_int_equal(connect_text(d, "127.0.0.1", 9), EGRESS_ADDR_BLOCKED);
        assert_int_equal(connect_text(d, "0.1.2.3", 9), EGRESS_ADDR_BLOCKED);
        assert_int_equal(connect_text(d, "240.0.0.1", 9), EGRESS_ADDR_BLOCKED);
        assert_int_equal(connect_text(d, "::1", 9), EGRESS_ADDR_BLOCKED);
        assert_int_equal(connect_text(d, "64:ff9b::7f00:1", 9), EGRESS_ADDR_BLOCKED);
        assert_int_equal(connect_text(d, "ff02::1", 9), EGRESS_ADDR_BLOCKED);
        assert_int_equal(connect_text(d, "198.18.1.1", 443), EGRESS_NO_MAPPING);
        assert_int_equal(connect_text(d, "10.0.0.1", 9), EGRESS_OK);
        assert_int_equal(connect_text(d, "64:ff9b::a00:1", 9), EGRESS_OK);
}

static void test_no_rules(void **state)
{
        WardenSpec spec = spec_of(NULL, 0);
        _cleanup_(decider_freep) Decider *d = NULL;

        assert_int_equal(decider_new(&spec, &d), 0);
        assert_int_equal(decider_name(d, "a.test", NULL, NULL), EGRESS_NO_RULE);
        assert_int_equal(connect_text(d, "1.2.3.4", 443), EGRESS_NO_RULE);
        assert_int_equal(connect_text(d, "169.254.169.254", 80), EGRESS_METADATA);
        assert_int_equal(connect_text(d, "fe80::1", 80), EGRESS_METADATA);
        assert_int_equal(connect_text(d, "198.18.0.1", 80), EGRESS_NO_MAPPING);
        assert_int_equal(connect_to(d, &(EgressAddress){}, 80), EGRESS_NO_RULE);
        spec.n_rules = WARDENSPEC_RULES_MAX + 1;
        assert_int_equal(decider_new(&spec, &d), -22);
}

/* ---- against a model that goes through all rules each time */

static uint32_t next_random(uint64_t *random)
{
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t) (*random >> 33);
}

/* Few labels and ports, so that rules meet. */
static void random_name(uint64_t *random, char ret[static 32])
{
        static const char *const labels[] = { "a", "b", "aa", "a-", "z0" }, *const tops[] = { "test", "a" };
        unsigned n = next_random(random) % 4;

        ret[0] = 0;
        for (unsigned i = 0; i < n; i++) {
                strcat(ret, labels[next_random(random) % 3]);
                strcat(ret, ".");
        }
        strcat(ret, tops[next_random(random) % 2]);
}

static EgressAddress random_address(uint64_t *random)
{
        EgressAddress a = { .family = next_random(random) % 2 ? AF_INET : AF_INET6 };

        a.bytes[0] = a.family == AF_INET ? 5 : 0x2a;
        for (unsigned i = 1; i < 4; i++)
                a.bytes[i] = (uint8_t) (next_random(random) % 4 * 0x55);
        return a;
}

static EgressRule random_rule(uint64_t *random, char name[static 32])
{
        uint16_t port = (uint16_t) (1 + next_random(random) % 3);
        EgressRule r = { .kind = next_random(random) % _EGRESS_RULE_KIND_MAX, .text = S("x"), .name = name, .port = port };

        if (r.kind == EGRESS_RULE_TCP_ADDRESS) {
                static const uint8_t lengths[] = { 0, 8, 9, 15, 16, 24, 31, 32 };

                name[0] = 0;
                r.address = random_address(random);
                r.prefix_length = lengths[next_random(random) % ELEMENTSOF(lengths)];
                for (unsigned bit = r.prefix_length; bit < 128; bit++)
                        r.address.bytes[bit / 8] &= (uint8_t) ~(0x80 >> bit % 8);
                r.peer_first = next_random(random) % 2;
                return r;
        }
        random_name(random, name);
        r.wildcard = next_random(random) % 2;
        r.private_allow = next_random(random) % 2;
        r.ech_allow = r.kind == EGRESS_RULE_TLS && next_random(random) % 2;
        return r;
}

static bool model_name_fits(const EgressRule *r, const char *name)
{
        size_t n = strlen(name), m = strlen(r->name);

        if (r->kind == EGRESS_RULE_TCP_ADDRESS)
                return false;
        if (!r->wildcard)
                return streq(name, r->name);
        return n > m + 1 && name[n - m - 1] == '.' && streq(name + n - m, r->name);
}

static bool model_address_fits(const EgressRule *r, const EgressAddress *a)
{
        if (r->kind != EGRESS_RULE_TCP_ADDRESS || r->address.family != a->family)
                return false;
        for (unsigned bit = 0; bit < r->prefix_length; bit++)
                if ((r->address.bytes[bit / 8] ^ a->bytes[bit / 8]) & 0x80 >> bit % 8)
                        return false;
        return true;
}

/* How good a rule is: its options, then exact before wildcard, then the longer name or prefix. */
static unsigned model_rank(const EgressRule *r)
{
        return ((unsigned) r->ech_allow + r->private_allow + r->peer_first) * 10000 + (r->wildcard ? 0 : 1000) +
               (unsigned) strlen(r->name) + r->prefix_length;
}

static void model_check(const WardenSpec *spec, const char *name, const EgressAddress *a, uint16_t port,
                const EgressDecision *got)
{
        const EgressRule *best[3] = {}; /* tls, http, tcp */
        bool any = false;

        for (uint32_t i = 0; i < spec->n_rules; i++) {
                const EgressRule *r = spec->rules + i, **place = best + MIN2((unsigned) r->kind, 2u);

                if (!(name ? model_name_fits(r, name) : model_address_fits(r, a)))
                        continue;
                any = true;
                if (r->port == port && (!*place || model_rank(r) > model_rank(*place)))
                        *place = r;
        }
        assert_ptr_equal(got->tls, best[0]);
        assert_ptr_equal(got->http, best[1]);
        assert_ptr_equal(got->tcp, best[2]);
        assert_int_equal(got->reason, best[0] || best[1] || best[2] ? EGRESS_OK : any ? EGRESS_PORT : EGRESS_NO_RULE);
}

static void model_ask(const WardenSpec *spec, Decider *d, const char *name, uint16_t port)
{
        EgressAddress ipv4, ipv6;
        EgressDecision four, six;
        bool listed = false;

        for (uint32_t i = 0; i < spec->n_rules; i++)
                listed = listed || model_name_fits(spec->rules + i, name);
        assert_int_equal(decider_name(d, name, NULL, NULL), listed ? EGRESS_OK : EGRESS_NO_RULE);
        assert_int_equal(decider_name(d, name, &ipv4, &ipv6), listed ? EGRESS_OK : EGRESS_NO_RULE);
        if (!listed)
                return;
        decider_connection(d, &ipv4, port, &four);
        decider_connection(d, &ipv6, port, &six);
        assert_ptr_equal(four.name, six.name);
        assert_string_equal(four.name, name);
        assert_true(four.reason == six.reason && four.tls == six.tls && four.http == six.http && four.tcp == six.tcp);
        model_check(spec, name, NULL, port, &four);
}

static void test_model(void **state)
{
        uint64_t random = 1;

        for (unsigned round = 0; round < 2000; round++) {
                EgressRule rules[24];
                char names[ELEMENTSOF(rules)][32], name[32];
                WardenSpec spec = spec_of(rules, next_random(&random) % (ELEMENTSOF(rules) + 1));
                _cleanup_(decider_freep) Decider *d = NULL;

                for (size_t i = 0; i < spec.n_rules; i++)
                        rules[i] = random_rule(&random, names[i]);
                assert_int_equal(decider_new(&spec, &d), 0);
                for (unsigned i = 0; i < 30; i++) {
                        uint16_t port = (uint16_t) (next_random(&random) % 5);
                        EgressAddress a = random_address(&random);
                        EgressDecision e;

                        random_name(&random, name);
                        model_ask(&spec, d, name, port);
                        decider_connection(d, &a, port, &e);
                        assert_null(e.name);
                        model_check(&spec, NULL, &a, port, &e);
                }
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_reasons),
                cmocka_unit_test(test_format),
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_metadata_names),
                cmocka_unit_test(test_no_mapping),
                cmocka_unit_test(test_seeds),
                cmocka_unit_test(test_seed),
                cmocka_unit_test(test_many),
                cmocka_unit_test(test_pool),
                cmocka_unit_test(test_kinds_and_ports),
                cmocka_unit_test(test_options),
                cmocka_unit_test(test_literals),
                cmocka_unit_test(test_no_rules),
                cmocka_unit_test(test_model),
        };

        return cmocka_run_group_tests_name("decide", tests, NULL, NULL);
}
