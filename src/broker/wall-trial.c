/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>

#include "broker/wall-sockets.h"

/* Everything here is loopback: an answer is there when the call that asks for it returns, but for softirqs
 * that the kernel put off to a thread. Hence a wait that is never waited out. */
#define PATIENCE_MSEC 2000

/* Documentation addresses (RFC 5737, RFC 3849) that are not the wall's own. */
static const struct {
        int family;
        const char *foreign, *loopback;
} rows[] = {
        { AF_INET, "203.0.113.9", "127.0.0.1" },
        { AF_INET6, "2001:db8::9", "::1" },
};
#define TCP_PORT 8443
#define UDP_PORT 443
#define DNS_PORT 53

typedef union Address {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
} Address;

static socklen_t make_address(size_t row, const char *text, uint16_t port, Address *ret)
{
        *ret = (Address){};
        ret->any.sa_family = (sa_family_t) rows[row].family;
        if (rows[row].family == AF_INET) {
                ret->in.sin_port = htons(port);
                (void) inet_pton(AF_INET, text, &ret->in.sin_addr);
                return sizeof(ret->in);
        }
        ret->in6.sin6_port = htons(port);
        (void) inet_pton(AF_INET6, text, &ret->in6.sin6_addr);
        return sizeof(ret->in6);
}

static bool same_address(size_t row, const Address *a, const Address *b)
{
        return rows[row].family == AF_INET ? a->in.sin_addr.s_addr == b->in.sin_addr.s_addr &&
                                                             a->in.sin_port == b->in.sin_port
                                           : memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr,
                                                             sizeof(struct in6_addr)) == 0 &&
                                                             a->in6.sin6_port == b->in6.sin6_port;
}

static int wait_for(int fd, short events)
{
        struct pollfd p = { .fd = fd, .events = events };
        int r;

        do
                r = poll(&p, 1, PATIENCE_MSEC);
        while (r < 0 && errno == EINTR);
        return r < 0 ? -errno : r == 0 ? -ETIMEDOUT : 0;
}

/* What a connect comes to: 0 or negative errno. */
static int try_connect(int fd, const Address *a, socklen_t size)
{
        socklen_t n = sizeof(int);
        int error = 0, r;

        if (connect(fd, &a->any, size) >= 0)
                return 0;
        if (errno != EINPROGRESS)
                return -errno;
        r = wait_for(fd, POLLOUT);
        if (r < 0)
                return r;
        return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0 ? -errno : -error;
}

static int try_tcp(size_t row, int listener)
{
        _cleanup_close_ int client = socket(rows[row].family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                            server = -1;
        struct linger reset = { .l_onoff = 1 }; /* nothing stays in TIME_WAIT */
        Address wanted, got = {};
        socklen_t size = make_address(row, rows[row].foreign, TCP_PORT, &wanted), n = sizeof(got);
        int r;

        if (client < 0 || setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)) < 0)
                return -errno;
        r = try_connect(client, &wanted, size);
        if (r < 0)
                return r;
        r = wait_for(listener, POLLIN);
        if (r < 0)
                return r;
        server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (server < 0 || getsockname(server, &got.any, &n) < 0)
                return -errno;
        return same_address(row, &wanted, &got) ? 0 : -EADDRNOTAVAIL;
}

/* A datagram to a foreign name server arrives at the DNS socket with its destination. */
static int try_dns(size_t row, int dns)
{
        _cleanup_close_ int client = socket(rows[row].family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(struct in6_pktinfo))];
        } control = {};
        char byte = 0;
        struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
        struct msghdr m = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        Address wanted, got = {};
        socklen_t size = make_address(row, rows[row].foreign, DNS_PORT, &wanted);
        struct cmsghdr *c;
        int r;

        if (client < 0 || sendto(client, "?", 1, 0, &wanted.any, size) != 1)
                return -errno;
        r = wait_for(dns, POLLIN);
        if (r < 0)
                return r;
        if (recvmsg(dns, &m, 0) < 0)
                return -errno;
        c = CMSG_FIRSTHDR(&m);
        if (!c)
                return -ENODATA;
        (void) make_address(row, rows[row].loopback, DNS_PORT, &got);
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO)
                got.in.sin_addr = ((struct in_pktinfo *) (void *) CMSG_DATA(c))->ipi_addr;
        else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO)
                got.in6.sin6_addr = ((struct in6_pktinfo *) (void *) CMSG_DATA(c))->ipi6_addr;
        return byte == '?' && same_address(row, &wanted, &got) ? 0 : -EADDRNOTAVAIL;
}

/* Another datagram is refused: the socket learns of it. */
static int try_udp(size_t row)
{
        _cleanup_close_ int fd = socket(rows[row].family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        Address a;
        socklen_t size = make_address(row, rows[row].foreign, UDP_PORT, &a);
        int r;

        if (fd < 0 || connect(fd, &a.any, size) < 0 || send(fd, "?", 1, 0) != 1)
                return -errno;
        r = wait_for(fd, POLLIN);
        if (r < 0)
                return r;
        if (recv(fd, &(char){ 0 }, 1, 0) >= 0)
                return -EISCONN;
        return errno == ECONNREFUSED ? 0 : -errno;
}

/* Nothing listens there, and the wall does not step in. */
static int try_loopback(size_t row)
{
        _cleanup_close_ int fd = socket(rows[row].family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        Address a;
        socklen_t size = make_address(row, rows[row].loopback, TCP_PORT, &a);
        int r = fd < 0 ? -errno : try_connect(fd, &a, size);

        return r == -ECONNREFUSED ? 0 : r < 0 ? r : -EISCONN;
}

static int fail(int r, size_t row, const char *what, Error **reterr)
{
        return error_set(reterr, r, "trying the wall: %s over %s: %s", what,
                        rows[row].family == AF_INET ? "IPv4" : "IPv6", strerror(-r));
}

int wall_sockets_try(const WallSockets *s, Error **reterr)
{
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                int r;

                if (s->tcp[i] < 0)
                        continue;
                r = try_tcp(i, s->tcp[i]);
                if (r < 0)
                        return fail(r, i, "TCP to a foreign address does not arrive", reterr);
                r = try_dns(i, s->dns[i]);
                if (r < 0)
                        return fail(r, i, "a datagram to a foreign name server does not arrive", reterr);
                r = try_udp(i);
                if (r < 0)
                        return fail(r, i, "a datagram to elsewhere is not refused", reterr);
                r = try_loopback(i);
                if (r < 0)
                        return fail(r, i, "TCP to loopback is not left alone", reterr);
        }
        return 0;
}
