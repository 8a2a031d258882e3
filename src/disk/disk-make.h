/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* The workspace of a run whose policy says WorkspaceStore=disk: an ext4 in a nameless file beneath DISK_DIR, on a loop device.
 * Only the kernel ever writes its metadata and only the kernel reads them: the run gets the mounted file system, nobody the
 * device. It is mounted in the run's own mount namespace and nowhere else, so it ends, device, file and all, with the last
 * process that is in there and the last descriptor of the broker's, in whatever order they die. */

#define DISK_DIR "/var/lib/agentbox"

/* As PID 1 sees it: so the file's path, which the rules for udev go by, stays the host's when this process is gone. */
int disk_directory(int *ret_fd, Error **reterr);
/* The inode number of PID 1's mount namespace, by which containers and the host, who share all loop devices, know their own. */
int disk_host(uint64_t *ret, Error **reterr);
/* The file system, mounted nowhere yet; dir_fd: of DISK_DIR; run: whose it is. Waits for files and for mke2fs (disk-image.h). */
int disk_make(int dir_fd, uint64_t host, const char *run, uint64_t size, uint64_t inodes, bool exec, int wanted_fd, int *ret_fd, Error **reterr);
/* Enters, for good, a mount namespace that is not this process's own (-EPERM), and mounts fd on path there. No link is followed. */
int disk_attach(int fd, int mounts_fd, const char *path, Error **reterr);
/* Whose workspaces there are on this host, but those of the living. */
int disks_left(uint64_t host, char *const *living, char ***ret, Error **reterr);
