/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <syslog.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include "base/escape.h"
#include "base/io.h"
#include "broker/broker-netns.h"
#include "broker/run.h"
#include "wire/bus-iface.h"

#define START_WAIT_USEC (60u * 1000000u)
#define SANDBOX_HOSTNAME "sandbox"

/* ---- refusal */

/* Messages are made of checked and escaped parts; this holds where one was forgotten. Lines stay lines. */
static void mask_controls(char *s)
{
        for (; *s; s++)
                if (((unsigned char) *s < 0x20 && *s != '\n') || *s == 0x7f)
                        *s = '?';
}

/* Behind the message stands the id under which the refusal is on record, for "agentbox why". */
static void reply_error(Run *r, const char *error_name, const char *message)
{
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;

        if (!r->call)
                return;
        if (sd_bus_message_new_method_errorf(r->call, &reply, error_name, "%s", message) >= 0 &&
                        sd_bus_message_append(reply, "s", r->id) >= 0)
                (void) sd_bus_send(NULL, reply, NULL);
        r->call = sd_bus_message_unref(r->call);
}

void run_refuse(Run *r, const char *error_name, const char *format, ...)
{
        _cleanup_free_ char *reason = NULL, *message = NULL;
        AuditSubject subject = run_subject(r);
        va_list ap;
        int k;

        va_start(ap, format);
        k = vasprintf(&reason, format, ap);
        va_end(ap);
        if (k < 0)
                reason = NULL;
        if (reason)
                mask_controls(reason);
        if (reason && asprintf(&message, "Run %s of uid %u refused: %s", r->id, r->caller.uid, reason) < 0)
                message = NULL;
        /* A broken promise has a record of its own, written already. */
        if (streq(error_name, AGENTBOX_ERROR_NOT_VERIFIED))
                run_await_record(r, AUDIT_RUN_UNVERIFIED);
        else if (manager_record_refusal(r->manager, r)) {
                (void) audit_write(AUDIT_RUN_REFUSED, &subject,
                                &(AuditDetail){
                                                .message = message ?: "Run refused",
                                                .command = r->command,
                                                .reason = reason,
                                });
                run_await_record(r, AUDIT_RUN_REFUSED);
        }
        reply_error(r, error_name, reason ?: "out of memory");
        r->refused = true;
        r->question = authz_query_free(r->question);
        if (r->phase == RUN_ASKING) {
                manager_drop(r->manager, r);
                return;
        }
        r->phase = RUN_ENDING;
        manager_on_started(r->manager);
        run_channel_close(r);
        if (r->unit_over) {
                run_end(r);
                return;
        }
        (void) broker_unit_kill(r->manager->pid1.bus, r->unit, SIGKILL);
        (void) broker_unit_stop(r->manager->pid1.bus, r->unit);
}

/* ---- from the request to the unit */

static int on_start_deadline(sd_event_source *s, uint64_t usec, void *userdata)
{
        Run *r = userdata;

        run_refuse(r, AGENTBOX_ERROR_START_FAILED, "%s within %u seconds",
                        run_disk_is_awaited(r) && r->disk->has_place
                                        ? "WorkspaceStore=disk: agentbox-disk has not made the workspace"
                                        : "the run's unit did not come up",
                        START_WAIT_USEC / 1000000);
        return 0;
}

static int on_unit_accepted(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        Run *r = userdata;
        const sd_bus_error *e = sd_bus_message_get_error(m);

        r->start_slot = sd_bus_slot_unref(r->start_slot);
        run_mark(r, MARK_UNIT_ACCEPTED);
        /* It may have heard us and not been heard: manager_reconnect() sorts that out. */
        if (e && sd_bus_is_open(r->manager->pid1.bus) <= 0)
                return 0;
        if (e) {
                r->slice_gone = true;
                if (r->warden)
                        r->warden->is_over = true;
        }
        if (e && r->phase == RUN_STARTING) {
                r->unit_over = true;
                run_refuse(r, AGENTBOX_ERROR_START_FAILED, "PID 1 refused the run's unit: %s",
                                e->message ?: e->name);
        } else if (e) {
                r->unit_over = true;
                run_end(r);
        }
        return 0;
}

