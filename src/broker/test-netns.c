/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/io.h"
#include "broker/broker-netns.h"

/* Root alone can make the namespace; every packet here stays in it. */

static int needs_root(void)
{
        if (geteuid() == 0)
                return 0;
        print_message("skipped: only root can make a network namespace\n");
        return 1;
}

/* Runs check inside the namespace, in a child; its exit status must be 0. */
static void inside(int ns, int (*check)(void))
{
        pid_t pid = fork();
        int status;

        assert_true(pid >= 0);
        if (pid == 0)
                _exit(setns(ns, CLONE_NEWNET) < 0 ? 200 : check());
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
}

typedef struct Target {
        int family;
        const char *address;
} Target;

static const Target targets[] = {
        { AF_INET, "169.254.169.254" },
        { AF_INET, "8.8.8.8" },
        { AF_INET, "192.0.2.2" },
        { AF_INET, "192.0.2.53" },
        { AF_INET, "127.0.0.1" },
        { AF_INET, "10.0.0.1" },
        { AF_INET6, "::1" },
        { AF_INET6, "fd00:ab::2" },
        { AF_INET6, "fd00:ec2::254" },
        { AF_INET6, "2606::1" },
};

static socklen_t address_of(const Target *t, uint16_t port, struct sockaddr_storage *ret)
{
        if (t->family == AF_INET) {
                struct sockaddr_in *in = (struct sockaddr_in *) ret;

                *in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
                inet_pton(AF_INET, t->address, &in->sin_addr);
                return sizeof(*in);
        } else {
                struct sockaddr_in6 *in6 = (struct sockaddr_in6 *) ret;

                *in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(port) };
                inet_pton(AF_INET6, t->address, &in6->sin6_addr);
                return sizeof(*in6);
        }
}

/* What a connect that does not block comes to. */
static int connect_error(int fd, const struct sockaddr_storage *a, socklen_t n)
{
        struct pollfd p = { .fd = fd, .events = POLLOUT };
        socklen_t size = sizeof(int);
        int error = 0;

        if (connect(fd, (const struct sockaddr *) a, n) >= 0)
                return 0;
        if (errno != EINPROGRESS)
                return errno;
        if (poll(&p, 1, 10000) != 1)
                return ETIMEDOUT;
        return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 ? errno : error;
}

static int check_tcp_refused(void)
{
        for (size_t i = 0; i < ELEMENTSOF(targets); i++) {
                int fd = socket(targets[i].family, SOCK_STREAM | SOCK_NONBLOCK, 0);
                struct sockaddr_storage a;
                socklen_t n = address_of(targets + i, 80, &a);

                if (fd < 0 && errno == EAFNOSUPPORT)
                        continue;
                if (fd < 0 || connect_error(fd, &a, n) != ECONNREFUSED)
                        return 10 + (int) i;
                close(fd);
        }
        return 0;
}

/* A datagram is answered by this very host: the next call on the socket says so. */
static int check_udp_refused(void)
{
        for (size_t i = 0; i < ELEMENTSOF(targets); i++) {
                int fd = socket(targets[i].family, SOCK_DGRAM | SOCK_NONBLOCK, 0);
                struct sockaddr_storage a;
                socklen_t n = address_of(targets + i, 53, &a);

                if (fd < 0 && errno == EAFNOSUPPORT)
                        continue;
                if (fd < 0 || connect(fd, (struct sockaddr *) &a, n) < 0 || send(fd, "x", 1, 0) != 1)
                        return 10 + (int) i;
                if (send(fd, "x", 1, 0) >= 0 || errno != ECONNREFUSED)
                        return 40 + (int) i;
                close(fd);
        }
        return 0;
}

/* A server under test must work, and see the sandbox's own address as that of a client that asked for an
 * outer one. */
