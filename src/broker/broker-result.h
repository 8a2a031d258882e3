/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/record.h"

/* Why a run ended, from what PID 1 and the cgroup say and from what we did ourselves. Pure. */

typedef enum KillReason {
        KILL_NONE,
        KILL_ASKED, /* KillRun with signal 0, or its client is gone */
        KILL_OUTPUT_LIMIT,
        KILL_OOM, /* a process of the run was killed for memory, so all of it is */
        KILL_WARDEN, /* its warden died */
        KILL_OUTPUT_LOST, /* detached, and who kept its output ended */
        KILL_CALL,   /* OnDenied=kill, and its warden asks for it */
        KILL_TRIPWIRE, /* it touched one, and OnTripwire= says so; or it could not be frozen */
        _KILL_REASON_MAX,
} KillReason;

typedef struct RunEnding {
        int exec_main_code; /* CLD_EXITED, CLD_KILLED, CLD_DUMPED; 0: not known */
        int exec_main_status;
        const char *unit_result; /* Result= of the unit, or NULL */
        KillReason kill_reason;
        uint64_t oom_kills;     /* of the run's cgroup */
        bool oom_kills_unknown; /* the last ones could not be counted */
        bool client_gone;
        bool unreported; /* a scope, of which only its client knows how it ended */
        uint64_t memory_max, runtime_usec, output_max; /* the policy's; UINT64_MAX: not known */
        /* KILL_WARDEN: how, in words; NULL: not known. And when both had ended (monotonic; 0: not known): PID 1 ends
         * the warden of a run that has ended, and may tell of that first. */
        const char *warden_death;
        uint64_t main_exit, warden_exit;
        const char *call; /* the system call that the run is ended for (OnDenied=kill); NULL: none, or not known */
} RunEnding;

/* Fills reason, exit_code, signal, message and, where memory was the reason, memory_peak. Never by Result=
 * alone: systemd calls death by SIGTERM, SIGHUP, SIGINT and SIGPIPE a success. */
int run_result_classify(const RunEnding *e, RunResult *ret);
