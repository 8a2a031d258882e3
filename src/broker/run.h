/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#include "broker/broker-authz.h"
#include "broker/broker-request.h"
#include "broker/broker-result.h"
#include "broker/broker-root.h"
#include "broker/broker-unit.h"
#include "broker/manager.h"
#include "broker/run-copy.h"
#include "broker/run-disk.h"
#include "broker/run-env.h"
#include "broker/run-output.h"
#include "broker/run-state.h"
#include "broker/run-tripwire.h"
#include "broker/run-view.h"
#include "broker/run-warden.h"
#include "broker/run-usage.h"
#include "wire/attest.h"
#include "wire/record.h"
#include "wire/runspec.h"

/* One run, from the call to its record in the ring of ended ones.
 *
 *   ASKING ──▶ STARTING ──▶ LAUNCHED ──▶ RUNNING ──▶ ENDING ──▶ ENDED
 *      │           │            │                       ▲
 *      └───────────┴── refused ─┴───────────────────────┘ (where a unit exists already)
 *
 * STARTING: the unit comes up; three things arrive in any order: the shim's attestation, the unit's
 * properties, the proof that run-requested is in the journal; of a filtered run, its warden's hello and its unit's
 * properties, too. With all of them its workspace on disk and its view are mounted, where it has any, and it is verified,
 * the warden is told what to do, and when that is ready, and of a detached run what keeps its output, the RunSpec is sent.
 *
 * LAUNCHED: the shim has it; the closing of its pipe, or a message of failure, decides. Where refused system calls are put on
 * record, it hands over the listener of its filter before that, which goes to the warden's witness.
 *
 * ENDING: the unit is being ended, or has ended and its remains are waited for. */
typedef enum RunPhase {
        RUN_ASKING,
        RUN_STARTING,
        RUN_LAUNCHED,
        RUN_RUNNING,
        RUN_ENDING,
        RUN_ENDED
} RunPhase;

/* When what happened, for the log in debug mode. */
typedef enum RunMark {
        MARK_CALLED,
        MARK_AUTHORISED,
        MARK_PREPARED,
        MARK_UNIT_ACCEPTED,
        MARK_FORKED,
        MARK_JOURNAL,
        MARK_PROPERTIES,
        MARK_WARDEN_HELLO,
        MARK_WARDEN_PROPERTIES,
        MARK_ATTESTED,
        MARK_VERIFIED,
        MARK_WARDEN_READY,
        MARK_SENT,
        MARK_EXECUTED,
        MARK_EXITED,
        MARK_UNIT_OVER,
        MARK_SLICE_GONE,
        MARK_WARDEN_OVER,
        MARK_ENDED,
        _MARK_MAX,
} RunMark;

#define RUN_ID_LENGTH 10u
/* The first systemd that takes a scope's process by a descriptor. By its number it could be another's by then. */
#define PIDFDS_SINCE 255u
#define SCOPE_WORKSPACE "work" /* RUNTIME_DIR/ID/work, where a scope's is mounted */
#define REPORT_CHECKS_MAX 150u /* 3 s: a client that lives says at once how its child ended */
/* Its own slice, agentbox.slice, -.slice: what they allow, the unit may. Only asked for where the host's
 * network is shared. */
#define RUN_SLICES 3u

struct Run {
        Manager *manager;
        Run *next;
        RunPhase phase;
        bool refused; /* ENDING: it never became a run; no run-ended record, no RunEnded */

        char id[RUN_ID_LENGTH + 1];
        char unit[sizeof("agentbox-.service") + RUN_ID_LENGTH];
        char slice[sizeof("agentbox-.slice") + RUN_ID_LENGTH];
        /* A scope: see run-scope.c. */
        bool scope, scope_started, exit_is_reported;
        unsigned n_report_checks;
        pid_t scope_pid;
        gid_t gid;
        char *workspace; /* NULL: the policy's, in a root of its own */
        char mount[sizeof("run-agentbox--" SCOPE_WORKSPACE ".mount") + RUN_ID_LENGTH];
        UnitProps mount_props;
        Caller caller;
        sd_bus_message *call; /* of Run(), until it is answered */
        Request request;      /* argv, env and descriptors until the RunSpec is sent */
        AuthzQuery *question;
        Policy *policy; /* NULL: adopted */
        char *policy_name, *digest, *name, *command;
        bool detached, client_gone, queued;
        /* Answers to WaitRun(), to be completed. Not the calls: each may have come with descriptors, which it
         * would hold. */
        sd_bus_message **waiters;
        size_t n_waiters;

