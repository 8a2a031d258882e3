/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <sys/types.h>

#include "base/buf.h"

/* Messages with descriptors beside them (SOCK_SEQPACKET), between the broker and whoever PID 1 starts for a connection of it. */

#define PACKET_FDS_MAX 2u

/* Never waits: who is not there, or has too much to do, is an error. */
int packet_connect(const char *path);
/* Whether root is at the other end: 0, -EPERM; -ENOTSOCK. */
int packet_check_root(int fd);
/* One message with its descriptors, which are borrowed. */
int packet_send(int fd, const Buf *message, const int *fds, size_t n_fds);
/* p: max bytes. The size of the message; 0: nobody is there any more. As many descriptors as came are in fds
 * (at most n_fds; the rest of it is -1), CLOEXEC; more, or anything else beside the message, is -EBADMSG. */
ssize_t packet_receive(int fd, int flags, void *p, size_t max, int *ret_fds, size_t n_fds);
