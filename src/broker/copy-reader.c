/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#include "base/io.h"
#include "base/parse.h"
#include "broker/copy-reader.h"

#define FDS_ABOVE 16 /* where the child's descriptors wait for their numbers */
#define EXIT_NOT_STARTED 127
#define REAP_TRIES 100 /* 100 ms: nothing that was killed takes longer, but what hangs in the kernel */

/* Between fork and exec: only what a signal handler may do. */
static _noreturn_ void become_reader(const char *program, const int fds[_COPYOUT_FD_MAX])
{
        static char *const argv[] = { (char *) "agentbox-copyout", NULL };
        static char *const env[] = { NULL };
        int moved[_COPYOUT_FD_MAX];
        sigset_t none;

        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        for (int i = 0; i < _COPYOUT_FD_MAX; i++) {
                moved[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FDS_ABOVE);
                if (moved[i] < 0)
                        _exit(EXIT_NOT_STARTED);
        }
        for (int i = 0; i < _COPYOUT_FD_MAX; i++)
                if (dup2(moved[i], i) < 0)
                        _exit(EXIT_NOT_STARTED);
        execve(program, argv, env);
        _exit(EXIT_NOT_STARTED);
}

int copy_reader_start(const char *program, const CopyoutSpec *spec, int stream, int workspace, int view,
                pid_t *ret_pid, int *ret_report_fd, Error **reterr)
{
        _cleanup_close_ int memfd = -1, report_read = -1, report_write = -1;
        _cleanup_buf_ Buf b = {};
        int fds[2], r = copyout_spec_encode(spec, &b);
        pid_t pid;

        if (r >= 0)
                r = memfd = memfd_sealed("agentbox-copyout", b.data, b.size);
        if (r < 0)
                return error_set(reterr, r, "cannot write down what is to be copied: %s", strerror(-r));
        if (pipe2(fds, O_CLOEXEC) < 0)
                return error_set(reterr, -errno, "cannot make a pipe: %s", strerror(errno));
        report_read = fds[0];
        report_write = fds[1];
        r = fd_set_nonblock(report_read, true);
        if (r < 0)
                return error_set(reterr, r, "cannot set up a pipe: %s", strerror(-r));
        pid = fork();
        if (pid < 0)
                return error_set(reterr, -errno, "cannot fork: %s", strerror(errno));
        if (pid == 0)
                become_reader(program, (int[_COPYOUT_FD_MAX]){
                                                       [COPYOUT_FD_SPEC] = memfd,
                                                       [COPYOUT_FD_STREAM] = stream,
                                                       [COPYOUT_FD_REPORT] = report_write,
                                                       [COPYOUT_FD_WORKSPACE] = workspace,
                                                       [COPYOUT_FD_VIEW] = spec->has_view ? view : workspace,
                                       });
        *ret_pid = pid;
        *ret_report_fd = TAKE_FD(report_read);
        return 0;
}

/* This process may not signal those of other users; as that one user, it may. Nothing else of it is in the
 * child. */
static void kill_as(uid_t uid, pid_t pid)
{
        pid_t child = fork();

        if (child == 0)
                _exit(setresuid(uid, uid, uid) < 0 || kill(pid, SIGKILL) < 0);
        while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
                ;
}

/* It had its say; whatever it does now, it is over. Never waited for where it cannot be ended. */
static void end_reader(pid_t pid, uid_t uid)
{
        static const struct timespec pause = { .tv_nsec = 1000000 };

        if (waitpid(pid, NULL, WNOHANG) != 0)
                return;
        (void) kill(pid, SIGKILL); /* it may not have become another's yet */
        kill_as(uid, pid);
        for (int i = 0; i < REAP_TRIES && waitpid(pid, NULL, WNOHANG) == 0; i++)
                (void) nanosleep(&pause, NULL);
}

int copy_reader_finish(pid_t pid, uid_t uid, int report_fd, CopyoutReport *ret)
{
        /* One byte more than a right report has. */
        uint8_t p[COPYOUT_REPORT_SIZE + 1];
        ssize_t n;

        end_reader(pid, uid);
        do
                n = read(report_fd, p, sizeof(p));
        while (n < 0 && errno == EINTR);
        close(report_fd);
        return n < 0 ? -EBADMSG : copyout_report_decode(p, (size_t) n, ret);
}

char *copy_reader_why(const CopyoutReport *r, uint64_t max_bytes, uint64_t max_files)
{
        _cleanup_free_ char *bytes = format_size(max_bytes), *files = format_size(max_files);
        char *text;
        int k = -1;

        switch (r->outcome) {
        case COPYOUT_FILES:
                k = asprintf(&text, "more files than CopyOutFiles=%s allows", files ?: "?");
                break;
        case COPYOUT_BYTES:
                k = asprintf(&text, "more bytes than CopyOutSize=%s allows", bytes ?: "?");
                break;
        case COPYOUT_DEPTH:
                k = asprintf(&text, "directories too deep in one another, or a path too long");
                break;
        case COPYOUT_UNREAD:
                k = asprintf(&text, "the client went away, or took nothing for %u seconds",
                                COPYOUT_STALL_MSEC / 1000);
                break;
        case COPYOUT_BROKEN:
                k = asprintf(&text, "the workspace cannot be read: %s", strerror(r->error));
                break;
        case COPYOUT_CONFINED:
                k = asprintf(&text, "whoever was to read the workspace could not be confined: %s",
                                strerror(r->error));
                break;
        default:
                return NULL;
        }
        return k < 0 ? NULL : text;
}
