/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "broker/bpf-call.h"
#include "broker/broker-netns.h"
#include "broker/broker-wall.h"
#include "broker/route-netlink.h"
#include "broker/wall-programs.h"
#include "broker/wall-sockets.h"
#include "broker/wall-verify.h"

/* How the descriptors travel from the child that makes the wall: the fields of Wall in this order. */
enum { FD_TCP, FD_DNS = FD_TCP + 2, FD_LINK = FD_DNS + 2, FD_EVENTS, FD_COUNTERS, FD_NETLINK, FD_PROGRAMS };
_Static_assert(FD_PROGRAMS + WALL_PROGRAMS <= NETNS_FDS_MAX, "they all travel in one message");

/* In the child, inside the namespace. */
static int wall_make(int netns_fd, bool ipv6, int fds[static NETNS_FDS_MAX], Error **reterr)
{
        WallSockets s;
        Wall w = WALL_NONE;
        int lookup, r;

        r = wall_sockets_make(ipv6, &s, reterr);
        if (r >= 0)
                r = wall_programs_load(&s, &w, &lookup, reterr);
        if (r < 0)
                return r;
        w.link_fd = wall_programs_link(lookup, netns_fd);
        if (w.link_fd < 0)
                return error_set(reterr, w.link_fd, "the kernel does not attach the sk_lookup program: %s",
                                strerror(-w.link_fd));
        r = wall_sockets_try(&s, reterr);
        if (r < 0)
                return r;
        w.netlink_fd = route_netlink_open();
        if (w.netlink_fd < 0)
                return error_set(reterr, w.netlink_fd, "netlink socket: %s", strerror(-w.netlink_fd));
        memcpy(fds + FD_TCP, s.tcp, sizeof(s.tcp));
        memcpy(fds + FD_DNS, s.dns, sizeof(s.dns));
        fds[FD_LINK] = w.link_fd;
        fds[FD_EVENTS] = w.events_fd;
        fds[FD_COUNTERS] = w.counters_fd;
        fds[FD_NETLINK] = w.netlink_fd;
        memcpy(fds + FD_PROGRAMS, w.programs, sizeof(w.programs));
        return 0;
}

int wall_create(Wall *ret, Error **reterr)
{
        int fds[NETNS_FDS_MAX], r;
        Wall w = WALL_NONE;

        r = netns_create_with(wall_make, &w.netns_fd, &w.netns_inode, fds, reterr);
        if (r < 0)
                return r;
        memcpy(w.tcp, fds + FD_TCP, sizeof(w.tcp));
        memcpy(w.dns, fds + FD_DNS, sizeof(w.dns));
        w.link_fd = fds[FD_LINK];
        w.events_fd = fds[FD_EVENTS];
        w.counters_fd = fds[FD_COUNTERS];
        w.netlink_fd = fds[FD_NETLINK];
        memcpy(w.programs, fds + FD_PROGRAMS, sizeof(w.programs));
        r = wall_link_program(w.link_fd, &w.lookup_id);
        if (r < 0) {
                wall_done(&w);
                return error_set(reterr, r, "the link of the sk_lookup program: %s", strerror(-r));
        }
        *ret = w;
        return 0;
}

void wall_done(Wall *w)
{
        int *fds[] = { &w->netns_fd, w->tcp, w->tcp + 1, w->dns, w->dns + 1, &w->link_fd, &w->events_fd,
                &w->counters_fd, &w->netlink_fd };

        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                closep(fds[i]);
        for (size_t i = 0; i < WALL_PROGRAMS; i++)
                closep(w->programs + i);
        *w = WALL_NONE;
}

int wall_attach(const Wall *w, int cgroup_fd, Error **reterr)
{
        for (size_t i = 0; i < WALL_PROGRAMS; i++) {
                int r = bpf_cgroup_attach(cgroup_fd, wall_attach_type(i), w->programs[i]);

                if (r < 0)
                        return error_set(reterr, r,
                                        "the kernel does not attach a program of the wall to the run's "
                                        "cgroup: %s",
                                        strerror(-r));
        }
        return 0;
}
