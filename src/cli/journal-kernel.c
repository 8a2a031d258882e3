/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "cli/audit.h"
#include "cli/facts.h"
#include "cli/journal-entry.h"
#include "cli/journal-kernel.h"
#include "cli/journal-log.h"
#include "cli/kernel-denial.h"
#include "cli/output.h"

enum { WINDOWS = 8, SEEN = 512, TEXT_MAX = 4096 };
/* A record of ours may reach the journal this much later than it was written. */
#define LATE_USEC UINT64_C(60000000)

/* A run, and when its uid was its own. */
typedef struct Window {
        json_t *verified; /* its record; NULL: nothing is here */
        uint64_t start, end; /* UINT64_MAX: no end is on record */
} Window;

struct KernelJoin {
        sd_journal *journal; /* a second one, to look up runs in */
        char *run;
        uid_t caller;
        Window windows[WINDOWS];
        size_t next_window;
        struct {
                uint64_t usec, serial;
        } seen[SEEN]; /* what came both ways */
        size_t next_seen;
};

KernelJoin *kernel_join_free(KernelJoin *k)
{
        if (!k)
                return NULL;
        for (size_t i = 0; i < WINDOWS; i++)
                json_decref(k->windows[i].verified);
        sd_journal_close(k->journal);
        free(k->run);
        free(k);
        return NULL;
}
DEFINE_CLEANUP(KernelJoin *, kernel_join_free)

int kernel_join_new(const char *run, uid_t caller, KernelJoin **ret)
{
        _cleanup_(kernel_join_freep) KernelJoin *k = calloc(1, sizeof(*k));
        int r;

        if (!k || (run && !(k->run = strdup(run))))
                return -ENOMEM;
        k->caller = caller;
        r = journal_open_system(&k->journal);
        if (r >= 0)
                r = sd_journal_get_fd(k->journal); /* or it would not learn of new files */
        if (r < 0)
                return r;
        *ret = TAKE_PTR(k);
        return 0;
}

int kernel_join_add_matches(sd_journal *j)
{
        int r = sd_journal_add_disjunction(j);

        if (r >= 0)
                r = journal_add_match(j, "_AUDIT_TYPE", KERNEL_DENIAL_TYPE);
        if (r >= 0)
                r = journal_add_match(j, "_TRANSPORT", "audit");
        if (r >= 0)
                r = sd_journal_add_disjunction(j);
        if (r >= 0)
                r = journal_add_match(j, "_TRANSPORT", "kernel");
        if (r >= 0)
                r = journal_add_match(j, "SYSLOG_FACILITY", "0");
        /* Notices, as the kernel prints these: most of its log is something else. */
        return r < 0 ? r : journal_add_match(j, "PRIORITY", "5");
}

bool kernel_join_is_kernels(sd_journal *j)
{
        char transport[16];

        journal_entry_field(j, "_TRANSPORT", transport, sizeof(transport));
        return streq(transport, "kernel") || streq(transport, "audit");
}

/* ---- which run */

static bool names_caller(const json_t *verified, uid_t caller)
{
        return caller == CALLER_ANY || facts_text_u64(verified, "AGENTBOX_CALLER_UID") == caller;
}

static uint64_t written_at(sd_journal *j)
{
        uint64_t usec = journal_entry_number(j, "_SOURCE_REALTIME_TIMESTAMP");

        if (usec == UINT64_MAX && sd_journal_get_realtime_usec(j, &usec) < 0)
                return UINT64_MAX;
        return usec;
}

/* Of the broker's records of this event. */
static int match_broker(sd_journal *j, const char *event, const char *field, const char *value)
{
        int r;

        sd_journal_flush_matches(j);
        r = journal_add_match(j, "_SYSTEMD_UNIT", AUDIT_BROKER_UNIT);
        if (r >= 0)
                r = journal_add_match(j, "AGENTBOX_EVENT", event);
        return r < 0 ? r : journal_add_match(j, field, value);
}

