/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "base/io.h"
#include "base/strv.h"
#include "policy/allow-rule.h"
#include "test-warden-harness.h"

#define PATIENCE_MSEC 10000

const char *test_warden, *test_resolver; /* paths of the two programs */

/* ---- what the broker would send */

static void make_rule(const char *text, EgressRule *ret)
{
        AllowRule rule;
        size_t offset = 0;
        Error *e = NULL;
        int r = allow_rule_parse(text, &rule, &offset, &e);

        if (r < 0)
                fail_msg("%s: %s", text, error_message(e, r));
        *ret = (EgressRule){
                .kind = rule.kind == ALLOW_TLS    ? EGRESS_RULE_TLS
                        : rule.kind == ALLOW_HTTP ? EGRESS_RULE_HTTP
                        : rule.kind == ALLOW_TCP  ? EGRESS_RULE_TCP
                                                  : EGRESS_RULE_TCP_ADDRESS,
                .text = allow_rule_format(&rule),
                .name = strdup(rule.kind == ALLOW_TCP_ADDRESS ? "" : rule.name),
                .wildcard = rule.wildcard,
                .port = rule.port,
                .ech_allow = rule.ech_allow,
                .private_allow = rule.private_allow,
                .peer_first = rule.peer_first,
        };
        if (rule.kind == ALLOW_TCP_ADDRESS) {
                size_t n = rule.prefix.family == PREFIX_IPV4 ? 4 : 16;

                ret->address.family = n == 4 ? AF_INET : AF_INET6;
                for (size_t i = 0; i < n; i++)
                        ret->address.bytes[i] = (uint8_t) (rule.prefix.address >> (8 * (n - 1 - i)));
                ret->prefix_length = (uint8_t) rule.prefix.length;
        }
}

