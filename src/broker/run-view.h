/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <systemd/sd-event.h>

#include "base/error.h"

/* The directory of the host's that a run sees in its workspace (--view). The caller has opened it;
 * agentbox-view mounts it, while the shim waits; the broker judges the one and verifies the other. */

typedef struct Run Run;

typedef struct RunView {
        char *path;  /* of the directory, escaped: the kernel's word for it */
        int tree_fd; /* the caller's open descriptor; -1: agentbox-view has it */
        int socket_fd;
        sd_event_source *source;
        bool is_there;
        int changes_fd, merged_fd; /* see wire/view.h */
} RunView;

RunView *run_view_free(RunView *v);
/* From the request: judged against the policy. Nothing where none was asked for. */
int run_view_take(Run *r, Error **reterr);
/* The shim stands in its mounts, and nothing untrusted has run: has the view made. run_advance() follows
 * when it is there, run_refuse() when it will not be. */
int run_view_begin(Run *r, Error **reterr);
/* It was asked for, and has not been made. */
bool run_view_is_awaited(const Run *r);
