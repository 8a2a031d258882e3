/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <syslog.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include "broker/exit-status.h"
#include "broker/run.h"
#include "wire/bus-iface.h"

#define END_CHECK_USEC (20u * 1000u)
#define FINISH_AGAIN_USEC (100u * 1000u)
#define SLICE_WAIT_USEC (3u * 1000000u)
#define END_CHECKS_MAX \
        1000u /* 20 s: then something cannot be killed (it hangs in the kernel), and that is said */

static void end_unit(Run *r)
{
        (void) broker_unit_kill(r->manager->pid1.bus, r->unit, SIGKILL);
        (void) broker_unit_stop(r->manager->pid1.bus, r->unit);
}

void run_end_again(Run *r)
{
        if (r->unit_over && r->slice_stopping && !r->slice_gone) {
                r->stop_slot = sd_bus_slot_unref(r->stop_slot);
                r->slice_stopping = false;
                run_end(r);
        } else if (!r->unit_over && (r->kill_reason != KILL_NONE || r->phase == RUN_ENDING))
                end_unit(r);
}

typedef struct CgroupPath {
        char text[sizeof("/agentbox.slice//") + sizeof(((Run *) 0)->slice) + sizeof(((Run *) 0)->unit)];
} CgroupPath;

/* PID 1 names none where the unit is over or has never been. An empty path would be the root's, which is never
 * without processes. */
static const char *control_group(const Run *r, CgroupPath *space)
{
        if (r->status.control_group && *r->status.control_group)
                return r->status.control_group;
        snprintf(space->text, sizeof(space->text), "/agentbox.slice/%s/%s", r->slice, r->unit);
        return space->text;
}

static bool has_processes(const Run *r)
{
        CgroupPath space;

        return !run_cgroup_is_empty(&r->manager->host, control_group(r, &space));
}

void run_end_rest(Run *r)
{
        if (r->phase >= RUN_LAUNCHED && !r->unit_over && has_processes(r))
                (void) broker_unit_kill(r->manager->pid1.bus, r->unit, SIGKILL);
        /* To PID 1 no process of a scope is the main one: it would go on without it. */
        if (r->phase >= RUN_LAUNCHED && !r->unit_over && r->scope)
                (void) broker_unit_stop(r->manager->pid1.bus, r->unit);
}

void run_kill(Run *r, KillReason reason)
{
        if (r->phase == RUN_STARTING || r->phase == RUN_ASKING) {
                run_refuse(r, AGENTBOX_ERROR_START_FAILED, "%s",
                                r->client_gone ? "its client is gone" : "ended before it had begun");
                return;
        }
        if (r->phase >= RUN_ENDING) {
                if (reason == KILL_ASKED)
                        run_copy_abandon(r, r->client_gone ? "its client is gone" : "ended while they were copied");
                return;
        }
        if (r->kill_reason == KILL_NONE) {
                r->kill_reason = reason;
                (void) run_write_state(r, STATE_RUNNING);
        }
        end_unit(r);
}

int run_signal(Run *r, int signal)
{
        if (r->phase == RUN_STARTING || r->phase == RUN_LAUNCHED) {
                run_kill(r, KILL_ASKED);
                return 0;
        }
        if (r->phase != RUN_RUNNING)
                return 0;
        /* As a terminal does it: to all of them. */
        return broker_unit_kill(r->manager->pid1.bus, r->unit, signal);
}

void run_on_client_gone(Run *r)
{
        r->client_gone = true;
        r->call = sd_bus_message_unref(r->call);
        if (!r->detached && r->phase != RUN_ASKING)
                run_kill(r, KILL_ASKED);
}

/* A bus that ends tells of each connection before it comes to this one. */
#define BUS_END_USEC 250000

static int on_client_lost(sd_event_source *source, uint64_t usec, void *userdata)
{
        Run *r = userdata;

        r->claim = sd_event_source_disable_unref(r->claim);
        run_on_client_gone(r);
        return 0;
}

void run_on_client_lost(Run *r)
{
        if (r->detached || r->claim || (r->phase != RUN_LAUNCHED && r->phase != RUN_RUNNING) ||
                        sd_event_add_time_relative(r->manager->event, &r->claim, CLOCK_MONOTONIC, BUS_END_USEC, 0, on_client_lost, r) < 0)
                run_on_client_gone(r);
}

