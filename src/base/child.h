/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/error.h"

/* In the child. 0, or negative errno. */
typedef int ChildWork(const void *argument);

/* A child that does this work and nothing else, waited for; it dies with this process. what: in words, what is to be done, for
 * errors. */
int child_work(ChildWork *work, const void *argument, const char *what, Error **reterr);
