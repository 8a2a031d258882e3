/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/test-corpus.h"
#include "warden/decide.h"

static inline const char *verdict_text(EgressReason reason)
{
        return reason == EGRESS_OK ? "ok" : egress_reason_to_string(reason);
}