static int check_own_server(void)
{
        struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY) };
        struct sockaddr_in peer;
        int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), c;
        socklen_t n = sizeof(a), peer_n = sizeof(peer);
        char text[INET_ADDRSTRLEN];

        if (bind(server, (struct sockaddr *) &a, sizeof(a)) < 0 || listen(server, 1) < 0 ||
                        getsockname(server, (struct sockaddr *) &a, &n) < 0)
                return 1;
        inet_pton(AF_INET, "203.0.113.7", &a.sin_addr);
        if (connect(client, (struct sockaddr *) &a, sizeof(a)) < 0)
                return 2;
        c = accept(server, (struct sockaddr *) &peer, &peer_n);
        if (c < 0 || !inet_ntop(AF_INET, &peer.sin_addr, text, sizeof(text)))
                return 3;
        return streq(text, "192.0.2.2") ? 0 : 4;
}

/* Whatever the host's own default is. */
static int check_plain_congestion_control(void)
{
        static const int families[] = { AF_INET, AF_INET6 };

        for (size_t i = 0; i < ELEMENTSOF(families); i++) {
                int fd = socket(families[i], SOCK_STREAM, 0);
                char name[16] = "";
                socklen_t n = sizeof(name) - 1;

                if (fd < 0 && errno == EAFNOSUPPORT)
                        continue;
                if (fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &n) < 0 ||
                                !streq(name, "reno"))
                        return 10 + (int) i;
                close(fd);
        }
        return 0;
}

static int check_only_loopback(void)
{
        _cleanup_free_ char *dev = NULL;
        int lines = 0;

        /* Of the thread, not of the process that /proc may belong to. */
        if (read_file("/proc/thread-self/net/dev", 65536, &dev, NULL) < 0)
                return 1;
        for (const char *p = dev; (p = strchr(p, '\n')); p++)
                lines++;
        return lines == 3 && strstr(dev, " lo:") ? 0 : 2;
}

static void test_netns(void **state)
{
        uint64_t inode = 0, before, after;
        Error *e = NULL;
        struct stat st;
        int ns = -1;

        if (needs_root())
                skip();
        assert_int_equal(stat("/proc/self/ns/net", &st), 0);
        before = st.st_ino;
        if (netns_create(&ns, &inode, &e) < 0)
                fail_msg("%s", error_message(e, 0));
        assert_int_equal(stat("/proc/self/ns/net", &st), 0);
        after = st.st_ino;
        assert_int_equal(before, after);
        assert_int_not_equal(inode, before);
        assert_int_equal(fstat(ns, &st), 0);
        assert_int_equal(st.st_ino, inode);
        assert_true(fcntl(ns, F_GETFD) & FD_CLOEXEC);

        inside(ns, check_only_loopback);
        inside(ns, check_tcp_refused);
        inside(ns, check_udp_refused);
        inside(ns, check_own_server);
        inside(ns, check_plain_congestion_control);
        close(ns);
}

static void test_hostname(void **state)
{
        char before[65] = "", after[65] = "";
        Error *e = NULL;
        int pair[2], status;
        pid_t pid;

        if (needs_root())
                skip();
        /* Not the caller's own namespace. */
        assert_int_equal(uts_set_hostname(getpid(), "x", &e), -EPERM);
        error_free(e);

        assert_int_equal(gethostname(before, sizeof(before)), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                char c, name[65] = "";

                if (unshare(CLONE_NEWUTS) < 0 || write(pair[1], "r", 1) != 1 || read(pair[1], &c, 1) != 1 ||
                                gethostname(name, sizeof(name)) < 0)
                        _exit(1);
                _exit(streq(name, "sandbox") ? 0 : 2);
        }
        assert_int_equal(read(pair[0], after, 1), 1);
        assert_int_equal(uts_set_hostname(pid, "sandbox", NULL), 0);
        assert_int_equal(write(pair[0], "g", 1), 1);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_int_equal(gethostname(after, sizeof(after)), 0);
        assert_string_equal(before, after);
        close(pair[0]);
        close(pair[1]);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_netns),
                cmocka_unit_test(test_hostname),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
