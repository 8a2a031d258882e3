/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <syslog.h>

#include "base/escape.h"
#include "warden/warden-journal.h"
#include "wire/messages.h"

static const char *const proto_names[_EGRESS_PROTO_MAX] = {
        [PROTO_TLS] = "tls",
        [PROTO_HTTP] = "http",
        [PROTO_TCP] = "tcp",
        [PROTO_UDP] = "udp",
        [PROTO_DNS] = "dns",
        [PROTO_ICMP] = "icmp",
        [PROTO_OTHER] = "other",
};

const char *egress_proto_to_string(EgressProto proto)
{
        return proto_names[proto];
}

static const char *const close_names[_CLOSE_REASON_MAX] = {
        [CLOSE_CLOSED] = "closed",
        [CLOSE_RESET] = "reset",
        [CLOSE_IDLE] = "idle",
        [CLOSE_BYTES_LIMIT] = "bytes-limit",
        [CLOSE_REFUSED] = "refused",
        [CLOSE_RUN_ENDED] = "run-ended",
};

/* For MESSAGE, behind "denied: ". */
static const char *const reason_texts[_EGRESS_REASON_MAX] = {
        [EGRESS_OK] = "",
        [EGRESS_NO_RULE] = "no rule names it",
        [EGRESS_METADATA] = "a cloud metadata service, which no rule can allow",
        [EGRESS_ADDR_BLOCKED] = "a private or special-purpose address",
        [EGRESS_HOST_LOCAL] = "an address of this host",
        [EGRESS_NO_MAPPING] = "an address that no name was given",
        [EGRESS_PORT] = "a rule names it, at another port",
        [EGRESS_SNI_MISMATCH] = "the TLS hello asks for another name",
        [EGRESS_SNI_BAD] = "the TLS hello does not name one server",
        [EGRESS_ECH] = "the TLS hello hides the name that it asks for",
        [EGRESS_NOT_TLS] = "not TLS, as its rule wants",
        [EGRESS_HOST_MISMATCH] = "the HTTP request is for another host",
        [EGRESS_BAD_REQUEST] = "the HTTP request could be read in two ways",
        [EGRESS_TOO_LARGE] = "the head is too large",
        [EGRESS_TIMEOUT] = "it took too long",
        [EGRESS_RESOLVE_FAILED] = "the name could not be resolved",
        [EGRESS_CONNECT_FAILED] = "no connection could be made",
        [EGRESS_PROXY_FAILED] = "the upstream proxy made no connection",
        [EGRESS_LIMIT] = "too much at a time",
        [EGRESS_BYTES_LIMIT] = "the run has sent all that it may",
        [EGRESS_NO_JOURNAL] = "the journal could not be written",
        [EGRESS_MALFORMED] = "not a message that can be understood",
        [EGRESS_DNS_TYPE] = "only addresses are answered",
};

void attempt_destination(const Attempt *a, char ret[static ATTEMPT_DESTINATION_MAX])
{
        char address[EGRESS_ADDRESS_TEXT_MAX];
        const char *host = a->name;

        if (!host && a->address.family != 0) {
                egress_address_format(&a->address, address);
                host = address;
        }
        if (!host || !*host)
                snprintf(ret, ATTEMPT_DESTINATION_MAX, "*");
        else if (a->port == 0 || (a->proto == PROTO_DNS && a->name))
                snprintf(ret, ATTEMPT_DESTINATION_MAX, "%s", host);
        else if (!a->name && a->address.family == AF_INET6)
                snprintf(ret, ATTEMPT_DESTINATION_MAX, "[%s]:%u", host, a->port);
        else
                snprintf(ret, ATTEMPT_DESTINATION_MAX, "%s:%u", host, a->port);
}

/* ---- fields */

static void text(Buf *b, const char *s)
{
        buf_append(b, s, strlen(s));
}

/* NAME=value, or where a line break is in the value: NAME, its length in eight bytes, the value. */
static void field(Buf *b, const char *name, const char *value)
{
        if (!value || !*value)
                return;
        text(b, name);
        if (strchr(value, '\n')) {
                text(b, "\n");
                buf_u64(b, strlen(value));
        } else
                text(b, "=");
        text(b, value);
        text(b, "\n");
}

