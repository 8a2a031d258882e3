/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <jansson.h>

#include "base/buf.h"
#include "cli/egress-advice.h"

/* From the audit records of one run to a text for people: what ended it, what was denied, and the smallest
 * policy lines that would allow it. Nothing is guessed from the program's own output. Pure. Of however many
 * records, what is kept is bounded. */
typedef struct Why {
        json_t *first, *ended, *unverified, *refused; /* records; NULL: there was none */
        json_t *denials; /* other than the network's: key → { "record": …, "count": n } */
        json_t *tripwires; /* as denials, by what was touched */
        EgressDenials egress;
} Why;

void why_done(Why *w);
#define _cleanup_why_ _cleanup_(why_done)

/* One record after the other, oldest first. */
int why_take(Why *w, json_t *record);
int why_explain(Why *w, const AdviceContext *c, Buf *out);
