/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/io.h"
#include "base/macro.h"
#include "base/parse.h"
#include "test-warden-harness.h"

/* The world: servers in a network namespace of their own. */

/* ---- what they do; each connection has a process */

static void serve_echo(int fd)
{
        char buffer[65536];
        ssize_t n;

        while ((n = read(fd, buffer, sizeof(buffer))) > 0)
                if (write_full(fd, buffer, (size_t) n) < 0)
                        return;
}

static void serve_sink(int fd)
{
        char buffer[65536];
        uint64_t sum = 0;
        ssize_t n;

        while ((n = read(fd, buffer, sizeof(buffer))) > 0)
                sum += (uint64_t) n;
        n = snprintf(buffer, sizeof(buffer), "%" PRIu64, sum);
        (void) write_full(fd, buffer, (size_t) n);
}

static void serve_source(int fd)
{
        char buffer[65536] = "";
        size_t n = 0;
        uint64_t left;

        while (n < 20 && read(fd, buffer + n, 1) == 1 && buffer[n] != '\n')
                n++;
        buffer[n] = 0;
        if (parse_u64(buffer, &left) < 0)
                return;
        memset(buffer, 'x', sizeof(buffer));
        while (left > 0) {
                n = MIN2(left, sizeof(buffer));
                if (write_full(fd, buffer, n) < 0)
                        return;
                left -= n;
        }
}

static void serve_stuck(int fd)
{
        pause();
}

static void serve_reset(int fd)
{
        const struct linger now = { .l_onoff = 1 };
        char byte;

        if (read(fd, &byte, 1) == 1)
                setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

int world_gate[2] = { -1, -1 };

static void serve_gated(int fd)
{
        char byte;

        if (read(fd, &byte, 1) == 1 && write(world_gate[1], "a", 1) == 1 && read(world_gate[1], &byte, 1) == 1 &&
                        write(fd, "x", 1) == 1 && close(fd) == 0)
                (void) write_full(world_gate[1], "o", 1);
}

static void serve_proxy(int fd)
{
        static const char good[] = "HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n", bad[] = "HTTP/1.1 403 No\r\n\r\n";
        char head[4096] = "";
        size_t n = 0;

        while (n < sizeof(head) - 1 && !strstr(head, "\r\n\r\n") && read(fd, head + n, 1) == 1)
                n++;
        if (!startswith(head, "CONNECT ") || strstr(head, "refused")) {
                (void) write_full(fd, bad, strlen(bad));
                return;
        }
        /* What it was asked for is the first that the destination says, in the same segment. */
        head[strcspn(head, "\r")] = 0;
        n = strlen(head);
        memmove(head + sizeof(good) - 1, head, n);
        memcpy(head, good, sizeof(good) - 1);
        if (write_full(fd, head, sizeof(good) - 1 + n) >= 0)
                serve_echo(fd);
}

static const struct {
        uint16_t port;
        void (*serve)(int fd);
} servers[] = {
        { PORT_ECHO, serve_echo },
        { PORT_ECHO_HTTP, serve_echo },
        { PORT_SINK, serve_sink },
        { PORT_SOURCE, serve_source },
        { PORT_STUCK, serve_stuck },
        { PORT_RESET, serve_reset },
        { PORT_GATED, serve_gated },
        { PORT_PROXY, serve_proxy },
};

static int listen_on(uint16_t port)
{
        struct sockaddr_in6 sa = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
        int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const int one = 1;

        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
                        bind(fd, (struct sockaddr *) &sa, sizeof(sa)) < 0 || listen(fd, 1024) < 0)
                return -errno;
        return fd;
}

_noreturn_ static void serve_all(const struct pollfd *listeners)
{
        struct pollfd p[ELEMENTSOF(servers)];

        signal(SIGCHLD, SIG_IGN);
        signal(SIGPIPE, SIG_IGN);
        memcpy(p, listeners, sizeof(p));
        for (;;) {
                if (poll(p, ELEMENTSOF(p), -1) < 0 && errno != EINTR)
                        _exit(1);
                for (size_t i = 0; i < ELEMENTSOF(p); i++) {
                        int fd = p[i].revents & POLLIN ? accept(p[i].fd, NULL, NULL) : -1;

                        if (fd < 0)
                                continue;
                        if (fork() == 0) {
                                prctl(PR_SET_PDEATHSIG, SIGKILL);
                                servers[i].serve(fd);
                                _exit(0);
                        }
                        close(fd);
                }
        }
}

