/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>

#include "base/io.h"
#include "base/parse.h"
#include "broker/run.h"
#include "broker/verify.h"
#include "wire/bus-iface.h"

#define STATUS_MAX (64u * 1024)

/* systemd's own exit statuses, for a start that failed before the shim ran: which of its stages it was. */
static const struct {
        int status;
        const char *text;
} start_failures[] = {
        { 70, "the shim was left alone" },
        { 125, "the shim failed" },
        { 200, "PID 1 could not change the directory" },
        { 201, "PID 1 could not set the priority" },
        { 202, "PID 1 could not close descriptors" },
        { 203, "PID 1 could not execute the shim in the run's root (is agentbox-exec installed, and beneath "
               "/usr?)" },
        { 204, "PID 1 was out of memory" },
        { 205, "PID 1 could not set the resource limits" },
        { 206, "PID 1 could not set the out-of-memory score" },
        { 207, "PID 1 could not set the signal mask" },
        { 208, "PID 1 could not set up standard input" },
        { 209, "PID 1 could not set up standard output" },
        { 213, "PID 1 could not set the secure bits" },
        { 216, "PID 1 could not set the group" },
        { 217, "PID 1 could not make the dynamic user" },
        { 218, "PID 1 could not drop the capabilities" },
        { 219, "PID 1 could not set up the cgroup" },
        { 220, "PID 1 could not make a session" },
        { 222, "PID 1 could not set up standard error" },
        { 225, "PID 1 could not set up the network namespace" },
        { 226, "PID 1 could not set up the mount namespace" },
        { 227, "PID 1 could not forbid new privileges" },
        { 228, "PID 1 could not load the system call filter" },
        { 232, "PID 1 could not restrict the address families" },
        { 233, "PID 1 could not make a directory of the unit" },
        { 234, "PID 1 could not set the owner of a directory of the unit" },
        { 237, "PID 1 could not set up the keyring" },
        { 243, "PID 1 could not set up credentials" },
        { 245, "PID 1 could not load the address filter" },
};

const char *start_failure_text(int exec_main_status)
{
        for (size_t i = 0; i < ELEMENTSOF(start_failures); i++)
                if (start_failures[i].status == exec_main_status)
                        return start_failures[i].text;
        return "the run's unit ended while it started";
}

/* The workload, or its shim, has ended; PID 1 learns the same at this moment and removes the unit's cgroup
 * next. */
static int on_main_exited(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Run *r = userdata;

        run_usage_sample(&r->usage);
        run_mark(r, MARK_EXITED);
        r->pidfd_source = sd_event_source_disable_unref(r->pidfd_source);
        run_end_rest(r);
        return 0;
}

/* Whether PID 1 has just come to say so: at first, its main process is the one that makes the namespace. */
static bool note_main(Run *r)
{
        bool was = r->init_is_main;

        r->init_is_main = r->init_pid > 0 && r->status.main_pid == (uint32_t) r->init_pid;
        return r->init_is_main && !was;
}

/* What the kernel says: who sent the report is a child of it, in a namespace where it is another number. Whether that is as it
 * should be, the verification looks at (promise "processes"). */
int run_find_init(Run *r)
{
        _cleanup_free_ char *status = NULL, *pids = NULL, *parent = NULL;
        char path[64];
        uint64_t pid;
        int k;

        if (!unit_props_find(&r->props, "PrivatePIDs"))
                return 0;
        snprintf(path, sizeof(path), "/proc/%i/status", (int) r->peer.pid);
        k = read_file(path, STATUS_MAX, &status, NULL);
        if (k >= 0)
                k = proc_status_field(status, "NSpid", &pids);
        if (k >= 0)
                k = proc_status_field(status, "PPid", &parent);
        if (k >= 0 && strchr(pids, '\t'))
                k = parse_u64(parent, &pid);
        else
                return k;
        if (k >= 0 && (pid <= 1 || pid > INT_MAX))
                k = -EBADMSG;
        if (k >= 0) {
                r->init_pid = (pid_t) pid;
                (void) note_main(r);
        }
        return k;
}

pid_t run_main_pid(const Run *r)
{
        return r->init_pid > 0 ? r->init_pid : r->peer.pid;
}

