/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "broker/refusal-budget.h"

#define START 1000000000u

static unsigned take(RefusalBudget *b, uid_t uid, unsigned n, uint64_t now)
{
        unsigned taken = 0;

        for (unsigned i = 0; i < n; i++)
                taken += refusal_budget_take(b, uid, now);
        return taken;
}

/* The total is exact: those with a record and those that are counted. */
static void test_burst(void **state)
{
        RefusalBudget b = {};
        uint64_t n;
        uid_t uid;

        assert_false(refusal_budget_is_spent(&b, 1000, START));
        assert_int_equal(take(&b, 1000, 1000, START), REFUSALS_BURST);
        assert_true(refusal_budget_is_spent(&b, 1000, START));
        assert_true(refusal_budget_next(&b, &uid, &n));
        assert_true(uid == 1000 && n == 1000 - REFUSALS_BURST);
        assert_false(refusal_budget_next(&b, &uid, &n));
}

static void test_refill(void **state)
{
        RefusalBudget b = {};

        assert_int_equal(take(&b, 1000, 2 * REFUSALS_BURST, START), REFUSALS_BURST);
        assert_int_equal(take(&b, 1000, 100, START + REFUSAL_USEC - 1), 0);
        assert_int_equal(take(&b, 1000, 100, START + REFUSAL_USEC), 1);
        assert_int_equal(take(&b, 1000, 100, START + 4 * REFUSAL_USEC), 3);
        assert_int_equal(take(&b, 1000, 2 * REFUSALS_BURST, START + 1000ull * REFUSAL_USEC), REFUSALS_BURST);
}

static void test_users_apart(void **state)
{
        RefusalBudget b = {};

        assert_int_equal(take(&b, 1000, 2 * REFUSALS_BURST, START), REFUSALS_BURST);
        assert_false(refusal_budget_is_spent(&b, 1001, START));
        assert_int_equal(take(&b, 1001, 2 * REFUSALS_BURST, START), REFUSALS_BURST);
}

/* What is counted is not forgotten for another user's sake, nor is anybody limited for want of a row. */
static void test_many_users(void **state)
{
        RefusalBudget b = {};
        uint64_t n, sum = 0;
        uid_t uid;

        for (uid_t u = 1; u <= REFUSAL_UIDS; u++)
                assert_int_equal(take(&b, u, REFUSALS_BURST + 5, START), REFUSALS_BURST);
        assert_int_equal(take(&b, 5000, 500, START + 1000ull * REFUSAL_USEC), 500);
        while (refusal_budget_next(&b, &uid, &n)) {
                assert_int_equal(n, 5);
                sum += n;
        }
        assert_int_equal(sum, 5 * REFUSAL_UIDS);
        assert_int_equal(take(&b, 5000, 500, START + 1000ull * REFUSAL_USEC), REFUSALS_BURST);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_burst),
                cmocka_unit_test(test_refill),
                cmocka_unit_test(test_users_apart),
                cmocka_unit_test(test_many_users),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
