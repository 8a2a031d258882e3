/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/strv.h"
#include "policy/allow-rule.h"
#include "policy/prefix-set.h"

static Prefix prefix(const char *s)
{
        Prefix p;

        assert_int_equal(prefix_parse(s, &p), 0);
        return p;
}

static void test_parse(void **state)
{
        static const struct {
                const char *text;
                int result;
                const char *formatted;
        } rows[] = {
                { "192.0.2.1", 0, "192.0.2.1" },
                { "192.0.2.1/32", 0, "192.0.2.1" },
                { "192.0.2.0/24", 0, "192.0.2.0/24" },
                { "0.0.0.0/0", 0, "0.0.0.0/0" },
                { "255.255.255.255", 0, "255.255.255.255" },
                { "2001:DB8::/32", 0, "2001:db8::/32" },
                { "::/0", 0, "::/0" },
                { "::1", 0, "::1" },
                { "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 0, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" },
                { "10.1.2.3/8", -ERANGE, "10.0.0.0/8" },
                { "2001:db8::1/32", -ERANGE, "2001:db8::/32" },
                { "", -EINVAL, NULL },
                { "10", -EINVAL, NULL },
                { "10.0.0", -EINVAL, NULL },
                { "010.0.0.1", -EINVAL, NULL },
                { "0x0a.0.0.1", -EINVAL, NULL },
                { "10.0.0.256", -EINVAL, NULL },
                { "10.0.0.0/33", -EINVAL, NULL },
                { "10.0.0.0/", -EINVAL, NULL },
                { "10.0.0.0/08", -EINVAL, NULL },
                { "10.0.0.0/ 8", -EINVAL, NULL },
                { "10.0.0.0/-1", -EINVAL, NULL },
                { "10.0.0.0/8/8", -EINVAL, NULL },
                { " 10.0.0.0/8", -EINVAL, NULL },
                { "::/129", -EINVAL, NULL },
                { ":::", -EINVAL, NULL },
                { "fe80::1%lo", -EINVAL, NULL },
                { "[::1]", -EINVAL, NULL },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                char text[PREFIX_TEXT_MAX];
                Prefix p = {};

                if (prefix_parse(rows[i].text, &p) != rows[i].result)
                        fail_msg("%s", rows[i].text);
                if (!rows[i].formatted)
                        continue;
                prefix_format(&p, true, text);
                assert_string_equal(text, rows[i].formatted);
        }
}

/* The reference: one bool an address, for 256 of them at some place of either family. */
typedef struct Model {
        Prefix base;
        bool in[256];
} Model;

static PrefixBits model_last(const Model *m)
{
        return m->base.address + 255;
}

static Prefix model_prefix(const Model *m, unsigned first, unsigned host_bits)
{
        return (Prefix){ m->base.family, (m->base.family == PREFIX_IPV4 ? 32 : 128) - host_bits,
                m->base.address + (first >> host_bits << host_bits) };
}

static void model_mark(Model *m, const Prefix *p, bool value)
{
        for (unsigned i = 0; i < 256; i++) {
                Prefix one = model_prefix(m, i, 0);

                if (prefix_covers(p, &one))
                        m->in[i] = value;
        }
}

/* The fewest prefixes, by halving: none where nothing is in, one where all is. */
static size_t model_fewest(const bool *in, size_t n)
{
        size_t count = 0;

        for (size_t i = 0; i < n; i++)
                count += in[i];
        if (count == 0)
                return 0;
        return count == n ? 1 : model_fewest(in, n / 2) + model_fewest(in + n / 2, n / 2);
}

static void compare(const PrefixSet *s, const Model *m)
{
        _cleanup_strv_ char **l = NULL;
        bool listed[256] = {};

        for (unsigned i = 0; i < 256; i++) {
                Prefix one = model_prefix(m, i, 0);

                assert_int_equal(prefix_set_covers_prefix(s, &one), m->in[i]);
        }
        assert_int_equal(prefix_set_to_strv(s, &l), 0);
        assert_int_equal(strv_length(l), model_fewest(m->in, 256));
        STRV_FOREACH(i, l) {
                Prefix p = prefix(*i);

                assert_true(p.address >= m->base.address && p.address <= model_last(m));
                for (unsigned a = 0; a < 256; a++) {
                        Prefix one = model_prefix(m, a, 0);

                        if (!prefix_covers(&p, &one))
                                continue;
                        assert_false(listed[a]); /* no overlap */
                        listed[a] = true;
                }
        }
        assert_memory_equal(listed, m->in, sizeof(listed));
}

static uint32_t random_state = 1;

static unsigned dice(unsigned n)
{
        random_state = random_state * 1664525u + 1013904223u;
        return (random_state >> 8) % n;
}

