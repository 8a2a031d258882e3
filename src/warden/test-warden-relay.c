/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/macro.h"
#include "test-warden-harness.h"

/* What becomes of the bytes of a connection that is allowed, and how it ends. */

#define RULES(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define MIB ((size_t) 1 << 20)
#define TCP_RULE(port) "tcp " NAME_WORLD ":" port

static const char *const all_rules[] = { TCP_RULE("443"), TCP_RULE("4001"), TCP_RULE("4002"), TCP_RULE("4003"),
        TCP_RULE("4004"), TCP_RULE("4005"), NULL };

/* ---- much */

static uint32_t next_random(uint32_t *state)
{
        *state = *state * 1664525 + 1013904223;
        return *state;
}

/* 32 MiB to an echo and back, the two directions at once, in pieces of every size: what comes back is what was sent. */
static int echo_much(const void *argument)
{
        const size_t size = 32 * MIB;
        uint8_t *sent = malloc(size), *back = malloc(size);
        size_t out = 0, in = 0;
        uint32_t random = 1;
        int fd = connect_name(NAME_WORLD, 443);

        CHECK(sent && back && fd >= 0);
        for (size_t i = 0; i < size; i++)
                sent[i] = (uint8_t) (next_random(&random) >> 24);
        CHECK(fd_set_nonblock(fd, true) == 0);
        while (in < size) {
                struct pollfd p = { .fd = fd, .events = (short) (POLLIN | (out < size ? POLLOUT : 0)) };
                ssize_t n;

                CHECK(poll(&p, 1, 20000) == 1);
                if (out < size && (p.revents & POLLOUT)) {
                        n = send(fd, sent + out, MIN2(size - out, next_random(&random) >> 12), MSG_NOSIGNAL);
                        CHECK(n > 0 || errno == EAGAIN);
                        out += n > 0 ? (size_t) n : 0;
                        if (out == size)
                                CHECK(shutdown(fd, SHUT_WR) == 0);
                }
                if (p.revents & (POLLIN | POLLHUP)) {
                        n = recv(fd, back + in, size - in, 0);
                        CHECK(n > 0 || (n < 0 && errno == EAGAIN));
                        in += n > 0 ? (size_t) n : 0;
                }
        }
        CHECK(memcmp(sent, back, size) == 0);
        CHECK(fd_set_nonblock(fd, false) == 0 && read_all(fd, back, 1) == 0);
        free(sent);
        free(back);
        close(fd);
        return 0;
}

static void test_much(void **state)
{
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f, &(Options){ .rules = all_rules });
        run_inside(f, echo_much, NULL);
        box_expect(&b, "egress-closed", 1);
        assert_field(box_record(&b, "egress-closed", 0), "AGENTBOX_REASON", "closed");
        assert_field(box_record(&b, "egress-closed", 0), "AGENTBOX_BYTES_SENT", "33554432");
        assert_field(box_record(&b, "egress-closed", 0), "AGENTBOX_BYTES_RECEIVED", "33554432");
        assert_int_equal(b.tally->bytes_received, 32 * MIB);
        assert_int_equal(box_stop(&b), 0);
        box_done(&b);
}

/* ---- half of it closed */

static int half_close(const void *argument)
{
        const size_t size = 3 * MIB;
        char *data = calloc(1, size), back[32] = "";
        int fd = connect_name(NAME_WORLD, PORT_SINK);

        CHECK(data && fd >= 0);
        CHECK(write_full(fd, data, size) == 0 && shutdown(fd, SHUT_WR) == 0);
        CHECK(read_all(fd, back, sizeof(back) - 1) == 7 && strcmp(back, "3145728") == 0);
        close(fd);

        /* The other way: the server closes its half, and everything it sent before arrives. */
        fd = connect_name(NAME_WORLD, PORT_SOURCE);
        CHECK(fd >= 0 && send(fd, "3145728\n", 8, 0) == 8);
        poll(NULL, 0, 200); /* it has closed, and more is on its way than the socket holds */
        CHECK(read_all(fd, data, size) == (ssize_t) size && data[size - 1] == 'x');
        CHECK(read_all(fd, data, 1) == 0);
        close(fd);
        free(data);
        return 0;
}

