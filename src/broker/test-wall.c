/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/io.h"
#include "test-wall-harness.h"

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

/* What arrives at the wall's sockets, and what is left alone. */

/* ---- TCP to elsewhere arrives, with its destination, and says who */

typedef enum How { PLAIN, FASTOPEN, MPTCP, URING, ECN } How;
typedef struct Tcp {
        const char *to;
        uint16_t port;
        How how;
        const char *event; /* as the event has the address; NULL: the same */
        const char *from;  /* the address that the client takes, of which it may take any; NULL: the kernel's
                              choice */
} Tcp;

static const Tcp tcp_rows[] = {
        { "1.2.3.4", 443 },
        { "1.2.3.4", 22 },
        { "1.2.3.4", 0 },
        { "169.254.169.254", 80 },
        { "10.1.2.3", 65535 },
        { "192.0.2.1", 1 },
        { "198.18.0.1", 443 },
        { "240.0.0.1", 443 },
        { "0.1.2.3", 443 },
        { "2001:db8::1", 8443 },
        { "fd00:ab::1", 1 },
        { "fd00:ec2::254", 80 },
        { "::2", 80 },
        { "fd00:ab::3", 80 },
        { "64:ff9b::7f00:1", 80 },
        { "::ffff:1.2.3.4", 443, PLAIN, "1.2.3.4" },
        { "1.2.3.4", 443, FASTOPEN },
        { "2001:db8::1", 443, FASTOPEN },
        { "1.2.3.4", 443, MPTCP },
        { "2001:db8::1", 443, MPTCP },
        { "::ffff:1.2.3.4", 443, MPTCP, "1.2.3.4" },
        { "1.2.3.4", 443, ECN },
        { "2001:db8::1", 443, ECN },
        { "1.2.3.4", 443, PLAIN, NULL, "8.8.8.8" },
        { "2001:db8:1:2:3:4:5:6", 443, PLAIN, NULL, "2001:db8:f:e:d:c:b:a" },
        /* Almost IPv4 within IPv6, and almost multicast. */
        { "2001::ffff:e000:1", 443 },
        { "0:0:0:1:0:ffff:e000:1", 443 },
        { "::e000:1", 443 },
        { "1.2.3.4", 443, URING },
        { "2001:db8::1", 443, URING },
};

#define CANNOT 77 /* this kernel lacks that way */

static int take_source(int fd, const char *from)
{
        Address a;
        socklen_t n = make_address(from, 0, &a);
        int one = 1;

        if (a.any.sa_family == AF_INET6 &&
                        setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &one, sizeof(one)) < 0)
                return -errno;
        return bind(fd, &a.any, n) < 0 ? -errno : 0;
}

/* The SYN has two more flags then. */
static int use_ecn(void)
{
        _cleanup_close_ int fd = open("/proc/sys/net/ipv4/tcp_ecn", O_WRONLY | O_CLOEXEC);

        return fd < 0 || write(fd, "1", 1) != 1 ? -errno : 0;
}

