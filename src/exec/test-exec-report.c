/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The workload of test-exec.c: says what it finds. Static, so that it needs no library from anywhere.
 *   args             its arguments, each with its NUL
 *   env              its environment, the same
 *   state            lines KEY=VALUE
 *   try WHAT:ON...   lines WHAT:ON=ERRNO
 *   exit STATUS, die SIGNAL
 *   leave            ends, and a child of it would go on
 *   orphans          has some, and says how many of them are left when all have ended
 *   init             everything that might disturb its init; lines WHAT=ERRNO, and which signals could not be sent */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/macro.h"

static void print_strings(char *const *l)
{
        for (; *l; l++)
                fwrite(*l, 1, strlen(*l) + 1, stdout);
}

static void print_status(void)
{
        static const char *const wanted[] = { "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:",
                "NoNewPrivs:", "Seccomp:", "SigQ:", "SigBlk:", "SigIgn:", "SigCgt:", "Umask:" };
        FILE *f = fopen("/proc/self/status", "re");
        char line[1024];

        while (f && fgets(line, sizeof(line), f))
                for (size_t i = 0; i < ELEMENTSOF(wanted); i++)
                        if (startswith(line, wanted[i]))
                                printf("%.*s=%s", (int) strlen(wanted[i]) - 1, line,
                                                line + strlen(wanted[i]) + 1);
        if (f)
                fclose(f);
}

static void print_state(void)
{
        DIR *d = opendir("/proc/self/fd");
        struct dirent *e;
        char cwd[PATH_MAX] = "";
        int tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

        if (tty >= 0)
                close(tty);
        printf("fds=");
        while (d && (e = readdir(d)))
                if (e->d_name[0] != '.' && atoi(e->d_name) != dirfd(d))
                        printf("%s,", e->d_name);
        if (d)
                closedir(d);
        printf("\ncwd=%s\n", getcwd(cwd, sizeof(cwd)) ?: "?");
        printf("dumpable=%d\n", prctl(PR_GET_DUMPABLE));
        printf("securebits=%#x\n", (unsigned) prctl(PR_GET_SECUREBITS));
        printf("leader=%d\n", getsid(0) == getpid());
        printf("terminal=%d\n", tty >= 0);
        printf("nonblock=%d\n", (fcntl(1, F_GETFL) & O_NONBLOCK) != 0);
        printf("children=%d\n", waitpid(-1, NULL, WNOHANG) >= 0);
        print_status();
}

static int try_write(const char *path)
{
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

        return fd < 0 ? errno : 0;
}

static int try_run(const char *path)
{
        pid_t pid = fork();
        int status;

        if (pid == 0) {
                execl(path, path, (char *) NULL);
                _exit(errno);
        }
        return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

static int try_signal(const char *pid)
{
        return kill(atoi(pid), 0) < 0 ? errno : 0;
}

static int try_abstract(const char *name)
{
        struct sockaddr_un a = { .sun_family = AF_UNIX };
        size_t n = MIN2(strlen(name), sizeof(a.sun_path) - 1);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        memcpy(a.sun_path + 1, name, n);
        return connect(fd, (struct sockaddr *) &a,
                               (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + n)) < 0
                               ? errno
                               : 0;
}

static int try_getppid(const char *on)
{
        return syscall(SYS_getppid) < 0 ? errno : 0;
}

static const struct {
        const char *name;
        int (*attempt)(const char *on);
} tries[] = {
        { "write:", try_write },
        { "run:", try_run },
        { "signal:", try_signal },
        { "abstract:", try_abstract },
        { "getppid:", try_getppid },
};

static void die(int signal)
{
        kill(getpid(), signal);
        _exit(97);
}

static void leave(void)
{
        if (fork() == 0)
                for (;;)
                        pause();
}

/* Grandchildren, whose parent does not wait for them. Their pipe closes when the last has ended; then they are to be
 * taken away soon. */
static void orphan(void)
{
        enum { N = 20 };
        pid_t pids[N];
        int ends[2], numbers[2], left = N;
        char c;

        if (pipe(ends) < 0 || pipe(numbers) < 0)
                return;
        if (fork() == 0) {
                for (int i = 0; i < N; i++) {
                        pid_t pid = fork();

                        if (pid == 0)
                                _exit(i);
                        if (write(numbers[1], &pid, sizeof(pid)) != sizeof(pid))
                                _exit(1);
                }
                _exit(0);
        }
        close(ends[1]);
        close(numbers[1]);
        if (wait(NULL) < 0 || read(ends[0], &c, 1) != 0 || read(numbers[0], pids, sizeof(pids)) != sizeof(pids))
                return;
        for (int looks = 0; left > 0 && looks < 1000; looks++) {
                left = 0;
                for (int i = 0; i < N; i++)
                        left += kill(pids[i], 0) == 0;
                usleep(left > 0 ? 10000 : 0);
        }
        printf("orphans=%d\n", left);
}

static void say(const char *what, long result)
{
        printf("%s=%d\n", what, result < 0 ? errno : 0);
}

static void disturb_init(void)
{
        struct iovec here = { .iov_base = &here, .iov_len = 1 }, there = { .iov_base = (void *) 0x400000, .iov_len = 1 };
        int fd = (int) syscall(SYS_pidfd_open, 1, 0), unsent = 0;

        for (int s = 1; s <= 64; s++)
                if (kill(1, s) < 0 || syscall(SYS_pidfd_send_signal, fd, s, NULL, 0) < 0 || syscall(SYS_tkill, 1, s) < 0)
                        unsent++;
        printf("unsent=%d\n", unsent);
        say("seize", ptrace(PTRACE_SEIZE, 1, NULL, NULL));
        say("getfd", syscall(SYS_pidfd_getfd, fd, 0, 0));
        say("read", syscall(SYS_process_vm_readv, 1, &here, 1, &there, 1, 0));
        say("write", syscall(SYS_process_vm_writev, 1, &here, 1, &there, 1, 0));
        printf("parent=%d\npid=%d\n", (int) getppid(), (int) getpid());
}

static bool act(const char *what, const char *on)
{
        if (streq(what, "exit"))
                _exit(atoi(on));
        if (streq(what, "die"))
                die(atoi(on));
        if (streq(what, "leave"))
                leave();
        else if (streq(what, "orphans"))
                orphan();
        else if (streq(what, "init"))
                disturb_init();
        else
                return false;
        fflush(stdout);
        return true;
}

int main(int argc, char *argv[])
{
        if (argc < 2 || act(argv[1], argv[2] ?: "0"))
                return 0;
        if (streq(argv[1], "args"))
                print_strings(argv);
        else if (streq(argv[1], "env"))
                print_strings(environ);
        else if (streq(argv[1], "state"))
                print_state();
        for (int i = 2; streq(argv[1], "try") && i < argc; i++)
                for (size_t k = 0; k < ELEMENTSOF(tries); k++) {
                        const char *on = startswith(argv[i], tries[k].name);

                        if (on)
                                printf("%s=%d\n", argv[i], tries[k].attempt(on));
                }
        fflush(stdout);
        return 0;
}
