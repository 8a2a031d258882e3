/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/macro.h"
#include "warden/call-records.h"

/* Records one by one: so many at once, so many a second. */
#define BURST 50u
#define RATE 20u
/* Of records that are not known to have arrived. */
#define OUTBOX_BYTES ((size_t) CALLS_UNPROVEN_MAX * JOURNAL_RECORD_BYTES)

static int write_call(CallRecords *r, const DeniedCall *c, uint64_t n, uint64_t now)
{
        char name[DENIED_CALL_NAME_MAX];
        int k;

        denied_call_name(c->number, name);
        k = journal_call_denied(&r->journal, name, c->args, &c->who, n, now);
        if (k >= 0)
                atomic_fetch_add_explicit(&r->tally->calls_on_record, n, memory_order_relaxed);
        return k;
}

static void coalesce(CallRecords *r, const DeniedCall *c)
{
        for (unsigned i = 0; i < r->n_coalesced; i++) {
                CoalescedCall *o = r->coalesced + i;

                if (o->call.number != c->number || !streq(o->call.args, c->args))
                        continue;
                if (o->call.who.tgid != c->who.tgid) /* what is not the same for all of them is not told */
                        o->call.who = (Who){};
                o->count++;
                return;
        }
        if (r->n_coalesced < CALLS_COALESCED_MAX) {
                r->coalesced[r->n_coalesced++] = (CoalescedCall){ .count = 1, .call = *c };
                return;
        }
        r->overflow[c->number >= 0 ? MIN2((unsigned) c->number, CALLS_NUMBERS_MAX) : CALLS_NUMBERS_MAX]++;
        r->has_overflow = true;
}

void calls_denied(CallRecords *r, const DeniedCall *c, uint64_t now)
{
        atomic_fetch_add_explicit(&r->tally->calls_denied, 1, memory_order_relaxed);
        if (r->journal.blocked_since == 0 && bucket_take(&r->bucket, BURST, RATE, now) && write_call(r, c, 1, now) >= 0)
                return;
        coalesce(r, c);
}

bool calls_pending(const CallRecords *r)
{
        return r->n_coalesced > 0 || r->has_overflow;
}

int calls_flush(CallRecords *r, uint64_t now)
{
        while (r->n_coalesced > 0) {
                const CoalescedCall *o = r->coalesced + r->n_coalesced - 1;
                int k = write_call(r, &o->call, o->count, now);

                if (k < 0)
                        return k;
                r->n_coalesced--;
        }
        for (unsigned i = 0; r->has_overflow && i < ELEMENTSOF(r->overflow); i++) {
                DeniedCall c = { .number = (int) i };
                int k = r->overflow[i] > 0 ? write_call(r, &c, r->overflow[i], now) : 0;

                if (k < 0)
                        return k;
                r->overflow[i] = 0;
        }
        r->has_overflow = false;
        return 0;
}

/* Not for less than this: it would wake up for nothing else. */
#define DEBT_MIN 1000

uint64_t cpu_share_wait(CpuShare *s, uint64_t used, uint64_t now)
{
        uint64_t elapsed = MIN2(now - s->at, (uint64_t) CPU_SHARE_BURST * CPU_SHARE), spent = MIN2(used - s->used, (uint64_t) CPU_SHARE_BURST);

        s->credit = MIN2(s->credit + (int64_t) (elapsed / CPU_SHARE), CPU_SHARE_BURST) - (int64_t) spent;
        s->at = now - (elapsed % CPU_SHARE);
        s->used = used;
        return s->credit > -DEBT_MIN ? 0 : (uint64_t) -s->credit * CPU_SHARE;
}

int calls_open(CallRecords *r, const WardenSpec *spec, EgressTally *tally, int journal_fd)
{
        *r = (CallRecords){ .tally = tally, .bucket = BUCKET_FULL(BURST) };
        return journal_open(&r->journal, spec, journal_fd, &tally->calls_sent, &tally->calls_proof, OUTBOX_BYTES);
}

void calls_close(CallRecords *r)
{
        journal_close(&r->journal);
}
