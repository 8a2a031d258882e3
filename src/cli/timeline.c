/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cli/audit.h"
#include "cli/facts.h"
#include "cli/kernel-denial.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/timeline.h"

/* How many different denials are held back at most before they get their lines. */
enum { WINDOW_MAX = 512 };
/* Columns of what stands left, and what is left for the destination before the verdict is not aligned any
 * more. */
enum { CLOCK_WIDTH = 8, EVENT_WIDTH = 14, RUN_WIDTH = 10, WHAT_MIN = 8, WRAP_MIN = 30, WRAP_LINES = 6 };

/* Where the runs' names have to fit as well, everything else stands closer. */
typedef struct Columns {
        size_t gap, who, what;
} Columns;
enum { NARROW = 100 };

static Columns columns_of(const Timeline *t)
{
        return t->all_runs && t->width > 0 && t->width < NARROW ? (Columns){ 1, 8, 22 } : (Columns){ 2, 10, 28 };
}

/* One line before it is put together. */
typedef struct Line {
        uint64_t usec;
        const char *run, *event; /* as the record has them */
        Colour colour;
        char *who, *what, *verdict; /* safe to show */
} Line;

static void line_done(Line *l)
{
        free(l->who);
        free(l->what);
        free(l->verdict);
        *l = (Line){};
}
#define _cleanup_line_ _cleanup_(line_done)

void timeline_done(Timeline *t)
{
        egress_denials_done(&t->window);
        json_decref(t->calls);
        *t = (Timeline){};
}

static size_t columns(const char *s)
{
        size_t n = 0;

        for (; *s; s++)
                n += (*s & 0xc0) != 0x80;
        return n;
}

/* The first n columns of s, in bytes. */
static size_t bytes_of(const char *s, size_t n)
{
        size_t i = 0;

        for (; s[i]; i++)
                if ((s[i] & 0xc0) != 0x80 && n-- == 0)
                        break;
        return i;
}

/* s, with "…" where it is wider, padded where it is not. */
static void put(Buf *out, const char *s, size_t width)
{
        size_t n = columns(s);

        if (n > width)
                buf_printf(out, "%.*s…", (int) bytes_of(s, width - 1), s);
        else
                buf_printf(out, "%s%*s", s, (int) (width - n), "");
}

/* ---- putting a line together */

static void print_day(Timeline *t, const struct tm *tm, Buf *out)
{
        char day[sizeof(t->day)];

        if (strftime(day, sizeof(day), "%Y-%m-%d", tm) == 0 || streq(day, t->day))
                return;
        memcpy(t->day, day, sizeof(day));
        buf_printf(out, "%s%s%s\n", output_colour(COLOUR_BOLD), day, output_colour_end(COLOUR_BOLD));
}

/* A few lines of words, of one run. */
static bool may_wrap(const Timeline *t, const char *text, size_t used)
{
        size_t room = t->width > used ? t->width - used : 0;

        if (t->all_runs || room < WRAP_MIN || columns(text) > room * WRAP_LINES)
                return false;
        for (const char *word = text; *word; word += strspn(word, " ")) {
                size_t n = strcspn(word, " ");

                if (n > room)
                        return false;
                word += n;
        }
        return true;
}

/* What is too wide for the terminal loses of "what" first, which stands in the records in full. A text without a verdict, a
 * reason, is told to its end where only one run is looked at. */
static void print_rest(const Timeline *t, const Line *l, size_t used, Buf *out)
{
        const char *what = l->what ?: "", *verdict = l->verdict ?: "";
        size_t wanted = columns_of(t).what, behind = *verdict ? columns(verdict) + 2 : 0, room = columns(what);

        if (!*verdict && used + room > t->width && may_wrap(t, what, used)) {
                output_wrap_behind(out, what, used, t->width);
                return;
        }
        if (t->width > 0 && used + MAX2(room, *verdict ? wanted : 0) + behind > t->width)
                room = t->width > used + behind + WHAT_MIN ? MIN2(room, t->width - used - behind)
                                                           : MIN2(room, (size_t) WHAT_MIN);
        else if (*verdict)
                room = MAX2(room, wanted);
        put(out, what, room);
        if (!*verdict)
                return;
        used += room + 2;
        buf_printf(out, "  %s", output_colour(l->colour));
        put(out, verdict,
                        t->width > used && columns(verdict) > t->width - used ? t->width - used
                                                                              : columns(verdict));
        buf_printf(out, "%s", output_colour_end(l->colour));
}

