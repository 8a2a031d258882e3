/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/uio.h>
#include <syslog.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include "base/buf.h"
#include "base/escape.h"
#include "base/parse.h"
#include "base/strv.h"
#include "broker/broker-audit.h"
#include "policy/policy.h"
#include "wire/messages.h"

#define BROKER_UNIT "agentboxd.service"
#define COMMAND_BYTES_MAX 4096u
#define ARGUMENT_BYTES_MAX 1024u

static const struct {
        const char *name, *message_id;
        int priority;
} events[_AUDIT_EVENT_MAX] = {
        [AUDIT_RUN_REQUESTED] = { "run-requested", AGENTBOX_MESSAGE_RUN_REQUESTED, LOG_INFO },
        [AUDIT_RUN_REFUSED] = { "run-refused", AGENTBOX_MESSAGE_RUN_REFUSED, LOG_NOTICE },
        [AUDIT_RUN_VERIFIED] = { "run-verified", AGENTBOX_MESSAGE_RUN_VERIFIED, LOG_INFO },
        [AUDIT_RUN_UNVERIFIED] = { "run-unverified", AGENTBOX_MESSAGE_RUN_UNVERIFIED, LOG_WARNING },
        [AUDIT_RUN_STARTED] = { "run-started", AGENTBOX_MESSAGE_RUN_STARTED, LOG_INFO },
        [AUDIT_RUN_ENDED] = { "run-ended", AGENTBOX_MESSAGE_RUN_ENDED, LOG_INFO },
        [AUDIT_EGRESS_DENIED] = { "egress-denied", AGENTBOX_MESSAGE_EGRESS_DENIED, LOG_NOTICE },
        [AUDIT_SYSCALL_DENIED] = { "syscall-denied", AGENTBOX_MESSAGE_SYSCALL_DENIED, LOG_NOTICE },
        [AUDIT_COPY_IN] = { "copy-in", AGENTBOX_MESSAGE_COPY_IN, LOG_INFO },
        [AUDIT_COPY_OUT] = { "copy-out", AGENTBOX_MESSAGE_COPY_OUT, LOG_INFO },
        [AUDIT_COPY_REFUSED] = { "copy-refused", AGENTBOX_MESSAGE_COPY_REFUSED, LOG_NOTICE },
        [AUDIT_TRIPWIRE] = { "tripwire", AGENTBOX_MESSAGE_TRIPWIRE, LOG_WARNING },
        [AUDIT_JOURNAL_CHECK] = { "journal-check", AGENTBOX_MESSAGE_JOURNAL_CHECK, LOG_INFO },
        [AUDIT_BOOTS_SETTLED] = { "boots-settled", AGENTBOX_MESSAGE_BOOTS_SETTLED, LOG_INFO },
};

/* ---- writing */

typedef struct Fields {
        char **l;
        int error;
} Fields;

static void add_field(Fields *f, const char *name, const char *value)
{
        char *field;

        if (f->error < 0 || !value || !*value)
                return;
        if (asprintf(&field, "%s=%s", name, value) < 0)
                f->error = -ENOMEM;
        else
                f->error = strv_push(&f->l, field);
}

static void add_u64(Fields *f, const char *name, uint64_t value)
{
        char text[24];

        snprintf(text, sizeof(text), "%" PRIu64, value);
        add_field(f, name, text);
}

static void add_list(Fields *f, const char *name, char *const *l, const char *separator)
{
        _cleanup_free_ char *text = NULL;

        if (strv_length(l) == 0)
                return;
        text = strv_join(l, separator);
        if (!text)
                f->error = -ENOMEM;
        add_field(f, name, text);
}

