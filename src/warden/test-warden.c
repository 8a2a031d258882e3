/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macro.h"
#include "test-warden-harness.h"
#include "warden/warden-tls.h"

#define RULES(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* ---- what ends well */

static void test_allowed_tls(void **state)
{
        NEED_FIXTURE(f);
        char pid[16], bytes[16];
        uint8_t hello[1024];
        size_t n = make_hello(NAME_WORLD, hello) + 4;
        const char *r;
        pid_t client;
        Box b;

        box_start(&b, f, &(Options){ .rules = RULES("tls " NAME_WORLD) });
        assert_int_equal(b.ready.error, 0);
        client = run_inside(f, talk_tls, NAME_WORLD);
        box_expect(&b, "egress-closed", 1);
        box_expect(&b, "egress-allowed", 1);
        snprintf(pid, sizeof(pid), "%i", (int) client);
        snprintf(bytes, sizeof(bytes), "%zu", n);

        r = box_record(&b, "egress-allowed", 0);
        assert_field(r, "MESSAGE_ID", "c5824184af084f7391a8a78aa9d3602e");
        assert_field(r, "PRIORITY", "6");
        assert_field(r, "SYSLOG_IDENTIFIER", "agentbox-warden");
        assert_field(r, "AGENTBOX_RUN_ID", "4f7k2m9qxa");
        assert_field(r, "AGENTBOX_POLICY", "test");
        assert_field(r, "AGENTBOX_CALLER_UID", "1000");
        assert_field(r, "AGENTBOX_UNIT", "agentbox-4f7k2m9qxa.service");
        assert_field(r, "AGENTBOX_DEST_NAME", NAME_WORLD);
        assert_field(r, "AGENTBOX_DEST_ADDR", WORLD_IPV4);
        assert_field(r, "AGENTBOX_DEST_PORT", "443");
        assert_field(r, "AGENTBOX_PROTO", "tls");
        assert_field(r, "AGENTBOX_RULE", "tls " NAME_WORLD);
        assert_field(r, "AGENTBOX_PID", pid);
        assert_field(r, "AGENTBOX_COMM", INSIDE_COMM);

        r = box_record(&b, "egress-closed", 0);
        assert_field(r, "AGENTBOX_REASON", "closed");
        assert_field(r, "AGENTBOX_DEST_ADDR", WORLD_IPV4);
        assert_field(r, "AGENTBOX_BYTES_SENT", bytes);
        assert_field(r, "AGENTBOX_BYTES_RECEIVED", bytes);
        assert_int_equal(b.tally->allowed, 1);
        assert_int_equal(b.tally->denied, 0);
        assert_int_equal(b.tally->bytes_sent, n);
        assert_int_equal(b.tally->bytes_received, n);
        assert_int_equal(box_stop(&b), 0);
        assert_int_equal(box_count(&b, "egress-denied"), 0);
        box_done(&b);
}

/* ---- what does not */

static int meet_reset(const void *argument)
{
        const char *address = argument;
        char byte;
        int fd = connect_to(address, 443);

        /* The reset may come before connect() returns. */
        CHECK(fd >= 0 || errno == ECONNRESET);
        if (fd >= 0) {
                CHECK(read_all(fd, &byte, 1) == -ECONNRESET);
                close(fd);
        }
        return 0;
}

