/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "wire/record.h"

/* The line that says why a run ended, for stderr; newly allocated. *ret is NULL where there is nothing to
 * say: the program exited, or a signal of its own ended it (SIGSYS may be one of ours). */
int ending_line(const RunResult *result, char **ret);

/* The line that says that egress was denied, how often and to where, and where to read on; *ret is NULL
 * where none was. At most ENDING_COLUMNS with the prefix of a message, whatever the destinations are called.
 */
enum { ENDING_COLUMNS = 160 };
int ending_egress_line(const RunResult *result, char **ret);
/* Likewise of system calls; *ret is NULL where none was denied on record. */
int ending_calls_line(const RunResult *result, char **ret);
/* Says on stderr what there is to say of a run that is over. */
void ending_say(const RunResult *result);
