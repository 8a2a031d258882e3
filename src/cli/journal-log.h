/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <jansson.h>
#include <sys/types.h>
#include <systemd/sd-journal.h>

#include "base/error.h"
#include "wire/journal-query.h"

/* The records that count (audit.h), read from the journal's files by a process that may; and with the audit records what the
 * kernel has on record of the same runs (journal-kernel.h). */

#define CALLER_ANY ((uid_t) -1)

typedef struct JournalLog JournalLog;

JournalLog *journal_log_close(JournalLog *l);
DEFINE_CLEANUP(JournalLog *, journal_log_close)
#define _cleanup_journal_log_ _cleanup_(journal_log_closep)

/* What query is about, of the runs of one caller alone or of CALLER_ANY. -EACCES: this process may not read it. */
int journal_log_open(const JournalQuery *query, uid_t caller, JournalLog **ret, Error **reterr);
/* The next record that counts: 1 and an object of strings (arrays where a field is there several times), with all AGENTBOX_…
 * fields, MESSAGE, MESSAGE_ID, PRIORITY, __REALTIME_TIMESTAMP and what journald knows of the writer; of output, MESSAGE is a
 * string or, where the bytes are no UTF-8, an array of their numbers; of the kernel's, see kernel_denial_record(). 0: there is
 * none now. */
int journal_log_next(JournalLog *l, json_t **ret);
/* Becomes readable where there may be more; then journal_log_process(), which does not wait. */
int journal_log_fd(JournalLog *l);
int journal_log_process(JournalLog *l);
/* The journal, for all entries that match, written as journalctl(1) has it: FIELD=VALUE, "+" between alternatives, NULL at the end. */
int journal_open_matches(const char *const *matches, sd_journal **ret, Error **reterr);
/* Whose runs are whose, by what the broker has written: a warden, or what keeps the output, could write any number. */
typedef struct JournalOwner {
        uid_t caller;
        sd_journal *journal;
        char *run; /* the last one that was the caller's */
} JournalOwner;

void journal_owner_done(JournalOwner *o);
/* Whether the run that the record speaks of is the caller's, or CALLER_ANY is asked for. */
int journal_owner_has(JournalOwner *o, const json_t *record);
/* Which run an id, or the beginning of one, means. -ENOENT: no record that counts speaks of it. */
int journal_log_find(const char *run, uid_t caller, char **ret_id, Error **reterr);