/* "exit_code" → AGENTBOX_EXIT_CODE. Fields that the record has anyway (its run and policy) are left out. */
static void add_result(Fields *f, const RunResult *result)
{
        for (size_t i = 0; i < n_run_result_fields; i++) {
                const RecordField *field = run_result_fields + i;
                const void *p = (const char *) result + field->offset;
                char name[64];
                int n = snprintf(name, sizeof(name), "AGENTBOX_%s", field->name);

                for (int k = 0; k < n; k++)
                        if (name[k] >= 'a' && name[k] <= 'z')
                                name[k] = (char) (name[k] - 'a' + 'A');
                if (streq(field->name, "run") || streq(field->name, "policy") ||
                                streq(field->name, "verified"))
                        continue;
                switch (field->type) {
                case RECORD_STRING:
                        add_field(f, name, *(char *const *) p);
                        break;
                case RECORD_U64:
                        if (*(const uint64_t *) p != UINT64_MAX)
                                add_u64(f, name, *(const uint64_t *) p);
                        break;
                case RECORD_LIST:
                        add_list(f, name, *(char **const *) p, " ");
                        break;
                case RECORD_REASON:
                        add_field(f, name, run_reason_names[*(const RunReason *) p]);
                        break;
                }
        }
}

int audit_write(AuditEvent event, const AuditSubject *subject, const AuditDetail *detail)
{
        Fields f = {};
        struct iovec iov[64];
        int n = 0, r;

        add_field(&f, "MESSAGE_ID", events[event].message_id);
        add_field(&f, "MESSAGE", detail->message);
        add_u64(&f, "PRIORITY", (uint64_t) events[event].priority);
        add_field(&f, "SYSLOG_IDENTIFIER", "agentboxd");
        add_field(&f, "AGENTBOX_EVENT", events[event].name);
        add_field(&f, "AGENTBOX_RUN_ID", subject->run);
        add_field(&f, "AGENTBOX_POLICY", subject->policy);
        add_field(&f, "AGENTBOX_POLICY_DIGEST", subject->digest);
        add_u64(&f, "AGENTBOX_CALLER_UID", subject->caller_uid);
        add_field(&f, "AGENTBOX_UNIT", subject->unit);
        add_field(&f, "AGENTBOX_INVOCATION_ID", subject->invocation_id);
        add_field(&f, "AGENTBOX_COMMAND", detail->command);
        add_field(&f, "AGENTBOX_VIEW", detail->view);
        if (!detail->result) /* which has a reason of its own */
                add_field(&f, "AGENTBOX_REASON", detail->reason);
        add_field(&f, "AGENTBOX_PROTO", detail->proto);
        add_field(&f, "AGENTBOX_DEST_NAME", detail->dest_name);
        add_field(&f, "AGENTBOX_SYSCALL", detail->syscall);
        add_field(&f, "AGENTBOX_DECOY", detail->decoy);
        add_field(&f, "AGENTBOX_COMM", detail->comm);
        add_field(&f, "AGENTBOX_ACTION", detail->action);
        STRV_FOREACH(i, detail->fingerprints)
                add_field(&f, "AGENTBOX_DECOY_FINGERPRINT", *i);
        if (detail->pid > 0)
                add_u64(&f, "AGENTBOX_PID", detail->pid);
        if (detail->uid > 0)
                add_u64(&f, "AGENTBOX_UID", detail->uid);
        if (detail->count > 0)
                add_u64(&f, "AGENTBOX_COUNT", detail->count);
        if (detail->has_copy) {
                add_u64(&f, "AGENTBOX_FILES", detail->files);
                add_u64(&f, "AGENTBOX_BYTES", detail->bytes);
        }
        add_list(&f, "AGENTBOX_VERIFIED", detail->verified, " ");
        add_list(&f, "AGENTBOX_BROKEN", detail->broken, "\n");
        if (detail->result)
                add_result(&f, detail->result);

        r = f.error;
        STRV_FOREACH(i, f.l)
                if (n < (int) ELEMENTSOF(iov))
                        iov[n++] = (struct iovec){ .iov_base = *i, .iov_len = strlen(*i) };
                else
                        r = -E2BIG;
        if (r >= 0)
                r = sd_journal_sendv(iov, n);
        strv_free(f.l);
        return r;
}

