/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

#include "base/io.h"
#include "broker/own-cgroup.h"

#define CGROUP_FILE_MAX 65536u

/* members: a number and a newline each. */
static bool is_member(const char *members, const char *own)
{
        size_t n = strlen(own);

        for (const char *line = members; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
                if (strncmp(line, own, n) == 0)
                        return true;
        return false;
}

int own_cgroup_open(const char *root, bool alone, Error **reterr)
{
        _cleanup_free_ char *groups = NULL, *members = NULL;
        _cleanup_close_ int fd = -1;
        char path[PATH_MAX], own[32];
        const char *line;
        int r = read_file("/proc/self/cgroup", CGROUP_FILE_MAX, &groups, NULL);

        if (r < 0)
                return error_set(reterr, r, "/proc/self/cgroup: %s", strerror(-r));
        line = startswith(groups, "0::") ? groups : strstr(groups, "\n0::");
        line = line ? strchr(line, '/') : NULL;
        if (!line || !root)
                return error_set(reterr, -EOPNOTSUPP, "this host has no unified cgroup hierarchy");
        r = snprintf(path, sizeof(path), "%s%.*s", root, (int) strcspn(line, "\n"), line);
        if (r < 0 || (size_t) r >= sizeof(path))
                return error_set(reterr, -ENAMETOOLONG, "the broker's cgroup has too long a name");
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = fd < 0 ? -errno : read_file_at(fd, "cgroup.procs", CGROUP_FILE_MAX, &members, NULL);
        if (r < 0)
                return error_set(reterr, r, "%s: %s", path, strerror(-r));
        snprintf(own, sizeof(own), "%i\n", (int) getpid());
        if (!is_member(members, own))
                return error_set(reterr, -ESRCH, "%s is not the broker's cgroup", path);
        if (alone && !streq(members, own))
                return error_set(
                                reterr, -EBUSY, "%s is not the broker's alone: start it as a service", path);
        return TAKE_FD(fd);
}
