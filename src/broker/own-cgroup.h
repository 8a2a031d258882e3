/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* A descriptor of the calling process's own cgroup in the unified hierarchy, whose mount point is root
 * (NULL: there is none, -EOPNOTSUPP). That the caller is found in it shows that it is the right one,
 * whatever cgroup namespaces there are; -ESRCH where it is not. alone: refuse (-EBUSY) where others are in
 * it as well, for what stays attached to it holds for them too. */
int own_cgroup_open(const char *root, bool alone, Error **reterr);
