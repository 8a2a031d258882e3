/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "warden/warden-address.h"
#include "warden/warden-route.h"

typedef struct RouteRequest {
        struct nlmsghdr header;
        struct rtmsg route;
        struct rtattr attribute;
        uint8_t address[16];
} RouteRequest;

int router_open(Router *ret)
{
        int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

        if (fd < 0)
                return -errno;
        *ret = (Router){ .fd = fd };
        return 0;
}

/* The kernel answers while the request is being sent: nothing here waits. What a request before this one left over is
 * passed by. */
static int receive(int fd, uint32_t sequence, unsigned char *ret_type)
{
        for (;;) {
                union {
                        struct nlmsghdr header;
                        uint8_t bytes[1024];
                } answer;
                struct rtmsg route;
                ssize_t n = recv(fd, &answer, sizeof(answer), 0);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if ((size_t) n < NLMSG_LENGTH(sizeof(struct rtmsg)) || answer.header.nlmsg_seq != sequence)
                        continue;
                if (answer.header.nlmsg_type != RTM_NEWROUTE)
                        return -ENETUNREACH;
                memcpy(&route, NLMSG_DATA(&answer.header), sizeof(route));
                *ret_type = route.rtm_type;
                return 0;
        }
}

static EgressReason ask(Router *r, const EgressAddress *a)
{
        size_t size = address_size(a);
        RouteRequest q = {
                .header = {
                        .nlmsg_len = (uint32_t) (NLMSG_LENGTH(sizeof(struct rtmsg)) + RTA_LENGTH(size)),
                        .nlmsg_type = RTM_GETROUTE,
                        .nlmsg_flags = NLM_F_REQUEST,
                        .nlmsg_seq = ++r->sequence,
                },
                .route = { .rtm_family = a->family, .rtm_dst_len = (unsigned char) (8 * size) },
                .attribute = { .rta_type = RTA_DST, .rta_len = (unsigned short) RTA_LENGTH(size) },
        };
        struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
        unsigned char type;

        memcpy(q.address, a->bytes, size);
        if (sendto(r->fd, &q, q.header.nlmsg_len, 0, (struct sockaddr *) &kernel, sizeof(kernel)) < 0 ||
                        receive(r->fd, r->sequence, &type) < 0)
                return EGRESS_CONNECT_FAILED;
        switch (type) {
        case RTN_UNICAST:
                return EGRESS_OK;
        case RTN_LOCAL:
                return EGRESS_HOST_LOCAL;
        case RTN_BROADCAST:
        case RTN_ANYCAST:
        case RTN_MULTICAST:
                return EGRESS_ADDR_BLOCKED;
        default:
                return EGRESS_CONNECT_FAILED;
        }
}

EgressReason router_check(Router *r, const EgressAddress *a, uint64_t now)
{
        if (r->asked_at != now || r->asked.family != a->family || memcmp(r->asked.bytes, a->bytes, address_size(a)) != 0) {
                r->answer = ask(r, a);
                r->asked = *a;
                r->asked_at = now;
        }
        return r->answer;
}
