/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <sys/types.h>

/* Runs and their records belong to a uid, for as long as the journal keeps them. So callers are accounts that keep theirs: not
 * services with DynamicUser=, whose number the next one may get; not what the kernel shows for somebody of another user namespace;
 * nobody of a container. Pure. */

/* NULL: it may be a caller. Else why not, behind "uid N ". user: what the user database calls it; NULL: it does not know it. */
const char *caller_uid_refusal(uid_t uid, const char *user);
