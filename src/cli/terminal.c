/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "base/macro.h"
#include "cli/terminal.h"

static int open_pty(int *ret_master, int *ret_slave)
{
        _cleanup_close_ int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave = -1;

        if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
                return -errno;
        /* By the master itself, not by name: another /dev/pts may be mounted over the right one. */
        slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (slave < 0)
                return -errno;
        *ret_master = TAKE_FD(master);
        *ret_slave = TAKE_FD(slave);
        return 0;
}

int terminal_open(Terminal *t, int caller, Error **reterr)
{
        int r;

        if (tcgetattr(caller, &t->saved) < 0)
                return error_set(reterr, -errno, "-t: cannot read the modes of the terminal: %s",
                                strerror(errno));
        r = open_pty(&t->master, &t->slave);
        if (r < 0)
                return error_set(reterr, r, "-t: cannot make a terminal for the run: %s", strerror(-r));
        t->caller = caller;
        if (tcsetattr(t->slave, TCSANOW, &t->saved) < 0)
                return error_set(reterr, -errno, "-t: cannot set the modes of the run's terminal: %s",
                                strerror(errno));
        terminal_resize(t);
        return 0;
}

int terminal_set_raw(Terminal *t)
{
        struct termios raw = t->saved;

        cfmakeraw(&raw);
        if (tcsetattr(t->caller, TCSANOW, &raw) < 0)
                return -errno;
        t->raw = true;
        return 0;
}

void terminal_restore(Terminal *t)
{
        if (!t->raw)
                return;
        /* TCSADRAIN: what the run has written is shown under the modes that it was written for. */
        tcsetattr(t->caller, TCSADRAIN, &t->saved);
        t->raw = false;
}

void terminal_resize(Terminal *t)
{
        struct winsize size;

        /* A terminal without a size leaves the pty at 0×0, which programs know how to read. */
        if (ioctl(t->caller, TIOCGWINSZ, &size) == 0)
                ioctl(t->master, TIOCSWINSZ, &size);
}

void terminal_close_slave(Terminal *t)
{
        if (t->slave >= 0)
                close(TAKE_FD(t->slave));
}

void terminal_done(Terminal *t)
{
        terminal_restore(t);
        terminal_close_slave(t);
}
