/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "wire/egress.h"

/* The warden's witness: a process of its own that holds the listener of the run's system-call filter. It answers every call
 * that the filter leaves to it with EPERM and puts it on record. Whoever holds the listener could also say "go on", which
 * would open the call to the run: therefore not the warden, which reads the run's bytes and the network's all day. The witness
 * reads no byte of anybody's but the name of a process, takes nothing from the warden once it is started, and the warden can
 * neither see into it nor send to it.
 *
 * uid            the warden's, in its unit; not dumpable
 * descriptors    the listener (from the broker, past the warden), the journal's socket, /proc of the host to look up who called,
 *                the write end of a pipe to the warden
 * system calls   the table in warden-confine.c
 * must           count, and record, before the caller has its answer; answer at once
 * must not       let a call go on; read the caller's memory; wait for the journal */

/* What it tells the warden, a byte each. The closing of the pipe without WITNESS_DONE: it has died, and the run must end. */
enum {
        WITNESS_DONE = 'd',  /* nothing of the run lives, and all is on record */
        WITNESS_FATAL = 'k', /* OnDenied=kill: the call is on record, its caller waits for the end */
};

typedef struct WitnessFds {
        int calls, proc, journal; /* WARDEN_FD_CALLS, WARDEN_FD_PROC, WARDEN_FD_JOURNAL */
} WitnessFds;

/* Starts it, before the warden confines itself. ret_fd: the read end of the pipe, non-blocking. */
int witness_start(const WardenSpec *spec, EgressTally *tally, const WitnessFds *fds, int *ret_fd);
