/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/strv.h"
#include "broker/root-source.h"

int root_source_openat(int source_fd, const char *path, uint64_t flags)
{
        return open_resolved(source_fd, path, flags | O_PATH, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

int fd_get_path(int fd, char **ret)
{
        char link[64], path[PATH_MAX];
        ssize_t n;

        snprintf(link, sizeof(link), "/proc/self/fd/%i", fd);
        n = readlink(link, path, sizeof(path));
        if (n < 0)
                return -errno;
        if (n == sizeof(path) || path[0] != '/')
                return -ENAMETOOLONG;
        *ret = strndup(path, (size_t) n);
        return *ret ? 0 : -ENOMEM;
}

/* The directory behind the first n bytes of path. */
static int check_owner(const char *path, size_t n, const struct stat *st, Error **reterr)
{
        const char *shown = n > 0 ? path : "/";
        int length = n > 0 ? (int) n : 1;

        if (S_ISLNK(st->st_mode))
                return error_set(reterr, -ELOOP, "%.*s is a symbolic link; name the path that it leads to",
                                length, shown);
        if (!S_ISDIR(st->st_mode))
                return error_set(reterr, -EOPNOTSUPP,
                                "%.*s is not a directory; disk images are not supported in this version",
                                length, shown);
        if (st->st_uid != 0)
                return error_set(reterr, -EPERM,
                                "%.*s belongs to user %u; it, and every directory that it is in, must be "
                                "root's",
                                length, shown, st->st_uid);
        if (st->st_mode & (S_IWGRP | S_IWOTH))
                return error_set(reterr, -EPERM,
                                "%.*s can be written by others than root (mode %04o), who could put "
                                "something else there",
                                length, shown, st->st_mode & 07777);
        return 0;
}

int root_source_open(const char *path, int *ret_fd, Error **reterr)
{
        _cleanup_strv_ char **parts = NULL;
        _cleanup_close_ int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        size_t n = 0;
        int r;

        if (fd < 0)
                return error_set(reterr, -errno, "cannot open /: %m");
        r = strv_split(path + strspn(path, "/"), "/", &parts);
        if (r < 0)
                return error_set(reterr, r, "out of memory");
        for (size_t i = 0;; i++) {
                struct stat st;
                int next;

                if (fstat(fd, &st) < 0)
                        return error_set(reterr, -errno, "cannot look at %.*s: %m", (int) n, path);
                r = check_owner(path, n, &st, reterr);
                if (r < 0)
                        return r;
                if (!parts || !parts[i])
                        break;
                n += 1 + strlen(parts[i]);
                next = openat(fd, parts[i], O_PATH | O_NOFOLLOW | O_CLOEXEC);
                if (next < 0)
                        return error_set(reterr, -errno, "%.*s: %m", (int) n, path);
                close(fd);
                fd = next;
        }
        *ret_fd = TAKE_FD(fd);
        return 0;
}
