/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/error.h"

/* What agentbox itself says goes to stderr, each line with "agentbox: " in front and without a byte that a
 * terminal would obey. */

enum { EXIT_OURS = 125 }; /* agentbox itself failed or refused, whatever the verb */

/* Text that was written for people (a message of the broker, a path) made safe to show: control bytes and
 * what is no UTF-8 become \xNN, the backslashes of what was escaped already stay. Newly allocated; NULL when
 * out of memory. */
char *message_clean(const char *text);
void message(const char *format, ...) _printf_(1, 2);
/* Says what went wrong and returns EXIT_OURS. */
int message_failure(const Error *e, int r);
