/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <syslog.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include "base/escape.h"
#include "broker/fd-store.h"
#include "broker/run.h"
#include "policy/filter-compile.h"
#include "wire/bus-iface.h"

/* A run's warden from its start on: that it lives, how it ends, what it has counted. */

/* PID 1 gives it 3 s (warden-props.c); then it is killed once more, from here. */
#define END_USEC (3500u * 1000u)
#define KILL_USEC (1000u * 1000u)
/* systemd's own exit statuses begin at the first of these. */
#define EXIT_OF_PID_1 200
#define EXIT_EXEC 203

bool warden_unit_run_id(const char *unit, char ret[WARDEN_RUN_ID_LENGTH + 1])
{
        const char *rest = startswith(unit, WARDEN_UNIT_PREFIX);
        char id[WARDEN_RUN_ID_LENGTH + 1] = "";

        if (!rest || strlen(rest) != WARDEN_RUN_ID_LENGTH + strlen(".service") ||
                        !streq(rest + WARDEN_RUN_ID_LENGTH, ".service"))
                return false;
        memcpy(id, rest, WARDEN_RUN_ID_LENGTH);
        if (!run_id_is_valid(id))
                return false;
        memcpy(ret, id, sizeof(id));
        return true;
}

/* ---- its end */

char *run_warden_death(const Run *r)
{
        const UnitStatus *s = &r->warden->status;
        char *text;
        int k;

        if (r->warden->lied)
                k = asprintf(&text, "it claimed more records than it can have sent");
        else if (s->result && streq(s->result, "watchdog"))
                k = asprintf(&text, "it did not answer any more");
        else if (s->result && streq(s->result, "oom-kill"))
                k = asprintf(&text, "it was out of memory");
        else if (s->exec_main_code == CLD_EXITED)
                k = asprintf(&text, "it exited with status %i", s->exec_main_status);
        else if (s->exec_main_code == CLD_KILLED || s->exec_main_code == CLD_DUMPED)
                k = asprintf(&text, "it was killed by signal %i", s->exec_main_status);
        else if (s->result && !streq(s->result, "success"))
                k = asprintf(&text, "PID 1 calls it \"%s\"", s->result);
        else
                k = asprintf(&text, "nobody saw how");
        return k < 0 ? NULL : text;
}

KillReason run_warden_death_reason(const Run *r)
{
        const UnitStatus *s = &r->warden->status;

        return s->exec_main_code == CLD_EXITED && s->exec_main_status == WARDEN_EXIT_FATAL_CALL ? KILL_CALL : KILL_WARDEN;
}

/* The warden's word, as a name that there is. */
char *run_warden_fatal_call(const Run *r)
{
        EgressTally t;

        return run_warden_read_tally(r, &t) && t.counts_calls && t.fatal > 0 ? filter_recorded_name(t.fatal - 1) : NULL;
}

/* PID 1's own exit statuses, for what it could not do. */
static const char *start_text(int exec_main_status)
{
        if (exec_main_status == EXIT_EXEC)
                return "PID 1 could not execute it (is agentbox-warden installed, and beneath /usr?)";
        return exec_main_status >= EXIT_OF_PID_1 ? start_failure_text(exec_main_status) : "";
}

static void on_over(Run *r)
{
        RunWarden *w = r->warden;
        _cleanup_free_ char *death = NULL;
        const char *why;

        if (w->is_over)
                return;
        w->is_over = true;
        run_mark(r, MARK_WARDEN_OVER);
        w->deadline = sd_event_source_disable_unref(w->deadline);
        if (r->phase == RUN_STARTING) {
                death = run_warden_death(r);
                why = start_text(w->status.exec_main_status);
                run_refuse(r, AGENTBOX_ERROR_START_FAILED, "the run's warden ended while it started: %s%s%s",
                                death ?: "?", *why ? ": " : "", why);
        } else if (r->unit_over) {
                if (r->phase == RUN_ENDING)
                        run_end(r);
        } else
                /* PID 1 stops what is bound to it, and asks politely. */
                run_kill(r, run_warden_death_reason(r));
}

/* Where it is over, r may be gone afterwards, and its warden with it. */
static bool on_status(Run *r)
{
        RunWarden *w = r->warden;
        const UnitStatus *s = &w->status;
        bool is_over;

        if (s->active_state && !streq(s->active_state, "inactive"))
                w->was_up = true;
        is_over = w->was_up && unit_status_is_over(s);
        if (is_over)
                on_over(r);
        /* Its helpers may still be on their way out. PID 1 ends the run from now on, and why must be known before that. */
        else if (s->exec_main_code != 0 && r->phase > RUN_STARTING && !r->unit_over && !w->is_ending)
                run_kill(r, run_warden_death_reason(r));
        return is_over;
}

void run_warden_on_changed(Run *r, sd_bus_message *body)
{
        if (!r->warden->is_over && unit_status_read_changed(&r->warden->status, body) >= 0)
                (void) on_status(r);
}

void run_warden_on_job_removed(Run *r, const char *result)
{
        RunWarden *w = r->warden;

        if (w->is_over)
                return;
        w->was_up = true;
        if (!unit_status_is_over(&w->status) && r->phase == RUN_STARTING && !streq(result, "done"))
                run_refuse(r, AGENTBOX_ERROR_START_FAILED,
                                "PID 1's start of the warden's unit ended with \"%s\"", result);
        else
                (void) on_status(r);
}

