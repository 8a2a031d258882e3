/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <pthread.h>

#include "base/error.h"
#include "base/strv.h"
#include "cli/copy-manifest.h"
#include "wire/tree-send.h"

/* --in: files of the caller, read with the caller's rights by a thread of this process, into a pipe whose
 * other end the run's shim has. */

typedef struct CopyInItem {
        char *source, *dest;
        int fd; /* borrowed where it is standard input */
        bool is_stdin;
} CopyInItem;

typedef struct CopyIn {
        CopyInItem *items;
        size_t n_items;
        bool takes_stdin;
        int read_fd; /* for the broker; closed by copy_in_sent() */
        int write_fd, cancel_fd;
        Manifest *manifest; /* borrowed; NULL: nobody will compare */
        TreeSender sender;
        pthread_t thread;
        bool started;
        atomic_bool finished; /* the thread has nothing more to do */
        char **left;          /* what was left out: "PATH: WHY", escaped; the first LEFT_SHOWN_MAX */
        uint64_t n_left;
        int result;
} CopyIn;

#define COPY_IN_NONE ((CopyIn){ .read_fd = -1, .write_fd = -1, .cancel_fd = -1, .sender = TREE_SENDER_NONE })
#define LEFT_SHOWN_MAX 20u

/* Opens all that the options name, and the pipe. Errors name the option's value. Nothing is copied yet. */
int copy_in_open(CopyIn *c, char *const *options, const char *workspace, Error **reterr);
int copy_in_start(CopyIn *c, Manifest *manifest, Error **reterr);
/* The broker has its end. */
void copy_in_sent(CopyIn *c);
/* The run has begun, or will not: waits for the thread, which has nothing more to do. 0, or what kept it
 * from sending all, in words; -EPIPE and -ECANCELED, without words: nobody wanted the rest. */
int copy_in_finish(CopyIn *c, Error **reterr);
/* The thread ends soon, wherever it is; what it has met by itself stays. */
void copy_in_cancel(CopyIn *c);
void copy_in_done(CopyIn *c);
