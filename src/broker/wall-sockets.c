/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "broker/wall-sockets.h"

#define DNS_PORT 53
/* What the kernel allows by itself (net.core.somaxconn of a new namespace); it cuts silently where it allows
 * less. */
#define BACKLOG 4096

typedef union Address {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
} Address;

static socklen_t warden_address(int family, uint16_t port, Address *ret)
{
        *ret = (Address){};
        if (family == AF_INET) {
                ret->in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
                (void) inet_pton(AF_INET, EGRESS_WARDEN_IPV4, &ret->in.sin_addr);
                return sizeof(ret->in);
        }
        ret->in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(port) };
        (void) inet_pton(AF_INET6, EGRESS_WARDEN_IPV6, &ret->in6.sin6_addr);
        return sizeof(ret->in6);
}

typedef struct Option {
        int level, name;
} Option;

/* The addresses are nowhere assigned: IPv4 takes them as local from the route alone, IPv6 wants to be told.
 */
static const Option options_ipv6[] = { { IPPROTO_IPV6, IPV6_V6ONLY }, { IPPROTO_IPV6, IPV6_FREEBIND } },
                    options_dns_ipv4[] = { { IPPROTO_IP, IP_PKTINFO } },
                    options_dns_ipv6[] = { { IPPROTO_IPV6, IPV6_RECVPKTINFO } };

static int set_options(int fd, const Option *options, size_t n)
{
        int one = 1;

        for (size_t i = 0; i < n; i++)
                if (setsockopt(fd, options[i].level, options[i].name, &one, sizeof(one)) < 0)
                        return -errno;
        return 0;
}

static int prepare(int fd, int family, int type)
{
        Address a;
        socklen_t size = warden_address(family, type == SOCK_STREAM ? EGRESS_WARDEN_PORT : DNS_PORT, &a);
        int r = 0;

        if (family == AF_INET6)
                r = set_options(fd, options_ipv6, ELEMENTSOF(options_ipv6));
        if (r >= 0 && type == SOCK_DGRAM && family == AF_INET)
                r = set_options(fd, options_dns_ipv4, ELEMENTSOF(options_dns_ipv4));
        if (r >= 0 && type == SOCK_DGRAM && family == AF_INET6)
                r = set_options(fd, options_dns_ipv6, ELEMENTSOF(options_dns_ipv6));
        if (r < 0)
                return r;
        if (bind(fd, &a.any, size) < 0 || (type == SOCK_STREAM && listen(fd, BACKLOG) < 0))
                return -errno;
        return 0;
}

int wall_sockets_make(bool ipv6, WallSockets *ret, Error **reterr)
{
        const struct {
                int *fd, family, type;
        } rows[] = {
                { ret->tcp, AF_INET, SOCK_STREAM },
                { ret->dns, AF_INET, SOCK_DGRAM },
                { ret->tcp + 1, AF_INET6, SOCK_STREAM },
                { ret->dns + 1, AF_INET6, SOCK_DGRAM },
        };

        *ret = (WallSockets){ .tcp = { -1, -1 }, .dns = { -1, -1 } };
        for (size_t i = 0; i < (ipv6 ? 4u : 2u); i++) {
                int r;

                *rows[i].fd = socket(rows[i].family, rows[i].type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
                r = *rows[i].fd < 0 ? -errno : prepare(*rows[i].fd, rows[i].family, rows[i].type);
                if (r < 0)
                        return error_set(reterr, r, "%s of the wall over %s: %s",
                                        rows[i].type == SOCK_STREAM ? "listener" : "DNS socket",
                                        rows[i].family == AF_INET ? "IPv4" : "IPv6", strerror(-r));
        }
        return 0;
}