/* With a server of its own on every address, which must not get it. */
static int inside_tcp(const void *argument)
{
        const Tcp *row = argument;
        int protocol = row->how == MPTCP ? IPPROTO_MPTCP : 0, fd, shadow, error;
        Address to, any;
        socklen_t n = make_address(row->to, row->port, &to);

        shadow = socket(to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
        any = to;
        memset(any.any.sa_family == AF_INET ? (void *) &any.in.sin_addr : (void *) &any.in6.sin6_addr, 0,
                        any.any.sa_family == AF_INET ? 4 : 16);
        if (row->port > 1 && (bind(shadow, &any.any, n) < 0 || listen(shadow, 1) < 0))
                return 1;
        fd = socket(to.any.sa_family, SOCK_STREAM, protocol);
        if (fd < 0)
                return row->how == MPTCP && errno == EPROTONOSUPPORT ? CANNOT : 2;
        if (row->from && take_source(fd, row->from) < 0)
                return 5;
        if (row->how == ECN && use_ecn() < 0)
                return CANNOT;
        switch (row->how) {
        case FASTOPEN:
                error = sendto(fd, "x", 1, MSG_FASTOPEN, &to.any, n) == 1 ? 0 : errno;
                break;
        case URING:
                error = uring_connect(fd, &to, n);
                break;
        default:
                error = connect(fd, &to.any, n) < 0 ? errno : 0;
        }
        if (error != 0)
                return error < 0 ? CANNOT : 3;
        return row->port > 1 && accept(shadow, NULL, NULL) >= 0 ? 4 : 0;
}

static void check_tcp(Fixture *f, const Tcp *row)
{
        const char *event = row->event ? row->event : row->to;
        _cleanup_close_ int fd = -1;
        Address to, local = {}, peer = {}, source;
        socklen_t n = sizeof(local), peer_n = sizeof(peer);
        pid_t pid = start_inside(f, inside_tcp, row);
        int status = wait_inside(pid);
        EgressEvent e;

        if (status == CANNOT) {
                print_message("without way %i, which this kernel lacks\n", (int) row->how);
                return;
        }
        if (status != 0)
                fail_msg("%s port %u, way %i: %i", row->to, row->port, (int) row->how, status);
        make_address(row->to, row->port, &to);
        fd = accept(f->wall.tcp[strchr(event, ':') != NULL], NULL, NULL);
        assert_true(fd >= 0);
        assert_int_equal(getsockname(fd, &local.any, &n), 0);
        assert_int_equal(getpeername(fd, &peer.any, &peer_n), 0);
        assert_true(same_address(&to, &local));

        /* Who it was can be told by where it came from. */
        assert_true(next_event(f, &e));
        assert_int_equal(e.kind, EGRESS_EVENT_CONNECT);
        assert_int_equal(e.family, peer.any.sa_family);
        assert_int_equal(e.protocol, IPPROTO_TCP);
        assert_int_equal(e.dest_port, row->port);
        assert_int_equal(e.tgid, pid);
        assert_int_not_equal(e.stamp, 0);
        if (row->how != URING)
                assert_string_equal(e.comm, INSIDE_COMM);
        assert_memory_equal(e.dest,
                        e.family == AF_INET ? (void *) &local.in.sin_addr : (void *) &local.in6.sin6_addr,
                        e.family == AF_INET ? 4 : 16);
        source = source_of(&e);
        assert_true(same_address(&source, &peer));
        expect_no_event(f);
        assert_true(accept(f->wall.tcp[0], NULL, NULL) < 0);
        assert_true(accept(f->wall.tcp[1], NULL, NULL) < 0);
}

static void test_tcp(void **state)
{
        NEED_FIXTURE(f);

        for (size_t i = 0; i < ELEMENTSOF(tcp_rows); i++)
                if (has_address(f, tcp_rows[i].to))
                        check_tcp(f, tcp_rows + i);
}

/* ---- DNS: whatever server is asked, the warden is, and answers in its name */

typedef struct Dns {
        const char *server;
        bool connected;
} Dns;

static const Dns dns_rows[] = {
        { "8.8.8.8", false },
        { "8.8.8.8", true },
        { "127.0.0.53", false },
        { "127.0.0.1", true },
        { "192.0.2.1", true },
        { "192.0.2.2", false },
        { "169.254.169.254", false },
        { "2001:4860:4860::8888", false },
        { "2001:4860:4860::8888", true },
        { "::1", true },
        { "fd00:ab::2", false },
        { "fe80::1%1", false },
        { "::ffff:9.9.9.9", false },
        { "::ffff:9.9.9.9", true },
};

static int inside_dns(const void *argument)
{
        const Dns *row = argument;
        Address server, from = {};
        socklen_t n = make_address(row->server, 53, &server), from_n = sizeof(from);
        int fd = socket(server.any.sa_family, SOCK_DGRAM, 0);
        char answer[16] = "";

        if (row->connected && connect(fd, &server.any, n) < 0)
                return 1;
        if (row->connected ? send(fd, "question", 8, 0) != 8
                           : sendto(fd, "question", 8, 0, &server.any, n) != 8)
                return 2;
        if (wait_readable(fd) != 0)
                return 3;
        if (recvfrom(fd, answer, sizeof(answer), 0, &from.any, &from_n) != 6 ||
                        memcmp(answer, "answer", 6) != 0)
                return 4;
        return same_address(&server, &from) ? 0 : 5;
}

/* As the warden does: the destination of the question is the source of the answer. Returns who asked. */
static Address answer_one(int dns, const char *server)
{
        _Alignas(struct cmsghdr) char control[256] = {};
        char text[16] = "";
        struct iovec iov = { .iov_base = text, .iov_len = sizeof(text) };
        Address peer = {}, wanted, got = {};
        struct msghdr m = { .msg_name = &peer,
                .msg_namelen = sizeof(peer),
                .msg_iov = &iov,
                .msg_iovlen = 1,
                .msg_control = control,
                .msg_controllen = sizeof(control) };
        struct cmsghdr *c;

        assert_int_equal(wait_readable(dns), 0);
        assert_int_equal(recvmsg(dns, &m, 0), 8);
        c = CMSG_FIRSTHDR(&m);
        assert_non_null(c);
        make_address(server, 53, &wanted);
        if (c->cmsg_level == IPPROTO_IP) {
                struct in_pktinfo *i = (void *) CMSG_DATA(c);

                assert_int_equal(c->cmsg_type, IP_PKTINFO);
                got.in = (struct sockaddr_in){
                        .sin_family = AF_INET, .sin_port = htons(53), .sin_addr = i->ipi_addr
                };
                i->ipi_spec_dst = i->ipi_addr;
        } else {
                struct in6_pktinfo *i = (void *) CMSG_DATA(c);

                assert_int_equal(c->cmsg_type, IPV6_PKTINFO);
                got.in6 = (struct sockaddr_in6){
                        .sin6_family = AF_INET6, .sin6_port = htons(53), .sin6_addr = i->ipi6_addr
                };
        }
        assert_true(same_address(&wanted, &got));
        memcpy(text, "answer", 6);
        iov.iov_len = 6;
        assert_int_equal(sendmsg(dns, &m, 0), 6);
        return peer;
}

static void test_dns(void **state)
{
        NEED_FIXTURE(f);

        for (size_t i = 0; i < ELEMENTSOF(dns_rows); i++) {
                const char *server = dns_rows[i].server, *plain = startswith(server, "::ffff:");
                int dns = f->wall.dns[!plain && strchr(server, ':')];
                Address peer, source;
                char text[64];
                EgressEvent e;
                pid_t pid;

                if (!has_address(f, server))
                        continue;
                pid = start_inside(f, inside_dns, dns_rows + i);
                peer = answer_one(dns, server);
                finish_inside(pid);
                assert_true(peek_event(f, &e));
                source = source_of(&e);
                assert_true(same_address(&source, &peer));
                snprintf(text, sizeof(text), "%s", plain ? plain : server);
                text[strcspn(text, "%")] = 0;
                expect_event(f, EGRESS_EVENT_DNS, IPPROTO_UDP, text, 53, pid);
                expect_no_event(f);
        }
}

/* ---- what the sandbox does with itself is its own business */

typedef struct Own {
        const char *address;
        int type;
        uint16_t port;
} Own;

static const Own own_rows[] = {
        { "127.0.0.1", SOCK_STREAM },
        { "127.0.0.1", SOCK_DGRAM },
        { "127.9.9.9", SOCK_STREAM },
        { "127.9.9.9", SOCK_DGRAM },
        { "::1", SOCK_STREAM },
        { "::1", SOCK_DGRAM },
        { EGRESS_SANDBOX_IPV4, SOCK_STREAM },
        { EGRESS_SANDBOX_IPV4, SOCK_DGRAM },
        { EGRESS_SANDBOX_IPV6, SOCK_STREAM },
        { EGRESS_SANDBOX_IPV6, SOCK_DGRAM },
        { "::ffff:127.0.0.1", SOCK_STREAM },
        { "::ffff:127.0.0.1", SOCK_DGRAM },
        { "::ffff:" EGRESS_SANDBOX_IPV4, SOCK_STREAM },
        { "::ffff:" EGRESS_SANDBOX_IPV4, SOCK_DGRAM },
        { "0.0.0.0", SOCK_STREAM },
        { "0.0.0.0", SOCK_DGRAM },
        { "::", SOCK_STREAM },
        { "::", SOCK_DGRAM },
        { "127.0.0.1", SOCK_STREAM, 53 },
        { "::1", SOCK_STREAM, 53 },
};

/* A server that is bound to that address, a client that says two words to it, and nobody behind another
 * port. */
static int inside_own(const void *argument)
{
        const Own *row = argument;
        Address a, b;
        socklen_t n = make_address(row->address, row->port, &a), size = sizeof(b);
        int server = socket(a.any.sa_family, row->type, 0), client = socket(a.any.sa_family, row->type, 0),
            c;
        char text[8] = "";

        if (bind(server, &a.any, n) < 0 || getsockname(server, &b.any, &size) < 0)
                return 1;
        if (row->type == SOCK_STREAM && listen(server, 1) < 0)
                return 2;
        if (connect(client, &b.any, size) < 0 || send(client, "hi", 2, 0) != 2)
                return 3;
        c = row->type == SOCK_STREAM ? accept(server, NULL, NULL) : server;
        if (c < 0 || wait_readable(c) != 0 || recv(c, text, sizeof(text), 0) != 2)
                return 4;
        close(c);
        close(server);
        close(client);
        client = socket(a.any.sa_family, row->type, 0);
        if (row->type == SOCK_STREAM)
                return connect(client, &b.any, size) < 0 && errno == ECONNREFUSED ? 0 : 5;
        if (connect(client, &b.any, size) < 0 || send(client, "hi", 2, 0) != 2 || wait_readable(client) != 0)
                return 6;
        return recv(client, text, sizeof(text), 0) < 0 && errno == ECONNREFUSED ? 0 : 7;
}

static void test_own(void **state)
{
        NEED_FIXTURE(f);

        for (size_t i = 0; i < ELEMENTSOF(own_rows); i++) {
                int status;

                if (!has_address(f, own_rows[i].address))
                        continue;
                status = wait_inside(start_inside(f, inside_own, own_rows + i));
                if (status != 0)
                        fail_msg("%s, type %i: %i", own_rows[i].address, own_rows[i].type, status);
                expect_no_event(f);
        }
        for (size_t i = 0; i < 2; i++) {
                assert_true(accept(f->wall.tcp[i], NULL, NULL) < 0);
                assert_true(recv(f->wall.dns[i], &(char){ 0 }, 1, 0) < 0);
        }
}

/* ---- the warden's ports are taken, even for root and with SO_REUSEPORT */

static int inside_bind(const void *argument)
{
        const Fixture *f = argument;
        static const struct {
                const char *address;
                uint16_t port;
                int type;
        } rows[] = {
                { EGRESS_WARDEN_IPV4, EGRESS_WARDEN_PORT, SOCK_STREAM },
                { "0.0.0.0", EGRESS_WARDEN_PORT, SOCK_STREAM },
                { EGRESS_WARDEN_IPV6, EGRESS_WARDEN_PORT, SOCK_STREAM },
                { "::", EGRESS_WARDEN_PORT, SOCK_STREAM },
                { EGRESS_WARDEN_IPV4, 53, SOCK_DGRAM },
                { "0.0.0.0", 53, SOCK_DGRAM },
                { EGRESS_WARDEN_IPV6, 53, SOCK_DGRAM },
                { "::", 53, SOCK_DGRAM },
        };
        int one = 1;

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                Address a;
                socklen_t n = make_address(rows[i].address, rows[i].port, &a);
                _cleanup_close_ int fd = socket(a.any.sa_family, rows[i].type, 0);

                if (!has_address(f, rows[i].address))
                        continue;
                if (a.any.sa_family == AF_INET6)
                        (void) setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &one, sizeof(one));
                if (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) < 0 ||
                                setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0)
                        return 1;
                if (bind(fd, &a.any, n) >= 0)
                        return 10 + (int) i;
                if (errno != EADDRINUSE)
                        return 20 + (int) i;
        }
        return 0;
}

