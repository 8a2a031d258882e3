/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/child.h"

/* The result travels as the exit status. */
_noreturn_ static void child(ChildWork *work, const void *argument)
{
        int r = prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ? -errno : work(argument);

        _exit(r >= 0 ? 0 : r > -256 ? -r : EIO);
}

int child_work(ChildWork *work, const void *argument, const char *what, Error **reterr)
{
        pid_t pid = fork();
        int status;

        if (pid < 0)
                return error_set(reterr, -errno, "%s: %m", what);
        if (pid == 0)
                child(work, argument);
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return error_set(reterr, -errno, "%s: %m", what);
        if (!WIFEXITED(status))
                return error_set(reterr, -EPIPE, "%s: the helper process died", what);
        if (WEXITSTATUS(status) != 0)
                return error_set(reterr, -WEXITSTATUS(status), "%s: %s", what, strerror(WEXITSTATUS(status)));
        return 0;
}
