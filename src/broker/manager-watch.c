/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <syslog.h>
#include <systemd/sd-daemon.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include "broker/broker-boots.h"
#include "broker/manager.h"
#include "broker/run.h"
#include "wire/bus-iface.h"

/* What the manager does when it is time to: for all runs at once, not one timer for each. */

#define USEC_PER_MSEC 1000u
#define USEC_PER_SEC 1000000u
#define RECONNECT_USEC (200u * USEC_PER_MSEC)
#define WALL_USEC (300u * USEC_PER_MSEC)
#define RENEW_AFTER 3u /* looks in vain: before a warden takes it for a loss (warden-journal.c) */
#define PATIENCE_USEC (20u * USEC_PER_MSEC)

/* ---- the queue of those that have not begun */

static Run *first_queued(const Manager *m)
{
        Run *first = NULL;

        for (Run *r = m->runs; r; r = r->next) /* newest first */
                if (r->queued)
                        first = r;
        return first;
}

/* Not while PID 1 is away (it executes itself anew); and not more at once than can come up in time: what a
 * start costs is the work of the processors, and a hundred starts side by side would all run into their time
 * limit. */
static bool may_begin(const Manager *m)
{
        unsigned n = 0;

        /* A scope's process is its caller's, who may keep it from ever answering. */
        for (const Run *r = m->runs; r; r = r->next)
                n += r->phase == RUN_STARTING && !r->scope_started;
        return m->pid1.bus && n < STARTS_MAX;
}

static void begin_first(Manager *m)
{
        Run *r = may_begin(m) ? first_queued(m) : NULL;

        if (r) {
                r->queued = false;
                run_begin(r);
        }
}

static void arm_beginner(Manager *m)
{
        if (!may_begin(m) || !first_queued(m))
                return;
        (void) sd_event_source_set_enabled(m->beginner, SD_EVENT_ONESHOT);
        if (sd_event_source_set_time_relative(m->impatience, PATIENCE_USEC) >= 0)
                (void) sd_event_source_set_enabled(m->impatience, SD_EVENT_ONESHOT);
}

static int on_beginner(sd_event_source *source, void *userdata)
{
        Manager *m = userdata;

        begin_first(m);
        arm_beginner(m);
        return 0;
}

/* Somebody calls faster than the calls can be taken, so that there is never nothing else to do. */
static int on_impatience(sd_event_source *source, uint64_t usec, void *userdata)
{
        return on_beginner(source, userdata);
}

void manager_queue(Manager *m, Run *run)
{
        bool is_first = !first_queued(m);

        run->queued = true;
        if (is_first)
                arm_beginner(m);
}

void manager_on_started(Manager *m)
{
        arm_beginner(m);
}

/* ---- idle */

