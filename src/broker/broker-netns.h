/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* A network namespace in which every destination is local (lo with 192.0.2.2/32, fd00:ab::2/128, local
 * default routes) and nothing listens: TCP is refused at once, no packet can leave. The namespace lives as
 * long as the fd or a process in it. Hand /proc/PID/fd/N to PID 1 as NetworkNamespacePath=. Needs
 * CAP_SYS_ADMIN; the caller's own namespace stays what it is. */
int netns_create(int *ret_fd, uint64_t *ret_inode, Error **reterr);

/* Gives the UTS namespace of pid another host name: ProtectHostname= keeps the host's own in it. Refuses
 * (-EPERM) where pid shares the caller's. */
int uts_set_hostname(pid_t pid, const char *name, Error **reterr);
