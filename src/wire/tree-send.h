/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdatomic.h>
#include <sys/types.h>

#include "wire/tree.h"

/* Told of what passes, on either side, once the state has accepted it. Each may be NULL. */
typedef struct TreeObserver {
        void *userdata;
        void (*item)(void *userdata, const TreeState *s, const TreeItem *i); /* all but DATA */
        void (*data)(void *userdata, uint64_t offset, const uint8_t *p, size_t n);
} TreeObserver;

/* Files → stream. Reads by descriptors alone: each name is opened in the directory it was read from and
 * never through a symbolic link, so whoever moves things about meanwhile decides what is read beneath the
 * top, and nothing else. A file is sent as long as it was when it was opened; what grows is cut there, what
 * shrinks ends earlier. Never opens a device, a fifo or a socket that it sees as one; what becomes one in
 * that moment is opened without waiting, and not read. */
typedef struct TreeSender {
        /* Set by the owner. */
        int fd;           /* non-blocking: a pipe's write end */
        int cancel_fd;    /* becomes readable when all is to stop: -ECANCELED; -1: none */
        int timeout_msec; /* how long nothing may be taken from the pipe before that is -ETIMEDOUT; -1: for
                             ever */
        bool one_device;  /* what lies on another file system than its top is TREE_LEFT_CHANGED */
        bool is_layer;    /* a character device 0:0 is a whiteout */
        uint64_t max_entries, max_bytes; /* TREE_FAIL_FILES, TREE_FAIL_BYTES; holes count as bytes */
        TreeObserver observer;

        atomic_uint_fast64_t n_entries, n_bytes; /* so far, for whoever shows progress */
        TreeEncoder encoder;
        TreeItem item;
        struct TreeLevel *levels; /* TREE_DEPTH_MAX of them */
        unsigned n_levels;
        dev_t device;
} TreeSender;

#define TREE_SENDER_NONE                           \
        ((TreeSender){ .fd = -1,                   \
                        .cancel_fd = -1,           \
                        .timeout_msec = -1,        \
                        .max_entries = UINT64_MAX, \
                        .max_bytes = UINT64_MAX })

int tree_sender_init(TreeSender *s);
void tree_sender_done(TreeSender *s); /* fds of the owner stay open */

/* All of these: 0. -EPIPE: nobody reads any more. -ECANCELED, -ETIMEDOUT, -ENOMEM, ... the stream is cut.
 * -E2BIG: a TREE_FAIL was sent, of which s->item tells; nothing may follow it. */

/* fd, which is taken over, is open for reading: a directory, which is sent with all that is in it, or a
 * regular file; anything else is TREE_LEFT_…. */
int tree_send_top(TreeSender *s, const char *path, int fd);
/* The same of the upper layer of an overlay, of whose merge beside is open on the same path (taken over; negative: not
 * known): each directory that hides all of the layer below is said to be TREE_WHOLE. */
int tree_send_layer(TreeSender *s, const char *path, int fd, int beside);
/* Bytes until the end of file, of whatever can be read, as a regular file of this mode. fd is borrowed. */
int tree_send_stream(TreeSender *s, const char *path, int fd, uint32_t mode);
int tree_send_left(TreeSender *s, const char *path, TreeLeft reason);
int tree_send_end(TreeSender *s);

/* Opens what stands at path beneath dir_fd: without a symbolic link anywhere in it, a regular file or
 * directory for reading. -ELOOP: one is a link; -ENXIO: a device, fifo or socket (*ret_left then says
 * which). */
int tree_open_beneath(int dir_fd, const char *path, TreeLeft *ret_left);
