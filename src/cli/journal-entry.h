/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <systemd/sd-journal.h>

#include "wire/journal-query.h"

/* The journal's entry at which a reader stands. */

#define ENTRY_FIELD_MAX 256u

static inline void journal_closep(sd_journal **j)
{
        sd_journal_close(*j);
}
#define _cleanup_journal_ _cleanup_(journal_closep)

/* A field without looking at the others; "" where it has none, or one of size bytes or more. */
const char *journal_entry_field(sd_journal *j, const char *name, char *ret, size_t size);
/* A field that is a number; UINT64_MAX where it has none. */
uint64_t journal_entry_number(sd_journal *j, const char *name);
/* What is shown of it, see journal_log_next(). -EBADMSG: a damaged entry. */
int journal_entry_read(sd_journal *j, JournalKind kind, json_t **ret);
/* As journal_entry_read(), where it is a record that counts (audit.h): 1. 0: it is none. */
int journal_entry_take(sd_journal *j, JournalKind kind, json_t **ret);
/* Goes on to the next record that counts: 1; 0: there is none now. */
int journal_entry_next(sd_journal *j, JournalKind kind, json_t **ret);

/* A match "FIELD=value" besides those that there are. */
int journal_add_match(sd_journal *j, const char *field, const char *value);
/* The system's journal. -EACCES: this process may not read it. */
int journal_open_system(sd_journal **ret);
