/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "wire/disk.h"
#include "wire/test-mutate.h"

static char *living[] = { (char *) "4f7k2m9qxa", (char *) "a", NULL };
static const DiskRequest trial = { .run = (char *) "", .size = 16 << 20, .inodes = 64, .exec = true, .living = living };
static const DiskRequest request = { .run = (char *) "4f7k2m9qxa", .size = 16 << 20, .inodes = 64 };
static const DiskPlace place = { .workspace = (char *) "/workspace" };

static int decode_request(const void *p, size_t n)
{
        DiskRequest q;
        int r = disk_request_decode(p, n, &q);

        if (r < 0)
                return r;
        assert_true(q.size > 0 && q.inodes > 0 && strlen(q.run) <= DISK_RUN_MAX);
        disk_request_done(&q);
        return 0;
}

static int decode_place(const void *p, size_t n)
{
        DiskPlace q;
        int r = disk_place_decode(p, n, &q);

        if (r < 0)
                return r;
        assert_true(q.workspace[0] == '/' && q.workspace[1]);
        disk_place_done(&q);
        return 0;
}

static int decode_reply(const void *p, size_t n)
{
        DiskReply q;
        int r = disk_reply_decode(p, n, &q);

        if (r < 0)
                return r;
        assert_true((q.error == 0) == (q.text[0] == 0));
        disk_reply_done(&q);
        return 0;
}

/* Whatever is cut off or changed, nothing but what was said or nothing. */
static void check(const Buf *b, int (*decode)(const void *p, size_t n))
{
        assert_int_equal(b->error, 0);
        assert_true(b->size <= DISK_MESSAGE_MAX);
        for (size_t i = 0; i < b->size; i++)
                assert_int_equal(decode(b->data, i), -EBADMSG);
        assert_int_equal(decode(b->data, b->size), 0);
        mutate(b->data, b->size, 50000, decode);
}

static void test_request(void **state)
{
        static const uint8_t golden[] = "ABD1\x0a\0\0\0"
                                        "4f7k2m9qxa\0\0\0\1\0\0\0\0\x40\0\0\0\0\0\0\0\0\0\0\0";
        _cleanup_buf_ Buf b = {}, c = {};
        DiskRequest q;

        assert_int_equal(disk_request_encode(&request, &b), 0);
        assert_int_equal(b.size, sizeof(golden));
        assert_memory_equal(b.data, golden, b.size);
        check(&b, decode_request);
        assert_int_equal(disk_request_encode(&trial, &c), 0);
        check(&c, decode_request);
        assert_int_equal(disk_request_decode(c.data, c.size, &q), 0);
        assert_true(!*q.run && q.size == trial.size && q.inodes == trial.inodes && q.exec && strv_length(q.living) == 2 &&
                        streq(q.living[0], living[0]) && streq(q.living[1], living[1]));
        disk_request_done(&q);
}

static void test_request_rules(void **state)
{
        static char *bad_id[] = { (char *) "../a", NULL };
        DiskRequest rows[] = { request, request, request, request, request, request, trial };
        Buf b = {};

        rows[0].run = NULL;
        rows[1].run = (char *) "A";
        rows[2].run = (char *) "aaaaaaaaaabbbbbbbbbbc";
        rows[3].size = 0;
        rows[4].inodes = 0;
        rows[5].living = living; /* which a run has nothing to do with */
        rows[6].living = bad_id;
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                assert_int_equal(disk_request_encode(rows + i, &b), -EINVAL);
        assert_null(b.data);
}

static void test_place(void **state)
{
        static const char *const bad[] = { "", "/", "workspace", "/a/", "/a/../b", "//a" };
        _cleanup_buf_ Buf b = {};
        Buf none = {};

        assert_int_equal(disk_place_encode(&place, &b), 0);
        check(&b, decode_place);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                assert_int_equal(disk_place_encode(&(DiskPlace){ .workspace = (char *) bad[i] }, &none), -EINVAL);
        assert_null(none.data);
}

static void test_reply(void **state)
{
        static const struct {
                DiskReply reply;
                bool good;
        } rows[] = {
                { { .text = (char *) "" }, true },
                { { .error = ENOSPC, .text = (char *) "no room" }, true },
                { { .text = (char *) "", .left = living }, true },
                { { .error = 4095, .text = (char *) "x" }, true },
                { { .error = ENOSPC, .text = (char *) "" }, false },
                { { .error = 0, .text = (char *) "no room" }, false },
                { { .error = ENOSPC, .text = (char *) "two\nlines" }, false },
                { { .error = 4096, .text = (char *) "x" }, false },
                { { .error = -1, .text = (char *) "x" }, false },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_buf_ Buf b = {};

                assert_int_equal(disk_reply_encode(&rows[i].reply, &b), rows[i].good ? 0 : -EINVAL);
                if (rows[i].good)
                        check(&b, decode_reply);
        }
}

static void test_as_large_as_they_get(void **state)
{
        char *ids[DISK_LIVING_MAX + 2] = {}, text[DISK_TEXT_MAX + 2];
        DiskReply r = { .error = 1, .text = text, .left = ids };
        Buf b = {};

        memset(text, 'x', sizeof(text));
        text[DISK_TEXT_MAX] = 0;
        for (size_t i = 0; i < DISK_LIVING_MAX; i++)
                ids[i] = (char *) "aaaaaaaaaabbbbbbbbbb";
        assert_int_equal(disk_reply_encode(&r, &b), 0);
        assert_true(b.size <= DISK_MESSAGE_MAX);
        assert_int_equal(decode_reply(b.data, b.size), 0);
        buf_done(&b);
        text[DISK_TEXT_MAX] = 'x';
        text[DISK_TEXT_MAX + 1] = 0;
        assert_int_equal(disk_reply_encode(&r, &b), -EINVAL);
        text[DISK_TEXT_MAX] = 0;
        ids[DISK_LIVING_MAX] = (char *) "a";
        assert_int_equal(disk_reply_encode(&r, &b), -EINVAL);
        assert_null(b.data);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_request),
                cmocka_unit_test(test_request_rules),
                cmocka_unit_test(test_place),
                cmocka_unit_test(test_reply),
                cmocka_unit_test(test_as_large_as_they_get),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
