/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdint.h>

#include "base/macro.h"

/* PURE. Time-outs of a few fixed lengths: each length has a queue that is in order by itself, so that setting and taking away
 * cost the same however many there are. */

#define USEC_PER_SEC UINT64_C(1000000)
#define USEC_PER_MSEC UINT64_C(1000)
#define JOURNAL_CHECK_USEC (100 * USEC_PER_MSEC)

typedef enum TimerLength {
        TIMER_LINGER,   /* a refusal is on its way, the client may read it */
        TIMER_CHECK,    /* it is looked which records have arrived */
        TIMER_TICK,     /* coalesced records are written */
        TIMER_JOURNAL,  /* a record waits for room in the journal's socket */
        TIMER_TRY,      /* one address of several */
        TIMER_DNS,      /* a message of DNS over TCP */
        TIMER_RESOLVE,  /* a name */
        TIMER_HEAD,     /* a hello or a request head */
        TIMER_DIAL,     /* a connection, all addresses together */
        TIMER_HALF,     /* one direction is closed, nothing moves in the other */
        TIMER_IDLE,     /* nothing moves */
        TIMER_WATCHDOG, /* a third of what PID 1 wants; set at the start */
        _TIMER_LENGTH_MAX,
} TimerLength;

typedef struct Timer Timer;
struct Timer {
        Timer *previous, *next; /* NULL: not set */
        uint64_t deadline;
        void (*expired)(void *userdata, Timer *t); /* it is not set any more then */
};

typedef struct Timers {
        Timer queues[_TIMER_LENGTH_MAX];
        uint64_t lengths[_TIMER_LENGTH_MAX]; /* microseconds */
} Timers;

/* The queues lead back to themselves: not to be moved afterwards. */
void timers_init(Timers *s);
/* now may not go back from call to call. A timer that is set already begins anew. */
void timer_set(Timers *s, Timer *t, TimerLength length, uint64_t now);
void timer_clear(Timer *t);
/* UINT64_MAX: none is set. */
uint64_t timers_next(const Timers *s);
/* Calls what is due; a timer that is set by such a call waits for its time. */
void timers_run(Timers *s, uint64_t now, void *userdata);