        int dir_fd; /* RUNTIME_DIR/ID */
        RunRoot root;
        RunWarden *warden; /* of a filtered run; NULL: none */
        RunCopy *copy;     /* NULL: nothing is copied in or out */
        RunOutput *output; /* of a detached run; NULL: its client has the other ends */
        RunDisk *disk;     /* NULL: the workspace is in memory, or there and verified */
        RunView *view;     /* NULL: none, or it is there and nothing is to be done about it any more */
        RunTripwires tripwires;
        uint64_t netns_inode;
        UnitContext context;
        char *description, *netns_path, *ip_filter_path;
        UnitProps props;
        sd_bus_slot *start_slot, *properties_slot, *stop_slot, *check_slot, *slice_slots[RUN_SLICES];
        sd_event_source *deadline; /* of the start, later of the end */

        int channel_fd, executed_fd;
        bool awaits_copied; /* the shim has not said yet that the caller's files, if there are any, are in the workspace */
        sd_event_source *channel_source, *executed_source;
        sd_event_source *claim; /* until when its client is awaited */
        Attest attest;
        struct ucred peer;
        pid_t init_pid;    /* of the PID namespace of the command; 0: it has none of its own */
        bool init_is_main; /* PID 1 has it as the unit's main process */
        bool has_attest, is_on_record, is_verified;
        uint64_t confirm_until; /* monotonic: when the journal has had its time */
        sd_bus_message *properties, *slices[RUN_SLICES];
        char **verified, **broken;

        UnitStatus status;
        bool was_up, unit_over, slice_stopping, slice_gone, end_is_on_record, awaits_record, directory_is_left;
        AuditEvent awaited; /* where awaits_record */
        uint64_t awaited_since; /* monotonic */
        int pidfd;
        sd_event_source *pidfd_source;
        uid_t uid;
        RunUsage usage;
        KillReason kill_reason;
        uint64_t memory_max, runtime_usec, output_max;
        RunResult result;
        uint64_t started_monotonic; /* when result.started was */
        uint64_t marks[_MARK_MAX]; /* monotonic, µs */
        unsigned n_end_checks;
};

/* run.c: what it is. */
Run *run_new(Manager *m, sd_bus_message *call);
Run *run_free(Run *r);
bool run_id_is_valid(const char *s);
/* Gives the run its id, and its unit and slice their names. */
void run_set_id(Run *r, const char *id);
void run_mark(Run *r, RunMark mark);
void run_log_marks(const Run *r);
const char *run_state_name(const Run *r);
/* From now on its unit is a scope. */
void run_set_scope(Run *r);
const char *run_workspace(const Run *r);
/* Those of the process that attests. -ESTALE: they are another's by now, or the host's. */
int run_open_mounts(const Run *r);
RunHome run_home(const Run *r);
AuditSubject run_subject(const Run *r);
int run_write_state(Run *r, StatePhase phase);
/* Of so many tasks in its cgroup, those that are the command's: as Tasks= of its policy counts them, without its init. */
uint64_t run_tasks(const Run *r, uint64_t counted);
bool run_is_visible(const Run *r, const Caller *c);

/* broker-run.c: its course. */
/* The call was decoded and its caller is known: everything else follows from events. */
void run_begin(Run *r);
/* Something that STARTING waits for has arrived. */
void run_advance(Run *r);
/* It will not run. Answers the call, writes run-refused, ends what has begun. r may be gone afterwards. */
void run_refuse(Run *r, const char *error_name, const char *format, ...) _printf_(3, 4);
void run_on_executed(Run *r);
void run_on_failure(Run *r, const ExecFailure *f);

/* run-prepare.c: everything between the authorised request and the properties of the unit; blocks on files
 * only. */
