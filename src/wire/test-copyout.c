/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/copyout.h"
#include "wire/test-mutate.h"

#define S(s) ((char *) (s))

static char *sample_paths[] = { S("a/b"), S("."), S("\xff\n"), NULL };

static CopyoutSpec sample(void)
{
        return (CopyoutSpec){
                .uid = 61184, .gid = 61185, .max_entries = 7, .max_bytes = UINT64_MAX, .has_view = true, .paths = sample_paths
        };
}

static int decode_spec(const void *p, size_t n)
{
        _cleanup_(copyout_spec_done) CopyoutSpec s = {};
        int r = copyout_spec_decode(p, n, &s);

        if (r >= 0)
                assert_true(s.uid != 0 && s.uid != (uid_t) -1 && s.gid != (gid_t) -1 && strv_length(s.paths) > 0);
        return r;
}

static void test_spec(void **state)
{
        static const uint8_t golden[] = "ABX1"
                                        "\x00\xef\0\0\x01\xef\0\0"
                                        "\7\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"
                                        "\1\3\0\0\0\3\0\0\0a/b\1\0\0\0.\2\0\0\0\xff\n";
        CopyoutSpec in = sample(), out = {};
        _cleanup_buf_ Buf b = {};

        assert_int_equal(copyout_spec_encode(&in, &b), 0);
        assert_int_equal(b.size, sizeof(golden) - 1);
        assert_memory_equal(b.data, golden, b.size);
        for (size_t i = 0; i < b.size; i++)
                assert_int_equal(copyout_spec_decode(b.data, i, &out), -EBADMSG);
        assert_int_equal(copyout_spec_decode(b.data, b.size, &out), 0);
        assert_true(out.uid == in.uid && out.gid == in.gid && out.max_entries == 7 && out.has_view &&
                        out.max_bytes == UINT64_MAX);
        for (size_t i = 0; i < 4; i++)
                assert_true(i == 3 ? !out.paths[i] : streq(out.paths[i], sample_paths[i]));
        copyout_spec_done(&out);
        mutate(b.data, b.size, 50000, decode_spec);
}

static void test_spec_rules(void **state)
{
        static const char *const bad[] = { "", "/", "/a", "..", "a/../b", "a/", "./a" };
        char *one[2] = {}, *many[COPYOUT_PATHS_MAX + 2] = {};

        for (int i = 0; i < 4; i++) {
                CopyoutSpec s = sample();
                Buf b = {};

                s.uid = i == 0 ? UINT32_MAX : i == 3 ? 0 : s.uid;
                s.gid = i == 1 ? UINT32_MAX : s.gid;
                s.paths = i == 2 ? NULL : s.paths;
                assert_int_equal(copyout_spec_encode(&s, &b), -EINVAL);
                buf_done(&b);
        }
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                CopyoutSpec s = sample();
                Buf b = {};

                one[0] = S(bad[i]);
                s.paths = one;
                assert_int_equal(copyout_spec_encode(&s, &b), -EINVAL);
                buf_done(&b);
        }
        for (size_t i = 0; i <= COPYOUT_PATHS_MAX; i++)
                many[i] = S("a");
        for (int i = 0; i < 2; i++) {
                CopyoutSpec s = sample();
                Buf b = {};

                s.paths = many + i;
                assert_int_equal(copyout_spec_encode(&s, &b), i == 0 ? -E2BIG : 0);
                buf_done(&b);
        }
}

static int decode_report(const void *p, size_t n)
{
        CopyoutReport r;

        return copyout_report_decode(p, n, &r);
}

static void test_report(void **state)
{
        for (int outcome = 0; outcome < _COPYOUT_OUTCOME_MAX; outcome++) {
                bool fails = outcome == COPYOUT_BROKEN || outcome == COPYOUT_CONFINED;
                CopyoutReport in = { .outcome = outcome,
                        .error = fails ? EIO : 0,
                        .entries = 1,
                        .bytes = 2,
                        .left = 3 },
                              out;
                Buf b = {};

                assert_int_equal(copyout_report_encode(&in, &b), 0);
                assert_int_equal(b.size, COPYOUT_REPORT_SIZE);
                for (size_t i = 0; i < b.size; i++)
                        assert_int_equal(copyout_report_decode(b.data, i, &out), -EBADMSG);
                assert_int_equal(copyout_report_decode(b.data, b.size, &out), 0);
                assert_true(out.outcome == in.outcome && out.error == in.error && out.entries == 1 &&
                                out.bytes == 2 && out.left == 3);
                mutate(b.data, b.size, 5000, decode_report);
                buf_done(&b);
                in.error = fails ? 0 : EIO;
                assert_int_equal(copyout_report_encode(&in, &b), -EINVAL);
                buf_done(&b);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_spec),
                cmocka_unit_test(test_spec_rules),
                cmocka_unit_test(test_report),
        };

        return cmocka_run_group_tests_name("copyout", tests, NULL, NULL);
}
