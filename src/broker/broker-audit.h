/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-id128.h>

#include "base/error.h"
#include "wire/record.h"

/* The broker's records in the journal, and the proof that one has arrived there: sd_journal_send() says
 * "done" also when nobody listens, and the journal drops what does not fit on its disk. */

typedef enum AuditEvent {
        AUDIT_RUN_REQUESTED,
        AUDIT_RUN_REFUSED,
        AUDIT_RUN_VERIFIED,
        AUDIT_RUN_UNVERIFIED,
        AUDIT_RUN_STARTED,
        AUDIT_RUN_ENDED,
        AUDIT_EGRESS_DENIED, /* what the run's warden could not write any more */
        AUDIT_SYSCALL_DENIED, /* likewise */
        AUDIT_COPY_IN,
        AUDIT_COPY_OUT,
        AUDIT_COPY_REFUSED,
        AUDIT_TRIPWIRE,
        AUDIT_JOURNAL_CHECK, /* of no run */
        AUDIT_BOOTS_SETTLED, /* of no run: the runs of earlier boots have their end on record */
        _AUDIT_EVENT_MAX,
} AuditEvent;

/* The fields that every record of a run has; NULL or "": left out, for it is not known yet. */
typedef struct AuditSubject {
        const char *run, *policy, *digest, *unit, *invocation_id;
        uid_t caller_uid;
} AuditSubject;

/* Further fields; NULL or empty ones are left out. Values may hold any byte but NUL, message is escaped by
 * its author. */
typedef struct AuditDetail {
        const char *message;     /* never NULL */
        const char *command;     /* AGENTBOX_COMMAND */
        const char *reason;      /* AGENTBOX_REASON */
        char *const *verified;   /* AGENTBOX_VERIFIED, with spaces between */
        char *const *broken;     /* AGENTBOX_BROKEN, one a line */
        const char *proto, *dest_name; /* AGENTBOX_PROTO, AGENTBOX_DEST_NAME */
        const char *syscall;     /* AGENTBOX_SYSCALL */
        uint64_t count;          /* AGENTBOX_COUNT; 0: left out */
        const char *view;        /* AGENTBOX_VIEW */
        const char *decoy, *comm, *action; /* AGENTBOX_DECOY, AGENTBOX_COMM, AGENTBOX_ACTION */
        uint64_t pid;                      /* AGENTBOX_PID; 0: left out */
        uid_t uid;                         /* AGENTBOX_UID, the run's own; 0: left out */
        char *const *fingerprints;         /* AGENTBOX_DECOY_FINGERPRINT, a field for each */
        bool has_copy;
        uint64_t files, bytes; /* with has_copy: AGENTBOX_FILES, AGENTBOX_BYTES */
        const RunResult *result; /* each field of the record */
} AuditDetail;

int audit_write(AuditEvent event, const AuditSubject *subject, const AuditDetail *detail);

/* How much of argv a record shows (Arguments=), escaped; newly allocated. */
char *audit_command(char *const *argv, uint64_t arguments);

typedef struct AuditReader AuditReader;
int audit_reader_open(AuditReader **ret, Error **reterr);
AuditReader *audit_reader_close(AuditReader *a);
/* 1: a record of this event and run, written by a broker, is in the journal. 0: not (yet). by_us:
 * written by this process. */
int audit_is_on_record(AuditReader *a, AuditEvent event, const char *run, bool by_us);
/* After how long (µs) to look again, who has waited that long for a record to arrive: often at first, where the journal is quick; seldom
 * later, where something is wrong with it. */
uint64_t audit_look_again(uint64_t waited);
#define AUDIT_WAIT_USEC (5u * 1000000u) /* what is not there by then does not come */
/* The same for a record of no run, written since this machine was booted. */
int audit_is_in_this_boot(AuditReader *a, AuditEvent event);

/* ---- the records of a run's warden, which it numbers (AGENTBOX_SEQUENCE): which of them are in the journal. Nothing is read of
 * them but that number, and of AUDIT_..._DENIED the count; only of those that journald says are of its unit. */

typedef enum AuditSeries {
        SERIES_EGRESS,
        SERIES_CALLS,
        _AUDIT_SERIES_MAX,
} AuditSeries;

typedef struct AuditWarden {
        const char *run, *unit;
        AuditSeries series;
} AuditWarden;

#define AUDIT_SPAN_MAX 32768u /* numbers that are looked for at once */

typedef struct AuditArrival {
        uint64_t arrived;    /* this one and all before it are there */
        uint64_t missing_to; /* from the one behind it up to this they are not, but a later one is; 0: none is later */
} AuditArrival;

/* Up to arrived it is known already that they are there; sent: the newest. floor: of those up to it all that are there came before
 * all that are behind it; less than arrived where some in between were sent again, later. */
int audit_look_for(AuditReader *a, const AuditWarden *w, uint64_t floor, uint64_t arrived, uint64_t sent, AuditArrival *ret);
/* How many denials its records speak of, each record counted once. sent as above; -E2BIG: too many to be counted. */
int audit_sum_denied(AuditReader *a, const AuditWarden *w, uint64_t sent, uint64_t *ret);

/* ---- the past: the broker's own records of what became of runs, from the newest to the oldest, as journald says who wrote
 * them */

typedef struct AuditHistory AuditHistory;

typedef struct AuditRecord {
        AuditEvent event;
        sd_id128_t boot;
        uint64_t time; /* µs since the epoch */
        char run[32];  /* "": of none */
} AuditRecord;

int audit_history_open(AuditHistory **ret);
AuditHistory *audit_history_close(AuditHistory *h);
/* 1: one more. 0: there are no more. */
int audit_history_previous(AuditHistory *h, AuditRecord *ret);
/* A field of that one; NULL where it has none, or one longer than max. */
char *audit_history_field(AuditHistory *h, const char *name, size_t max);
