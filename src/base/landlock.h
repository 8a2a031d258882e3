/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdint.h>

/* Landlock: the kernel's interface (landlock(7)), spelt out, as the headers that this is built with may know less than the kernel it
 * runs on. All return negative errno. */

enum {
        LANDLOCK_FS_EXECUTE = 1u << 0,
        LANDLOCK_FS_WRITE_FILE = 1u << 1,
        LANDLOCK_FS_READ_FILE = 1u << 2,
        LANDLOCK_FS_READ_DIR = 1u << 3,
        LANDLOCK_FS_MAKE_CHAR = 1u << 6,
        LANDLOCK_FS_MAKE_BLOCK = 1u << 11,
        LANDLOCK_FS_TRUNCATE = 1u << 14,
        LANDLOCK_FS_IOCTL_DEV = 1u << 15,
        LANDLOCK_NET_ALL = 3u,
        LANDLOCK_SCOPE_ALL = 3u, /* abstract sockets and signals of processes outside */
};

/* What a ruleset takes from whoever restricts itself with it: each right that it handles and no rule gives back. */
typedef struct LandlockRights {
        uint64_t fs, net, scopes;
} LandlockRights;

int landlock_abi(void); /* ≥ 1 */

/* Of wanted, what version abi knows. */
LandlockRights landlock_known(int abi, LandlockRights wanted);

/* A ruleset that handles exactly these, of which abi knows all: a descriptor for the caller to close. */
int landlock_ruleset(int abi, LandlockRights rights);

/* What is beneath that descriptor (of a file: it alone) gets rights back. */
int landlock_allow_beneath(int ruleset_fd, int fd, uint64_t fs);

/* For good, and for all that this thread executes. It needs no_new_privs. */
int landlock_restrict(int ruleset_fd);
