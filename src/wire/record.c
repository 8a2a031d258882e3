/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <signal.h>

#include "wire/record.h"

const char *const run_reason_names[_REASON_MAX] = {
        [REASON_EXITED] = "exited",
        [REASON_SIGNAL] = "signal",
        [REASON_TIMEOUT] = "timeout",
        [REASON_OOM] = "oom",
        [REASON_OUTPUT_LIMIT] = "output-limit",
        [REASON_KILLED] = "killed",
        [REASON_REFUSED] = "refused",
        [REASON_LOST] = "lost",
};

#define FIELD(t, field)                                                           \
        {                                                                         \
                .name = #field, .type = (t), .offset = offsetof(RunResult, field) \
        }

const RecordField run_result_fields[] = {
        FIELD(RECORD_STRING, run),
        FIELD(RECORD_STRING, policy),
        FIELD(RECORD_REASON, reason),
        FIELD(RECORD_U64, exit_code),
        FIELD(RECORD_U64, signal),
        FIELD(RECORD_U64, wall_usec),
        FIELD(RECORD_U64, cpu_usec),
        FIELD(RECORD_U64, memory_peak),
        FIELD(RECORD_U64, tasks_peak),
        FIELD(RECORD_U64, egress_bytes),
        FIELD(RECORD_U64, ingress_bytes),
        FIELD(RECORD_U64, egress_allowed),
        FIELD(RECORD_U64, egress_denied),
        FIELD(RECORD_LIST, egress_denied_to),
        FIELD(RECORD_U64, syscalls_denied),
        FIELD(RECORD_U64, tripwires),
        FIELD(RECORD_U64, started),
        FIELD(RECORD_U64, ended),
        FIELD(RECORD_LIST, verified),
        FIELD(RECORD_STRING, message),
};
const size_t n_run_result_fields = ELEMENTSOF(run_result_fields);

void run_result_init(RunResult *r)
{
        *r = (RunResult){ .reason = REASON_LOST };
        for (size_t i = 0; i < n_run_result_fields; i++)
                if (run_result_fields[i].type == RECORD_U64)
                        *(uint64_t *) ((char *) r + run_result_fields[i].offset) = UINT64_MAX;
}

void run_result_done(RunResult *r)
{
        for (size_t i = 0; i < n_run_result_fields; i++) {
                void *p = (char *) r + run_result_fields[i].offset;

                if (run_result_fields[i].type == RECORD_STRING)
                        free(*(char **) p);
                else if (run_result_fields[i].type == RECORD_LIST)
                        strv_free(*(char ***) p);
        }
        run_result_init(r);
}

int run_reason_from_string(const char *s)
{
        for (int i = 0; i < _REASON_MAX; i++)
                if (streq(run_reason_names[i], s))
                        return i;
        return -EINVAL;
}

#define EXIT_TIMEOUT 124
#define EXIT_AGENTBOX 125
#define EXIT_SIGNAL 128

static int signal_status(const RunResult *r, uint64_t fallback)
{
        uint64_t s = r->signal == UINT64_MAX ? fallback : r->signal;

        return s >= 1 && s <= 64 ? EXIT_SIGNAL + (int) s : EXIT_AGENTBOX;
}

int run_result_exit_status(const RunResult *r)
{
        switch (r->reason) {
        case REASON_EXITED:
                return r->exit_code <= 255 ? (int) r->exit_code : EXIT_AGENTBOX;
        case REASON_SIGNAL:
                return signal_status(r, UINT64_MAX);
        case REASON_KILLED:
                return signal_status(r, SIGKILL);
        case REASON_TIMEOUT:
                return EXIT_TIMEOUT;
        case REASON_OOM:
        case REASON_OUTPUT_LIMIT: /* agentbox ended it with SIGKILL, whatever signal its main process saw
                                     first */
                return EXIT_SIGNAL + SIGKILL;
        case REASON_REFUSED:
        case REASON_LOST:
        case _REASON_MAX:
                break;
        }
        return EXIT_AGENTBOX;
}
