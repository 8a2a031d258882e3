/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <sys/types.h>

/* copyout-confine.c: 0, or a negative errno, and then nothing of the workspace may be looked at. */

/* The workspace becomes the root and the working directory; all groups, capabilities and uids but the given
 * go, for good; no other descriptor is open. Checked by reading back. */
int copyout_confine_identity(int workspace, uid_t uid, gid_t gid);
/* Nothing can be opened but beneath these directories, for reading. Where the kernel has no Landlock, the root
 * is what does that; above the top of a view, whose mount is nowhere any more, there is nothing. */
int copyout_confine_landlock(const int *directories, size_t n);
/* Only what copying needs: see the table. Nothing may be allocated from here on. */
int copyout_confine_seccomp(void);
