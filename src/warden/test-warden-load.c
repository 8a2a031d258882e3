/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/macro.h"
#include "test-warden-harness.h"

/* Many at once, and a journal that does not keep up: the sums are exact whatever happens. */

#define RULES(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* ---- floods */

#define NAMES 1000

static int ask_thousand(const void *argument)
{
        char name[128], address[INET6_ADDRSTRLEN];

        for (unsigned i = 0; i < NAMES; i++) {
                snprintf(name, sizeof(name), "x%04u%055u.evil.example", i, 0);
                CHECK(ask_name(name, address) == -1);
        }
        return 0;
}

static void test_dns_tunnel(void **state)
{
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f, &(Options){ .rules = NULL });
        run_inside(f, ask_thousand, NULL);
        assert_int_equal(b.tally->denied, NAMES);
        assert_int_equal(box_stop(&b), 0);
        assert_int_equal(box_denied(&b, NULL), NAMES);
        assert_int_equal(box_denied(&b, "\nAGENTBOX_PROTO=dns\n"), NAMES);
        assert_int_equal(b.tally->denied_on_record, NAMES);
        /* Not one record each. */
        assert_in_range(box_count(&b, "egress-denied"), 200, NAMES - 1);
        box_done(&b);
}

#define CONNECTS 2000

static int connect_many(const void *argument)
{
        Address a;
        socklen_t n = make_address("1.2.3.4", 443, &a);
        int fds[100];

        for (unsigned i = 0; i < CONNECTS; i += 100) {
                for (unsigned k = 0; k < 100; k++) {
                        fds[k] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
                        CHECK(fds[k] >= 0);
                        CHECK(connect(fds[k], &a.any, n) == 0 || errno == EINPROGRESS || errno == ECONNRESET);
                }
                for (unsigned k = 0; k < 100; k++) {
                        char byte;

                        CHECK(wait_readable(fds[k]) == 0 && recv(fds[k], &byte, 1, 0) < 0 && errno == ECONNRESET);
                        close(fds[k]);
                }
        }
        return 0;
}

static void test_denied_many(void **state)
{
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f, &(Options){ .rules = NULL });
        run_inside(f, connect_many, NULL);
        assert_int_equal(b.tally->denied, CONNECTS);
        for (unsigned i = 0; i < 300 && b.tally->denied_on_record < CONNECTS; i++) { /* without being told to end */
                box_read_records(&b);
                poll(NULL, 0, 10);
        }
        assert_int_equal(b.tally->denied_on_record, CONNECTS);
        assert_int_equal(box_stop(&b), 0);
        assert_int_equal(box_denied(&b, "\nAGENTBOX_DEST_ADDR=1.2.3.4\n"), CONNECTS);
        /* Of each is known who it was: what the kernel told was read before it was judged. */
        assert_int_equal(box_denied(&b, "\nAGENTBOX_COMM=" INSIDE_COMM "\n"), CONNECTS);
        box_done(&b);
}

#define DATAGRAMS 100000

static int send_many(const void *argument)
{
        int fd = socket(AF_INET, SOCK_DGRAM, 0);
        Address a;
        socklen_t n;

        CHECK(fd >= 0);
        for (unsigned i = 0; i < DATAGRAMS; i++) {
                n = make_address("93.184.216.34", (uint16_t) (1000 + i % 1000), &a);
                CHECK(sendto(fd, "x", 1, 0, &a.any, n) == 1);
        }
        return 0;
}

static void test_datagram_flood(void **state)
{
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f, &(Options){ .rules = NULL });
        run_inside(f, send_many, NULL);
        assert_int_equal(box_stop(&b), 0);
        assert_int_equal(b.tally->denied, DATAGRAMS);
        assert_int_equal(b.tally->denied_on_record, DATAGRAMS);
        assert_int_equal(box_denied(&b, NULL), DATAGRAMS);
        box_done(&b);
}

/* ---- a run that has ended before the warden looked */

#define LATE 500

