/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/error.h"

/* In the child. 0, or negative errno. */
typedef int ChildWork(const void *argument);

/* A child that does this work and nothing else, waited for; it dies with this process. wanted_fd: whose other end wants it; where that
 * hangs up, -ECONNRESET, and the child is left to die with this process. -1: nobody's. what: in words, what is to be done, for errors. */
int child_work(ChildWork *work, const void *argument, int wanted_fd, const char *what, Error **reterr);