/* The clock, and above it the day where it is a new one. */
static void print_clock(Timeline *t, uint64_t usec, Buf *line, Buf *out)
{
        time_t seconds = (time_t) (usec / 1000000);
        char clock[16] = "--:--:--";
        struct tm tm;

        if (usec > 0 && localtime_r(&seconds, &tm)) {
                print_day(t, &tm, out);
                strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
        }
        put(line, clock, CLOCK_WIDTH);
}

static int print_line(Timeline *t, const Line *l, Buf *out)
{
        const Columns c = columns_of(t);
        _cleanup_free_ char *event = message_clean(l->event), *run = message_clean(l->run ?: "-");
        _cleanup_buf_ Buf line = {};
        size_t used = CLOCK_WIDTH + c.gap + EVENT_WIDTH + c.gap + c.who + c.gap;

        if (!event || !run)
                return -ENOMEM;
        print_clock(t, l->usec, &line, out);
        if (t->all_runs) {
                buf_printf(&line, "%*s", (int) c.gap, "");
                put(&line, run, RUN_WIDTH);
                used += RUN_WIDTH + c.gap;
        }
        buf_printf(&line, "%*s%s", (int) c.gap, "", output_colour(l->colour));
        put(&line, event, EVENT_WIDTH);
        buf_printf(&line, "%s%*s", output_colour_end(l->colour), (int) c.gap, "");
        put(&line, l->who ?: "", c.who);
        buf_printf(&line, "%*s", (int) c.gap, "");
        print_rest(t, l, used, &line);
        if (line.error < 0)
                return line.error;
        while (line.size > 0 && strchr(" \n", line.data[line.size - 1]))
                line.size--;
        buf_append(out, line.data, line.size);
        buf_printf(out, "\n");
        return out->error;
}

/* ---- what is said of each event */

static char *clean(const char *s)
{
        return message_clean(s ?: "");
}

/* Of the user who asked, the name as this host has it now. */
static char *caller_of(const json_t *record)
{
        uint64_t uid = facts_text_u64(record, "AGENTBOX_CALLER_UID");
        _cleanup_free_ char *name = uid <= UINT32_MAX ? output_user(uid) : NULL;

        return uid > UINT32_MAX ? strdup("") : name ? clean(name) : NULL;
}

static char *size_or_unknown(uint64_t v)
{
        return v == UINT64_MAX ? strdup("?") : output_size(v);
}

/* "exited 1", "signal 9 (SIGKILL)", "timeout" */
static void say_end(const json_t *record, Buf *b)
{
        const char *reason = facts_string(record, "AGENTBOX_REASON") ?: "?";
        uint64_t code = facts_text_u64(record, "AGENTBOX_EXIT_CODE"), signal = facts_text_u64(record, "AGENTBOX_SIGNAL");
        _cleanup_free_ char *shown = clean(reason);

        if (streq(reason, "exited") && code != UINT64_MAX)
                buf_printf(b, "exited %llu", (unsigned long long) code);
        else if (streq(reason, "signal") && signal < NSIG && sigabbrev_np((int) signal))
                buf_printf(b, "signal %llu (SIG%s)", (unsigned long long) signal, sigabbrev_np((int) signal));
        else if (streq(reason, "signal") && signal != UINT64_MAX)
                buf_printf(b, "signal %llu", (unsigned long long) signal);
        else if (streq(reason, "oom"))
                buf_printf(b, "out of memory");
        else if (streq(reason, "output-limit"))
                buf_printf(b, "output limit");
        else
                buf_printf(b, "%s", shown ?: "?");
}

static char *end_of(const json_t *record)
{
        uint64_t wall = facts_text_u64(record, "AGENTBOX_WALL_USEC"), peak = facts_text_u64(record, "AGENTBOX_MEMORY_PEAK"),
                 sent = facts_text_u64(record, "AGENTBOX_EGRESS_BYTES"),
                 denied = facts_text_u64(record, "AGENTBOX_EGRESS_DENIED"),
                 calls = facts_text_u64(record, "AGENTBOX_SYSCALLS_DENIED");
        _cleanup_free_ char *time = wall == UINT64_MAX ? NULL : output_duration(wall),
                            *memory = peak == UINT64_MAX ? NULL : output_size(peak),
                            *out = sent == UINT64_MAX || sent == 0 ? NULL : output_size(sent);
        _cleanup_buf_ Buf b = {};

        say_end(record, &b);
        denied = denied == UINT64_MAX ? 0 : denied;
        if (calls != UINT64_MAX && __builtin_add_overflow(denied, calls, &denied))
                denied = UINT64_MAX;
        if (denied > 0)
                buf_printf(&b, ", %llu denied", (unsigned long long) denied);
        if (time)
                buf_printf(&b, ", %s", time);
        if (memory)
                buf_printf(&b, ", %s memory", memory);
        if (out)
                buf_printf(&b, ", %s sent", out);
        return buf_take_string(&b);
}

