/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The words in which our processes write the seccomp filter of their own, as a table of instructions; seccomp(2), <linux/seccomp.h>.
 * They know before they are built which few calls they make, and take no library for it into their confinement. */

#if defined(__x86_64__)
#define SECCOMP_ARCH AUDIT_ARCH_X86_64 /* the numbers of its 32-bit ABI have bit 30 set, and are none that a filter names */
#elif defined(__aarch64__)
#define SECCOMP_ARCH AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define SECCOMP_ARCH AUDIT_ARCH_RISCV64
#elif defined(__powerpc64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SECCOMP_ARCH AUDIT_ARCH_PPC64LE
#else
#error "which architecture is this for seccomp?"
#endif
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "of an argument the low half is the first");

/* Of 32-bit arguments the kernel takes the low half alone; of a pointer both count. */
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define LOAD_HIGH(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field) + sizeof(uint32_t))
#define IF(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t) (value), yes, no)
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
/* Two instructions each: allows, or goes on behind them. */
#define IS(value) IF(value, 0, 1), ALLOW
#define CALL(nr) IS(nr) /* the number stays loaded */
/* Skips that many instructions, to the next call, where it is another one. */
#define UNLESS(nr, skip) IF(nr, 0, skip)
/* What each filter begins with. */
#define OUR_CALLS_ONLY LOAD(arch), IF(SECCOMP_ARCH, 1, 0), KILL, LOAD(nr)

/* For good, and for all that this thread executes. It needs no_new_privs, which stays. */
static inline int seccomp_filter_load(const struct sock_filter *filter, size_t n)
{
        const struct sock_fprog p = { .len = (unsigned short) n, .filter = (struct sock_filter *) (uintptr_t) filter };

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) < 0 ? -errno : 0;
}
