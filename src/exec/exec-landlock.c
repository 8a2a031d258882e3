/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "exec/exec.h"

/* The kernel's interface, spelt out: the headers that this is built with may know less than the kernel it
 * runs on. */
#define LANDLOCK_VERSION (1u << 0)
#define LANDLOCK_PATH_BENEATH 1
enum {
        FS_EXECUTE = 1u << 0,
        FS_WRITE_FILE = 1u << 1,
        FS_READ_FILE = 1u << 2,
        FS_READ_DIR = 1u << 3,
        FS_MAKE_CHAR = 1u << 6,
        FS_MAKE_BLOCK = 1u << 11,
        FS_TRUNCATE = 1u << 14,
        FS_IOCTL_DEV = 1u << 15,
};
#define FS_READ (FS_EXECUTE | FS_READ_FILE | FS_READ_DIR)
#define FS_OF_A_FILE (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)
#define FS_DEVICE (FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV)
#define SCOPE_ABSTRACT_UNIX_SOCKET (1u << 0)
#define SCOPE_SIGNAL (1u << 1)

typedef struct RulesetAttr {
        uint64_t handled_access_fs, handled_access_net, scoped;
} RulesetAttr;

typedef struct __attribute__((packed)) PathBeneath {
        uint64_t allowed_access;
        int32_t parent_fd;
} PathBeneath;

/* What each version of the interface brought. */
static const struct LandlockAbi {
        int version;
        uint64_t fs; /* rights known from here on */
        uint64_t scopes;
        size_t attr_size;
} abis[] = {
        { 1, 0x1fff, 0, 8 },
        { 2, 0x3fff, 0, 8 },
        { 3, 0x7fff, 0, 8 },
        { 4, 0x7fff, 0, 16 },
        { 5, 0xffff, 0, 16 },
        { 6, 0xffff, SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL, 24 },
};

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

int exec_landlock_abi(void)
{
        long r = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION);

        return r < 0 ? -errno : (int) r;
}

static int allow_fd(const Ruleset *s, int fd, uint64_t access)
{
        PathBeneath rule = { .allowed_access = access & s->handled, .parent_fd = fd };
        struct stat st;

        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISDIR(st.st_mode))
                rule.allowed_access &= FS_OF_A_FILE;
        if (rule.allowed_access == 0)
                return 0;
        return syscall(SYS_landlock_add_rule, s->fd, LANDLOCK_PATH_BENEATH, &rule, 0) < 0 ? -errno : 0;
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
                        r = c < 0 ? 0 : allow_fd(s, c, FS_EXECUTE);
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
                r = allow_path(s, *w, ~(uint64_t) (FS_EXECUTE | FS_MAKE_CHAR | FS_MAKE_BLOCK));
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
        r = allow_path(s, "/", exec_written ? FS_READ : FS_READ & ~(uint64_t) FS_EXECUTE);
        if (r >= 0 && !exec_written && (s->handled & FS_EXECUTE))
                r = allow_execute_beside(s, "/");
        if (r >= 0)
                r = allow_writable(s);
        return r;
}

int exec_confine_landlock(const RunSpec *spec)
{
        int version = exec_landlock_abi();
        const struct LandlockAbi *abi = NULL;
        _cleanup_close_ int fd = -1;
        RulesetAttr attr = {};
        int r;

        /* The broker judged what was attested; another answer now means that something is wrong with one of
         * the two. */
        if ((uint32_t) (version < 0 ? 0 : version) != spec->landlock_abi)
                return -ESTALE;
        for (size_t i = 0; i < ELEMENTSOF(abis); i++)
                if (version >= abis[i].version)
                        abi = &abis[i];
        if (!abi)
                return 0;
        attr.handled_access_fs = spec->landlock_fs & abi->fs;
        attr.scoped = spec->landlock_scope ? abi->scopes : 0;
        if (attr.handled_access_fs == 0 && attr.scoped == 0)
                return 0;
        fd = (int) syscall(SYS_landlock_create_ruleset, &attr, abi->attr_size, 0);
        if (fd < 0)
                return -errno;
        r = add_rules(&(Ruleset){ fd, attr.handled_access_fs, spec->landlock_write },
                        spec->landlock_exec_written);
        if (r < 0)
                return r;
        return syscall(SYS_landlock_restrict_self, fd, 0) < 0 ? -errno : 0;
}
