/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/seccomp-filter.h"
#include "exec/exec.h"

/* The init of a run's PID namespace: a process of the same uid as the workload, which is to get nothing from it and to have
 * no influence on it.
 *
 * signals        none from inside reaches it: it has no handler, blocks none, and an init is spared what it does not want,
 *                SIGKILL and SIGSTOP included. What PID 1 sends to the unit, it sends to every process of it (KillMode=
 *                control-group), to the workload, too: nothing is to be passed on.
 * ptrace, /proc  it cannot be dumped, as the shim that it was
 * descriptors    the channel, which the workload does not have; no memory is shared
 * limits         not by prlimit(2), which asks for the same uid alone: the filter of a run (filter-arguments.c)
 * system calls   those of the loop below; whatever else it would be made to do, it and with it the run die of
 *
 * When it ends, the kernel kills every process of the namespace, and lets it go after the last. */

#define SELF "agentbox-init"

static const struct sock_filter program[] = {
        OUR_CALLS_ONLY,
        CALL(SYS_wait4),
        CALL(SYS_restart_syscall),
        CALL(SYS_write),
        CALL(SYS_close),
        CALL(SYS_exit_group),
        KILL,
};

/* Of this child; and takes away everybody whose parents are gone. */
static int await(pid_t workload, int *ret_status)
{
        int status;

        for (;;) {
                pid_t pid = (pid_t) syscall(SYS_wait4, -1, &status, __WALL, NULL);

                if (pid == workload)
                        break;
                if (pid < 0 && errno != EINTR)
                        return -errno;
        }
        *ret_status = status;
        return 0;
}

/* ended: has its memory before the filter is loaded. */
static _noreturn_ void watch_over(pid_t workload, int channel, Buf *ended)
{
        ExecEnded e = { .code = CLD_EXITED };
        int status;

        if (await(workload, &status) < 0)
                _exit(EXEC_EXIT_FAILED);
        if (WIFEXITED(status))
                e.status = WEXITSTATUS(status);
        else
                e = (ExecEnded){ WCOREDUMP(status) ? CLD_DUMPED : CLD_KILLED, WTERMSIG(status) };
        if (exec_ended_encode(&e, ended) >= 0)
                (void) exec_channel_send(channel, ended);
        _exit(exec_ended_exit_status(&e));
}

/* The child reports nothing before its init is what it should be: from outside, it is looked at. */
static int await_ready(int fd)
{
        char c;
        ssize_t n;

        do
                n = read(fd, &c, 1);
        while (n < 0 && errno == EINTR);
        close(fd);
        return n == 1 ? 0 : n < 0 ? -errno : -ECHILD;
}

int exec_init(int channel)
{
        _cleanup_buf_ Buf ended = {};
        int ready[2], r = buf_append(&ended, (char[EXEC_ENDED_SIZE]){}, EXEC_ENDED_SIZE);
        pid_t pid;

        if (r < 0)
                return r;
        ended.size = 0;
        if (pipe2(ready, O_CLOEXEC) < 0)
                return -errno;
        pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                close(ready[1]);
                return await_ready(ready[0]);
        }
        /* Nothing stays open but the channel. */
        if (dup2(ready[1], 1) < 0 || close(2) < 0 || close_range(3, ~0u, 0) < 0 ||
                        prctl(PR_SET_NAME, SELF) < 0 || seccomp_filter_load(program, ELEMENTSOF(program)) < 0 ||
                        write(1, "", 1) != 1)
                _exit(EXEC_EXIT_FAILED);
        close(1);
        watch_over(pid, channel, &ended);
}