static char *traffic_of(const json_t *record)
{
        uint64_t usec = facts_text_u64(record, "AGENTBOX_USEC");
        const char *reason = facts_string(record, "AGENTBOX_REASON");
        _cleanup_free_ char *sent = size_or_unknown(facts_text_u64(record, "AGENTBOX_BYTES_SENT")),
                            *received = size_or_unknown(facts_text_u64(record, "AGENTBOX_BYTES_RECEIVED")),
                            *time = usec == UINT64_MAX ? strdup("?") : output_duration(usec),
                            *shown = clean(reason);
        char *s;

        if (!sent || !received || !time || !shown)
                return NULL;
        return asprintf(&s, "%s out, %s in, %s%s%s", sent, received, time,
                               *shown && !streq(shown, "closed") ? ", " : "",
                               streq(shown, "closed") ? "" : shown) < 0
                               ? NULL
                               : s;
}

/* "index.example.org:443 (tls)" */
static char *with_proto(char *destination, const char *proto)
{
        _cleanup_free_ char *d = destination, *shown = clean(proto);
        char *s;

        if (!d || !shown)
                return NULL;
        return asprintf(&s, "%s%s%s%s", *d ? d : "not recorded one by one", *shown ? " (" : "", shown,
                               *shown ? ")" : "") < 0
                               ? NULL
                               : s;
}

static char *system_call_of(const json_t *record)
{
        const char *name = facts_string(record, "AGENTBOX_SYSCALL"), *args = facts_string(record, "AGENTBOX_SYSCALL_ARGS");
        _cleanup_free_ char *text = NULL;

        if (asprintf(&text, "%s(%s)", name ?: "?", args ?: "") < 0) {
                text = NULL;
                return NULL;
        }
        return clean(text);
}

static char *calls_denied(const json_t *record)
{
        uint64_t n = egress_record_count(record);
        char *s;

        return asprintf(&s, n > 1 ? "denied ×%llu" : "denied", (unsigned long long) n) < 0 ? NULL : s;
}

/* "execve (i386)" */
static char *kernel_call_of(const json_t *record)
{
        const char *name = facts_string(record, "AGENTBOX_SYSCALL") ?: "?", *arch = facts_string(record, "AGENTBOX_ARCH") ?: "?";
        _cleanup_free_ char *text = NULL;

        if (!kernel_denial_is_foreign(record))
                return clean(name);
        if (asprintf(&text, "%s (%s)", name, arch) < 0) {
                text = NULL;
                return NULL;
        }
        return clean(text);
}

static char *killed(const json_t *record)
{
        uint64_t n = egress_record_count(record);
        char *s;

        return asprintf(&s, n > 1 ? "%s ×%llu" : "%s", kernel_denial_outcome(record), (unsigned long long) n) < 0 ? NULL : s;
}

/* The broker's own words, without the run's name, which stands beside them or was asked for. */
static char *message_of(const json_t *record)
{
        return clean(message_without_run(record));
}

static char *command_of(const json_t *record)
{
        return clean(facts_string(record, "AGENTBOX_COMMAND") ?: "a command");
}

static char *policy_of(const json_t *record)
{
        _cleanup_free_ char *shown = clean(facts_string(record, "AGENTBOX_POLICY") ?: "?");
        char *s;

        return !shown || asprintf(&s, "policy %s", shown) < 0 ? NULL : s;
}

/* Lines, as one: "memory-limit: x; uid: y" */
static char *joined(const char *text)
{
        _cleanup_buf_ Buf b = {};

        for (const char *line = text; *line;) {
                size_t n = strcspn(line, "\n");

                buf_printf(&b, "%s%.*s", line == text ? "" : "; ", (int) n, line);
                line += n + (line[n] == '\n');
        }
        return b.error < 0 ? NULL : clean((const char *) b.data);
}

static char *refusal_of(const json_t *record)
{
        const char *reason = facts_string(record, "AGENTBOX_REASON");

        return reason ? joined(reason) : message_of(record);
}

/* Each promise that was not kept is a line of it. */
static char *broken_of(const json_t *record)
{
        const char *broken = facts_string(record, "AGENTBOX_BROKEN");

        return broken ? joined(broken) : message_of(record);
}

static char *promises_of(const json_t *record)
{
        size_t n = 0;
        char *s;

        for (const char *c = facts_string(record, "AGENTBOX_VERIFIED") ?: ""; *c; n++) {
                c += strcspn(c, " ");
                c += strspn(c, " ");
        }
        return asprintf(&s, "%zu promises hold", n) < 0 ? NULL : s;
}

