/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/escape.h"
#include "base/io.h"
#include "base/strv.h"
#include "broker/root-source.h"
#include "broker/verify.h"
#include "broker/view-source.h"

#define FDINFO_MAX 4096u
#define MOUNTINFO_MAX (4u << 20)

static int check_descriptor(int fd, Error **reterr)
{
        int flags = fcntl(fd, F_GETFL);
        struct stat st;

        if (flags < 0 || fstat(fd, &st) < 0)
                return error_set(reterr, -errno, "cannot look at it: %s", strerror(errno));
        if (!S_ISDIR(st.st_mode))
                return error_set(reterr, -ENOTDIR, "it is no directory");
        /* O_PATH asks the kernel for no right to what it opens. */
        if ((flags & O_PATH) || (flags & O_ACCMODE) != O_RDONLY)
                return error_set(reterr, -EINVAL, "the descriptor is not open for reading");
        return 0;
}

/* Of the mount that it lies on, without a call to its file system, which may be a caller's own server (FUSE). -ENOENT: the table
 * has no such mount. */
static int type_of_mount(int fd, const char *mountinfo, char **ret)
{
        _cleanup_free_ char *info = NULL, *id = NULL;
        char path[64];
        int r;

        snprintf(path, sizeof(path), "/proc/self/fdinfo/%i", fd);
        r = read_file(path, FDINFO_MAX, &info, NULL);
        if (r >= 0)
                r = proc_status_field(info, "mnt_id", &id);
        return r < 0 ? r == -ENOENT ? -EIO : r : mountinfo_type(mountinfo, id, ret);
}

/* Elsewhere, who may read what is decided by a server, or by whoever mounted it. */
static bool is_known_type(const char *type)
{
        static const char *const types[] = { "ext4", "xfs", "btrfs", "f2fs", "tmpfs" };

        for (size_t i = 0; i < ELEMENTSOF(types); i++)
                if (streq(type, types[i]))
                        return true;
        return false;
}

/* On the way there nothing is read, and what can be mounted by root alone answers. */
static bool is_known_on_the_way(const char *type)
{
        static const char *const types[] = { "overlay", "rootfs", "ramfs", "squashfs", "erofs", "zfs", "bcachefs" };

        for (size_t i = 0; i < ELEMENTSOF(types); i++)
                if (streq(type, types[i]))
                        return true;
        return is_known_type(type);
}

static int check_file_system(int fd, const char *mountinfo, Error **reterr)
{
        _cleanup_free_ char *type = NULL;
        int r = type_of_mount(fd, mountinfo, &type);

        if (r == -ENOENT)
                return error_set(reterr, -EXDEV, "it does not lie in the mount namespace of the host");
        if (r < 0)
                return error_set(reterr, r, "cannot see where it is mounted: %s", strerror(-r));
        if (is_known_type(type))
                return 0;
        return error_set(reterr, -EOPNOTSUPP,
                        "there are views of ext4, xfs, btrfs, f2fs and tmpfs, and it is on %s", type);
}

static bool same(const struct stat *a, const struct stat *b)
{
        return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether fd is wanted or lies beneath it. 1; 0. Upwards there is one way only, and nobody's name on it. */
static int is_beneath(int fd, const struct stat *wanted)
{
        _cleanup_close_ int at = openat(fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct stat st, below = {};

        for (unsigned i = 0; i < PATH_MAX; i++) {
                int up;

                if (at < 0 || fstat(at, &st) < 0)
                        return -errno;
                if (same(&st, wanted))
                        return 1;
                if (i > 0 && same(&st, &below))
                        return 0; /* the root */
                below = st;
                up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
                close(at);
                at = up;
        }
        return -ELOOP;
}

/* The policy's own path; a link in it would be somebody's word for where it leads. Name by name, for the directories on the way may
 * be a caller's, who may have mounted something there that never answers: what is looked up in is on a known file system. */
static int open_allowed(const char *allowed)
{
        _cleanup_close_ int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        _cleanup_free_ char *mounts = NULL, *names = strdup(allowed);
        char *rest = names;
        int r = names ? read_file("/proc/self/mountinfo", MOUNTINFO_MAX, &mounts, NULL) : -ENOMEM;

        if (r < 0 || at < 0)
                return r < 0 ? r : -errno;
        for (const char *name; (name = strsep(&rest, "/"));) {
                _cleanup_free_ char *type = NULL;
                int next;

                if (!*name)
                        continue;
                next = openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
                if (next < 0)
                        return -errno;
                close(at);
                at = next;
                r = type_of_mount(at, mounts, &type);
                if (r < 0)
                        return r;
                if (!is_known_on_the_way(type))
                        return -EOPNOTSUPP;
        }
        return TAKE_FD(at);
}

/* An entry that leads nowhere allows nothing, and the next one is another's. */
static int is_allowed(int fd, const char *allowed)
{
        _cleanup_close_ int top = open_allowed(allowed);
        struct stat wanted;

        if (top < 0 || fstat(top, &wanted) < 0 || !S_ISDIR(wanted.st_mode))
                return 0;
        return is_beneath(fd, &wanted);
}

static int check_policy(int fd, const char *shown, const Policy *p, Error **reterr)
{
        char *const *allowed = policy_list(p, FILES_VIEW);
        _cleanup_free_ char *list = NULL;
        int r = 0;

        STRV_FOREACH(i, allowed) {
                r = is_allowed(fd, *i);
                if (r < 0)
                        return error_set(reterr, r, "cannot see where it lies: %s", strerror(-r));
                if (r > 0)
                        return 0;
        }
        list = strv_join(allowed, " ");
        return error_set(reterr, -EPERM,
                        "%s is beneath nothing that the policy allows to be viewed: View=%s", shown,
                        list ?: "?");
}

int view_source_check(int fd, const char *mountinfo, const Policy *p, char **ret_path, Error **reterr)
{
        _cleanup_free_ char *path = NULL, *shown = NULL;
        int r;

        if (strv_length(policy_list(p, FILES_VIEW)) == 0)
                return error_set(reterr, -EPERM, "the policy allows no views ([Files] View=)");
        r = check_file_system(fd, mountinfo, reterr);
        if (r >= 0)
                r = check_descriptor(fd, reterr);
        if (r >= 0)
                r = fd_get_path(fd, &path) < 0 ? error_set(reterr, -ENAMETOOLONG, "its path is too long")
                                               : 0;
        if (r < 0)
                return r;
        shown = escape_for_display(path, strlen(path), PATH_MAX);
        if (!shown)
                return error_set(reterr, -ENOMEM, "out of memory");
        r = check_policy(fd, shown, p, reterr);
        if (r < 0)
                return r;
        *ret_path = TAKE_PTR(shown);
        return 0;
}
