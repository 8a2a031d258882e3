/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/test-mutate.h"
#include "wire/view.h"

static const ViewRequest sample = { .uid = 61184, .gid = 61185, .caller = 1000, .workspace = "/workspace" };

static int decode_request(const void *p, size_t n)
{
        ViewRequest q;
        int r = view_request_decode(p, n, &q);

        if (r >= 0)
                assert_true(q.uid != 0 && q.gid != 0 && q.uid != q.caller && q.workspace[0] == '/' &&
                                q.workspace[1]);
        return r;
}

static void test_request(void **state)
{
        static const uint8_t golden[] = "ABV1"
                                        "\x00\xef\0\0\x01\xef\0\0\xe8\3\0\0\x0a\0\0\0/workspace";
        _cleanup_buf_ Buf b = {};
        ViewRequest q;

        assert_int_equal(view_request_encode(&sample, &b), 0);
        assert_int_equal(b.size, sizeof(golden) - 1);
        assert_memory_equal(b.data, golden, b.size);
        for (size_t i = 0; i < b.size; i++)
                assert_int_equal(view_request_decode(b.data, i, &q), -EBADMSG);
        assert_int_equal(view_request_decode(b.data, b.size, &q), 0);
        assert_true(q.uid == sample.uid && q.gid == sample.gid && q.caller == sample.caller &&
                        streq(q.workspace, sample.workspace));
        mutate(b.data, b.size, 50000, decode_request);
}

static void test_request_rules(void **state)
{
        static const char *const bad[] = { "", "/", "workspace", "/a/", "/a/../b", "//a" };
        ViewRequest q = sample;
        Buf b = {};

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                strcpy(q.workspace, bad[i]);
                assert_int_equal(view_request_encode(&q, &b), -EINVAL);
        }
        for (int i = 0; i < 6; i++) {
                q = sample;
                *(i < 2                 ? &q.uid
                                : i < 4 ? &q.gid
                                        : &q.caller) = i == 5                ? q.uid
                                                       : i % 2 == 0 && i < 4 ? 0
                                                                             : (uid_t) -1;
                assert_int_equal(view_request_encode(&q, &b), -EINVAL);
        }
        assert_null(b.data);
}

static void test_reply(void **state)
{
        static const struct {
                ViewReply reply;
                bool good;
        } rows[] = {
                { { VIEW_DONE, 0 }, true },
                { { VIEW_BENEATH, EXDEV }, true },
                { { VIEW_OVERLAY, 4095 }, true },
                { { VIEW_DONE, EPERM }, false },
                { { VIEW_CLONE, 0 }, false },
                { { VIEW_CLONE, -1 }, false },
                { { VIEW_CLONE, 4096 }, false },
                { { _VIEW_STAGE_MAX, EPERM }, false },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                const ViewReply *r = &rows[i].reply;
                _cleanup_buf_ Buf b = {};
                ViewReply got;

                assert_int_equal(view_reply_encode(r, &b), rows[i].good ? 0 : -EINVAL);
                if (rows[i].good)
                        assert_int_equal(view_reply_decode(b.data, b.size, &got), 0);
                else {
                        buf_u32(&b, VIEW_REPLY_MAGIC);
                        buf_u32(&b, (uint32_t) r->stage);
                        buf_u32(&b, (uint32_t) r->error);
                        assert_int_equal(view_reply_decode(b.data, b.size, &got), -EBADMSG);
                }
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_request),
                cmocka_unit_test(test_request_rules),
                cmocka_unit_test(test_reply),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