static int on_unclaimed(sd_event_source *source, uint64_t usec, void *userdata)
{
        Run *r = userdata;

        r->claim = sd_event_source_disable_unref(r->claim);
        sd_journal_print(LOG_WARNING, "The client of run %s did not come back after a restart of the bus", r->id);
        run_on_client_gone(r);
        return 0;
}

void run_await_client(Run *r)
{
        if (sd_event_add_time_relative(r->manager->event, &r->claim, CLOCK_MONOTONIC, AGENTBOX_CLAIM_SECONDS * UINT64_C(1000000), 0,
                            on_unclaimed, r) < 0)
                run_on_client_gone(r);
}

bool run_claim(Run *r, Caller *c)
{
        if (!r->claim || !streq(r->caller.sender, CLIENT_AWAITED))
                return false;
        r->claim = sd_event_source_disable_unref(r->claim);
        free(r->caller.sender);
        r->caller.sender = TAKE_PTR(c->sender);
        /* Else the next broker would wait once more, and it would be claimed once more. */
        if (r->phase == RUN_RUNNING)
                (void) run_write_state(r, STATE_RUNNING);
        return true;
}

/* Whether it is what PID 1 saw of the init that said so, if it saw anything: an init that was killed is the end of the run,
 * whatever it may have said before. */
static bool end_fits(const ExecEnded *e, const UnitStatus *s)
{
        return s->exec_main_code == 0 ||
               (s->exec_main_code == CLD_EXITED && s->exec_main_status == exec_ended_exit_status(e));
}

void run_learn_end(Run *r)
{
        ExecEnded e;

        if (!run_channel_has_end(r, &e) || !end_fits(&e, &r->status))
                return;
        r->status.exec_main_code = e.code;
        r->status.exec_main_status = e.status;
}

/* PID 1 could not tell: nobody listened, and it has forgotten the unit. */
static void learn_status(Run *r)
{
        int code, status;

        run_learn_end(r);
        if (r->status.exec_main_code != 0 || r->scope || r->pidfd < 0 || exit_status_of(r->pidfd, &code, &status) < 0)
                return;
        r->status.exec_main_code = code;
        r->status.exec_main_status = status;
}

/* A figure from before the end is no figure of the whole. */
static uint64_t final_figure(const RunUsage *u, int i)
{
        return u->failed[i] ? UINT64_MAX : u->last[i];
}

static int fill_result(Run *r)
{
        RunResult *result = &r->result;
        _cleanup_free_ char *warden_death = r->kill_reason == KILL_WARDEN ? run_warden_death(r) : NULL;
        _cleanup_free_ char *call = run_warden_fatal_call(r);
        RunEnding ending = {
                .exec_main_code = r->status.exec_main_code,
                .exec_main_status = r->status.exec_main_status,
                .unreported = r->scope && !r->exit_is_reported,
                .unit_result = r->status.result,
                .kill_reason = r->kill_reason,
                .oom_kills = r->usage.last[USAGE_OOM_KILLS] == UINT64_MAX ? 0
                                                                          : r->usage.last[USAGE_OOM_KILLS],
                .oom_kills_unknown = r->usage.failed[USAGE_OOM_KILLS],
                .client_gone = r->client_gone && !r->detached,
                .memory_max = r->memory_max,
                .runtime_usec = r->runtime_usec,
                .output_max = r->output_max,
                .warden_death = warden_death,
                .call = call,
                .main_exit = r->status.exec_main_exit_monotonic,
                /* One that lied lived on: the run was ended before it, because of it. */
                .warden_exit = r->warden && !r->warden->lied ? r->warden->status.exec_main_exit_monotonic : 0,
        };
        uint64_t ended;

        result->run = strdup(r->id);
        result->policy = strdup(r->policy_name);
        if (!result->run || !result->policy || strv_copy(r->verified, &result->verified) < 0)
                return -ENOMEM;
        result->ended = r->status.exec_main_exit > 0 ? r->status.exec_main_exit : now_realtime();
        /* Somebody may have set the clock meanwhile. */
        ended = r->status.exec_main_exit_monotonic > 0 ? r->status.exec_main_exit_monotonic : now_monotonic();
        if (result->started != UINT64_MAX && ended >= r->started_monotonic)
                result->wall_usec = ended - r->started_monotonic;
        result->cpu_usec = final_figure(&r->usage, USAGE_CPU_USEC);
        result->memory_peak = final_figure(&r->usage, USAGE_MEMORY_PEAK);
        result->tasks_peak = run_tasks(r, final_figure(&r->usage, USAGE_TASKS_PEAK));
        run_warden_count(r);
        result->tripwires = run_tripwires_total(r);
        return run_result_classify(&ending, result);
}

