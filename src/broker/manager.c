/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "broker/broker-boots.h"
#include "broker/broker-doctor.h"
#include "broker/loopback-filter.h"
#include "broker/manager.h"
#include "broker/run.h"

#define USEC_PER_SEC 1000000u

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
        if (uid != 0 && refusal_budget_is_spent(&m->refusals, uid, now_monotonic()))
                return error_set(reterr, -EBUSY,
                                "too many requests of uid %u were refused, so that this one is not looked at: wait a "
                                "second",
                                uid);
        for (const Run *r = m->runs; r; r = r->next) {
                n++;
                n_uid += r->caller.uid == uid;
        }
        if (n >= RUNS_MAX)
                return error_set(reterr, -EBUSY,
                                "%u runs are there already, more are not started: wait for one to end",
                                RUNS_MAX);
        if (uid != 0 && n_uid >= RUNS_PER_UID_MAX)
                return error_set(reterr, -EBUSY,
                                "uid %u has %u runs already, more are not started: wait for one to end", uid,
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
        run->warden = run_warden_free(run->warden);
        run_usage_close(&run->usage);
        request_done(&run->request);
}

void manager_retire(Manager *m, Run *run)
{
        Run **slot = m->recent + m->n_recent++ % RECENT_MAX;

        unlink_run(m, run);
        manager_release_tripwires(m);
        strip(run);
        run_free(*slot);
        *slot = run;
        manager_want_wall(m);
        manager_touch(m);
}

void manager_drop(Manager *m, Run *run)
{
        unlink_run(m, run);
        manager_release_tripwires(m);
        run_free(run);
        manager_want_wall(m);
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

/* Of one that only asks to run, the name is a wish. */
static bool is_called(const Run *r, const char *name)
{
        return r->phase > RUN_ASKING && r->name && streq(r->name, name);
}

static Run *by_name(const Manager *m, uid_t uid, const char *name)
{
        for (Run *r = m->runs; r; r = r->next)
                if (r->caller.uid == uid && is_called(r, name))
                        return r;
        return NULL;
}

Run *manager_find(const Manager *m, const Caller *c, const char *id_or_name)
{
        Run *found = manager_by_id(m, id_or_name);

        if (!found)
                found = by_name(m, c->uid, id_or_name);
        if (found || c->uid != 0 || run_id_is_valid(id_or_name))
                return found;
        for (Run *r = m->runs; r; r = r->next)
                if (is_called(r, id_or_name))
                        return r;
        return NULL;
}

Run *manager_by_unit(const Manager *m, const char *unit)
{
        for (Run *r = m->runs; r; r = r->next)
                if (streq(r->unit, unit))
                        return r;
        return NULL;
}

Run *manager_by_warden(const Manager *m, const char *unit)
{
        if (!startswith(unit, WARDEN_UNIT_PREFIX))
                return NULL;
        for (Run *r = m->runs; r; r = r->next)
                if (r->warden && streq(r->warden->unit, unit))
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

bool manager_name_is_taken(const Manager *m, uid_t uid, const char *name)
{
        return by_name(m, uid, name);
}

/* ---- start and stop */

/* Every run's shim tries to reach it: from a network namespace of its own it cannot. Nothing is ever
 * accepted. */
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
        if (bind(m->probe_fd, (struct sockaddr *) &address,
                            (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + n)) < 0 ||
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
                return error_set(reterr, r < 0 ? r : -EBADMSG, "PID 1 does not tell its version: %s",
                                r < 0 ? strerror(-r) : text);
        m->host.systemd_version = (unsigned) version;
        return 0;
}

int manager_start(Manager *m, Error **reterr)
{
        int r;

        r = fd_store_receive(&m->stored);
        if (r < 0)
                return error_set(reterr, r, "cannot take what an earlier broker left: %s", strerror(-r));
        r = open_runtime_directory(m);
        if (r < 0)
                return error_set(reterr, r, "%s: %s (it must be root's, and writable for nobody else)",
                                RUNTIME_DIR, strerror(-r));
        r = sd_event_default(&m->event);
        if (r >= 0)
                r = manager_add_watches(m);
        if (r >= 0)
                r = open_probe(m);
        if (r < 0)
                return error_set(reterr, r, "cannot set up the event loop: %s", strerror(-r));
        manager_take_tripwires(m);
        r = host_facts_read(&m->host, reterr);
        /* Runs without a network need none of this, and a host that cannot do it still has those. */
        if (r >= 0)
                (void) loopback_filter_confine_self(m->host.cgroup_root_unified, &m->no_walls);
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
        manager_write_refusals(m);
        while (m->runs) {
                Run *r = m->runs;

                run_tripwires_flush(r);
                unlink_run(m, r);
                run_free(r);
        }
        for (size_t i = 0; i < RECENT_MAX; i++)
                run_free(m->recent[i]);
        while (m->doctors)
                broker_doctor_free(m->doctors);
        sd_event_source_disable_unref(m->idle);
        sd_event_source_disable_unref(m->confirmer);
        sd_event_source_disable_unref(m->sampler);
        sd_event_source_disable_unref(m->looker);
        sd_event_source_disable_unref(m->reconnect);
        sd_event_source_disable_unref(m->beginner);
        sd_event_source_disable_unref(m->impatience);
        sd_event_source_disable_unref(m->wall_maker);
        sd_event_source_disable_unref(m->wall_timer);
        sd_event_source_disable_unref(m->refusal_counter);
        boots_reader_free(m->boots);
        manager_close_tripwires(m);
        broker_unit_disconnect(&m->pid1);
        sd_bus_flush_close_unref(m->bus);
        audit_reader_close(m->audit);
        filter_cache_done(&m->filters);
        host_facts_done(&m->host);
        closep(&m->runtime_fd);
        closep(&m->loopback_filter_fd);
        closep(&m->probe_fd);
        wall_done(&m->spare_wall);
        error_free(m->no_walls);
        free(m->probe_name);
        sd_event_unref(m->event);
        *m = MANAGER_NONE;
}