int run_watch_main(Run *r)
{
        int k;

        if (r->pidfd < 0) /* else an earlier broker has opened it */
                r->pidfd = r->request.scope_pidfd >= 0 ? TAKE_FD(r->request.scope_pidfd)
                                                       : pidfd_open(run_main_pid(r), 0);
        if (r->pidfd < 0)
                return -errno;
        k = sd_event_add_io(r->manager->event, &r->pidfd_source, r->pidfd, EPOLLIN, on_main_exited, r);
        /* Before everything else: see run-usage.h. */
        return k < 0 ? k : sd_event_source_set_priority(r->pidfd_source, SD_EVENT_PRIORITY_IMPORTANT);
}

/* ---- what PID 1 is asked before the verification */

static const char *slice_name(const Run *r, size_t i)
{
        static const char *const parents[RUN_SLICES] = { NULL, "agentbox.slice", "-.slice" };

        return parents[i] ? parents[i] : r->slice;
}

static int on_slice(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        Run *r = userdata;
        const sd_bus_slot *slot = sd_bus_get_current_slot(sd_bus_message_get_bus(m));
        const sd_bus_error *e = sd_bus_message_get_error(m);
        size_t i = 0;

        while (i < RUN_SLICES - 1 && r->slice_slots[i] != slot)
                i++;
        r->slice_slots[i] = sd_bus_slot_unref(r->slice_slots[i]);
        if (r->phase != RUN_STARTING)
                return 0;
        if (e) {
                run_refuse(r, AGENTBOX_ERROR_START_FAILED, "PID 1 does not tell the properties of %s: %s",
                                slice_name(r, i), e->message ?: e->name);
                return 0;
        }
        r->slices[i] = sd_bus_message_ref(m);
        run_advance(r);
        return 0;
}

static int request_slices(Run *r)
{
        int k = 0;

        for (size_t i = 0; k >= 0 && i < RUN_SLICES; i++)
                k = broker_unit_get_all(
                                r->manager->pid1.bus, slice_name(r, i), on_slice, r, &r->slice_slots[i]);
        return k;
}

bool run_has_properties(const Run *r)
{
        for (size_t i = 0; i < RUN_SLICES && run_shares_host_network(r); i++)
                if (!r->slices[i])
                        return false;
        return r->properties && (r->init_pid == 0 || r->init_is_main);
}

static int on_properties(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        Run *r = userdata;
        const sd_bus_error *e = sd_bus_message_get_error(m);
        int k;

        r->properties_slot = sd_bus_slot_unref(r->properties_slot);
        if (r->phase != RUN_STARTING)
                return 0;
        if (e) {
                run_refuse(r, AGENTBOX_ERROR_START_FAILED,
                                "PID 1 does not tell the properties of the run's unit: %s",
                                e->message ?: e->name);
                return 0;
        }
        k = unit_status_read_reply(&r->status, m);
        if (k < 0) {
                run_refuse(r, AGENTBOX_ERROR_START_FAILED,
                                "the properties of the run's unit cannot be read: %s", strerror(-k));
                return 0;
        }
        (void) note_main(r);
        run_mark(r, MARK_PROPERTIES);
        r->properties = sd_bus_message_ref(m);
        if (r->status.control_group && *r->status.control_group)
                run_usage_open(&r->usage, &r->manager->host, r->status.control_group);
        run_advance(r);
        return 0;
}

int run_request_properties(Run *r)
{
        int k = broker_unit_get_all(r->manager->pid1.bus, r->unit, on_properties, r, &r->properties_slot);

        return k >= 0 && run_shares_host_network(r) ? request_slices(r) : k;
}

/* ---- signals of PID 1 */

static void on_over(Run *r)
{
        r->unit_over = true;
        run_mark(r, MARK_UNIT_OVER);
        run_learn_end(r);
        /* PID 1 forgets the unit now; copying out may take long after that. */
        if (r->phase >= RUN_LAUNCHED && !r->refused)
                (void) run_write_state(r, STATE_ENDING);
        run_end(r);
}

