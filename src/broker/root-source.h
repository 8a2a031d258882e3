/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* Where the parts of a run's root come from: the tree that Root= names, and how a path is followed in it. */

/* The directory that an absolute path names, as O_PATH. Nobody but root may be able to put something else
 * there: each part of the path is root's, writable by nobody else, and no link. -EOPNOTSUPP: it is no
 * directory. */
int root_source_open(const char *path, int *ret_fd, Error **reterr);

/* A path of the tree, as O_PATH. Links are followed as the tree itself has them: they cannot lead out of it.
 * With O_NOFOLLOW in flags, not the last one. */
int root_source_openat(int source_fd, const char *path, uint64_t flags);

/* Its absolute path, without links, newly allocated. */
int fd_get_path(int fd, char **ret);
