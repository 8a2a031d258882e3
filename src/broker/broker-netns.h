/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* A network namespace in which every destination is local (lo with 192.0.2.2/32, fd00:ab::2/128, local default routes) and nothing
 * listens: TCP is refused at once, no packet can leave. The namespace lives as long as the fd or a process in it. */
int netns_create(int *ret_fd, uint64_t *ret_inode, Error **reterr);