/* More questions than the warden's socket has room for: what the kernel drops counts too. */
static int connect_and_go(const void *argument)
{
        Address a, server, other;
        socklen_t n = make_address("1.2.3.4", 443, &a), n_server = make_address("8.8.8.8", 53, &server);
        socklen_t n_other = make_address("8.8.8.8", 443, &other);
        int datagram = socket(AF_INET, SOCK_DGRAM, 0);

        for (unsigned i = 0; i < LATE; i++) {
                int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

                CHECK(fd >= 0 && (connect(fd, &a.any, n) == 0 || errno == EINPROGRESS));
                CHECK(sendto(datagram, "short", 5, 0, &server.any, n_server) == 5);
                CHECK(sendto(datagram, "x", 1, 0, &other.any, n_other) == 1);
        }
        return 0;
}

static void test_late_reader(void **state)
{
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f, &(Options){ .rules = NULL });
        kill(b.pid, SIGSTOP);
        run_inside(f, connect_and_go, NULL);
        kill(b.pid, SIGTERM);
        kill(b.pid, SIGCONT);
        assert_int_equal(box_stop(&b), 0);
        assert_int_equal(box_denied(&b, "\nAGENTBOX_PROTO=tcp\n"), LATE);
        assert_int_equal(box_denied(&b, "\nAGENTBOX_PROTO=udp\n"), LATE);
        assert_int_equal(box_denied(&b, "\nAGENTBOX_PROTO=dns\n"), LATE);
        assert_true(box_denied(&b, "\nAGENTBOX_REASON=malformed\n") >= 100);
        assert_true(box_denied(&b, "\nAGENTBOX_REASON=limit\n") >= 100);
        assert_int_equal(box_denied(&b, NULL), 3 * LATE);
        box_done(&b);
}

/* ---- a journal that does not keep up */

#define PARALLEL 40

static int talk_parallel(const void *argument)
{
        int fds[PARALLEL];
        char back[32] = "";

        for (unsigned i = 0; i < PARALLEL; i++) {
                fds[i] = connect_name(NAME_WORLD, PORT_SINK);
                CHECK(fds[i] >= 0 && send(fds[i], "123", 3, 0) == 3 && shutdown(fds[i], SHUT_WR) == 0);
        }
        for (unsigned i = 0; i < PARALLEL; i++) {
                CHECK(read_all(fds[i], back, sizeof(back)) == 1 && back[0] == '3');
                close(fds[i]);
        }
        return 0;
}

/* Slow, but it reads: all are recorded, and all go through. */
static void test_slow_journal(void **state)
{
        NEED_FIXTURE(f);
        pid_t client;
        Box b;

        box_start(&b, f, &(Options){ .rules = RULES("tcp " NAME_WORLD ":4001"), .small_journal = true });
        client = start_inside(f, talk_parallel, NULL);
        for (unsigned i = 0; i < 300 && box_count(&b, "egress-closed") < PARALLEL; i++) {
                poll(NULL, 0, 10);
                box_read_records(&b);
        }
        finish_inside(client);
        assert_int_equal(box_stop(&b), 0);
        assert_int_equal(box_count(&b, "egress-allowed"), PARALLEL);
        assert_int_equal(box_count(&b, "egress-closed"), PARALLEL);
        assert_int_equal(box_count(&b, "egress-denied"), 0);
        box_done(&b);
}

static int meet_closed_journal(const void *argument)
{
        char back;

        for (unsigned i = 0; i < 20; i++) {
                int fd = connect_name(NAME_WORLD, PORT_SINK);

                CHECK(fd >= 0 || errno == ECONNRESET);
                if (fd >= 0)
                        shutdown(fd, SHUT_WR);
                if (fd < 0 || read_all(fd, &back, 1) == -ECONNRESET) {
                        close(fd);
                        return 0; /* what could not be recorded was not allowed */
                }
                close(fd);
        }
        CHECK(false);
}

