/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "wire/journal-query.h"

/* The records that count, wherever they come from: from the journal's files, where the caller may read those; else from
 * agentbox-journal, which tells of the caller's own runs. */

typedef struct AuditLog AuditLog;

AuditLog *audit_log_free(AuditLog *l);
static inline void audit_log_freep(AuditLog **l)
{
        audit_log_free(*l);
}
#define _cleanup_audit_log_ _cleanup_(audit_log_freep)

/* The audit records from the moment since on (µs since the epoch; 0: from the beginning), of one run (NULL: of all). */
int audit_open(const char *run, uint64_t since, AuditLog **ret, Error **reterr);
/* The same with what is asked for in full. */
int audit_log_open(const JournalQuery *query, AuditLog **ret, Error **reterr);
/* 1 and a record as journal_log_next() gives it; 0: there is none now. */
int audit_next(AuditLog *l, json_t **ret);
/* In words, where one of these has returned r. Until the log is freed. */
const char *audit_log_error(const AuditLog *l, int r);
/* With query.follow: becomes readable where there may be more; then audit_log_process(), which does not wait, and audit_next(). */
int audit_log_fd(AuditLog *l);
int audit_log_process(AuditLog *l);
/* Both, and waiting. */
int audit_log_wait(AuditLog *l);
/* Which run an id, or the beginning of one, means. -ENOENT: no record that counts speaks of it. */
int audit_find_run(const char *run, char **ret_id, Error **reterr);
