/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "wire/journal-query.h"
#include "wire/test-mutate.h"

#define S(s) ((char *) (s))

static int decode(const void *p, size_t n)
{
        JournalQuery q = {};
        int r = journal_query_decode(p, n, &q);

        if (r >= 0)
                assert_true((unsigned) q.kind < _JOURNAL_KIND_MAX && q.run && strlen(q.run) <= JOURNAL_QUERY_RUN_MAX);
        journal_query_done(&q);
        return r;
}

static void test_round_trip(void **state)
{
        static const uint8_t golden[] = "ABQ1\1\1\7\0\0\0\0\0\0\0\3\0\0\0abc";
        JournalQuery in = { .kind = JOURNAL_OUTPUT, .follow = true, .since = 7, .run = S("abc") }, out;
        _cleanup_buf_ Buf b = {};

        assert_int_equal(journal_query_encode(&in, &b), 0);
        assert_int_equal(b.size, sizeof(golden) - 1);
        assert_memory_equal(b.data, golden, b.size);
        assert_int_equal(journal_query_decode(b.data, b.size, &out), 0);
        assert_true(out.kind == JOURNAL_OUTPUT && out.follow && out.since == 7);
        assert_string_equal(out.run, "abc");
        journal_query_done(&out);
        for (size_t n = 0; n < b.size; n++)
                assert_int_equal(decode(b.data, n), -EBADMSG);
        mutate(b.data, b.size, 20000, decode);
}

static void test_rules(void **state)
{
        static const JournalQuery bad[] = {
                { .kind = _JOURNAL_KIND_MAX, .run = S("a") },
                { .kind = JOURNAL_OUTPUT, .run = S("") },
                { .kind = JOURNAL_FIND, .run = S("") },
                { .kind = JOURNAL_AUDIT },
                { .kind = JOURNAL_AUDIT, .run = S("a b") },
                { .kind = JOURNAL_AUDIT, .run = S("a\nb") },
                { .kind = JOURNAL_AUDIT, .run = S("\xc3\xa4") },
        };
        _cleanup_buf_ Buf all = {};

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                _cleanup_buf_ Buf b = {};

                assert_int_equal(journal_query_encode(bad + i, &b), -EINVAL);
                assert_int_equal(b.size, 0);
        }
        assert_int_equal(journal_query_encode(&(JournalQuery){ .run = S("") }, &all), 0);
        assert_int_equal(decode(all.data, all.size), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_rules),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
