/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <syslog.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-journal.h>
#include <time.h>

#include "broker/manager.h"
#include "broker/run.h"
#include "wire/bus-iface.h"

#define USEC_PER_MSEC 1000u
#define USEC_PER_SEC 1000000u
#define RECONNECT_USEC (200u * USEC_PER_MSEC)

static uint64_t now(clockid_t clock)
{
        struct timespec t;

        clock_gettime(clock, &t);
        return (uint64_t) t.tv_sec * USEC_PER_SEC + (uint64_t) t.tv_nsec / 1000;
}

uint64_t now_monotonic(void)
{
        return now(CLOCK_MONOTONIC);
}

uint64_t now_realtime(void)
{
        return now(CLOCK_REALTIME);
}

/* ---- the runs */

int manager_admit(const Manager *m, uid_t uid, Error **reterr)
{
        unsigned n = 0, n_uid = 0;

        if (m->stopping)
                return error_set(reterr, -ESHUTDOWN, "the broker is shutting down: try again");
        for (const Run *r = m->runs; r; r = r->next) {
                n++;
                n_uid += r->caller.uid == uid;
        }
        if (n >= RUNS_MAX)
                return error_set(reterr, -EBUSY, "%u runs are there already, more are not started: wait for one to end", RUNS_MAX);
        if (uid != 0 && n_uid >= RUNS_PER_UID_MAX)
                return error_set(reterr, -EBUSY, "uid %u has %u runs already, more are not started: wait for one to end", uid,
                        RUNS_PER_UID_MAX);
        return 0;
}

void manager_add(Manager *m, Run *run)
{
        run->next = m->runs;
        m->runs = run;
}

static void unlink_run(Manager *m, Run *run)
{
        for (Run **i = &m->runs; *i; i = &(*i)->next)
                if (*i == run) {
                        *i = run->next;
                        run->next = NULL;
                        return;
                }
}

/* Of an ended run its facts stay, and no descriptor. */
static void strip(Run *run)
{
        run_channel_close(run);
        run->pidfd_source = sd_event_source_disable_unref(run->pidfd_source);
        closep(&run->pidfd);
        run->pidfd = -1;
        closep(&run->netns_fd);
        run->netns_fd = -1;
        run_usage_close(&run->usage);
        request_done(&run->request);
}

void manager_retire(Manager *m, Run *run)
{
        Run **slot = m->recent + m->n_recent++ % RECENT_MAX;

        unlink_run(m, run);
        strip(run);
        run_free(*slot);
        *slot = run;
        manager_touch(m);
}

void manager_drop(Manager *m, Run *run)
{
        unlink_run(m, run);
        run_free(run);
        manager_touch(m);
}

Run *manager_by_id(const Manager *m, const char *id)
{
        for (Run *r = m->runs; r; r = r->next)
                if (streq(r->id, id))
                        return r;
        for (size_t i = 0; i < RECENT_MAX; i++)
                if (m->recent[i] && streq(m->recent[i]->id, id))
                        return m->recent[i];
        return NULL;
}

Run *manager_find(const Manager *m, const char *id_or_name)
{
        for (Run *r = m->runs; r; r = r->next)
                if (r->phase > RUN_ASKING && r->name && streq(r->name, id_or_name))
                        return r;
        return manager_by_id(m, id_or_name);
}

Run *manager_by_unit(const Manager *m, const char *unit)
{
        for (Run *r = m->runs; r; r = r->next)
                if (streq(r->unit, unit))
                        return r;
        return NULL;
}

Run *manager_by_slice(const Manager *m, const char *slice)
{
        for (Run *r = m->runs; r; r = r->next)
                if (streq(r->slice, slice))
                        return r;
        return NULL;
}

bool manager_name_is_taken(const Manager *m, const char *name)
{
        for (Run *r = m->runs; r; r = r->next)
                if (r->phase > RUN_ASKING && r->name && streq(r->name, name))
                        return true;
        return false;
}

/* ---- the queue of those that have not begun */

