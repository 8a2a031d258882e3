/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stddef.h>
#include <stdint.h>

/* Requests to the kernel about interfaces, addresses and routes (rtnetlink(7)), one at a time, of the
 * network namespace that the socket was made in. The kernel answers within the call that asks, so nothing
 * here ever waits. */

typedef struct RouteRequest {
        struct nlmsghdr header;
        union {
                struct ifinfomsg link;
                struct ifaddrmsg address;
                struct rtmsg route;
                char space[64];
        } body;
        char attributes[128];
} RouteRequest;

/* The socket, in the namespace of the calling thread, or negative errno. */
int route_netlink_open(void);

RouteRequest route_request(uint16_t type, uint16_t flags, size_t body_size);
void route_attribute(RouteRequest *q, uint16_t type, const void *p, size_t n);

/* A change: 0, or the negative errno that the kernel answers with. */
int route_change(int fd, const RouteRequest *q);

/* A question: answer is called for each message of the type that the kernel sends back; what it returns, if
 * not 0, ends the rest. -EBADMSG where the kernel's words make no sense, else its negative errno, else what
 * answer returned. */
typedef int RouteAnswer(const struct nlmsghdr *m, void *userdata);
int route_ask(int fd, const RouteRequest *q, uint16_t type, RouteAnswer *answer, void *userdata);
/* The attribute of a message whose body has that size, at least size bytes long; NULL where it is not there.
 */
const void *route_answer_attribute(const struct nlmsghdr *m, size_t body_size, uint16_t type, size_t size);
