/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cli/egress-denials.h"
#include "policy/policy.h"

/* From what was refused to the smallest line of a policy that would have allowed it, and what else that line
 * opens; or why no line can. Pure. */

/* How likely it is that the run failed because of it, the likeliest first. */
typedef enum AdviceClass {
        ADVICE_BROKEN,    /* a rule allows it, and it did not work */
        ADVICE_NAME,      /* a name without a rule, or not as its rule wants it */
        ADVICE_ADDRESS,   /* an address without a rule */
        ADVICE_POINTLESS, /* programs try it and get along without */
        ADVICE_METADATA,
        _ADVICE_CLASS_MAX,
} AdviceClass;

typedef struct Advice {
        AdviceClass class;
        const char *fact; /* why it was refused, static */
        char *line; /* "Allow=tls evil.example:443" or another key of [Network]; NULL: nothing would allow
                       it. It parses, and names neither metadata nor this host */
        bool needs_human; /* the line opens more than one destination, or gives up a check: to be thought
                             over */
        char *meaning;    /* what the line opens, or what is to be done instead; for people */
        bool allowed_now; /* the policy, as it is now, has the line or a wider one */
} Advice;

void advice_done(Advice *a);
#define _cleanup_advice_ _cleanup_(advice_done)

typedef struct AdviceContext {
        const Policy *policy; /* the one the run had, as it is now; NULL: not known */
        char *const *own;     /* addresses of this host, which no rule opens */
} AdviceContext;

/* 0 or -ENOMEM. */
int egress_advise(const EgressGroup *g, const AdviceContext *c, Advice *ret);