static int on_checked(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        Run *r = userdata;
        RunWarden *w = r->warden;

        w->check_slot = sd_bus_slot_unref(w->check_slot);
        if (w->is_over)
                return 0;
        if (!sd_bus_message_is_method_error(m, NULL) && unit_status_read_reply(&w->status, m) >= 0 &&
                        on_status(r))
                return 0;
        if (*w->suspicion && r->phase == RUN_STARTING)
                run_refuse(r, AGENTBOX_ERROR_START_FAILED,
                                "PID 1's start of the run's unit ended with \"%s\", and its warden's unit is %s",
                                w->suspicion, w->status.active_state ?: "not known");
        return 0;
}

/* As of every unit: see on_removed() in run-events.c. */
void run_warden_on_removed(Run *r)
{
        RunWarden *w = r->warden;

        if (w->is_over || w->check_slot)
                return;
        if (broker_unit_get_all(r->manager->pid1.bus, w->unit, on_checked, r, &w->check_slot) < 0)
                on_over(r);
}

bool run_warden_suspect(Run *r, const char *result)
{
        RunWarden *w = r->warden;

        if (!w || w->is_over)
                return false;
        w->was_up = true;
        snprintf(w->suspicion, sizeof(w->suspicion), "%s", result);
        return w->check_slot ||
               broker_unit_get_all(r->manager->pid1.bus, w->unit, on_checked, r, &w->check_slot) >= 0;
}

static int ask_now(Run *r)
{
        RunWarden *w = r->warden;
        _cleanup_message_ sd_bus_message *reply = NULL;
        int k = broker_unit_get_all_now(r->manager->pid1.bus, w->unit, &reply);

        w->check_slot = sd_bus_slot_unref(w->check_slot);
        return k < 0 ? k : unit_status_read_reply(&w->status, reply);
}

void run_warden_catch_up(Run *r)
{
        RunWarden *w = r->warden;

        if (!w || w->is_over || ask_now(r) < 0)
                return;
        w->was_up = true;
        if (w->is_ending && !unit_status_is_over(&w->status))
                (void) broker_unit_stop(r->manager->pid1.bus, w->unit);
        (void) on_status(r);
}

int run_warden_adopt(Run *r, bool has_unit)
{
        RunWarden *w = r->warden = run_warden_new(r->id);

        if (!w)
                return -ENOMEM;
        w->tally_fd = openat(r->dir_fd, WARDEN_TALLY_FILE, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        w->listener_fd = fd_store_take(&r->manager->stored, FD_STORE_LISTENER, r->id);
        if (!has_unit || ask_now(r) < 0)
                return 0;
        w->was_up = true;
        w->is_over = unit_status_is_over(&w->status);
        return 0;
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
        Run *r = userdata;
        RunWarden *w = r->warden;

        (void) broker_unit_kill(r->manager->pid1.bus, w->unit, SIGKILL);
        if (w->n_deadlines++ == 0 && sd_event_source_set_time_relative(source, KILL_USEC) >= 0 &&
                        sd_event_source_set_enabled(source, SD_EVENT_ONESHOT) >= 0)
                return 0;
        sd_journal_print(LOG_ERR, "%s cannot be ended", w->unit);
        on_over(r);
        return 0;
}

void run_warden_end(Run *r)
{
        RunWarden *w = r->warden;

        if (!w || w->is_over || w->is_ending)
                return;
        w->is_ending = true;
        /* No listener comes any more: its witness need not wait for one, nor the warden for its witness. */
        closep(&w->calls_fd);
        w->calls_fd = -1;
        /* PID 1 does the same by itself, for nothing else needs it. */
        (void) broker_unit_stop(r->manager->pid1.bus, w->unit);
        if (sd_event_add_time_relative(r->manager->event, &w->deadline, CLOCK_MONOTONIC, END_USEC, 0,
                            on_deadline, r) < 0)
                w->is_over = true;
        manager_arm_looker(r->manager);
}

bool run_warden_is_over(const Run *r)
{
        return !r->warden || r->warden->is_over;
}

void run_warden_let_go(Run *r)
{
        if (r->warden && r->warden->listener_fd >= 0)
                fd_store_drop(FD_STORE_LISTENER, r->id);
}

/* ---- what it has counted */

/* Copied, never mapped: the warden can change the file, and could cut it short. */
bool run_warden_read_tally(const Run *r, EgressTally *ret)
{
        EgressTally t;

        if (!r->warden || r->warden->tally_fd < 0 ||
                        pread(r->warden->tally_fd, &t, sizeof(t), 0) != sizeof(t))
                return false;
        memcpy(ret, &t, sizeof(t));
        return true;
}

static int add_destinations(const EgressTally *t, char ***list)
{
        uint32_t n = MIN2(t->n_top, EGRESS_TALLY_TOP);

        for (uint32_t i = 0; i < n; i++) {
                char *shown = escape_for_display(
                                t->top[i], strnlen(t->top[i], EGRESS_TALLY_TEXT), EGRESS_TALLY_TEXT);
                int k = !shown ? -ENOMEM : strv_push(list, shown);

                if (k < 0)
                        return k;
        }
        return 0;
}

void run_warden_count(Run *r)
{
        RunResult *result = &r->result;
        EgressTally t;

        if (!run_warden_read_tally(r, &t))
                return;
        result->egress_bytes = t.bytes_sent;
        result->ingress_bytes = t.bytes_received;
        result->egress_allowed = t.allowed;
        result->egress_denied = t.denied;
        if (t.counts_calls)
                result->syscalls_denied = t.calls_denied;
        (void) add_destinations(&t, &result->egress_denied_to);
}
