/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/error.h"

/* A descriptor of the calling process's own cgroup in the unified hierarchy, whose mount point is root
 * (NULL: there is none, -EOPNOTSUPP). Refuses (-EBUSY) where others are in it, for what is attached to it
 * would hold for them as well; that the caller is found there also shows that it is the right one, whatever
 * cgroup namespaces there are. */
int own_cgroup_open(const char *root, Error **reterr);