static void test_bind(void **state)
{
        NEED_FIXTURE(f);

        run_inside(f, inside_bind, f);
}

/* ---- whoever is gone refuses */

static int inside_refused(const void *argument)
{
        const bool *ipv6 = argument;
        static const char *const targets[] = { "1.2.3.4", "2001:db8::1", "192.0.2.1", "fd00:ab::1" };

        for (size_t i = 0; i < ELEMENTSOF(targets); i++) {
                Address a;
                socklen_t n = make_address(targets[i], i % 2 ? 443 : 1, &a);
                int tcp = socket(a.any.sa_family, SOCK_STREAM, 0),
                    udp = socket(a.any.sa_family, SOCK_DGRAM, 0);

                if (a.any.sa_family == AF_INET6 && !*ipv6)
                        continue;
                if (connect(tcp, &a.any, n) >= 0 || errno != ECONNREFUSED)
                        return 1 + (int) i;
                n = make_address(targets[i], 53, &a);
                if (connect(udp, &a.any, n) < 0 || send(udp, "x", 1, 0) != 1 || wait_readable(udp) != 0)
                        return 10 + (int) i;
                if (recv(udp, &(char){ 0 }, 1, 0) >= 0 || errno != ECONNREFUSED)
                        return 20 + (int) i;
        }
        return 0;
}

