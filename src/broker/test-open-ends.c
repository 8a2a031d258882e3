/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "broker/open-ends.h"

/* Records as they are read, the newest first: which boot (0: this one), which event, of which run; and what is to come of it. */
typedef struct Row {
        uint8_t boot;
        AuditEvent event;
        const char *run;
        OpenEndsVerdict verdict;
} Row;

static sd_id128_t boot_number(uint8_t n)
{
        sd_id128_t id = {};

        id.bytes[0] = (uint8_t) (n + 1);
        return id;
}

static void check(const Row *rows, size_t n)
{
        OpenEnds o = { .now = boot_number(0) };

        for (size_t i = 0; i < n; i++) {
                int r = open_ends_read(&o, rows[i].event, boot_number(rows[i].boot), rows[i].run);

                if (r != (int) rows[i].verdict)
                        fail_msg("record %zu: %i", i, r);
        }
        open_ends_done(&o);
}

#define CHECK(...)                                                   \
        do {                                                         \
                const Row rows[] = { __VA_ARGS__ };                  \
                check(rows, sizeof(rows) / sizeof(rows[0]));         \
        } while (0)

static void test_ended(void **state)
{
        CHECK({ 1, AUDIT_RUN_ENDED, "aaaaaaaaaa", OPEN_ENDS_NEXT }, { 1, AUDIT_RUN_STARTED, "aaaaaaaaaa", OPEN_ENDS_NEXT },
                        { 1, AUDIT_RUN_REFUSED, "bbbbbbbbbb", OPEN_ENDS_NEXT },
                        { 1, AUDIT_RUN_UNVERIFIED, "cccccccccc", OPEN_ENDS_NEXT },
                        { 1, AUDIT_RUN_REQUESTED, "cccccccccc", OPEN_ENDS_NEXT },
                        { 1, AUDIT_RUN_REQUESTED, "bbbbbbbbbb", OPEN_ENDS_NEXT },
                        { 1, AUDIT_RUN_REQUESTED, "aaaaaaaaaa", OPEN_ENDS_NEXT });
}

static void test_lost_once(void **state)
{
        CHECK({ 1, AUDIT_RUN_STARTED, "aaaaaaaaaa", OPEN_ENDS_LOST }, { 1, AUDIT_RUN_REQUESTED, "aaaaaaaaaa", OPEN_ENDS_NEXT },
                        { 1, AUDIT_RUN_REQUESTED, "bbbbbbbbbb", OPEN_ENDS_LOST }, { 2, AUDIT_RUN_STARTED, "cccccccccc", OPEN_ENDS_LOST });
}

/* Written in this boot, by one that did not get to its own end. */
static void test_said_already(void **state)
{
        CHECK({ 0, AUDIT_RUN_ENDED, "aaaaaaaaaa", OPEN_ENDS_NEXT }, { 1, AUDIT_RUN_STARTED, "bbbbbbbbbb", OPEN_ENDS_LOST },
                        { 1, AUDIT_RUN_STARTED, "aaaaaaaaaa", OPEN_ENDS_NEXT });
}

static void test_of_this_boot(void **state)
{
        CHECK({ 0, AUDIT_RUN_STARTED, "aaaaaaaaaa", OPEN_ENDS_NEXT }, { 0, AUDIT_RUN_REQUESTED, "bbbbbbbbbb", OPEN_ENDS_NEXT });
}

/* What the newest look at earlier boots has seen; not what came in its own boot, before or after it. */
static void test_settled(void **state)
{
        CHECK({ 1, AUDIT_RUN_STARTED, "aaaaaaaaaa", OPEN_ENDS_LOST }, { 2, AUDIT_RUN_STARTED, "bbbbbbbbbb", OPEN_ENDS_LOST },
                        { 2, AUDIT_BOOTS_SETTLED, "", OPEN_ENDS_NEXT }, { 2, AUDIT_RUN_REQUESTED, "cccccccccc", OPEN_ENDS_LOST },
                        { 3, AUDIT_RUN_STARTED, "dddddddddd", OPEN_ENDS_OVER });
        CHECK({ 2, AUDIT_BOOTS_SETTLED, "", OPEN_ENDS_NEXT }, { 2, AUDIT_RUN_STARTED, "cccccccccc", OPEN_ENDS_LOST },
                        { 3, AUDIT_BOOTS_SETTLED, "", OPEN_ENDS_OVER });
}

static void test_of_no_run(void **state)
{
        CHECK({ 1, AUDIT_RUN_STARTED, "", OPEN_ENDS_NEXT }, { 1, AUDIT_RUN_STARTED, "aaaaaaaaa", OPEN_ENDS_NEXT },
                        { 1, AUDIT_RUN_STARTED, "aaaaaaaaaaa", OPEN_ENDS_NEXT }, { 1, AUDIT_RUN_STARTED, "aaaaaaaaaA", OPEN_ENDS_NEXT },
                        { 1, AUDIT_RUN_STARTED, "999999999/", OPEN_ENDS_NEXT });
}

static void test_many(void **state)
{
        OpenEnds o = { .now = boot_number(0) };

        for (unsigned turn = 0; turn < 2; turn++)
                for (unsigned i = 0; i < 5000; i++) {
                        char run[16];

                        snprintf(run, sizeof(run), "run%07u", i);
                        assert_int_equal(open_ends_read(&o, AUDIT_RUN_STARTED, boot_number(1), run),
                                        turn == 0 ? OPEN_ENDS_LOST : OPEN_ENDS_NEXT);
                }
        assert_int_equal(o.n_met, 5000);
        open_ends_done(&o);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_ended),
                cmocka_unit_test(test_lost_once),
                cmocka_unit_test(test_said_already),
                cmocka_unit_test(test_of_this_boot),
                cmocka_unit_test(test_settled),
                cmocka_unit_test(test_of_no_run),
                cmocka_unit_test(test_many),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
