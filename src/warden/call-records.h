/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "warden/denied-call.h"
#include "warden/warden-records.h"

/* Refused system calls: each is counted before whoever made it has an answer, and on record; one by one, or where there are
 * many, with others like it in one record with their exact number. Nothing here waits. */

/* Different ones that wait to be written; beyond, they are counted by call alone. */
#define CALLS_COALESCED_MAX 64u
#define CALLS_NUMBERS_MAX 512u

typedef struct DeniedCall {
        int number; /* of the architecture that it is */
        char args[DENIED_CALL_ARGS_MAX];
        Who who;
} DeniedCall;

typedef struct CoalescedCall {
        uint64_t count;
        DeniedCall call;
} CoalescedCall;

typedef struct CallRecords {
        Journal journal;
        EgressTally *tally;
        Bucket bucket;
        unsigned n_coalesced;
        CoalescedCall coalesced[CALLS_COALESCED_MAX];
        uint64_t overflow[CALLS_NUMBERS_MAX + 1]; /* the last one: of higher numbers */
        bool has_overflow;
} CallRecords;

int calls_open(CallRecords *r, const WardenSpec *spec, EgressTally *tally, int journal_fd);
void calls_close(CallRecords *r);
void calls_denied(CallRecords *r, const DeniedCall *c, uint64_t now);
bool calls_pending(const CallRecords *r);
/* How long its witness does nothing, in µs, so that of its processor time, used so far, it has no more than a share. What it counts is
 * exact all the same: who calls waits. Pure. */
typedef struct CpuShare {
        uint64_t used, at;
        int64_t credit;
} CpuShare;

#define CPU_SHARE_BURST INT64_C(2000000) /* µs */
#define CPU_SHARE 10                     /* a tenth of a processor */
#define CPU_SHARE_FULL(used_now, now) ((CpuShare){ .used = (used_now), .at = (now), .credit = CPU_SHARE_BURST })
uint64_t cpu_share_wait(CpuShare *s, uint64_t used, uint64_t now);

/* 0: nothing is left. */
int calls_flush(CallRecords *r, uint64_t now);
