/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stddef.h>

/* What the next broker needs to copy the results of a run out, if this one dies: the caller's pipe and the
 * workspace. No file can hold them, PID 1 can (FDSTORE= of sd_notify(3)). */

/* For this run, by name; nothing waits for PID 1. */
int copy_store_put(const char *run, int out_fd, int workspace_fd);
void copy_store_drop(const char *run);

/* What an earlier broker has put there. */
typedef struct CopyStore {
        char **names;
        int *fds;
        size_t n;
} CopyStore;

int copy_store_receive(CopyStore *ret);
/* Both become the caller's; -1 where there is none. */
void copy_store_take(CopyStore *s, const char *run, int *ret_out_fd, int *ret_workspace_fd);
/* Closes what belongs to nobody, here and with PID 1. */
void copy_store_done(CopyStore *s);
