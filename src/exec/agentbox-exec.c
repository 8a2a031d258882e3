/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* agentbox-exec WORKSPACE [ABSTRACT-NAME]
 * agentbox-exec --scope
 *
 * The last trusted code before the workload, first process of a run's unit. With --scope it is a child of
 * agentbox, and waits until the broker has put it into its cgroup and says so. Where it is the first process of a PID
 * namespace, it stays as the init of that (exec-init.c), and all below is done by a child of it.
 *
 * uid            the run's own dynamic uid (--scope: the caller's), never changed here; no capability is
 * needed, and all that are found are dropped descriptors    0: the channel to the broker, a SOCK_SEQPACKET
 * socket; 1, 2: /dev/null. Others are reported and closed. The workload gets 0, 1 and 2 of the RunSpec and
 * no other. system calls   what a static C program needs to start (brk, arch_prctl, set_tid_address,
 * set_robust_list, rseq, prlimit64, readlink, getrandom, mprotect), then openat, chdir, close, close_range,
 * read, pread64, fcntl, dup2, getdents64, newfstatat, statfs, readlinkat, unlinkat, umask, ioctl, poll,
 * mmap, munmap, brk, clone, wait4, exit_group, rt_sigaction, rt_sigprocmask, clock_gettime, uname, getpid,
 * getgroups, getsid, setsid, prctl, capget, getsockopt, setsockopt, sendmsg, recvmsg, seccomp,
 *                landlock_create_ruleset, landlock_add_rule, landlock_restrict_self; once the filter is
 *                loaded chdir, umask, execve and, where that fails, write and exit_group; for files of the caller's
 *                rt_sigaction, openat, mkdirat, read, poll, pwrite64, ftruncate, utimensat, fchmod, symlinkat, unlinkat.
 *                capset only where a capability is left to drop.
 *                Tried, to be refused or not: socket, bind, getsockname, ioctl, connect, sendto, recvfrom;
 * in a child keyctl, mount, umount2, setresuid, unshare. trusts         the kernel, and the RunSpec: whoever
 * holds the other end of the channel decides what runs must           attest before it receives; drop
 * everything before execve; report each failure by its stage must not       execute anything without a
 * RunSpec; read a policy or a configuration, or heed its environment (it only reports that); speak to
 * anybody but the broker; leave a process, a file, a descriptor or a mapping behind
 *
 * Stages: attest, receive, stdio, tty, limits, capabilities, landlock, seccomp, unpack, cwd, execve (enum
 * ExecStage). The
 * first that fails sends one ExecFailure and ends the process. After unpack comes an ExecCopied; the closing of "executed"
 * after it, and without a failure, means that the workload runs.
 */

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/io.h"
#include "exec/exec.h"

#define CHANNEL_GIVEN 0 /* where systemd puts it */
#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"
#define KERNEL_SIGNALS 64

typedef struct Shim {
        const char *workspace, *abstract_name;
        bool scope;
        int channel;
        ExecFds fds;
        RunSpec spec;
        Buf failure; /* has its memory before the filter is loaded */
} Shim;

/* By the kernel's own calls, for glibc keeps two signals to itself and would leave them as they were. */
static int reset_signals(void)
{
        static const struct {
                void *handler;
                unsigned long flags;
                void *restorer;
                uint64_t mask;
        } standard = {}; /* SIG_DFL is zero */
        const uint64_t none = 0;

        for (int s = 1; s <= KERNEL_SIGNALS; s++)
                if (s != SIGKILL && s != SIGSTOP &&
                                syscall(SYS_rt_sigaction, s, &standard, NULL, sizeof(none)) < 0)
                        return -errno;
        return syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none)) < 0 ? -errno : 0;
}

/* Nothing came from PID 1: not the place, which is waited for, and no set was emptied. */
static int enter_scope(Shim *s)
{
        char *workspace;
        int r = exec_receive_start(s->channel, &workspace);

        if (r == 0)
                _exit(EXEC_EXIT_ABANDONED);
        if (r < 0)
                return r;
        s->workspace = workspace; /* for as long as this program runs */
        return exec_confine_capabilities(false);
}

