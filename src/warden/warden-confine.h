/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the warden gives up once it has everything: files, programs, signals, and every system call but those it relays with.
 * The unit has taken most of it already; this does not depend on the unit. Cannot be undone. */
/* Landlock, where the kernel has it; 0 without. beneath: a directory whose files stay readable; -1: none. */
int warden_confine_files(int beneath);
int warden_confine_calls(void); /* seccomp: whatever is not in the table ends the process */
/* The same for its witness (witness.h): the listener, the journal, the names of processes. */
int warden_confine_witness(void);
