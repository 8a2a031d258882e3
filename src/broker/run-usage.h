/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "broker/broker-verify.h"

/* What a run uses, read from the files of its cgroup (v2, or v1 where a controller is there). The files are opened once, while the
 * run starts: when its main process dies, PID 1 removes the cgroup within a millisecond, and a read from a descriptor that is
 * there already wins that race where an open would not. */

enum { USAGE_MEMORY, USAGE_MEMORY_PEAK, USAGE_OOM_KILLS, USAGE_CPU_USEC, USAGE_TASKS, USAGE_TASKS_PEAK, _USAGE_MAX };

typedef struct RunUsage {
        int fds[_USAGE_MAX];
        uint64_t scale[_USAGE_MAX];        /* what the file's number is divided by */
        const char *word[_USAGE_MAX];      /* the line's first word, or NULL where the file is one number */
        uint64_t last[_USAGE_MAX];         /* UINT64_MAX: not known */
} RunUsage;

#define RUN_USAGE_NONE ((RunUsage){ .fds = { -1, -1, -1, -1, -1, -1 }, \
                .last = { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX } })

/* A file that the kernel does not have is left out; its figure stays unknown. */
void run_usage_open(RunUsage *u, const HostFacts *host, const char *control_group);
/* Reads all of them; a file that is gone keeps the figure that was read before. true: all open ones could be read. */
bool run_usage_sample(RunUsage *u);
void run_usage_close(RunUsage *u);

/* Whether no process is left in the run's cgroup; where it is gone, none is. */
bool run_cgroup_is_empty(const HostFacts *host, const char *control_group);
