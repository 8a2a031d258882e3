/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <termios.h>

#include "base/error.h"

/* The two terminals of "run -t": the caller's, put into raw mode, and a pty made here for the run. Nothing
 * inside ever holds a descriptor of the caller's terminal: TIOCSTI and its like can only reach the pty. */
typedef struct Terminal {
        int caller;        /* borrowed */
        int master, slave; /* the slave is kept open until the run has ended, so that the master never sees a
                              hang-up before */
        struct termios saved;
        bool raw;
} Terminal;

#define TERMINAL_NONE ((Terminal){ .caller = -1, .master = -1, .slave = -1 })

/* A pty with the size and modes of the caller's terminal. */
int terminal_open(Terminal *t, int caller, Error **reterr);
int terminal_set_raw(Terminal *t);
/* Gives the caller's terminal its modes back; does nothing where they never changed. */
void terminal_restore(Terminal *t);
/* The pty takes the size of the caller's terminal; the kernel tells the programs inside. */
void terminal_resize(Terminal *t);
void terminal_close_slave(Terminal *t);
/* Restores, and closes the slave; the master belongs to the relay. */
void terminal_done(Terminal *t);
