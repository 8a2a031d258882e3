/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <syslog.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include "base/escape.h"
#include "base/io.h"
#include "broker/run.h"
#include "broker/tripwire.h"
#include "policy/unit-props.h"

#define STORE_NAME "all"
/* So many opens are answered in so long a time, of all runs together; who opens in a loop waits, not the broker. */
#define WINDOW_USEC UINT64_C(10000)
#define WINDOW_EVENTS TRIPWIRE_BATCH
#define COMM_SIZE 64u

void run_tripwires_done(RunTripwires *t)
{
        decoys_done(&t->decoys);
        t->freeze_slot = sd_bus_slot_unref(t->freeze_slot);
        t->thaw_slot = sd_bus_slot_unref(t->thaw_slot);
        t->thaw_call = sd_bus_message_unref(t->thaw_call);
}

/* ---- what is done about it */

static int on_frozen(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        Run *r = userdata;
        const sd_bus_error *e = sd_bus_message_get_error(m);

        r->tripwires.freeze_slot = sd_bus_slot_unref(r->tripwires.freeze_slot);
        if (r->unit_over || (!e && unit_status_set_frozen(&r->status, true) >= 0))
                return 0;
        sd_journal_print(LOG_ERR, "Run %s cannot be frozen (%s) and is killed", r->id, !e ? "out of memory" : e->message ?: e->name);
        run_kill(r, KILL_TRIPWIRE);
        return 0;
}

static void act(Run *r)
{
        RunTripwires *t = &r->tripwires;

        if (r->phase < RUN_LAUNCHED || r->phase >= RUN_ENDING || r->unit_over)
                return;
        if (t->action == ON_TRIPWIRE_KILL && !t->killed) {
                t->killed = true;
                run_kill(r, KILL_TRIPWIRE);
        } else if (t->action == ON_TRIPWIRE_FREEZE && !t->freeze_slot && !unit_status_is_frozen(&r->status) &&
                        broker_unit_freeze(r->manager->pid1.bus, r->unit, on_frozen, r, &t->freeze_slot) < 0)
                run_kill(r, KILL_TRIPWIRE);
}

/* PID 1's answer is the caller's. */
static int on_thawed(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        Run *r = userdata;
        RunTripwires *t = &r->tripwires;
        _cleanup_message_ sd_bus_message *call = TAKE_PTR(t->thaw_call);
        const sd_bus_error *e = sd_bus_message_get_error(m);

        t->thaw_slot = sd_bus_slot_unref(t->thaw_slot);
        if (e)
                return sd_bus_reply_method_error(call, e);
        if (unit_status_set_frozen(&r->status, false) < 0)
                return sd_bus_reply_method_errno(call, -ENOMEM, NULL);
        return sd_bus_reply_method_return(call, NULL);
}

int run_tripwires_thaw(Run *r, sd_bus_message *call)
{
        RunTripwires *t = &r->tripwires;
        int k = t->thaw_slot ? -EALREADY : broker_unit_thaw(r->manager->pid1.bus, r->unit, on_thawed, r, &t->thaw_slot);

        if (k >= 0)
                t->thaw_call = sd_bus_message_ref(call);
        return k;
}

/* ---- records */

static void write_record(Run *r, const char *reason, const char *message, const TripwireWho *who)
{
        AuditSubject subject = run_subject(r);
        int k = audit_write(AUDIT_TRIPWIRE, &subject,
                        &(AuditDetail){
                                        .message = message ?: "Tripwire",
                                        .reason = reason,
                                        .action = policy_on_tripwire_names[r->tripwires.action],
                                        .decoy = who && streq(reason, "decoy") ? decoy_rows[who->row].path : NULL,
                                        .pid = who ? (uint64_t) who->pid : 0,
                                        .comm = who && *who->comm ? who->comm : NULL,
                                        .count = who ? who->count : 0,
                        });

        if (k < 0)
                sd_journal_print(LOG_ERR, "A tripwire of run %s cannot be put on record: %s", r->id, strerror(-k));
}