/* PID 1 learns it first, so that a call from now on starts a new broker after this one; then the name is
 * given back; then calls that came in between are answered (Run with ShuttingDown). */
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

        if (m->runs || m->questions || m->doctors || boots_are_being_settled(m)) {
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
                run_refuse(r, AGENTBOX_ERROR_NO_JOURNAL, "the journal cannot be read back: %s",
                                strerror(-k));
        else if (time > r->confirm_until)
                run_refuse(r, AGENTBOX_ERROR_NO_JOURNAL,
                                "the request did not arrive in the journal, and without a record nothing "
                                "runs: is "
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
                        soonest = MIN2(soonest, audit_look_again(now_monotonic() - r->marks[MARK_CALLED]));
        if (soonest == UINT64_MAX || sd_event_source_set_time_relative(m->confirmer, soonest) < 0)
                return;
        (void) sd_event_source_set_enabled(m->confirmer, SD_EVENT_ONESHOT);
}

/* ---- usage */

/* Where the kernel kills one process for memory and not the group (cgroup v1), the rest of the run is ended
 * here. */
static int on_sampler(sd_event_source *source, uint64_t usec, void *userdata)
{
        Manager *m = userdata;

        for (Run *r = m->runs; r; r = r->next) {
                if (r->phase != RUN_RUNNING)
                        continue;
                run_usage_sample(&r->usage);
                run_tripwires_flush(r);
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
        if (sd_event_source_set_time_relative(
                            m->sampler, m->host.cgroup_root_memory ? USEC_PER_SEC / 5 : USEC_PER_SEC) >= 0)
                (void) sd_event_source_set_enabled(m->sampler, SD_EVENT_ONESHOT);
}

/* ---- what arrives of the records of wardens */

/* Where nothing comes any more it may be this reader that does not see it: of what is mounted over the journal's directory it hears
 * nothing. One that is opened now sees what there is now. */
static void renew_reader(Manager *m)
{
        AuditReader *a;

        if (audit_reader_open(&a, NULL) < 0)
                return;
        audit_reader_close(m->audit);
        m->audit = a;
}

static int on_looker(sd_event_source *source, uint64_t usec, void *userdata)
{
        Manager *m = userdata;
        bool stands = false;

        for (Run *r = m->runs; r; r = r->next)
                stands = run_warden_look(r) || stands;
        m->n_looks_in_vain = stands ? m->n_looks_in_vain + 1 : 0;
        if (m->n_looks_in_vain % RENEW_AFTER == RENEW_AFTER - 1)
                renew_reader(m);
        manager_arm_looker(m);
        return 0;
}

void manager_arm_looker(Manager *m)
{
        bool wanted = false, in_a_hurry = false;
        int enabled;

        for (const Run *r = m->runs; r; r = r->next) {
                wanted = wanted || run_warden_is_watched(r);
                in_a_hurry = in_a_hurry || (run_warden_is_watched(r) && r->warden->is_ending);
        }
        if (!wanted || sd_event_source_get_enabled(m->looker, &enabled) < 0 || (enabled != SD_EVENT_OFF && !in_a_hurry))
                return;
        if (sd_event_source_set_time_relative(m->looker, in_a_hurry ? LOOK_AT_END_USEC : LOOK_USEC) >= 0)
                (void) sd_event_source_set_enabled(m->looker, SD_EVENT_ONESHOT);
}

/* ---- PID 1 */

/* What PID 1 would have told us in the meantime, and what it was not told. */
static void catch_up(Run *r)
{
        _cleanup_message_ sd_bus_message *reply = NULL;
        int k;

        if (r->unit_over) {
                run_end_again(r);
                return;
        }
        k = broker_unit_get_all_now(r->manager->pid1.bus, r->unit, &reply);
        if (k >= 0)
                k = unit_status_read_reply(&r->status, reply);
        r->check_slot = sd_bus_slot_unref(r->check_slot);
        r->was_up = r->was_up || k >= 0;
        if (r->phase < RUN_RUNNING) {
                r->unit_over = k >= 0 && unit_status_is_over(&r->status);
                run_refuse(r, AGENTBOX_ERROR_START_FAILED,
                                "PID 1 restarted itself during the start: try again");
                return;
        }
        if (k < 0)
                return;
        if (!unit_status_is_over(&r->status))
                run_end_again(r);
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
                char unit[sizeof(r->unit)];

                next = r->next;
                strcpy(unit, r->unit);
                if (r->phase > RUN_ASKING)
                        catch_up(r);
                if (manager_by_unit(m, unit) == r) /* r may be gone */
                        run_warden_catch_up(r);
        }
        arm_beginner(m);
        return 0;
}

void manager_reconnect(Manager *m)
{
        broker_unit_disconnect(&m->pid1);
        if (sd_event_source_set_time_relative(m->reconnect, RECONNECT_USEC) >= 0)
                (void) sd_event_source_set_enabled(m->reconnect, SD_EVENT_ONESHOT);
}

/* ---- the prepared wall */

static int on_wall_maker(sd_event_source *source, void *userdata)
{
        Manager *m = userdata;

        /* Whoever needs one and finds none makes it, and has the error. */
        if (m->spare_wall.netns_fd < 0 && !m->no_walls)
                (void) wall_create(&m->spare_wall, NULL);
        return 0;
}

static int on_wall_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
        manager_want_wall(userdata);
        return 0;
}

