/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

/* The child that becomes the command of a scope: agentbox-exec under the caller's own uid. It must be ours,
 * for the broker's own namespaces, filters and capabilities would stay with a child of the broker. Until it
 * is in the scope and was verified, it waits at its end of the channel. */
typedef struct ScopeChild {
        pid_t pid;          /* 0: none */
        int pidfd, channel; /* the broker gets both */
        bool ended;
        int code, status; /* CLD_*, and the exit status or signal */
} ScopeChild;

#define SCOPE_CHILD_NONE ((ScopeChild){ .pidfd = -1, .channel = -1 })

/* Returns when it executes agentbox-exec. */
int scope_child_start(ScopeChild *ret, Error **reterr);
/* It has exited: fills code and status. */
int scope_child_reap(ScopeChild *c);
/* Kills it where it lives still. */
void scope_child_done(ScopeChild *c);
