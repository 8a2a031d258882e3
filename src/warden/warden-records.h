/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "warden/warden-journal.h"
#include "warden/warden-timer.h"

/* Every attempt is counted before the sandbox learns of the verdict, and is on record: one by one, or where there are many,
 * or while the journal has no room, with others like it in one record with their exact number. Nothing here waits. */

/* Denials that wait to be written: so many different ones; beyond, they are counted by reason and protocol alone. */
#define COALESCED_MAX 256u
#define COALESCED_SLOTS 512u

/* How many records may be written one by one: burst at once, rate a second. */
typedef struct Bucket {
        uint64_t tokens, at; /* in millionths; CLOCK_MONOTONIC, microseconds */
} Bucket;
#define BUCKET_FULL(burst) ((Bucket){ .tokens = (burst) * USEC_PER_SEC })
bool bucket_take(Bucket *b, unsigned burst, unsigned rate, uint64_t now);

typedef struct Coalesced {
        uint64_t hash, count; /* count 0: is written */
        EgressReason reason;
        Attempt attempt; /* name points to the copy below; rule stays where it is for as long as the warden lives */
        char name[ATTEMPT_TEXT_MAX];
} Coalesced;

typedef struct Records {
        Journal journal;
        EgressTally *tally;
        Bucket bucket; /* for denials that are written one by one */
        uint64_t seed;
        unsigned n_coalesced;
        uint16_t slots[COALESCED_SLOTS]; /* index + 1 */
        Coalesced *coalesced;
        uint64_t overflow[_EGRESS_REASON_MAX][_EGRESS_PROTO_MAX];
        bool has_overflow;
} Records;

/* tally: where the broker reads. Both stay the caller's, and so does the descriptor. */
int records_open(Records *r, const WardenSpec *spec, EgressTally *tally, int journal_fd, uint64_t seed);
void records_close(Records *r);

void records_denied(Records *r, const Attempt *a, EgressReason reason, uint64_t count, uint64_t now);
/* Whether records_flush() has something to write. */
bool records_pending(const Records *r);
/* 0: nothing is left. */
int records_flush(Records *r, uint64_t now);

/* Counted only when written. -EAGAIN: the journal has no room at the moment: the caller holds the connection back and asks
 * again; any other error: it is not there. Where the policy does not record what is allowed, nothing is written: 0. */
int records_allowed(Records *r, const Attempt *a, uint64_t now);
int records_closed(Records *r, const Attempt *a, CloseReason reason, uint64_t sent, uint64_t received, uint64_t usec,
                uint64_t now);

/* The journal takes nothing, and not only for a moment: what cannot be recorded is denied. */
bool records_unwritable(const Records *r, uint64_t now);
