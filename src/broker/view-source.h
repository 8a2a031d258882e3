/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/error.h"
#include "policy/policy.h"

/* Whether what a caller has opened may be seen in a run (--view). What the caller may read the kernel has
 * said, when the caller opened it, and says again for each file in it (agentbox-view.c); here is what the
 * policy and this broker add. No name of the caller's is followed: fd is what it is, wherever its name leads
 * by now. */

/* A directory that fd is open on for reading, in or beneath one of View=, on a file system whose files are
 * on this machine and have owners. mountinfo: the mount table of the host, in which it must lie; no file
 * system that is not one of those is asked for anything, for who answers there may be the caller. -EPERM:
 * none of View= holds it. ret_path: where the kernel says that it is, escaped, for people and records. */
int view_source_check(int fd, const char *mountinfo, const Policy *p, char **ret_path, Error **reterr);
