/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "cli/egress-advice.h"

/* From the audit records of runs of one policy to the lines that would have let them through: "agentbox
 * policy learn". They are what hostile code may have asked for, so the narrowest come first, each says what
 * it rests on, and those that reach somebody new, open more than was seen or give up a check are marked for
 * a person to decide. What nothing can allow is never among them. Pure; bounded. */
typedef struct Learn {
        char *policy, *digest; /* of the first record; NULL: none was taken */
        bool several_digests;
        size_t n_runs;
        char *last_run;
        json_t *ended;    /* the run-ended records */
        json_t *syscalls; /* name → attempts */
        EgressDenials egress;
} Learn;

void learn_done(Learn *l);
#define _cleanup_learn_ _cleanup_(learn_done)

/* The records of one run after those of another, each oldest first. -EINVAL: it ran under another policy
 * than the first. */
int learn_take(Learn *l, json_t *record, Error **reterr);

typedef enum LearnForm {
        LEARN_DIFF,    /* against the policy as it is now */
        LEARN_DROP_IN, /* a file for POLICY.policy.d; what a person has to decide stands there as a comment
                        */
} LearnForm;
int learn_print(Learn *l, const AdviceContext *c, LearnForm form, Buf *out);
