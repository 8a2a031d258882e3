/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/error.h"

/* The id of the run that an id, the beginning of one, or a name means: by the journal, which knows those of
 * long ago, and by the broker, which alone knows the names of the present ones. */
int find_run_in_journal(const char *run, char **ret_id, Error **reterr);
