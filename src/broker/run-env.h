/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "policy/policy.h"

/* What differs between a service, where the run is a user of its own, and a scope. */
typedef struct RunHome {
        const char *workspace, *home, *user, *tmp;
        const char *credentials; /* the directory where they are; NULL: it has none */
} RunHome;

/* The workload's environment: the minimum that every run has, then the policy's Set=, then what the caller
 * gave; a later value replaces an earlier one. term: NULL where the run has no terminal. -EPERM, -EINVAL: a
 * variable that the caller may not give (policy_check_env). */
int run_env_compose(const Policy *p, const RunHome *home, char *const *given, const char *term, char ***ret,
                Error **reterr);
