/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/detached-mount.h"
#include "base/io.h"
#include "base/strv.h"
#include "disk/disk-image.h"
#include "disk/disk-make.h"
#include "disk/loop-device.h"

/* The prefix of loop devices' names. */
typedef struct NamePrefix {
        char text[sizeof("agentbox--") + 20];
} NamePrefix;

static NamePrefix name_prefix(uint64_t host)
{
        NamePrefix p;

        snprintf(p.text, sizeof(p.text), "agentbox-%" PRIu64 "-", host);
        return p;
}

int disk_directory(int *ret_fd, Error **reterr)
{
        _cleanup_close_ int root = open("/proc/1/root", O_PATH | O_DIRECTORY | O_CLOEXEC);
        int fd = root < 0 ? -errno
                          : open_resolved(root, DISK_DIR, O_RDONLY | O_DIRECTORY, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);

        if (fd < 0)
                return error_set(reterr, fd, "cannot open " DISK_DIR ": %s", strerror(-fd));
        *ret_fd = fd;
        return 0;
}

int disk_host(uint64_t *ret, Error **reterr)
{
        struct stat st;

        if (stat("/proc/1/ns/mnt", &st) < 0)
                return error_set(reterr, -errno, "cannot look at the host's mounts: %m");
        *ret = st.st_ino;
        return 0;
}

/* A run's sync() or fsync() is no reason for the host's disk to flush its cache: nobody reads the file after a crash. */
static int mount_device(int device, bool exec, int *ret_fd, Error **reterr)
{
        char source[32];
        const MountOption options[] = { { "source", source }, { "noinit_itable", NULL }, { "nobarrier", NULL } };
        unsigned flags = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (exec ? 0 : MOUNT_ATTR_NOEXEC);
        int fd;

        snprintf(source, sizeof(source), "/proc/self/fd/%i", device);
        fd = detached_mount("ext4", options, ELEMENTSOF(options), flags);
        if (fd < 0)
                return error_set(reterr, fd, "cannot mount an ext4: %s", strerror(-fd));
        *ret_fd = fd;
        return 0;
}

int disk_make(int dir_fd, uint64_t host, const char *run, uint64_t size, uint64_t inodes, bool exec, int wanted_fd, int *ret_fd, Error **reterr)
{
        _cleanup_close_ int devices = -1, image = -1, device = -1, fd = -1;
        char name[sizeof(NamePrefix) + 20];
        int r = loop_devices_open(&devices, reterr);

        snprintf(name, sizeof(name), "%s%.20s", name_prefix(host).text, run);
        if (r >= 0)
                r = disk_image_make(dir_fd, DISK_DIR, size, inodes, wanted_fd, &image, reterr);
        if (r >= 0)
                r = loop_device_make(devices, image, name, &device, reterr);
        if (r >= 0)
                r = mount_device(device, exec, &fd, reterr);
        if (r >= 0 && unlinkat(fd, "lost+found", AT_REMOVEDIR) < 0)
                r = error_set(reterr, -errno, "cannot empty an ext4: %m");
        if (r >= 0)
                *ret_fd = TAKE_FD(fd);
        return r;
}

/* ---- in the run's mounts, in which nothing but the shim has run yet */

static int enter(int mounts_fd)
{
        struct stat own, run;

        if (fstat(mounts_fd, &run) < 0 || stat("/proc/self/ns/mnt", &own) < 0)
                return -errno;
        if (own.st_ino == run.st_ino)
                return -EPERM;
        return setns(mounts_fd, CLONE_NEWNS) < 0 ? -errno : 0;
}

int disk_attach(int fd, int mounts_fd, const char *path, Error **reterr)
{
        _cleanup_close_ int target = -1;
        int r = enter(mounts_fd);

        if (r < 0)
                return error_set(reterr, r, "cannot enter the run's mounts: %s", strerror(-r));
        target = open_resolved(AT_FDCWD, path, O_PATH | O_DIRECTORY, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
        if (target < 0)
                return error_set(reterr, target, "cannot open the run's %s: %s", path, strerror(-target));
        if (syscall(SYS_move_mount, fd, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
                return error_set(reterr, -errno, "cannot mount the run's workspace: %m");
        return 0;
}

/* ---- what is there */

typedef struct Left {
        NamePrefix prefix;
        char *const *living;
        char **runs;
} Left;

static int see(const char *name, void *userdata)
{
        Left *l = userdata;
        const char *run = startswith(name, l->prefix.text);

        return run && !strv_contains(l->living, run) ? strv_extend(&l->runs, run) : 0;
}

int disks_left(uint64_t host, char *const *living, char ***ret, Error **reterr)
{
        _cleanup_close_ int devices = -1;
        Left l = { .prefix = name_prefix(host), .living = living };
        int r = loop_devices_open(&devices, reterr);

        if (r >= 0)
                r = loop_devices_each(devices, see, &l, reterr);
        if (r >= 0)
                *ret = TAKE_PTR(l.runs);
        strv_free(l.runs);
        return r;
}