static void field_u64(Buf *b, const char *name, uint64_t value)
{
        char digits[sizeof("18446744073709551615")], *p = digits + sizeof(digits) - 1;

        *p = 0;
        do
                *--p = (char) ('0' + value % 10);
        while ((value /= 10) > 0);
        field(b, name, p);
}

static void comm_text(const Who *who, char ret[static 64])
{
        _cleanup_free_ char *shown = escape_for_display(who->comm, strnlen(who->comm, sizeof(who->comm)), sizeof(who->comm));

        snprintf(ret, 64, "%s", shown ?: "");
}

static void who_fields(Buf *b, const Who *who)
{
        char comm[64];

        if (who->tgid == 0)
                return;
        field_u64(b, "AGENTBOX_PID", who->tgid);
        comm_text(who, comm);
        field(b, "AGENTBOX_COMM", comm);
}

static void attempt_fields(Buf *b, const Attempt *a)
{
        char address[EGRESS_ADDRESS_TEXT_MAX];

        field(b, "AGENTBOX_DEST_NAME", a->name);
        if (a->address.family != 0) {
                egress_address_format(&a->address, address);
                field(b, "AGENTBOX_DEST_ADDR", address);
        }
        if (a->port != 0)
                field_u64(b, "AGENTBOX_DEST_PORT", a->port);
        field(b, "AGENTBOX_PROTO", egress_proto_to_string(a->proto));
        field(b, "AGENTBOX_RULE", a->rule);
        field(b, "AGENTBOX_ASKED_NAME", a->asked);
        who_fields(b, &a->who);
}

/* "curl[4711]: " */
static void say_who(Buf *b, const Who *who)
{
        char comm[64];

        if (who->tgid == 0)
                return;
        comm_text(who, comm);
        buf_printf(b, "%s[%u]: ", comm, who->tgid);
}

static Buf *begin(Journal *j, const char *id, const char *event, int priority)
{
        Buf *b = &j->record;

        b->size = 0;
        b->error = 0;
        buf_append(b, j->common.data, j->common.size);
        field_u64(b, "AGENTBOX_SEQUENCE", j->outbox.sent + 1);
        field(b, "MESSAGE_ID", id);
        field_u64(b, "PRIORITY", (uint64_t) priority);
        field(b, "AGENTBOX_EVENT", event);
        buf_printf(b, "MESSAGE=Run %s: ", j->spec->run);
        return b;
}

