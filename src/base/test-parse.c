/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/parse.h"

#define S UINT64_C(1000000)

typedef struct Row {
        const char *text;
        int result;
        uint64_t value;
} Row;

static void check(int (*parse)(const char *, uint64_t *), const Row *rows, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                uint64_t v = 0xdead;
                int r = parse(rows[i].text, &v);

                if (r != rows[i].result || v != (r < 0 ? 0xdead : rows[i].value))
                        fail_msg("\"%s\": %d, %llu", rows[i].text, r, (unsigned long long) v);
        }
}

static void test_u64(void **state)
{
        static const Row rows[] = {
                { "0", 0, 0 }, { "007", 0, 7 }, { "18446744073709551615", 0, UINT64_MAX },
                { "18446744073709551616", -ERANGE, 0 }, { "99999999999999999999999", -ERANGE, 0 },
                { "", -EINVAL, 0 }, { "-1", -EINVAL, 0 }, { "+1", -EINVAL, 0 }, { " 1", -EINVAL, 0 },
                { "1 ", -EINVAL, 0 }, { "1\n", -EINVAL, 0 }, { "0x10", -EINVAL, 0 }, { "1.0", -EINVAL, 0 },
                { "\xd9\xa1", -EINVAL, 0 }, /* a digit elsewhere */
        };

        check(parse_u64, rows, ELEMENTSOF(rows));
}

static void test_size(void **state)
{
        static const Row rows[] = {
                { "0", 0, 0 },
                { "4096", 0, 4096 },
                { "1B", 0, 1 },
                { "64K", 0, 65536 },
                { "256M", 0, 256 << 20 },
                { "2G", 0, UINT64_C(2) << 30 },
                { "15E", 0, UINT64_C(15) << 60 },
                { "16E", -ERANGE, 0 },
                { "18446744073709551615K", -ERANGE, 0 },
                { "1k", -EINVAL, 0 },
                { "1KB", -EINVAL, 0 },
                { "1KiB", -EINVAL, 0 },
                { "1 K", -EINVAL, 0 },
                { "K", -EINVAL, 0 },
                { "1.5G", -EINVAL, 0 },
                { "-1G", -EINVAL, 0 },
                { "infinity", -EINVAL, 0 },
                { "1G1M", -EINVAL, 0 },
        };

        check(parse_size, rows, ELEMENTSOF(rows));
}

static void test_usec(void **state)
{
        static const Row rows[] = {
                { "0", 0, 0 },
                { "90", 0, 90 * S },
                { "90s", 0, 90 * S },
                { "5min", 0, 300 * S },
                { "5m", 0, 300 * S },
                { "1h 30min", 0, 5400 * S },
                { "1h30min", 0, 5400 * S },
                { "250ms", 0, 250000 },
                { "7us", 0, 7 },
                { "2d", 0, 172800 * S },
                { "1w", 0, 604800 * S },
                { "2weeks 1day 3hours 4minutes 5seconds 6msec 7usec", 0,
                                (2 * 604800 + 86400 + 3 * 3600 + 245) * S + 6007 },
                { "30500568w", 0, UINT64_C(30500568) * 604800 * S },
                { "30500569w", -ERANGE, 0 },
                { "30500568w 30500568w", -ERANGE, 0 },
                { "", -EINVAL, 0 },
                { "s", -EINVAL, 0 },
                { "5 s", -EINVAL, 0 },
                { "1h  30min", -EINVAL, 0 },
                { " 1h", -EINVAL, 0 },
                { "1h ", -EINVAL, 0 },
                { "1h\t1s", -EINVAL, 0 },
                { "1.5s", -EINVAL, 0 },
                { "-1s", -EINVAL, 0 },
                { "1S", -EINVAL, 0 },
                { "1y", -EINVAL, 0 },
                { "infinity", -EINVAL, 0 },
        };

        check(parse_usec, rows, ELEMENTSOF(rows));
}

static void test_percent(void **state)
{
        static const Row rows[] = {
                { "1%", 0, 1 },
                { "150%", 0, 150 },
                { "0%", -ERANGE, 0 },
                { "18446744073709551616%", -ERANGE, 0 },
                { "150", -EINVAL, 0 },
                { "%", -EINVAL, 0 },
                { "1.5%", -EINVAL, 0 },
                { "1%%", -EINVAL, 0 },
                { "1 %", -EINVAL, 0 },
                { "-1%", -EINVAL, 0 },
        };

        check(parse_percent, rows, ELEMENTSOF(rows));
}

static void test_bool(void **state)
{
        static const struct {
                const char *text;
                int result, value;
        } rows[] = {
                { "yes", 0, 1 },
                { "true", 0, 1 },
                { "on", 0, 1 },
                { "1", 0, 1 },
                { "no", 0, 0 },
                { "false", 0, 0 },
                { "off", 0, 0 },
                { "0", 0, 0 },
                { "", -EINVAL, -7 },
                { "Yes", -EINVAL, -7 },
                { "yes ", -EINVAL, -7 },
                { "2", -EINVAL, -7 },
                { "y", -EINVAL, -7 },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                int v = -7;

                assert_int_equal(parse_bool(rows[i].text, &v), rows[i].result);
                assert_int_equal(v, rows[i].value);
        }
}

static void test_format(void **state)
{
        static const struct {
                char *(*format)(uint64_t);
                uint64_t value;
                const char *text;
        } rows[] = {
                { format_size, 0, "0" },
                { format_size, 1, "1" },
                { format_size, 1023, "1023" },
                { format_size, 1024, "1K" },
                { format_size, 256 << 20, "256M" },
                { format_size, (256 << 20) + 1, "268435457" },
                { format_size, UINT64_MAX, "18446744073709551615" },
                { format_size, UINT64_C(1) << 60, "1E" },
                { format_usec, 0, "0" },
                { format_usec, 1, "1us" },
                { format_usec, 1500, "1500us" },
                { format_usec, 250000, "250ms" },
                { format_usec, 60 * S, "60s" },
                { format_usec, 90 * S, "90s" },
                { format_usec, 300 * S, "5min" },
                { format_usec, 5400 * S, "90min" },
                { format_usec, 3600 * S, "1h" },
                { format_usec, 604800 * S, "1w" },
                { format_usec, UINT64_MAX, "18446744073709551615us" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_free_ char *s = rows[i].format(rows[i].value);

                assert_string_equal(s, rows[i].text);
        }
}

/* What is printed parses back to the same. */
static void test_round_trip(void **state)
{
        for (unsigned bit = 0; bit < 64; bit++)
                for (int off = -1; off <= 1; off++) {
                        uint64_t v = (UINT64_C(1) << bit) + (uint64_t) off, back;
                        _cleanup_free_ char *size = format_size(v), *usec = format_usec(v);

                        assert_int_equal(parse_size(size, &back), 0);
                        assert_true(back == v);
                        assert_int_equal(parse_usec(usec, &back), 0);
                        assert_true(back == v);
                }
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_u64),
                cmocka_unit_test(test_size),
                cmocka_unit_test(test_usec),
                cmocka_unit_test(test_percent),
                cmocka_unit_test(test_bool),
                cmocka_unit_test(test_format),
                cmocka_unit_test(test_round_trip),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
