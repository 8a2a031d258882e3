/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/landlock.h"
#include "base/macro.h"
#include "base/seccomp-filter.h"
#include "copyout/copyout.h"
#include "wire/copyout.h"

/* ---- who it is, and where */

static int verify_identity(uid_t uid, gid_t gid)
{
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = {};
        uid_t r, e, s;
        gid_t gr, ge, gs;

        if (getresuid(&r, &e, &s) < 0 || getresgid(&gr, &ge, &gs) < 0 ||
                        syscall(SYS_capget, &header, caps) < 0)
                return -errno;
        if (r != uid || e != uid || s != uid || gr != gid || ge != gid || gs != gid ||
                        getgroups(0, NULL) != 0)
                return -EPERM;
        for (size_t i = 0; i < ELEMENTSOF(caps); i++)
                if (caps[i].effective | caps[i].permitted | caps[i].inheritable)
                        return -EPERM;
        if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 || prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0)
                return -EPERM;
        return 0;
}

int copyout_confine_identity(int workspace, uid_t uid, gid_t gid)
{
        if (close_range(_COPYOUT_FD_MAX, ~0u, 0) < 0)
                return -errno;
        if (fchdir(workspace) < 0 || chroot(".") < 0 || chdir("/") < 0)
                return -errno;
        if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
                return -errno;
        /* Another run may have the uid of this one by now: it shall not look in here. */
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ||
                        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        return verify_identity(uid, gid);
}

/* ---- Landlock */

int copyout_confine_landlock(const int *directories, size_t n)
{
        const LandlockRights all = { ~UINT64_C(0), ~UINT64_C(0), ~UINT64_C(0) };
        int abi = landlock_abi(), r = 0;
        _cleanup_close_ int fd = -1;

        if (abi < 0)
                return abi == -ENOSYS || abi == -EOPNOTSUPP ? 0 : abi;
        fd = landlock_ruleset(abi, landlock_known(abi, all));
        if (fd < 0)
                return fd;
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = landlock_allow_beneath(fd, directories[i], LANDLOCK_FS_READ_FILE | LANDLOCK_FS_READ_DIR);
        return r < 0 ? r : landlock_restrict(fd);
}

/* ---- system calls */

/* A file is opened for reading, and no link is followed for it. */
#define OPEN_FLAGS_ALLOWED ((uint32_t) (O_NONBLOCK | O_NOCTTY | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW))

static const struct sock_filter program[] = {
        OUR_CALLS_ONLY,
        CALL(SYS_read),
        CALL(SYS_close),
        CALL(SYS_fstat),
        CALL(SYS_newfstatat),
        CALL(SYS_getdents64),
        CALL(SYS_readlinkat),
        CALL(SYS_lseek),
#ifdef SYS_poll
        CALL(SYS_poll),
#endif
        CALL(SYS_ppoll),
        CALL(SYS_restart_syscall),
        CALL(SYS_exit_group),
        /* Written is to the two pipes alone. */
        IF(SYS_write, 0, 4),
        LOAD(args[0]),
        IF(COPYOUT_FD_STREAM, 1, 0),
        IF(COPYOUT_FD_REPORT, 0, 8),
        ALLOW,
        IF(SYS_openat, 0, 6),
        LOAD(args[2]),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~OPEN_FLAGS_ALLOWED),
        IF(0, 0, 3),
        LOAD(args[2]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_NOFOLLOW, 0, 1),
        ALLOW,
        KILL,
};

int copyout_confine_seccomp(void)
{
        return seccomp_filter_load(program, ELEMENTSOF(program));
}
