/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdio.h>

#include "test-dns-harness.h"

/* Which names are answered, and with what. */

static const unsigned other_types[] = { NS, CNAME, SOA, NULL_, PTR, MX, TXT, SRV, OPT, DS, DNSKEY, TLSA, TSIG, IXFR, AXFR,
        ANY, CAA, 0, 65535 };

static void test_listed(void **state)
{
        static const char *const names[] = { "github.com", "GitHub.COM", "example.net", "a.example.org", "AZ.b.Example.oRg",
                "_a.example.org", "other.internal" };
        Decider *d = *state;

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                EgressAddress ipv4, ipv6;
                char lower[64] = {};
                DnsAnswer a;
                Parsed r;

                for (size_t k = 0; names[i][k]; k++)
                        lower[k] = (char) (names[i][k] >= 'A' && names[i][k] <= 'Z' ? names[i][k] + 32 : names[i][k]);
                r = ask_name(d, names[i], A, &a);
                assert_int_equal(a.reason, EGRESS_OK);
                assert_string_equal(a.name, lower);
                assert_int_equal(decider_name(d, lower, &ipv4, &ipv6), EGRESS_OK);
                assert_int_equal(r.address_size, 4);
                assert_memory_equal(r.address, ipv4.bytes, 4);
                r = ask_name(d, names[i], AAAA, &a);
                assert_int_equal(a.reason, EGRESS_OK);
                assert_int_equal(r.address_size, 16);
                assert_memory_equal(r.address, ipv6.bytes, 16);

                expect(d, names[i], HTTPS, NOERROR, EGRESS_OK);
                expect(d, names[i], SVCB, NOERROR, EGRESS_OK);
                for (size_t k = 0; k < ELEMENTSOF(other_types); k++)
                        expect(d, names[i], other_types[k], NOERROR, EGRESS_DNS_TYPE);
        }
}

static void test_foreign(void **state)
{
        static const char *const names[] = { "evil.example", "evilgithub.com", "github.com.evil.example", "gith.ub.com",
                "example.org", "www.github.com", "com", ".", "1.0.0.127.in-addr.arpa", "_dns.resolver.arpa",
                "xn--bcher-kva.example", "b\303\274cher.example.org", "a b.example.org", "a\x01.example.org",
                "*.example.org", "-a.example.org", "a-.example.org", "a.-.example.org", "notlocalhost" };
        static const unsigned types[] = { A, AAAA, HTTPS, SVCB };
        DnsAnswer a;

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                for (size_t k = 0; k < ELEMENTSOF(types); k++)
                        expect(*state, names[i], types[k], NXDOMAIN, EGRESS_NO_RULE);
                for (size_t k = 0; k < ELEMENTSOF(other_types); k++)
                        expect(*state, names[i], other_types[k], NXDOMAIN, EGRESS_NO_RULE);
        }
        expect(*state, "xn--bcher-kva.example.org", TXT, NOERROR, EGRESS_DNS_TYPE);
        ask_name(*state, ".", A, &a);
        assert_string_equal(a.name, ".");
        ask_name(*state, "a", A, &a);
        assert_string_equal(a.name, "a");
}

static void test_metadata(void **state)
{
        static const char *const names[] = { "metadata.google.internal", "Metadata.Google.Internal", "metadata.goog",
                "x.metadata.goog", "_x.metadata.goog", "a b.metadata.goog", "instance-data" };
        static const unsigned types[] = { A, AAAA, HTTPS, TXT, ANY };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                for (size_t k = 0; k < ELEMENTSOF(types); k++)
                        expect(*state, names[i], types[k], NXDOMAIN, EGRESS_METADATA);
}

static void test_localhost(void **state)
{
        static const char *const names[] = { "localhost", "LocalHost", "a.localhost", "a.b.localhost" };
        static const uint8_t four[] = { 127, 0, 0, 1 }, six[16] = { [15] = 1 };

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                DnsAnswer a;
                Parsed r = ask_name(*state, names[i], A, &a);

                assert_int_equal(a.reason, EGRESS_OK);
                assert_int_equal(r.address_size, 4);
                assert_memory_equal(r.address, four, 4);
                r = ask_name(*state, names[i], AAAA, &a);
                assert_int_equal(r.address_size, 16);
                assert_memory_equal(r.address, six, 16);
                expect(*state, names[i], TXT, NOERROR, EGRESS_OK);
        }
        expect(*state, "a b.localhost", A, NXDOMAIN, EGRESS_NO_RULE);
}

/* Another class than IN. */
static void test_class(void **state)
{
        static const struct {
                const char *name;
                EgressReason reason;
        } rows[] = { { "github.com", EGRESS_DNS_TYPE }, { "version.bind", EGRESS_NO_RULE }, { "localhost", EGRESS_NO_RULE },
                { "metadata.goog", EGRESS_METADATA } };
        static const unsigned classes[] = { 0, 2, CH, 4, 254, 255, 65535 };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                for (size_t k = 0; k < ELEMENTSOF(classes); k++)
                        for (unsigned type = A; type <= TXT; type += TXT - A) {
                                _cleanup_buf_ Buf b = {};
                                DnsAnswer a;
                                Parsed r;

                                put_header(&b, 0, 1, 0, 0, 0);
                                put_question(&b, rows[i].name, type, classes[k]);
                                r = ask(*state, &b, &a);
                                assert_int_equal(r.rcode, NXDOMAIN);
                                assert_int_equal(r.class, classes[k]);
                                assert_int_equal(r.address_size, 0);
                                assert_int_equal(a.reason, rows[i].reason);
                        }
}

static void test_pool(void **state)
{
        char name[64];
        DnsAnswer a;

        for (unsigned i = 0; i < 5000; i++) {
                snprintf(name, sizeof(name), "%u.t.example.org", i);
                ask_name(*state, name, TXT, &a);
                assert_int_equal(a.reason, EGRESS_DNS_TYPE);
                ask_name(*state, name, HTTPS, &a);
                assert_int_equal(a.reason, EGRESS_OK);
        }
        for (unsigned i = 0; i < 4096; i++) {
                snprintf(name, sizeof(name), "%u.a.example.org", i);
                assert_int_equal(ask_name(*state, name, A, &a).address_size, 4);
        }
        expect(*state, "one.more.example.org", A, NXDOMAIN, EGRESS_LIMIT);
        expect(*state, "one.more.example.org", TXT, NOERROR, EGRESS_DNS_TYPE);
        assert_int_equal(ask_name(*state, "github.com", AAAA, &a).address_size, 16);
        assert_int_equal(ask_name(*state, "7.a.example.org", AAAA, &a).address_size, 16);
}

int main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = {
                DNS_TEST(test_listed),
                DNS_TEST(test_foreign),
                DNS_TEST(test_metadata),
                DNS_TEST(test_localhost),
                DNS_TEST(test_class),
                DNS_TEST(test_pool),
        };

        return cmocka_run_group_tests_name("dns", tests, NULL, NULL);
}
