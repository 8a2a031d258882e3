/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <syslog.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include "broker/broker-adopt.h"
#include "broker/broker-bus.h"
#include "broker/run.h"
#include "wire/bus-iface.h"

/* A service, or a slice, which has no processes of its own. */
static void end_unit(Manager *m, const char *unit)
{
        if (!strstr(unit, ".slice"))
                (void) broker_unit_kill(m->pid1.bus, unit, SIGKILL);
        (void) broker_unit_stop(m->pid1.bus, unit);
}

static void remove_directory(Manager *m, const char *id)
{
        _cleanup_error_ Error *e = NULL;
        int r = run_root_remove(m->runtime_fd, id, &e);

        if (r < 0)
                sd_journal_print(LOG_WARNING, "Cannot remove %s/%s: %s", RUNTIME_DIR, id,
                                error_message(e, r));
}

/* What is known of its end. PID 1 may know more. */
static void take_end(Run *r, RunState *s)
{
        if (*s->unit_result)
                r->status.result = TAKE_PTR(s->unit_result);
        r->status.exec_main_code = (int32_t) s->exec_main_code;
        r->status.exec_main_status = (int32_t) s->exec_main_status;
        r->status.exec_main_exit = s->exec_main_exit;
        r->status.exec_main_exit_monotonic = s->exec_main_exit_monotonic;
        r->kill_reason = s->kill_reason < _KILL_REASON_MAX ? (KillReason) s->kill_reason : KILL_NONE;
        r->client_gone = s->client_gone;
}

/* The strings change hands. */
static Run *run_from_state(Manager *m, const char *id, RunState *s)
{
        Run *r = run_new(m, NULL);

        if (!r)
                return NULL;
        run_set_id(r, id);
        if (s->scope)
                run_set_scope(r);
        r->slice_gone = false;
        r->phase = RUN_RUNNING;
        r->policy_name = TAKE_PTR(s->policy);
        r->digest = TAKE_PTR(s->digest);
        r->name = *s->name ? TAKE_PTR(s->name) : NULL;
        r->command = TAKE_PTR(s->command);
        /* On another bus its name may be anybody's by now. */
        if (*s->client && !streq(s->bus, m->bus_id)) {
                free(s->client);
                s->client = strdup(CLIENT_AWAITED);
                if (!s->client) {
                        run_free(r);
                        return NULL;
                }
        }
        r->caller.sender = TAKE_PTR(s->client);
        r->caller.uid = s->caller_uid;
        r->status.control_group = TAKE_PTR(s->control_group);
        snprintf(r->status.invocation_id, sizeof(r->status.invocation_id), "%s", s->invocation_id);
        r->verified = TAKE_PTR(s->verified);
        r->uid = s->uid;
        r->gid = s->gid;
        r->peer.pid = (pid_t) s->command_pid;
        r->init_pid = (pid_t) s->init_pid;
        r->pidfd = fd_store_take(&m->stored, FD_STORE_MAIN, id);
        r->channel_fd = fd_store_take(&m->stored, FD_STORE_INIT, id);
        r->detached = s->detached;
        r->result.started = s->started;
        r->started_monotonic = s->started_monotonic;
        r->memory_max = s->memory_max;
        r->runtime_usec = s->runtime_usec;
        r->output_max = s->output_max;
        take_end(r, s);
        r->tripwires.action = s->on_tripwire;
        r->tripwires.metadata_on_record = s->metadata_on_record;
        (void) decoys_from_strv(s->decoys, &r->tripwires.decoys);
        /* Without it, its results are lost; it goes on all the same. */
        (void) run_copy_adopt(r, TAKE_PTR(s->copy_paths), s->copy_bytes, s->copy_files);
        return r;
}

static bool is_refused_on_record(const Manager *m, const char *id)
{
        return audit_is_on_record(m->audit, AUDIT_RUN_REFUSED, id, false) > 0 ||
               audit_is_on_record(m->audit, AUDIT_RUN_UNVERIFIED, id, false) > 0;
}

