/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>

#include "base/macro.h"
#include "warden/warden-records.h"

/* Denials that get a record each: so many at once, so many a second. */
#define BURST 200u
#define RATE 100u
#define TOKEN USEC_PER_SEC
/* Of records that are not known to have arrived: most of a second's, at ten thousand a second. */
#define OUTBOX_BYTES ((size_t) EGRESS_UNPROVEN_MAX * JOURNAL_RECORD_BYTES)
#define PATIENCE (2 * USEC_PER_SEC) /* TIMER_JOURNAL: what waits for the journal waits as long */

static void count(_Atomic uint64_t *counter, uint64_t n)
{
        atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* ---- the tally */

/* The first different ones. The broker reads as many texts as n_top says: it grows last. */
static void tally_top(EgressTally *t, const Attempt *a)
{
        uint32_t n = atomic_load_explicit(&t->n_top, memory_order_relaxed);
        char destination[ATTEMPT_DESTINATION_MAX];

        if (n >= EGRESS_TALLY_TOP)
                return;
        attempt_destination(a, destination);
        for (uint32_t i = 0; i < n; i++)
                if (streq(t->top[i], destination))
                        return;
        snprintf(t->top[n], EGRESS_TALLY_TEXT, "%s", destination);
        atomic_store_explicit(&t->n_top, n + 1, memory_order_release);
}

/* ---- what waits */

static uint64_t hash_text(uint64_t h, const void *p, size_t n)
{
        const uint8_t *c = p;

        for (size_t i = 0; i < n; i++)
                h = (h ^ c[i]) * UINT64_C(0x100000001b3);
        return h;
}

static uint64_t hash_attempt(const Records *r, const Attempt *a, EgressReason reason)
{
        uint64_t h = r->seed ^ UINT64_C(0xcbf29ce484222325);
        const uint16_t numbers[] = { (uint16_t) a->proto, a->port, (uint16_t) reason };

        h = hash_text(h, numbers, sizeof(numbers));
        if (a->name)
                return hash_text(h, a->name, strnlen(a->name, ATTEMPT_TEXT_MAX - 1));
        h = hash_text(h, &a->address.family, sizeof(a->address.family));
        return hash_text(h, a->address.bytes, sizeof(a->address.bytes));
}

static bool same(const Coalesced *c, const Attempt *a, EgressReason reason)
{
        const Attempt *b = &c->attempt;

        if (c->reason != reason || b->proto != a->proto || b->port != a->port || !a->name != !b->name)
                return false;
        if (a->name)
                return strncmp(a->name, b->name, ATTEMPT_TEXT_MAX - 1) == 0;
        return a->address.family == b->address.family &&
               memcmp(a->address.bytes, b->address.bytes, sizeof(a->address.bytes)) == 0;
}

/* What is not the same for all of them is not told. */
static void merge(Coalesced *c, const Attempt *a)
{
        Attempt *b = &c->attempt;

        if (b->who.tgid != a->who.tgid)
                b->who = (Who){};
        if (b->rule != a->rule)
                b->rule = NULL;
        if (b->address.family != a->address.family || memcmp(b->address.bytes, a->address.bytes, 16) != 0)
                b->address = (EgressAddress){};
}

static void coalesce(Records *r, const Attempt *a, EgressReason reason, uint64_t n)
{
        uint64_t hash = hash_attempt(r, a, reason);
        size_t slot = (hash >> 32) % COALESCED_SLOTS;
        Coalesced *c;

        for (; r->slots[slot] != 0; slot = (slot + 1) % COALESCED_SLOTS) {
                c = r->coalesced + r->slots[slot] - 1;
                if (c->hash != hash || !same(c, a, reason))
                        continue;
                if (c->count > 0)
                        merge(c, a);
                else { /* what was written already is another record's */
                        c->attempt.who = a->who;
                        c->attempt.rule = a->rule;
                        c->attempt.address = a->address;
                }
                c->count += n;
                return;
        }
        if (r->n_coalesced >= COALESCED_MAX) {
                r->overflow[reason][a->proto] += n;
                r->has_overflow = true;
                return;
        }
        c = r->coalesced + r->n_coalesced++;
        r->slots[slot] = (uint16_t) r->n_coalesced;
        *c = (Coalesced){ .hash = hash, .count = n, .reason = reason, .attempt = *a };
        c->attempt.asked = NULL; /* the caller's, and another one each time */
        if (a->name) {
                snprintf(c->name, sizeof(c->name), "%s", a->name);
                c->attempt.name = c->name;
        }
}

/* ---- writing */

static int write_denied(Records *r, const Attempt *a, EgressReason reason, uint64_t n, uint64_t now)
{
        int k = journal_denied(&r->journal, a, reason, n, now);

        if (k >= 0)
                count(&r->tally->denied_on_record, n);
        return k;
}

bool bucket_take(Bucket *b, unsigned burst, unsigned rate, uint64_t now)
{
        uint64_t elapsed = MIN2(now - b->at, 10 * USEC_PER_SEC);

        b->tokens = MIN2(b->tokens + elapsed * rate, burst * TOKEN);
        b->at = now;
        if (b->tokens < TOKEN)
                return false;
        b->tokens -= TOKEN;
        return true;
}

void records_denied(Records *r, const Attempt *a, EgressReason reason, uint64_t n, uint64_t now)
{
        if (n == 0)
                return;
        count(&r->tally->denied, n);
        if (reason == EGRESS_METADATA)
                count(&r->tally->metadata, n);
        tally_top(r->tally, a);
        if (r->journal.blocked_since == 0 && bucket_take(&r->bucket, BURST, RATE, now) && write_denied(r, a, reason, n, now) >= 0)
                return;
        coalesce(r, a, reason, n);
}

bool records_pending(const Records *r)
{
        return r->n_coalesced > 0 || r->has_overflow;
}

static int flush_overflow(Records *r, uint64_t now)
{
        for (EgressReason reason = 0; r->has_overflow && reason < _EGRESS_REASON_MAX; reason++)
                for (EgressProto proto = 0; proto < _EGRESS_PROTO_MAX; proto++) {
                        uint64_t *n = &r->overflow[reason][proto];
                        Attempt a = { .proto = proto, .name = "*" };
                        int k = *n > 0 ? write_denied(r, &a, reason, *n, now) : 0;

                        if (k < 0)
                                return k;
                        *n = 0;
                }
        r->has_overflow = false;
        return 0;
}

int records_flush(Records *r, uint64_t now)
{
        for (unsigned i = 0; i < r->n_coalesced; i++) {
                Coalesced *c = r->coalesced + i;
                int k = c->count > 0 ? write_denied(r, &c->attempt, c->reason, c->count, now) : 0;

                if (k < 0)
                        return k;
                c->count = 0;
        }
        memset(r->slots, 0, sizeof(r->slots));
        r->n_coalesced = 0;
        return flush_overflow(r, now);
}

int records_allowed(Records *r, const Attempt *a, uint64_t now)
{
        int k = r->journal.spec->record_allowed ? journal_allowed(&r->journal, a, now) : 0;

        if (k >= 0)
                count(&r->tally->allowed, 1);
        return k;
}

int records_closed(Records *r, const Attempt *a, CloseReason reason, uint64_t sent, uint64_t received, uint64_t usec,
                uint64_t now)
{
        if (!r->journal.spec->record_allowed)
                return 0;
        return journal_closed(&r->journal, a, reason, sent, received, usec, now);
}

bool records_unwritable(const Records *r, uint64_t now)
{
        return r->journal.closed || (r->journal.blocked_since != 0 && now - r->journal.blocked_since >= PATIENCE);
}

int records_open(Records *r, const WardenSpec *spec, EgressTally *tally, int journal_fd, uint64_t seed)
{
        *r = (Records){ .tally = tally, .bucket = BUCKET_FULL(BURST), .seed = seed };
        r->coalesced = calloc(COALESCED_MAX, sizeof(*r->coalesced));
        if (!r->coalesced)
                return -ENOMEM;
        return journal_open(&r->journal, spec, journal_fd, &tally->egress_sent, &tally->egress_proof, OUTBOX_BYTES);
}

void records_close(Records *r)
{
        free(r->coalesced);
        journal_close(&r->journal);
}
