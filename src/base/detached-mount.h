/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stddef.h>

/* File systems of a process that are mounted nowhere: whoever dies, they go with the last descriptor of theirs. */

/* Says one thing to the file system; value NULL: a flag. */
typedef struct MountOption {
        const char *name, *value;
} MountOption;

/* attributes: MOUNT_ATTR_…. Returns the root, as O_PATH; negative errno. */
int detached_mount(const char *type, const MountOption *options, size_t n, unsigned attributes);