/* ---- the namespaces */

static pid_t world_pid;

static bool run_ip(const char *format, ...) _printf_(1, 2);
static bool run_ip(const char *format, ...)
{
        char command[512];
        va_list ap;

        va_start(ap, format);
        vsnprintf(command, sizeof(command), format, ap);
        va_end(ap);
        return system(command) == 0;
}

_noreturn_ static void be_world(int ready, int go)
{
        struct pollfd listeners[ELEMENTSOF(servers)];
        char byte = 0;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (unshare(CLONE_NEWNET) < 0 || write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 1)
                _exit(1);
        if (!run_ip("ip link set lo up; ip addr add " WORLD_IPV4 "/24 dev world1; ip link set world1 up;"
                    "ip addr add " WORLD_PRIVATE_IPV4 "/24 dev world1; ip -6 addr add " WORLD_IPV6 "/64 dev world1 nodad"))
                _exit(1);
        for (size_t i = 0; i < ELEMENTSOF(servers); i++) {
                listeners[i] = (struct pollfd){ .fd = listen_on(servers[i].port), .events = POLLIN };
                if (listeners[i].fd < 0)
                        _exit(1);
        }
        if (write(ready, &byte, 1) != 1)
                _exit(1);
        serve_all(listeners);
}

static bool world_make(int argc, char *argv[])
{
        int ready[2], go[2];
        char byte;

        if (argc < 3) {
                print_message("1..0 # SKIP not told which programs to test\n");
                return false;
        }
        if (geteuid() != 0) {
                print_message("1..0 # SKIP only root can make the wall\n");
                return false;
        }
        if (system("ip -V >/dev/null 2>&1") != 0) {
                print_message("1..0 # SKIP iproute2 is not installed\n");
                return false;
        }
        test_warden = argv[1];
        test_resolver = argv[2];
        assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
        assert_int_equal(pipe2(go, O_CLOEXEC), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, world_gate), 0);
        assert_int_equal(unshare(CLONE_NEWNET), 0);
        world_pid = fork();
        assert_true(world_pid >= 0);
        if (world_pid == 0)
                be_world(ready[1], go[0]);
        assert_int_equal(read(ready[0], &byte, 1), 1);
        assert_true(run_ip("ip link set lo up; ip link add world0 type veth peer name world1 netns %i;"
                           "ip addr add " HOST_IPV4 "/24 broadcast 93.184.216.255 dev world0; ip link set world0 up;"
                           "ip addr add 10.1.2.1/24 dev world0; ip -6 addr add 2606:2800:220:1::1/64 dev world0 nodad",
                        (int) world_pid));
        assert_int_equal(write(go[1], &byte, 1), 1);
        assert_int_equal(read(ready[0], &byte, 1), 1);
        /* The world forwards nothing: what is sent there through it is lost without a word. */
        assert_true(run_ip("ip route add 93.184.217.0/24 via " WORLD_IPV4));
        close(ready[0]);
        close(ready[1]);
        close(go[0]);
        close(go[1]);
        return true;
}

static void world_done(void)
{
        if (world_pid > 0) {
                kill(world_pid, SIGKILL);
                waitpid(world_pid, NULL, 0);
        }
}

int world_run(int argc, char *argv[], const struct CMUnitTest *tests, size_t n)
{
        int r;

        if (!world_make(argc, argv))
                return 0;
        r = _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
        world_done();
        return r;
}

/* ---- clients */

int connect_to(const char *address, uint16_t port)
{
        const struct timeval patience = { .tv_sec = 20 };
        Address a;
        socklen_t n = make_address(address, port, &a);
        int fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return -1;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
        if (connect(fd, &a.any, n) < 0) {
                int e = errno;

                close(fd);
                errno = e;
                return -1;
        }
        return fd;
}

int connect_name(const char *name, uint16_t port)
{
        char address[INET6_ADDRSTRLEN];

        if (ask_name(name, address) != 0) {
                errno = ENOENT;
                return -1;
        }
        return connect_to(address, port);
}

