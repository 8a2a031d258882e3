/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/macro.h"
#include "broker/refusal-budget.h"

#define FULL_AFTER ((uint64_t) REFUSALS_BURST * REFUSAL_USEC)

static bool is_spent(uint64_t full, uint64_t now)
{
        return full > now && full - now > FULL_AFTER - REFUSAL_USEC;
}

bool refusal_budget_take(RefusalBudget *b, uid_t uid, uint64_t now)
{
        size_t at = REFUSAL_UIDS;

        for (size_t i = 0; i < REFUSAL_UIDS; i++) {
                bool used = b->rows[i].full > now || b->rows[i].n_left_out > 0;

                if (used && b->rows[i].uid == uid) {
                        at = i;
                        break;
                }
                if (!used && at == REFUSAL_UIDS)
                        at = i;
        }
        if (at == REFUSAL_UIDS)
                return true;
        b->rows[at].uid = uid;
        if (is_spent(b->rows[at].full, now)) {
                b->rows[at].n_left_out++;
                return false;
        }
        b->rows[at].full = MAX2(b->rows[at].full, now) + REFUSAL_USEC;
        return true;
}

bool refusal_budget_is_spent(const RefusalBudget *b, uid_t uid, uint64_t now)
{
        for (size_t i = 0; i < REFUSAL_UIDS; i++)
                if (b->rows[i].uid == uid && is_spent(b->rows[i].full, now))
                        return true;
        return false;
}

bool refusal_budget_next(RefusalBudget *b, uid_t *ret_uid, uint64_t *ret_n)
{
        for (size_t i = 0; i < REFUSAL_UIDS; i++)
                if (b->rows[i].n_left_out > 0) {
                        *ret_uid = b->rows[i].uid;
                        *ret_n = b->rows[i].n_left_out;
                        b->rows[i].n_left_out = 0;
                        return true;
                }
        return false;
}