static void test_no_rule(void **state)
{
        NEED_FIXTURE(f);
        const char *r;
        Box b;

        box_start(&b, f, &(Options){ .rules = NULL });
        run_inside(f, meet_reset, "1.2.3.4");
        run_inside(f, meet_reset, "2001:db8::1");
        run_inside(f, meet_reset, "169.254.169.254");
        assert_int_equal(b.tally->denied, 3);
        box_expect(&b, "egress-denied", 3);
        r = box_record(&b, "egress-denied", 0);
        assert_field(r, "AGENTBOX_DEST_ADDR", "1.2.3.4");
        assert_field(r, "AGENTBOX_DEST_PORT", "443");
        assert_field(r, "AGENTBOX_REASON", "no-rule");
        assert_field(r, "AGENTBOX_COUNT", "1");
        assert_field(r, "AGENTBOX_COMM", INSIDE_COMM);
        assert_field(r, "PRIORITY", "5");
        assert_no_field(r, "AGENTBOX_DEST_NAME");
        assert_field(box_record(&b, "egress-denied", 1), "AGENTBOX_DEST_ADDR", "2001:db8::1");
        r = box_record(&b, "egress-denied", 2);
        assert_field(r, "AGENTBOX_REASON", "metadata");
        assert_field(r, "PRIORITY", "4");
        assert_int_equal(b.tally->denied_on_record, 3);
        assert_int_equal(b.tally->n_top, 3);
        assert_string_equal(b.tally->top[0], "1.2.3.4:443");
        assert_string_equal(b.tally->top[1], "[2001:db8::1]:443");
        assert_int_equal(box_stop(&b), 0);
        box_done(&b);
}

/* Connections that whoever makes them sees to that nothing is ever accepted of. */

#define GIVEN_UP 5

typedef struct GivenUp {
        const char *address;
        uint16_t port;
        int level, option, value; /* set before connecting */
} GivenUp;

static int give_up(const void *argument)
{
        const GivenUp *g = argument;
        const struct linger now = { .l_onoff = 1 };
        const int one = 1;
        Address source, to;

        for (unsigned i = 0; i < GIVEN_UP; i++) {
                int fd, family = strchr(g->address, ':') ? AF_INET6 : AF_INET;
                socklen_t n = make_address(family == AF_INET ? "192.0.2.2" : "fd00:ab::2", 5000, &source);

                fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
                CHECK(fd >= 0 && setsockopt(fd, g->level, g->option, &g->value, sizeof(int)) == 0);
                CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) == 0);
                /* Always from the same place: one cannot be taken for another one that was sent again. */
                CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0);
                CHECK(bind(fd, &source.any, n) == 0);
                n = make_address(g->address, g->port, &to);
                CHECK(connect(fd, &to.any, n) < 0 && errno == EINPROGRESS);
                close(fd);
        }
        return 0;
}

static void test_given_up(void **state)
{
        NEED_FIXTURE(f);
        static const GivenUp rows[] = {
                { "1.2.3.4", 443, IPPROTO_TCP, TCP_DEFER_ACCEPT, 5 },
                { "2001:db8::1", 443, IPPROTO_TCP, TCP_QUICKACK, 0 },
                { "1.2.3.5", 80, IPPROTO_IP, IP_MINTTL, 255 },
                { "169.254.169.254", 80, IPPROTO_TCP, TCP_DEFER_ACCEPT, 5 },
                { "9.9.9.9", 53, IPPROTO_TCP, TCP_DEFER_ACCEPT, 5 }, /* on record at the end, as is the next */
                { WORLD_IPV4, 443, IPPROTO_TCP, TCP_DEFER_ACCEPT, 5 },
        };
        Box b;

        box_start(&b, f, &(Options){ .rules = RULES("tcp " WORLD_IPV4 ":443") });
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                run_inside(f, give_up, rows + i);
        assert_int_equal(box_stop(&b), 0);
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                char field[80];

                snprintf(field, sizeof(field), "\nAGENTBOX_DEST_ADDR=%s\n", rows[i].address);
                assert_int_equal(box_denied(&b, field), GIVEN_UP);
        }
        assert_int_equal(b.tally->denied, GIVEN_UP * ELEMENTSOF(rows));
        assert_int_equal(b.tally->denied_on_record, GIVEN_UP * ELEMENTSOF(rows));
        assert_int_equal(box_denied(&b, "\nAGENTBOX_REASON=metadata\n"), GIVEN_UP);
        assert_int_equal(box_denied(&b, "\nAGENTBOX_REASON=malformed\n"), GIVEN_UP);
        assert_int_equal(box_denied(&b, "\nAGENTBOX_REASON=connect-failed\n"), GIVEN_UP);
        assert_int_equal(b.tally->allowed, 0);
        box_done(&b);
}

/* What each attempt must come to. */

