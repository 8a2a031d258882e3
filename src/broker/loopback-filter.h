/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/error.h"

/* A second lock for runs with a network namespace of their own: a BPF program for IPIngressFilterPath= and
 * IPEgressFilterPath= that lets through what passes a loopback interface and nothing else. It is bound to
 * the run's cgroup, not to the namespace: a socket that came from elsewhere is caught as well.
 *
 * systemd takes such a program by the path of a pinned one. It is pinned in a bpf file system that is
 * mounted nowhere and goes with its descriptors, so nothing is ever left over, and nobody else can reach it:
 * *ret_fd is the pinned program, and PID 1 opens it as /proc/PID/fd/N. What runs have already stays with
 * them. Needs CAP_SYS_ADMIN and CAP_NET_ADMIN. */
int loopback_filter_open(int *ret_fd, Error **reterr);

/* The same for the calling process's own cgroup, both ways, for as long as that cgroup exists: what
 * IPAddressDeny=any would be, were it not that the broker makes the sockets that catch a run's traffic.
 * Those count to its cgroup wherever they are handed, and so does each connection that they accept, whose
 * peers have any address: but all of that is loopback. Call it before the first such socket, and make none
 * where it failed. cgroup_root: where the unified hierarchy is mounted, or NULL. Refuses (-EBUSY) where
 * other processes are in the cgroup. */
int loopback_filter_confine_self(const char *cgroup_root, Error **reterr);