static int write_requested(Run *r)
{
        AuditSubject subject = run_subject(r);
        _cleanup_free_ char *message = NULL;
        int k;

        if (asprintf(&message, "Run %s under policy %s requested by uid %u", r->id, r->policy_name,
                            r->caller.uid) < 0) {
                message = NULL;
                return -ENOMEM;
        }
        k = audit_write(AUDIT_RUN_REQUESTED, &subject,
                        &(AuditDetail){
                                        .message = message,
                                        .command = r->command,
                                        .view = r->view ? r->view->path : NULL,
                        });
        r->confirm_until = now_monotonic() + AUDIT_WAIT_USEC;
        manager_arm_confirmer(r->manager);
        return k;
}

static int start_unit(Run *r, Error **reterr)
{
        Manager *m = r->manager;
        _cleanup_close_ int shim_fd = -1, warden_fd = -1;
        const struct sock_filter *filter;
        size_t n;
        int k = run_channel_open(r, &shim_fd, reterr);

        if (k >= 0 && r->warden)
                k = run_warden_open(r, &warden_fd, reterr);
        if (k < 0)
                return k;
        k = sd_event_add_time_relative(
                        m->event, &r->deadline, CLOCK_MONOTONIC, START_WAIT_USEC, 0, on_start_deadline, r);
        if (k >= 0)
                k = broker_unit_start(m->pid1.bus,
                                &(UnitStart){
                                                .unit = r->unit,
                                                .props = &r->props,
                                                .stdin_fd = shim_fd,
                                                .pidfd = r->request.scope_pidfd,
                                                .other = r->scope    ? r->mount
                                                         : r->warden ? r->warden->unit
                                                                     : NULL,
                                                .other_props = r->warden ? &r->warden->props
                                                                         : &r->mount_props,
                                                .other_stdin_fd = warden_fd,
                                },
                                on_unit_accepted, r, &r->start_slot);
        if (k >= 0)
                k = run_warden_ask(r);
        if (k >= 0)
                k = sd_bus_flush(m->pid1.bus);
        if (k < 0)
                return error_set(reterr, k, "cannot ask PID 1 for the run's unit: %s", strerror(-k));
        /* While PID 1 works: most policies are in the cache afterwards. A failure shows again where it
         * counts. */
        (void) filter_cache_get(&m->filters, r->policy, r->digest, true, &filter, &n, NULL);
        return 0;
}

static void begin_authorised(Run *r)
{
        _cleanup_error_ Error *e = NULL;
        int k;

        run_mark(r, MARK_AUTHORISED);
        if (r->client_gone) {
                run_refuse(r, AGENTBOX_ERROR_NOT_AUTHORIZED, "its client is gone");
                return;
        }
        if (r->name && manager_name_is_taken(r->manager, r->caller.uid, r->name)) {
                run_refuse(r, AGENTBOX_ERROR_INVALID_REQUEST, "a run of yours named %s is there already",
                                r->name);
                return;
        }
        r->phase = RUN_STARTING;
        r->unit_over = true; /* none is there yet */
        /* First: a record of a request without a state would be one without an end, were this the last that we do. */
        k = run_make_directory(r, &e);
        if (k >= 0 && (k = write_requested(r)) < 0) {
                run_refuse(r, AGENTBOX_ERROR_NO_JOURNAL, "the request cannot be written to the journal: %s",
                                strerror(-k));
                return;
        }
        if (k >= 0)
                k = run_prepare(r, &e);
        run_mark(r, MARK_PREPARED);
        if (k >= 0) {
                r->unit_over = r->slice_gone = false;
                k = start_unit(r, &e);
        }
        if (k < 0)
                run_refuse(r,
                                k == -EOPNOTSUPP ? AGENTBOX_ERROR_NOT_ENFORCEABLE
                                                 : AGENTBOX_ERROR_START_FAILED,
                                "%s", error_message(e, k));
}

static void on_authorised(void *userdata, int verdict, const char *why)
{
        Run *r = userdata;

        if (verdict > 0) {
                r->question = authz_query_free(r->question);
                begin_authorised(r);
                return;
        }
        run_refuse(r, AGENTBOX_ERROR_NOT_AUTHORIZED,
                        "not authorised: uid %u may not use policy %s: it is not opened to this user "
                        "([Access], group %s), and %s",
                        r->caller.uid, r->policy_name, AGENTBOX_GROUP, why);
}

