/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/macro.h"
#include "warden/warden-confine.h"

/* ---- Landlock. The interface spelt out, as in exec-landlock.c: the kernel may be newer than the headers. */

#define LANDLOCK_VERSION (1u << 0)

typedef struct RulesetAttr {
        uint64_t handled_access_fs, handled_access_net, scoped;
} RulesetAttr;

/* Every right that a version knows is taken, and none is given back by a rule. Of the network nothing: it is the task. */
static const struct {
        uint64_t fs, scopes;
        size_t attr_size;
} abis[] = {
        { 0x1fff, 0, 8 },
        { 0x3fff, 0, 8 },
        { 0x7fff, 0, 8 },
        { 0x7fff, 0, 16 },
        { 0xffff, 0, 16 },
        { 0xffff, 0x3, 24 }, /* abstract sockets and signals of processes outside */
};

#define LANDLOCK_READ_FILE (UINT64_C(1) << 2)
#define LANDLOCK_PATH_BENEATH 1

/* Packed, as the kernel has it. */
typedef struct __attribute__((packed)) PathBeneathAttr {
        uint64_t allowed_access;
        int32_t parent_fd;
} PathBeneathAttr;

int warden_confine_files(int beneath)
{
        _cleanup_close_ int fd = -1;
        RulesetAttr attr = {};
        long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION);
        size_t i;

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        if (version < 1)
                return 0;
        i = MIN2((size_t) version, ELEMENTSOF(abis)) - 1;
        attr.handled_access_fs = abis[i].fs;
        attr.scoped = abis[i].scopes;
        fd = (int) syscall(SYS_landlock_create_ruleset, &attr, abis[i].attr_size, 0);
        if (fd < 0)
                return -errno;
        if (beneath >= 0 &&
                        syscall(SYS_landlock_add_rule, fd, LANDLOCK_PATH_BENEATH,
                                        &(PathBeneathAttr){ .allowed_access = LANDLOCK_READ_FILE, .parent_fd = beneath }, 0) < 0)
                return -errno;
        return syscall(SYS_landlock_restrict_self, fd, 0) < 0 ? -errno : 0;
}

/* ---- seccomp */

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define ARCH AUDIT_ARCH_RISCV64
#else
#error "the warden's filter does not know this machine"
#endif
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "of an argument the low half is the first");

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define LOAD_HIGH(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field) + sizeof(uint32_t))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
#define ALLOW RETURN(SECCOMP_RET_ALLOW)
#define KILL RETURN(SECCOMP_RET_KILL_PROCESS)
/* Falls through where it is another call; the number stays loaded. */
#define CALL(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), ALLOW
/* Skips that many instructions, to the next call, where it is another one. IS and CALL are two. */
#define UNLESS(nr, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, skip)
/* Of 32-bit arguments the kernel takes the low half alone. */
#define IS(value) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1), ALLOW

static const struct sock_filter program[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
        KILL,
        LOAD(nr),

        /* splice(): from where a socket or the one pipe stands to where the other one does, without waiting for the pipe. Of
         * a pointer both halves count. It comes first: where nothing but the number counts, the kernel remembers the answer. */
        UNLESS(__NR_splice, 12),
        LOAD(args[1]),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 9),
        LOAD_HIGH(args[1]),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 7),
        LOAD(args[3]),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 5),
        LOAD_HIGH(args[3]),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3),
        LOAD(args[5]),
        IS(SPLICE_F_NONBLOCK),
        KILL,

        /* The most frequent first: moving bytes and waiting for them. The numbers of the 32-bit ABI on x86-64 have bit 30
         * set and are none of these. */
        CALL(__NR_recvfrom),
        CALL(__NR_sendto),
#ifdef __NR_epoll_wait
        CALL(__NR_epoll_wait),
#endif
        CALL(__NR_epoll_pwait),
        CALL(__NR_recvmsg),
        CALL(__NR_sendmsg),
        CALL(__NR_read),
        CALL(__NR_close),
        CALL(__NR_epoll_ctl),
        CALL(__NR_accept4),
        CALL(__NR_getsockname),
        CALL(__NR_getsockopt),
        CALL(__NR_connect),
        CALL(__NR_shutdown),
        CALL(__NR_clock_gettime), /* where the vDSO has no clock that works */
        CALL(__NR_brk),
        CALL(__NR_munmap),
        CALL(__NR_madvise),
        CALL(__NR_restart_syscall),
        CALL(__NR_rt_sigreturn),
        CALL(__NR_exit_group),

        /* socket(): a stream to the outside. */
        UNLESS(__NR_socket, 12),
        LOAD(args[1]),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 1, 0),
        KILL,
        LOAD(args[2]),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
        KILL,
        LOAD(args[0]),
        IS(AF_INET),
        IS(AF_INET6),
        KILL,

        /* setsockopt(): how a connection ends, and that small pieces are not held back. */
        UNLESS(__NR_setsockopt, 12),
        LOAD(args[1]),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOL_SOCKET, 0, 4),
        LOAD(args[2]),
        IS(SO_LINGER),
        KILL,
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 1, 0),
        KILL,
        LOAD(args[2]),
        IS(TCP_NODELAY),
        KILL,

        /* mmap(), mremap(): memory for malloc() alone: nothing executable, no file. */
        UNLESS(__NR_mmap, 7),
        LOAD(args[3]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 1, 0),
        KILL,
        LOAD(args[2]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
        KILL,
        ALLOW,
        CALL(__NR_mremap),

        /* fcntl(): to keep one descriptor in reserve. */
        UNLESS(__NR_fcntl, 4),
        LOAD(args[1]),
        IS(F_DUPFD_CLOEXEC),
        KILL,

        KILL,
};

/* The three requests of a listener by number. That an answer never says "go on" is the witness's own to see to: it stands in
 * memory. */
static const struct sock_filter witness_program[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
        KILL,
        LOAD(nr),
        CALL(__NR_ppoll),
#ifdef __NR_poll
        CALL(__NR_poll),
#endif
        CALL(__NR_openat),
        CALL(__NR_read),
        CALL(__NR_close),
        CALL(__NR_sendto),
        CALL(__NR_recvmsg),
        CALL(__NR_write),
        CALL(__NR_getsockopt),
        CALL(__NR_clock_gettime),
        CALL(__NR_brk),
        CALL(__NR_munmap),
        CALL(__NR_restart_syscall),
        CALL(__NR_rt_sigreturn),
        CALL(__NR_exit_group),
        UNLESS(__NR_ioctl, 8),
        LOAD(args[1]),
        IS(SECCOMP_IOCTL_NOTIF_RECV),
        IS(SECCOMP_IOCTL_NOTIF_SEND),
        IS(SECCOMP_IOCTL_NOTIF_ID_VALID),
        KILL,
        UNLESS(__NR_mmap, 7),
        LOAD(args[3]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 1, 0),
        KILL,
        LOAD(args[2]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
        KILL,
        ALLOW,
        KILL,
};

static int confine(const struct sock_filter *filter, size_t n)
{
        const struct sock_fprog p = { .len = (unsigned short) n, .filter = (struct sock_filter *) (uintptr_t) filter };

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) < 0 ? -errno : 0;
}

int warden_confine_calls(void)
{
        return confine(program, ELEMENTSOF(program));
}

int warden_confine_witness(void)
{
        return confine(witness_program, ELEMENTSOF(witness_program));
}
