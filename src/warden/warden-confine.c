/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/landlock.h"
#include "base/macro.h"
#include "base/seccomp-filter.h"
#include "warden/warden-confine.h"

/* ---- Landlock */

/* Every right to files that this kernel knows is taken. Of the network nothing: it is the task. */
int warden_confine_files(int beneath)
{
        const int abi = landlock_abi();
        _cleanup_close_ int fd = -1;
        int r = 0;

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        if (abi < 1)
                return 0;
        fd = landlock_ruleset(abi, landlock_known(abi, (LandlockRights){ .fs = ~UINT64_C(0), .scopes = LANDLOCK_SCOPE_ALL }));
        if (fd < 0)
                return fd;
        if (beneath >= 0)
                r = landlock_allow_beneath(fd, beneath, LANDLOCK_FS_READ_FILE);
        return r < 0 ? r : landlock_restrict(fd);
}

/* ---- seccomp */

static const struct sock_filter program[] = {
        OUR_CALLS_ONLY,

        /* splice(): from where a socket or the one pipe stands to where the other one does, without waiting for the pipe. Of
         * a pointer both halves count. It comes first: where nothing but the number counts, the kernel remembers the answer. */
        UNLESS(__NR_splice, 12),
        LOAD(args[1]),
        IF(0, 0, 9),
        LOAD_HIGH(args[1]),
        IF(0, 0, 7),
        LOAD(args[3]),
        IF(0, 0, 5),
        LOAD_HIGH(args[3]),
        IF(0, 0, 3),
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
        IF(SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 1, 0),
        KILL,
        LOAD(args[2]),
        IF(0, 1, 0),
        KILL,
        LOAD(args[0]),
        IS(AF_INET),
        IS(AF_INET6),
        KILL,

        /* setsockopt(): how a connection ends, and that small pieces are not held back. */
        UNLESS(__NR_setsockopt, 12),
        LOAD(args[1]),
        IF(SOL_SOCKET, 0, 4),
        LOAD(args[2]),
        IS(SO_LINGER),
        KILL,
        IF(IPPROTO_TCP, 1, 0),
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
        OUR_CALLS_ONLY,
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
        CALL(__NR_madvise),
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

int warden_confine_calls(void)
{
        return seccomp_filter_load(program, ELEMENTSOF(program));
}

int warden_confine_witness(void)
{
        return seccomp_filter_load(witness_program, ELEMENTSOF(witness_program));
}
