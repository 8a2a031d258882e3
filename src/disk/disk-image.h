/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* A file that holds a file system, for a workspace on disk. It has no name: the kernel gives its room back when the last
 * descriptor, loop device or mount of it is gone, whoever died before. */

/* All of size is taken at once, in the file system of the directory dir_fd (which errors call path), of which it leaves a part
 * free, whoever else makes some at the same time. Empty but for lost+found; at most inodes files (policy_check_consistent() has
 * compared the two). Blocks for as long as mke2fs takes, ten seconds at most, or until wanted_fd hangs up
 * (base/child.h). */
int disk_image_make(int dir_fd, const char *path, uint64_t size, uint64_t inodes, int wanted_fd, int *ret_fd, Error **reterr);
