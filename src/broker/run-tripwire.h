/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <systemd/sd-bus.h>

#include "base/error.h"
#include "broker/decoys.h"
#include "broker/tripwire-count.h"

/* The tripwires of a run: decoys (decoys.h), whose opening the kernel tells the broker of, and the metadata services, which the
 * run's warden counts every attempt on. One fanotify group for all runs, which PID 1 keeps for the next broker: an open waits
 * there until one comes.
 *
 * The first open by a process gets a record at once, repetitions are counted and written together by the manager's sampler.
 * OnTripwire= acts with the first. */

typedef struct Manager Manager;
typedef struct Run Run;

typedef struct RunTripwires {
        Decoys decoys; /* none: n is 0 */
        uint64_t action; /* ON_TRIPWIRE_… */
        TripwireCounts counts;
        uint64_t metadata_on_record; /* attempts */
        sd_bus_slot *freeze_slot, *thaw_slot;
        sd_bus_message *thaw_call; /* answered when PID 1 has answered */
        bool killed;
} RunTripwires;
void run_tripwires_done(RunTripwires *t);

/* The decoys that the policy asks for, before the verification. */
int run_tripwires_plant(Run *r, Error **reterr);
/* Of a run that an earlier broker began, its unit lives. */
void run_tripwires_adopt(Run *r);
/* Puts on record what was counted since; acts on attempts on the metadata services. */
void run_tripwires_flush(Run *r);
/* Lets a frozen run go on; call is answered when it does. The next touch freezes it again. */
int run_tripwires_thaw(Run *r, sd_bus_message *call);
/* How often any was touched; UINT64_MAX: it has none. */
uint64_t run_tripwires_total(const Run *r);

/* What is kept with PID 1, if anything. */
void manager_take_tripwires(Manager *m);
void manager_close_tripwires(Manager *m);
/* A run is over: the group is not needed any more, if no other has decoys. */
void manager_release_tripwires(Manager *m);