static int meet_many_resets(const void *argument)
{
        for (unsigned i = 0; i < 50; i++) {
                char byte;
                int fd = connect_to("1.2.3.4", 443);

                CHECK(fd >= 0 || errno == ECONNRESET);
                CHECK(fd < 0 || read_all(fd, &byte, 1) == -ECONNRESET);
                if (fd >= 0)
                        close(fd);
        }
        return 0;
}

/* Nobody reads it. What was denied meanwhile is written, to the last one, when it is read again. */
static void test_stuck_journal(void **state)
{
        NEED_FIXTURE(f);
        uint64_t denied;
        Box b;

        box_start(&b, f, &(Options){ .rules = RULES("tcp " NAME_WORLD ":4001"), .small_journal = true });
        run_inside(f, meet_many_resets, NULL); /* full now */
        run_inside(f, meet_closed_journal, NULL);
        denied = b.tally->denied;
        assert_true(denied > 50);
        assert_int_equal(b.tally->allowed, 0);
        assert_true(b.tally->denied_on_record < denied);
        for (unsigned i = 0; i < 500 && b.tally->denied_on_record < denied; i++) {
                box_read_records(&b);
                poll(NULL, 0, 10);
        }
        assert_int_equal(b.tally->denied_on_record, denied);
        run_inside(f, talk_once, NULL);
        box_expect(&b, "egress-closed", 1);
        assert_int_equal(box_stop(&b), 0);
        assert_int_equal(box_denied(&b, NULL), denied);
        assert_int_equal(box_denied(&b, "\nAGENTBOX_REASON=no-journal\n"), denied - 50);
        box_done(&b);
}

static uint64_t cpu_nsec(pid_t pid)
{
        _cleanup_free_ char *text = NULL;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%i/schedstat", (int) pid);
        assert_int_equal(read_file(path, 4096, &text, NULL), 0);
        return strtoull(text, NULL, 10);
}

/* The broker goes on looking; nobody says that records are lost. */
static void look_for_a_while(Box *b, unsigned msec)
{
        for (unsigned i = 0; i < msec; i += 20) {
                box_read_records(b);
                poll(NULL, 0, 20);
        }
}

/* journald takes what it is sent, and keeps nothing. What was allowed until that was noticed is on record afterwards. */
static void test_dropping_journal(void **state)
{
        NEED_FIXTURE(f);
        uint64_t used;
        Box b;

        box_start(&b, f, &(Options){ .rules = RULES("tcp " NAME_WORLD ":4001") });
        run_inside(f, talk_once, NULL);
        box_expect(&b, "egress-closed", 1);
        b.journal_drops = true;
        run_inside(f, talk_once, NULL);
        look_for_a_while(&b, 1500);
        run_inside(f, meet_closed_journal, NULL);
        run_inside(f, meet_many_resets, NULL);
        /* That it tries again and again costs next to nothing. */
        used = cpu_nsec(b.pid);
        look_for_a_while(&b, 3000);
        assert_in_range(cpu_nsec(b.pid) - used, 0, 300000000);
        assert_int_equal(b.tally->allowed, 2);
        assert_int_equal(b.tally->denied, 51);
        b.journal_drops = false;
        box_expect(&b, "egress-closed", 2);
        look_for_a_while(&b, 300);
        run_inside(f, talk_once, NULL);
        assert_int_equal(box_stop(&b), 0);
        assert_int_equal(box_count(&b, "egress-allowed"), 3);
        assert_int_equal(box_count(&b, "egress-closed"), 3);
        assert_int_equal(box_denied(&b, NULL), 51);
        assert_int_equal(box_denied(&b, "\nAGENTBOX_REASON=no-journal\n"), 1);
        assert_int_equal(b.n_records, b.tally->egress_sent);
        box_done(&b);
}

