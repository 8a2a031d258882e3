/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "warden/address-gate.h"

/* The policy's own tables, which must be the warden's: it may not link policy, its test may. */
#include "policy/allow-metadata.c"

static const WardenSpec plain = {};

static EgressAddress parse(const char *text)
{
        EgressAddress a = { .family = strchr(text, ':') ? AF_INET6 : AF_INET };

        if (inet_pton(a.family, text, a.bytes) != 1)
                fail_msg("%s", text);
        return a;
}

static void expect(const char *text, const WardenSpec *spec, EgressReason strict, EgressReason allowed)
{
        EgressAddress a = parse(text);

        if (address_gate(&a, false, spec) != strict || address_gate(&a, true, spec) != allowed)
                fail_msg("%s: %s, with private=allow %s", text, egress_reason_to_string(address_gate(&a, false, spec)),
                                egress_reason_to_string(address_gate(&a, true, spec)));
        assert_int_equal(metadata_address(&a, spec), strict == EGRESS_METADATA);
}

/* Both edges of every range, and what is just outside. */
static void test_edges(void **state)
{
        static const struct {
                const char *in[2], *out[2]; /* out: "" where another row speaks of it */
                AddressClass class;
        } rows[] = {
                { { "0.0.0.0", "0.255.255.255" }, { "", "1.0.0.0" }, ADDRESS_NEVER },
                { { "10.0.0.0", "10.255.255.255" }, { "9.255.255.255", "11.0.0.0" }, ADDRESS_SPECIAL },
                { { "100.64.0.0", "100.127.255.255" }, { "100.63.255.255", "100.128.0.0" }, ADDRESS_SPECIAL },
                { { "127.0.0.0", "127.255.255.255" }, { "126.255.255.255", "128.0.0.0" }, ADDRESS_NEVER },
                { { "169.254.0.0", "169.254.255.255" }, { "169.253.255.255", "169.255.0.0" }, ADDRESS_METADATA },
                { { "172.16.0.0", "172.31.255.255" }, { "172.15.255.255", "172.32.0.0" }, ADDRESS_SPECIAL },
                { { "192.0.0.0", "192.0.0.255" }, { "191.255.255.255", "192.0.1.0" }, ADDRESS_SPECIAL },
                { { "192.0.2.0", "192.0.2.255" }, { "192.0.1.255", "192.0.3.0" }, ADDRESS_SPECIAL },
                { { "192.88.99.0", "192.88.99.255" }, { "192.88.98.255", "192.88.100.0" }, ADDRESS_SPECIAL },
                { { "192.168.0.0", "192.168.255.255" }, { "192.167.255.255", "192.169.0.0" }, ADDRESS_SPECIAL },
                { { "198.18.0.0", "198.19.255.255" }, { "198.17.255.255", "198.20.0.0" }, ADDRESS_SPECIAL },
                { { "198.51.100.0", "198.51.100.255" }, { "198.51.99.255", "198.51.101.0" }, ADDRESS_SPECIAL },
                { { "203.0.113.0", "203.0.113.255" }, { "203.0.112.255", "203.0.114.0" }, ADDRESS_SPECIAL },
                { { "224.0.0.0", "239.255.255.255" }, { "223.255.255.255", "" }, ADDRESS_NEVER },
                { { "240.0.0.0", "255.255.255.255" }, { "", "" }, ADDRESS_NEVER },
                { { "100.100.100.200", "100.100.100.200" }, { "", "" }, ADDRESS_METADATA },
                { { "168.63.129.16", "168.63.129.16" }, { "168.63.129.15", "168.63.129.17" }, ADDRESS_METADATA },
                { { "192.0.0.192", "192.0.0.192" }, { "", "" }, ADDRESS_METADATA },
                { { "100.100.100.199", "100.100.100.201" }, { "", "" }, ADDRESS_SPECIAL },
                { { "192.0.0.191", "192.0.0.193" }, { "", "" }, ADDRESS_SPECIAL },

                { { "::", "::1" }, { "", "" }, ADDRESS_NEVER },
                { { "::2", "::fffe:ffff:ffff" }, { "", "" }, ADDRESS_NEVER },
                { { "64:ff9a:ffff:ffff:ffff:ffff:ffff:ffff", "64:ff9b::1:0:0" }, { "", "" }, ADDRESS_NEVER },
                { { "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff" }, { "", "" }, ADDRESS_NEVER },
                { { "100::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" }, { "", "2000::" }, ADDRESS_NEVER },
                { { "2001:1::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff" },
                                { "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::" }, ADDRESS_SPECIAL },
                { { "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff" },
                                { "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::" }, ADDRESS_SPECIAL },
                { { "2002:100::", "2002:dfff:ffff::" }, { "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::" },
                                ADDRESS_SPECIAL },
                { { "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff" },
                                { "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::" }, ADDRESS_SPECIAL },
                { { "4000::", "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" },
                                { "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "" }, ADDRESS_NEVER },
                { { "5f00::", "5f00:ffff::1" }, { "", "" }, ADDRESS_NEVER },
                { { "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" }, { "", "" }, ADDRESS_SPECIAL },
                { { "fe00::", "fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff" }, { "", "" }, ADDRESS_NEVER },
                { { "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff" }, { "", "" }, ADDRESS_METADATA },
                { { "fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" }, { "", "" }, ADDRESS_NEVER },
                { { "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" }, { "", "" }, ADDRESS_NEVER },
                { { "fd00:ec2::254", "fd00:ec2::254" }, { "", "" }, ADDRESS_METADATA },
                { { "fd00:ec2::23", "fd00:ec2::23" }, { "", "" }, ADDRESS_METADATA },
                { { "fd20:ce::254", "fd20:ce::254" }, { "", "" }, ADDRESS_METADATA },
                { { "fd00:ec2::253", "fd00:ec2::255" }, { "", "" }, ADDRESS_SPECIAL },
                { { "fd00:ec2::22", "fd00:ec2::24" }, { "", "" }, ADDRESS_SPECIAL },
                { { "fd20:ce::253", "fd20:ce::255" }, { "", "" }, ADDRESS_SPECIAL },
        };
        static const EgressReason strict[] = { EGRESS_OK, EGRESS_ADDR_BLOCKED, EGRESS_ADDR_BLOCKED, EGRESS_METADATA };
        static const EgressReason allowed[] = { EGRESS_OK, EGRESS_OK, EGRESS_ADDR_BLOCKED, EGRESS_METADATA };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                for (size_t k = 0; k < 2; k++) {
                        expect(rows[i].in[k], &plain, strict[rows[i].class], allowed[rows[i].class]);
                        if (rows[i].out[k][0])
                                expect(rows[i].out[k], &plain, EGRESS_OK, EGRESS_OK);
                }
        expect("2606:4700:4700::1111", &plain, EGRESS_OK, EGRESS_OK);
        expect("8.8.8.8", &plain, EGRESS_OK, EGRESS_OK);
}

/* No row is without effect: an address of it has its class, one bit more or less of length would be seen above. */
static void test_table(void **state)
{
        for (size_t i = 0; i < n_address_rows; i++) {
                const AddressRow *row = address_rows + i;
                unsigned bits = row->family == AF_INET ? 32 : 128;

                assert_true(row->length <= bits);
                for (unsigned bit = row->length; bit < 128; bit++)
                        assert_false(row->prefix[bit / 8] & 0x80 >> bit % 8);
                for (size_t k = 0; k < i; k++)
                        assert_false(row->family == address_rows[k].family && row->length == address_rows[k].length &&
                                     memcmp(row->prefix, address_rows[k].prefix, 16) == 0);
                assert_true(strlen(row->source) > 0);
        }
        /* No family of ours: nowhere. */
        assert_int_equal(address_gate(&(EgressAddress){ AF_UNIX, {} }, true, &plain), EGRESS_ADDR_BLOCKED);
        assert_int_equal(address_gate(&(EgressAddress){ 0, { 8, 8, 8, 8 } }, true, &plain), EGRESS_ADDR_BLOCKED);
}

/* The IPv4 part once more, by arithmetic, for each /16 and the edges in it. */
static AddressClass naive_class(uint32_t a)
{
        static const struct {
                uint32_t first, last;
        } special[] = { { 0x0a000000, 0x0affffff }, { 0x64400000, 0x647fffff }, { 0xac100000, 0xac1fffff },
                { 0xc0000000, 0xc00000ff }, { 0xc0000200, 0xc00002ff }, { 0xc0586300, 0xc05863ff },
                { 0xc0a80000, 0xc0a8ffff }, { 0xc6120000, 0xc613ffff }, { 0xc6336400, 0xc63364ff },
                { 0xcb007100, 0xcb0071ff } };

        if (a >> 16 == 0xa9fe || a == 0x646464c8 || a == 0xa83f8110 || a == 0xc00000c0)
                return ADDRESS_METADATA;
        if (a >> 24 == 0 || a >> 24 == 127 || a >= 0xe0000000)
                return ADDRESS_NEVER;
        for (size_t i = 0; i < ELEMENTSOF(special); i++)
                if (a >= special[i].first && a <= special[i].last)
                        return ADDRESS_SPECIAL;
        return ADDRESS_GLOBAL;
}

static AddressClass gate_class(const EgressAddress *a, const WardenSpec *spec)
{
        switch (address_gate(a, false, spec)) {
        case EGRESS_OK:
                assert_int_equal(address_gate(a, true, spec), EGRESS_OK);
                return ADDRESS_GLOBAL;
        case EGRESS_METADATA:
                assert_int_equal(address_gate(a, true, spec), EGRESS_METADATA);
                return ADDRESS_METADATA;
        case EGRESS_ADDR_BLOCKED:
                return address_gate(a, true, spec) == EGRESS_OK ? ADDRESS_SPECIAL : ADDRESS_NEVER;
        default:
                fail();
                return ADDRESS_NEVER;
        }
}

static EgressAddress ipv4(uint32_t v)
{
        return (EgressAddress){ AF_INET, { (uint8_t) (v >> 24), (uint8_t) (v >> 16), (uint8_t) (v >> 8), (uint8_t) v } };
}

static void test_ipv4_all(void **state)
{
        static const uint16_t low[] = { 0, 0x00bf, 0x00c0, 0x00c1, 0x00ff, 0x0100, 0x01ff, 0x0200, 0x02ff, 0x0300, 0x6300,
                0x62ff, 0x63ff, 0x6400, 0x64c7, 0x64c8, 0x64c9, 0x64ff, 0x70ff, 0x7100, 0x71ff, 0x7200, 0x810f, 0x8110,
                0x8111, 0xffff };

        for (uint32_t high = 0; high < 0x10000; high++)
                for (size_t i = 0; i < ELEMENTSOF(low); i++) {
                        EgressAddress a = ipv4(high << 16 | low[i]);

                        if (gate_class(&a, &plain) != naive_class(high << 16 | low[i]))
                                fail_msg("%08x", high << 16 | low[i]);
                }
}

/* ---- IPv4 inside IPv6 */

/* One address of each kind. */
static const uint32_t samples[] = { 0x08080808, 0x0a000001, 0x64400001, 0x7f000001, 0xa9fea9fe, 0xa9feaa02, 0xa9feaa17,
        0x646464c8, 0xa83f8110, 0xc00000c0, 0xc0000201, 0xc6120001, 0xe0000001, 0xffffffff, 0x00000000, 0x01010101 };

static void put_ipv4(EgressAddress *a, const unsigned at[static 4], uint32_t v)
{
        for (unsigned i = 0; i < 4; i++)
                a->bytes[at[i]] = (uint8_t) (v >> (24 - 8 * i));
}

/* What an address of this form must be, if it carries v: no better than v, no better than its own range. */
static void expect_embedded(const char *base, const unsigned at[static 4], bool inverted, AddressClass own,
                const WardenSpec *spec)
{
        for (size_t i = 0; i < ELEMENTSOF(samples); i++) {
                EgressAddress a = parse(base);
                AddressClass inner = naive_class(samples[i]), want = MAX2(inner, own);
                char text[EGRESS_ADDRESS_TEXT_MAX];

                put_ipv4(&a, at, inverted ? ~samples[i] : samples[i]);
                egress_address_format(&a, text);
                if (gate_class(&a, spec) != want)
                        fail_msg("%s is %d, not %d", text, (int) gate_class(&a, spec), (int) want);
                assert_int_equal(metadata_address(&a, spec), inner == ADDRESS_METADATA);
        }
}

#define AT(...) ((const unsigned[4]){ __VA_ARGS__ })

static void test_embedded(void **state)
{
        expect_embedded("::ffff:0:0", AT(12, 13, 14, 15), false, ADDRESS_NEVER, &plain);
        expect_embedded("::", AT(12, 13, 14, 15), false, ADDRESS_NEVER, &plain);
        expect_embedded("::ffff:0:0:0", AT(12, 13, 14, 15), false, ADDRESS_NEVER, &plain);
        expect_embedded("64:ff9b::", AT(12, 13, 14, 15), false, ADDRESS_GLOBAL, &plain);
        expect_embedded("64:ff9b:1::", AT(6, 7, 9, 10), false, ADDRESS_NEVER, &plain);
        expect_embedded("64:ff9b:1:100::", AT(7, 9, 10, 11), false, ADDRESS_NEVER, &plain);
        expect_embedded("64:ff9b:1:1234::", AT(9, 10, 11, 12), false, ADDRESS_NEVER, &plain);
        expect_embedded("64:ff9b:1:1:0:1::", AT(12, 13, 14, 15), false, ADDRESS_NEVER, &plain);
        expect_embedded("2002::1", AT(2, 3, 4, 5), false, ADDRESS_SPECIAL, &plain);
        expect_embedded("2001:0:0808:0808:8000:63bf::", AT(12, 13, 14, 15), true, ADDRESS_SPECIAL, &plain);
        expect_embedded("2001::8000:63bf:f7f7:f7f7", AT(4, 5, 6, 7), false, ADDRESS_SPECIAL, &plain);
        for (unsigned universal = 0; universal < 4; universal++) {
                char base[64];

                snprintf(base, sizeof(base), "2a00:1450::%x:5efe:0:0", universal << 8);
                expect_embedded(base, AT(12, 13, 14, 15), false, ADDRESS_GLOBAL, &plain);
                snprintf(base, sizeof(base), "fd12:3456::%x:5efe:0:0", universal << 8);
                expect_embedded(base, AT(12, 13, 14, 15), false, ADDRESS_SPECIAL, &plain);
        }
        /* No ISATAP: another bit of the first byte, another second one. */
        expect("2a00:1450::400:5efe:a9fe:a9fe", &plain, EGRESS_OK, EGRESS_OK);
        expect("2a00:1450::201:5efe:a9fe:a9fe", &plain, EGRESS_OK, EGRESS_OK);
        /* The bits around Teredo's, and a neighbour of its prefix. */
        expect("2001:1::8000:63bf:5601:5601", &plain, EGRESS_ADDR_BLOCKED, EGRESS_OK);
}

/* The operator's NAT64 prefix in each length of RFC 6052, wherever it lies. */
static void test_nat64(void **state)
{
        static const struct {
                const char *prefix;
                uint8_t length;
                unsigned at[4];
                AddressClass without; /* of an address with 8.8.8.8, where nobody says that there is a translator */
        } rows[] = {
                { "2001:db8::", 32, { 4, 5, 6, 7 }, ADDRESS_SPECIAL },
                { "2a00:1450:9900::", 40, { 5, 6, 7, 9 }, ADDRESS_GLOBAL },
                { "2a00:1450:9999::", 48, { 6, 7, 9, 10 }, ADDRESS_GLOBAL },
                { "2a00:1450:9999:ff00::", 56, { 7, 9, 10, 11 }, ADDRESS_GLOBAL },
                { "fd00:1:2:3::", 64, { 9, 10, 11, 12 }, ADDRESS_SPECIAL },
                { "2a00:1450:9999::a:b:0:0", 96, { 12, 13, 14, 15 }, ADDRESS_GLOBAL },
                { "64:ff9b:1:fffe::", 96, { 12, 13, 14, 15 }, ADDRESS_NEVER },
                { "64:ff9b:1::", 48, { 6, 7, 9, 10 }, ADDRESS_NEVER },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                WardenSpec spec = { .has_nat64 = true, .nat64_length = rows[i].length };
                EgressAddress a = parse(rows[i].prefix);

                memcpy(spec.nat64, a.bytes, sizeof(spec.nat64));
                expect_embedded(rows[i].prefix, rows[i].at, false, ADDRESS_GLOBAL, &spec);
                put_ipv4(&a, rows[i].at, 0x08080808);
                assert_int_equal(gate_class(&a, &plain), rows[i].without);
                /* What is behind the address does not count, byte 8 must be zero. */
                if (rows[i].length < 96) {
                        a.bytes[15] ^= 0xff;
                        assert_int_equal(gate_class(&a, &spec), ADDRESS_GLOBAL);
                        a.bytes[8] = 1;
                        assert_int_equal(gate_class(&a, &spec), ADDRESS_NEVER);
                }
                /* The well-known one still counts, too. */
                expect_embedded("64:ff9b::", AT(12, 13, 14, 15), false, ADDRESS_GLOBAL, &spec);
        }
}

static void expect_carried(const char *text, const WardenSpec *spec, size_t n, const char *inner)
{
        EgressAddress a = parse(text), want = parse(inner), got[EGRESS_CARRIED_MAX];

        assert_int_equal(address_carried(&a, spec, got), n);
        for (size_t i = 0; i < n; i++)
                if (memcmp(got + i, &want, sizeof(want)) == 0)
                        return;
        assert_int_equal(n, 0);
}

/* What the caller has to ask the kernel about, too. */
static void test_carried(void **state)
{
        WardenSpec spec = { .has_nat64 = true, .nat64 = { 0x2a, 0, 0x14, 0x50, 0, 0x64 }, .nat64_length = 64 };

        expect_carried("8.8.4.4", &plain, 0, "::");
        expect_carried("2a00:1450::1", &plain, 0, "::");
        expect_carried("2a00:1450:64::808:404", &plain, 0, "::");
        expect_carried("2a00:1450:64::8:804:400:0", &spec, 1, "8.8.4.4");
        expect_carried("64:ff9b::808:404", &spec, 1, "8.8.4.4");
        expect_carried("::ffff:8.8.4.4", &plain, 1, "8.8.4.4");
        expect_carried("2002:808:404::1", &plain, 1, "8.8.4.4");
        expect_carried("2001:0:808:404:0:0:f7f7:fbfb", &plain, 2, "8.8.4.4");
        expect_carried("2001:0:909:909:0:0:f7f7:fbfb", &plain, 2, "8.8.4.4");
        expect_carried("2a00:1450::200:5efe:808:404", &plain, 1, "8.8.4.4");
        /* As many at once as there can be: four lengths, and an interface of ISATAP. */
        expect_carried("64:ff9b:1:0:200:5efe:808:404", &plain, 5, "8.8.4.4");
}

static void test_unmapped(void **state)
{
        EgressAddress a = parse("::ffff:192.0.2.1"), b = parse("192.0.2.1"), c;

        c = address_unmapped(&a);
        assert_memory_equal(&c, &b, sizeof(c));
        c = address_unmapped(&b);
        assert_memory_equal(&c, &b, sizeof(c));
        a = parse("::fffe:c000:201");
        c = address_unmapped(&a);
        assert_memory_equal(&c, &a, sizeof(c));
}

/* ---- the same as in policies */

static EgressAddress from_bits(PrefixFamily family, PrefixBits bits)
{
        EgressAddress a = { .family = family == PREFIX_IPV4 ? AF_INET : AF_INET6 };
        unsigned n = family == PREFIX_IPV4 ? 4 : 16;

        for (unsigned i = 0; i < n; i++)
                a.bytes[i] = (uint8_t) (bits >> (8 * (n - 1 - i)));
        return a;
}

static void expect_same_as_policy(PrefixFamily family, PrefixBits bits)
{
        Prefix p = { family, family == PREFIX_IPV4 ? 32 : 128, bits };
        EgressAddress a = from_bits(family, bits);
        char text[PREFIX_TEXT_MAX];

        prefix_format(&p, true, text);
        if (metadata_address(&a, &plain) != metadata_only(&p))
                fail_msg("%s: policy says %d", text, metadata_only(&p));
}

/* Every edge of every range of policy's, and of ours: inside in one, inside in the other. */
static void test_same_addresses(void **state)
{
        _cleanup_prefix_set_ PrefixSet set = {};

        assert_int_equal(metadata_prefixes(&set), 0);
        for (PrefixFamily f = 0; f < _PREFIX_FAMILY_MAX; f++) {
                PrefixBits mask = f == PREFIX_IPV4 ? UINT32_MAX : ~(PrefixBits) 0;

                assert_true(set.n[f] > 0);
                for (size_t i = 0; i < set.n[f]; i++) {
                        const PrefixRange *r = set.ranges[f] + i;
                        EgressAddress first = from_bits(f, r->first), last = from_bits(f, r->last);

                        assert_true(metadata_address(&first, &plain) && metadata_address(&last, &plain));
                        expect_same_as_policy(f, (r->first - 1) & mask);
                        expect_same_as_policy(f, (r->last + 1) & mask);
                }
        }
        for (size_t i = 0; i < n_address_rows; i++) {
                const AddressRow *row = address_rows + i;
                PrefixFamily f = row->family == AF_INET ? PREFIX_IPV4 : PREFIX_IPV6;
                unsigned bits = f == PREFIX_IPV4 ? 32 : 128;
                PrefixBits first = 0, size = (PrefixBits) 1 << (bits - row->length - (row->length == 0));

                for (unsigned k = 0; k < bits / 8; k++)
                        first = first << 8 | row->prefix[k];
                expect_same_as_policy(f, first);
                if (row->length == 0)
                        continue;
                expect_same_as_policy(f, first + size - 1);
                if (row->class == ADDRESS_METADATA)
                        assert_true(prefix_set_covers_prefix(&set, &(Prefix){ f, row->length, first }));
        }
}

/* IPv4 in IPv6 at every place, in each form and beside it: metadata to both or to none. */
static void test_same_embeddings(void **state)
{
        static const char *const bases[] = { "::", "::ffff:0:0", "::ffff:0:0:0", "64:ff9b::", "64:ff9b:1::", "2002::",
                "2001::", "2a00::5efe:0:0", "2a00::100:5efe:0:0", "2a00::200:5efe:0:0", "2a00::300:5efe:0:0",
                "2a00::400:5efe:0:0", "2a00::" };
        size_t found = 0;

        for (size_t i = 0; i < ELEMENTSOF(bases) * ELEMENTSOF(samples) * 2; i++)
                for (unsigned at = 0; at <= 12; at++)
                        for (unsigned gap = 0; gap < 4; gap++) {
                                uint32_t v = samples[i / 2 % ELEMENTSOF(samples)] ^ (i % 2 ? UINT32_MAX : 0);
                                EgressAddress a = parse(bases[i / 2 / ELEMENTSOF(samples)]);
                                PrefixBits bits = 0;

                                /* With one byte left out in between, or none. */
                                for (unsigned n = 0, to = at; n < 4; n++, to++) {
                                        to += gap > 0 && n == gap;
                                        if (to < 16)
                                                a.bytes[to] ^= (uint8_t) (v >> (24 - 8 * n));
                                }
                                for (unsigned n = 0; n < 16; n++)
                                        bits = bits << 8 | a.bytes[n];
                                expect_same_as_policy(PREFIX_IPV6, bits);
                                found += metadata_address(&a, &plain);
                        }
        assert_true(found > 100);
}

static void test_same_names(void **state)
{
        char below[300], alike[300];

        assert_int_equal(n_metadata_host_names, ELEMENTSOF(names));
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                assert_true(metadata_host_name(names[i]));
                assert_true(metadata_name(metadata_host_names[i]));
                snprintf(below, sizeof(below), "a.%s", names[i]);
                snprintf(alike, sizeof(alike), "a%s", names[i]);
                assert_true(metadata_host_name(below));
                assert_false(metadata_host_name(alike));
                assert_false(metadata_host_name(strchr(names[i], '.') ? strchr(names[i], '.') + 1 : ""));
        }
        assert_false(metadata_host_name(""));
        assert_false(metadata_host_name("metadata.google.internal.example"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_edges),
                cmocka_unit_test(test_table),
                cmocka_unit_test(test_ipv4_all),
                cmocka_unit_test(test_embedded),
                cmocka_unit_test(test_nat64),
                cmocka_unit_test(test_carried),
                cmocka_unit_test(test_unmapped),
                cmocka_unit_test(test_same_addresses),
                cmocka_unit_test(test_same_embeddings),
                cmocka_unit_test(test_same_names),
        };

        return cmocka_run_group_tests_name("address-gate", tests, NULL, NULL);
}
