/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "base/io.h"
#include "view/view.h"

#define ID_MAX UINT32_C(4294967295) /* (uid_t) -1, which is no id */

static int write_map(pid_t pid, const char *name, const Buf *lines)
{
        _cleanup_close_ int fd = -1;
        char path[64];

        if (lines->error < 0)
                return lines->error;
        snprintf(path, sizeof(path), "/proc/%i/%s", (int) pid, name);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        return write_full(fd, lines->data, lines->size); /* the kernel takes a map in one piece */
}

static int write_maps(pid_t pid, const ViewRequest *q)
{
        _cleanup_buf_ Buf uids = {}, gids = {};
        int r;

        buf_printf(&uids, "%u %u 1\n", q->caller, q->uid);
        /* Groups stay what they are, for a file of a group without a name here could not be changed. The run
         * is in none but its own, which no file can have. */
        buf_printf(&gids, "0 0 %u\n%u %u %u\n", q->gid, q->gid + 1, q->gid + 1, ID_MAX - (q->gid + 1));
        r = write_map(pid, "uid_map", &uids);
        return r < 0 ? r : write_map(pid, "gid_map", &gids);
}

static int open_namespace(pid_t pid, int *ret)
{
        char path[64];
        int fd;

        snprintf(path, sizeof(path), "/proc/%i/ns/user", (int) pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        *ret = fd;
        return 0;
}

/* A namespace has to be somebody's: a child's, that does nothing else and is gone when this returns. */
int view_map_open(const ViewRequest *q, int *ret_fd)
{
        _cleanup_close_ int ours = -1, theirs = -1;
        int fds[2], r, word = 0;
        pid_t pid;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        ours = fds[0];
        theirs = fds[1];
        pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                word = unshare(CLONE_NEWUSER) < 0 ? errno : 0;
                (void) write_full(theirs, &word, sizeof(word));
                for (;;)
                        pause();
        }
        close(TAKE_FD(theirs));
        r = read(ours, &word, sizeof(word)) == sizeof(word) ? -word : -EIO;
        if (r >= 0)
                r = write_maps(pid, q);
        if (r >= 0)
                r = open_namespace(pid, ret_fd);
        (void) kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        return r;
}