typedef enum Outcome { RESET, ALERT, CLOSED } Outcome;

typedef struct Denied {
        const char *label;
        const char *name, *address; /* one of them */
        uint16_t port;
        const void *sent;
        size_t n_sent;
        const char *hello; /* sent as a ClientHello */
        Outcome outcome;
        const char *reason, *proto, *dest_name, *dest_address, *asked, *priority;
} Denied;

static int meet_denial(const void *argument)
{
        const Denied *d = argument;
        uint8_t bytes[1024], hello[1024];
        size_t n = d->hello ? make_hello(d->hello, hello) : d->n_sent;
        int fd = d->name ? connect_name(d->name, d->port) : connect_to(d->address, d->port);

        if (fd < 0 && errno == ECONNRESET && d->outcome == RESET)
                return 0;
        CHECK(fd >= 0);
        if (n > 0 && send(fd, d->hello ? hello : d->sent, n, MSG_NOSIGNAL) < 0)
                CHECK(d->outcome == RESET && (errno == ECONNRESET || errno == EPIPE));
        switch (d->outcome) {
        case RESET:
                CHECK(read_all(fd, bytes, 1) == -ECONNRESET);
                break;
        case ALERT:
                CHECK(read_all(fd, bytes, sizeof(bytes)) == sizeof(tls_alert_access_denied));
                CHECK(memcmp(bytes, tls_alert_access_denied, sizeof(tls_alert_access_denied)) == 0);
                break;
        case CLOSED:
                CHECK(read_all(fd, bytes, 1) == 0);
                break;
        }
        close(fd);
        return 0;
}

#define TEXT(s) .sent = (s), .n_sent = sizeof(s) - 1

static const char *const denied_rules[] = {
        "tls " NAME_WORLD, "tls *.wild.example", "tcp " NAME_PRIVATE ":4001", "tcp " NAME_MIXED ":4999",
        "tcp " NAME_METADATA ":4001", "tcp " NAME_HOST ":4001", "tcp " NAME_FAIL ":4001", "tcp " NAME_BROADCAST ":4001",
        "tcp " NAME_WORLD ":4999", "tcp " NAME_WORLD ":4004", "tcp " HOST_IPV4 ":4001",
        "tcp 128.0.0.0/1:4001", "tcp " WORLD_IPV4 ":4001", "tcp 203.0.113.5:4001",
        "tcp 10.1.2.255:4001", NULL,
};