static char *copied_of(const json_t *record)
{
        uint64_t files = facts_text_u64(record, "AGENTBOX_FILES"), bytes = facts_text_u64(record, "AGENTBOX_BYTES");
        _cleanup_free_ char *size = output_size(bytes);
        char *s;

        if (files == UINT64_MAX || bytes == UINT64_MAX)
                return message_of(record);
        return !size || asprintf(&s, "%llu file%s, %s", (unsigned long long) files, files == 1 ? "" : "s",
                                        size) < 0
                               ? NULL
                               : s;
}

static char *comm_of(const json_t *record)
{
        return clean(facts_string(record, "AGENTBOX_COMM"));
}

static char *destination_of(const json_t *record)
{
        return with_proto(egress_record_destination(record), facts_string(record, "AGENTBOX_PROTO"));
}

/* What was touched. */
static char *tripwire_of(const json_t *record)
{
        const char *decoy = facts_string(record, "AGENTBOX_DECOY"), *reason = facts_string(record, "AGENTBOX_REASON");

        if (decoy)
                return clean(decoy);
        return reason && streq(reason, "metadata") ? strdup("a metadata service") : message_of(record);
}

static char *touched(const json_t *record)
{
        const char *action = facts_string(record, "AGENTBOX_ACTION"), *decoy = facts_string(record, "AGENTBOX_DECOY");
        bool acts = action && !streq(action, "log");
        uint64_t n = egress_record_count(record);
        _cleanup_buf_ Buf b = {};

        buf_printf(&b, "%s", decoy ? "decoy opened" : "tried");
        if (n > 1)
                buf_printf(&b, " ×%llu", (unsigned long long) n);
        if (acts)
                buf_printf(&b, ", %s", streq(action, "kill") ? "killed" : "frozen");
        return buf_take_string(&b);
}

static char *allowed(const json_t *record)
{
        return strdup("allowed");
}

typedef char *(*Teller)(const json_t *record);

/* Who, what and the verdict; NULL: nothing. Denials of the network have lines of their own, see below. */
static const struct {
        const char *event;
        Teller who, what, verdict;
} tellers[] = {
        { "run-requested", caller_of, command_of, NULL },
        { "run-refused", caller_of, refusal_of, NULL },
        { "run-verified", NULL, promises_of, NULL },
        { "run-unverified", NULL, broken_of, NULL },
        { "run-started", NULL, policy_of, NULL },
        { "run-ended", NULL, end_of, NULL },
        { "egress-allowed", comm_of, destination_of, allowed },
        { "egress-closed", comm_of, destination_of, traffic_of },
        { "syscall-denied", comm_of, system_call_of, calls_denied },
        { "tripwire", comm_of, tripwire_of, touched },
        { "copy-in", NULL, copied_of, NULL },
        { "copy-out", NULL, copied_of, NULL },
        { "copy-refused", NULL, refusal_of, NULL },
        { KERNEL_DENIAL_EVENT, comm_of, kernel_call_of, killed },
};

static Colour colour_of(const json_t *record, const char *event)
{
        const char *priority = facts_string(record, "PRIORITY");

        if (priority && priority[0] >= '0' && priority[0] <= '4' && !priority[1])
                return COLOUR_RED;
        if (audit_event_denies(event))
                return COLOUR_YELLOW;
        return streq(event, "egress-allowed") ? COLOUR_GREEN : COLOUR_NONE;
}

static int tell(const json_t *record, Teller teller, char **ret)
{
        if (!teller)
                return 0;
        *ret = teller(record);
        return *ret ? 0 : -ENOMEM;
}

static int fill_line(const json_t *record, const char *event, Line *l)
{
        uint64_t usec = facts_text_u64(record, "__REALTIME_TIMESTAMP");
        int r;

        *l = (Line){ .usec = usec == UINT64_MAX ? 0 : usec,
                .run = facts_string(record, "AGENTBOX_RUN_ID"),
                .event = event,
                .colour = colour_of(record, event) };
        for (size_t i = 0; i < ELEMENTSOF(tellers); i++) {
                if (!streq(tellers[i].event, event))
                        continue;
                r = tell(record, tellers[i].who, &l->who);
                if (r >= 0)
                        r = tell(record, tellers[i].what, &l->what);
                return r < 0 ? r : tell(record, tellers[i].verdict, &l->verdict);
        }
        return tell(record, message_of, &l->what);
}

/* ---- denials, together */