static void write_ended(Run *r)
{
        AuditSubject subject = run_subject(r);
        _cleanup_free_ char *message = NULL;
        const RunResult *result = &r->result;
        const char *whose = r->scope ? ", as its client says" : "";
        int k;

        if (result->message)
                k = asprintf(&message, "Run %s ended (%s): %s", r->id, run_reason_names[result->reason],
                                result->message);
        else if (result->exit_code != UINT64_MAX)
                k = asprintf(&message, "Run %s ended with status %u%s", r->id, (unsigned) result->exit_code,
                                whose);
        else
                k = asprintf(&message, "Run %s ended by signal %u%s", r->id, (unsigned) result->signal,
                                whose);
        if (k < 0)
                message = NULL;
        k = audit_write(AUDIT_RUN_ENDED, &subject,
                        &(AuditDetail){
                                        .message = message ?: "Run ended",
                                        .command = r->command,
                                        .verified = r->verified,
                                        .result = result,
                        });
        if (k < 0)
                sd_journal_print(LOG_ERR, "The end of run %s cannot be written to the journal: %s", r->id,
                                strerror(-k));
}

/* Whether it is gone, or will never go: descriptors or memory may be short for the moment, and then it is tried again. */
static bool remove_directory(Run *r)
{
        _cleanup_error_ Error *e = NULL;
        int k;

        if (r->dir_fd < 0 && !r->directory_is_left)
                return true;
        closep(&r->dir_fd);
        r->dir_fd = -1;
        k = run_root_remove(r->manager->runtime_fd, r->id, &e);
        r->directory_is_left = k == -EMFILE || k == -ENFILE || k == -ENOMEM;
        if (k < 0 && !r->directory_is_left)
                sd_journal_print(LOG_WARNING, "Cannot remove %s/%s: %s", RUNTIME_DIR, r->id,
                                error_message(e, k));
        return !r->directory_is_left;
}

void run_await_record(Run *r, AuditEvent event)
{
        r->awaits_record = true;
        r->awaited = event;
        r->awaited_since = now_monotonic();
}

/* Of a broker that dies at once after its record, journald may not learn any more which unit it was, and nobody believes the record.
 * So the run is known to the next broker until its record stands there as one of ours. */
static bool awaits_record(Run *r)
{
        uint64_t waited = now_monotonic() - r->awaited_since;
        int k;

        if (!r->awaits_record)
                return false;
        k = audit_is_on_record(r->manager->audit, r->awaited, r->id, false);
        r->awaits_record = (k == 0 || k == -ENOENT) && waited < AUDIT_WAIT_USEC;
        if (k <= 0 && !r->awaits_record)
                sd_journal_print(LOG_ERR, "How run %s ended did not arrive in the journal", r->id);
        return r->awaits_record;
}

static void finish(Run *r);

static int on_finish_again(sd_event_source *source, uint64_t usec, void *userdata)
{
        finish(userdata);
        return 0;
}

static bool finish_later(Run *r, uint64_t usec)
{
        return sd_event_add_time_relative(r->manager->event, &r->deadline, CLOCK_MONOTONIC, usec, usec / 5, on_finish_again, r) >= 0;
}

static void record_end(Run *r)
{
        int k;

        learn_status(r);
        /* Before the run's own record, so that nothing of it comes later. */
        run_tripwires_flush(r);
        k = fill_result(r);
        if (k < 0)
                sd_journal_print(LOG_ERR, "The result of run %s is incomplete: %s", r->id, strerror(-k));
        (void) run_write_state(r, STATE_ENDING);
        if (r->end_is_on_record)
                return;
        run_warden_write_lost(r);
        write_ended(r);
        run_await_record(r, AUDIT_RUN_ENDED);
}

/* Nothing of the run is left. Exactly one record of its end: a broker that dies between the state and the
 * removal of the directory leaves it to the next one to look whether the record was written. Whoever waits is told before that:
 * one who asks again finds the run with the next one. It is entered anew for what has to be waited for. */