static const Denied denied[] = {
        { "a literal address", .address = "1.2.3.4", .port = 443, .reason = "no-rule", .proto = "tcp",
                        .dest_address = "1.2.3.4" },
        { "the wrong port of a name", .name = NAME_WORLD, .port = 22, .reason = "port", .proto = "tcp",
                        .dest_name = NAME_WORLD },
        { "the wrong port of an address", .address = WORLD_IPV4, .port = 4000, .reason = "port", .proto = "tcp",
                        .dest_address = WORLD_IPV4 },
        { "an address that was never given out", .address = "198.19.255.254", .port = 443, .reason = "no-mapping",
                        .proto = "tcp", .dest_address = "198.19.255.254" },
        { "another name in the hello", .name = NAME_WORLD, .port = 443, .hello = "evil.example", .outcome = ALERT,
                        .reason = "sni-mismatch", .proto = "tls", .dest_name = NAME_WORLD, .asked = "evil.example" },
        { "another name under the wildcard", .name = "a.wild.example", .port = 443, .hello = "b.wild.example",
                        .outcome = ALERT, .reason = "sni-mismatch", .proto = "tls", .dest_name = "a.wild.example",
                        .asked = "b.wild.example" },
        { "an address in the hello", .name = NAME_WORLD, .port = 443, .hello = "1.2.3.4", .outcome = ALERT,
                        .reason = "sni-bad", .proto = "tls", .dest_name = NAME_WORLD },
        { "no TLS", .name = NAME_WORLD, .port = 443, TEXT("SSH-2.0-OpenSSH_9\r\n"), .reason = "not-tls", .proto = "tls",
                        .dest_name = NAME_WORLD },
        { "a private address", .name = NAME_PRIVATE, .port = 4001, .reason = "addr-blocked", .proto = "tcp",
                        .dest_name = NAME_PRIVATE, .dest_address = WORLD_PRIVATE_IPV4 },
        { "metadata and a private address", .name = NAME_METADATA, .port = 4001, .reason = "metadata", .proto = "tcp",
                        .dest_name = NAME_METADATA, .dest_address = "169.254.169.254", .priority = "4" },
        { "the host's own address by name", .name = NAME_HOST, .port = 4001, .reason = "host-local", .proto = "tcp",
                        .dest_name = NAME_HOST, .dest_address = HOST_IPV4 },
        { "broadcast by name", .name = NAME_BROADCAST, .port = 4001, .reason = "addr-blocked", .proto = "tcp",
                        .dest_name = NAME_BROADCAST, .dest_address = "93.184.216.255" },
        { "broadcast of a private net by address", .address = "10.1.2.255", .port = 4001, .reason = "addr-blocked",
                        .proto = "tcp", .dest_address = "10.1.2.255" },
        { "a name that cannot be resolved", .name = NAME_FAIL, .port = 4001, .reason = "resolve-failed", .proto = "tcp",
                        .dest_name = NAME_FAIL },
        { "nobody there", .name = NAME_WORLD, .port = 4999, .reason = "connect-failed", .proto = "tcp",
                        .dest_name = NAME_WORLD, .dest_address = WORLD_IPV4 },
        { "private first, then nobody there", .name = NAME_MIXED, .port = 4999, .reason = "connect-failed", .proto = "tcp",
                        .dest_name = NAME_MIXED, .dest_address = WORLD_IPV4 },
        { "the host's own address by a rule", .address = HOST_IPV4, .port = 4001, .reason = "host-local", .proto = "tcp",
                        .dest_address = HOST_IPV4 },
        { "metadata in a rule's prefix", .address = "169.254.169.254", .port = 4001, .reason = "metadata", .proto = "tcp",
                        .dest_address = "169.254.169.254", .priority = "4" },
        { "class E by a rule", .address = "240.0.0.1", .port = 4001, .reason = "addr-blocked", .proto = "tcp",
                        .dest_address = "240.0.0.1" },
        { "no route", .address = "203.0.113.5", .port = 4001, .reason = "connect-failed", .proto = "tcp",
                        .dest_address = "203.0.113.5" },
};

static void test_denied(void **state)
{
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f, &(Options){ .rules = denied_rules });
        assert_int_equal(b.ready.error, 0);
        for (size_t i = 0; i < ELEMENTSOF(denied); i++) {
                const Denied *d = denied + i;
                const char *r;

                print_message("# %s\n", d->label);
                run_inside(f, meet_denial, d);
                assert_int_equal(b.tally->denied, i + 1);
                box_expect(&b, "egress-denied", i + 1);
                r = box_record(&b, "egress-denied", i);
                assert_field(r, "AGENTBOX_REASON", d->reason);
                assert_field(r, "AGENTBOX_PROTO", d->proto);
                assert_field(r, "AGENTBOX_COUNT", "1");
                assert_field(r, "AGENTBOX_COMM", INSIDE_COMM);
                assert_field(r, "PRIORITY", d->priority ?: "5");
                if (d->dest_name)
                        assert_field(r, "AGENTBOX_DEST_NAME", d->dest_name);
                else
                        assert_no_field(r, "AGENTBOX_DEST_NAME");
                if (d->dest_address)
                        assert_field(r, "AGENTBOX_DEST_ADDR", d->dest_address);
                else
                        assert_no_field(r, "AGENTBOX_DEST_ADDR");
                if (d->asked)
                        assert_field(r, "AGENTBOX_ASKED_NAME", d->asked);
        }
        assert_int_equal(box_stop(&b), 0);
        assert_int_equal(box_count(&b, "egress-allowed"), 0);
        assert_int_equal(b.tally->denied_on_record, ELEMENTSOF(denied));
        assert_int_equal(b.tally->bytes_sent, 0);
        box_done(&b);
}

