/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "wire/output.h"

static void encode(const OutputSpec *s, Buf *b)
{
        assert_int_equal(output_spec_encode(s, b), 0);
}

static void test_round_trip(void **state)
{
        OutputSpec in = { .run = (char *) "abc", .policy = (char *) "p", .caller_uid = 7, .max_bytes = UINT64_MAX }, out;
        _cleanup_buf_ Buf b = {};

        encode(&in, &b);
        assert_int_equal(output_spec_decode(b.data, b.size, &out), 0);
        assert_string_equal(out.run, "abc");
        assert_string_equal(out.policy, "p");
        assert_int_equal(out.caller_uid, 7);
        assert_true(out.max_bytes == UINT64_MAX);
        output_spec_done(&out);
}

/* A field of a record is a line: nothing that could be two. */
static void test_lines_only(void **state)
{
        static char *const bad[] = { (char *) "", (char *) "a\nb", (char *) "a\x7f", (char *) "\x1b[m", NULL };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                _cleanup_buf_ Buf b = {}, c = {};

                assert_int_equal(output_spec_encode(&(OutputSpec){ .run = bad[i], .policy = (char *) "p" }, &b), -EINVAL);
                assert_int_equal(output_spec_encode(&(OutputSpec){ .run = (char *) "r", .policy = bad[i] }, &c), -EINVAL);
                assert_int_equal(b.size + c.size, 0);
        }
}

static void test_malformed(void **state)
{
        OutputSpec in = { .run = (char *) "abc", .policy = (char *) "p" }, untouched = { .caller_uid = 99 };
        _cleanup_buf_ Buf b = {};

        encode(&in, &b);
        for (size_t n = 0; n < b.size; n++)
                assert_int_equal(output_spec_decode(b.data, n, &untouched), -EBADMSG);
        buf_u8(&b, 0);
        assert_int_equal(output_spec_decode(b.data, b.size, &untouched), -EBADMSG);
        b.data[0] ^= 1;
        assert_int_equal(output_spec_decode(b.data, b.size - 1, &untouched), -EBADMSG);
        b.data[0] ^= 1;
        b.data[b.size - 2] = '\n'; /* the policy's name */
        assert_int_equal(output_spec_decode(b.data, b.size - 1, &untouched), -EBADMSG);
        assert_int_equal(untouched.caller_uid, 99);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_lines_only),
                cmocka_unit_test(test_malformed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
