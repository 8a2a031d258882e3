/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"

static void test_round_trip(void **state)
{
        _cleanup_buf_ Buf b = {};
        _cleanup_free_ char *s = NULL, *empty = NULL;
        size_t n = 99;
        const uint8_t *p;
        Reader r;

        buf_u8(&b, 0xfe);
        buf_u32(&b, 0x89abcdef);
        buf_u64(&b, UINT64_MAX - 1);
        buf_blob(&b, "a\0b", 3);
        buf_blob(&b, "text", 4);
        buf_blob(&b, NULL, 0);
        buf_blob(&b, "", 0);
        assert_int_equal(b.error, 0);
        assert_int_equal(b.data[b.size], 0);
        r = (Reader){ .data = b.data, .size = b.size };
        assert_int_equal(read_u8(&r), 0xfe);
        assert_true(read_u32(&r) == 0x89abcdef);
        assert_true(read_u64(&r) == UINT64_MAX - 1);
        p = read_blob(&r, 3, &n);
        assert_int_equal(n, 3);
        assert_memory_equal(p, "a\0b", 3);
        s = read_string(&r, 4);
        assert_string_equal(s, "text");
        assert_non_null(read_blob(&r, 0, &n));
        assert_int_equal(n, 0);
        assert_int_equal(read_end(&r), -EBADMSG); /* something is left */
        empty = read_string(&r, 10);
        assert_string_equal(empty, "");
        assert_int_equal(read_end(&r), 0);
        assert_int_equal(read_u8(&r), 0);
        assert_int_equal(read_end(&r), -EBADMSG);
}

static void test_byte_order(void **state)
{
        _cleanup_buf_ Buf b = {};

        buf_u32(&b, 0x01020304);
        buf_u64(&b, UINT64_C(0x0102030405060708));
        assert_memory_equal(b.data, "\4\3\2\1\10\7\6\5\4\3\2\1", 12);
}

/* Every message cut short anywhere is refused, and errors stick. */
static void test_truncated(void **state)
{
        _cleanup_buf_ Buf b = {};

        buf_u32(&b, 7);
        buf_blob(&b, "0123456789", 10);
        buf_u64(&b, 1);
        for (size_t n = 0; n < b.size; n++) {
                /* On the heap and exact, so that the sanitizer sees a read past the end. */
                _cleanup_free_ uint8_t *copy = malloc(n ? n : 1);
                _cleanup_free_ char *s = NULL;
                Reader r = { .data = copy, .size = n };

                memcpy(copy, b.data, n);
                read_u32(&r);
                s = read_string(&r, 10);
                read_u64(&r);
                assert_int_equal(read_end(&r), -EBADMSG);
                assert_int_equal(read_u8(&r), 0);
        }
}

static void test_blob_bounds(void **state)
{
        static const uint8_t huge[] = { 0xff, 0xff, 0xff, 0xff, 'x' }, nul[] = { 3, 0, 0, 0, 'a', 0, 'b' },
                             five[] = { 5, 0, 0, 0, 1, 2, 3, 4, 5 };
        size_t n = 42;
        Reader r = { .data = huge, .size = sizeof(huge) };

        assert_null(read_blob(&r, UINT32_MAX, &n));
        assert_int_equal(n, 42);
        assert_int_equal(r.error, -EBADMSG);
        r = (Reader){ .data = nul, .size = sizeof(nul) };
        assert_null(read_string(&r, 100));
        assert_int_equal(r.error, -EBADMSG);
        r = (Reader){ .data = five, .size = sizeof(five) };
        assert_null(read_blob(&r, 4, &n));
        assert_int_equal(r.error, -EBADMSG);
}

static void test_empty_reader(void **state)
{
        Reader r = {};

        assert_int_equal(read_end(&r), 0);
        assert_int_equal(read_u64(&r), 0);
        assert_int_equal(read_end(&r), -EBADMSG);
}

static void test_text(void **state)
{
        _cleanup_buf_ Buf b = {};
        _cleanup_free_ char *s = NULL, *nothing = NULL;

        for (int i = 0; i < 1000; i++)
                buf_printf(&b, "%d,", i % 10);
        assert_int_equal(b.size, 2000);
        s = buf_take_string(&b);
        assert_int_equal(strlen(s), 2000);
        assert_null(b.data);
        nothing = buf_take_string(&b);
        assert_string_equal(nothing, "");
}

/* Of every length: into the room that there is, exactly as much as that, or more. */
static void test_lines(void **state)
{
        for (int n = 0; n < 700; n++) {
                _cleanup_buf_ Buf b = {};

                assert_int_equal(buf_append(&b, "x", 1), 0);
                assert_int_equal(buf_printf(&b, "%0*d|%s", n, 7, "end"), 0);
                assert_int_equal(b.size, 1 + (n > 0 ? n : 1) + strlen("|end"));
                assert_string_equal((char *) b.data + b.size - 5, "7|end");
                assert_int_equal(b.data[0], 'x');
        }
}

static void test_errors_stick(void **state)
{
        _cleanup_buf_ Buf b = {};

        assert_int_equal(buf_append(&b, "x", 1), 0);
        assert_int_equal(buf_append(&b, "x", SIZE_MAX / 2), -E2BIG);
        assert_int_equal(buf_append(&b, "x", 1), -E2BIG);
        assert_int_equal(buf_u8(&b, 1), -E2BIG);
        assert_int_equal(buf_printf(&b, "x"), -E2BIG);
        assert_int_equal(buf_blob(&b, "x", 1), -E2BIG);
        assert_null(buf_take_string(&b));
        assert_int_equal(b.error, 0); /* empty, to be used again */
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_byte_order),
                cmocka_unit_test(test_truncated),
                cmocka_unit_test(test_blob_bounds),
                cmocka_unit_test(test_empty_reader),
                cmocka_unit_test(test_text),
                cmocka_unit_test(test_lines),
                cmocka_unit_test(test_errors_stick),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
