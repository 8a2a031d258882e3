/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/seg6.h>
#include <netinet/ip_icmp.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/io.h"
#include "test-wall-harness.h"

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif
#define SEGMENT_ROUTING 4 /* type of routing header (RFC 8754) */
#ifndef IPPROTO_UDPLITE
#define IPPROTO_UDPLITE 136
#endif

/* What is refused without the warden: with which error, and that there is exactly one event of each attempt.
 */

typedef enum Trait {
        CONNECTED = 1, /* connect, send, then what the next call says */
        BROADCAST = 2, /* with SO_BROADCAST */
        BOUND = 4,  /* while a socket inside is bound to that port of every address, which must not get it */
        SILENT = 8, /* no event */
        UNSENT = 16,   /* connect and no more */
        LENIENT = 32,  /* a kernel without that protocol is no failure */
        NAMELESS = 64, /* the kernel asks no program about its connect */
} Trait;

typedef struct Attempt {
        int type, protocol;
        const char *to;
        uint16_t port;
        int traits;
        int error;         /* of the connect, of the send, or of the call after it */
        const char *event; /* the event's address; NULL: as it was given, without a zone */
} Attempt;

static const Attempt attempts[] = {
        /* QUIC falls back at once. */
        { SOCK_DGRAM, 0, "1.2.3.4", 443, CONNECTED, ECONNREFUSED },
        { SOCK_DGRAM, 0, "2001:db8::1", 443, CONNECTED, ECONNREFUSED },
        { SOCK_DGRAM, 0, "::ffff:1.2.3.4", 443, CONNECTED, ECONNREFUSED, "1.2.3.4" },
        { SOCK_DGRAM, 0, "1.2.3.4", 443, CONNECTED | BOUND, ECONNREFUSED },
        { SOCK_DGRAM, 0, "2001:db8::1", 443, CONNECTED | BOUND, ECONNREFUSED },
        { SOCK_DGRAM, 0, "192.0.2.1", 443, CONNECTED, ECONNREFUSED },
        { SOCK_DGRAM, 0, "169.254.169.254", 80, CONNECTED, ECONNREFUSED },
        { SOCK_DGRAM, 0, "1.2.3.4", 0, CONNECTED, ECONNREFUSED },
        { SOCK_DGRAM, 0, "1.2.3.4", 443, 0, 0 },
        { SOCK_DGRAM, 0, "1.2.3.4", 123, BOUND, 0 },
        { SOCK_DGRAM, 0, "2001:db8::1", 443, 0, 0 },
        { SOCK_DGRAM, 0, "fe80::1%1", 443, 0, 0 },
        { SOCK_DGRAM, 0, "::ffff:1.2.3.4", 443, 0, 0, "1.2.3.4" },
        /* The C library asks so for its own address: not an attempt. */
        { SOCK_DGRAM, 0, "1.2.3.4", 443, UNSENT | SILENT, 0 },
        { SOCK_DGRAM, 0, "2001:db8::1", 443, UNSENT | SILENT, 0 },
        { SOCK_DGRAM, 0, "224.0.0.251", 5353, UNSENT | SILENT, 0 },
        { SOCK_DGRAM, 0, "ff02::fb%1", 5353, UNSENT | SILENT, 0 },
        /* Everybody at once. */
        { SOCK_DGRAM, 0, "224.0.0.251", 5353, 0, 0 },
        { SOCK_DGRAM, 0, "224.0.0.251", 53, 0, 0 },
        { SOCK_DGRAM, 0, "239.255.255.250", 1900, BOUND, 0 },
        { SOCK_DGRAM, 0, "ff02::fb%1", 5353, 0, 0 },
        { SOCK_DGRAM, 0, "ff02::fb%1", 53, 0, 0 },
        { SOCK_DGRAM, 0, "255.255.255.255", 67, BROADCAST, 0 },
        { SOCK_DGRAM, 0, "255.255.255.255", 53, BROADCAST, 0 },
        { SOCK_DGRAM, 0, "255.255.255.255", 67, SILENT, EACCES }, /* no way to be sent */
        { SOCK_DGRAM, 0, "0.1.2.3", 443, CONNECTED, ECONNREFUSED },
        { SOCK_STREAM, 0, "224.0.0.1", 80, 0, ENETUNREACH },
        { SOCK_STREAM, 0, "239.1.2.3", 80, 0, ENETUNREACH },
        { SOCK_STREAM, 0, "255.255.255.255", 80, 0, ENETUNREACH },
        { SOCK_STREAM, 0, "ff02::1%1", 80, 0, ENETUNREACH },
        { SOCK_STREAM, 0, "ff0e::1", 80, 0, ENETUNREACH },
        { SOCK_STREAM, 0, "ff0e:1:2:3:4:5:6:7", 80, 0, ENETUNREACH },
        { SOCK_STREAM, 0, "::ffff:224.0.0.1", 80, 0, ENETUNREACH, "224.0.0.1" },
        { SOCK_STREAM, 0, "fe80::1", 80, 0, EINVAL },
        { SOCK_STREAM, 0, "fe80::1%1", 80, 0, ECONNREFUSED },
        { SOCK_STREAM, 0, "febf::1%1", 80, 0, ECONNREFUSED },
        { SOCK_STREAM, IPPROTO_MPTCP, "224.0.0.1", 80, LENIENT, ENETUNREACH },
        { SOCK_STREAM, IPPROTO_MPTCP, "fe80::1%1", 80, LENIENT, ECONNREFUSED },
        { SOCK_DGRAM, IPPROTO_UDPLITE, "1.2.3.4", 53, CONNECTED | LENIENT | NAMELESS, ECONNREFUSED },
        { SOCK_DGRAM, IPPROTO_UDPLITE, "2001:db8::1", 443, CONNECTED | LENIENT | NAMELESS, ECONNREFUSED },
};