static Run *first_queued(const Manager *m)
{
        Run *first = NULL;

        for (Run *r = m->runs; r; r = r->next) /* newest first */
                if (r->queued)
                        first = r;
        return first;
}

static int on_beginner(sd_event_source *source, void *userdata)
{
        Manager *m = userdata;
        Run *r = first_queued(m);

        if (r) {
                r->queued = false;
                run_begin(r);
        }
        if (first_queued(m))
                return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
        return 0;
}

void manager_queue(Manager *m, Run *run)
{
        run->queued = true;
        if (sd_event_source_set_enabled(m->beginner, SD_EVENT_ONESHOT) < 0) {
                run->queued = false;
                run_begin(run);
        }
}

/* ---- idle */

/* PID 1 learns it first, so that a call from now on starts a new broker after this one; then the name is given back; then calls that
 * came in between are answered (Run with ShuttingDown). */
static void leave(Manager *m)
{
        m->stopping = true;
        (void) sd_notify(false, "STOPPING=1");
        (void) sd_notify_barrier(false, USEC_PER_SEC);
        (void) sd_bus_release_name(m->bus, AGENTBOX_BUS_NAME);
        while (sd_bus_process(m->bus, NULL) > 0)
                ;
        (void) sd_bus_flush(m->bus);
        (void) sd_event_exit(m->event, 0);
}

static int on_idle(sd_event_source *source, uint64_t usec, void *userdata)
{
        Manager *m = userdata;

        if (m->runs || m->n_questions > 0) {
                manager_touch(m);
                return 0;
        }
        leave(m);
        return 0;
}

void manager_touch(Manager *m)
{
        if (m->idle && sd_event_source_set_time_relative(m->idle, IDLE_USEC) >= 0)
                (void) sd_event_source_set_enabled(m->idle, SD_EVENT_ONESHOT);
}

/* ---- the journal's proof */

/* Often at first, where the journal is quick; seldom later, where something is wrong with it. */
static uint64_t next_confirmation(const Run *r, uint64_t time)
{
        uint64_t waited = time - r->marks[MARK_CALLED];

        if (waited < 60 * USEC_PER_MSEC)
                return 2 * USEC_PER_MSEC;
        return waited < 500 * USEC_PER_MSEC ? 10 * USEC_PER_MSEC : 50 * USEC_PER_MSEC;
}

static bool awaits_journal(const Run *r)
{
        return r->phase == RUN_STARTING && !r->is_on_record && r->confirm_until > 0;
}

static void confirm(Run *r, uint64_t time)
{
        int k = audit_is_on_record(r->manager->audit, AUDIT_RUN_REQUESTED, r->id, true);

        if (k > 0) {
                r->is_on_record = true;
                run_mark(r, MARK_JOURNAL);
                run_advance(r);
        } else if (k < 0 && k != -ENOENT)
                run_refuse(r, AGENTBOX_ERROR_NO_JOURNAL, "the journal cannot be read back: %s", strerror(-k));
        else if (time > r->confirm_until)
                run_refuse(r, AGENTBOX_ERROR_NO_JOURNAL, "the request did not arrive in the journal, and without a record nothing runs: is "
                           "systemd-journald running, and has its disk space left?");
}

static int on_confirmer(sd_event_source *source, uint64_t usec, void *userdata)
{
        Manager *m = userdata;
        Run *next;

        for (Run *r = m->runs; r; r = next) {
                next = r->next;
                if (awaits_journal(r))
                        confirm(r, now_monotonic());
        }
        manager_arm_confirmer(m);
        return 0;
}

void manager_arm_confirmer(Manager *m)
{
        uint64_t soonest = UINT64_MAX;

        for (const Run *r = m->runs; r; r = r->next)
                if (awaits_journal(r))
                        soonest = MIN2(soonest, next_confirmation(r, now_monotonic()));
        if (soonest == UINT64_MAX || sd_event_source_set_time_relative(m->confirmer, soonest) < 0)
                return;
        (void) sd_event_source_set_enabled(m->confirmer, SD_EVENT_ONESHOT);
}

