/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-journal.h>

#include "base/error.h"

/* The audit records, as the journal has them. Anybody who reaches the journal's socket can write AGENTBOX_…
 * fields; a record counts only if journald itself says (in the fields that begin with an underscore) that it
 * comes from the broker's unit, or from the warden's unit of the very run that it speaks of. */

static inline void journal_closep(sd_journal **j)
{
        sd_journal_close(*j);
}
#define _cleanup_journal_ _cleanup_(journal_closep)

/* Opens it for reading from the moment since on (µs since the epoch; 0: from the beginning), for one run
 * (NULL: all). */
int audit_open(const char *run, uint64_t since, sd_journal **ret, Error **reterr);
/* The next record that counts: 1 and an object of strings (arrays where a field is there several times),
 * with all AGENTBOX_… fields, MESSAGE, MESSAGE_ID, PRIORITY, __REALTIME_TIMESTAMP and what journald knows
 * of the writer. 0: there is none now. */
int audit_next(sd_journal *j, json_t **ret);
/* Which run an id, or the beginning of one, means. -ENOENT: no record that counts speaks of it. */
int audit_find_run(const char *run, char **ret_id, Error **reterr);

/* Whether the event is one that denied or refused something; false for an unknown event. */
bool audit_event_denies(const char *event);

/* Pure, for the test: what the underscore fields must say of a record that speaks of run. */
bool audit_writer_is_trusted(const char *unit, const char *uid, const char *transport, const char *run);