static void write_decoy(Run *r, const TripwireWho *who)
{
        _cleanup_free_ char *shown = escape_for_display(who->comm, strlen(who->comm), TRIPWIRE_COMM_MAX), *by = NULL,
                            *message = NULL;

        if (who->pid > 0 && asprintf(&by, " by %s (pid %i)", shown && *shown ? shown : "a process", (int) who->pid) < 0)
                by = NULL;
        if (asprintf(&message, "Run %s: the decoy %s was opened%s%s", r->id, decoy_rows[who->row].path, by ?: "",
                            who->count > 1 ? ", again and again" : "") < 0)
                message = NULL;
        write_record(r, "decoy", message, who);
}

/* The warden counts before the sandbox learns of a verdict. */
static void flush_metadata(Run *r)
{
        RunTripwires *t = &r->tripwires;
        _cleanup_free_ char *message = NULL;
        EgressTally tally;
        TripwireWho who = {};

        if (!run_warden_read_tally(r, &tally) || tally.metadata <= t->metadata_on_record)
                return;
        who.count = tally.metadata - t->metadata_on_record;
        t->metadata_on_record = tally.metadata;
        if (asprintf(&message, "Run %s: %llu attempt%s to reach a metadata service", r->id,
                            (unsigned long long) who.count, who.count == 1 ? "" : "s") < 0)
                message = NULL;
        write_record(r, "metadata", message, &who);
        /* The next broker must not count them again. */
        if (r->phase == RUN_RUNNING)
                (void) run_write_state(r, STATE_RUNNING);
        act(r);
}

void run_tripwires_flush(Run *r)
{
        TripwireWho who;

        while (tripwire_take(&r->tripwires.counts, &who))
                write_decoy(r, &who);
        flush_metadata(r);
}

uint64_t run_tripwires_total(const Run *r)
{
        if (r->tripwires.decoys.n == 0 && !r->warden)
                return UINT64_MAX;
        return r->tripwires.counts.total + r->tripwires.metadata_on_record;
}

/* ---- an open */

/* Of the run whose process it is: the file system of one that has just ended may have given its number to another's. */
static Run *find_decoy(const Manager *m, const struct stat *st, pid_t pid, size_t *ret_row)
{
        for (Run *r = m->runs; r; r = r->next)
                for (size_t i = 0; i < r->tripwires.decoys.n; i++) {
                        const Decoy *d = r->tripwires.decoys.l + i;

                        if (d->device == st->st_dev && d->inode == st->st_ino &&
                                        run_cgroup_has(&m->host, r->status.control_group, pid)) {
                                *ret_row = d->row;
                                return r;
                        }
                }
        return NULL;
}

/* It waits to be answered, so it is who it was; unless it was killed meanwhile, and then the number may be another's. */
static void read_comm(const Manager *m, const TripwireEvent *e, char ret[COMM_SIZE])
{
        struct pollfd p = { .fd = e->pidfd, .events = POLLIN };
        _cleanup_free_ char *text = NULL;
        char path[64];

        *ret = 0;
        snprintf(path, sizeof(path), "%s/%i/comm", m->host.proc ?: "/proc", (int) e->pid);
        if (e->pidfd < 0 || read_file(path, COMM_SIZE - 1, &text, NULL) < 0 || poll(&p, 1, 0) != 0)
                return;
        if (*text && text[strlen(text) - 1] == '\n')
                text[strlen(text) - 1] = 0;
        snprintf(ret, COMM_SIZE, "%s", text);
}

/* Whether it may go on. A process of the host is none of the run's, and the file is worth nothing. */
static bool take_event(Manager *m, const TripwireEvent *e)
{
        char comm[COMM_SIZE];
        struct stat st;
        size_t row;
        Run *r = fstat(e->fd, &st) < 0 ? NULL : find_decoy(m, &st, e->pid, &row);

        if (!r)
                return true;
        read_comm(m, e, comm);
        if (tripwire_count(&r->tripwires.counts, row, e->pid, comm)) {
                TripwireWho who = { .row = row, .pid = e->pid, .count = 1 };

                snprintf(who.comm, sizeof(who.comm), "%s", comm);
                write_decoy(r, &who);
        }
        act(r);
        return r->tripwires.action != ON_TRIPWIRE_KILL;
}

