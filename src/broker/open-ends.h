/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-id128.h>

#include "broker/broker-audit.h"

/* Which runs of earlier boots have no end on record, from the broker's records, read from the newest to the oldest. Pure.
 *
 * Once a boot has been looked at, that is on record as well (AUDIT_BOOTS_SETTLED): what is older than the boot of the newest
 * such record has been settled then. Within that boot, runs may have been there that its own end has cut off. */

typedef struct OpenEnds {
        sd_id128_t now, settled; /* this boot; the newest that was looked at in its time, if there is one */
        bool has_settled;
        /* The runs that were met, as numbers, in a table with open addressing; 0: a free place. */
        uint64_t *met;
        size_t n_met, n_places;
} OpenEnds;

typedef enum OpenEndsVerdict {
        OPEN_ENDS_NEXT,
        OPEN_ENDS_LOST, /* this run; for each once */
        OPEN_ENDS_OVER, /* nothing older matters */
} OpenEndsVerdict;

/* run: its id, or "" where the record has none. Negative: out of memory. */
int open_ends_read(OpenEnds *o, AuditEvent event, sd_id128_t boot, const char *run);
void open_ends_done(OpenEnds *o);
