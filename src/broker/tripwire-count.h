/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/decoys.h"

/* What a run opened of its decoys, between two writings of records: the first open by each process of each decoy gets a
 * record at once, what follows is counted and told together. Bounded, and every open is in one sum. */

#define TRIPWIRE_WHO_MAX 32u
#define TRIPWIRE_COMM_MAX 16u

typedef struct TripwireWho {
        size_t row;
        pid_t pid; /* 0: several processes */
        char comm[TRIPWIRE_COMM_MAX];
        uint64_t count; /* not on record yet */
} TripwireWho;

typedef struct TripwireCounts {
        TripwireWho who[TRIPWIRE_WHO_MAX];
        unsigned n;
        TripwireWho others[DECOYS_MAX]; /* those that there was no room for; who: the last one */
        uint64_t total;
} TripwireCounts;

/* true: this one is to be put on record now, by itself; it is not in the counts, only in the total. */
bool tripwire_count(TripwireCounts *c, size_t row, pid_t pid, const char *comm);
/* Takes what waits, one after another; then everything begins anew. false: nothing waits. */
bool tripwire_take(TripwireCounts *c, TripwireWho *ret);
