/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <jansson.h>

#include "base/buf.h"
#include "policy/policy.h"

/* From the audit records of one run (an array, oldest first) to a text for people: what ended it, what was
 * denied, and the smallest policy lines that would allow it. Nothing is guessed from the program's own
 * output. policy: the one it ran under as it is now, or NULL where that cannot be read. Pure. */
int why_explain(const json_t *records, const Policy *policy, Buf *out);