/* ---- usage */

/* Where the kernel kills one process for memory and not the group (cgroup v1), the rest of the run is ended here. */
static int on_sampler(sd_event_source *source, uint64_t usec, void *userdata)
{
        Manager *m = userdata;

        for (Run *r = m->runs; r; r = r->next) {
                if (r->phase != RUN_RUNNING)
                        continue;
                run_usage_sample(&r->usage);
                if (r->usage.last[USAGE_OOM_KILLS] != UINT64_MAX && r->usage.last[USAGE_OOM_KILLS] > 0)
                        run_kill(r, KILL_OOM);
        }
        manager_arm_sampler(m);
        return 0;
}

void manager_arm_sampler(Manager *m)
{
        bool wanted = false;
        int enabled;

        for (const Run *r = m->runs; r; r = r->next)
                wanted = wanted || r->phase == RUN_RUNNING;
        if (!wanted || sd_event_source_get_enabled(m->sampler, &enabled) < 0 || enabled != SD_EVENT_OFF)
                return;
        /* With cgroup v1, where the kernel leaves the rest of the run alone, nobody else ends it. */
        if (sd_event_source_set_time_relative(m->sampler, m->host.cgroup_root_memory ? USEC_PER_SEC / 5 : USEC_PER_SEC) >= 0)
                (void) sd_event_source_set_enabled(m->sampler, SD_EVENT_ONESHOT);
}

/* ---- PID 1 */

/* What PID 1 would have told us in the meantime. */
static void catch_up(Run *r)
{
        _cleanup_message_ sd_bus_message *reply = NULL;
        int k = broker_unit_get_all_now(r->manager->pid1.bus, r->unit, &reply);

        if (k >= 0)
                k = unit_status_read_reply(&r->status, reply);
        if (k < 0)
                return;
        r->was_up = true;
        r->check_slot = sd_bus_slot_unref(r->check_slot);
        run_on_status(r);
}

static int on_reconnect(sd_event_source *source, uint64_t usec, void *userdata)
{
        Manager *m = userdata;
        _cleanup_error_ Error *e = NULL;
        Run *next;
        int k = broker_unit_connect(&m->pid1, m->event, &e);

        if (k < 0) {
                sd_journal_print(LOG_WARNING, "%s", error_message(e, k));
                manager_reconnect(m);
                return 0;
        }
        for (Run *r = m->runs; r; r = next) {
                next = r->next;
                if (r->phase >= RUN_RUNNING)
                        catch_up(r);
                else if (r->phase > RUN_ASKING)
                        run_refuse(r, AGENTBOX_ERROR_START_FAILED, "PID 1 restarted itself during the start: try again");
        }
        return 0;
}

void manager_reconnect(Manager *m)
{
        broker_unit_disconnect(&m->pid1);
        if (sd_event_source_set_time_relative(m->reconnect, RECONNECT_USEC) >= 0)
                (void) sd_event_source_set_enabled(m->reconnect, SD_EVENT_ONESHOT);
}

/* ---- start and stop */

