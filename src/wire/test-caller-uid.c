/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/macro.h"
#include "wire/caller-uid.h"

static void test_who_may_call(void **state)
{
        static const struct {
                uid_t uid;
                const char *user;
                bool may;
        } rows[] = {
                { 0, NULL, true },             { 1, "daemon", true },         { 1000, "me", true },         { 1000, NULL, false },
                { 60001, "home", true },       { 61183, "x", true },          { 61184, "x", false },        { 65519, "x", false },
                { 65520, "x", true },          { 65533, "x", true },          { 65534, "nobody", false },   { 65535, "x", false },
                { 100000, NULL, false },       { 100000, "x", true },         { 524288, NULL, false },      { 524288, "vu-a-0", false },
                { 700000, "ad\\person", true }, { 1879048191, "vu-a", false }, { 1879048192, "vu-a", true }, { 2147352576, "foreign-0", false },
                { 2147418111, "x", false },    { (uid_t) -1, "x", false },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if ((caller_uid_refusal(rows[i].uid, rows[i].user) == NULL) != rows[i].may)
                        fail_msg("uid %u (%s)", (unsigned) rows[i].uid, rows[i].user ?: "no name");
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_who_may_call) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
