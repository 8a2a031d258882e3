/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Which records of the journal count. Anybody who reaches its socket can write AGENTBOX_… fields; a record counts only if
 * journald itself says (in the fields that begin with an underscore) that it comes from the broker's unit, or from the
 * warden's unit of the very run that it speaks of, and of what a warden sees. Pure. */

#define AUDIT_BROKER_UNIT "agentboxd.service"

/* What the underscore fields must say of a record of this event that speaks of run. */
bool audit_writer_is_trusted(const char *unit, const char *uid, const char *transport, const char *run, const char *event);
/* The same of what a detached run has printed. */
bool audit_output_is_trusted(const char *unit, const char *transport);

/* All events, by number; NULL: there are no more. */
const char *audit_event_name(size_t i);
/* Whether the event is one that denied or refused something; false for an unknown event. */
bool audit_event_denies(const char *event);
