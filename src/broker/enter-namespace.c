/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "broker/enter-namespace.h"

/* The result travels as the exit status. */
_noreturn_ static void child(NamespaceWork *work, const void *argument)
{
        int r = prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ? -errno : work(argument);

        _exit(r >= 0 ? 0 : r > -256 ? -r : EIO);
}

int child_work(NamespaceWork *work, const void *argument, const char *what, Error **reterr)
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

typedef struct Entry {
        int fd, type;
        NamespaceWork *work;
        const void *argument;
} Entry;

static int enter_and_work(const void *argument)
{
        const Entry *e = argument;

        return setns(e->fd, e->type) < 0 ? -errno : e->work(e->argument);
}

static bool is_own(const struct stat *st, const char *kind)
{
        struct stat own;
        char path[64];

        snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
        return stat(path, &own) < 0 || own.st_ino == st->st_ino;
}

int namespace_enter(pid_t pid, const char *kind, uint64_t inode, NamespaceWork *work, const void *argument, const char *what,
                Error **reterr)
{
        static const struct {
                const char *kind;
                int type;
        } types[] = { { "mnt", CLONE_NEWNS }, { "uts", CLONE_NEWUTS } };
        _cleanup_close_ int fd = -1;
        Entry e = { .work = work, .argument = argument };
        struct stat st;
        char path[64];

        for (size_t i = 0; i < ELEMENTSOF(types); i++)
                if (streq(types[i].kind, kind))
                        e.type = types[i].type;
        snprintf(path, sizeof(path), "/proc/%i/ns/%s", (int) pid, kind);
        e.fd = fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return error_set(reterr, -errno, "%s: %m", what);
        if (is_own(&st, kind))
                return error_set(reterr, -EPERM, "%s: it shares the host's", what);
        if (inode != 0 && st.st_ino != inode)
                return error_set(reterr, -ESTALE, "%s: its process is gone", what);
        return child_work(enter_and_work, &e, what, reterr);
}