ssize_t read_all(int fd, void *p, size_t n)
{
        size_t at = 0;

        while (at < n) {
                ssize_t k = recv(fd, (char *) p + at, n - at, 0);

                if (k < 0)
                        return -errno;
                if (k == 0)
                        break;
                at += (size_t) k;
        }
        return (ssize_t) at;
}

static size_t put_name(const char *name, uint8_t *q)
{
        size_t at = 0;

        for (const char *label = name; *label;) {
                size_t n = strcspn(label, ".");

                q[at++] = (uint8_t) n;
                memcpy(q + at, label, n);
                at += n;
                label += n + (label[n] == '.');
        }
        q[at++] = 0;
        return at;
}

int ask_name(const char *name, char ret[static INET6_ADDRSTRLEN])
{
        static const uint8_t header[12] = { 0x12, 0x34, 0x01, 0, 0, 1 }, tail[4] = { 0, 1, 0, 1 };
        const struct timeval patience = { .tv_sec = 10 };
        uint8_t q[512], a[512];
        size_t n = sizeof(header);
        Address server;
        socklen_t n_server = make_address(EGRESS_WARDEN_IPV4, 53, &server);
        _cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        ssize_t k;

        memcpy(q, header, sizeof(header));
        n += put_name(name, q + n);
        memcpy(q + n, tail, sizeof(tail));
        n += sizeof(tail);
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
                        connect(fd, &server.any, n_server) < 0 || send(fd, q, n, 0) != (ssize_t) n)
                return -2;
        k = recv(fd, a, sizeof(a), 0);
        if (k < (ssize_t) n || memcmp(a, q, 2) != 0)
                return -2;
        if ((a[3] & 15) != 0)
                return -1;
        /* One address record behind the question. */
        if (a[7] != 1 || k < (ssize_t) n + 16)
                return -2;
        return inet_ntop(AF_INET, a + n + 12, ret, INET6_ADDRSTRLEN) ? 0 : -2;
}

static void put16(uint8_t *p, size_t v)
{
        p[0] = (uint8_t) (v >> 8);
        p[1] = (uint8_t) v;
}

size_t make_hello(const char *name, uint8_t ret[static 1024])
{
        size_t n_name = name ? strlen(name) : 0, n_sni = name ? 9 + n_name : 0;
        /* record 5, handshake 4, version 2, random 32, session 1, suites 2 + 2, compression 2, extensions 2 */
        size_t n = 5 + 4 + 2 + 32 + 1 + 4 + 2 + 2 + n_sni;
        uint8_t *p = ret + 9;

        memset(ret, 0, n);
        ret[0] = 22;
        put16(ret + 1, 0x0301);
        put16(ret + 3, n - 5);
        ret[5] = 1;
        put16(ret + 7, n - 9);
        put16(p, 0x0303);
        memset(p + 2, 0x5a, 32);
        p += 35;
        put16(p, 2);
        put16(p + 2, 0x1301);
        p[4] = 1;
        p += 6;
        put16(p, n_sni);
        if (name) {
                put16(p + 2, 0);
                put16(p + 4, 5 + n_name);
                put16(p + 6, 3 + n_name);
                put16(p + 9, n_name);
                memcpy(p + 11, name, n_name);
        }
        return n;
}

int talk_tls(const void *argument)
{
        const char *name = argument;
        uint8_t hello[1024], back[1024];
        size_t n = make_hello(name, hello);
        int fd = connect_name(name, 443);

        CHECK(fd >= 0);
        CHECK(send(fd, hello, n, 0) == (ssize_t) n);
        CHECK(read_all(fd, back, n) == (ssize_t) n && memcmp(hello, back, n) == 0);
        CHECK(send(fd, "more", 4, 0) == 4);
        CHECK(read_all(fd, back, 4) == 4 && memcmp(back, "more", 4) == 0);
        CHECK(shutdown(fd, SHUT_WR) == 0);
        CHECK(read_all(fd, back, 1) == 0);
        close(fd);
        return 0;
}

int talk_once(const void *argument)
{
        char back[4];
        int fd = connect_name(NAME_WORLD, PORT_SINK);

        CHECK(fd >= 0 && send(fd, "123", 3, 0) == 3 && shutdown(fd, SHUT_WR) == 0);
        CHECK(read_all(fd, back, sizeof(back)) == 1);
        close(fd);
        return 0;
}