/* The kernel let opens through without telling whose: every run with decoys may be meant. */
static void on_lost(Manager *m)
{
        for (Run *r = m->runs; r; r = r->next)
                if (r->tripwires.decoys.n > 0 && r->phase >= RUN_LAUNCHED && r->phase < RUN_ENDING) {
                        write_record(r, "overflow", "More decoys were opened at once than the kernel tells of", NULL);
                        act(r);
                }
}

static int on_window_over(sd_event_source *source, uint64_t usec, void *userdata)
{
        Manager *m = userdata;

        return sd_event_source_set_enabled(m->tripwire_source, SD_EVENT_ON) < 0 ? -EIO : 0;
}

/* A new window, or the end of this one's opens. */
static void spend(Manager *m, unsigned n)
{
        uint64_t now = now_monotonic();

        if (now - m->tripwire_since >= WINDOW_USEC) {
                m->tripwire_since = now;
                m->n_tripwires = 0;
        }
        m->n_tripwires += n;
        if (m->n_tripwires < WINDOW_EVENTS)
                return;
        if (sd_event_source_set_time_relative(m->tripwire_timer, WINDOW_USEC) >= 0 &&
                        sd_event_source_set_enabled(m->tripwire_timer, SD_EVENT_ONESHOT) >= 0)
                (void) sd_event_source_set_enabled(m->tripwire_source, SD_EVENT_OFF);
}

static int on_opened(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Manager *m = userdata;
        TripwireEvent events[TRIPWIRE_BATCH];
        int n = tripwire_read(fd, events);

        /* What could not be read, the kernel has refused to who asked. */
        if (n < 0) {
                sd_journal_print(LOG_ERR, "The opening of a decoy cannot be read: %s", strerror(-n));
                on_lost(m);
        }
        for (int i = 0; i < n; i++) {
                if (events[i].fd < 0)
                        on_lost(m);
                else
                        tripwire_answer(fd, events + i, take_event(m, events + i));
                tripwire_event_done(events + i);
        }
        spend(m, n < 0 ? WINDOW_EVENTS : (unsigned) n);
        return 0;
}

/* ---- the group */

static int add_sources(Manager *m)
{
        int r = sd_event_add_io(m->event, &m->tripwire_source, m->tripwire_fd, POLLIN, on_opened, m);

        if (r >= 0)
                r = sd_event_add_time_relative(m->event, &m->tripwire_timer, CLOCK_MONOTONIC, WINDOW_USEC, WINDOW_USEC / 10,
                                on_window_over, m);
        return r < 0 ? r : sd_event_source_set_enabled(m->tripwire_timer, SD_EVENT_OFF);
}

static int open_group(Manager *m, Error **reterr)
{
        int r;

        if (m->tripwire_fd >= 0)
                return 0;
        r = tripwire_open();
        if (r < 0)
                return error_set(reterr, r, "Decoys=yes: the kernel does not tell who opens a file (fanotify): %s",
                                strerror(-r));
        m->tripwire_fd = r;
        r = add_sources(m);
        if (r >= 0)
                r = fd_store_put(FD_STORE_TRIPWIRES, STORE_NAME, &m->tripwire_fd, 1);
        if (r >= 0)
                return 0;
        manager_close_tripwires(m);
        return error_set(reterr, r, "cannot watch decoys: %s", strerror(-r));
}

void manager_take_tripwires(Manager *m)
{
        m->tripwire_fd = fd_store_take(&m->stored, FD_STORE_TRIPWIRES, STORE_NAME);
        if (m->tripwire_fd >= 0)
                tripwire_deny_all_read(m->tripwire_fd);
        if (m->tripwire_fd >= 0 && add_sources(m) < 0)
                manager_close_tripwires(m);
}

