/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* What the broker does in a namespace of a run's: a child enters it and does nothing else, the broker never leaves its own. */

/* In the child. 0, or negative errno. */
typedef int NamespaceWork(const void *argument);

/* kind: "uts" or "mnt", as in /proc/PID/ns. -EPERM where the process shares the broker's; -ESTALE where inode, unless 0,
 * is another's: the number is somebody else's by now. what: in words, what is to be done, for errors. */
int namespace_enter(pid_t pid, const char *kind, uint64_t inode, NamespaceWork *work, const void *argument, const char *what, Error **reterr);
/* A child that does this work, waited for. */
int child_work(NamespaceWork *work, const void *argument, const char *what, Error **reterr);