static int bind_everywhere(int family, uint16_t port)
{
        Address any;
        socklen_t n = make_address(family == AF_INET ? "0.0.0.0" : "::", port, &any);
        int fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK, 0);

        return fd < 0 || bind(fd, &any.any, n) < 0 ? -1 : fd;
}

/* What the attempt comes to: 0 or errno. */
static int attempt(const Attempt *a, int fd, const Address *to, socklen_t n)
{
        int one = 1;

        if ((a->traits & BROADCAST) && setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &one, sizeof(one)) < 0)
                return errno;
        if (a->type == SOCK_STREAM || (a->traits & (UNSENT | CONNECTED))) {
                if (connect(fd, &to->any, n) < 0)
                        return errno;
                if (!(a->traits & CONNECTED))
                        return 0;
                if (send(fd, "x", 1, 0) != 1)
                        return errno;
                return wait_readable(fd) != 0 ? ETIMEDOUT : recv(fd, &(char){ 0 }, 1, 0) < 0 ? errno : 0;
        }
        return sendto(fd, "x", 1, 0, &to->any, n) == 1 ? 0 : errno;
}

static int inside_attempt(const void *argument)
{
        const Attempt *a = argument;
        Address to;
        socklen_t n = make_address(a->to, a->port, &to);
        int fd = socket(to.any.sa_family, a->type, a->protocol), bound = -1, error;

        if (fd < 0)
                return (a->traits & LENIENT) && errno == EPROTONOSUPPORT ? 77 : 200;
        if (a->traits & BOUND) {
                bound = bind_everywhere(to.any.sa_family, a->port);
                if (bound < 0)
                        return 201;
        }
        error = attempt(a, fd, &to, n);
        if (error != a->error) {
                dprintf(STDERR_FILENO, "# error %i instead of %i\n", error, a->error);
                return 202;
        }
        return bound >= 0 && recv(bound, &(char){ 0 }, 1, 0) >= 0 ? 203 : 0;
}

static uint8_t event_protocol(const Attempt *a)
{
        return a->type == SOCK_STREAM ? IPPROTO_TCP : a->protocol ? (uint8_t) a->protocol : IPPROTO_UDP;
}