/* Its socket is gone, for good. */
static void test_no_journal(void **state)
{
        NEED_FIXTURE(f);
        uint64_t used;
        Box b;

        box_start(&b, f, &(Options){ .rules = RULES("tcp " NAME_WORLD ":4001") });
        run_inside(f, talk_once, NULL);
        box_expect(&b, "egress-closed", 1);
        close(b.journal);
        b.journal = -1;
        run_inside(f, meet_closed_journal, NULL);
        assert_int_equal(b.tally->allowed, 1);
        assert_int_equal(b.tally->denied, 1);
        assert_int_equal(b.tally->denied_on_record, 0);
        /* Waiting for it costs nothing. */
        used = cpu_nsec(b.pid);
        poll(NULL, 0, 1500);
        assert_in_range(cpu_nsec(b.pid) - used, 0, 300000000);
        assert_int_equal(box_stop(&b), 0);
        box_done(&b);
}

/* Where what is allowed is not recorded, only denials need the journal, and both are counted. */
static void test_quiet(void **state)
{
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f, &(Options){ .rules = RULES("tcp " NAME_WORLD ":4001"), .quiet = true });
        run_inside(f, talk_once, NULL);
        run_inside(f, meet_many_resets, NULL);
        assert_int_equal(box_stop(&b), 0);
        assert_int_equal(b.tally->allowed, 1);
        assert_int_equal(box_denied(&b, NULL), 50);
        assert_int_equal(box_count(&b, "egress-allowed") + box_count(&b, "egress-closed"), 0);
        box_done(&b);
}

/* But what could not be recorded were it denied is not allowed either. */
static void test_quiet_stuck_journal(void **state)
{
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f,
                        &(Options){ .rules = RULES("tcp " NAME_WORLD ":4001"), .quiet = true, .small_journal = true });
        run_inside(f, meet_many_resets, NULL); /* full now */
        poll(NULL, 0, 2500);
        run_inside(f, meet_closed_journal, NULL);
        assert_int_equal(b.tally->allowed, 0);
        assert_int_equal(box_stop(&b), 0);
        assert_int_equal(box_denied(&b, "\nAGENTBOX_REASON=no-journal\n"), 1);
        assert_int_equal(box_denied(&b, NULL), 51);
        box_done(&b);
}

/* ---- everything at once, by chance */

static uint32_t chance(uint32_t *state, uint32_t n)
{
        *state = *state * 1664525 + 1013904223;
        return (*state >> 8) % n;
}

#define CHAOS_PROCESSES 6
#define CHAOS_CONNECTIONS 150

static const uint16_t chaos_ports[] = { 443, 443, 80, 80, PORT_SINK, PORT_SOURCE, PORT_RESET, PORT_STUCK, PORT_NOBODY, 53, 22 };

/* Something that one of the readers may like, or nearly. */
static size_t chaos_bytes(uint32_t *state, uint8_t bytes[static 2048])
{
        static const char get[] = "GET / HTTP/1.1\r\nHost: " NAME_WORLD "\r\n\r\n",
                          post[] = "POST / HTTP/1.1\r\nHost: " NAME_WORLD "\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
                          dns[] = "\0\x1e\x12\x34\x01\0\0\1\0\0\0\0\0\0\4evil\7example\0\0\1\0\1";
        size_t n = 0;

        switch (chance(state, 6)) {
        case 0:
                n = make_hello(chance(state, 2) ? NAME_WORLD : "evil.example", bytes);
                break;
        case 1:
                memcpy(bytes, get, n = sizeof(get) - 1);
                memcpy(bytes + n, get, sizeof(get) - 1);
                n += chance(state, 2) ? sizeof(get) - 1 : 0;
                break;
        case 2:
                memcpy(bytes, post, n = sizeof(post) - 1);
                break;
        case 3:
                memcpy(bytes, dns, n = sizeof(dns) - 1);
                break;
        case 4:
                memcpy(bytes, "100000\n", n = 7);
                break;
        default:
                for (n = chance(state, 300); n > 0 && chance(state, 2); n--)
                        bytes[n] = (uint8_t) chance(state, 256);
        }
        if (n > 0 && chance(state, 4) == 0)
                bytes[chance(state, (uint32_t) n)] ^= (uint8_t) (1 << chance(state, 8));
        return n;
}

