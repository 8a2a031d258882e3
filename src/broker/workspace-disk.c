/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <linux/major.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "broker/detached-mount.h"
#include "broker/disk-image.h"
#include "broker/enter-namespace.h"
#include "broker/loop-device.h"
#include "broker/root-source.h"
#include "broker/workspace-disk.h"

/* The prefix of loop devices' names. */
typedef struct NamePrefix {
        char text[sizeof("agentbox--") + 20];
} NamePrefix;

/* <linux/ext4.h> has it from Linux 6.5 or so. */
#define SHUTDOWN _IOR('X', 125, uint32_t)
#define SHUTDOWN_WITHOUT_WRITING 2u

static NamePrefix name_prefix(uint64_t host)
{
        NamePrefix p;

        snprintf(p.text, sizeof(p.text), "agentbox-%" PRIu64 "-", host);
        return p;
}

typedef struct DeviceName {
        char text[sizeof(NamePrefix) + 20];
} DeviceName;

static DeviceName device_name(uint64_t host, const char *run)
{
        DeviceName n;

        snprintf(n.text, sizeof(n.text), "%s%.20s", name_prefix(host).text, run);
        return n;
}

int workspace_disk_directory(int *ret_fd, Error **reterr)
{
        _cleanup_close_ int root = open("/proc/1/root", O_PATH | O_DIRECTORY | O_CLOEXEC);
        int fd = root < 0 ? -errno
                          : open_resolved(root, DISK_DIR, O_RDONLY | O_DIRECTORY, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);

        if (fd < 0)
                return error_set(reterr, fd, "cannot open " DISK_DIR ": %s", strerror(-fd));
        *ret_fd = fd;
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

int workspace_disk_make(int dir_fd, uint64_t host, const char *run, uint64_t size, uint64_t inodes, bool exec, int *ret_fd,
                Error **reterr)
{
        _cleanup_close_ int devices = -1, image = -1, device = -1, fd = -1;
        const DeviceName name = device_name(host, run);
        int r = loop_devices_open(&devices, reterr);

        if (r >= 0)
                r = disk_image_make(dir_fd, DISK_DIR, size, inodes, &image, reterr);
        if (r >= 0)
                r = loop_device_make(devices, image, name.text, &device, reterr);
        if (r >= 0)
                r = mount_device(device, exec, &fd, reterr);
        if (r >= 0 && unlinkat(fd, "lost+found", AT_REMOVEDIR) < 0)
                r = error_set(reterr, -errno, "cannot empty an ext4: %m");
        if (r < 0)
                return error_prefix(reterr, r, "WorkspaceStore=disk");
        *ret_fd = TAKE_FD(fd);
        return 0;
}

void workspace_disk_abandon(int fd, uint64_t host, const char *run)
{
        uint32_t how = SHUTDOWN_WITHOUT_WRITING;
        struct statfs fs;
        struct stat st;

        if (fstatfs(fd, &fs) >= 0 && fs.f_type == EXT4_SUPER_MAGIC && fstat(fd, &st) >= 0 && major(st.st_dev) == LOOP_MAJOR &&
                        loop_device_is(minor(st.st_dev), device_name(host, run).text))
                (void) ioctl(fd, SHUTDOWN, &how);
}

typedef struct Living {
        NamePrefix prefix;
        bool (*is_living)(const char *run, const void *userdata);
        const void *userdata;
} Living;

static bool is_left(const char *name, const void *userdata)
{
        const Living *l = userdata;
        const char *run = startswith(name, l->prefix.text);

        return run && !l->is_living(run, l->userdata);
}

int workspace_disks_left(uint64_t host, bool (*is_living)(const char *run, const void *userdata), const void *userdata, size_t *ret)
{
        const Living l = { .prefix = name_prefix(host), .is_living = is_living, .userdata = userdata };

        return loop_devices_count(is_left, &l, ret, NULL);
}

/* ---- in the run's root */

typedef struct Place {
        int fd, target;
} Place;

static int move_there(const void *argument)
{
        const Place *p = argument;

        return syscall(SYS_move_mount, p->fd, "", p->target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0 ? -errno
                                                                                                                         : 0;
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

static int look(int fd, int seen, AttestFs *ret)
{
        struct stat ours, theirs;
        struct statfs s;

        if (fstat(fd, &ours) < 0 || fstat(seen, &theirs) < 0 || fstatfs(seen, &s) < 0)
                return -errno;
        *ret = (AttestFs){
                .error = ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino ? 0 : EXDEV,
                .type = (uint64_t) s.f_type,
                .flags = (uint64_t) s.f_flags,
                .bytes = (uint64_t) s.f_blocks * (uint64_t) s.f_bsize,
                .inodes = (uint64_t) s.f_files,
        };
        return 0;
}

int workspace_disk_attach(int fd, pid_t pid, uint64_t mnt_inode, const char *path, AttestFs *ret, Error **reterr)
{
        _cleanup_close_ int target = open_place(pid, path, reterr), seen = -1;
        int r = target;

        if (r >= 0)
                r = namespace_enter(pid, "mnt", mnt_inode, move_there, &(Place){ .fd = fd, .target = target },
                                "cannot mount the run's workspace", reterr);
        if (r >= 0)
                r = seen = open_place(pid, path, reterr);
        if (r < 0)
                return r;
        r = look(fd, seen, ret);
        return r < 0 ? error_set(reterr, r, "cannot look at the run's workspace: %s", strerror(-r)) : 0;
}
