/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"

/* The result travels as the exit status. */
_noreturn_ static void child(ChildWork *work, const void *argument)
{
        int r = prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ? -errno : work(argument);

        _exit(r >= 0 ? 0 : r > -256 ? -r : EIO);
}

/* 0: it has ended. */
static int wait_while_wanted(pid_t pid, int wanted_fd)
{
        _cleanup_close_ int pidfd = (int) syscall(SYS_pidfd_open, pid, 0);
        struct pollfd p[] = { { .fd = pidfd, .events = POLLIN }, { .fd = wanted_fd } };

        if (pidfd < 0)
                return -errno;
        while (poll(p, 2, -1) < 0)
                if (errno != EINTR)
                        return -errno;
        return p[1].revents && !p[0].revents ? -ECONNRESET : 0;
}

int child_work(ChildWork *work, const void *argument, int wanted_fd, const char *what, Error **reterr)
{
        pid_t pid = fork();
        int status;

        if (pid < 0)
                return error_set(reterr, -errno, "%s: %m", what);
        if (pid == 0)
                child(work, argument);
        if (wanted_fd >= 0) {
                int r = wait_while_wanted(pid, wanted_fd);

                if (r < 0)
                        return error_set(reterr, r, "%s: %s", what, r == -ECONNRESET ? "nobody wants it any more" : strerror(-r));
        }
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return error_set(reterr, -errno, "%s: %m", what);
        if (!WIFEXITED(status))
                return error_set(reterr, -EPIPE, "%s: its child died", what);
        if (WEXITSTATUS(status) != 0)
                return error_set(reterr, -WEXITSTATUS(status), "%s: %s", what, strerror(WEXITSTATUS(status)));
        return 0;
}