static void test_half_close(void **state)
{
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f, &(Options){ .rules = all_rules });
        run_inside(f, half_close, NULL);
        box_expect(&b, "egress-closed", 2);
        assert_int_equal(box_stop(&b), 0);
        box_done(&b);
}

/* ---- something urgent: it is not passed on, what stands behind it is, though all of it came before any was read */

static int send_urgent(const void *argument)
{
        const pid_t warden = *(const pid_t *) argument;
        char back[16] = "";
        int fd = connect_name(NAME_WORLD, PORT_ECHO);

        CHECK(fd >= 0 && send(fd, "x", 1, 0) == 1 && read_all(fd, back, 1) == 1);
        CHECK(kill(warden, SIGSTOP) == 0);
        CHECK(send(fd, "before", 6, 0) == 6 && send(fd, "!", 1, MSG_OOB) == 1 && send(fd, "behind", 6, 0) == 6);
        poll(NULL, 0, 100);
        CHECK(kill(warden, SIGCONT) == 0);
        CHECK(read_all(fd, back, 12) == 12 && memcmp(back, "beforebehind", 12) == 0);
        close(fd);
        return 0;
}

static void test_urgent(void **state)
{
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f, &(Options){ .rules = all_rules });
        run_inside(f, send_urgent, &b.pid);
        box_expect(&b, "egress-closed", 1);
        assert_field(box_record(&b, "egress-closed", 0), "AGENTBOX_BYTES_SENT", "13");
        assert_int_equal(box_stop(&b), 0);
        box_done(&b);
}

/* ---- the last bytes and the end, where both are there: one packet, which wakes its reader once */

static uint32_t packets_in(int fd)
{
        struct tcp_info info = {};
        socklen_t n = sizeof(info);

        return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) == 0 ? info.tcpi_segs_in : UINT32_MAX;
}

static int last_byte(const void *argument)
{
        const pid_t warden = *(const pid_t *) argument;
        int fd = connect_name(NAME_WORLD, PORT_GATED);
        uint32_t before;
        char back[2];

        CHECK(fd >= 0 && send(fd, "x", 1, 0) == 1);
        CHECK(read_all(world_gate[0], back, 1) == 1 && kill(warden, SIGSTOP) == 0);
        CHECK(write_full(world_gate[0], "g", 1) == 0 && read_all(world_gate[0], back, 1) == 1);
        poll(NULL, 0, 100); /* it is there, and the client's last acknowledgement too */
        before = packets_in(fd);
        CHECK(kill(warden, SIGCONT) == 0);
        CHECK(read_all(fd, back, 2) == 1 && back[0] == 'x');
        CHECK(packets_in(fd) == before + 1);
        close(fd);
        return 0;
}

static void test_last_byte(void **state)
{
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f, &(Options){ .rules = all_rules });
        run_inside(f, last_byte, &b.pid);
        box_expect(&b, "egress-closed", 1);
        assert_field(box_record(&b, "egress-closed", 0), "AGENTBOX_REASON", "closed");
        assert_field(box_record(&b, "egress-closed", 0), "AGENTBOX_BYTES_RECEIVED", "1");
        assert_int_equal(box_stop(&b), 0);
        box_done(&b);
}

/* ---- resets, both ways */

static int reset_by_server(const void *argument)
{
        char byte;
        int fd = connect_name(NAME_WORLD, PORT_RESET);

        CHECK(fd >= 0 && send(fd, "x", 1, 0) == 1);
        CHECK(read_all(fd, &byte, 1) == -ECONNRESET);
        close(fd);
        return 0;
}

static int reset_by_client(const void *argument)
{
        const struct linger now = { .l_onoff = 1 };
        char back[4];
        int fd = connect_name(NAME_WORLD, PORT_ECHO);

        CHECK(fd >= 0 && send(fd, "x", 1, 0) == 1 && read_all(fd, back, 1) == 1);
        CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) == 0);
        close(fd);
        return 0;
}