void manager_close_tripwires(Manager *m)
{
        m->tripwire_source = sd_event_source_disable_unref(m->tripwire_source);
        m->tripwire_timer = sd_event_source_disable_unref(m->tripwire_timer);
        closep(&m->tripwire_fd);
        m->tripwire_fd = -1;
}

void manager_release_tripwires(Manager *m)
{
        if (m->tripwire_fd < 0)
                return;
        for (const Run *r = m->runs; r; r = r->next)
                if (r->tripwires.decoys.n > 0)
                        return;
        manager_close_tripwires(m);
        fd_store_drop(FD_STORE_TRIPWIRES, STORE_NAME);
}

/* ---- a run's */

/* In the run's mount namespace. */
static int open_home(const Run *r, int *ret_root_fd)
{
        _cleanup_close_ int root_fd = -1, home_fd = -1;
        struct statfs fs;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%i/root", (int) r->peer.pid);
        root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root_fd < 0)
                return -errno;
        home_fd = open_resolved(root_fd, UNIT_HOME, O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
                        RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
        if (home_fd < 0)
                return home_fd;
        /* Nothing of it is verified yet. A drop-in may have made this a directory of the host. */
        if (fstatfs(home_fd, &fs) < 0)
                return -errno;
        if (fs.f_type != TMPFS_MAGIC)
                return -EMEDIUMTYPE;
        *ret_root_fd = TAKE_FD(root_fd);
        return TAKE_FD(home_fd);
}

int run_tripwires_plant(Run *r, Error **reterr)
{
        _cleanup_close_ int home_fd = -1, inside_fd = -1, root_fd = -1;
        int k;

        r->tripwires.action = policy_u64(r->policy, AUDIT_ON_TRIPWIRE);
        if (!policy_u64(r->policy, AUDIT_DECOYS))
                return 0;
        /* Of a process whose first thread has ended, only this hierarchy still tells whose it is. */
        if (!r->manager->host.cgroup_root_unified)
                return error_set(reterr, -EOPNOTSUPP, "Decoys=yes: who opens one can be told only where there is a cgroup2 hierarchy");
        k = open_group(r->manager, reterr);
        if (k < 0)
                return k;
        home_fd = open_home(r, &inside_fd);
        if (home_fd < 0)
                return error_set(reterr, home_fd, "cannot open the run's home directory: %s", strerror(-home_fd));
        root_fd = open(r->root.directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (root_fd < 0)
                return error_set(reterr, -errno, "cannot open %s: %m", r->root.directory);
        return decoys_plant(home_fd, root_fd, r->peer.uid, r->peer.gid, r->manager->tripwire_fd, &r->tripwires.decoys,
                        reterr);
}

/* Where it was put, if it is there still; what stands there otherwise is the run's own. */
static void mark_again(Run *r, int inside_fd, const Decoy *d)
{
        _cleanup_close_ int fd = open_resolved(inside_fd, decoy_rows[d->row].path, O_PATH | O_NOFOLLOW,
                        RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
        struct stat st;

        if (fd >= 0 && fstat(fd, &st) >= 0 && st.st_dev == d->device && st.st_ino == d->inode)
                (void) tripwire_mark(r->manager->tripwire_fd, fd);
}

void run_tripwires_adopt(Run *r)
{
        _cleanup_close_ int home_fd = -1, inside_fd = -1;
        bool was_watched = r->manager->tripwire_fd >= 0;

        if (r->tripwires.decoys.n == 0)
                return;
        if (!was_watched && open_group(r->manager, NULL) >= 0)
                home_fd = open_home(r, &inside_fd);
        for (size_t i = 0; inside_fd >= 0 && i < r->tripwires.decoys.n; i++)
                mark_again(r, inside_fd, r->tripwires.decoys.l + i);
        if (!was_watched)
                write_record(r, "not-watched",
                                "For a while no broker watched the decoys of the run, and whoever opened one then is on no record",
                                NULL);
}
