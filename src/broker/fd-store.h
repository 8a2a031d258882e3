/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stddef.h>

/* What the next broker needs of a run if this one dies, and what no file can hold: PID 1 can (FDSTORE= of
 * sd_notify(3)). */

typedef enum FdStoreKind {
        FD_STORE_COPY,   /* to copy its results out: the caller's pipe, the workspace, and its view if it has one */
        FD_STORE_OUTPUT, /* one: the channel to whoever keeps the output of a detached run */
        FD_STORE_MAIN,   /* one: its main process, which says how it ended when nobody else knows any more (exit-status.h) */
        FD_STORE_LISTENER, /* OnDenied=kill: the listener of its filter, so that who made the call it ends for does not go on (run-warden.h) */
        FD_STORE_INIT, /* one: the channel to the init of its PID namespace, which says at last how its command ended */
        FD_STORE_TRIPWIRES, /* one, of all runs together: who opens their decoys (run-tripwire.h) */
        _FD_STORE_KIND_MAX,
} FdStoreKind;

/* For this run, by name; nothing waits for PID 1. */
int fd_store_put(FdStoreKind kind, const char *run, const int *fds, size_t n);
void fd_store_drop(FdStoreKind kind, const char *run);

/* What an earlier broker has put there. */
typedef struct FdStore {
        char **names;
        int *fds;
        size_t n;
} FdStore;

int fd_store_receive(FdStore *ret);
/* One that the run has there, which becomes the caller's; -1: there is none (any more). Those of one kind have one name. */
int fd_store_take(FdStore *s, FdStoreKind kind, const char *run);
/* Closes what belongs to nobody, here and with PID 1. */
void fd_store_done(FdStore *s);
