/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

/* Whether fd is the read or the write end of a pipe, and only that. -EINVAL, -EBADF. */
int pipe_check(int fd, bool writing);

/* The descriptors that a caller hands over for standard input, output and error will be the workload's:
 * nothing but a pipe, /dev/null or (tty) one pseudo-terminal is taken, so that a caller cannot hand a file,
 * a directory or a socket of the host into the sandbox. Each must be open in its direction. No file system
 * is asked, for it may be the caller's. forbidden_tty: device number of the caller's own terminal, which is
 * never taken; 0: it has none. */
int stdio_check(const int fds[3], bool tty, dev_t forbidden_tty, Error **reterr);

/* The controlling terminal of a process; 0 where it has none or is gone. */
dev_t process_terminal(pid_t pid);
