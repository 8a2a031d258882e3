/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The workload of test-exec.c: says what it finds. Static, so that it needs no library from anywhere.
 *   args             its arguments, each with its NUL
 *   env              its environment, the same
 *   state            lines KEY=VALUE
 *   try WHAT:ON...   lines WHAT:ON=ERRNO */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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

int main(int argc, char *argv[])
{
        if (argc < 2)
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
