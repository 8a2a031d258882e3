/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <systemd/sd-bus.h>

#include "base/error.h"
#include "wire/record.h"

/* Waiting for the end of a run, through the death of a broker, without blocking. */
typedef struct RunWait {
        sd_bus *bus;     /* on which it waits now: the caller's, or where that is gone, its own */
        sd_bus *own_bus;
        const char *run; /* its id */
        RunResult result;
        bool answered, lost;
        unsigned n_lost; /* how often the broker went away meanwhile */
        int r;           /* of the answer */
        Error *error;
} RunWait;

/* The bus and the id stay the caller's, and must outlive it. Whoever waits for something on the bus takes w->bus. */
int run_wait_begin(RunWait *w, sd_bus *bus, const char *run, Error **reterr);
/* What has arrived on the bus. 1: the run has ended, result says how; 0: not yet. */
int run_wait_process(RunWait *w, Error **reterr);
void run_wait_done(RunWait *w);
