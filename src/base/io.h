/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macro.h"

/* Reads a whole file of at most max bytes; the text is NUL-terminated (ret_size does not count it). Files of /proc and /sys
 * say size 0 and are read all the same. -EFBIG where there is more. dir_fd as in openat(2). */
int read_file_at(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_size);
int read_file(const char *path, size_t max, char **ret, size_t *ret_size);
/* Writes a new file completely or not at all visible as complete: created with O_EXCL, no link followed. */
int write_new_file_at(int dir_fd, const char *name, const void *p, size_t n, mode_t mode);
/* Writes everything, retrying on EINTR and short writes. */
int write_full(int fd, const void *p, size_t n);
/* A sealed memfd that holds these bytes: nobody can change it any more, whoever gets it. Returns the fd. */
int memfd_sealed(const char *name, const void *p, size_t n);
/* Maps a memfd that must carry all seals against change, of at most max bytes, and copies it out. */
int memfd_read_sealed(int fd, size_t max, void **ret, size_t *ret_size);
int fd_set_nonblock(int fd, bool nonblock);
/* openat2(2): RESOLVE_* in resolve; a descriptor, CLOEXEC, or negative errno. */
int open_resolved(int dir_fd, const char *path, uint64_t flags, uint64_t resolve);
