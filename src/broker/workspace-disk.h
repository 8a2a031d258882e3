/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "wire/attest.h"

/* The workspace of a run whose policy says WorkspaceStore=disk: an ext4 in a nameless file beneath DISK_DIR, on a loop device.
 * Only the kernel ever writes its metadata and only the kernel reads them: the run gets the mounted file system, nobody the
 * device. It is mounted in the run's own mount namespace and nowhere else, so it ends, device, file and all, with the last
 * process that is in there and the last descriptor of the broker's, in whatever order they die. */

#define DISK_DIR "/var/lib/agentbox"

/* As PID 1 sees it: so the file's path, which the rules for udev go by, stays the host's when the broker is gone. */
int workspace_disk_directory(int *ret_fd, Error **reterr);
/* The file system, mounted nowhere yet; dir_fd: of DISK_DIR; host: the inode number of PID 1's mount namespace, by
 * which containers and the host, who share all loop devices, know their own; run: whose it is. Blocks on files, and on mke2fs (disk-image.h). */
int workspace_disk_make(int dir_fd, uint64_t host, const char *run, uint64_t size, uint64_t inodes, bool exec, int *ret_fd,
                Error **reterr);
/* Mounts it on path in the root of the process, which has a mount namespace of its own with this inode number, or -EPERM,
 * -ESTALE. What is seen of it there
 * afterwards, from outside: error EXDEV where that is something else. */
int workspace_disk_attach(int fd, pid_t pid, uint64_t mnt_inode, const char *path, AttestFs *ret, Error **reterr);
/* Nothing in there is wanted any more: what has not been written yet, will not be, so that nobody who closes the last descriptor of
 * it, here or in PID 1, waits for the disk. fd: any, and nothing is done where it does not lead to this run's workspace on disk. */
void workspace_disk_abandon(int fd, uint64_t host, const char *run);
/* How many of this host there are that is_living() does not know, by the names of their runs. */
int workspace_disks_left(uint64_t host, bool (*is_living)(const char *run, const void *userdata), const void *userdata, size_t *ret);
