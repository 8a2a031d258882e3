/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "policy/policy.h"
#include "wire/record.h"

/* From the record of a run's end to the limits that it ran into, and the values that would have let it go
 * on. Pure. */

typedef struct LimitRow {
        RunReason reason; /* of a run that it ends; _REASON_MAX: it ends none, but is felt */
        PolicyKey key;
        const char *figure; /* the field of run-ended that shows how far it came; NULL: none does */
        uint64_t unit;      /* what a suggestion is rounded up to */
        const char *text;
} LimitRow;

extern const LimitRow limit_rows[];
extern const size_t n_limit_rows;

/* The limit that ended the run; NULL: none did. ended: a run-ended record. policy: the one that it had, as
 * it is now, or NULL. */
const LimitRow *limit_that_ended(const json_t *ended, const Policy *policy);
/* Whether it was reached without ending anything. */
bool limit_was_felt(const LimitRow *row, const json_t *ended, const Policy *policy);
/* Twice of what was not enough, as far as the key goes; 0: not known, or there is no more. How much would be
 * enough, nobody has seen. */
uint64_t limit_suggestion(const LimitRow *row, const json_t *ended, const Policy *policy);