int run_prepare(Run *r, Error **reterr);
/* With its first state: from here on, whoever comes after this broker knows of the run. */
int run_make_directory(Run *r, Error **reterr);
int run_load_policy(Run *r, const char **ret_error_name, Error **reterr);

/* run-channel.c: the shim's end of the talk. */
/* One message, with the credentials that the kernel vouches for, and the descriptor that came with it (-1: none; NULL: one
 * is an error). 0: nothing there (any more), ret untouched. */
int run_channel_receive(int fd, Buf *ret, struct ucred *ret_peer, int *ret_fd);
int run_channel_open(Run *r, int *ret_shim_fd, Error **reterr);
int run_channel_send_spec(Run *r, Error **reterr);
/* LAUNCHED, and the shim is known to be gone: takes what it left. */
void run_channel_settle(Run *r);
/* The workload runs: nobody is listened to any more, and what the init of its PID namespace says at the end waits. */
void run_channel_leave(Run *r);
/* That, once it is there, for as long as the channel is. */
bool run_channel_has_end(const Run *r, ExecEnded *ret);
void run_channel_close(Run *r);

/* run-scope.c: steps that do nothing for a service where run_prepare() takes them, and else are for scopes.
 */
int run_scope_check(Run *r, Error **reterr);
int run_scope_take_channel(Run *r, Error **reterr);
int run_scope_make_workspace(Run *r, Error **reterr);
bool run_scope_workspace_is_mounted(const Run *r);
/* The process is in the scope: it may attest. */
int run_scope_start(Run *r);
/* Whether r->peer is who may attest. */
bool run_scope_attests(const Run *r);
/* The client's word for how its child ended (CLD_*), which nobody else can know. -EINVAL */
int run_scope_report(Run *r, int code, int status);
bool run_scope_awaits_report(Run *r);

/* run-launch.c */
int run_spec_encode(Run *r, Buf *out, Error **reterr);

/* run-events.c: what PID 1 and the kernel tell of the run's unit. */
extern const UnitEvents run_unit_events;
void run_on_status(Run *r);
/* The shim has reported: who is its parent. */
int run_find_init(Run *r);
/* What there is to PID 1 as the main process. */
pid_t run_main_pid(const Run *r);
int run_watch_main(Run *r);
int run_request_properties(Run *r);
/* Whether everything that PID 1 has to tell before the verification has been told. */
bool run_has_properties(const Run *r);
bool run_shares_host_network(const Run *r);
/* Gives the run its id, and its unit and slice their names. */
void run_set_id(Run *r, const char *id);
const char *start_failure_text(int exec_main_status);

/* run-end.c */
void run_kill(Run *r, KillReason reason);
int run_signal(Run *r, int signal);
void run_on_client_gone(Run *r);
/* Its name is gone from the bus: so is it, if the bus itself does not go, too. */
void run_on_client_lost(Run *r);
/* Its client was on an earlier bus, and has some time to come to this one: its name is CLIENT_AWAITED until then. */
#define CLIENT_AWAITED "?"
void run_await_client(Run *r);
/* Whether the caller, who has the run's uid, is its client from now on. */
bool run_claim(Run *r, Caller *c);
/* PID 1 may not have heard that it is to be ended: says so again. */
void run_end_again(Run *r);
/* This one says how the run ended; its directory stays until it has arrived in the journal, or will not any more. */
void run_await_record(Run *r, AuditEvent event);
/* Of a run that ends, what is still there gets no time to go on. */
void run_end_rest(Run *r);
void run_on_slice_gone(Run *r);
/* The unit is over: how its command ended, where PID 1 knows that only of the command's init. */
void run_learn_end(Run *r);
/* The unit is over: ends the run as soon as nothing of it is left. */
void run_end(Run *r);

/* run-facts.c: for the bus. */
int run_append_facts(sd_bus_message *m, Run *r);
int result_append(sd_bus_message *m, const RunResult *result);
int run_reply_started(Run *r);
void run_tell_ended(Run *r);
/* A WaitRun() call is answered when the run has ended, unless its caller has gone before. */
int run_add_waiter(Run *r, sd_bus_message *call);
void run_forget_waiters(Run *r, const char *sender);
