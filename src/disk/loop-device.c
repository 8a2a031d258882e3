/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/mount.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "base/detached-mount.h"
#include "disk/loop-device.h"

#define TRIES 64 /* another may have taken the number that the kernel gave */
#define BLOCK 4096

int loop_devices_open(int *ret_fd, Error **reterr)
{
        int fd = detached_mount("devtmpfs", NULL, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);

        if (fd < 0)
                return error_set(reterr, fd, "cannot look at the kernel's devices: %s", strerror(-fd));
        *ret_fd = fd;
        return 0;
}

/* -EBUSY: it is taken. */
static int take(int devices_fd, int number, const struct loop_config *config)
{
        _cleanup_close_ int fd = -1;
        char name[32];

        snprintf(name, sizeof(name), "loop%i", number);
        fd = openat(devices_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 || ioctl(fd, LOOP_CONFIGURE, config) < 0)
                return -errno;
        return TAKE_FD(fd);
}

int loop_device_make(int devices_fd, int file_fd, const char *name, int *ret_fd, Error **reterr)
{
        _cleanup_close_ int control = openat(devices_fd, "loop-control", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        struct loop_config config = {
                .fd = (uint32_t) file_fd,
                .block_size = BLOCK,
                /* Past the page cache of the file: what the run writes is cached once, and counts to it. */
                .info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
        };
        int r = -EBUSY;

        if (control < 0)
                return error_set(reterr, -errno, "there are no loop devices: %m");
        snprintf((char *) config.info.lo_file_name, sizeof(config.info.lo_file_name), "%s", name);
        for (int i = 0; i < TRIES && r == -EBUSY; i++) {
                int number = ioctl(control, LOOP_CTL_GET_FREE);

                r = number < 0 ? -errno : take(devices_fd, number, &config);
        }
        if (r < 0)
                return error_set(reterr, r, "cannot set up a loop device: %s", strerror(-r));
        *ret_fd = r;
        return 0;
}

/* ---- what is there */

/* -ENXIO: it shows nothing. */
static int name_of(int devices_fd, const char *device, char ret[static LO_NAME_SIZE])
{
        _cleanup_close_ int fd = openat(devices_fd, device, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        struct loop_info64 info = {};

        if (fd < 0 || ioctl(fd, LOOP_GET_STATUS64, &info) < 0)
                return -errno;
        memcpy(ret, info.lo_file_name, LO_NAME_SIZE);
        ret[LO_NAME_SIZE - 1] = 0;
        return 0;
}

int loop_devices_each(int devices_fd, int (*see)(const char *name, void *userdata), void *userdata, Error **reterr)
{
        DIR *d = opendir("/sys/block");
        int r = d ? 0 : error_set(reterr, -errno, "/sys/block: %m");

        for (struct dirent *e; r >= 0 && (e = readdir(d));) {
                char path[sizeof("loop/backing_file") + sizeof(e->d_name)], name[LO_NAME_SIZE];

                snprintf(path, sizeof(path), "%s/loop/backing_file", e->d_name);
                if (!startswith(e->d_name, "loop") || faccessat(dirfd(d), path, F_OK, 0) < 0 ||
                                name_of(devices_fd, e->d_name, name) < 0)
                        continue;
                r = see(name, userdata);
                if (r < 0)
                        error_set(reterr, r, "loop devices: %s", strerror(-r));
        }
        if (d)
                closedir(d);
        return r;
}