/* ---- names and addresses that are allowed */

typedef struct Sink {
        const char *name, *address;
        const char *dest_address;
} Sink;

static int talk_sink(const void *argument)
{
        const Sink *s = argument;
        char back[32] = "";
        int fd = s->name ? connect_name(s->name, PORT_SINK) : connect_to(s->address, PORT_SINK);

        CHECK(fd >= 0 && send(fd, "12345", 5, 0) == 5 && shutdown(fd, SHUT_WR) == 0);
        CHECK(read_all(fd, back, sizeof(back) - 1) == 1 && strcmp(back, "5") == 0);
        close(fd);
        return 0;
}

static void test_allowed_destinations(void **state)
{
        static const Sink sinks[] = {
                { .name = NAME_WORLD, .dest_address = WORLD_IPV4 },
                { .name = NAME_WORLD6, .dest_address = WORLD_IPV6 },
                { .name = NAME_BOTH, .dest_address = WORLD_IPV4 },       /* the first does not answer */
                { .name = NAME_MIXED, .dest_address = WORLD_IPV4 },      /* the first is private */
                { .name = NAME_PRIVATE, .dest_address = WORLD_PRIVATE_IPV4 }, /* and that is allowed */
                { .address = WORLD_PRIVATE_IPV4, .dest_address = WORLD_PRIVATE_IPV4 },
                { .address = WORLD_IPV6, .dest_address = WORLD_IPV6 },
        };
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f,
                        &(Options){ .rules = RULES("tcp " NAME_WORLD ":4001", "tcp " NAME_WORLD6 ":4001",
                                                    "tcp " NAME_BOTH ":4001", "tcp " NAME_MIXED ":4001",
                                                    "tcp " NAME_PRIVATE ":4001 private=allow", "tcp 10.0.0.0/8:4001",
                                                    "tcp [" WORLD_IPV6 "]:4001") });
        for (size_t i = 0; i < ELEMENTSOF(sinks); i++) {
                run_inside(f, talk_sink, sinks + i);
                box_expect(&b, "egress-closed", i + 1);
                assert_field(box_record(&b, "egress-allowed", i), "AGENTBOX_DEST_ADDR", sinks[i].dest_address);
                assert_field(box_record(&b, "egress-closed", i), "AGENTBOX_BYTES_SENT", "5");
                assert_field(box_record(&b, "egress-closed", i), "AGENTBOX_BYTES_RECEIVED", "1");
        }
        assert_int_equal(box_stop(&b), 0);
        assert_int_equal(box_count(&b, "egress-denied"), 0);
        box_done(&b);
}

/* ---- what the kernel refuses */

static int send_datagrams(const void *argument)
{
        Address a;
        socklen_t n = make_address("1.2.3.4", 443, &a);
        int fd = socket(AF_INET, SOCK_DGRAM, 0);

        for (unsigned i = 0; i < 3; i++)
                CHECK(sendto(fd, "x", 1, 0, &a.any, n) == 1);
        n = make_address("169.254.169.254", 80, &a);
        CHECK(sendto(fd, "x", 1, 0, &a.any, n) == 1);
        close(fd);
        return 0;
}

static void test_refused_by_kernel(void **state)
{
        NEED_FIXTURE(f);
        const char *r;
        Box b;

        box_start(&b, f, &(Options){ .rules = NULL });
        run_inside(f, send_datagrams, NULL);
        box_expect(&b, "egress-denied", 4);
        r = box_record(&b, "egress-denied", 0);
        assert_field(r, "AGENTBOX_PROTO", "udp");
        assert_field(r, "AGENTBOX_DEST_ADDR", "1.2.3.4");
        assert_field(r, "AGENTBOX_DEST_PORT", "443");
        assert_field(r, "AGENTBOX_REASON", "no-rule");
        assert_field(r, "AGENTBOX_COMM", INSIDE_COMM);
        r = box_record(&b, "egress-denied", 3);
        assert_field(r, "AGENTBOX_REASON", "metadata");
        assert_field(r, "PRIORITY", "4");
        assert_int_equal(box_stop(&b), 0);
        box_done(&b);
}

