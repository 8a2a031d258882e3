/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "wire/egress.h"

/* The egress wall of one filtered run: a network namespace in which every destination is local
 * (broker-netns.h), the sockets that catch what is sent there, the sk_lookup program that leads it to them,
 * and the programs for the run's cgroup that say who it was and see what was refused. Made before the run is
 * known; nothing in it depends on one. */
#define WALL_PROGRAMS 5
typedef struct Wall {
        int netns_fd;
        uint64_t netns_inode;
        int tcp[2], dns[2];          /* IPv4, IPv6; -1: the kernel has no IPv6 */
        int link_fd;                 /* sk_lookup, attached to the namespace */
        uint32_t lookup_id;          /* of that program */
        int events_fd, counters_fd;  /* see wire/egress.h */
        int programs[WALL_PROGRAMS]; /* for the run's cgroup: loaded, not attached */
        int netlink_fd;              /* a netlink socket in the namespace: wall_verify() asks by it */
} Wall;
#define WALL_NONE                                           \
        ((Wall){ .netns_fd = -1,                            \
                        .tcp = { -1, -1 },                  \
                        .dns = { -1, -1 },                  \
                        .link_fd = -1,                      \
                        .events_fd = -1,                    \
                        .counters_fd = -1,                  \
                        .programs = { -1, -1, -1, -1, -1 }, \
                        .netlink_fd = -1 })
/* Makes it, and tries it from inside before it says that it is there: TCP to a foreign address and datagrams
 * to a foreign name server arrive at the sockets with their destination, a datagram to elsewhere is refused
 * and its event is in the ring once a program of the cgroup is attached (not here), TCP to 127.0.0.1 does
 * not arrive. Needs CAP_SYS_ADMIN, CAP_NET_ADMIN. The error names the stage; *ret is then untouched. */
int wall_create(Wall *ret, Error **reterr);
void wall_done(Wall *w); /* closes, and is WALL_NONE then; the namespace lives on with the processes in it */

/* Attaches the programs to the run's cgroup; they stay for as long as it does. cgroup_fd: of the cgroup2
 * hierarchy. */
int wall_attach(const Wall *w, int cgroup_fd, Error **reterr);

/* Whether it stands as it was made: the link is of sk_lookup, of this namespace and of our program, the
 * routes and lo are there (asked of the namespace itself), our programs are the ones attached to the cgroup.
 * 0: it does; 1: why says what not; negative errno: cannot be found out. */
int wall_verify(const Wall *w, int cgroup_fd, Buf *why);
