/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "cli/egress-denials.h"

/* Audit records as a timeline for people, a line each: time, run (where there are several), event, who,
 * what, verdict. Equal denials become one line with their count, until something else happens; names that
 * were looked up by the dozen below one domain do too. Days have a line of their own. */
typedef struct Timeline {
        bool all_runs; /* records of more than one run: each line names its own */
        size_t width;  /* of the terminal, in which every line has to fit; 0: lines are as long as they need
                          to be */
        char day[16];  /* of the last line */
        EgressDenials window; /* denials that have no line yet */
        json_t *calls;        /* likewise of system calls: key → the first record, with the sum of the counts */
} Timeline;

void timeline_done(Timeline *t);
#define _cleanup_timeline_ _cleanup_(timeline_done)

/* Oldest first. 0 or -ENOMEM. */
int timeline_take(Timeline *t, const json_t *record, Buf *out);
/* What is still held back. */
int timeline_flush(Timeline *t, Buf *out);