static int send_record(Journal *j, const void *p, size_t n)
{
        ssize_t k;

        do
                k = send(j->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        while (k < 0 && errno == EINTR);
        if (k < 0)
                return -errno;
        j->mark = (JournalMark){ .unread = true };
        j->dealt_with_at = 0;
        return 0;
}

/* Counted before anything that follows of it can be seen. */
static int send_new(Journal *j, uint64_t now)
{
        bool first = outbox_is_empty(&j->outbox);
        int r = j->closed ? -EBUSY : outbox_add(&j->outbox, j->record.data, j->record.size);

        if (r < 0)
                return r;
        r = send_record(j, j->record.data, j->record.size);
        if (r < 0) {
                outbox_take_back(&j->outbox);
                return r;
        }
        if (first)
                j->unproven_since = now;
        atomic_store_explicit(j->sent, j->outbox.sent, memory_order_release);
        return 0;
}

static int commit(Journal *j, uint64_t now)
{
        int r = j->record.error < 0 ? j->record.error : send_new(j, now);
        bool full = r == -EAGAIN || r == -ENOBUFS || r == -ENOMEM;

        if (j->record.error < 0)
                return r;
        if (r >= 0) {
                j->blocked_since = 0;
                return 0;
        }
        if (j->blocked_since == 0)
                j->blocked_since = now;
        j->waits = !full;
        return full || r == -EBUSY ? -EAGAIN : r;
}

/* ---- what has become of them */

/* A reader of the journal hears of a new file of it within a quarter of a second. */
#define GRACE USEC_PER_SEC
/* So long it is waited for what journald has not dealt with yet; or where no broker looks, which is back in a second, but for one
 * that is broken. */
#define PATIENCE (2 * USEC_PER_SEC)
#define PATIENCE_WITHOUT_BROKER (30 * USEC_PER_SEC)

/* What the broker says at this moment; false: it is about to. */
static bool read_proof(const Journal *j, JournalProof *ret)
{
        const JournalProof *p = j->proof;

        *ret = (JournalProof){
                .arrived = __atomic_load_n(&p->arrived, __ATOMIC_ACQUIRE),
                .missing_to = __atomic_load_n(&p->missing_to, __ATOMIC_ACQUIRE),
                .looked_at = __atomic_load_n(&p->looked_at, __ATOMIC_ACQUIRE),
                .check = __atomic_load_n(&p->check, __ATOMIC_ACQUIRE),
        };
        return ret->check == journal_proof_check(ret);
}

/* From the first that has not arrived. What is not taken is missing again, later. */
static void send_again(Journal *j, uint64_t to)
{
        j->again_to = to;
        for (uint64_t i = j->outbox.arrived + 1; i <= to; i++) {
                size_t n;
                const void *record = outbox_get(&j->outbox, i, &n);

                if (send_record(j, record, n) < 0)
                        return;
        }
}

/* The broker has looked since journald has dealt with everything, and this has not come of it. One is sent again, then, when that
 * is seen to have arrived, the others. */
static void on_lost(Journal *j, const JournalProof *p)
{
        j->closed = true;
        j->lost_to = p->missing_to > j->outbox.arrived ? MIN2(p->missing_to, j->outbox.sent) : j->outbox.sent;
        send_again(j, j->outbox.arrived + 1);
}

static bool is_late(const Journal *j, const JournalProof *p, uint64_t now)
{
        return p->looked_at >= j->unproven_since + PATIENCE || now - j->unproven_since >= PATIENCE_WITHOUT_BROKER;
}

static void take_arrived(Journal *j, uint64_t arrived, uint64_t now)
{
        uint64_t before = j->outbox.arrived;

        outbox_forget(&j->outbox, arrived);
        if (j->outbox.arrived == before)
                return;
        j->unproven_since = now;
        if (!outbox_is_empty(&j->outbox))
                return;
        j->closed = false;
        j->lost_to = j->again_to = 0;
}

void journal_check(Journal *j, uint64_t now)
{
        JournalProof p;

        if (outbox_is_empty(&j->outbox) || !read_proof(j, &p))
                return;
        take_arrived(j, p.arrived, now);
        if (outbox_is_empty(&j->outbox))
                return;
        if (!journal_is_read(j))
                j->dealt_with_at = 0;
        else if (j->dealt_with_at == 0)
                j->dealt_with_at = now;
        if (j->again_to > 0 && j->outbox.arrived >= j->again_to && j->outbox.arrived < j->lost_to)
                send_again(j, j->lost_to);
        else if (j->dealt_with_at > 0 && p.looked_at >= j->dealt_with_at + GRACE)
                on_lost(j, &p);
        else if (is_late(j, &p, now))
                j->closed = true;
}

bool journal_wants_check(const Journal *j)
{
        return !outbox_is_empty(&j->outbox);
}

/* ---- the records */

int journal_denied(Journal *j, const Attempt *a, EgressReason reason, uint64_t count, uint64_t now)
{
        char destination[ATTEMPT_DESTINATION_MAX];
        Buf *b = begin(j, AGENTBOX_MESSAGE_EGRESS_DENIED, "egress-denied",
                        reason == EGRESS_METADATA ? LOG_WARNING : LOG_NOTICE);

        attempt_destination(a, destination);
        say_who(b, &a->who);
        buf_printf(b, "%s (%s) denied", destination, egress_proto_to_string(a->proto));
        if (count > 1)
                buf_printf(b, " %" PRIu64 " times", count);
        buf_printf(b, ": %s\n", reason_texts[reason]);
        attempt_fields(b, a);
        field(b, "AGENTBOX_REASON", egress_reason_to_string(reason));
        field_u64(b, "AGENTBOX_COUNT", count);
        return commit(j, now);
}

int journal_allowed(Journal *j, const Attempt *a, uint64_t now)
{
        char destination[ATTEMPT_DESTINATION_MAX];
        Buf *b = begin(j, AGENTBOX_MESSAGE_EGRESS_ALLOWED, "egress-allowed", LOG_INFO);

        attempt_destination(a, destination);
        say_who(b, &a->who);
        buf_printf(b, "%s (%s) allowed by the rule \"%s\"\n", destination, egress_proto_to_string(a->proto), a->rule);
        attempt_fields(b, a);
        field_u64(b, "AGENTBOX_BYTES_SENT", 0);
        field_u64(b, "AGENTBOX_BYTES_RECEIVED", 0);
        return commit(j, now);
}

int journal_closed(Journal *j, const Attempt *a, CloseReason reason, uint64_t sent, uint64_t received, uint64_t usec,
                uint64_t now)
{
        char destination[ATTEMPT_DESTINATION_MAX];
        Buf *b = begin(j, AGENTBOX_MESSAGE_EGRESS_CLOSED, "egress-closed", LOG_INFO);

        attempt_destination(a, destination);
        say_who(b, &a->who);
        buf_printf(b, "%s (%s) ended (%s): %" PRIu64 " bytes sent, %" PRIu64 " received\n", destination,
                        egress_proto_to_string(a->proto), close_names[reason], sent, received);
        attempt_fields(b, a);
        field(b, "AGENTBOX_REASON", close_names[reason]);
        field_u64(b, "AGENTBOX_BYTES_SENT", sent);
        field_u64(b, "AGENTBOX_BYTES_RECEIVED", received);
        field_u64(b, "AGENTBOX_USEC", usec);
        return commit(j, now);
}

int journal_call_denied(Journal *j, const char *name, const char *args, const Who *who, uint64_t count, uint64_t now)
{
        Buf *b = begin(j, AGENTBOX_MESSAGE_SYSCALL_DENIED, "syscall-denied", LOG_NOTICE);

        say_who(b, who);
        buf_printf(b, "system call %s(%s) denied", name, args);
        if (count > 1)
                buf_printf(b, " %" PRIu64 " times", count);
        buf_append(b, "\n", 1);
        field(b, "AGENTBOX_SYSCALL", name);
        field(b, "AGENTBOX_SYSCALL_ARGS", args);
        who_fields(b, who);
        field_u64(b, "AGENTBOX_COUNT", count);
        return commit(j, now);
}

int journal_open(Journal *j, const WardenSpec *spec, int fd, _Atomic uint64_t *sent, const JournalProof *proof, size_t n_bytes)
{
        int r;

        *j = (Journal){ .fd = fd, .spec = spec, .sent = sent, .proof = proof };
        r = outbox_open(&j->outbox, n_bytes, n_bytes / JOURNAL_RECORD_BYTES);
        if (r < 0)
                return r;
        field(&j->common, "SYSLOG_IDENTIFIER", "agentbox-warden");
        field(&j->common, "AGENTBOX_RUN_ID", spec->run);
        field(&j->common, "AGENTBOX_POLICY", spec->policy);
        field(&j->common, "AGENTBOX_POLICY_DIGEST", spec->digest);
        field_u64(&j->common, "AGENTBOX_CALLER_UID", spec->caller_uid);
        field(&j->common, "AGENTBOX_UNIT", spec->unit);
        field(&j->common, "AGENTBOX_INVOCATION_ID", spec->invocation_id);
        return j->common.error;
}

bool journal_is_read(Journal *j)
{
        return journal_mark_is_read(&j->mark, j->fd);
}

void journal_close(Journal *j)
{
        buf_done(&j->common);
        buf_done(&j->record);
        outbox_close(&j->outbox);
}
