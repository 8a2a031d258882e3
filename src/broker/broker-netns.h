/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* A network namespace in which every destination is local (lo with EGRESS_SANDBOX_IPV4 and _IPV6, local
 * default routes) and nothing listens: TCP is refused at once, no packet can leave, a ping is not answered.
 * The namespace lives as long as the fd or a process in it. Hand /proc/PID/fd/N to PID 1 as
 * NetworkNamespacePath=. Needs CAP_SYS_ADMIN and CAP_NET_ADMIN; the caller's own namespace stays what it is.
 */
int netns_create(int *ret_fd, uint64_t *ret_inode, Error **reterr);

/* The same with what work makes in it, in the child that entered it: up to NETNS_FDS_MAX descriptors, which
 * are -1 where it makes none and are the caller's afterwards. The child ends after that; work need not clean
 * up. ipv6: whether the namespace has it. */
#define NETNS_FDS_MAX 16
typedef int NetnsWork(int netns_fd, bool ipv6, int fds[static NETNS_FDS_MAX], Error **reterr);
int netns_create_with(NetnsWork *work, int *ret_fd, uint64_t *ret_inode, int ret_fds[static NETNS_FDS_MAX],
                Error **reterr);

/* Gives the UTS namespace of pid another host name: ProtectHostname= keeps the host's own in it. Refuses
 * (-EPERM) where pid shares the caller's. */
int uts_set_hostname(pid_t pid, const char *name, Error **reterr);
