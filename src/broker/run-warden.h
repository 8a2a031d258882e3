/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#include "broker/broker-audit.h"
#include "broker/broker-result.h"
#include "broker/broker-root.h"
#include "broker/broker-unit.h"
#include "broker/broker-verify.h"
#include "broker/broker-wall.h"
#include "broker/warden-plan.h"
#include "wire/egress.h"

/* The warden of a filtered run, and the wall that leads to it. One of each, as long as the run.
 *
 *   prepared ──▶ started with the run, in one transaction ──▶ met: its hello, its unit's properties, what
 * its slices allow ──▶ verified, with the run ──▶ told: WardenSpec and descriptors ──▶ ready ──▶ (the run's
 * command is executed) ──▶ over: with the run, which is bound to it, or before, which ends the run
 *
 * What it has counted is in a file of the run's directory, so that the next broker finds it, too. */

#define WARDEN_UNIT_PREFIX "agentbox-warden-"
#define WARDEN_RUN_ID_LENGTH 10u /* RUN_ID_LENGTH */
#define WARDEN_SLICES 3u         /* its own, agentbox.slice, -.slice: what they allow, the unit may */

typedef struct Run Run;

typedef struct RunWarden {
        char unit[sizeof(WARDEN_UNIT_PREFIX ".service") + WARDEN_RUN_ID_LENGTH];
        Wall wall;
        WardenPlan plan;
        RunRoot root;
        UnitProps props;
        char *description;
        int journal_fd, notify_fd, tally_fd;
        int calls_fd, calls_theirs_fd; /* a pair: over it goes the listener of the run's filter, past the warden to its witness */
        int proc_fd;
        /* OnDenied=kill: never used, but held, here and by PID 1 for the next broker, so that who made a call that the run is ended for does not go on when the
         * warden, which asks for that by its own end, is gone. */
        int listener_fd;

        int channel_fd;
        sd_event_source *channel_source;
        WardenHello hello;
        struct ucred peer; /* who sent it, from the kernel */
        sd_bus_slot *properties_slot, *check_slot, *slice_slots[WARDEN_SLICES];
        sd_bus_message *properties;
        unsigned n_slices;  /* that have told */
        char **open_slices; /* those of them that allow addresses */
        bool has_hello, is_told, is_ready;

        UnitStatus status;
        bool was_up, is_over, is_ending;
        bool lied; /* of what it has sent */
        char suspicion[16]; /* how the start of the run's unit ended, while PID 1 is asked whether this is why; "" else */
        uint64_t floors[_AUDIT_SERIES_MAX]; /* of audit_look_for(); has_gap: and it stays until all behind it are there */
        bool has_gap[_AUDIT_SERIES_MAX];
        sd_event_source *deadline; /* of its end */
        unsigned n_deadlines;
} RunWarden;

#define WARDEN_TALLY_FILE "tally" /* RUNTIME_DIR/ID/tally */

RunWarden *run_warden_new(const char *run_id);
RunWarden *run_warden_free(RunWarden *w);
/* Whether the name is that of a warden's unit; the run's id in it. */
bool warden_unit_run_id(const char *unit, char ret[WARDEN_RUN_ID_LENGTH + 1]);

/* The run's policy is filtered: everything that its warden's unit needs. */
int run_warden_prepare(Run *r, Error **reterr);
/* The ends of the channel: the warden's, for the call that starts it. */
int run_warden_open(Run *r, int *ret_warden_fd, Error **reterr);
/* The call was sent: what must be asked besides. */
int run_warden_ask(Run *r);
/* Everything that it and PID 1 have to tell before the verification has been told; also where the run has no
 * warden. */
bool run_warden_is_met(const Run *r);
/* The verification's view of it. */
void run_warden_verify_input(const Run *r, int cgroup_fd, VerifyWarden *ret);
/* Puts the programs of the wall on the run's cgroup. */
int run_warden_attach(Run *r, int cgroup_fd, Error **reterr);
/* What it is to do. It answers, and run_advance() follows. */
int run_warden_tell(Run *r, Error **reterr);
/* Whether its witness puts refused system calls on record. */
bool run_warden_records_calls(const Run *r);
/* The listener of the run's filter, for the witness; the descriptor stays the caller's. Once. -EINVAL: it is none. */
int run_warden_pass_listener(Run *r, int fd);
/* A socket of its own to where records go. */
int run_warden_connect_journal(int *ret_fd, Error **reterr);
/* Waits, not long, until journald has dealt with everything that was sent to it before now: of a process that was killed something
 * may still be on its way. */
bool run_warden_journal_has_caught_up(void);
/* What only the start needed: the wall lives on in the warden and in the run's cgroup. */
void run_warden_drop_start(Run *r);

/* run-warden-life.c */

/* A run of an earlier broker. */
int run_warden_adopt(Run *r, bool has_unit);

/* What PID 1 tells of its unit. */
void run_warden_on_changed(Run *r, sd_bus_message *body);
void run_warden_on_job_removed(Run *r, const char *result);
void run_warden_on_removed(Run *r);
/* The run's unit was not started, since something that it needs was not. true: PID 1 is asked whether that
 * is the warden, and the run is refused with what it answers. */
bool run_warden_suspect(Run *r, const char *result);
/* The connection to PID 1 is back. r may be gone afterwards. */
void run_warden_catch_up(Run *r);

/* The run's unit is over: so is its reason to be. Told once. */
void run_warden_end(Run *r);
/* Nothing of it is left; also where the run has none. */
bool run_warden_is_over(const Run *r);
/* What PID 1 holds of it for the next broker: the run has ended. */
void run_warden_let_go(Run *r);
/* Takes what it has counted over into the result. */
void run_warden_count(Run *r);
/* What it has counted so far; false: not known. */
bool run_warden_read_tally(const Run *r, EgressTally *ret);
/* KILL_WARDEN: it died. KILL_CALL: it ended, and wants the run to, for a system call: the name of that; newly allocated, or
 * NULL. */
KillReason run_warden_death_reason(const Run *r);
char *run_warden_fatal_call(const Run *r);
/* In words, how it ended before its run did; newly allocated. */
char *run_warden_death(const Run *r);

/* warden-arrival.c */

/* Whether somebody must look what has arrived of its records; at the end it waits for that. */
#define LOOK_USEC 200000u
#define LOOK_AT_END_USEC 3000u
bool run_warden_is_watched(const Run *r);
/* true: some are not there, and none has come since the last time. */
bool run_warden_look(Run *r);
/* It is over. Puts on record what it has counted and is not. */
void run_warden_write_lost(Run *r);