void run_begin(Run *r)
{
        _cleanup_error_ Error *e = NULL;
        const char *error_name;
        int k = run_load_policy(r, &error_name, &e);

        if (k < 0) {
                run_refuse(r, error_name, "%s", error_message(e, k));
                return;
        }
        if (authz_policy_is_open(r->policy, &r->caller)) {
                begin_authorised(r);
                return;
        }
        k = authz_ask(r->call, AGENTBOX_ACTION_RUN, r->policy_name, on_authorised, r, &r->question);
        if (k < 0)
                on_authorised(r, k, "polkit cannot be asked");
}

/* ---- from the attestation to the workload */

static void refuse_unverified(Run *r, int k)
{
        AuditSubject subject = run_subject(r);
        _cleanup_free_ char *broken = NULL, *shown = NULL, *message = NULL;

        if (k < 0 && strv_length(r->broken) == 0)
                (void) strv_extend(&r->broken, "verification: could not be completed");
        broken = strv_join(r->broken, "; ");
        shown = broken ? escape_for_display(broken, strlen(broken), 4096) : NULL;
        if (asprintf(&message, "Run %s not started, this host does not keep what the policy promises: %s",
                            r->id, shown ?: "?") < 0)
                message = NULL;
        (void) audit_write(AUDIT_RUN_UNVERIFIED, &subject,
                        &(AuditDetail){
                                        .message = message ?: "Run not verified",
                                        .command = r->command,
                                        .verified = r->verified,
                                        .broken = r->broken,
                        });
        run_refuse(r, AGENTBOX_ERROR_NOT_VERIFIED, "not verified: %s", shown ?: "?");
}

/* Of a service: what the run has written, when it is dead. With a view, its changes; agentbox-view has given them to the
 * run. */
static int take_workspace(Run *r, int *ret_fd, Error **reterr)
{
        if (!r->view)
                return run_root_take_workspace(r->peer.pid, r->peer.uid, r->peer.gid, r->policy, ret_fd, reterr);
        *ret_fd = TAKE_FD(r->view->changes_fd);
        return 0;
}

/* What the uid was needed for. A scope has neither a root nor a name of its own. */
static int settle_in(Run *r, Error **reterr)
{
        _cleanup_close_ int workspace_fd = -1;
        int k;

        if (r->scope) {
                k = run_copy_wants_workspace(r) ? run_copy_open_scope_workspace(r->workspace) : 0;
                if (k < 0)
                        return error_set(reterr, k, "cannot open the run's workspace: %s", strerror(-k));
                workspace_fd = run_copy_wants_workspace(r) ? k : -1;
        } else {
                k = take_workspace(r, &workspace_fd, reterr);
                if (k >= 0)
                        k = uts_set_hostname(r->peer.pid, SANDBOX_HOSTNAME, reterr);
                if (k < 0)
                        return k;
        }
        if (!run_copy_wants_workspace(r))
                return 0;
        k = run_copy_keep_workspace(r, TAKE_FD(workspace_fd), r->view ? TAKE_FD(r->view->merged_fd) : -1);
        return k < 0 ? error_set(reterr, k, "cannot leave the run's workspace with PID 1: %s", strerror(-k)) : 0;
}

static int launch(Run *r, Error **reterr)
{
        int k = settle_in(r, reterr);

        if (k < 0)
                return k;
        r->result.started = now_realtime();
        r->started_monotonic = now_monotonic();
        k = run_output_keep(r);
        if (k < 0)
                return error_set(reterr, k, "cannot leave the channel of the run's output with PID 1: %s", strerror(-k));
        /* From here on an untrusted instruction may run: a broker that comes after us must know. (How a scope ended, its client
         * says.) */
        if (!r->scope)
                (void) fd_store_put(FD_STORE_MAIN, r->id, &r->pidfd, 1);
        k = run_write_state(r, STATE_RUNNING);
        if (k < 0)
                return error_set(reterr, k, "cannot write the run's state: %s", strerror(-k));
        r->phase = RUN_LAUNCHED;
        manager_on_started(r->manager);
        /* How long the files take is up to their sender, within the run's own time, which is PID 1's to watch. */
        if (run_copy_in_fd(r) >= 0)
                r->deadline = sd_event_source_disable_unref(r->deadline);
        k = run_channel_send_spec(r, reterr);
        run_mark(r, MARK_SENT);
        return k;
}