static void test_reset(void **state)
{
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f, &(Options){ .rules = all_rules });
        run_inside(f, reset_by_server, NULL);
        box_expect(&b, "egress-closed", 1);
        assert_field(box_record(&b, "egress-closed", 0), "AGENTBOX_REASON", "reset");
        run_inside(f, reset_by_client, NULL);
        box_expect(&b, "egress-closed", 2);
        assert_field(box_record(&b, "egress-closed", 1), "AGENTBOX_REASON", "reset");
        assert_int_equal(box_stop(&b), 0);
        box_done(&b);
}

/* ---- peers that do not read */

static uint64_t private_memory(pid_t pid)
{
        _cleanup_free_ char *text = NULL;
        char path[64];
        uint64_t sum = 0;

        snprintf(path, sizeof(path), "/proc/%i/smaps_rollup", (int) pid);
        assert_int_equal(read_file(path, 65536, &text, NULL), 0);
        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
                if (startswith(line, "Private_"))
                        sum += strtoull(strchr(line, ':') + 1, NULL, 10) * 1024;
        return sum;
}

#define STUCK 16

/* Writes until nothing is taken any more, into servers that read nothing. */
static int fill_stuck(const void *argument)
{
        static char data[65536];
        int fds[STUCK];
        char byte = 0;

        for (size_t i = 0; i < STUCK; i++) {
                fds[i] = connect_name(NAME_WORLD, PORT_STUCK);
                CHECK(fds[i] >= 0 && fd_set_nonblock(fds[i], true) == 0);
        }
        for (unsigned quiet = 0; quiet < 10; quiet++) {
                for (size_t i = 0; i < STUCK; i++)
                        while (send(fds[i], data, sizeof(data), MSG_NOSIGNAL) > 0)
                                quiet = 0;
                poll(NULL, 0, 20);
        }
        CHECK(write(*(const int *) argument, &byte, 1) == 1);
        pause();
        return 0;
}

static void test_zero_window(void **state)
{
        NEED_FIXTURE(f);
        uint64_t before, after;
        int done[2];
        char byte;
        pid_t client;
        Box b;

        box_start(&b, f, &(Options){ .rules = all_rules });
        assert_int_equal(pipe2(done, O_CLOEXEC), 0);
        run_inside(f, half_close, NULL); /* so that what every connection needs is there */
        before = private_memory(b.pid);
        client = start_inside(f, fill_stuck, done + 1);
        assert_int_equal(read(done[0], &byte, 1), 1);
        after = private_memory(b.pid);
        /* With sanitizers memory is another thing. */
        if (!strstr(test_warden, "unconfined"))
                assert_in_range(after, 0, before + STUCK * (65536 + 8192));
        /* Others are served meanwhile. */
        run_inside(f, half_close, NULL);
        kill(client, SIGKILL);
        waitpid(client, NULL, 0);
        box_expect(&b, "egress-closed", 4);
        close(done[0]);
        close(done[1]);
        assert_int_equal(box_stop(&b), 0);
        assert_int_equal(box_count(&b, "egress-closed"), STUCK + 4);
        box_done(&b);
}

/* ---- time */

typedef struct Slow {
        const char *name;
        uint16_t port;
        const char *sent;
        const char *answer; /* NULL: a reset */
} Slow;

static int be_slow(const void *argument)
{
        const Slow *s = argument;
        char back[4096] = "";
        int fd = connect_name(s->name, s->port);
        ssize_t n;

        CHECK(fd >= 0);
        if (s->sent)
                CHECK(send(fd, s->sent, strlen(s->sent), 0) == (ssize_t) strlen(s->sent));
        n = read_all(fd, back, sizeof(back) - 1);
        CHECK(s->answer ? n > 0 && startswith(back, s->answer) : n == -ECONNRESET);
        close(fd);
        return 0;
}

