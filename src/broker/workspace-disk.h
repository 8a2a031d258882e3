/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "wire/attest.h"

/* The workspace of a run on disk (disk/disk-make.h), as the broker sees it: it makes and mounts none. */

/* What is on path in the root of the process. error: EXDEV where that is something else than fd, ENOTBLK where it is on no loop device
 * that shows a file without a name. */
int workspace_disk_look(int fd, pid_t pid, const char *path, AttestFs *ret, Error **reterr);
/* Nothing in there is wanted any more: what has not been written yet, will not be, so that nobody who closes the last descriptor of
 * it, here or in PID 1, waits for the disk. fd: of the run; nothing is done where it does not lead to a workspace on disk. */
void workspace_disk_abandon(int fd);
