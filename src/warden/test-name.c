/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "warden/warden-name.h"

/* A span of a piece of memory that ends with it. */
static ByteSpan span(const void *p, size_t n)
{
        uint8_t *copy = test_malloc(MAX2(n, (size_t) 1));

        memcpy(copy, p, n);
        return (ByteSpan){ copy, n };
}

static void span_done(ByteSpan s)
{
        test_free((void *) s.p);
}

static bool is(const char *bytes, size_t n, const char *text)
{
        ByteSpan s = span(bytes, n);
        bool same = span_is(s, text);

        span_done(s);
        return same;
}

static void test_is(void **state)
{
        assert_true(is("a.b", 3, "a.b"));
        assert_true(is("A.B-9", 5, "a.b-9"));
        assert_true(is("", 0, ""));
        assert_false(is("a.b", 2, "a.b"));
        assert_false(is("a.b", 3, "a."));
        assert_false(is("a\0", 2, "a"));
        assert_false(is("a\0b", 3, "a"));
        assert_false(is("a", 1, ""));
        assert_false(is("", 0, "a"));
        /* Only letters have another case: what differs from a text's byte in 0x20 alone is another byte. */
        assert_false(is("\x0e", 1, "."));
        assert_false(is("\x0d", 1, "-"));
        assert_false(is("\x10", 1, "0"));
        assert_false(is("[", 1, "{"));
        assert_false(is("@", 1, "`"));
        assert_false(is("\xc1", 1, "\xe1"));
}

static void expect_name(const char *name, bool good)
{
        ByteSpan s = span(name, strlen(name));

        if (span_is_host_name(s) != good)
                fail_msg("\"%s\" is %sa name", name, good ? "not " : "");
        span_done(s);
}

static void test_host_name(void **state)
{
        static const char *const good[] = { "a", "a.b", "A-b.C9", "9.a", "xn--9qa.com", "0x.g", "1a", "a.1a", "0xfg", "x.0x1g" };
        static const char *const bad[] = { "",    ".",     "a.",       "a..b", ".a",  "-a",    "a-",       "a.-b", "a-.b",
                                           "a_b", "a b",   "a\xc3\xbc", "a/b",  "a:1", "1",     "1.2",      "a.1",  "a.0x1",
                                           "0x",  "a.0X1f", "127.0.0.1", "::1",  "[a]", "a@b.c", "*.example", "a\x7f" };
        char label[65], name[256];

        for (size_t i = 0; i < ELEMENTSOF(good); i++)
                expect_name(good[i], true);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                expect_name(bad[i], false);
        snprintf(label, sizeof(label), "%064d", 0);
        memset(label, 'a', 64);
        expect_name(label, false);
        expect_name(label + 1, true);
        for (size_t i = 0; i < sizeof(name) - 1; i++)
                name[i] = i % 2 ? '.' : 'a';
        name[253] = 0;
        expect_name(name, true);
        name[252] = 'b', name[253] = 'b', name[254] = 0;
        expect_name(name, false);
}

static void expect_escape(const void *p, size_t n, size_t size, const char *want)
{
        char *got = test_malloc(size);
        ByteSpan s = span(p, n);

        span_escape(s, got, size);
        assert_string_equal(got, want);
        span_done(s);
        test_free(got);
}

static void test_escape(void **state)
{
        expect_escape("", 0, 4, "");
        expect_escape("a b~", 4, 16, "a b~");
        expect_escape("a\0\\\x1b\x7f\xff\n", 7, 64, "a\\x00\\x5c\\x1b\\x7f\\xff\\x0a");
        /* The longest that fits, and one byte more. */
        expect_escape("abcdefg", 7, 8, "abcdefg");
        expect_escape("abcdefgh", 8, 8, "abcd...");
        expect_escape("abc\xff", 4, 8, "abc\\xff");
        expect_escape("abcd\xff", 5, 8, "abcd...");
        expect_escape("a\xff" "bcd", 5, 8, "a...");
        expect_escape("\xff\xff", 2, 8, "\\xff...");
        expect_escape("abcd", 4, 4, "...");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_is),
                cmocka_unit_test(test_host_name),
                cmocka_unit_test(test_escape),
        };

        return cmocka_run_group_tests_name("name", tests, NULL, NULL);
}
