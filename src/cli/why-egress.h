/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/buf.h"
#include "cli/egress-advice.h"

/* The part of "agentbox why" about the network: each destination once, the likeliest cause first, with the
 * smallest line that would have allowed it and what that line opens. Pure. Nothing is printed where nothing
 * was denied. */
int why_egress(const EgressDenials *d, const AdviceContext *c, const char *run, Buf *out);