/* ---- resolvers that fail */

static int meet_resets(const void *argument)
{
        for (const char *const *name = argument; *name; name++) {
                const Denied d = { .name = *name, .port = 4001, .outcome = RESET };

                CHECK(meet_denial(&d) == 0);
        }
        return 0;
}

static void test_resolver_fails(void **state)
{
        static const char *const culprits[] = { NAME_SILENT, NAME_DEADLY, NAME_GARBAGE };
        NEED_FIXTURE(f);

        for (size_t i = 0; i < ELEMENTSOF(culprits); i++) {
                char rule[64];
                Box b;

                snprintf(rule, sizeof(rule), "tcp %s:4001", culprits[i]);
                box_start(&b, f, &(Options){ .rules = RULES(rule, "tcp " NAME_WORLD ":4001") });
                run_inside(f, meet_resets, ((const char *const[]){ culprits[i], i > 0 ? NAME_WORLD : NULL, NULL }));
                box_expect(&b, "egress-denied", i > 0 ? 2 : 1);
                assert_field(box_record(&b, "egress-denied", 0), "AGENTBOX_REASON", "resolve-failed");
                assert_int_equal(box_stop(&b), 0);
                box_done(&b);
        }
}

/* ---- the upstream proxy */

static int talk_proxy(const void *argument)
{
        static const char want[] = "CONNECT " NAME_WORLD ":4001 HTTP/1.1";
        char back[256];
        int fd = connect_name(NAME_WORLD, 4001);

        CHECK(fd >= 0);
        CHECK(read_all(fd, back, strlen(want)) == (ssize_t) strlen(want) && memcmp(back, want, strlen(want)) == 0);
        CHECK(send(fd, "echo", 4, 0) == 4 && read_all(fd, back, 4) == 4 && memcmp(back, "echo", 4) == 0);
        close(fd);
        fd = connect_to(WORLD_IPV6, 4001);
        CHECK(fd >= 0);
        CHECK(read_all(fd, back, 40) == 40 && memcmp(back, "CONNECT [" WORLD_IPV6 "]:4001", 8 + strlen(WORLD_IPV6) + 7) == 0);
        close(fd);
        return 0;
}

static void test_proxy(void **state)
{
        static const Denied cases[] = {
                { .name = "refused.example", .port = 4001, .outcome = RESET },
                { .address = HOST_IPV4, .port = 4001, .outcome = RESET },
                { .address = "169.254.1.1", .port = 4001, .outcome = RESET },
        };
        NEED_FIXTURE(f);
        const char *hosts[] = { WORLD_PRIVATE_IPV4, NAME_PRIVATE };
        Box b;

        for (size_t i = 0; i < ELEMENTSOF(hosts); i++) {
                box_start(&b, f,
                                &(Options){ .rules = RULES("tcp " NAME_WORLD ":4001", "tcp [" WORLD_IPV6 "]:4001",
                                                            "tcp refused.example:4001", "tcp " HOST_IPV4 ":4001",
                                                            "tcp 169.0.0.0/8:4001"),
                                                .proxy_host = hosts[i] });
                assert_int_equal(b.ready.error, 0);
                run_inside(f, talk_proxy, NULL);
                box_expect(&b, "egress-allowed", 2);
                assert_no_field(box_record(&b, "egress-allowed", 0), "AGENTBOX_DEST_ADDR");
                for (size_t k = 0; k < ELEMENTSOF(cases); k++)
                        run_inside(f, meet_denial, cases + k);
                box_expect(&b, "egress-denied", 3);
                assert_field(box_record(&b, "egress-denied", 0), "AGENTBOX_REASON", "proxy-failed");
                assert_field(box_record(&b, "egress-denied", 1), "AGENTBOX_REASON", "host-local");
                assert_field(box_record(&b, "egress-denied", 2), "AGENTBOX_REASON", "metadata");
                assert_int_equal(box_stop(&b), 0);
                box_done(&b);
        }
        box_start(&b, f, &(Options){ .rules = RULES("tcp " NAME_WORLD ":4001"), .proxy_host = "169.254.169.254" });
        run_inside(f, meet_denial, &(Denied){ .name = NAME_WORLD, .port = 4001, .outcome = RESET });
        box_expect(&b, "egress-denied", 1);
        assert_field(box_record(&b, "egress-denied", 0), "AGENTBOX_REASON", "metadata");
        assert_int_equal(box_stop(&b), 0);
        box_done(&b);
}

