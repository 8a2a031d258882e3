/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/ending.h"

/* What is said of the run, and the words where the broker has none. A row without words says nothing without
 * a message. */
static const struct {
        const char *verb, *words;
} endings[_REASON_MAX] = {
        [REASON_EXITED] = { "", NULL },
        [REASON_SIGNAL] = { "", NULL },
        [REASON_TIMEOUT] = { " killed", "time limit reached" },
        [REASON_OOM] = { " killed", "memory limit reached" },
        [REASON_OUTPUT_LIMIT] = { " killed", "output limit reached" },
        [REASON_KILLED] = { " killed", "it was asked for" },
        [REASON_REFUSED] = { " refused", "no reason was given" },
        [REASON_LOST] = { " lost", "its end was not seen" },
};

int ending_line(const RunResult *result, char **ret)
{
        const char *text = result->message ?: endings[result->reason].words;

        if (!text) {
                *ret = NULL;
                return 0;
        }
        return asprintf(ret, "run %s%s: %s", result->run ?: "?", endings[result->reason].verb, text) < 0
                               ? -ENOMEM
                               : 0;
}
