/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "broker/manager.h"

/* Once, before the first call is taken: what an earlier broker left in RUNTIME_DIR and among PID 1's units.
 * Runs that had begun are taken over, half-started ones are ended, the end of those that ended meanwhile is
 * put on record (once), everything else is removed. */
int broker_adopt(Manager *m, Error **reterr);

/* Whether an earlier broker made the unit: it is called like those of runs, and no administrator wrote it. */
bool broker_made_unit(const Manager *m, const char *unit);
