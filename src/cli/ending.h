/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "wire/record.h"

/* The line that says why a run ended, for stderr; newly allocated. *ret is NULL where there is nothing to
 * say: the program exited, or a signal of its own ended it. */
int ending_line(const RunResult *result, char **ret);
