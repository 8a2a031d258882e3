/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/error.h"

/* Whether this kernel can hold a run's traffic: makes a wall, which tries itself, attaches its programs to
 * the caller's own cgroup for as long as this call takes (own-cgroup.h says which that may be), sends a
 * datagram from inside, and looks for the event of it. The error says what the kernel refuses. */
int wall_probe(const char *cgroup_root, Error **reterr);