static void finish(Run *r)
{
        Manager *m = r->manager;

        r->deadline = sd_event_source_disable_unref(r->deadline);
        if (!r->refused && r->phase != RUN_ENDED) {
                record_end(r);
                r->phase = RUN_ENDED; /* for whoever asks from now on: nobody is told again */
                run_tell_ended(r);
        }
        if (awaits_record(r) && finish_later(r, audit_look_again(now_monotonic() - r->awaited_since)))
                return;
        if (r->pidfd >= 0)
                fd_store_drop(FD_STORE_MAIN, r->id);
        run_warden_let_go(r);
        if (r->init_pid > 0)
                fd_store_drop(FD_STORE_INIT, r->id);
        if (!remove_directory(r) && finish_later(r, FINISH_AGAIN_USEC))
                return;
        if (r->refused) {
                manager_drop(m, r);
                return;
        }
        run_mark(r, MARK_ENDED);
        if (m->debug)
                run_log_marks(r);
        manager_retire(m, r);
}

static int on_end_check(sd_event_source *source, uint64_t usec, void *userdata)
{
        run_end(userdata);
        return 0;
}

static bool something_is_left(Run *r)
{
        CgroupPath space;

        if (!has_processes(r) && !run_scope_workspace_is_mounted(r))
                return false;
        if (r->n_end_checks++ < END_CHECKS_MAX)
                return true;
        sd_journal_print(LOG_ERR, "Processes of run %s cannot be killed; see %s", r->id,
                        control_group(r, &space));
        return false;
}

/* The shim is gone: what became of its run is known now. false: it was refused, and r may be gone as well.
 */
static bool run_settle(Run *r)
{
        const Manager *m = r->manager;
        char unit[sizeof(r->unit)];

        strcpy(unit, r->unit);
        run_channel_settle(r);
        return manager_by_unit(m, unit) == r && !r->refused;
}

/* ---- the slice, which is there for the figures */

static int on_slice_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
        Run *r = userdata;

        sd_journal_print(LOG_WARNING, "PID 1 does not stop %s", r->slice);
        run_on_slice_gone(r);
        return 0;
}

static int on_slice_stopped(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        Run *r = userdata;

        r->stop_slot = sd_bus_slot_unref(r->stop_slot);
        if (sd_bus_is_open(r->manager->pid1.bus) <= 0) /* see run_end_again() */
                return 0;
        if (sd_bus_message_is_method_error(m, NULL))
                run_on_slice_gone(r);
        return 0;
}

void run_on_slice_gone(Run *r)
{
        if (r->slice_gone)
                return;
        r->slice_gone = true;
        run_mark(r, MARK_SLICE_GONE);
        run_end(r);
}

static void stop_slice(Run *r)
{
        Manager *m = r->manager;
        int k;

        if (r->slice_stopping)
                return;
        r->slice_stopping = true;
        run_usage_sample(&r->usage);
        sd_event_source_disable_unref(r->deadline);
        r->deadline = NULL;
        k = broker_unit_stop_slice(m->pid1.bus, r->slice, on_slice_stopped, r, &r->stop_slot);
        if (k >= 0)
                k = sd_event_add_time_relative(m->event, &r->deadline, CLOCK_MONOTONIC, SLICE_WAIT_USEC, 0,
                                on_slice_deadline, r);
        if (k < 0)
                run_on_slice_gone(r);
}

void run_end(Run *r)
{
        bool copied, kept;
        int k;

        if (r->phase == RUN_ENDED)
                return;
        if (r->phase == RUN_LAUNCHED && !run_settle(r))
                return;
        if (r->phase == RUN_STARTING) {
                run_refuse(r, AGENTBOX_ERROR_START_FAILED, "%s (%s)",
                                start_failure_text(r->status.exec_main_status),
                                r->status.result ?: "no result");
                return;
        }
        r->phase = RUN_ENDING;
        if (something_is_left(r) || run_scope_awaits_report(r)) {
                sd_event_source_disable_unref(r->deadline);
                r->deadline = NULL;
                k = sd_event_add_time_relative(r->manager->event, &r->deadline, CLOCK_MONOTONIC,
                                END_CHECK_USEC, END_CHECK_USEC / 4, on_end_check, r);
                if (k >= 0)
                        return;
        }
        run_warden_end(r);
        copied = run_copy_is_over(r);
        kept = run_output_is_over(r);
        if (!r->slice_gone)
                stop_slice(r);
        else if (run_warden_is_over(r) && copied && kept)
                finish(r);
}