char *audit_command(char *const *argv, uint64_t arguments)
{
        _cleanup_buf_ Buf b = {};

        if (arguments == ARGUMENTS_NONE)
                return strdup("");
        STRV_FOREACH(i, argv) {
                _cleanup_free_ char *shown = escape_for_display(*i, strlen(*i), ARGUMENT_BYTES_MAX);

                if (!shown)
                        return NULL;
                if (i > argv)
                        buf_append(&b, " ", 1);
                if (b.size > COMMAND_BYTES_MAX) {
                        buf_append(&b, "…", strlen("…"));
                        break;
                }
                /* So that it can be told where one argument ends. */
                buf_printf(&b, **i && !strpbrk(*i, " \t\n'\"") ? "%s" : "\"%s\"", shown);
                if (arguments == ARGUMENTS_FIRST)
                        break;
        }
        return buf_take_string(&b);
}

/* ---- reading back */

struct AuditReader {
        sd_journal *journal;
};

int audit_reader_open(AuditReader **ret, Error **reterr)
{
        AuditReader *a = calloc(1, sizeof(*a));
        int r;

        if (!a)
                return error_set(reterr, -ENOMEM, "out of memory");
        r = sd_journal_open(&a->journal, SD_JOURNAL_LOCAL_ONLY | SD_JOURNAL_SYSTEM);
        /* Watches the directories: files that come later (rotation, the first one after boot) are seen. */
        if (r >= 0)
                r = sd_journal_get_fd(a->journal);
        if (r < 0) {
                audit_reader_close(a);
                return error_set(reterr, r, "cannot read the journal: %s", strerror(-r));
        }
        *ret = a;
        return 0;
}

AuditReader *audit_reader_close(AuditReader *a)
{
        if (a) {
                sd_journal_close(a->journal);
                free(a);
        }
        return NULL;
}

static int add_match(sd_journal *j, const char *format, ...) _printf_(2, 3);

static int add_match(sd_journal *j, const char *format, ...)
{
        char match[128];
        va_list ap;
        int n;

        va_start(ap, format);
        n = vsnprintf(match, sizeof(match), format, ap);
        va_end(ap);
        if (n < 0 || (size_t) n >= sizeof(match))
                return -E2BIG;
        return sd_journal_add_match(j, match, (size_t) n);
}

/* The underscored fields are the journal's own, from the kernel. */
static int begin_search(AuditReader *a, AuditEvent event)
{
        int r = sd_journal_process(a->journal);

        if (r < 0)
                return r;
        sd_journal_flush_matches(a->journal);
        r = add_match(a->journal, "MESSAGE_ID=%s", events[event].message_id);
        return r < 0 ? r : add_match(a->journal, "_UID=0");
}

static int finish_search(AuditReader *a)
{
        int r = sd_journal_seek_head(a->journal);

        return r < 0 ? r : sd_journal_next(a->journal);
}

int audit_is_on_record(AuditReader *a, AuditEvent event, const char *run, bool by_us)
{
        int r = begin_search(a, event);

        if (r >= 0)
                r = add_match(a->journal, "AGENTBOX_RUN_ID=%s", run);
        /* Of a broker that died over its first record, journald may not have learnt the unit any more: nobody would believe
         * that one, so it does not count. */
        if (r >= 0)
                r = by_us ? add_match(a->journal, "_PID=%i", (int) getpid())
                          : add_match(a->journal, "_SYSTEMD_UNIT=" BROKER_UNIT);
        return r < 0 ? r : finish_search(a);
}

uint64_t audit_look_again(uint64_t waited)
{
        if (waited < 60 * 1000)
                return 2 * 1000;
        return waited < 500 * 1000 ? 10 * 1000 : 50 * 1000;
}