/* The last run that was given this uid before that moment. */
static int find_start(KernelJoin *k, const KernelDenial *d, const char *boot, Window *ret)
{
        char uid[16];
        int r;

        snprintf(uid, sizeof(uid), "%u", d->uid);
        r = match_broker(k->journal, "run-verified", "AGENTBOX_UID", uid);
        if (r >= 0)
                r = journal_add_match(k->journal, "_BOOT_ID", boot);
        if (r >= 0)
                r = sd_journal_seek_realtime_usec(k->journal, d->usec + LATE_USEC);
        while (r >= 0 && (r = sd_journal_previous(k->journal)) > 0) {
                _cleanup_json_ json_t *record = NULL;
                uint64_t start = written_at(k->journal);

                r = journal_entry_take(k->journal, JOURNAL_AUDIT, &record);
                if (r > 0 && kernel_denial_is_within(d, record, boot, start, UINT64_MAX)) {
                        *ret = (Window){ TAKE_PTR(record), start, UINT64_MAX };
                        return 1;
                }
        }
        return r;
}

static int find_end(KernelJoin *k, Window *w)
{
        _cleanup_json_ json_t *record = NULL;
        int r = match_broker(k->journal, "run-ended", "AGENTBOX_RUN_ID", facts_string(w->verified, "AGENTBOX_RUN_ID") ?: "");

        if (r >= 0)
                r = sd_journal_seek_head(k->journal);
        if (r >= 0)
                r = journal_entry_next(k->journal, JOURNAL_AUDIT, &record);
        if (r > 0)
                w->end = written_at(k->journal);
        return MIN2(r, 0);
}

/* The same uid was another run's before, and will be another's after it. */
static int find_window(KernelJoin *k, const KernelDenial *d, const char *boot, const Window **ret)
{
        Window *w = k->windows + k->next_window, found = {};
        int r;

        for (size_t i = 0; i < WINDOWS; i++)
                if (k->windows[i].end != UINT64_MAX &&
                                kernel_denial_is_within(d, k->windows[i].verified, boot, k->windows[i].start, k->windows[i].end)) {
                        *ret = k->windows + i;
                        return 1;
                }
        r = sd_journal_process(k->journal);
        if (r >= 0)
                r = find_start(k, d, boot, &found);
        if (r > 0 && find_end(k, &found) < 0)
                r = 0;
        if (r <= 0 || !kernel_denial_is_within(d, found.verified, boot, found.start, found.end)) {
                json_decref(found.verified);
                return MIN2(r, 0);
        }
        json_decref(w->verified);
        *w = found;
        k->next_window = (k->next_window + 1) % WINDOWS;
        *ret = w;
        return 1;
}

/* ---- the entry */

/* The kernel's own, as journald says. */
static bool read_denial(sd_journal *j, KernelDenial *ret)
{
        char transport[16], text[TEXT_MAX], type[16];
        uint64_t usec, serial;
        KernelDenial d;

        journal_entry_field(j, "_TRANSPORT", transport, sizeof(transport));
        journal_entry_field(j, "MESSAGE", text, sizeof(text));
        if (streq(transport, "kernel"))
                return kernel_denial_parse_line(text, ret) && journal_entry_number(j, "SYSLOG_FACILITY") == 0;
        if (!streq(transport, "audit") || !streq(journal_entry_field(j, "_AUDIT_TYPE", type, sizeof(type)), KERNEL_DENIAL_TYPE) ||
                        !kernel_denial_parse(text, &d))
                return false;
        usec = journal_entry_number(j, "_SOURCE_REALTIME_TIMESTAMP");
        serial = journal_entry_number(j, "_AUDIT_ID");
        if (usec == UINT64_MAX || serial == UINT64_MAX)
                return false;
        d.usec = usec;
        d.serial = serial;
        *ret = d;
        return true;
}

static bool came_before(KernelJoin *k, const KernelDenial *d)
{
        for (size_t i = 0; i < SEEN; i++)
                if (k->seen[i].usec == d->usec && k->seen[i].serial == d->serial)
                        return true;
        k->seen[k->next_seen].usec = d->usec;
        k->seen[k->next_seen].serial = d->serial;
        k->next_seen = (k->next_seen + 1) % SEEN;
        return false;
}

int kernel_join_take(KernelJoin *k, sd_journal *j, json_t **ret)
{
        const Window *w;
        KernelDenial d;
        char boot[40];
        int r;

        if (!read_denial(j, &d))
                return 0;
        journal_entry_field(j, "_BOOT_ID", boot, sizeof(boot));
        r = find_window(k, &d, boot, &w);
        if (r <= 0)
                return r;
        if ((k->run && !streq(k->run, facts_string(w->verified, "AGENTBOX_RUN_ID") ?: "")) || !names_caller(w->verified, k->caller) ||
                        came_before(k, &d))
                return 0;
        *ret = kernel_denial_record(&d, w->verified);
        return *ret ? 1 : -ENOMEM;
}
