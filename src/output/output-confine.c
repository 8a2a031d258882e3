/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/macro.h"
#include "output/output.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define ARCH AUDIT_ARCH_RISCV64
#else
#error "the filter does not know this machine"
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
/* Falls through where it is another call. */
#define CALL(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), RETURN(SECCOMP_RET_ALLOW)

/* Nothing that gives it a descriptor or memory. */
static const struct sock_filter program[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
        RETURN(SECCOMP_RET_KILL_PROCESS),
        LOAD(nr),
        CALL(__NR_read),
        CALL(__NR_sendto),
#ifdef __NR_poll
        CALL(__NR_poll),
#endif
        CALL(__NR_ppoll),
        CALL(__NR_clock_gettime), /* where the vDSO has no clock that works */
        CALL(__NR_getsockopt),
        CALL(__NR_close),
        CALL(__NR_restart_syscall),
        CALL(__NR_rt_sigreturn),
        CALL(__NR_exit_group),
        RETURN(SECCOMP_RET_KILL_PROCESS),
};

int output_confine(void)
{
        const struct sock_fprog p = { .len = ELEMENTSOF(program), .filter = (struct sock_filter *) (uintptr_t) program };

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return -errno;
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) < 0 ? -errno : 0;
}
