/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>

#include "base/io.h"
#include "base/parse.h"
#include "broker/run-usage.h"

typedef struct UsageFile {
        size_t root; /* of HostFacts: the hierarchy's mount point; where that is not set, the row does not
                        apply */
        const char *name, *word;
        uint64_t scale;
        bool of_unit; /* in the unit's cgroup, not the slice's */
} UsageFile;

#define V2 offsetof(HostFacts, cgroup_root_unified)
#define V1_MEMORY offsetof(HostFacts, cgroup_root_memory)
#define V1_PIDS offsetof(HostFacts, cgroup_root_pids)
#define V1_CPU offsetof(HostFacts, cgroup_root_cpu)

/* The first that can be opened is taken. Every cgroup of v2 counts processor time, whether it has the
 * controller or not. */
static const UsageFile usage_files[_USAGE_MAX][2] = {
        [USAGE_MEMORY] = { { V1_MEMORY, "memory.usage_in_bytes", NULL, 1 },
                        { V2, "memory.current", NULL, 1 } },
        [USAGE_MEMORY_PEAK] = { { V1_MEMORY, "memory.max_usage_in_bytes", NULL, 1 },
                        { V2, "memory.peak", NULL, 1 } },
        [USAGE_OOM_KILLS] = { { V1_MEMORY, "memory.oom_control", "oom_kill", 1, true },
                        { V2, "memory.events", "oom_kill", 1 } },
        [USAGE_CPU_USEC] = { { V2, "cpu.stat", "usage_usec", 1 }, { V1_CPU, "cpuacct.usage", NULL, 1000 } },
        [USAGE_TASKS] = { { V1_PIDS, "pids.current", NULL, 1 }, { V2, "pids.current", NULL, 1 } },
        [USAGE_TASKS_PEAK] = { { V1_PIDS, "pids.peak", NULL, 1 }, { V2, "pids.peak", NULL, 1 } },
};

static int open_in_cgroup(const HostFacts *host, size_t root, const char *control_group, const char *name)
{
        const char *mount = *(char *const *) ((const char *) host + root);
        char path[PATH_MAX];

        if (!mount || snprintf(path, sizeof(path), "%s%s/%s", mount, control_group, name) >=
                                        (int) sizeof(path))
                return -1;
        return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
}

void run_usage_open(RunUsage *u, const HostFacts *host, const char *control_group)
{
        _cleanup_free_ char *slice = strdup(control_group);
        char *slash = slice ? strrchr(slice, '/') : NULL;

        if (!slash)
                return;
        *slash = 0;
        for (size_t i = 0; i < _USAGE_MAX; i++)
                for (size_t k = 0; k < ELEMENTSOF(usage_files[i]) && u->fds[i] < 0; k++) {
                        const UsageFile *f = &usage_files[i][k];

                        u->fds[i] = open_in_cgroup(
                                        host, f->root, f->of_unit ? control_group : slice, f->name);
                        u->word[i] = f->word;
                        u->scale[i] = f->scale;
                }
}

static int read_number(int fd, const char *word, uint64_t *ret)
{
        char text[2048], *p = text;
        ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

        if (n < 0)
                return -errno;
        text[n] = 0;
        if (word) {
                size_t length = strlen(word);

                while (p && !(strncmp(p, word, length) == 0 && p[length] == ' ')) {
                        p = strchr(p, '\n');
                        p = p ? p + 1 : NULL;
                }
                if (!p)
                        return -ENODATA;
                p += length + 1;
        }
        p[strcspn(p, "\n")] = 0;
        return parse_u64(p, ret);
}

void run_usage_sample(RunUsage *u)
{
        for (size_t i = 0; i < _USAGE_MAX; i++) {
                uint64_t v;

                if (u->fds[i] < 0)
                        continue;
                u->failed[i] = read_number(u->fds[i], u->word[i], &v) < 0;
                if (!u->failed[i])
                        u->last[i] = v / u->scale[i];
        }
}

void run_usage_close(RunUsage *u)
{
        for (size_t i = 0; i < _USAGE_MAX; i++) {
                closep(u->fds + i);
                u->fds[i] = -1;
        }
}

bool run_cgroup_is_empty(const HostFacts *host, const char *control_group)
{
        const size_t roots[] = { V2, V1_MEMORY, V1_PIDS };

        for (size_t i = 0; control_group && i < ELEMENTSOF(roots); i++) {
                _cleanup_close_ int fd = open_in_cgroup(host, roots[i], control_group, "cgroup.procs");
                char c;

                if (fd >= 0 && read(fd, &c, 1) > 0)
                        return false;
        }
        return true;
}

/* Looked at from the process: /proc/PID/cgroup has "HIERARCHY:CONTROLLERS:PATH" lines. */
bool run_cgroup_has(const HostFacts *host, const char *control_group, pid_t pid)
{
        _cleanup_free_ char *text = NULL;
        size_t n = control_group ? strlen(control_group) : 0;
        char path[64];

        snprintf(path, sizeof(path), "%s/%i/cgroup", host->proc ? host->proc : "/proc", (int) pid);
        if (n == 0 || read_file(path, 64u * 1024, &text, NULL) < 0)
                return false;
        for (const char *p = text; (p = strstr(p, control_group)); p += n)
                if (p > text && p[-1] == ':' && (p[n] == '\n' || p[n] == 0))
                        return true;
        return false;
}
