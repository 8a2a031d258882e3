/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/io.h"
#include "broker/broker-stdio.h"

#define MEM_MAJOR 1u
#define NULL_MINOR 3u
#define PTS_MAJOR_FIRST 136u
#define PTS_MAJOR_LAST 143u

static const char *const stdio_names[] = { "standard input", "standard output", "standard error" };

/* What a descriptor is, as far as the kernel itself knows. The file system that it lies on may be the caller's own (FUSE), which never
 * answers, and not even SIGKILL ends who waits for that; it is not asked. */
static int look(int fd, struct statx *ret)
{
        return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, ret) < 0 ? -errno : 0;
}

static bool is_pipe(int fd)
{
        return fcntl(fd, F_GETPIPE_SZ) >= 0;
}

static bool is_null(const struct statx *st)
{
        return S_ISCHR(st->stx_mode) && st->stx_rdev_major == MEM_MAJOR && st->stx_rdev_minor == NULL_MINOR;
}

static bool is_pty(const struct statx *st)
{
        return S_ISCHR(st->stx_mode) && st->stx_rdev_major >= PTS_MAJOR_FIRST && st->stx_rdev_major <= PTS_MAJOR_LAST;
}

static bool open_for(int fd, bool writing)
{
        int flags = fcntl(fd, F_GETFL), mode = flags & O_ACCMODE;

        if (flags < 0 || (flags & O_PATH))
                return false;
        return mode == O_RDWR || mode == (writing ? O_WRONLY : O_RDONLY);
}

int pipe_check(int fd, bool writing)
{
        int flags = fcntl(fd, F_GETFL);

        if (!is_pipe(fd) || flags < 0)
                return -EINVAL;
        return (flags & O_ACCMODE) == (writing ? O_WRONLY : O_RDONLY) ? 0 : -EBADF;
}

int stdio_check(const int fds[3], bool tty, dev_t forbidden_tty, Error **reterr)
{
        dev_t terminal = 0;

        for (int i = 0; i < 3; i++) {
                struct statx st;
                int r = look(fds[i], &st);
                dev_t device = r < 0 ? 0 : makedev(st.stx_rdev_major, st.stx_rdev_minor);

                if (r < 0)
                        return error_set(reterr, r, "%s: %s", stdio_names[i], strerror(-r));
                if (tty && !is_pty(&st))
                        return error_set(reterr, -EINVAL, "%s: must be the slave of a pseudo-terminal",
                                        stdio_names[i]);
                if (!tty && !is_pipe(fds[i]) && !is_null(&st))
                        return error_set(reterr, -EINVAL, "%s: must be a pipe or /dev/null", stdio_names[i]);
                if (!open_for(fds[i], i > 0) || (tty && !open_for(fds[i], i == 0)))
                        return error_set(reterr, -EBADF, "%s: not open for %s", stdio_names[i],
                                        tty     ? "reading and writing"
                                        : i > 0 ? "writing"
                                                : "reading");
                if (tty && i > 0 && device != terminal)
                        return error_set(reterr, -EINVAL, "%s: not the same terminal as standard input",
                                        stdio_names[i]);
                if (tty && device == forbidden_tty)
                        return error_set(reterr, -EPERM,
                                        "the caller's own terminal is never given to a run: make a new one");
                terminal = device;
        }
        return 0;
}

dev_t process_terminal(pid_t pid)
{
        _cleanup_free_ char *stat = NULL;
        char path[64];
        const char *p;
        int tty = 0;

        snprintf(path, sizeof(path), "/proc/%i/stat", (int) pid);
        if (read_file(path, 4096, &stat, NULL) < 0)
                return 0;
        /* The name may hold anything, spaces and brackets too; what follows the last bracket is numbers. */
        p = strrchr(stat, ')');
        if (!p || sscanf(p + 1, " %*c %*d %*d %*d %d", &tty) != 1 || tty <= 0)
                return 0;
        /* The kernel's 32-bit form: minor bits 31-20 and 7-0, major bits 19-8. */
        return makedev(((unsigned) tty >> 8) & 0xfff,
                        ((unsigned) tty & 0xff) | (((unsigned) tty >> 12) & 0xfff00));
}
