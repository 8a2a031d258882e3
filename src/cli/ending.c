/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cli/ending.h"
#include "cli/message.h"

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
        const char *verb = endings[result->reason].verb, *text = result->message ?: endings[result->reason].words, *rest;

        /* "killed on request" is not said twice. */
        rest = text && *verb && result->message ? startswith(text, verb + 1) : NULL;
        if (rest && *rest == ' ')
                text = rest + 1;
        /* Without a word of ours nobody would think of us. */
        if (!text && result->reason == REASON_SIGNAL && result->signal == SIGSYS) {
                const char *run = result->run ?: "?";

                return asprintf(ret, "run %s: ended by SIGSYS, as by a system call that is not let through; see: agentbox why %s", run, run) < 0
                                       ? -ENOMEM
                                       : 0;
        }
        if (!text) {
                *ret = NULL;
                return 0;
        }
        return asprintf(ret, "run %s%s: %s", result->run ?: "?", verb, text) < 0 ? -ENOMEM : 0;
}

enum { DESTINATIONS_SHOWN = 3 };
#define PREFIX "agentbox: "
#define MORE ", …"

/* Code points, which the ones that are left after cleaning are columns. */
static size_t columns(const char *s)
{
        size_t n = 0;

        for (; *s; s++)
                n += (*s & 0xc0) != 0x80;
        return n;
}

/* "A:443, B:80, …", as many as there is room for; "" where not even the first fits. */
static char *list_destinations(char *const *l, size_t room)
{
        size_t used = columns(MORE), n = 0;
        _cleanup_buf_ Buf b = {};

        for (; l && l[n] && n < DESTINATIONS_SHOWN; n++) {
                _cleanup_free_ char *shown = message_clean(l[n]);

                if (!shown)
                        return NULL;
                used += columns(shown) + (n > 0 ? 2 : 0);
                if (used > room)
                        break;
                buf_printf(&b, "%s%s", n > 0 ? ", " : "", shown);
        }
        if (n > 0 && l[n])
                buf_printf(&b, MORE);
        return buf_take_string(&b);
}

int ending_egress_line(const RunResult *result, char **ret)
{
        uint64_t n = result->egress_denied;
        _cleanup_free_ char *head = NULL, *tail = NULL, *list = NULL;
        const char *run = result->run ?: "?";
        size_t used;

        if (n == 0 || n == UINT64_MAX) {
                *ret = NULL;
                return 0;
        }
        if (asprintf(&head, "run %s: egress denied: %llu attempt%s", run, (unsigned long long) n,
                            n == 1 ? "" : "s") < 0) {
                head = NULL;
                return -ENOMEM;
        }
        if (asprintf(&tail, "; see: agentbox why %s", run) < 0) {
                tail = NULL;
                return -ENOMEM;
        }
        used = columns(PREFIX) + columns(head) + columns(tail) + columns(" ()");
        list = list_destinations(
                        result->egress_denied_to, used < ENDING_COLUMNS ? ENDING_COLUMNS - used : 0);
        if (!list)
                return -ENOMEM;
        return asprintf(ret, "%s%s%s%s%s", head, *list ? " (" : "", list, *list ? ")" : "", tail) < 0
                               ? -ENOMEM
                               : 0;
}

int ending_calls_line(const RunResult *result, char **ret)
{
        uint64_t n = result->syscalls_denied;
        bool more = result->egress_denied > 0 && result->egress_denied != UINT64_MAX; /* which says where to read on */
        const char *run = result->run ?: "?";

        if (n == 0 || n == UINT64_MAX) {
                *ret = NULL;
                return 0;
        }
        return asprintf(ret, "run %s: system calls denied: %llu attempt%s%s%s", run, (unsigned long long) n, n == 1 ? "" : "s",
                               more ? "" : "; see: agentbox why ", more ? "" : run) < 0
                               ? -ENOMEM
                               : 0;
}

void ending_say(const RunResult *result)
{
        _cleanup_free_ char *line = NULL, *egress = NULL, *calls = NULL;

        if (ending_line(result, &line) >= 0 && line)
                message("%s", line);
        if (ending_calls_line(result, &calls) >= 0 && calls)
                message("%s", calls);
        if (ending_egress_line(result, &egress) >= 0 && egress)
                message("%s", egress);
}