static void test_against_model(void **state)
{
        /* The ends of both address spaces are where arithmetic wraps. */
        static const char *const bases[] = { "0.0.0.0/24", "10.1.2.0/24", "255.255.255.0/24", "::/120",
                "2001:db8::/120", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00/120" };

        for (unsigned round = 0; round < 300; round++) {
                _cleanup_prefix_set_ PrefixSet s = {};
                Model m = { .base = prefix(bases[round % ELEMENTSOF(bases)]) };

                for (unsigned step = 0; step < 12; step++) {
                        Prefix p = model_prefix(&m, dice(256), dice(9));

                        if (dice(3) > 0) {
                                assert_int_equal(prefix_set_add(&s, &p), 0);
                                model_mark(&m, &p, true);
                        } else {
                                _cleanup_prefix_set_ PrefixSet cut = {};
                                Prefix q = model_prefix(&m, dice(256), dice(6));

                                assert_int_equal(prefix_set_add(&cut, &p), 0);
                                assert_int_equal(prefix_set_add(&cut, &q), 0);
                                assert_int_equal(prefix_set_subtract(&s, &cut), 0);
                                model_mark(&m, &p, false);
                                model_mark(&m, &q, false);
                                assert_false(prefix_set_covers(&s, &cut));
                        }
                        compare(&s, &m);
                }
        }
}

static void test_everything(void **state)
{
        _cleanup_prefix_set_ PrefixSet s = {}, all = {};
        _cleanup_strv_ char **l = NULL, **none = NULL;

        assert_int_equal(prefix_set_add_everything(&s), 0);
        assert_int_equal(prefix_set_add_everything(&all), 0);
        assert_int_equal(prefix_set_to_strv(&s, &l), 0);
        assert_int_equal(strv_length(l), 2);
        assert_string_equal(l[0], "0.0.0.0/0");
        assert_string_equal(l[1], "::/0");
        assert_int_equal(prefix_set_subtract(&s, &all), 0);
        assert_int_equal(prefix_set_to_strv(&s, &none), 0);
        assert_null(none);
        assert_true(prefix_set_covers(&all, &s));
        assert_false(prefix_set_covers(&s, &all));
}

static void test_metadata_apart(void **state)
{
        static const char *const never[] = {
                "169.254.169.254",
                "169.254.170.2",
                "169.254.170.23",
                "169.254.0.0",
                "169.254.255.255",
                "100.100.100.200",
                "168.63.129.16",
                "192.0.0.192",
                "fd00:ec2::254",
                "fd00:ec2::23",
                "fd20:ce::254",
                "fe80::",
                "fe80::a9fe:a9fe",
                "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                "64:ff9b::a9fe:a9fe",
                "2002:a9fe:a9fe::1",
        };
        static const char *const neighbours[] = {
                "169.253.255.255",
                "169.255.0.0",
                "100.100.100.199",
                "100.100.100.201",
                "168.63.129.15",
                "168.63.129.17",
                "192.0.0.191",
                "192.0.0.193",
                "fd00:ec2::253",
                "fd00:ec2::255",
                "fd00:ec2::22",
                "fd00:ec2::24",
                "fd20:ce::253",
                "fd20:ce::255",
                "fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                "fec0::",
                "0.0.0.0",
                "255.255.255.255",
                "::",
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        };
        _cleanup_prefix_set_ PrefixSet s = {}, metadata = {};

        assert_int_equal(prefix_set_add_everything(&s), 0);
        assert_int_equal(metadata_prefixes(&metadata), 0);
        assert_int_equal(prefix_set_subtract(&s, &metadata), 0);
        for (size_t i = 0; i < ELEMENTSOF(never); i++) {
                Prefix p = prefix(never[i]);

                if (prefix_set_covers_prefix(&s, &p) || !metadata_only(&p))
                        fail_msg("%s", never[i]);
        }
        for (size_t i = 0; i < ELEMENTSOF(neighbours); i++) {
                Prefix p = prefix(neighbours[i]);

                if (!prefix_set_covers_prefix(&s, &p) || metadata_only(&p))
                        fail_msg("%s", neighbours[i]);
        }
        /* The two together are everything again: nothing else was cut. */
        for (int f = 0; f < _PREFIX_FAMILY_MAX; f++) {
                PrefixBits sum = 0;

                for (size_t i = 0; i < s.n[f]; i++)
                        sum += s.ranges[f][i].last - s.ranges[f][i].first + 1;
                for (size_t i = 0; i < metadata.n[f]; i++)
                        sum += metadata.ranges[f][i].last - metadata.ranges[f][i].first + 1;
                assert_true(sum == (f == PREFIX_IPV4 ? (PrefixBits) 1 << 32 : 0)); /* 2^128 is 0 here */
        }
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_parse),
                cmocka_unit_test(test_against_model),
                cmocka_unit_test(test_everything),
                cmocka_unit_test(test_metadata_apart),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
