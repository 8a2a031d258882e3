/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

/* What the next broker must know of a run if this one dies: RUNTIME_DIR/ID/state, written anew as a whole at
 * each step. */

typedef enum StatePhase {
        STATE_STARTING, /* the unit may exist; nothing untrusted has run */
        STATE_RUNNING,  /* the command may be running */
        STATE_ENDING,   /* it is over; whether its end is in the journal must be looked up */
        _STATE_PHASE_MAX,
} StatePhase;

typedef struct RunState {
        StatePhase phase;
        char *id, *name, *policy, *digest, *command, *client, *bus, *invocation_id,
                        *control_group; /* never NULL; "": none */
        uint32_t caller_uid, uid, gid, command_pid;
        uint32_t init_pid; /* of the main process' PID namespace; 0: it has none of its own */
        bool detached, scope, filtered; /* filtered: it has a warden */
        /* Of its end, as far as it is known: what PID 1 forgets when it was told. */
        char *unit_result;
        uint32_t exec_main_code, exec_main_status, kill_reason;
        uint64_t exec_main_exit, exec_main_exit_monotonic;
        bool client_gone;
        uint64_t started; /* µs since the epoch; UINT64_MAX: not yet */
        uint64_t started_monotonic; /* the same by the clock that nobody sets, from the boot on */
        uint64_t memory_max, runtime_usec, output_max;
        uint64_t copy_bytes, copy_files; /* with copy_paths */
        uint64_t on_tripwire, metadata_on_record; /* see run-tripwire.h */
        char **verified, **copy_paths;   /* what is to be copied out; the descriptors are in fd-store.h */
        char **decoys;                   /* decoys_to_strv() */
} RunState;

void run_state_done(RunState *s);
int run_state_encode(const RunState *s, Buf *out);
/* -EBADMSG: not well-formed. ret is filled completely or untouched. */
int run_state_decode(const void *p, size_t n, RunState *ret);

/* dir_fd: the run's directory. */
int run_state_write(int dir_fd, const RunState *s);
int run_state_read(int dir_fd, RunState *ret);