static char *verdict_of(const EgressGroup *g)
{
        _cleanup_free_ char *reason = clean(g->reason ?: "denied");
        uint64_t seconds = g->last_usec > g->first_usec ? (g->last_usec - g->first_usec) / 1000000 : 0;
        _cleanup_free_ char *time = output_duration(seconds * 1000000);
        _cleanup_buf_ Buf b = {};

        if (!reason || !time)
                return NULL;
        buf_printf(&b, "%s", reason);
        if (g->count > 1)
                buf_printf(&b, " ×%llu", (unsigned long long) g->count);
        if (seconds > 0)
                buf_printf(&b, " in %s", time);
        return buf_take_string(&b);
}

static int line_of_group(const EgressGroup *g, Line *ret)
{
        *ret = (Line){
                .usec = g->first_usec,
                .run = g->run,
                .event = "egress-denied",
                .colour = g->warns ? COLOUR_RED : COLOUR_YELLOW,
                .who = clean(g->comm),
                .what = with_proto(egress_destination(g), g->proto),
                .verdict = verdict_of(g),
        };
        return ret->who && ret->what && ret->verdict ? 0 : -ENOMEM;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
        uint64_t v;

        return __builtin_add_overflow(a, b, &v) ? UINT64_MAX : v;
}

/* 1: a refused system call, held back to be one line with those that are equal. 0: it is none. */
static int take_call(Timeline *t, const json_t *record)
{
        static const char *const names[] = { "AGENTBOX_EVENT", "AGENTBOX_RUN_ID", "AGENTBOX_COMM", "AGENTBOX_ARCH", "AGENTBOX_SYSCALL",
                "AGENTBOX_SYSCALL_ARGS", "AGENTBOX_ACTION" };
        const char *event = facts_string(record, "AGENTBOX_EVENT");
        _cleanup_free_ char *key = NULL;
        _cleanup_buf_ Buf b = {};
        json_t *held, *count;

        if (!event || (!streq(event, "syscall-denied") && !streq(event, KERNEL_DENIAL_EVENT)))
                return 0;
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                buf_printf(&b, "%s\n", facts_string(record, names[i]) ?: "");
        key = buf_take_string(&b);
        if (!key || (!t->calls && !(t->calls = json_object())))
                return -ENOMEM;
        held = json_object_get(t->calls, key);
        if (!held)
                return json_object_set_new(t->calls, key, json_copy((json_t *) record)) < 0 ? -ENOMEM : 1;
        count = json_sprintf("%llu", (unsigned long long) sum(egress_record_count(held), egress_record_count(record)));
        return json_object_set_new(held, "AGENTBOX_COUNT", count) < 0 ? -ENOMEM : 1;
}

static int compare_lines(const void *x, const void *y)
{
        const Line *a = x, *b = y;

        return (a->usec > b->usec) - (a->usec < b->usec);
}

/* What is held back, in the order in which each was first seen. */
static int fill_held(Timeline *t, Line *lines, size_t *n)
{
        const char *key;
        json_t *record;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < t->window.n; i++)
                r = line_of_group(t->window.groups + i, lines + (*n)++);
        json_object_foreach(t->calls, key, record) if (r >= 0)
                        r = fill_line(record, facts_string(record, "AGENTBOX_EVENT"), lines + (*n)++);
        if (r >= 0 && *n > 0)
                qsort(lines, *n, sizeof(*lines), compare_lines);
        return r;
}

int timeline_flush(Timeline *t, Buf *out)
{
        int r = t->window.n > 0 ? egress_denials_fold(&t->window) : 0;
        size_t max = t->window.n + json_object_size(t->calls), n = 0;
        _cleanup_free_ Line *lines = max > 0 ? calloc(max, sizeof(*lines)) : NULL;

        if (max > 0 && !lines)
                r = -ENOMEM;
        if (r >= 0)
                r = fill_held(t, lines, &n);
        for (size_t i = 0; i < n; i++) {
                if (r >= 0)
                        r = print_line(t, lines + i, out);
                line_done(lines + i);
        }
        egress_denials_done(&t->window);
        json_decref(t->calls);
        t->calls = NULL;
        return r;
}

int timeline_take(Timeline *t, const json_t *record, Buf *out)
{
        const char *event = facts_string(record, "AGENTBOX_EVENT");
        _cleanup_line_ Line l = {};
        int r = egress_denials_take(&t->window, record);

        if (r == 0)
                r = take_call(t, record);
        if (r > 0)
                return t->window.n + json_object_size(t->calls) >= WINDOW_MAX ? timeline_flush(t, out) : 0;
        if (r >= 0)
                r = timeline_flush(t, out);
        if (r >= 0)
                r = fill_line(record, event ?: "?", &l);
        return r < 0 ? r : print_line(t, &l, out);
}
