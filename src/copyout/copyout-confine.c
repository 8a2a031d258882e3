/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/macro.h"
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

/* ---- Landlock: the kernel's interface, spelt out, for headers may be older than the kernel */

#define LANDLOCK_VERSION (1u << 0)
#define LANDLOCK_PATH_BENEATH 1
#define FS_READ_FILE (UINT64_C(1) << 2)
#define FS_READ_DIR (UINT64_C(1) << 3)

typedef struct RulesetAttr {
        uint64_t handled_access_fs, handled_access_net, scoped;
} RulesetAttr;

typedef struct __attribute__((packed)) PathBeneath {
        uint64_t allowed_access;
        int32_t parent_fd;
} PathBeneath;

/* What each version knows; all of it is handled, and so denied. */
static const struct {
        int version;
        RulesetAttr attr;
        size_t size;
} abis[] = {
        { 1, { 0x1fff, 0, 0 }, 8 },
        { 2, { 0x3fff, 0, 0 }, 8 },
        { 3, { 0x7fff, 0, 0 }, 8 },
        { 4, { 0x7fff, 3, 0 }, 16 },
        { 5, { 0xffff, 3, 0 }, 16 },
        { 6, { 0xffff, 3, 3 }, 24 },
};

int copyout_confine_landlock(const int *directories, size_t n)
{
        long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION);
        size_t i = 0;
        int fd, r = 0;

        if (version < 0)
                return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
        while (i + 1 < ELEMENTSOF(abis) && version >= abis[i + 1].version)
                i++;
        fd = (int) syscall(SYS_landlock_create_ruleset, &abis[i].attr, abis[i].size, 0);
        if (fd < 0)
                return -errno;
        for (size_t k = 0; r >= 0 && k < n; k++) {
                PathBeneath rule = { .allowed_access = FS_READ_FILE | FS_READ_DIR, .parent_fd = directories[k] };

                if (syscall(SYS_landlock_add_rule, fd, LANDLOCK_PATH_BENEATH, &rule, 0) < 0)
                        r = -errno;
        }
        if (r >= 0 && syscall(SYS_landlock_restrict_self, fd, 0) < 0)
                r = -errno;
        close(fd);
        return r;
}

/* ---- system calls */

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define ARCH AUDIT_ARCH_RISCV64
#elif defined(__powerpc64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ARCH AUDIT_ARCH_PPC64LE
#else
#error "which architecture is this for seccomp?"
#endif

/* The low half of an argument; all that are judged are ints. */
#define ARGUMENT(i) (offsetof(struct seccomp_data, args) + 8 * (i))
#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t) (offset))
#define IF(v, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t) (v), yes, no)
#define RETURN(v) BPF_STMT(BPF_RET | BPF_K, v)
#define ALLOW(nr) IF(nr, 0, 1), RETURN(SECCOMP_RET_ALLOW)

/* A file is opened for reading, and no link is followed for it. */
#define OPEN_FLAGS_ALLOWED ((uint32_t) (O_NONBLOCK | O_NOCTTY | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW))

static const struct sock_filter program[] = {
        LOAD(offsetof(struct seccomp_data, arch)),
        IF(ARCH, 1, 0),
        RETURN(SECCOMP_RET_KILL_PROCESS),
        LOAD(offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_read),
        ALLOW(SYS_close),
        ALLOW(SYS_fstat),
        ALLOW(SYS_newfstatat),
        ALLOW(SYS_getdents64),
        ALLOW(SYS_readlinkat),
        ALLOW(SYS_lseek),
#ifdef SYS_poll
        ALLOW(SYS_poll),
#endif
        ALLOW(SYS_ppoll),
        ALLOW(SYS_restart_syscall),
        ALLOW(SYS_exit_group),
        /* Written is to the two pipes alone. */
        IF(SYS_write, 0, 4),
        LOAD(ARGUMENT(0)),
        IF(COPYOUT_FD_STREAM, 1, 0),
        IF(COPYOUT_FD_REPORT, 0, 8),
        RETURN(SECCOMP_RET_ALLOW),
        IF(SYS_openat, 0, 6),
        LOAD(ARGUMENT(2)),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~OPEN_FLAGS_ALLOWED),
        IF(0, 0, 3),
        LOAD(ARGUMENT(2)),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_NOFOLLOW, 0, 1),
        RETURN(SECCOMP_RET_ALLOW),
        RETURN(SECCOMP_RET_KILL_PROCESS),
};

int copyout_confine_seccomp(void)
{
        const struct sock_fprog p = { .len = ELEMENTSOF(program), .filter = (struct sock_filter *) program };

        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) < 0 ? -errno : 0;
}
