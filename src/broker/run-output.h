/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <systemd/sd-event.h>

#include "base/error.h"
#include "wire/output.h"

/* What a detached run writes is kept by an agentbox-output of its own: the broker makes the pipes and hands both ends on, the
 * one to the shim, the other there, and never reads one. */

typedef struct Run Run;

typedef struct RunOutput {
        int channel_fd; /* to agentbox-output; -1: it is over */
        int write_fds[_OUTPUT_FD_MAX]; /* for the shim, until it has them */
        bool is_ready, is_done;
        sd_event_source *source, *deadline;
} RunOutput;

RunOutput *run_output_free(RunOutput *o);
/* Of a detached run: connects and asks for it, which PID 1 then starts beside the unit. */
int run_output_prepare(Run *r, Error **reterr);
/* Of a run that an earlier broker began. */
int run_output_adopt(Run *r);
/* Whether the workload may begin to write. */
bool run_output_is_ready(const Run *r);
/* The workload is about to run: what the next broker needs is with PID 1. */
int run_output_keep(Run *r);
/* The shim has its ends: nobody else may hold them, or the end would never be seen. */
void run_output_on_sent(Run *r);
/* All processes of the run are dead: whether what they wrote is in the journal, or will not be. run_end() follows when it
 * is. */
bool run_output_is_over(Run *r);
