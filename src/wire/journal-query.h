/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* agentbox → agentbox-journal, which reads the journal for those who may not, as far as it is about their own runs: a
 * SOCK_STREAM connection for each question, made by PID 1 (agentbox-journal.socket). The client writes one query and closes
 * its direction; the answer is lines, each a JSON object, and an empty line where there is no more for now. {"error": TEXT,
 * "errno": N} is the last line of an answer that failed. */

#define JOURNAL_QUERY_SOCKET "/run/agentbox-journal"
#define JOURNAL_QUERY_MAGIC 0x31514241u /* "ABQ1" */
#define JOURNAL_QUERY_SIZE_MAX 512u
#define JOURNAL_QUERY_RUN_MAX 128u
#define JOURNAL_QUERY_LINE_MAX (4u * 1024 * 1024)

typedef enum JournalKind {
        JOURNAL_AUDIT,  /* the audit records */
        JOURNAL_OUTPUT, /* what a detached run has printed */
        JOURNAL_FIND,   /* one line: {"run": the id that run, an id's beginning, stands for} */
        _JOURNAL_KIND_MAX
} JournalKind;

typedef struct JournalQuery {
        JournalKind kind;
        bool follow;    /* it goes on until the client closes the connection */
        uint64_t since; /* µs since the epoch; 0: from the beginning */
        char *run;      /* "": all, with JOURNAL_AUDIT */
} JournalQuery;

void journal_query_done(JournalQuery *q);
/* -EINVAL: breaks a rule above. */
int journal_query_encode(const JournalQuery *q, Buf *out);
/* -EBADMSG: not well-formed. ret is filled completely or untouched. */
int journal_query_decode(const void *p, size_t n, JournalQuery *ret);