static int stage_attest(Shim *s)
{
        _cleanup_(attest_done) Attest a = {};
        _cleanup_buf_ Buf message = {};
        const int size = 2 * ATTEST_SIZE_MAX;
        int r;

        r = reset_signals();
        if (r >= 0 && s->scope)
                r = enter_scope(s);
        else if (r >= 0 && getpid() == 1)
                r = exec_init(s->channel);
        if (r < 0)
                return r;
        r = exec_attest(s->workspace, s->abstract_name, &a);
        if (r < 0)
                return r;
        r = attest_encode(&a, &message);
        if (r < 0)
                return r;
        /* Whether this was enough, sending tells. */
        (void) setsockopt(s->channel, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
        return exec_channel_send(s->channel, &message);
}

static int stage_receive(Shim *s)
{
        int r = exec_receive(s->channel, &s->spec, &s->fds);

        if (r == 0)
                _exit(EXEC_EXIT_ABANDONED);
        return r < 0 ? r : 0;
}

static int stage_stdio(Shim *s)
{
        int r, moved = fcntl(s->channel, F_DUPFD_CLOEXEC, 3);

        if (moved < 0)
                return -errno;
        s->channel = moved; /* for a failure to be told; execve closes it, as it closes "executed" */
        for (int fd = 0; fd < 3; fd++) {
                if (dup2(s->fds.stdio[fd], fd) < 0)
                        return -errno;
                close(s->fds.stdio[fd]);
                r = fd_set_nonblock(fd, false);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* A session of its own in any case; a controlling terminal exactly where the RunSpec has one. */
static int stage_tty(Shim *s)
{
        int fd;

        if (setsid() < 0 && getsid(0) != getpid())
                return -errno;
        if (s->spec.tty)
                return ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0 ? -errno : 0;
        fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (fd < 0)
                return 0;
        close(fd);
        return -EBUSY;
}

/* As the workload could do it itself in its next breath: the root is the run's, and no descriptor that is open leads to a
 * directory. */
static int stage_cwd(Shim *s)
{
        if (chdir(s->spec.cwd) < 0)
                return -errno;
        umask(0022);
        return 0;
}

static int stage_limits(Shim *s)
{
        return exec_confine_limits(&s->spec);
}

static int stage_capabilities(Shim *s)
{
        return exec_confine_capabilities(!s->scope);
}

static int stage_landlock(Shim *s)
{
        return exec_confine_landlock(&s->spec);
}

static int stage_seccomp(Shim *s)
{
        return exec_confine_seccomp(&s->spec, s->channel);
}

/* Behind the filter: whoever finds a way to make a fool of it with a stream has what a workload has, and no more. What is said at
 * the end is said in any case: a shim that dies before has executed nothing. */
static int stage_unpack(Shim *s)
{
        _cleanup_buf_ Buf message = {};
        ExecCopied copied = {};
        int r = 0;

        if (s->fds.copy_in >= 0) {
                r = exec_unpack(s->workspace, s->fds.copy_in, &copied);
                close(s->fds.copy_in);
        }
        if (r >= 0)
                r = exec_copied_encode(&copied, &message);
        return r < 0 ? r : exec_channel_send(s->channel, &message);
}

/* Errors that mean "not in this directory of PATH, but maybe in the next". */
static bool search_goes_on(int error)
{
        return error == ENOENT || error == ENOTDIR || error == EACCES || error == ESTALE ||
               error == ENODEV || error == ETIMEDOUT;
}

static const char *search_path(char *const *env)
{
        STRV_FOREACH(i, env)
        {
                const char *path = startswith(*i, "PATH=");

                if (path)
                        return path;
        }
        return DEFAULT_PATH;
}

/* As execvp(3) does it, but for two things: no shell is tried for a file of unknown format, and no memory is
 * allocated. Returns only where it fails. */
static int stage_execve(Shim *s)
{
        const char *command = s->spec.argv[0], *path = search_path(s->spec.env);
        size_t n_command = strlen(command);
        char candidate[PATH_MAX];
        bool denied = false;

        if (strchr(command, '/')) {
                execve(command, s->spec.argv, s->spec.env);
                return -errno;
        }
        if (n_command == 0)
                return -ENOENT;
        if (n_command > NAME_MAX)
                return -ENAMETOOLONG;
        for (;; path++) {
                size_t n = strcspn(path, ":");

                if (n + 1 + n_command < sizeof(candidate)) {
                        /* An empty element is the current directory. */
                        memcpy(candidate, path, n);
                        candidate[n] = '/';
                        memcpy(candidate + n + (n > 0), command, n_command + 1);
                        execve(candidate, s->spec.argv, s->spec.env);
                        if (!search_goes_on(errno))
                                return -errno;
                        denied = denied || errno == EACCES;
                }
                path += n;
                if (!*path)
                        return denied ? -EACCES : -ENOENT;
        }
}

static int (*const stages[_EXEC_STAGE_MAX])(Shim *s) = {
        [EXEC_STAGE_ATTEST] = stage_attest,
        [EXEC_STAGE_RECEIVE] = stage_receive,
        [EXEC_STAGE_STDIO] = stage_stdio,
        [EXEC_STAGE_TTY] = stage_tty,
        [EXEC_STAGE_LIMITS] = stage_limits,
        [EXEC_STAGE_CAPABILITIES] = stage_capabilities,
        [EXEC_STAGE_LANDLOCK] = stage_landlock,
        [EXEC_STAGE_SECCOMP] = stage_seccomp,
        [EXEC_STAGE_UNPACK] = stage_unpack,
        [EXEC_STAGE_CWD] = stage_cwd,
        [EXEC_STAGE_EXECVE] = stage_execve,
};
static_assert(EXEC_STAGE_ATTEST == 0 && EXEC_STAGE_EXECVE == _EXEC_STAGE_MAX - 1,
                "the stages run in the enum's order");
static_assert(EXEC_STAGE_UNPACK > EXEC_STAGE_SECCOMP && EXEC_STAGE_CWD > EXEC_STAGE_UNPACK,
                "a caller's bytes are read under the filter, and the directory to start in may be among them");

static bool is_channel(int fd)
{
        int domain = 0, type = 0;
        socklen_t n = sizeof(int);

        return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 && domain == AF_UNIX &&
               getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 && type == SOCK_SEQPACKET;
}

int main(int argc, char *argv[])
{
        Shim s = { .channel = CHANNEL_GIVEN };
        ExecFailure failure = {};

        s.scope = argc == 2 && streq(argv[1], "--scope");
        if (argc < 2 || argc > 3 || (!s.scope && argv[1][0] != '/') || !is_channel(CHANNEL_GIVEN)) {
                fputs("agentbox-exec: started by agentbox and agentboxd for a run, not by hand\n", stderr);
                return EXEC_EXIT_FAILED;
        }
        if (!s.scope) {
                s.workspace = argv[1];
                s.abstract_name = argv[2];
        }
        /* Nobody of the same uid looks into this process; execve undoes it for the workload. */
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || fcntl(1, F_GETFD) < 0 || fcntl(2, F_GETFD) < 0)
                return EXEC_EXIT_FAILED;
        if (buf_append(&s.failure, (char[EXEC_FAILURE_SIZE]){}, EXEC_FAILURE_SIZE) < 0)
                return EXEC_EXIT_FAILED;
        s.failure.size = 0;

        for (ExecStage i = 0; i < _EXEC_STAGE_MAX; i++) {
                int r = stages[i](&s);

                if (r >= 0)
                        continue;
                failure = (ExecFailure){ .stage = i, .error = -r };
                if (exec_failure_encode(&failure, &s.failure) >= 0)
                        (void) exec_channel_send(s.channel, &s.failure);
                _exit(exec_failure_exit_status(&failure));
        }
        _exit(EXEC_EXIT_FAILED); /* not reached: execve returns only to fail */
}