/* ---- what the broker learns */

static void test_start(void **state)
{
        NEED_FIXTURE(f);
        char message[64];
        Box b;

        box_start(&b, f, &(Options){ .watchdog_usec = 300000 });
        assert_int_equal(b.ready.error, 0);
        assert_string_equal(b.ready.stage, "");
        assert_int_equal(b.hello.uid, 0);
        assert_int_equal(b.hello.netns_inode != f->wall.netns_inode, true);
        assert_int_equal(b.hello.canary_loopback, 0); /* no unit, no filter */
        assert_int_equal(b.hello.canary_metadata, ECANCELED);
        assert_true(b.hello.capabilities != 0);
        for (unsigned i = 0; i < 3; i++) {
                assert_int_equal(wait_readable(b.notify), 0);
                assert_int_equal(recv(b.notify, message, sizeof(message), 0), strlen("WATCHDOG=1"));
                assert_memory_equal(message, "WATCHDOG=1", strlen("WATCHDOG=1"));
        }
        /* The broker may go. */
        close(b.channel);
        b.channel = -1;
        run_inside(f, meet_reset, "1.2.3.4");
        box_expect(&b, "egress-denied", 1);
        assert_int_equal(box_stop(&b), 0);
        box_done(&b);
}

/* The unit gives it longer to start; once it works it is to be watched closely, or not to work. */
static void test_watchdog(void **state)
{
        NEED_FIXTURE(f);
        char message[64], wanted[64];
        Box b;
        ssize_t n;

        snprintf(wanted, sizeof(wanted), "WATCHDOG_USEC=%llu", (unsigned long long) EGRESS_WATCHDOG_USEC);
        box_start(&b, f, &(Options){ .watchdog_usec = 9 * EGRESS_WATCHDOG_USEC });
        assert_int_equal(b.ready.error, 0);
        n = recv(b.notify, message, sizeof(message), 0);
        assert_int_equal(n, strlen(wanted));
        assert_memory_equal(message, wanted, strlen(wanted));
        assert_int_equal(box_stop(&b), 0);
        box_done(&b);

        box_start(&b, f, &(Options){ .watchdog_usec = 9 * EGRESS_WATCHDOG_USEC, .full_notify = true });
        assert_int_equal(b.ready.error, EAGAIN);
        assert_string_equal(b.ready.stage, "loop");
        box_done(&b);
}

static void test_resolver_missing(void **state)
{
        static const char *const missing[] = { "/nonexistent", "/bin/true" };
        NEED_FIXTURE(f);

        for (size_t i = 0; i < ELEMENTSOF(missing); i++) {
                int status;
                Box b;

                box_start(&b, f, &(Options){ .rules = RULES("tls " NAME_WORLD), .resolver = missing[i] });
                assert_int_not_equal(b.ready.error, 0);
                assert_int_equal(waitpid(b.pid, &status, 0), b.pid);
                b.pid = 0;
                assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
                box_done(&b);
        }
}

int main(int argc, char *argv[])
{
        const struct CMUnitTest tests[] = {
                WORLD_TEST(test_start),
                WORLD_TEST(test_watchdog),
                WORLD_TEST(test_resolver_missing),
                WORLD_TEST(test_allowed_tls),
                WORLD_TEST(test_no_rule),
                WORLD_TEST(test_given_up),
                WORLD_TEST(test_denied),
                WORLD_TEST(test_allowed_destinations),
                WORLD_TEST(test_refused_by_kernel),
                WORLD_TEST(test_resolver_fails),
                WORLD_TEST(test_proxy),
        };

        return world_run(argc, argv, tests, ELEMENTSOF(tests));
}
