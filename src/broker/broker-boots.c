/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <syslog.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include "base/parse.h"
#include "broker/broker-boots.h"
#include "broker/open-ends.h"
#include "broker/run.h"

/* A record takes some 20 µs. */
#define BATCH 64u
#define PAUSE_USEC 10000u
/* More are not looked at: some seconds of work, and months of runs. */
#define RECORDS_MAX 200000u
#define FIELD_MAX 8192u

struct BootsReader {
        Manager *manager;
        AuditHistory *history;
        OpenEnds ends;
        sd_event_source *timer;
        unsigned n_read, n_lost;
};

BootsReader *boots_reader_free(BootsReader *b)
{
        if (!b)
                return NULL;
        sd_event_source_disable_unref(b->timer);
        audit_history_close(b->history);
        open_ends_done(&b->ends);
        free(b);
        return NULL;
}

static void fill_lost(const AuditRecord *record, RunResult *ret)
{
        bool started = record->event == AUDIT_RUN_STARTED;

        run_result_init(ret);
        ret->reason = REASON_LOST;
        if (started)
                ret->started = record->time;
        ret->message = strdup(started ? "the machine went down while it ran"
                                      : "the machine went down; whether it had begun, nobody saw");
}

static void write_lost(BootsReader *b, const AuditRecord *record)
{
        enum { POLICY, DIGEST, UNIT, INVOCATION_ID, CALLER_UID, COMMAND, _FIELDS };
        static const char *const names[_FIELDS] = { "AGENTBOX_POLICY", "AGENTBOX_POLICY_DIGEST", "AGENTBOX_UNIT",
                "AGENTBOX_INVOCATION_ID", "AGENTBOX_CALLER_UID", "AGENTBOX_COMMAND" };
        _cleanup_(run_result_done) RunResult result;
        _cleanup_free_ char *message = NULL;
        char *fields[_FIELDS];
        uint64_t uid = 0;
        int k;

        for (size_t i = 0; i < _FIELDS; i++)
                fields[i] = audit_history_field(b->history, names[i], FIELD_MAX);
        if (fields[CALLER_UID])
                (void) parse_u64(fields[CALLER_UID], &uid);
        fill_lost(record, &result);
        if (asprintf(&message, "Run %s ended (lost): %s", record->run, result.message ?: "?") < 0)
                message = NULL;
        k = audit_write(AUDIT_RUN_ENDED,
                        &(AuditSubject){ .run = record->run,
                                        .policy = fields[POLICY],
                                        .digest = fields[DIGEST],
                                        .unit = fields[UNIT],
                                        .invocation_id = fields[INVOCATION_ID],
                                        .caller_uid = (uid_t) uid },
                        &(AuditDetail){ .message = message ?: "Run ended", .command = fields[COMMAND], .result = &result });
        if (k < 0)
                sd_journal_print(LOG_ERR, "The end of run %s cannot be written to the journal: %s", record->run, strerror(-k));
        b->n_lost++;
        for (size_t i = 0; i < _FIELDS; i++)
                free(fields[i]);
}

/* 1: there may be more. */
static int read_one(BootsReader *b)
{
        AuditRecord record;
        int r = audit_history_previous(b->history, &record);

        if (r <= 0)
                return r;
        if (b->n_read++ >= RECORDS_MAX) {
                sd_journal_print(LOG_WARNING, "More than %u records are not looked at for runs without an end", RECORDS_MAX);
                return 0;
        }
        r = open_ends_read(&b->ends, record.event, record.boot, record.run);
        if (r == OPEN_ENDS_LOST)
                write_lost(b, &record);
        return r < 0 ? r : r != OPEN_ENDS_OVER;
}

static void finish(BootsReader *b, int r)
{
        Manager *m = b->manager;
        _cleanup_free_ char *message = NULL;
        static const AuditSubject nobody = {};

        if (r < 0)
                sd_journal_print(LOG_WARNING, "Whether runs of earlier boots are without an end cannot be read: %s", strerror(-r));
        else if (asprintf(&message, "Runs of earlier boots: %u had no end on record, and are lost", b->n_lost) < 0)
                message = NULL;
        if (r >= 0)
                (void) audit_write(AUDIT_BOOTS_SETTLED, &nobody,
                                &(AuditDetail){ .message = message ?: "Runs of earlier boots are settled", .count = b->n_lost });
        m->boots = boots_reader_free(b);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
        BootsReader *b = userdata;
        int r = 1;

        for (unsigned i = 0; r > 0 && i < BATCH; i++)
                r = read_one(b);
        if (r > 0)
                r = sd_event_source_set_time_relative(source, PAUSE_USEC) < 0 ? -EIO : 1;
        if (r > 0 && sd_event_source_set_enabled(source, SD_EVENT_ONESHOT) >= 0)
                return 0;
        finish(b, r);
        return 0;
}

static int begin(Manager *m, BootsReader **ret)
{
        BootsReader *b = calloc(1, sizeof(*b));
        int r;

        if (!b)
                return -ENOMEM;
        b->manager = m;
        r = sd_id128_get_boot(&b->ends.now);
        if (r >= 0)
                r = audit_history_open(&b->history);
        if (r >= 0)
                r = sd_event_add_time_relative(m->event, &b->timer, CLOCK_MONOTONIC, PAUSE_USEC, 0, on_timer, b);
        if (r < 0)
                boots_reader_free(b);
        else
                *ret = b;
        return r;
}

void boots_settle(Manager *m)
{
        int r = audit_is_in_this_boot(m->audit, AUDIT_BOOTS_SETTLED);

        if (r == 0)
                r = begin(m, &m->boots);
        if (r < 0)
                sd_journal_print(LOG_WARNING, "Runs of earlier boots cannot be looked for: %s", strerror(-r));
}

bool boots_are_being_settled(const Manager *m)
{
        return m->boots;
}
