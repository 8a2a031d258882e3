/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "warden/warden-timer.h"

/* Tests have less patience. */
#ifndef IDLE_SEC
#define IDLE_SEC 600
#define HALF_SEC 60
#endif

static const uint64_t standard_lengths[_TIMER_LENGTH_MAX] = {
        [TIMER_LINGER] = 1 * USEC_PER_SEC,
        [TIMER_CHECK] = JOURNAL_CHECK_USEC,
        [TIMER_TICK] = 1 * USEC_PER_SEC,
        [TIMER_JOURNAL] = 2 * USEC_PER_SEC,
        [TIMER_TRY] = 3 * USEC_PER_SEC,
        [TIMER_DNS] = 5 * USEC_PER_SEC,
        [TIMER_RESOLVE] = 5 * USEC_PER_SEC,
        [TIMER_HEAD] = 10 * USEC_PER_SEC,
        [TIMER_DIAL] = 10 * USEC_PER_SEC,
        [TIMER_HALF] = HALF_SEC * USEC_PER_SEC,
        [TIMER_IDLE] = IDLE_SEC * USEC_PER_SEC,
        [TIMER_WATCHDOG] = UINT64_MAX / 2,
};

void timers_init(Timers *s)
{
        *s = (Timers){};
        for (size_t i = 0; i < _TIMER_LENGTH_MAX; i++) {
                s->queues[i].previous = s->queues[i].next = s->queues + i;
                s->lengths[i] = standard_lengths[i];
        }
}

void timer_clear(Timer *t)
{
        if (!t->next)
                return;
        t->previous->next = t->next;
        t->next->previous = t->previous;
        t->previous = t->next = NULL;
}

void timer_set(Timers *s, Timer *t, TimerLength length, uint64_t now)
{
        Timer *queue = s->queues + length;

        timer_clear(t);
        t->deadline = now + s->lengths[length];
        t->previous = queue->previous;
        t->next = queue;
        t->previous->next = t;
        queue->previous = t;
}

uint64_t timers_next(const Timers *s)
{
        uint64_t next = UINT64_MAX;

        for (size_t i = 0; i < _TIMER_LENGTH_MAX; i++)
                if (s->queues[i].next != s->queues + i)
                        next = MIN2(next, s->queues[i].next->deadline);
        return next;
}

void timers_run(Timers *s, uint64_t now, void *userdata)
{
        for (size_t i = 0; i < _TIMER_LENGTH_MAX; i++)
                while (s->queues[i].next != s->queues + i && s->queues[i].next->deadline <= now) {
                        Timer *t = s->queues[i].next;

                        timer_clear(t);
                        t->expired(userdata, t);
                }
}
