/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/macro.h"
#include "warden/warden-confine.h"

/* ---- the filter: each in a child */

#define SURVIVES true
#define DIES false

static void call_read(void)
{
        char byte;

        syscall(SYS_read, -1, &byte, 1);
}
static void call_socket4(void)
{
        syscall(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}
static void call_socket6(void)
{
        syscall(SYS_socket, AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}
static void call_socket_unix(void)
{
        syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}
static void call_socket_netlink(void)
{
        syscall(SYS_socket, AF_NETLINK, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}
static void call_socket_udp(void)
{
        syscall(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}
static void call_socket_mptcp(void)
{
        syscall(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 262);
}
static void call_linger(void)
{
        syscall(SYS_setsockopt, -1, SOL_SOCKET, SO_LINGER, NULL, 0);
}
static void call_nodelay(void)
{
        syscall(SYS_setsockopt, -1, IPPROTO_TCP, TCP_NODELAY, NULL, 0);
}
static void call_mark(void)
{
        syscall(SYS_setsockopt, -1, SOL_SOCKET, SO_MARK, NULL, 0);
}
static void call_transparent(void)
{
        syscall(SYS_setsockopt, -1, IPPROTO_IP, 19, NULL, 0);
}
static void call_ulp(void)
{
        syscall(SYS_setsockopt, -1, IPPROTO_TCP, TCP_ULP, NULL, 0);
}
static void call_level_six_of_socket(void)
{
        syscall(SYS_setsockopt, -1, SOL_SOCKET, IPPROTO_TCP, NULL, 0);
}
static void call_splice(void)
{
        syscall(SYS_splice, -1, NULL, -1, NULL, 1, SPLICE_F_NONBLOCK);
}
static void call_splice_blocking(void)
{
        syscall(SYS_splice, -1, NULL, -1, NULL, 1, 0);
}
static void call_splice_from_offset(void)
{
        syscall(SYS_splice, -1, 1ul, -1, NULL, 1, SPLICE_F_NONBLOCK);
}
static void call_splice_from_high_offset(void)
{
        syscall(SYS_splice, -1, 1ul << 32, -1, NULL, 1, SPLICE_F_NONBLOCK);
}
static void call_splice_to_offset(void)
{
        syscall(SYS_splice, -1, NULL, -1, 1ul, 1, SPLICE_F_NONBLOCK);
}
static void call_splice_to_high_offset(void)
{
        syscall(SYS_splice, -1, NULL, -1, 1ul << 32, 1, SPLICE_F_NONBLOCK);
}
static void call_vmsplice(void)
{
        syscall(SYS_vmsplice, -1, NULL, 0, 0);
}
static void call_tee(void)
{
        syscall(SYS_tee, -1, -1, 1, SPLICE_F_NONBLOCK);
}
static void call_pipe(void)
{
        syscall(SYS_pipe2, NULL, 0);
}
static void call_mmap(void)
{
        syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static void call_mmap_exec(void)
{
        syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static void call_mmap_file(void)
{
        syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE, 0, 0);
}
static void call_mprotect(void)
{
        syscall(SYS_mprotect, NULL, 4096, PROT_READ | PROT_EXEC);
}
static void call_dup(void)
{
        syscall(SYS_fcntl, 0, F_DUPFD_CLOEXEC, 3);
}
static void call_setfl(void)
{
        syscall(SYS_fcntl, 0, F_SETFL, 0);
}
static void call_openat(void)
{
        syscall(SYS_openat, AT_FDCWD, "/", O_RDONLY);
}
static void call_execve(void)
{
        syscall(SYS_execve, "/", NULL, NULL);
}
static void call_fork(void)
{
        syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}
static void call_kill(void)
{
        syscall(SYS_kill, 0, 0);
}
static void call_ptrace(void)
{
        syscall(SYS_ptrace, 0, 0, 0, 0);
}
static void call_bpf(void)
{
        syscall(SYS_bpf, 0, NULL, 0);
}
static void call_bind(void)
{
        syscall(SYS_bind, -1, NULL, 0);
}
static void call_listen(void)
{
        syscall(SYS_listen, -1, 1);
}
#ifdef __x86_64__
static void call_x32(void)
{
        syscall(0x40000000 | 3, -1); /* close() of the 32-bit ABI */
}
#endif

static const struct {
        const char *name;
        void (*call)(void);
        bool survives;
} calls[] = {
        { "read", call_read, SURVIVES },
        { "socket IPv4", call_socket4, SURVIVES },
        { "socket IPv6", call_socket6, SURVIVES },
        { "socket unix", call_socket_unix, DIES },
        { "socket netlink", call_socket_netlink, DIES },
        { "socket UDP", call_socket_udp, DIES },
        { "socket MPTCP", call_socket_mptcp, DIES },
        { "SO_LINGER", call_linger, SURVIVES },
        { "TCP_NODELAY", call_nodelay, SURVIVES },
        { "SO_MARK", call_mark, DIES },
        { "IP_TRANSPARENT", call_transparent, DIES },
        { "TCP_ULP", call_ulp, DIES },
        { "option 6 of SOL_SOCKET", call_level_six_of_socket, DIES },
        { "splice", call_splice, SURVIVES },
        { "splice, blocking", call_splice_blocking, DIES },
        { "splice from an offset", call_splice_from_offset, DIES },
        { "splice from an offset, high half", call_splice_from_high_offset, DIES },
        { "splice to an offset", call_splice_to_offset, DIES },
        { "splice to an offset, high half", call_splice_to_high_offset, DIES },
        { "vmsplice", call_vmsplice, DIES },
        { "tee", call_tee, DIES },
        { "pipe2", call_pipe, DIES },
        { "mmap", call_mmap, SURVIVES },
        { "mmap executable", call_mmap_exec, DIES },
        { "mmap of a file", call_mmap_file, DIES },
        { "mprotect", call_mprotect, DIES },
        { "F_DUPFD_CLOEXEC", call_dup, SURVIVES },
        { "F_SETFL", call_setfl, DIES },
        { "openat", call_openat, DIES },
        { "execve", call_execve, DIES },
        { "clone", call_fork, DIES },
        { "kill", call_kill, DIES },
        { "ptrace", call_ptrace, DIES },
        { "bpf", call_bpf, DIES },
        { "bind", call_bind, DIES },
        { "listen", call_listen, DIES },
#ifdef __x86_64__
        { "close by the other ABI", call_x32, DIES },
#endif
};

static void test_filter(void **state)
{
        for (size_t i = 0; i < ELEMENTSOF(calls); i++) {
                pid_t pid = fork();
                int status;

                assert_true(pid >= 0);
                if (pid == 0) {
                        if (prctl(PR_SET_DUMPABLE, 0) < 0 || warden_confine_calls() < 0)
                                syscall(SYS_exit_group, 9);
                        calls[i].call();
                        syscall(SYS_exit_group, 0);
                }
                assert_int_equal(waitpid(pid, &status, 0), pid);
                if (calls[i].survives ? !WIFEXITED(status) || WEXITSTATUS(status) != 0
                                      : !WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
                        fail_msg("%s: status %#x", calls[i].name, (unsigned) status);
        }
}

/* No file can be opened any more, not even one that everybody may read. */
static void test_no_files(void **state)
{
        pid_t pid;
        int status;

        if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1) < 1) {
                print_message("skipped: the kernel has no Landlock\n");
                skip();
        }
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                int fd;

                if (open("/proc/self/status", O_RDONLY) < 0 || warden_confine_files(-1) < 0)
                        _exit(9);
                fd = open("/proc/self/status", O_RDONLY);
                _exit(fd < 0 && errno == EACCES ? 0 : 1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_filter),
                cmocka_unit_test(test_no_files),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