/* Each takes its ten seconds; all at once. */
static void test_slow(void **state)
{
        static const Slow cases[] = {
                { NAME_WORLD, 443, NULL, NULL },                    /* no hello */
                { NAME_WORLD, 443, "\x16\x03\x01\x01\x00", NULL },  /* a piece of one */
                { NAME_WORLD, 80, "GET / HT", "HTTP/1.1 408 " },    /* a piece of a head */
                { NAME_HOLE, 4001, NULL, NULL },                    /* upstream says nothing */
        };
        pid_t clients[ELEMENTSOF(cases)];
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f, &(Options){ .rules = RULES("tls " NAME_WORLD, "http " NAME_WORLD, "tcp " NAME_HOLE ":4001") });
        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                clients[i] = start_inside(f, be_slow, cases + i);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                finish_inside(clients[i]);
        box_expect(&b, "egress-denied", ELEMENTSOF(cases));
        assert_int_equal(box_denied(&b, "\nAGENTBOX_REASON=timeout\n"), ELEMENTSOF(cases));
        assert_int_equal(box_stop(&b), 0);
        box_done(&b);
}

/* An upload in many small chunks to a server that takes its time: where the warden's buffer happens to end within a line
 * that frames, nobody inside is slow. */
static int upload_slowly(const void *argument)
{
        static const char head[] = "POST / HTTP/1.1\r\nHost: " NAME_WORLD ":4003\r\nTransfer-Encoding: chunked\r\n\r\n";
        static const char chunk[] = "0000001\r\nx\r\n";
        char byte, chunks[1200 * (sizeof(chunk) - 1) + 1];
        size_t at = 0;
        int fd = connect_name(NAME_WORLD, PORT_STUCK);

        for (size_t n = 0; n + 1 < sizeof(chunks); n += sizeof(chunk) - 1)
                memcpy(chunks + n, chunk, sizeof(chunk));
        CHECK(fd >= 0 && send(fd, head, strlen(head), 0) == (ssize_t) strlen(head));
        CHECK(fd_set_nonblock(fd, true) == 0);
        for (unsigned quiet = 0; quiet < 5; quiet++) {
                for (ssize_t n; (n = send(fd, chunks + at, sizeof(chunks) - 1 - at, MSG_NOSIGNAL)) > 0; quiet = 0)
                        at = (at + (size_t) n) % (sizeof(chunks) - 1);
                CHECK(errno == EAGAIN);
                poll(NULL, 0, 100);
        }
        poll(NULL, 0, 11000); /* longer than a head may take */
        CHECK(recv(fd, &byte, 1, 0) < 0 && errno == EAGAIN);
        close(fd);
        return 0;
}

static void test_slow_server(void **state)
{
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f, &(Options){ .rules = RULES("http " NAME_WORLD ":4003") });
        run_inside(f, upload_slowly, NULL);
        assert_int_equal(box_stop(&b), 0);
        assert_int_equal(box_count(&b, "egress-allowed"), 1);
        assert_int_equal(box_count(&b, "egress-denied"), 0);
        box_done(&b);
}