static int make_spec(const Options *o)
{
        WardenSpec s = {
                .run = strdup("4f7k2m9qxa"),
                .policy = strdup("test"),
                .digest = strdup("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
                .unit = strdup("agentbox-4f7k2m9qxa.service"),
                .invocation_id = strdup("0123456789abcdef0123456789abcdef"),
                .caller_uid = 1000,
                .egress_bytes = o->egress_bytes ?: UINT64_MAX,
                .connections = o->connections ?: 64,
                .record_allowed = !o->quiet,
                .proxy_host = strdup(o->proxy_host ?: ""),
                .proxy_port = o->proxy_host ? PORT_PROXY : 0,
                .seed = { 1, 2, 3 },
        };
        Buf b = {};
        int fd;

        while (o->rules && o->rules[s.n_rules])
                s.n_rules++;
        s.rules = calloc(s.n_rules + 1, sizeof(*s.rules));
        assert_non_null(s.rules);
        for (uint32_t i = 0; i < s.n_rules; i++)
                make_rule(o->rules[i], s.rules + i);
        assert_int_equal(wardenspec_encode(&s, &b), 0);
        fd = memfd_sealed("spec", b.data, b.size);
        assert_true(fd >= 0);
        buf_done(&b);
        wardenspec_done(&s);
        return fd;
}

static void make_pair(int type, bool small, int ret[2])
{
        const int size = 4608;

        assert_int_equal(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ret), 0);
        if (small)
                assert_int_equal(setsockopt(ret[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
}

/* Those that are there. */
static void send_fds(int channel, const int all[static _WARDEN_FD_MAX])
{
        uint8_t payload[sizeof(WARDENSPEC_MESSAGE) - 1 + sizeof(uint32_t)];
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(_WARDEN_FD_MAX * sizeof(int))];
        } control = {};
        int fds[_WARDEN_FD_MAX];
        uint32_t bits = 0;
        size_t n = 0;

        for (WardenFd i = 0; i < _WARDEN_FD_MAX; i++)
                if (all[i] >= 0) {
                        fds[n++] = all[i];
                        bits |= UINT32_C(1) << i;
                }
        struct iovec v = { .iov_base = payload, .iov_len = sizeof(payload) };
        struct msghdr m = {
                .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(n * sizeof(int))
        };

        memcpy(payload, WARDENSPEC_MESSAGE, strlen(WARDENSPEC_MESSAGE));
        memcpy(payload + strlen(WARDENSPEC_MESSAGE), &bits, sizeof(bits)); /* of a machine that writes the low byte first */
        control.header = (struct cmsghdr){
                .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(n * sizeof(int))
        };
        memcpy(CMSG_DATA(&control.header), fds, n * sizeof(int));
        assert_int_equal(sendmsg(channel, &m, MSG_NOSIGNAL), sizeof(payload));
}

/* Until nothing more goes in, as where PID 1 does not read. */
static void fill(int fd)
{
        static const char byte[1024];

        while (send(fd, byte, sizeof(byte), MSG_DONTWAIT) > 0)
                ;
        assert_int_equal(errno, EAGAIN);
}

_noreturn_ static void become_warden(int channel, const Options *o)
{
        char usec[32];

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (o->open_files > 0) {
                const struct rlimit l = { o->open_files, o->open_files };

                if (setrlimit(RLIMIT_NOFILE, &l) < 0)
                        _exit(99);
        }
        snprintf(usec, sizeof(usec), "%u", o->watchdog_usec);
        if (o->watchdog_usec > 0)
                setenv("WATCHDOG_USEC", usec, true);
        if (dup2(channel, 0) < 0)
                _exit(99);
        execl(test_warden, "agentbox-warden", o->resolver ?: test_resolver, NULL);
        _exit(98);
}

static ssize_t receive(int fd, void *p, size_t size)
{
        struct pollfd f = { .fd = fd, .events = POLLIN };

        if (poll(&f, 1, PATIENCE_MSEC) != 1)
                fail_msg("the warden says nothing");
        return recv(fd, p, size, 0);
}

static EgressTally *map_tally(int fd)
{
        void *p = mmap(NULL, sizeof(EgressTally), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        assert_ptr_not_equal(p, MAP_FAILED);
        return p;
}

void box_start(Box *b, Fixture *f, const Options *o)
{
        int channel[2], journal[2], notify[2], fds[_WARDEN_FD_MAX];
        uint8_t message[1024];
        ssize_t n;

        *b = (Box){ .wall = f };
        make_pair(SOCK_SEQPACKET, false, channel);
        make_pair(SOCK_DGRAM, o->small_journal, journal);
        make_pair(SOCK_DGRAM, false, notify);
        if (o->full_notify)
                fill(notify[1]);
        b->tally_fd = memfd_create("tally", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_true(b->tally_fd >= 0);
        assert_int_equal(ftruncate(b->tally_fd, sizeof(EgressTally)), 0);
        b->tally = map_tally(b->tally_fd);

        b->pid = fork();
        assert_true(b->pid >= 0);
        if (b->pid == 0)
                become_warden(channel[1], o);
        close(channel[1]);
        b->channel = channel[0];
        b->journal = journal[0];
        b->notify = notify[0];
        n = receive(b->channel, message, sizeof(message));
        assert_true(n > 0);
        assert_int_equal(wardenhello_decode(message, (size_t) n, &b->hello), 0);

        fds[WARDEN_FD_SPEC] = make_spec(o);
        fds[WARDEN_FD_TCP4] = f->wall.tcp[0];
        fds[WARDEN_FD_DNS4] = f->wall.dns[0];
        fds[WARDEN_FD_EVENTS] = f->wall.events_fd;
        fds[WARDEN_FD_COUNTERS] = f->wall.counters_fd;
        fds[WARDEN_FD_LINK] = f->wall.link_fd;
        fds[WARDEN_FD_JOURNAL] = journal[1];
        fds[WARDEN_FD_NOTIFY] = notify[1];
        fds[WARDEN_FD_TALLY] = b->tally_fd;
        fds[WARDEN_FD_CALLS] = fds[WARDEN_FD_PROC] = -1; /* test-witness.c */
        fds[WARDEN_FD_TCP6] = o->tcp_only ? -1 : f->wall.tcp[1];
        fds[WARDEN_FD_DNS6] = o->tcp_only ? -1 : f->wall.dns[1];
        send_fds(b->channel, fds);
        close(fds[WARDEN_FD_SPEC]);
        close(journal[1]);
        close(notify[1]);
        n = receive(b->channel, message, sizeof(message));
        assert_true(n > 0);
        assert_int_equal(wardenready_decode(message, (size_t) n, &b->ready), 0);
}

void box_done(Box *b)
{
        if (b->pid > 0) {
                kill(b->pid, SIGKILL);
                waitpid(b->pid, NULL, 0);
        }
        close(b->channel);
        close(b->journal);
        close(b->notify);
        close(b->tally_fd);
        munmap(b->tally, sizeof(EgressTally));
        strv_free(b->records);
}

/* ---- records */

static void add_record(Box *b, const char *data, size_t n)
{
        char *r = malloc(n + 2);

        assert_non_null(r);
        assert_null(memchr(data, 0, n));
        r[0] = '\n';
        memcpy(r + 1, data, n);
        r[n + 1] = 0;
        b->records = realloc(b->records, (b->n_records + 2) * sizeof(char *));
        assert_non_null(b->records);
        b->records[b->n_records++] = r;
        b->records[b->n_records] = NULL;
}

/* What the broker does, in the journal that this is. Without gaps, and none is there twice. */
static void look_for(Box *b)
{
        struct timespec t;
        JournalProof p = { .arrived = b->n_records };

        clock_gettime(CLOCK_MONOTONIC, &t);
        p.looked_at = (uint64_t) t.tv_sec * 1000000u + (uint64_t) t.tv_nsec / 1000;
        p.check = journal_proof_check(&p);
        b->tally->egress_proof = p;
}

void box_read_records(Box *b)
{
        char data[16384];
        ssize_t n;

        while ((n = recv(b->journal, data, sizeof(data), MSG_DONTWAIT)) >= 0)
                if (n > 0 && !b->journal_drops)
                        add_record(b, data, (size_t) n);
        look_for(b);
}

static bool has_field(const char *record, const char *name, const char *value)
{
        char field[512];

        snprintf(field, sizeof(field), "\n%s=%s\n", name, value);
        return strstr(record, field);
}

const char *box_record(const Box *b, const char *event, size_t i)
{
        STRV_FOREACH(r, b->records)
                if (has_field(*r, "AGENTBOX_EVENT", event) && i-- == 0)
                        return *r;
        return NULL;
}

size_t box_count(const Box *b, const char *event)
{
        size_t n = 0;

        STRV_FOREACH(r, b->records)
                n += has_field(*r, "AGENTBOX_EVENT", event);
        return n;
}

uint64_t box_denied(const Box *b, const char *field)
{
        uint64_t sum = 0;

        STRV_FOREACH(r, b->records)
                if (has_field(*r, "AGENTBOX_EVENT", "egress-denied") && (!field || strstr(*r, field))) {
                        const char *count = strstr(*r, "\nAGENTBOX_COUNT=");

                        assert_non_null(count);
                        sum += strtoull(count + strlen("\nAGENTBOX_COUNT="), NULL, 10);
                }
        return sum;
}

void box_expect(Box *b, const char *event, size_t n)
{
        for (unsigned i = 0; i < PATIENCE_MSEC / 10; i++) {
                box_read_records(b);
                if (box_count(b, event) >= n)
                        break;
                poll(NULL, 0, 10);
        }
        if (box_count(b, event) == n)
                return;
        STRV_FOREACH(r, b->records)
                print_message("%s\n", *r);
        fail_msg("%zu records of %s, not %zu", box_count(b, event), event, n);
}

void assert_field(const char *record, const char *name, const char *value)
{
        assert_non_null(record);
        if (!has_field(record, name, value))
                fail_msg("no %s=%s in %s", name, value, record);
}

void assert_no_field(const char *record, const char *name)
{
        char field[128];

        assert_non_null(record);
        snprintf(field, sizeof(field), "\n%s=", name);
        if (strstr(record, field))
                fail_msg("%s in %s", name, record);
}

int box_stop(Box *b)
{
        int status;

        kill(b->pid, SIGTERM);
        for (unsigned i = 0; waitpid(b->pid, &status, WNOHANG) == 0; i++) {
                if (i >= PATIENCE_MSEC / 10)
                        fail_msg("the warden does not end");
                box_read_records(b);
                poll(NULL, 0, 10);
        }
        b->pid = 0;
        box_read_records(b);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
