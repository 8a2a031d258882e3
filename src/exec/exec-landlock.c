/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/landlock.h"
#include "exec/exec.h"

#define FS_READ (LANDLOCK_FS_EXECUTE | LANDLOCK_FS_READ_FILE | LANDLOCK_FS_READ_DIR)
#define FS_DEVICE (LANDLOCK_FS_READ_FILE | LANDLOCK_FS_WRITE_FILE | LANDLOCK_FS_TRUNCATE | LANDLOCK_FS_IOCTL_DEV)
#define FS_OF_A_FILE (LANDLOCK_FS_EXECUTE | FS_DEVICE)

/* Devices that programs write to. Those that the root does not have are left out. */
static const char *const devices[] = {
        "/dev/null",
        "/dev/zero",
        "/dev/full",
        "/dev/random",
        "/dev/urandom",
        "/dev/tty",
        "/dev/ptmx",
        "/dev/pts",
};

typedef struct Ruleset {
        int fd;
        uint64_t handled;
        char *const *writable;
} Ruleset;

static int allow_fd(const Ruleset *s, int fd, uint64_t access)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return -errno;
        access &= s->handled;
        if (!S_ISDIR(st.st_mode))
                access &= FS_OF_A_FILE;
        return access == 0 ? 0 : landlock_allow_beneath(s->fd, fd, access);
}

/* One name in dir, never through a symbolic link. */
static int open_name(int dir, const char *name, int flags)
{
        _cleanup_close_ int fd = openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        /* O_PATH opens the link itself. */
        return S_ISLNK(st.st_mode) ? -ELOOP : TAKE_FD(fd);
}

/* An absolute path, name by name, without a symbolic link anywhere in it. (openat2() would do that at once, but systemd's filter
 * answers it with ENOSYS wherever RestrictSUIDSGID= is set, as it cannot see its flags.) */
static int open_plain(const char *path, int flags)
{
        _cleanup_close_ int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        char name[NAME_MAX + 1];

        if (fd < 0)
                return -errno;
        for (path += strspn(path, "/"); *path;) {
                size_t n = strcspn(path, "/");
                int next;

                if (n > NAME_MAX)
                        return -ENAMETOOLONG;
                memcpy(name, path, n);
                name[n] = 0;
                path += n;
                path += strspn(path, "/");
                next = open_name(fd, name, O_PATH);
                if (next < 0)
                        return next;
                close(fd);
                fd = next;
        }
        if (!(flags & O_PATH)) {
                int next = openat(fd, ".", flags | O_CLOEXEC);

                return next < 0 ? -errno : next;
        }
        return TAKE_FD(fd);
}

static int allow_path(const Ruleset *s, const char *path, uint64_t access)
{
        _cleanup_close_ int fd = open_plain(path, O_PATH);

        return fd < 0 ? fd : allow_fd(s, fd, access);
}

typedef enum Relation { APART, ABOVE, SAME } Relation;

/* How path lies to the writable ones: the strings decide, for no symbolic link is followed in them. */
static Relation relation(const Ruleset *s, const char *path)
{
        size_t n = strlen(path);
        Relation found = APART;

        STRV_FOREACH(w, s->writable)
        {
                if (streq(*w, path))
                        return SAME;
                if (strncmp(*w, path, n) == 0 && (*w)[n] == '/')
                        found = ABOVE;
        }
        return found;
}

/* Rights add up along a path and cannot be taken away again further down. So "execute everywhere but beneath
 * the writable paths" is: beneath each neighbour of the writable paths and of the directories above them.
 * path ends in a slash. */
static int allow_execute_beside(const Ruleset *s, const char *path)
{
        int fd = open_plain(path, O_RDONLY | O_DIRECTORY), r = 0;
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *e;

        if (!d) {
                r = fd < 0 ? fd : -errno;
                if (fd >= 0)
                        close(fd);
                return r;
        }
        while (r == 0 && (e = readdir(d))) {
                _cleanup_free_ char *child = NULL, *below = NULL;
                _cleanup_close_ int c = -1;

                if (streq(e->d_name, ".") || streq(e->d_name, ".."))
                        continue;
                if (asprintf(&child, "%s%s", path, e->d_name) < 0 || asprintf(&below, "%s/", child) < 0) {
                        r = -ENOMEM;
                        break;
                }
                switch (relation(s, child)) {
                case SAME:
                        break;
                case ABOVE:
                        r = allow_execute_beside(s, below);
                        break;
                case APART:
                        /* A symbolic link has no rights of its own, and what cannot be opened cannot be
                         * executed. */
                        c = open_name(dirfd(d), e->d_name, O_PATH);
                        r = c < 0 ? 0 : allow_fd(s, c, LANDLOCK_FS_EXECUTE);
                        break;
                }
        }
        closedir(d);
        return r;
}

static int allow_writable(const Ruleset *s)
{
        int r;

        STRV_FOREACH(w, s->writable)
        {
                r = allow_path(s, *w, ~(uint64_t) (LANDLOCK_FS_EXECUTE | LANDLOCK_FS_MAKE_CHAR | LANDLOCK_FS_MAKE_BLOCK));
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < ELEMENTSOF(devices); i++) {
                r = allow_path(s, devices[i], FS_DEVICE);
                if (r < 0 && r != -ENOENT && r != -ELOOP && r != -EACCES)
                        return r;
        }
        /* A terminal that came with the RunSpec lies on a mount of the caller: /dev/stdout would not open
         * again. */
        for (int fd = 0; fd < 3; fd++) {
                struct stat st;

                if (fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode))
                        continue;
                r = allow_fd(s, fd, FS_DEVICE);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_rules(const Ruleset *s, bool exec_written)
{
        int r;

        if (s->handled == 0)
                return 0;
        if (!exec_written && relation(s, "/") == SAME) /* then nothing at all could be executed */
                return -EINVAL;
        r = allow_path(s, "/", exec_written ? FS_READ : FS_READ & ~(uint64_t) LANDLOCK_FS_EXECUTE);
        if (r >= 0 && !exec_written && (s->handled & LANDLOCK_FS_EXECUTE))
                r = allow_execute_beside(s, "/");
        if (r >= 0)
                r = allow_writable(s);
        return r;
}

int exec_confine_landlock(const RunSpec *spec)
{
        const int abi = landlock_abi();
        const LandlockRights rights = landlock_known(abi, (LandlockRights){ .fs = spec->landlock_fs,
                                                                          .scopes = spec->landlock_scope ? LANDLOCK_SCOPE_ALL : 0 });
        _cleanup_close_ int fd = -1;
        int r;

        /* The broker judged what was attested; another answer now means that something is wrong with one of
         * the two. */
        if ((uint32_t) (abi < 0 ? 0 : abi) != spec->landlock_abi)
                return -ESTALE;
        if (rights.fs == 0 && rights.scopes == 0)
                return 0;
        fd = landlock_ruleset(abi, rights);
        if (fd < 0)
                return fd;
        r = add_rules(&(Ruleset){ fd, rights.fs, spec->landlock_write }, spec->landlock_exec_written);
        return r < 0 ? r : landlock_restrict(fd);
}