static int add_timers(Manager *m)
{
        const struct {
                sd_event_source **source;
                sd_event_time_handler_t handler;
        } rows[] = {
                { &m->idle, on_idle },
                { &m->confirmer, on_confirmer },
                { &m->sampler, on_sampler },
                { &m->reconnect, on_reconnect },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                int r = sd_event_add_time_relative(m->event, rows[i].source, CLOCK_MONOTONIC, IDLE_USEC, USEC_PER_MSEC / 2, rows[i].handler, m);

                if (r >= 0)
                        r = sd_event_source_set_enabled(*rows[i].source, SD_EVENT_OFF);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_beginner(Manager *m)
{
        int r = sd_event_add_defer(m->event, &m->beginner, on_beginner, m);

        if (r >= 0)
                r = sd_event_source_set_priority(m->beginner, SD_EVENT_PRIORITY_IDLE);
        return r < 0 ? r : sd_event_source_set_enabled(m->beginner, SD_EVENT_OFF);
}

/* Every run's shim tries to reach it: from a network namespace of its own it cannot. Nothing is ever accepted. */
static int open_probe(Manager *m)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        uint64_t random;
        size_t n;

        if (getrandom(&random, sizeof(random), 0) != sizeof(random))
                return -EIO;
        if (asprintf(&m->probe_name, "agentbox-probe-%016llx", (unsigned long long) random) < 0) {
                m->probe_name = NULL;
                return -ENOMEM;
        }
        n = strlen(m->probe_name);
        memcpy(address.sun_path + 1, m->probe_name, n);
        m->probe_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (m->probe_fd < 0)
                return -errno;
        if (bind(m->probe_fd, (struct sockaddr *) &address, (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + n)) < 0 ||
                listen(m->probe_fd, SOMAXCONN) < 0)
                return -errno;
        return 0;
}

static int open_runtime_directory(Manager *m)
{
        struct stat st;

        /* The unit makes it; this is for a broker that is started by hand. */
        if (mkdir(RUNTIME_DIR, 0755) >= 0) {
                if (chmod(RUNTIME_DIR, 0755) < 0)
                        return -errno;
        } else if (errno != EEXIST)
                return -errno;
        m->runtime_fd = open(RUNTIME_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (m->runtime_fd < 0 || fstat(m->runtime_fd, &st) < 0)
                return -errno;
        return st.st_uid == 0 && !(st.st_mode & 022) ? 0 : -EPERM;
}

/* "252.39-1~deb12u2" */
static int read_version(Manager *m, Error **reterr)
{
        _cleanup_free_ char *text = NULL;
        int r = broker_unit_version(m->pid1.bus, &text);
        unsigned long version = r < 0 ? 0 : strtoul(text, NULL, 10);

        if (version == 0 || version > UINT32_MAX)
                return error_set(reterr, r < 0 ? r : -EBADMSG, "PID 1 does not tell its version: %s", r < 0 ? strerror(-r) : text);
        m->host.systemd_version = (unsigned) version;
        return 0;
}

int manager_start(Manager *m, Error **reterr)
{
        int r;

        r = open_runtime_directory(m);
        if (r < 0)
                return error_set(reterr, r, "%s: %s (it must be root's, and writable for nobody else)", RUNTIME_DIR, strerror(-r));
        r = sd_event_default(&m->event);
        if (r >= 0)
                r = add_timers(m);
        if (r >= 0)
                r = add_beginner(m);
        if (r >= 0)
                r = open_probe(m);
        if (r < 0)
                return error_set(reterr, r, "cannot set up the event loop: %s", strerror(-r));
        r = host_facts_read(&m->host, reterr);
        if (r >= 0)
                r = audit_reader_open(&m->audit, reterr);
        if (r < 0)
                return r;
        m->pid1.events = &run_unit_events;
        m->pid1.userdata = m;
        r = broker_unit_connect(&m->pid1, m->event, reterr);
        return r < 0 ? r : read_version(m, reterr);
}

void manager_done(Manager *m)
{
        while (m->runs) {
                Run *r = m->runs;

                unlink_run(m, r);
                run_free(r);
        }
        for (size_t i = 0; i < RECENT_MAX; i++)
                run_free(m->recent[i]);
        sd_event_source_disable_unref(m->idle);
        sd_event_source_disable_unref(m->confirmer);
        sd_event_source_disable_unref(m->sampler);
        sd_event_source_disable_unref(m->reconnect);
        sd_event_source_disable_unref(m->beginner);
        broker_unit_disconnect(&m->pid1);
        sd_bus_flush_close_unref(m->bus);
        audit_reader_close(m->audit);
        filter_cache_done(&m->filters);
        host_facts_done(&m->host);
        closep(&m->runtime_fd);
        closep(&m->loopback_filter_fd);
        closep(&m->probe_fd);
        free(m->probe_name);
        sd_event_unref(m->event);
        *m = MANAGER_NONE;
}