static int write_verified(Run *r)
{
        AuditSubject subject = run_subject(r);
        _cleanup_free_ char *message = NULL;

        if (asprintf(&message, "Run %s verified: %zu promises hold", r->id, strv_length(r->verified)) < 0) {
                message = NULL;
                return -ENOMEM;
        }
        return audit_write(AUDIT_RUN_VERIFIED, &subject,
                        &(AuditDetail){ .message = message,
                                        .verified = r->verified,
                                        /* Whose uid joins the kernel's own records to it. A scope has its caller's, as others have. */
                                        .uid = r->scope ? 0 : r->peer.uid,
                                        .fingerprints = r->tripwires.decoys.fingerprints });
}

/* Verified, and everybody beside it is ready. */
static void begin_workload(Run *r)
{
        _cleanup_error_ Error *e = NULL;
        int k = write_verified(r);

        if (k >= 0)
                k = launch(r, &e);
        if (k < 0)
                run_refuse(r, AGENTBOX_ERROR_START_FAILED, "%s", error_message(e, k));
}

static void begin_when_ready(Run *r)
{
        if ((!r->warden || r->warden->is_ready) && run_output_is_ready(r))
                begin_workload(r);
}

/* The run's cgroup2 group; -1 without an error where it needs none. */
static int open_cgroup(Run *r, int *ret, Error **reterr)
{
        const char *root = r->manager->host.cgroup_root_unified;
        char path[PATH_MAX];

        if (!r->warden)
                return 0;
        if (!root)
                return error_set(reterr, -ENODEV,
                                "no cgroup2 hierarchy is mounted, which what a run sends is seen by");
        if (snprintf(path, sizeof(path), "%s%s", root, r->status.control_group ?: "") >= (int) sizeof(path))
                return error_set(reterr, -ENAMETOOLONG, "the path of the run's cgroup is too long");
        *ret = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return *ret < 0 ? error_set(reterr, -errno, "cannot open the run's cgroup: %m")
                        : run_warden_attach(r, *ret, reterr);
}

static int verify(Run *r, int cgroup_fd)
{
        VerifyWarden warden;

        if (r->warden)
                run_warden_verify_input(r, cgroup_fd, &warden);
        return broker_verify(
                        &(VerifyInput){
                                        .host = &r->manager->host,
                                        .policy = r->policy,
                                        .context = &r->context,
                                        .root = &r->root,
                                        .sent = &r->props,
                                        .attest = &r->attest,
                                        .peer = r->peer,
                                        .main_pid = (pid_t) r->status.main_pid,
                                        .control_group = r->status.control_group,
                                        .properties = r->properties,
                                        .run_slice_properties = r->slices[0],
                                        .slice_properties = r->slices[1],
                                        .root_slice_properties = r->slices[2],
                                        .disk = r->disk ? &r->disk->seen : NULL,
                                        .netns_inode = r->netns_inode,
                                        .warden = r->warden ? &warden : NULL,
                                        .has_view = r->view != NULL,
                                        .view_fd = r->view ? r->view->merged_fd : -1,
                                        .decoys = &r->tripwires.decoys,
                                        .tripwire_fd = r->manager->tripwire_fd,
                        },
                        &r->verified, &r->broken);
}

/* The one lies on the other. 1: something is still awaited. */
static int begin_mounts(Run *r, Error **reterr)
{
        int k = 0;

        if (run_disk_is_awaited(r))
                k = run_disk_begin(r, reterr);
        else if (run_view_is_awaited(r))
                k = run_view_begin(r, reterr);
        else
                return 0;
        return k < 0 ? k : 1;
}

