/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/major.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "base/io.h"
#include "broker/workspace-disk.h"

#define PATH_SIZE_MAX 8192u
/* As the kernel calls a file that never had a name: "DIRECTORY/#NUMBER (deleted)". */
#define NAMELESS_FIRST '#'
#define NAMELESS_LAST " (deleted)\n"

/* <linux/ext4.h> has it from Linux 6.5 or so. */
#define SHUTDOWN _IOR('X', 125, uint32_t)
#define SHUTDOWN_WITHOUT_WRITING 2u

/* No device has to be opened for that. */
static bool shows_a_nameless_file(dev_t device)
{
        _cleanup_free_ char *file = NULL;
        char path[96];
        const char *name;
        size_t n;

        if (major(device) != LOOP_MAJOR)
                return false;
        snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/loop/backing_file", major(device), minor(device));
        if (read_file(path, PATH_SIZE_MAX, &file, NULL) < 0 || !(name = strrchr(file, '/')) || name[1] != NAMELESS_FIRST)
                return false;
        n = strspn(name + 2, "0123456789");
        return n > 0 && streq(name + 2 + n, NAMELESS_LAST);
}

static int open_place(pid_t pid, const char *path, Error **reterr)
{
        _cleanup_close_ int root = -1;
        char root_path[64];
        int fd;

        snprintf(root_path, sizeof(root_path), "/proc/%i/root", (int) pid);
        root = open(root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root < 0)
                return error_set(reterr, -errno, "cannot open the run's root: %m");
        fd = open_resolved(root, path, O_PATH | O_DIRECTORY, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
        return fd < 0 ? error_set(reterr, fd, "cannot open the run's %s: %s", path, strerror(-fd)) : fd;
}

int workspace_disk_look(int fd, pid_t pid, const char *path, AttestFs *ret, Error **reterr)
{
        _cleanup_close_ int seen = open_place(pid, path, reterr);
        struct stat given, there;
        struct statfs s;

        if (seen < 0)
                return seen;
        if (fstat(fd, &given) < 0 || fstat(seen, &there) < 0 || fstatfs(seen, &s) < 0)
                return error_set(reterr, -errno, "cannot look at the run's workspace: %m");
        *ret = (AttestFs){
                .type = (uint64_t) s.f_type,
                .flags = (uint64_t) s.f_flags,
                .bytes = (uint64_t) s.f_blocks * (uint64_t) s.f_bsize,
                .inodes = (uint64_t) s.f_files,
        };
        if (given.st_dev != there.st_dev || given.st_ino != there.st_ino)
                ret->error = EXDEV;
        else if (!shows_a_nameless_file(there.st_dev))
                ret->error = ENOTBLK;
        return 0;
}

void workspace_disk_abandon(int fd)
{
        uint32_t how = SHUTDOWN_WITHOUT_WRITING;
        struct statfs fs;
        struct stat st;

        if (fstatfs(fd, &fs) >= 0 && fs.f_type == EXT4_SUPER_MAGIC && fstat(fd, &st) >= 0 && shows_a_nameless_file(st.st_dev))
                (void) ioctl(fd, SHUTDOWN, &how);
}