int audit_is_in_this_boot(AuditReader *a, AuditEvent event)
{
        char boot[SD_ID128_STRING_MAX];
        sd_id128_t id;
        int r = sd_id128_get_boot(&id);

        if (r >= 0)
                r = begin_search(a, event);
        if (r >= 0)
                r = add_match(a->journal, "_SYSTEMD_UNIT=" BROKER_UNIT);
        if (r >= 0)
                r = add_match(a->journal, "_BOOT_ID=%s", sd_id128_to_string(id, boot));
        return r < 0 ? r : finish_search(a);
}

/* ---- the records of a warden */

#define STEPS_MAX (2 * AUDIT_SPAN_MAX) /* entries that are looked at: a record that was sent again may be there twice */

static int match_warden(AuditReader *a, const AuditWarden *w, bool denied)
{
        static const char *const ids[_AUDIT_SERIES_MAX][3] = {
                { AGENTBOX_MESSAGE_EGRESS_DENIED, AGENTBOX_MESSAGE_EGRESS_ALLOWED, AGENTBOX_MESSAGE_EGRESS_CLOSED },
                { AGENTBOX_MESSAGE_SYSCALL_DENIED },
        };
        int r = sd_journal_process(a->journal);

        if (r < 0)
                return r;
        sd_journal_flush_matches(a->journal);
        r = add_match(a->journal, "AGENTBOX_RUN_ID=%s", w->run);
        if (r >= 0)
                r = add_match(a->journal, "_SYSTEMD_UNIT=%s", w->unit);
        for (size_t i = 0; r >= 0 && i < (denied ? 1 : ELEMENTSOF(*ids)) && ids[w->series][i]; i++)
                r = add_match(a->journal, "MESSAGE_ID=%s", ids[w->series][i]);
        return r < 0 ? r : sd_journal_seek_tail(a->journal);
}

/* A number of the entry; 0: it has none. */
static uint64_t read_number(AuditReader *a, const char *name)
{
        size_t n, skip = strlen(name) + 1;
        const void *data;
        char text[24];
        uint64_t v;

        if (sd_journal_get_data(a->journal, name, &data, &n) < 0 || n <= skip || n - skip >= sizeof(text))
                return 0;
        memcpy(text, (const char *) data + skip, n - skip);
        text[n - skip] = 0;
        return parse_u64(text, &v) < 0 ? 0 : v;
}

typedef struct NumberSet {
        uint64_t from; /* numbers behind this one */
        size_t span, n;
        uint8_t bits[AUDIT_SPAN_MAX / 8];
} NumberSet;

/* Whether it was not there before. */
static bool set_add(NumberSet *s, uint64_t number)
{
        uint64_t i = number - s->from - 1;
        uint8_t bit = (uint8_t) (1u << i % 8);

        if (number <= s->from || i >= s->span || (s->bits[i / 8] & bit))
                return false;
        s->bits[i / 8] |= bit;
        s->n++;
        return true;
}

static bool set_has(const NumberSet *s, size_t i)
{
        return s->bits[i / 8] & (1u << i % 8);
}

static void read_arrival(const NumberSet *s, AuditArrival *ret)
{
        size_t there = 0, missing;

        while (there < s->span && set_has(s, there))
                there++;
        for (missing = there; missing < s->span && !set_has(s, missing);)
                missing++;
        *ret = (AuditArrival){ .arrived = s->from + there, .missing_to = missing < s->span ? s->from + missing : 0 };
}

/* From the newest on, back to the floor: each entry is looked at once in its life, as a rule. */
int audit_look_for(AuditReader *a, const AuditWarden *w, uint64_t floor, uint64_t arrived, uint64_t sent, AuditArrival *ret)
{
        NumberSet s = { .from = arrived, .span = (size_t) MIN2(sent - arrived, (uint64_t) AUDIT_SPAN_MAX) };
        int r = match_warden(a, w, false);

        for (unsigned i = 0; r >= 0 && s.n < s.span && i < STEPS_MAX; i++) {
                uint64_t number;

                r = sd_journal_previous(a->journal);
                if (r <= 0)
                        break;
                number = read_number(a, "AGENTBOX_SEQUENCE");
                if (number > 0 && number <= floor)
                        break;
                (void) set_add(&s, number);
                if (i + 1 == STEPS_MAX && s.n < s.span)
                        r = -E2BIG;
        }
        if (r < 0)
                return r;
        read_arrival(&s, ret);
        return 0;
}

