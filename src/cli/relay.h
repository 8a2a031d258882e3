/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Carries bytes between the caller's descriptors and the pipes (or the pty) of a run, unaltered, one thread
 * a direction.
 *
 * Why threads: the caller's descriptors are shared with its shell, so they must not be made non-blocking,
 * and files, terminals and pipes all have to work. A thread that blocks in the write to a reader that sleeps
 * is back-pressure, and nothing else waits for it. Each holds one buffer of fixed size. The descriptors of
 * the run's side are ours alone and are non-blocking. */

typedef struct Relay Relay;

typedef struct RelayStream {
        Relay *relay;
        int from, to; /* what is the caller's is borrowed; inner is owned */
        int inner;   /* which of the two is the run's side: closed by the thread when this direction is over,
                        unless shared */
        bool output; /* counts against the limit */
        bool shared; /* the pty's master serves both directions: closed by relay_done() */
        bool started;
        pthread_t thread;
        atomic_bool finished;
        atomic_int error; /* negative errno of the caller's side (never EPIPE: that is an answer, not a
                             failure) */
} RelayStream;

struct Relay {
        RelayStream streams[3];
        size_t n_streams;
        atomic_uint_fast64_t left; /* bytes of output that may still be delivered */
        atomic_bool limit_hit;     /* more came: it was thrown away */
        atomic_bool ended;
        int event_fd; /* becomes readable when a direction ends or the limit is hit */
        int ended_fd; /* becomes readable, for good, after ended was set */
};

int relay_init(Relay *r, uint64_t output_limit);
/* Both take over inner_fd, on failure too. The caller's descriptor is not closed. */
int relay_add_input(Relay *r, int caller_fd, int inner_fd);
int relay_add_output(Relay *r, int inner_fd, int caller_fd);
/* A pty's master, for both directions. */
int relay_add_terminal(Relay *r, int master, int caller_in, int caller_out);
int relay_start(Relay *r);

/* Every writer inside is dead: what the pipes hold now is all there will be. The outputs finish when it is
 * delivered. */
void relay_run_ended(Relay *r);
/* Takes what event_fd reports. */
void relay_acknowledge(Relay *r);
bool relay_outputs_finished(const Relay *r);
/* The first failure of the caller's side, 0 where there was none. */
int relay_error(const Relay *r);
/* Stops whatever still runs, a thread that is stuck in a write too, and closes what is owned. */
void relay_done(Relay *r);
