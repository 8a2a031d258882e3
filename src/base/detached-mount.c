/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <linux/mount.h>
#include <sys/syscall.h>

#include "base/macro.h"
#include "base/detached-mount.h"

int detached_mount(const char *type, const MountOption *options, size_t n, unsigned attributes)
{
        _cleanup_close_ int fs = (int) syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
        long fd;

        if (fs < 0)
                return -errno;
        for (size_t i = 0; i < n; i++)
                if (syscall(SYS_fsconfig, fs, options[i].value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG,
                                    options[i].name, options[i].value, 0) < 0)
                        return -errno;
        if (syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
                return -errno;
        fd = syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attributes);
        return fd < 0 ? -errno : (int) fd;
}
