/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/strv.h"
#include "cli/copy-temporary.h"
#include "wire/tree-receive.h"

#define PREFIX ".agentbox-"
#define TRIES 16 /* who clears away may have taken the new one for an old one before it was locked */

static bool is_name(const char *s)
{
        const char *digits = startswith(s, PREFIX);

        return digits && strlen(s) + 1 == COPY_TEMPORARY_NAME_SIZE && strspn(digits, "0123456789abcdef") == 16;
}

static DIR *open_listing(int dir_fd)
{
        int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);

        if (!d && fd >= 0)
                close(fd);
        return d;
}

/* In a directory that others may write to, somebody could give another directory of this user's such a name; but not put
 * something else than was there into it. */
static bool holds_only_a_result(int fd)
{
        DIR *d = open_listing(fd);
        bool only = d;

        for (struct dirent *e; only && (e = readdir(d));)
                only = streq(e->d_name, ".") || streq(e->d_name, "..") || streq(e->d_name, COPY_TEMPORARY_ENTRY);
        if (d)
                closedir(d);
        return only;
}

static bool is_still_there(int parent_fd, const char *name, int fd)
{
        struct stat named, held;

        return fstatat(parent_fd, name, &named, AT_SYMLINK_NOFOLLOW) >= 0 && fstat(fd, &held) >= 0 &&
               named.st_dev == held.st_dev && named.st_ino == held.st_ino;
}

static void clear_if_left(int parent_fd, const char *name)
{
        _cleanup_close_ int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 07777) != 0700 ||
                        flock(fd, LOCK_EX | LOCK_NB) < 0 || !is_still_there(parent_fd, name, fd) ||
                        !holds_only_a_result(fd))
                return;
        (void) tree_remove(parent_fd, name);
}

static void clear_left(int parent_fd)
{
        DIR *d = open_listing(parent_fd);

        for (struct dirent *e; d && (e = readdir(d));)
                if (is_name(e->d_name))
                        clear_if_left(parent_fd, e->d_name);
        if (d)
                closedir(d);
}

/* -EAGAIN: somebody has it already. A file system without locks has none for who clears away, either. */
static int lock(int parent_fd, const char *name, int fd)
{
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                return errno == EWOULDBLOCK ? -EAGAIN : 0;
        return is_still_there(parent_fd, name, fd) ? 0 : -EAGAIN;
}

static int try_to_make(int parent_fd, const char *name, int *ret_fd)
{
        _cleanup_close_ int fd = -1;
        int r;

        if (mkdirat(parent_fd, name, 0700) < 0)
                return errno == EEXIST ? -EAGAIN : -errno;
        fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                r = errno == ENOENT ? -EAGAIN : -errno;
        else
                r = lock(parent_fd, name, fd);
        if (r < 0)
                (void) unlinkat(parent_fd, name, AT_REMOVEDIR);
        else
                *ret_fd = TAKE_FD(fd);
        return r;
}

int copy_temporary_make(int parent_fd, char ret_name[COPY_TEMPORARY_NAME_SIZE], int *ret_fd)
{
        char name[COPY_TEMPORARY_NAME_SIZE];
        int r = -EAGAIN;

        clear_left(parent_fd);
        for (int i = 0; r == -EAGAIN && i < TRIES; i++) {
                uint64_t random;

                if (getrandom(&random, sizeof(random), 0) != sizeof(random))
                        return -EIO;
                snprintf(name, sizeof(name), PREFIX "%016" PRIx64, random);
                r = try_to_make(parent_fd, name, ret_fd);
        }
        if (r >= 0)
                memcpy(ret_name, name, sizeof(name));
        return r;
}

void copy_temporary_remove(int parent_fd, char name[COPY_TEMPORARY_NAME_SIZE], int *fd)
{
        if (name[0])
                (void) tree_remove(parent_fd, name);
        name[0] = 0;
        closep(fd); /* and the lock with it */
        *fd = -1;
}
