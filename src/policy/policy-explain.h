/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/error.h"
#include "base/strv.h"
#include "policy/policy.h"
#include "policy/unit-props.h"

/* For "agentbox policy explain": what a key says, who said it, and what makes it hold. */
typedef struct PolicyExplanation {
        char **values;   /* one, or the items of a list, or none where the key is not set */
        char **sources;  /* for each value: "FILE:LINE", "--set" or "default" */
        char **enforced; /* "unit property MemoryMax=268435456; verified as memory-limit", "seccomp filter of
                            agentbox-exec", ... */
} PolicyExplanation;

void policy_explanation_done(PolicyExplanation *e);
#define _cleanup_explanation_ _cleanup_(policy_explanation_done)

/* props: the unit's properties under this policy, or NULL where it has none (it cannot be enforced as it
 * is): they are named without their values then. 0 or -ENOMEM. */
int policy_explain_key(const Policy *p, PolicyKey key, const UnitProps *props, PolicyExplanation *ret);

/* The properties as a unit on a host with that version of systemd would get them; what only a run knows is
 * in <angle brackets>. */
int policy_explain_props(const Policy *p, UnitProps *ret, Error **reterr);