static void write_refused(Manager *m, const char *id, const RunState *s)
{
        char unit[sizeof("agentbox-.service") + RUN_ID_LENGTH];
        AuditSubject subject = { .run = id,
                .policy = s->policy,
                .digest = s->digest,
                .unit = unit,
                .caller_uid = s->caller_uid };
        static const char reason[] = "the broker ended while the run was being started";

        snprintf(unit, sizeof(unit), "agentbox-%s.%s", id, s->scope ? "scope" : "service");
        if (is_refused_on_record(m, id))
                return;
        (void) audit_write(AUDIT_RUN_REFUSED, &subject,
                        &(AuditDetail){ .message = "Run refused: the broker ended while it was being "
                                                   "started",
                                        .command = s->command,
                                        .reason = reason });
}

/* Of a scope PID 1 knows no main process; that its number is not another's by now, the cgroup tells. */
static bool has_main(const Run *r)
{
        return r->scope ? run_cgroup_has(&r->manager->host, r->status.control_group, r->peer.pid)
                        : r->status.main_pid == (uint32_t) run_main_pid(r);
}

/* The unit still lives: from here on as if we had started it. */
static void take_over(Run *r)
{
        Manager *m = r->manager;

        if (!has_main(r) || run_watch_main(r) < 0) {
                /* Its command has ended while nobody looked; what is left of it must not go on. */
                end_unit(m, r->unit);
                return;
        }
        run_tripwires_adopt(r);
        if (r->warden && r->warden->is_over)
                run_kill(r, run_warden_death_reason(r));
        if (!r->detached && streq(r->caller.sender, CLIENT_AWAITED))
                run_await_client(r);
        else if (*r->caller.sender && !broker_bus_has_client(m, r->caller.sender))
                run_on_client_gone(r);
        sd_journal_print(LOG_INFO, "Run %s is taken over from an earlier broker", r->id);
}