/* Nothing moves, or nothing in the half that is left. Whoever sends a byte now and then stays. */
static int be_idle(const void *argument)
{
        int idle = connect_name(NAME_WORLD, PORT_ECHO), half = connect_name(NAME_WORLD, PORT_STUCK);
        int busy = connect_name(NAME_WORLD, PORT_ECHO);
        char byte;

        CHECK(idle >= 0 && half >= 0 && busy >= 0 && shutdown(half, SHUT_WR) == 0);
        for (unsigned i = 0; i < 24; i++) {
                CHECK(send(busy, "x", 1, MSG_NOSIGNAL) == 1 && read_all(busy, &byte, 1) == 1);
                poll(NULL, 0, 1000);
                if (i < 10) {
                        CHECK(recv(idle, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
                        CHECK(recv(half, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
                }
        }
        CHECK(read_all(idle, &byte, 1) == -ECONNRESET);
        CHECK(read_all(half, &byte, 1) == -ECONNRESET);
        return 0;
}

static void test_idle(void **state)
{
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f, &(Options){ .rules = all_rules });
        run_inside(f, be_idle, NULL);
        box_expect(&b, "egress-closed", 3);
        assert_field(box_record(&b, "egress-closed", 0), "AGENTBOX_REASON", "idle");
        assert_field(box_record(&b, "egress-closed", 0), "AGENTBOX_DEST_PORT", "4003");
        assert_field(box_record(&b, "egress-closed", 1), "AGENTBOX_REASON", "idle");
        assert_field(box_record(&b, "egress-closed", 2), "AGENTBOX_REASON", "closed");
        assert_int_equal(box_stop(&b), 0);
        box_done(&b);
}

/* ---- the end of the run */

static int stay_open(const void *argument)
{
        char byte = 0;
        int fd = connect_name(NAME_WORLD, PORT_ECHO);

        CHECK(fd >= 0 && send(fd, "x", 1, 0) == 1 && read_all(fd, &byte, 1) == 1);
        CHECK(connect_name(NAME_HOLE, 4001) >= 0); /* being dialled */
        CHECK(write(*(const int *) argument, &byte, 1) == 1);
        CHECK(read_all(fd, &byte, 1) == -ECONNRESET);
        return 0;
}

static void test_run_ends(void **state)
{
        NEED_FIXTURE(f);
        int done[2];
        pid_t client;
        char byte;
        Box b;

        assert_int_equal(pipe2(done, O_CLOEXEC), 0);
        box_start(&b, f, &(Options){ .rules = RULES(TCP_RULE("443"), "tcp " NAME_HOLE ":4001") });
        client = start_inside(f, stay_open, done + 1);
        assert_int_equal(read(done[0], &byte, 1), 1);
        assert_int_equal(box_stop(&b), 0);
        finish_inside(client);
        assert_field(box_record(&b, "egress-closed", 0), "AGENTBOX_REASON", "run-ended");
        assert_field(box_record(&b, "egress-closed", 0), "AGENTBOX_BYTES_SENT", "1");
        assert_field(box_record(&b, "egress-denied", 0), "AGENTBOX_REASON", "connect-failed");
        assert_field(box_record(&b, "egress-denied", 0), "AGENTBOX_DEST_NAME", NAME_HOLE);
        assert_int_equal(b.n_records, 3);
        box_done(&b);
        close(done[0]);
        close(done[1]);
}

/* The client is gone before there is an answer: that was an attempt too. */
static int give_up(const void *argument)
{
        const struct linger now = { .l_onoff = 1 };
        int fd = connect_name(NAME_HOLE, 4001);

        CHECK(fd >= 0);
        poll(NULL, 0, 100);
        CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) == 0);
        close(fd);
        return 0;
}

static void test_client_gives_up(void **state)
{
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f, &(Options){ .rules = RULES("tcp " NAME_HOLE ":4001") });
        run_inside(f, give_up, NULL);
        box_expect(&b, "egress-denied", 1);
        assert_field(box_record(&b, "egress-denied", 0), "AGENTBOX_REASON", "connect-failed");
        assert_int_equal(box_stop(&b), 0);
        box_done(&b);
}

int main(int argc, char *argv[])
{
        const struct CMUnitTest tests[] = {
                WORLD_TEST(test_much),
                WORLD_TEST(test_half_close),
                WORLD_TEST(test_urgent),
                WORLD_TEST(test_last_byte),
                WORLD_TEST(test_reset),
                WORLD_TEST(test_zero_window),
                WORLD_TEST(test_slow),
                WORLD_TEST(test_slow_server),
                WORLD_TEST(test_run_ends),
                WORLD_TEST(test_client_gives_up),
                /* The last one: the program as it is installed waits for ten minutes. */
                WORLD_TEST(test_idle),
        };
        bool unconfined = argc > 1 && strstr(argv[1], "unconfined");

        return world_run(argc, argv, tests, ELEMENTSOF(tests) - !unconfined);
}