static void check_attempt(Fixture *f, const Attempt *a)
{
        pid_t pid = start_inside(f, inside_attempt, a);
        char text[64];
        int status = wait_inside(pid);

        if (status == 77)
                return;
        if (status != 0)
                fail_msg("%s port %u, type %i protocol %i: %i", a->to, a->port, a->type, a->protocol,
                                status);
        snprintf(text, sizeof(text), "%s", a->event ? a->event : a->to);
        text[strcspn(text, "%")] = 0;
        if (!(a->traits & SILENT)) {
                bool has_ports = event_protocol(a) != IPPROTO_UDPLITE;

                expect_event(f, EGRESS_EVENT_DENIED, event_protocol(a), text, has_ports ? a->port : 0,
                                a->traits & NAMELESS ? 0 : pid);
        }
        expect_no_event(f);
}

static void test_attempts(void **state)
{
        NEED_FIXTURE(f);

        for (size_t i = 0; i < ELEMENTSOF(attempts); i++)
                if (has_address(f, attempts[i].to))
                        check_attempt(f, attempts + i);
        for (size_t i = 0; i < 2; i++) {
                assert_true(accept(f->wall.tcp[i], NULL, NULL) < 0);
                assert_true(recv(f->wall.dns[i], &(char){ 0 }, 1, 0) < 0);
        }
        assert_int_equal(f->counters->lost_denied, 0);
        assert_int_equal(f->counters->lost_who, 0);
}

/* ---- what needs more than addresses */

static int inside_ping(const void *argument)
{
        const char *to = argument;
        Address a;
        socklen_t n = make_address(to, 0, &a);
        bool ipv6 = a.any.sa_family == AF_INET6;
        struct icmphdr echo = { .type = ipv6 ? 128 : ICMP_ECHO, .un.echo.id = 1 };
        int fd = socket(a.any.sa_family, SOCK_RAW, ipv6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP);
        _cleanup_free_ char *counters = NULL;
        const char *answers;

        if (!ipv6)
                echo.checksum = (uint16_t) ~(htons(ICMP_ECHO << 8) + echo.un.echo.id);
        if (fd < 0 || sendto(fd, &echo, sizeof(echo), 0, &a.any, n) != sizeof(echo))
                return 1;
        /* It arrived, for everything is here, and nobody answered. */
        if (wait_readable(fd) != 0)
                return 2;
        if (read_file(ipv6 ? "/proc/thread-self/net/snmp6" : "/proc/thread-self/net/snmp", 65536, &counters,
                            NULL) < 0)
                return 3;
        if (ipv6) {
                answers = strstr(counters, "Icmp6OutEchoReplies");
                return answers && strtoul(answers + strcspn(answers, " \t"), NULL, 10) == 0 ? 0 : 4;
        }
        answers = strstr(counters, "\nIcmpMsg:");
        return answers && !strstr(answers, "OutType0 ") && strstr(answers, "InType8") ? 0 : 5;
}

static void test_ping(void **state)
{
        NEED_FIXTURE(f);

        run_inside(f, inside_ping, "127.0.0.1");
        expect_no_event(f);
        run_inside(f, inside_ping, "8.8.8.8");
        expect_event(f, EGRESS_EVENT_DENIED, IPPROTO_ICMP, "8.8.8.8", 0, 0);
        if (f->wall.tcp[1] < 0)
                return;
        run_inside(f, inside_ping, "::1");
        expect_no_event(f);
        run_inside(f, inside_ping, "2001:db8::1");
        expect_event(f, EGRESS_EVENT_DENIED, IPPROTO_ICMPV6, "2001:db8::1", 0, 0);
        expect_no_event(f);
}

/* By way of loopback to elsewhere: the first hop is what the header says, and the namespace takes none of
 * it. */
typedef struct SourceRoute {
        int type;
        uint16_t port;
} SourceRoute;

