/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <systemd/sd-event.h>

#include "cli/copy-in.h"
#include "cli/copy-out.h"
#include "cli/run-request.h"

/* What "agentbox run" copies, and says of it. */
typedef struct Copy {
        const RunRequest *request;
        CopyIn in;
        CopyOut out;
        Manifest manifest;
        View view;
        bool has_in, has_out, out_is_over, is_concluded;
        sd_event *event;
        sd_event_source *source, *timer;
        int (*on_over)(void *userdata);
        void *userdata;
        uint64_t began; /* monotonic */
        bool line_is_shown;
        int error; /* the first, which was said */
        /* Of what came out, what was not written, for the record; reason NULL: nothing. */
        char *refused;
        uint64_t refused_files, refused_bytes;
        const char *run;
} Copy;

#define COPY_NONE ((Copy){ .in = COPY_IN_NONE, .out = COPY_OUT_NONE, .view = VIEW_NONE })

/* Opens everything that --in, --view and --out name, before anything is asked of the broker. */
int copy_open(Copy *c, const RunRequest *q, Error **reterr);
/* Begins to send. on_over is called from the loop when nothing more is to come out. */
int copy_begin(Copy *c, sd_event *event, int (*on_over)(void *userdata), void *userdata, Error **reterr);
/* The broker answered. The run has begun: what went in is said, and its results are waited for; limits as of
 * its answer. */
int copy_run_began(Copy *c, const char *run, uint64_t max_bytes, uint64_t max_files);
/* There is no run. Where it was for what could not be read here, that is said in reterr. */
void copy_run_refused(Copy *c, Error **reterr);
/* Nothing more is waited for, or it is over anyway. */
bool copy_is_over(const Copy *c);
/* The results take their places, once. negative: not all of what was asked for is there, and why was said.
 */
int copy_conclude(Copy *c);
void copy_done(Copy *c);
