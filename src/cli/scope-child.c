/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/io.h"
#include "cli/scope-child.h"
#include "wire/runspec.h"

/* Between fork and exec. What the broker looks for stands before agentbox-exec runs: no_new_privs, no
 * descriptor but three, nothing in the environment, no terminal to get signals from. Returns only where it
 * fails. */
static int become_shim(int channel, int null)
{
        static char *const argv[] = { (char *) "agentbox-exec", (char *) "--scope", NULL };
        static char *const env[] = { NULL };

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ||
                        setsid() < 0 || dup2(channel, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ||
                        close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
                return errno;
        execve(SHIM_PATH, argv, env);
        return errno;
}

/* The pipe's end closes with the exec; before that, an errno may come. */
static int await_exec(int fd, Error **reterr)
{
        int error = 0;
        ssize_t n;

        do
                n = read(fd, &error, sizeof(error));
        while (n < 0 && errno == EINTR);
        if (n == 0)
                return 0;
        return error_set(reterr, n == sizeof(error) ? -error : -EIO, "cannot start %s: %s", SHIM_PATH,
                        strerror(n == sizeof(error) ? error : EIO));
}

static int fork_shim(ScopeChild *c, int channel, int null, Error **reterr)
{
        _cleanup_close_ int exec_read = -1, exec_write = -1;
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return error_set(reterr, -errno, "cannot make a pipe: %s", strerror(errno));
        exec_read = fds[0];
        exec_write = fds[1];
        c->pid = fork();
        if (c->pid < 0) {
                c->pid = 0;
                return error_set(reterr, -errno, "cannot fork: %s", strerror(errno));
        }
        if (c->pid == 0) {
                int error = become_shim(channel, null);

                (void) !write(exec_write, &error, sizeof(error));
                _exit(EXEC_EXIT_FAILED);
        }
        closep(&exec_write);
        exec_write = -1;
        c->pidfd = pidfd_open(c->pid, 0);
        if (c->pidfd < 0)
                return error_set(reterr, -errno, "cannot open a pidfd: %s", strerror(errno));
        return await_exec(exec_read, reterr);
}

int scope_child_start(ScopeChild *ret, Error **reterr)
{
        _cleanup_(scope_child_done) ScopeChild c = SCOPE_CHILD_NONE;
        _cleanup_close_ int channel = -1, null = open("/dev/null", O_RDWR | O_CLOEXEC);
        int fds[2], r;

        if (null < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
                return error_set(reterr, -errno, "cannot make a channel: %s", strerror(errno));
        c.channel = fds[0];
        channel = fds[1];
        r = fork_shim(&c, channel, null, reterr);
        if (r < 0)
                return r;
        *ret = c;
        c = SCOPE_CHILD_NONE;
        return 0;
}

int scope_child_reap(ScopeChild *c)
{
        siginfo_t si = {};
        int r;

        do
                r = waitid(P_PID, (id_t) c->pid, &si, WEXITED);
        while (r < 0 && errno == EINTR);
        if (r < 0)
                return -errno;
        c->ended = true;
        c->code = si.si_code;
        c->status = si.si_status;
        return 0;
}

void scope_child_done(ScopeChild *c)
{
        if (c->pid > 0 && !c->ended) {
                kill(c->pid, SIGKILL);
                (void) scope_child_reap(c);
        }
        closep(&c->pidfd);
        closep(&c->channel);
        *c = SCOPE_CHILD_NONE;
}