static int inside_source_route_ipv4(const void *argument)
{
        const SourceRoute *row = argument;
        /* No operation, loose source route: 127.0.0.1, then 8.8.8.8. */
        static const uint8_t route[] = { 1, 131, 7, 4, 127, 0, 0, 1 };
        Address a;
        socklen_t n = make_address("8.8.8.8", row->port, &a);
        int fd = socket(AF_INET, row->type | SOCK_NONBLOCK, 0);

        if (setsockopt(fd, IPPROTO_IP, IP_OPTIONS, route, sizeof(route)) < 0)
                return 1;
        if (row->type == SOCK_STREAM)
                return connect(fd, &a.any, n) < 0 && errno == EINPROGRESS ? 0 : 2;
        return sendto(fd, "x", 1, 0, &a.any, n) == 1 ? 0 : 3;
}

static int inside_source_route_ipv6(const void *argument)
{
        const SourceRoute *row = argument;
        _Alignas(struct ipv6_sr_hdr) char
                        space[sizeof(struct ipv6_sr_hdr) + 2 * sizeof(struct in6_addr)] = {};
        struct ipv6_sr_hdr *route = (void *) space;
        Address a;
        socklen_t n = make_address("2001:db8::1", row->port, &a);
        int fd = socket(AF_INET6, SOCK_DGRAM, 0);

        route->hdrlen = 4;
        route->type = SEGMENT_ROUTING;
        route->segments_left = route->first_segment = 1;
        route->segments[0] = a.in6.sin6_addr;
        route->segments[1] = in6addr_loopback;
        if (setsockopt(fd, IPPROTO_IPV6, IPV6_RTHDR, space, sizeof(space)) < 0)
                return 1;
        return sendto(fd, "x", 1, 0, &a.any, n) == 1 ? 0 : 2;
}

static void test_source_routes(void **state)
{
        static const SourceRoute rows[] = { { SOCK_DGRAM, 53 }, { SOCK_DGRAM, 443 }, { SOCK_STREAM, 443 } };
        NEED_FIXTURE(f);

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                bool stream = rows[i].type == SOCK_STREAM;
                pid_t pid = run_inside(f, inside_source_route_ipv4, rows + i);

                expect_event(f, EGRESS_EVENT_DENIED, stream ? IPPROTO_TCP : IPPROTO_UDP, "127.0.0.1",
                                rows[i].port, pid);
                if (f->wall.tcp[1] >= 0 && !stream) {
                        pid = run_inside(f, inside_source_route_ipv6, rows + i);
                        expect_event(f, EGRESS_EVENT_DENIED, IPPROTO_ROUTING, "::1", 0, pid);
                }
                expect_no_event(f);
        }
        for (size_t i = 0; i < 2; i++) {
                assert_true(accept(f->wall.tcp[i], NULL, NULL) < 0);
                assert_true(recv(f->wall.dns[i], &(char){ 0 }, 1, 0) < 0);
        }
}

/* Other headers before the transport's: what is behind them is not looked for, and even its way to the
 * sandbox itself is on record. */
static int inside_header(const void *argument)
{
        const int *protocol = argument;
        static const uint8_t padding[8] = { IPPROTO_UDP, 0, 1, 4 };
        Address a;
        socklen_t n = make_address("::1", 0, &a);
        int fd = socket(AF_INET6, SOCK_RAW, *protocol == IPPROTO_HOPOPTS ? IPPROTO_UDP : *protocol);

        if (*protocol == IPPROTO_HOPOPTS &&
                        setsockopt(fd, IPPROTO_IPV6, IPV6_HOPOPTS, padding, sizeof(padding)) < 0)
                return 1;
        return sendto(fd, padding, sizeof(padding), 0, &a.any, n) == sizeof(padding) ? 0 : 2;
}

static void test_headers(void **state)
{
        static const int protocols[] = { IPPROTO_HOPOPTS, IPPROTO_ROUTING, IPPROTO_FRAGMENT,
                IPPROTO_DSTOPTS };
        NEED_FIXTURE(f);

        if (f->wall.tcp[1] < 0) {
                print_message("skipped: no IPv6 here\n");
                skip();
        }
        for (size_t i = 0; i < ELEMENTSOF(protocols); i++) {
                run_inside(f, inside_header, protocols + i);
                expect_event(f, EGRESS_EVENT_DENIED, (uint8_t) protocols[i], "::1", 0, 0);
                expect_no_event(f);
        }
}