int audit_sum_denied(AuditReader *a, const AuditWarden *w, uint64_t sent, uint64_t *ret)
{
        /* One that was sent and not counted may be behind it. */
        NumberSet s = { .span = (size_t) MIN2(sent, (uint64_t) AUDIT_SPAN_MAX - 1) + 1 };
        uint64_t sum = 0;
        int r = sent >= AUDIT_SPAN_MAX ? -E2BIG : match_warden(a, w, true);

        for (unsigned i = 0; r >= 0; i++) {
                r = i < STEPS_MAX ? sd_journal_previous(a->journal) : -E2BIG;
                if (r <= 0)
                        break;
                if (set_add(&s, read_number(a, "AGENTBOX_SEQUENCE")))
                        sum += read_number(a, "AGENTBOX_COUNT");
        }
        if (r >= 0)
                *ret = sum;
        return MIN2(r, 0);
}

/* ---- the past */

struct AuditHistory {
        sd_journal *journal;
};

AuditHistory *audit_history_close(AuditHistory *h)
{
        if (h) {
                sd_journal_close(h->journal);
                free(h);
        }
        return NULL;
}

static int add_history_matches(sd_journal *j)
{
        static const AuditEvent wanted[] = { AUDIT_RUN_REQUESTED, AUDIT_RUN_REFUSED, AUDIT_RUN_UNVERIFIED, AUDIT_RUN_STARTED,
                AUDIT_RUN_ENDED, AUDIT_BOOTS_SETTLED };
        int r = add_match(j, "_UID=0");

        if (r >= 0)
                r = add_match(j, "_SYSTEMD_UNIT=" BROKER_UNIT);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(wanted); i++)
                r = add_match(j, "MESSAGE_ID=%s", events[wanted[i]].message_id);
        return r < 0 ? r : sd_journal_seek_tail(j);
}

int audit_history_open(AuditHistory **ret)
{
        AuditHistory *h = calloc(1, sizeof(*h));
        int r;

        if (!h)
                return -ENOMEM;
        r = sd_journal_open(&h->journal, SD_JOURNAL_LOCAL_ONLY | SD_JOURNAL_SYSTEM);
        if (r >= 0)
                r = add_history_matches(h->journal);
        if (r < 0)
                audit_history_close(h);
        else
                *ret = h;
        return r;
}

char *audit_history_field(AuditHistory *h, const char *name, size_t max)
{
        const void *data;
        size_t n, skip = strlen(name) + 1;

        if (sd_journal_get_data(h->journal, name, &data, &n) < 0 || n < skip || n - skip > max)
                return NULL;
        return strndup((const char *) data + skip, n - skip);
}

static int read_event(AuditHistory *h, AuditEvent *ret)
{
        _cleanup_free_ char *id = audit_history_field(h, "MESSAGE_ID", 32);

        for (size_t i = 0; id && i < ELEMENTSOF(events); i++)
                if (streq(events[i].message_id, id)) {
                        *ret = (AuditEvent) i;
                        return 0;
                }
        return -EBADMSG;
}

int audit_history_previous(AuditHistory *h, AuditRecord *ret)
{
        _cleanup_free_ char *run = NULL;
        uint64_t monotonic;
        int r = sd_journal_previous(h->journal);

        if (r <= 0)
                return r;
        r = read_event(h, &ret->event);
        if (r >= 0)
                r = sd_journal_get_monotonic_usec(h->journal, &monotonic, &ret->boot);
        if (r >= 0)
                r = sd_journal_get_realtime_usec(h->journal, &ret->time);
        run = audit_history_field(h, "AGENTBOX_RUN_ID", sizeof(ret->run) - 1);
        snprintf(ret->run, sizeof(ret->run), "%s", run ?: "");
        return r < 0 ? r : 1;
}
