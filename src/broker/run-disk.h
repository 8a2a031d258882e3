/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <systemd/sd-event.h>

#include "base/error.h"
#include "wire/attest.h"

/* The workspace of a run under WorkspaceStore=disk. agentbox-disk makes it while the unit comes up, and mounts it while the shim
 * waits in its mounts; the broker looks at what is there, and verifies that. */

typedef struct Run Run;

typedef struct RunDisk {
        int socket_fd;
        sd_event_source *source;
        bool has_place, is_there;
        AttestFs seen; /* in the run's root */
} RunDisk;

RunDisk *run_disk_free(RunDisk *d);
/* Asks for it. Nothing where the policy has none. run_refuse() follows where there will be none. */
int run_disk_prepare(Run *r, Error **reterr);
/* The shim stands in its mounts, and nothing untrusted has run: that is where it belongs. run_advance() follows when it is there. */
int run_disk_begin(Run *r, Error **reterr);
/* It was asked for, and is not there. */
bool run_disk_is_awaited(const Run *r);