void run_advance(Run *r)
{
        _cleanup_error_ Error *e = NULL;
        _cleanup_close_ int cgroup_fd = -1;
        int k;

        if (r->phase != RUN_STARTING || !r->has_attest || !run_has_properties(r) || !r->is_on_record ||
                        !run_warden_is_met(r))
                return;
        if (r->is_verified) {
                begin_when_ready(r);
                return;
        }
        k = begin_mounts(r, &e);
        if (k > 0)
                return;
        if (k >= 0)
                k = open_cgroup(r, &cgroup_fd, &e);
        if (k >= 0)
                k = r->scope ? 0
                             : run_root_write_identity(&r->root, r->peer.uid, r->peer.gid, r->policy, &e);
        if (k >= 0)
                k = run_tripwires_plant(r, &e);
        if (k < 0) {
                run_refuse(r, AGENTBOX_ERROR_START_FAILED, "%s", error_message(e, k));
                return;
        }
        k = verify(r, cgroup_fd);
        run_mark(r, MARK_VERIFIED);
        if (k != 0) {
                refuse_unverified(r, k);
                return;
        }
        r->uid = r->peer.uid;
        r->gid = r->peer.gid;
        r->is_verified = true;
        k = r->warden ? run_warden_tell(r, &e) : 0;
        if (k < 0)
                run_refuse(r, AGENTBOX_ERROR_START_FAILED, "%s", error_message(e, k));
        else
                begin_when_ready(r);
}

/* What only the start needed. The descriptors count: there may be hundreds of runs. */
static void drop_start(Run *r)
{
        run_channel_leave(r);
        request_done(&r->request);
        r->deadline = sd_event_source_disable_unref(r->deadline);
        r->properties = sd_bus_message_unref(r->properties);
        for (size_t i = 0; i < RUN_SLICES; i++)
                r->slices[i] = sd_bus_message_unref(r->slices[i]);
        attest_done(&r->attest);
        unit_props_done(&r->props);
        run_warden_drop_start(r);
        r->disk = run_disk_free(r->disk);
        r->view = run_view_free(r->view);
}

void run_on_executed(Run *r)
{
        AuditSubject subject = run_subject(r);
        _cleanup_free_ char *message = NULL;

        run_mark(r, MARK_EXECUTED);
        r->phase = RUN_RUNNING;
        drop_start(r);
        /* Not before: a shim whose broker goes away over what it has to be told must see that. */
        if (r->init_pid > 0 && fd_store_put(FD_STORE_INIT, r->id, &r->channel_fd, 1) < 0)
                sd_journal_print(LOG_WARNING, "Run %s: another broker would not learn by which signal it ended", r->id);
        if (asprintf(&message, "Run %s started as uid %u%s%s", r->id, r->uid,
                            r->command && *r->command ? ": " : "", r->command ?: "") < 0)
                message = NULL;
        (void) audit_write(AUDIT_RUN_STARTED, &subject,
                        &(AuditDetail){ .message = message ?: "Run started", .command = r->command });
        (void) run_reply_started(r);
        manager_arm_sampler(r->manager);
        manager_arm_looker(r->manager);
}

void run_on_failure(Run *r, const ExecFailure *f)
{
        _cleanup_free_ char *shown = NULL, *directory = NULL;

        if (f->stage == EXEC_STAGE_EXECVE && r->request.argv) {
                shown = escape_for_display(r->request.argv[0], strlen(r->request.argv[0]), 256);
                if (asprintf(&r->result.message, "cannot execute %s: %s", shown ?: "?", strerror(f->error)) <
                                0)
                        r->result.message = NULL;
                /* The shim's exit status, 126 or 127, comes by the usual way. */
                run_mark(r, MARK_EXECUTED);
                r->phase = RUN_RUNNING;
                drop_start(r);
                (void) run_reply_started(r);
                return;
        }
        if (f->stage == EXEC_STAGE_UNPACK) {
                shown = run_copy_on_unpack_failure(r, f->error);
                run_refuse(r, AGENTBOX_ERROR_START_FAILED, "%s", shown ?: "cannot copy in");
                return;
        }
        if (f->stage == EXEC_STAGE_CWD) {
                directory = request_directory(&r->request, run_workspace(r));
                shown = directory ? escape_for_display(directory, strlen(directory), 256) : NULL;
                run_refuse(r, AGENTBOX_ERROR_START_FAILED, "cannot start in the directory %s: %s",
                                shown ?: "?", strerror(f->error));
                return;
        }
        run_refuse(r, AGENTBOX_ERROR_START_FAILED, "the shim failed in stage %s: %s",
                        exec_stage_to_string(f->stage), strerror(f->error));
}
