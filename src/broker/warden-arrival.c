/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <unistd.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <syslog.h>
#include <systemd/sd-journal.h>

#include "base/io.h"
#include "broker/run.h"
#include "wire/journal-socket.h"

/* Which records of a run's warden are in the journal. The warden, which may not read it, learns it from here, by a file that both
 * have, and lets nothing out any more where they do not arrive. Everything it says there is its word: numbers, which are taken as
 * such, and what is written there can mislead nobody but itself. */

static const struct {
        size_t proof, sent;
        uint64_t unproven_max;
} places[_AUDIT_SERIES_MAX] = {
        [SERIES_EGRESS] = { offsetof(EgressTally, egress_proof), offsetof(EgressTally, egress_sent), EGRESS_UNPROVEN_MAX },
        [SERIES_CALLS] = { offsetof(EgressTally, calls_proof), offsetof(EgressTally, calls_sent), CALLS_UNPROVEN_MAX },
};

static AuditWarden series_of(const Run *r, AuditSeries series)
{
        return (AuditWarden){ .run = r->id, .unit = r->warden->unit, .series = series };
}

/* What is known already; 0: nothing. */
static uint64_t known_arrived(const EgressTally *t, AuditSeries series)
{
        JournalProof p;

        memcpy(&p, (const char *) t + places[series].proof, sizeof(p));
        return p.check == journal_proof_check(&p) ? p.arrived : 0;
}

static uint64_t sent(const EgressTally *t, AuditSeries series)
{
        uint64_t n;

        memcpy(&n, (const char *) t + places[series].sent, sizeof(n));
        return n;
}

/* What it can have sent, at the most, that nobody has seen arrive. One that claims more has been taken over, and would have the journal
 * read for its sake for ever. */
static bool claims_too_much(const EgressTally *t, AuditSeries series)
{
        uint64_t known = known_arrived(t, series), newest = sent(t, series);

        return newest > known && newest - known > places[series].unproven_max;
}

/* 2: all are there. 1: some are not yet, but there was progress. 0: there was none. -E2BIG: it lies. */
static int look(Run *r, AuditReader *a, const EgressTally *t, AuditSeries series)
{
        AuditWarden w = series_of(r, series);
        JournalProof p = { .looked_at = now_monotonic() };
        uint64_t known = known_arrived(t, series), newest = sent(t, series), *floor = r->warden->floors + series;
        AuditArrival found;
        int k;

        if (newest <= known)
                return 2;
        if (claims_too_much(t, series))
                return -E2BIG;
        if (!r->warden->has_gap[series])
                *floor = known;
        k = audit_look_for(a, &w, *floor, known, newest, &found);
        if (k < 0)
                return k;
        r->warden->has_gap[series] = found.missing_to > 0;
        p.arrived = found.arrived;
        p.missing_to = found.missing_to;
        p.check = journal_proof_check(&p);
        if (pwrite(r->warden->tally_fd, &p, sizeof(p), (off_t) places[series].proof) != sizeof(p))
                return -EIO;
        return found.arrived == newest ? 2 : found.arrived > known;
}

bool run_warden_is_watched(const Run *r)
{
        return r->warden && !r->warden->is_over && r->warden->tally_fd >= 0 && r->phase >= RUN_LAUNCHED;
}

bool run_warden_look(Run *r)
{
        bool stands = false;
        EgressTally t;

        if (!run_warden_is_watched(r) || !run_warden_read_tally(r, &t))
                return false;
        for (AuditSeries i = 0; i < _AUDIT_SERIES_MAX; i++) {
                int k = look(r, r->manager->audit, &t, i);

                if (k == -E2BIG && r->kill_reason == KILL_NONE) {
                        sd_journal_print(LOG_ERR, "Run %s: its warden claims more records than it can have sent, and the run is ended", r->id);
                        r->warden->lied = true;
                        run_kill(r, KILL_WARDEN);
                }
                if (k == -E2BIG)
                        return false;
                stands = k == 0 || stands;
        }
        return stands;
}