/* ---- a datagram in many fragments is one attempt, and one question */

#define LARGE 9000

static int inside_fragments(const void *argument)
{
        static const char space[LARGE];
        const uint16_t *port = argument;
        Address a;
        socklen_t n = make_address("2001:db8::1", *port, &a);
        int fd = socket(AF_INET6, SOCK_DGRAM, 0), mtu = 1280;

        if (setsockopt(fd, IPPROTO_IPV6, IPV6_MTU, &mtu, sizeof(mtu)) < 0)
                return 1;
        return sendto(fd, space, sizeof(space), 0, &a.any, n) == LARGE ? 0 : 2;
}

static void test_fragments(void **state)
{
        static const uint16_t quic = 443, dns = 53;
        NEED_FIXTURE(f);
        char space[LARGE];

        if (f->wall.tcp[1] < 0) {
                print_message("skipped: no IPv6 here\n");
                skip();
        }
        expect_event(f, EGRESS_EVENT_DENIED, IPPROTO_UDP, "2001:db8::1", quic,
                        run_inside(f, inside_fragments, &quic));
        expect_event(f, EGRESS_EVENT_DNS, IPPROTO_UDP, "2001:db8::1", dns,
                        run_inside(f, inside_fragments, &dns));
        expect_no_event(f);
        assert_int_equal(recv(f->wall.dns[1], space, sizeof(space), MSG_TRUNC), LARGE);
}

/* ---- floods: what the ring has no room for is counted, exactly */

#define FLOOD 20000u

typedef struct Flood {
        uint16_t port;
} Flood;

static int inside_flood(const void *argument)
{
        const Flood *flood = argument;
        Address a;
        socklen_t n = make_address("1.2.3.4", flood->port, &a);
        int fd = socket(AF_INET, SOCK_DGRAM, 0);

        for (unsigned i = 0; i < FLOOD; i++)
                if (sendto(fd, "x", 1, 0, &a.any, n) != 1)
                        return 1;
        return 0;
}

static void check_flood(Fixture *f, uint16_t port, EgressEventKind kind, const uint64_t *lost)
{
        const Flood flood = { port };
        pid_t pid = run_inside(f, inside_flood, &flood);
        unsigned received = 0;
        EgressEvent e;

        for (; next_event(f, &e); received++) {
                assert_int_equal(e.kind, kind);
                assert_int_equal(e.tgid, pid);
        }
        assert_true(received >= EGRESS_RING_SIZE / 72 - 1);
        assert_int_equal(received + *lost, FLOOD);
}

static void test_flood(void **state)
{
        NEED_FIXTURE(f);

        check_flood(f, 443, EGRESS_EVENT_DENIED, &f->counters->lost_denied);
        assert_int_equal(f->counters->lost_who, 0);
        check_flood(f, 53, EGRESS_EVENT_DNS, &f->counters->lost_who);
        /* The ring works again after it. */
        check_attempt(f, attempts);
}

/* ---- the one who connected is named, whoever sends */

static int inside_two_sockets(const void *argument)
{
        Address a;
        socklen_t n = make_address("1.2.3.4", 443, &a);
        int fd = socket(AF_INET, SOCK_DGRAM, 0);
        pid_t child;

        if (connect(fd, &a.any, n) < 0)
                return 1;
        child = fork();
        if (child == 0)
                _exit(send(fd, "x", 1, 0) == 1 ? 0 : 1);
        return wait_inside(child);
}

static void test_inherited(void **state)
{
        NEED_FIXTURE(f);
        pid_t pid = run_inside(f, inside_two_sockets, NULL);

        expect_event(f, EGRESS_EVENT_DENIED, IPPROTO_UDP, "1.2.3.4", 443, pid);
        expect_no_event(f);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, fixture_set_up, fixture_tear_down)
        static const struct CMUnitTest tests[] = {
                TEST(test_attempts),
                TEST(test_ping),
                TEST(test_source_routes),
                TEST(test_headers),
                TEST(test_fragments),
                TEST(test_flood),
                TEST(test_inherited),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
