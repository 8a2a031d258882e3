/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <sys/types.h>

#include "wire/tree-send.h"

/* Stream → files. Everything is made new (O_EXCL) by one name in a directory that was opened or made here,
 * never through a symbolic link; what stands there already is an error. */

/* Where an entry behind a TOP belongs. fd: a directory, taken over. name: in it; "": the directory itself,
 * into which a DIR goes, while anything else is -EISDIR. */
typedef struct TreePlace {
        int fd;
        char name[TREE_NAME_MAX + 1];
} TreePlace;

typedef struct TreeReceiver {
        /* Set by the owner. */
        void *userdata;
        /* 0; negative: the stream is not received any further. */
        int (*place)(void *userdata, const char *path, TreePlace *ret);
        /* Whether an entry (DIR, FILE, LINK) is wanted, a directory with all that is in it; NULL: all. 1, 0,
         * or negative. */
        int (*wants)(void *userdata, const TreeState *s, const TreeItem *i);
        /* Of a FILE, at its end, whether it stays: i is the EOF, mode that of the file. NULL: all. */
        int (*keeps)(void *userdata, const TreeState *s, const TreeItem *i, uint32_t mode);
        TreeObserver observer;
        bool merge;   /* a directory may be there already (not a link to one) */
        bool beneath; /* by openat2(), which also keeps out of other file systems */
        bool foreign; /* modes and times are somebody else's: no write for others, read for the owner, and
                         nothing that lies before 1970 or in the future */
        uint64_t max_entries, max_bytes; /* -E2BIG; LEFT counts, holes count */

        TreeDecoder decoder;
        TreeItem item; /* the last one; after a FAIL, that */
        struct TreeOpen *levels;
        unsigned n_levels, n_unwanted; /* n_unwanted: depth within a directory that is not wanted */
        int file;                      /* -1: none, or not wanted */
        char file_name[TREE_NAME_MAX + 1];
        uint64_t position; /* where file stands */
        mode_t umask;      /* of the process; heeded where modes are foreign */
        TreePlace at;      /* between a TOP and its entry */
        uint32_t mode;
        int64_t mtime;
        uint32_t nsec;
        int64_t now;
} TreeReceiver;

#define TREE_RECEIVER_NONE \
        ((TreeReceiver){ .file = -1, .at.fd = -1, .max_entries = UINT64_MAX, .max_bytes = UINT64_MAX })

int tree_receiver_init(TreeReceiver *r);
void tree_receiver_done(TreeReceiver *r);

/* Reads from fd once (-EAGAIN: nothing there) and does what has come whole. 1: go on. 0: END came and all is
 * written. Negative: the stream is not received; what was made until now stays. -EBADMSG: no stream, or one
 * that was cut; -EREMOTEIO: a FAIL came, which is r->item; -E2BIG: over a limit. Else: the errno of what
 * could not be written, at r->decoder.state.path. */
int tree_receive(TreeReceiver *r, int fd);

/* Makes the directories of path beneath dir_fd that are missing (0755), up to the last name, which is the
 * place. For TreeReceiver.place. */
int tree_place_beneath(int dir_fd, const char *path, TreePlace *ret);

/* Removes name beneath dir_fd with all that is in it; follows no link. */
int tree_remove(int dir_fd, const char *name);
