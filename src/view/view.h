/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "wire/view.h"

/* The parts of agentbox-view. Each: 0, or negative errno. */

/* A user namespace in which the caller's uid stands for the run's, and no other uid for any; every gid but
 * the run's for itself. What mount_setattr(2) wants for MOUNT_ATTR_IDMAP. */
int view_map_open(const ViewRequest *q, int *ret_fd);

/* Makes the view in the run's mounts, which this process is in afterwards. *ret_stage: where it failed. Both
 * descriptors of the reply. */
int view_make(const ViewRequest *q, const int fds[_VIEW_REQUEST_FDS], int ret_fds[_VIEW_REPLY_FDS],
                ViewStage *ret_stage);
