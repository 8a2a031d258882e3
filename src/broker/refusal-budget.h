/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* How many refused requests of one user get a record of their own: whoever may run nothing could fill the journal with them. Beyond
 * that they are counted, and the count is written. Pure. */

#define REFUSALS_BURST 256u
#define REFUSAL_USEC 50000u /* until one more has a record */
#define REFUSAL_UIDS 64u     /* of more users at once, the others' are not limited */

typedef struct RefusalBudget {
        struct {
                uid_t uid;
                uint64_t full; /* when all of the burst is there again */
                uint64_t n_left_out;
        } rows[REFUSAL_UIDS];
} RefusalBudget;

/* Whether this one may have a record; else it is counted. now: monotonic, µs. */
bool refusal_budget_take(RefusalBudget *b, uid_t uid, uint64_t now);
/* Whether nothing is left: a further request need not be looked at. */
bool refusal_budget_is_spent(const RefusalBudget *b, uid_t uid, uint64_t now);
/* The next count that is to be written, which is nought then. false: there is none. */
bool refusal_budget_next(RefusalBudget *b, uid_t *ret_uid, uint64_t *ret_n);