static void chaos_connection(uint32_t *state, const char *address)
{
        const struct linger now = { .l_onoff = 1 };
        uint16_t port = chaos_ports[chance(state, ELEMENTSOF(chaos_ports))];
        const char *dest = chance(state, 8) == 0 ? "198.18.77.77" : chance(state, 8) == 0 ? "2001:db8::1" : address;
        uint8_t bytes[2048] = "";
        char back[4096];
        int fd = connect_to(dest, port);
        size_t n = chaos_bytes(state, bytes);

        if (fd < 0)
                return;
        (void) fd_set_nonblock(fd, true);
        for (size_t at = 0, k; at < n; at += k) {
                k = MIN2(n - at, 1 + (chance(state, 2) ? n : chance(state, 40)));
                if (send(fd, bytes + at, k, MSG_NOSIGNAL) < 0)
                        break;
                if (chance(state, 3) == 0)
                        poll(NULL, 0, (int) chance(state, 3));
        }
        if (chance(state, 2))
                shutdown(fd, SHUT_WR);
        if (chance(state, 2)) {
                poll(NULL, 0, (int) chance(state, 10));
                (void) recv(fd, back, sizeof(back), 0);
        }
        if (chance(state, 3) == 0)
                setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        close(fd);
}

static int make_chaos(const void *argument)
{
        uint32_t state = *(const uint32_t *) argument;
        char address[INET6_ADDRSTRLEN], evil[INET6_ADDRSTRLEN];

        CHECK(ask_name(NAME_WORLD, address) == 0);
        for (unsigned i = 0; i < CHAOS_CONNECTIONS; i++) {
                if (chance(&state, 10) == 0)
                        CHECK(ask_name("evil.example", evil) == -1);
                chaos_connection(&state, address);
        }
        return 0;
}

/* Each attempt is on record as what it became, once: what was allowed has its end, what was denied its count. */
static void test_chaos(void **state)
{
        NEED_FIXTURE(f);
        pid_t clients[CHAOS_PROCESSES];
        Box b;

        box_start(&b, f,
                        &(Options){ .rules = RULES("tls " NAME_WORLD, "http " NAME_WORLD, "tcp " NAME_WORLD ":4001",
                                                    "tcp " NAME_WORLD ":4002", "tcp " NAME_WORLD ":4003",
                                                    "tcp " NAME_WORLD ":4004", "tcp " NAME_WORLD ":4999"),
                                        .connections = 40 });
        for (uint32_t i = 0; i < CHAOS_PROCESSES; i++)
                clients[i] = start_inside(f, make_chaos, &i);
        for (unsigned i = 0; i < CHAOS_PROCESSES; i++) {
                int status;

                while (waitpid(clients[i], &status, WNOHANG) == 0) {
                        box_read_records(&b);
                        poll(NULL, 0, 5);
                }
                assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
        assert_int_equal(box_stop(&b), 0);
        assert_int_equal(box_denied(&b, NULL), b.tally->denied);
        assert_int_equal(b.tally->denied_on_record, b.tally->denied);
        assert_int_equal(box_count(&b, "egress-allowed"), b.tally->allowed);
        assert_int_equal(box_count(&b, "egress-closed"), b.tally->allowed);
        /* Chance had its way. */
        assert_true(b.tally->allowed > 50 && b.tally->denied > 100);
        assert_true(b.tally->allowed + b.tally->denied >= CHAOS_PROCESSES * CHAOS_CONNECTIONS);
        box_done(&b);
}

int main(int argc, char *argv[])
{
        const struct CMUnitTest tests[] = {
                WORLD_TEST(test_dns_tunnel),
                WORLD_TEST(test_denied_many),
                WORLD_TEST(test_datagram_flood),
                WORLD_TEST(test_late_reader),
                WORLD_TEST(test_slow_journal),
                WORLD_TEST(test_stuck_journal),
                WORLD_TEST(test_dropping_journal),
                WORLD_TEST(test_no_journal),
                WORLD_TEST(test_quiet),
                WORLD_TEST(test_quiet_stuck_journal),
                WORLD_TEST(test_chaos),
        };

        return world_run(argc, argv, tests, ELEMENTSOF(tests));
}
