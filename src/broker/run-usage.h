/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "broker/broker-verify.h"

/* What a run uses, read from the files of its cgroups (v2, or v1 where a controller is there). When its main
 * process dies, PID 1 removes the unit's cgroup within a millisecond; the slice around it stays until the
 * broker stops it, and has the same figures, so that they are exact. But for one: with v1, deaths for memory
 * are counted in the unit's own cgroup alone. */

enum {
        USAGE_MEMORY,
        USAGE_MEMORY_PEAK,
        USAGE_OOM_KILLS,
        USAGE_CPU_USEC,
        USAGE_TASKS,
        USAGE_TASKS_PEAK,
        _USAGE_MAX
};

typedef struct RunUsage {
        int fds[_USAGE_MAX];
        uint64_t scale[_USAGE_MAX];   /* what the file's number is divided by */
        const char *word[_USAGE_MAX]; /* the line's first word, or NULL where the file is one number */
        uint64_t last[_USAGE_MAX];    /* UINT64_MAX: not known */
        bool failed[_USAGE_MAX];      /* the last reading did: the cgroup is gone */
} RunUsage;

#define RUN_USAGE_NONE                                                                        \
        ((RunUsage){ .fds = { -1, -1, -1, -1, -1, -1 },                                       \
                        .last = { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, \
                                        UINT64_MAX } })

/* A file that the kernel does not have is left out; its figure stays unknown. */
void run_usage_open(RunUsage *u, const HostFacts *host, const char *control_group);
/* Reads all of them; a file that is gone keeps the figure that was read before. */
void run_usage_sample(RunUsage *u);
void run_usage_close(RunUsage *u);

/* Whether no process is left in the run's cgroup; where it is gone, none is. */
bool run_cgroup_is_empty(const HostFacts *host, const char *control_group);
/* Whether this process is in it. */
bool run_cgroup_has(const HostFacts *host, const char *control_group, pid_t pid);