void run_on_status(Run *r)
{
        const UnitStatus *s = &r->status;
        int k;

        if (s->active_state && !streq(s->active_state, "inactive"))
                r->was_up = true;
        /* "inactive" is what a unit is before its job begins, too. (MainPID= proves nothing: it comes in an
         * earlier signal.) */
        if (unit_status_is_over(s) && r->was_up) {
                on_over(r);
                return;
        }
        /* Its time has passed, or its main process has ended: PID 1 asks politely and waits; nobody here is
         * owed that. */
        if (r->phase == RUN_RUNNING && s->active_state && streq(s->active_state, "deactivating"))
                run_end_rest(r);
        /* As early as they are final: the shim is being set up meanwhile. */
        if (r->phase == RUN_STARTING && s->main_pid > 0 && !r->properties_slot && !r->properties) {
                run_mark(r, MARK_FORKED);
                k = run_request_properties(r);
                if (k < 0)
                        run_refuse(r, AGENTBOX_ERROR_START_FAILED,
                                        "cannot ask PID 1 for the unit's properties: %s", strerror(-k));
                return;
        }
        if (r->phase == RUN_STARTING && note_main(r))
                run_advance(r);
}

/* Its process is in the cgroup, where it may say what it sees. */
static void on_scope_up(Run *r)
{
        int k;

        if (!r->scope || r->scope_started)
                return;
        run_mark(r, MARK_FORKED);
        k = run_request_properties(r);
        if (k >= 0)
                k = run_scope_start(r);
        if (k < 0)
                run_refuse(r, AGENTBOX_ERROR_START_FAILED,
                                "the process of the scope cannot be spoken to: %s", strerror(-k));
}

static void on_changed(void *userdata, const char *unit, sd_bus_message *body)
{
        Run *r = manager_by_unit(userdata, unit), *of_warden = manager_by_warden(userdata, unit);

        if (r && !r->unit_over && unit_status_read_changed(&r->status, body) >= 0)
                run_on_status(r);
        else if (of_warden)
                run_warden_on_changed(of_warden, body);
}

static void on_job_removed(void *userdata, const char *unit, const char *result)
{
        Run *r = manager_by_unit(userdata, unit), *of_slice = manager_by_slice(userdata, unit),
            *of_warden = manager_by_warden(userdata, unit);

        if (of_warden)
                run_warden_on_job_removed(of_warden, result);
        if (of_slice && of_slice->slice_stopping)
                run_on_slice_gone(of_slice);
        if (!r || r->unit_over)
                return;
        r->was_up = true;
        if (unit_status_is_over(&r->status))
                on_over(r);
        else if (r->phase == RUN_STARTING && (streq(result, "canceled") || streq(result, "dependency")) &&
                        run_warden_suspect(r, result))
                return;
        else if (r->phase == RUN_STARTING && !streq(result, "done"))
                run_refuse(r, AGENTBOX_ERROR_START_FAILED,
                                "PID 1's start of the run's unit ended with \"%s\"", result);
        else if (r->phase == RUN_STARTING)
                on_scope_up(r);
}

static int on_checked(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        Run *r = userdata;

        r->check_slot = sd_bus_slot_unref(r->check_slot);
        if (!r->unit_over && !sd_bus_message_is_method_error(m, NULL) &&
                        unit_status_read_reply(&r->status, m) >= 0)
                run_on_status(r);
        return 0;
}

/* PID 1 says so of every unit when it reloads or executes itself anew, and takes them up again: so it is
 * asked. A unit that it does not know any more is "inactive". */
static void on_removed(void *userdata, const char *unit)
{
        Run *r = manager_by_unit(userdata, unit), *of_warden = manager_by_warden(userdata, unit);

        if (of_warden)
                run_warden_on_removed(of_warden);
        if (!r || r->unit_over || r->phase <= RUN_ASKING || r->check_slot)
                return;
        if (broker_unit_get_all(r->manager->pid1.bus, r->unit, on_checked, r, &r->check_slot) < 0)
                on_over(r);
}

static void on_disconnected(void *userdata)
{
        manager_reconnect(userdata);
}

const UnitEvents run_unit_events = {
        .job_removed = on_job_removed,
        .changed = on_changed,
        .removed = on_removed,
        .disconnected = on_disconnected,
};
