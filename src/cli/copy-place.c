/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "cli/copy-out.h"

/* File systems that know no such flag. */
static bool knows_no_flags(int error)
{
        return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP;
}

static bool is_directory(int fd, const char *name)
{
        struct stat st;

        return fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* With what every file system has: a second name is given only where there is none, and a directory replaces
 * an empty one, which is made for that. */
static int place_new_plain(int from_fd, const char *from, int to_fd, const char *to)
{
        if (!is_directory(from_fd, from)) {
                if (linkat(from_fd, from, to_fd, to, 0) < 0)
                        return -errno;
                return unlinkat(from_fd, from, 0) < 0 ? -errno : 0;
        }
        if (mkdirat(to_fd, to, 0700) < 0)
                return -errno;
        return renameat(from_fd, from, to_fd, to) < 0 ? -errno : 0;
}

int place_new(int from_fd, const char *from, int to_fd, const char *to)
{
        if (renameat2(from_fd, from, to_fd, to, RENAME_NOREPLACE) >= 0)
                return 0;
        return knows_no_flags(errno) ? place_new_plain(from_fd, from, to_fd, to) : -errno;
}

int place_instead(int from_fd, const char *from, int to_fd, const char *to, const char *run, char **ret_kept)
{
        _cleanup_free_ char *kept = NULL;
        int r = place_new(from_fd, from, to_fd, to);

        *ret_kept = NULL;
        if (r != -EEXIST)
                return r;
        if (!is_directory(to_fd, to) && !is_directory(from_fd, from))
                return renameat(from_fd, from, to_fd, to) < 0 ? -errno : 0;
        /* A whole directory is not thrown away because a run, which may be hostile, left another. */
        if (asprintf(&kept, "%s.before-%s", to, run) < 0) {
                kept = NULL;
                return -ENOMEM;
        }
        r = place_new(to_fd, to, to_fd, kept);
        if (r < 0)
                return r;
        r = place_new(from_fd, from, to_fd, to);
        if (r < 0) {
                (void) place_new(to_fd, kept, to_fd, to);
                return r;
        }
        *ret_kept = TAKE_PTR(kept);
        return 0;
}