/* refused: it had not begun; only what it has left is waited for. */
static void adopt_run(Manager *m, const char *id, RunState *s, bool has_unit, bool has_warden, bool refused)
{
        _cleanup_message_ sd_bus_message *reply = NULL;
        Run *r = run_from_state(m, id, s);
        int k = -ENOENT;

        if (!r)
                return;
        r->dir_fd = openat(m->runtime_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r->end_is_on_record = s->phase == STATE_ENDING &&
                              audit_is_on_record(m->audit, AUDIT_RUN_ENDED, id, false) > 0;
        r->refused = refused || is_refused_on_record(m, id);
        refused = r->refused;
        manager_add(m, r);
        if (s->filtered)
                (void) run_warden_adopt(r, has_warden);
        if (s->detached)
                (void) run_output_adopt(r);
        run_usage_open(&r->usage, &m->host, r->status.control_group);
        if (has_unit)
                k = broker_unit_get_all_now(m->pid1.bus, r->unit, &reply);
        if (k >= 0)
                k = unit_status_read_reply(&r->status, reply);
        if (k >= 0 && !unit_status_is_over(&r->status)) {
                r->was_up = true;
                if (refused) {
                        r->phase = RUN_ENDING;
                        end_unit(m, r->unit);
                } else
                        take_over(r);
                return;
        }
        r->unit_over = true;
        run_end(r);
}

static void adopt_directory(Manager *m, const char *id, bool has_unit, bool has_warden)
{
        _cleanup_(run_state_done) RunState s = {};
        _cleanup_close_ int fd = openat(m->runtime_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        char unit[sizeof("agentbox-.service") + RUN_ID_LENGTH], slice[sizeof(unit)];
        char warden[sizeof(WARDEN_UNIT_PREFIX ".service") + RUN_ID_LENGTH];
        int r = fd < 0 ? -errno : run_state_read(fd, &s);

        if (r >= 0 && s.phase != STATE_STARTING) {
                adopt_run(m, id, &s, has_unit, has_warden, false);
                return;
        }
        /* Its workspace is a mount, which goes when the scope does, and not at once. */
        if (r >= 0 && s.scope) {
                write_refused(m, id, &s);
                adopt_run(m, id, &s, has_unit, false, true);
                return;
        }
        snprintf(unit, sizeof(unit), "agentbox-%s.service", id);
        snprintf(slice, sizeof(slice), "agentbox-%s.slice", id);
        snprintf(warden, sizeof(warden), WARDEN_UNIT_PREFIX "%s.service", id);
        if (has_unit)
                end_unit(m, unit);
        if (has_warden)
                end_unit(m, warden);
        end_unit(m, slice);
        if (r >= 0)
                write_refused(m, id, &s);
        else
                sd_journal_print(LOG_WARNING, "%s/%s holds no readable state (%s) and is removed",
                                RUNTIME_DIR, id, strerror(-r));
        remove_directory(m, id);
}

/* First the names, then the work: the work removes directories. */
static int list_directories(Manager *m, char ***ret)
{
        int fd = openat(m->runtime_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
        DIR *d = fd < 0 ? NULL : fdopendir(fd);

        if (!d) {
                r = -errno;
                closep(&fd);
                return r;
        }
        for (struct dirent *e; r >= 0 && (e = readdir(d));)
                if (run_id_is_valid(e->d_name))
                        r = strv_extend(ret, e->d_name);
        closedir(d);
        return r;
}

/* Of a run's unit, its slice or its warden's unit. */
static bool unit_run_id(const char *unit, char ret[RUN_ID_LENGTH + 1])
{
        const char *id = startswith(unit, "agentbox-");

        if (warden_unit_run_id(unit, ret))
                return true;
        if (!id || strlen(id) < RUN_ID_LENGTH)
                return false;
        memcpy(ret, id, RUN_ID_LENGTH);
        ret[RUN_ID_LENGTH] = 0;
        id += RUN_ID_LENGTH;
        return run_id_is_valid(ret) && (streq(id, ".service") || streq(id, ".scope") || streq(id, ".slice"));
}

bool broker_made_unit(const Manager *m, const char *unit)
{
        _cleanup_free_ char *file = NULL;
        char id[RUN_ID_LENGTH + 1];

        /* agentbox-monitoring.service has ten letters, too. Our services are transient; our slices have no
         * file at all. */
        if (!unit_run_id(unit, id) || broker_unit_file(m->pid1.bus, unit, &file) < 0)
                return false;
        return !*file || startswith(file, "/run/systemd/transient/");
}

/* journald learns whose records ours are when it deals with the first one. Were that the end of a run, and we died over it, nobody
 * would believe it. And what an earlier broker wrote last is there before it is looked for. */
static void meet_journal(void)
{
        sd_journal_print(LOG_DEBUG, "There are runs of an earlier broker");
        (void) run_warden_journal_has_caught_up();
}

int broker_adopt(Manager *m, Error **reterr)
{
        _cleanup_strv_ char **units = NULL, **ids = NULL;
        char id[RUN_ID_LENGTH + 1];
        int r = broker_unit_list(m->pid1.bus, &units, reterr);

        if (r < 0)
                return r;
        r = list_directories(m, &ids);
        if (r < 0)
                return error_set(reterr, r, "cannot read %s: %s", RUNTIME_DIR, strerror(-r));
        if (ids && *ids)
                meet_journal();
        STRV_FOREACH(i, ids) {
                char service[sizeof("agentbox-.service") + RUN_ID_LENGTH], scope[sizeof(service)];
                char warden[sizeof(WARDEN_UNIT_PREFIX ".service") + RUN_ID_LENGTH];

                snprintf(warden, sizeof(warden), WARDEN_UNIT_PREFIX "%s.service", *i);
                snprintf(service, sizeof(service), "agentbox-%s.service", *i);
                snprintf(scope, sizeof(scope), "agentbox-%s.scope", *i);
                adopt_directory(m, *i, strv_contains(units, service) || strv_contains(units, scope),
                                strv_contains(units, warden));
        }
        STRV_FOREACH(i, units)
                if (unit_run_id(*i, id) && !strv_contains(ids, id) && broker_made_unit(m, *i)) {
                        sd_journal_print(LOG_WARNING, "%s belongs to no run and is ended", *i);
                        end_unit(m, *i);
                }
        fd_store_done(&m->stored);
        manager_arm_sampler(m);
        manager_arm_looker(m);
        return 0;
}