/* The link held, the sockets closed, as when the warden is killed. */
static void test_sockets_closed(void **state)
{
        NEED_FIXTURE(f);
        bool ipv6 = f->wall.tcp[1] >= 0;

        for (size_t i = 0; i < 2; i++) {
                closep(f->wall.tcp + i);
                closep(f->wall.dns + i);
                f->wall.tcp[i] = f->wall.dns[i] = -1;
        }
        run_inside(f, inside_refused, &ipv6);
}

static int inside_tcp_refused(const void *argument)
{
        Address a;
        socklen_t n = make_address("1.2.3.4", 443, &a);

        return connect_error(socket(AF_INET, SOCK_STREAM, 0), &a, n) == ECONNREFUSED ? 0 : 1;
}

/* The link closed, the sockets still there: the wall opens nothing by going. */
static void test_link_closed(void **state)
{
        NEED_FIXTURE(f);

        close(TAKE_FD(f->wall.link_fd));
        run_inside(f, inside_tcp_refused, NULL);
}

/* ---- no way out but lo */

static int inside_interfaces(const void *argument)
{
        _cleanup_free_ char *dev = NULL;

        if (read_file("/proc/thread-self/net/dev", 65536, &dev, NULL) < 0)
                return 1;
        /* The two lines of its head, and lo. */
        for (char *p = dev, *colon; (colon = strchr(p, ':')); p = colon + 1) {
                char *name = colon;

                while (name > dev && name[-1] != ' ' && name[-1] != '\n')
                        name--;
                if (strncmp(name, "lo:", 3) != 0)
                        return 2;
        }
        return strstr(dev, "lo:") ? 0 : 3;
}

static void test_interfaces(void **state)
{
        NEED_FIXTURE(f);

        run_inside(f, inside_interfaces, NULL);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, fixture_set_up, fixture_tear_down)
        static const struct CMUnitTest tests[] = {
                TEST(test_tcp),
                TEST(test_dns),
                TEST(test_own),
                TEST(test_bind),
                TEST(test_sockets_closed),
                TEST(test_link_closed),
                TEST(test_interfaces),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
