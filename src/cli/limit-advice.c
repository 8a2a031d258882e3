/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <signal.h>

#include "cli/facts.h"
#include "cli/limit-advice.h"
#include "policy/policy-keys.h"

const LimitRow limit_rows[] = {
        { REASON_TIMEOUT, LIMITS_RUNTIME, "AGENTBOX_WALL_USEC", 1000000, "Its time limit passed" },
        { REASON_OOM, LIMITS_MEMORY, "AGENTBOX_MEMORY_PEAK", 1 << 20, "Its memory limit was reached" },
        { REASON_OUTPUT_LIMIT, LIMITS_OUTPUT, NULL, 1 << 20, "It wrote more than its output limit" },
        { _REASON_MAX, LIMITS_TASKS, "AGENTBOX_TASKS_PEAK", 1,
                        "It reached its task limit (fork fails with EAGAIN then)" },
};
const size_t n_limit_rows = ELEMENTSOF(limit_rows);

static bool nearly(uint64_t figure, uint64_t limit)
{
        return figure != UINT64_MAX && figure >= limit - limit / 10;
}

/* The kernel's answer to a memory limit is SIGKILL; where PID 1 did not see why, the peak tells. */
static int reason_of(const json_t *ended, const Policy *policy)
{
        const char *name = facts_string(ended, "AGENTBOX_REASON");
        int reason = name ? run_reason_from_string(name) : -1;
        uint64_t memory = policy ? policy_u64(policy, LIMITS_MEMORY) : 0;

        if (reason == REASON_SIGNAL && facts_text_u64(ended, "AGENTBOX_SIGNAL") == SIGKILL && memory > 0 &&
                        nearly(facts_text_u64(ended, "AGENTBOX_MEMORY_PEAK"), memory))
                return REASON_OOM;
        return reason;
}

const LimitRow *limit_that_ended(const json_t *ended, const Policy *policy)
{
        int reason = reason_of(ended, policy);

        for (size_t i = 0; reason >= 0 && i < n_limit_rows; i++)
                if (limit_rows[i].reason == (RunReason) reason)
                        return limit_rows + i;
        return NULL;
}

bool limit_was_felt(const LimitRow *row, const json_t *ended, const Policy *policy)
{
        uint64_t limit = policy ? policy_u64(policy, row->key) : 0, figure;

        if (row->reason != _REASON_MAX || limit == 0 || !row->figure)
                return false;
        figure = facts_text_u64(ended, row->figure);
        return figure != UINT64_MAX && figure >= limit;
}

uint64_t limit_suggestion(const LimitRow *row, const json_t *ended, const Policy *policy)
{
        uint64_t figure = row->figure ? facts_text_u64(ended, row->figure) : UINT64_MAX;
        uint64_t limit = policy ? policy_u64(policy, row->key) : 0;
        uint64_t base = limit > 0 && (figure == UINT64_MAX || nearly(figure, limit)) ? limit : figure;
        uint64_t most = policy_keys[row->key].max / row->unit * row->unit, doubled;

        if (base == UINT64_MAX || __builtin_mul_overflow(base, (uint64_t) 2, &doubled) || base >= most)
                return 0;
        return MIN2((doubled + row->unit - 1) / row->unit * row->unit, most);
}
