/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/strv.h"

/* The result record of a run: one table for the D-Bus dictionary, the journal fields (upper case, AGENTBOX_ in
 * front) and the JSON of --result. An unknown figure is UINT64_MAX, an unknown string NULL: absent on the bus
 * and in the journal, null in JSON. */

typedef enum RunReason {
        REASON_EXITED,
        REASON_SIGNAL,
        REASON_TIMEOUT,
        REASON_OOM,
        REASON_OUTPUT_LIMIT,
        REASON_KILLED,
        REASON_REFUSED,
        REASON_LOST,
        _REASON_MAX,
} RunReason;
extern const char *const run_reason_names[_REASON_MAX];

typedef struct RunResult {
        char *run, *policy;
        RunReason reason;
        uint64_t exit_code; /* of the workload; UINT64_MAX where it did not exit */
        uint64_t signal;    /* UINT64_MAX where none */
        uint64_t wall_usec, cpu_usec, memory_peak, tasks_peak;
        uint64_t egress_bytes, ingress_bytes; /* over connections that were allowed */
        uint64_t egress_allowed;              /* connections */
        uint64_t egress_denied;               /* attempts of any kind */
        char **egress_denied_to;              /* the first few of their destinations, "NAME:PORT", "[ADDRESS]:PORT", to be
                                                 shown: escaped */
        uint64_t syscalls_denied;
        uint64_t tripwires; /* decoys opened, and attempts on metadata services */
        uint64_t started, ended; /* µs since the epoch; UINT64_MAX: never started */
        char **verified;
        char *message;      /* one line for a person, e.g. "memory limit 256M reached (peak 256M)"; or NULL */
} RunResult;

typedef enum RecordType { RECORD_STRING, RECORD_U64, RECORD_LIST, RECORD_REASON } RecordType;
typedef struct RecordField {
        const char *name; /* "exit_code": D-Bus key, JSON key; AGENTBOX_EXIT_CODE in the journal */
        RecordType type;
        size_t offset;    /* in RunResult */
} RecordField;
extern const RecordField run_result_fields[];
extern const size_t n_run_result_fields;

void run_result_init(RunResult *r); /* every figure unknown */
void run_result_done(RunResult *r);
int run_reason_from_string(const char *s); /* or -EINVAL */
/* The exit status of "agentbox run" by the contract's table. */
int run_result_exit_status(const RunResult *r);