/* ---- at the end */

#define CATCH_UP_MSEC 200u /* everybody else waits as long */

/* What it counted and did not put on record, or the journal did not keep: one record, by us. */
static void write_lost(Run *r, AuditEvent event, uint64_t n, const char *what, const AuditDetail *detail)
{
        AuditSubject subject = run_subject(r);
        AuditDetail d = *detail;
        _cleanup_free_ char *message = NULL;

        if (asprintf(&message, "Run %s: %llu %s were denied, and no record of its warden tells of them", r->id,
                            (unsigned long long) n, what) < 0)
                message = NULL;
        d.message = message ?: "Denied, and not on record";
        d.reason = "warden-lost";
        d.count = n;
        (void) audit_write(event, &subject, &d);
}

/* A mark comes behind all that was sent before. */
bool run_warden_journal_has_caught_up(void)
{
        _cleanup_close_ int fd = -1;
        JournalMark mark = { .unread = true };

        if (run_warden_connect_journal(&fd, NULL) < 0)
                return false;
        for (unsigned i = 0; i < CATCH_UP_MSEC; i++) {
                if (journal_mark_is_read(&mark, fd))
                        return true;
                (void) poll(NULL, 0, 1);
        }
        return false;
}

/* How many of those counted no record speaks of. Its own figure is one of records that were sent: it may have been killed between
 * that and counting them, and the journal may have dropped them. */
static uint64_t count_missing(Run *r, AuditReader *a, const EgressTally *t, AuditSeries series, uint64_t counted, uint64_t on_record)
{
        AuditWarden w = series_of(r, series);
        uint64_t found = on_record, dropped = 0;
        EgressTally now;

        if (!run_warden_journal_has_caught_up())
                return counted > on_record ? counted - on_record : 0;
        if (look(r, a, t, series) < 2) {
                sd_journal_print(LOG_ERR, "Run %s: not all records of its warden are in the journal; has it room?", r->id);
                if (run_warden_read_tally(r, &now))
                        dropped = sent(t, series) - MIN2(sent(t, series), known_arrived(&now, series));
        }
        /* Too many to be looked at each: then at least one for each record that is not there. */
        if (audit_sum_denied(a, &w, sent(t, series), &found) < 0)
                found = on_record - MIN2(on_record, dropped);
        return counted > found ? counted - found : 0;
}

static uint64_t missing(Run *r, const EgressTally *t, AuditSeries series, uint64_t counted, uint64_t on_record)
{
        AuditReader *a;
        uint64_t n;

        if (look(r, r->manager->audit, t, series) == 2 && counted <= on_record)
                return 0;
        /* One that sees every file there is: of a new one the other hears a moment later. */
        if (audit_reader_open(&a, NULL) < 0)
                return counted > on_record ? counted - on_record : 0;
        n = count_missing(r, a, t, series, counted, on_record);
        audit_reader_close(a);
        return n;
}

static bool is_told(const Run *r, AuditEvent event)
{
        return audit_is_on_record(r->manager->audit, event, r->id, false) > 0;
}

void run_warden_write_lost(Run *r)
{
        uint64_t egress, calls;
        EgressTally t;

        if (!run_warden_read_tally(r, &t))
                return;
        egress = missing(r, &t, SERIES_EGRESS, t.denied, t.denied_on_record);
        calls = missing(r, &t, SERIES_CALLS, t.calls_denied, t.calls_on_record);
        if (egress > 0 && !is_told(r, AUDIT_EGRESS_DENIED))
                write_lost(r, AUDIT_EGRESS_DENIED, egress, "attempts to reach something",
                                &(AuditDetail){ .proto = "*", .dest_name = "*" });
        if (calls > 0 && !is_told(r, AUDIT_SYSCALL_DENIED))
                write_lost(r, AUDIT_SYSCALL_DENIED, calls, "system calls", &(AuditDetail){ .syscall = "*" });
}
