/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "policy/policy-ini.h"
#include "policy/policy-problems.h"
#include "policy/policy.h"

/* What a file of a policy may say: a drop-in cannot change what the policy starts from. */
typedef enum PolicyFileKind {
        POLICY_FILE_MAIN,
        POLICY_FILE_DROP_IN,
} PolicyFileKind;

/* Applies the lines of one file on top of p, in their order. Whatever is wrong is noted, the rest is applied
 * all the same. -ENOMEM or 0. */
int policy_apply(Policy *p, const char *file, const PolicyIni *ini, PolicyFileKind kind,
                PolicyProblems *problems);

/* One assignment to a known key. file: NULL for --set. */
int policy_assign(Policy *p, PolicyKey key, const char *file, const PolicyLine *l, PolicyProblems *problems);

/* What can only be judged once everything is there: values that do not go together. */
void policy_check_consistent(const Policy *p, PolicyProblems *problems);
