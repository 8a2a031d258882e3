/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#include "base/error.h"
#include "broker/broker-audit.h"
#include "broker/broker-authz.h"
#include "broker/broker-unit.h"
#include "broker/broker-verify.h"
#include "broker/broker-wall.h"
#include "broker/fd-store.h"
#include "broker/filter-cache.h"
#include "broker/refusal-budget.h"

/* Everything the broker knows: its connections, the host, the runs that live and the last ones that ended.
 */

#define RUNS_MAX 1000u
#define RUNS_PER_UID_MAX 64u
#define RECENT_MAX 128u
#define ASKERS_MAX 16u
#define STARTS_MAX 16u /* of those, at once in RUN_STARTING; the others wait */
#define WAITERS_MAX 64u
#define QUESTIONS_PER_UID_MAX 16u
#define IDLE_USEC (30u * 1000000u)

typedef struct Run Run;
typedef struct Question Question;
typedef struct BootsReader BootsReader;
typedef struct Doctor Doctor;

typedef struct Manager {
        sd_event *event;
        sd_bus *bus; /* the system bus, where callers are */
        char bus_id[SD_ID128_STRING_MAX]; /* another one when it is started anew: names of callers are of one bus */
        UnitBus pid1;
        AuditReader *audit;
        HostFacts host;
        FilterCache filters;
        int runtime_fd;         /* RUNTIME_DIR */
        int loopback_filter_fd; /* where PID 1 finds the packet filter of runs; -1 until the first that needs
                                   it */
        int tripwire_fd;        /* of all runs' decoys (run-tripwire.h); -1 until the first run that has any */
        uint64_t tripwire_since; /* monotonic: where the present window of answers began */
        unsigned n_tripwires;    /* of this window */
        int probe_fd;           /* abstract socket that no run may reach (UnitContext.probe_abstract) */
        char *probe_name;
        Run *runs; /* living ones, the ones still asking for authorisation among them; newest first */
        Run *recent[RECENT_MAX]; /* ring of ended ones */
        size_t n_recent;         /* ever put there */
        unsigned n_looks_in_vain; /* in a row: what wardens sent does not arrive */
        bool walls_are_used;
        Error *no_walls;         /* why the broker may make none; NULL: it may */
        Wall spare_wall;         /* made while the broker waits for something else; WALL_NONE: none */
        FdStore stored;      /* what an earlier broker left with PID 1, until its runs have it */
        struct {
                char sender[32];
                uid_t uid;
        } askers[ASKERS_MAX]; /* who has asked about policies last, by the bus's unique names, which it gives once */
        unsigned n_askers;
        RefusalBudget refusals, lookups; /* of lookups none is counted: whoever has none left is told so */
        BootsReader *boots;  /* while the runs of earlier boots are looked for */
        Question *questions; /* of polkit, under way for other calls than Run */
        Doctor *doctors;     /* calls of Doctor, which wait for their trial */
        sd_event_source *idle, *sampler, *looker, *confirmer, *reconnect, *beginner, *impatience, *wall_maker, *wall_timer, *refusal_counter,
                        *tripwire_source, *tripwire_timer;
        bool debug; /* phases and their times go to the log */
        bool stopping;
} Manager;

#define MANAGER_NONE \
        ((Manager){ .runtime_fd = -1, .loopback_filter_fd = -1, .probe_fd = -1, .tripwire_fd = -1, .spare_wall = WALL_NONE })

int manager_start(Manager *m, Error **reterr);
void manager_done(Manager *m);

/* 0: one more run may start for this caller; -EBUSY: in words, why not. */
int manager_admit(const Manager *m, uid_t uid, Error **reterr);

void manager_add(Manager *m, Run *run);
/* Its request was read: it begins when no call is waiting to be read. The bus daemon holds only a few dozen
 * of a client's descriptors and refuses more, so calls are taken off the bus first, and worked on then. */
void manager_queue(Manager *m, Run *run);
/* A run has left RUN_STARTING, for whatever came after it: there is room for another one to begin. */
void manager_on_started(Manager *m);
/* Whether the refusal of this run may have a record; else it is counted, and the count has one soon. */
bool manager_record_refusal(Manager *m, const Run *run);
void manager_write_refusals(Manager *m);
/* The run is over: from the living to the recent ones. */
void manager_retire(Manager *m, Run *run);
/* It never came to be. */
void manager_drop(Manager *m, Run *run);

Run *manager_by_id(const Manager *m, const char *id);
/* What the caller means: an id, of whomever; else a name of the caller's own living runs. Only root's words
 * reach others' names, and of those none that looks like an id: names are what callers choose, so one must not
 * be able to stand where another's run is meant. */
Run *manager_find(const Manager *m, const Caller *c, const char *id_or_name);
Run *manager_by_slice(const Manager *m, const char *slice);
Run *manager_by_unit(const Manager *m, const char *unit);
/* The run whose warden this unit is. */
Run *manager_by_warden(const Manager *m, const char *unit);
/* By another living run of the same user. */
bool manager_name_is_taken(const Manager *m, uid_t uid, const char *name);

/* Something was asked: idle time begins anew. */
void manager_touch(Manager *m);
/* The timers that all runs share, armed where one needs them: the reading back of the journal, the
 * sampling of usage, and looking what arrives of the records of wardens. */
void manager_arm_confirmer(Manager *m);
void manager_arm_sampler(Manager *m);
void manager_arm_looker(Manager *m);

/* A wall that nobody has used (wall_create), the prepared one if there is one. */
int manager_take_wall(Manager *m, Wall *ret, Error **reterr);
/* A run is over, or will not be: while nothing else is to be done, the next wall is made. */
void manager_want_wall(Manager *m);

/* manager-watch.c: adds the timers of all that. */
int manager_add_watches(Manager *m);
/* The connection to PID 1 broke (it re-executed itself): starts fail, running ones are looked for again. */
void manager_reconnect(Manager *m);

uint64_t now_monotonic(void);
uint64_t now_realtime(void);