/* Only for a broker that has made one before: many never need any. */
void manager_want_wall(Manager *m)
{
        if (m->walls_are_used)
                (void) sd_event_source_set_enabled(m->wall_maker, SD_EVENT_ONESHOT);
}

int manager_take_wall(Manager *m, Wall *ret, Error **reterr)
{
        if (m->no_walls)
                return error_set(reterr, m->no_walls->code, "%s", m->no_walls->message);
        /* Not now, beside the start that needs this one; and not only after its end. */
        m->walls_are_used = true;
        if (sd_event_source_set_time_relative(m->wall_timer, WALL_USEC) >= 0)
                (void) sd_event_source_set_enabled(m->wall_timer, SD_EVENT_ONESHOT);
        if (m->spare_wall.netns_fd < 0)
                return wall_create(ret, reterr);
        *ret = m->spare_wall;
        m->spare_wall = WALL_NONE;
        return 0;
}

/* ---- refusals without a record */

static void write_refusals(uid_t uid, uint64_t n)
{
        _cleanup_free_ char *message = NULL;

        if (asprintf(&message, "%" PRIu64 " more requests of uid %u refused", n, uid) < 0)
                message = NULL;
        (void) audit_write(AUDIT_RUN_REFUSED, &(AuditSubject){ .caller_uid = uid },
                        &(AuditDetail){ .message = message ?: "More requests refused",
                                        .reason = "too many of this user's were refused for each to have its record",
                                        .count = n });
}

void manager_write_refusals(Manager *m)
{
        uint64_t n;
        uid_t uid;

        while (refusal_budget_next(&m->refusals, &uid, &n))
                write_refusals(uid, n);
}

static int on_refusal_counter(sd_event_source *source, uint64_t usec, void *userdata)
{
        manager_write_refusals(userdata);
        return 0;
}

bool manager_record_refusal(Manager *m, const Run *run)
{
        int enabled;

        /* One that is on record as requested has its end there as well. */
        if (run->phase != RUN_ASKING || run->caller.uid == 0 ||
                        refusal_budget_take(&m->refusals, run->caller.uid, now_monotonic()))
                return true;
        if (sd_event_source_get_enabled(m->refusal_counter, &enabled) >= 0 && enabled == SD_EVENT_OFF &&
                        sd_event_source_set_time_relative(m->refusal_counter, USEC_PER_SEC) >= 0)
                (void) sd_event_source_set_enabled(m->refusal_counter, SD_EVENT_ONESHOT);
        return false;
}

/* ---- all of them */

static int add_timers(Manager *m)
{
        const struct {
                sd_event_source **source;
                sd_event_time_handler_t handler;
        } rows[] = {
                { &m->idle, on_idle },
                { &m->confirmer, on_confirmer },
                { &m->sampler, on_sampler },
                { &m->looker, on_looker },
                { &m->reconnect, on_reconnect },
                { &m->impatience, on_impatience },
                { &m->wall_timer, on_wall_timer },
                { &m->refusal_counter, on_refusal_counter },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                int r = sd_event_add_time_relative(m->event, rows[i].source, CLOCK_MONOTONIC, IDLE_USEC,
                                USEC_PER_MSEC / 2, rows[i].handler, m);

                if (r >= 0)
                        r = sd_event_source_set_enabled(*rows[i].source, SD_EVENT_OFF);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Work for when nothing else is to be done, the first rows first. */
static int add_defers(Manager *m)
{
        const struct {
                sd_event_source **source;
                sd_event_handler_t handler;
        } rows[] = {
                { &m->beginner, on_beginner },
                { &m->wall_maker, on_wall_maker },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                int r = sd_event_add_defer(m->event, rows[i].source, rows[i].handler, m);

                if (r >= 0)
                        r = sd_event_source_set_priority(*rows[i].source, SD_EVENT_PRIORITY_IDLE + (int) i);
                if (r >= 0)
                        r = sd_event_source_set_enabled(*rows[i].source, SD_EVENT_OFF);
                if (r < 0)
                        return r;
        }
        return 0;
}

int manager_add_watches(Manager *m)
{
        int r = add_timers(m);

        return r < 0 ? r : add_defers(m);
}
