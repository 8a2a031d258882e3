/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#include "alert/alert-command.h"
#include "base/io.h"

/* Whoever waits for an answer of the network longer than this waits for nothing. */
#define PATIENCE_MSEC (5 * 60 * 1000)

/* No pipe: a program that does not read its input must not keep this one from going on. */
static int input_of(const char *line)
{
        _cleanup_close_ int fd = memfd_create("alert", MFD_CLOEXEC);
        int r = fd < 0 ? -errno : write_full(fd, line, strlen(line));

        if (r >= 0)
                r = write_full(fd, "\n", 1);
        if (r < 0)
                return r;
        return lseek(fd, 0, SEEK_SET) < 0 ? -errno : TAKE_FD(fd);
}

static _noreturn_ void become(char *const argv[], int input)
{
        (void) setpgid(0, 0);
        if (dup2(input, STDIN_FILENO) >= 0)
                execv(argv[0], argv);
        fprintf(stderr, "agentbox-alert: %s: %s\n", argv[0], strerror(errno));
        _exit(127);
}

int alert_command(char *const argv[], const char *line)
{
        _cleanup_close_ int input = input_of(line), process = -1;
        struct pollfd p = { .events = POLLIN };
        int status, r = 1;
        pid_t pid;

        if (input < 0)
                return input;
        pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0)
                become(argv, input);
        (void) setpgid(pid, pid); /* whoever of both comes first */
        p.fd = process = pidfd_open(pid, 0);
        while (process >= 0 && (r = poll(&p, 1, PATIENCE_MSEC)) < 0 && errno == EINTR)
                ;
        if (r == 0) {
                fprintf(stderr, "agentbox-alert: %s has not ended for minutes and is killed\n", argv[0]);
                (void) kill(-pid, SIGKILL);
        }
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
