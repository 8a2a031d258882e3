/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"

/* Files that travel into a run and out of it. Frames, one behind the other, over a pipe:
 *
 *   stream  = magic, { TOP, entry }, END | FAIL
 *   entry   = DIR, [ WHOLE ], { entry }, UP  |  FILE, { DATA }, EOF  |  LINK  |  LEFT
 *   frame   = u8 type, u32 length of what follows, fields as listed at TreeType
 *
 * A name is one component of a path, never a path: there is nothing in it that could lead elsewhere, and
 * both sides walk by descriptors of directories. The entry behind a TOP has the empty name, for TOP says
 * where it belongs. What the format has no word for cannot be sent: owners, devices, set-id bits, extended
 * attributes, hard links (each name of such a file travels as a file of its own).
 *
 * Both directions are read by somebody who must not believe the writer, so everything below is checked for
 * each frame as it comes (TreeState), and a stream without END is no stream. */

#define TREE_MAGIC 0x31544241u /* "ABT1" */
#define TREE_NAME_MAX 255u
#define TREE_DEPTH_MAX 128u         /* directories in one another; both sides hold a descriptor of each */
#define TREE_DATA_MAX (256u * 1024) /* bytes of a file in one frame */
#define TREE_FRAME_HEAD 5u
#define TREE_SIZE_MAX INT64_MAX /* of a file */

typedef enum TreeType {
        TREE_TOP = 1, /* blob path: relative, of valid names; "." is the place itself */
        TREE_DIR,     /* blob name, u32 mode, u64 mtime, u32 nsec: what follows is in it, until its UP */
        TREE_UP,
        TREE_FILE, /* as DIR */
        TREE_DATA, /* u64 offset, the bytes (1 … TREE_DATA_MAX). Offsets rise; what is left out is a hole */
        TREE_EOF,  /* u64 size */
        TREE_LINK, /* blob name, blob target: see tree_link_stays() */
        TREE_LEFT, /* blob name, u32 reason: an entry that is not sent */
        TREE_END,  /* u64 entries, bytes, left: what was sent in all. Nothing follows */
        TREE_FAIL, /* u32 reason, u32 errno, blob path: the sender gives up. Nothing follows */
        TREE_WHOLE, /* behind a DIR: what the place of this directory has besides what follows, is to be gone. Where it is
                       not said, the directory's entries are changes to that place */
        _TREE_TYPE_MAX,
} TreeType;

/* Why an entry was not sent. */
typedef enum TreeLeft {
        TREE_LEFT_DEVICE = 1,
        TREE_LEFT_SOCKET,
        TREE_LEFT_FIFO,
        TREE_LEFT_LINK,       /* leads out, or may */
        TREE_LEFT_UNREADABLE, /* the sender may not read it */
        TREE_LEFT_CHANGED,    /* became something else while it was looked at */
        TREE_LEFT_MISSING,    /* behind a TOP only */
        TREE_LEFT_WHITEOUT,   /* what an overlay puts where something of the layer below was deleted */
        TREE_LEFT_UNCHANGED,  /* behind a TOP only: it is as the layer below has it */
        _TREE_LEFT_MAX,
} TreeLeft;
const char *tree_left_text(TreeLeft reason); /* "a device", ...; never NULL */

/* Why a sender gave up. */
typedef enum TreeFail {
        TREE_FAIL_FILES = 1, /* more entries than it may send */
        TREE_FAIL_BYTES,     /* more bytes */
        TREE_FAIL_DEPTH,     /* directories deeper than TREE_DEPTH_MAX */
        TREE_FAIL_ERROR,     /* errno */
        _TREE_FAIL_MAX,
} TreeFail;

typedef struct TreeItem {
        TreeType type;
        char name[PATH_MAX];   /* TOP, FAIL: the path; DIR, FILE, LINK, LEFT: the name */
        char target[PATH_MAX]; /* LINK */
        uint32_t mode;         /* 0 … 0777 */
        int64_t mtime;         /* any: whoever sets it judges it */
        uint32_t nsec;         /* 0 … 999,999,999 */
        const uint8_t *data;   /* DATA: borrowed */
        size_t n_data;
        uint64_t offset;
        uint64_t size;                 /* EOF */
        uint32_t reason, error;        /* LEFT; FAIL */
        uint64_t entries, bytes, left; /* END */
} TreeItem;

/* 1 … 255 bytes, no "/", no NUL, neither "." nor "..". */
bool tree_name_is_valid(const char *name) _pure_;
/* "." or valid names with single slashes between them, shorter than PATH_MAX. */
bool tree_path_is_valid(const char *path) _pure_;
/* Whether a symbolic link that stands in a directory of this depth (1: the top) stays inside the top
 * wherever it is followed: relative, with ".." at its beginning only, and no more of them than lead to the
 * top. (Further behind, ".." would go up from wherever a link before it leads.) Every component in between
 * is then a directory of the tree or another such link. */
bool tree_link_stays(unsigned depth, const char *target) _pure_;

/* What came until now, and with that what may come next. Zero: nothing. */
typedef struct TreeState {
        unsigned depth;      /* open directories */
        bool wants_entry;    /* a TOP was the last */
        bool in_fresh;       /* a DIR was */
        bool in_file, ended; /* ended: END or FAIL came */
        uint64_t position;   /* in the file: where the last DATA ended */
        uint64_t entries, bytes, left;
        /* Where the last item belongs: TOP's path ("" for "."), with all names behind it. Shorter than
         * PATH_MAX, or the item is not accepted. */
        char path[PATH_MAX];
        uint16_t length;                  /* of the path of the directory that is open */
        uint16_t parents[TREE_DEPTH_MAX]; /* the same of those around it */
} TreeState;
/* 0; -EBADMSG: this cannot come now, or breaks a rule above. s is then of no use any more. */
int tree_state_advance(TreeState *s, const TreeItem *i);
/* Whether there is room for a name here: a sender asks first. */
bool tree_state_fits(const TreeState *s, const char *name, bool is_directory) _pure_;

/* Makes frames. What the state does not accept becomes an error: no bad stream is ever written. */
typedef struct TreeEncoder {
        TreeState state;
        uint8_t *data; /* TREE_BUFFER_SIZE bytes, of which size are used; the owner takes them and sets size
                          to 0 */
        size_t size;
} TreeEncoder;
#define TREE_FRAME_MAX (TREE_FRAME_HEAD + 8u + TREE_DATA_MAX)
#define TREE_BUFFER_SIZE (TREE_FRAME_MAX * 2)

int tree_encoder_init(TreeEncoder *e); /* the magic is in it */
void tree_encoder_done(TreeEncoder *e);
/* -ENOBUFS: take what is there first; there is always room for one frame where at most TREE_FRAME_MAX bytes
 * are in it. */
int tree_encode(TreeEncoder *e, const TreeItem *i);
/* The same for DATA without a copy: the place for up to TREE_DATA_MAX bytes, which are then filled. */
uint8_t *tree_encode_data_begin(TreeEncoder *e); /* NULL: -ENOBUFS */
int tree_encode_data_end(TreeEncoder *e, uint64_t offset, size_t n);

/* Takes a stream apart. Memory is fixed: one buffer. */
typedef struct TreeDecoder {
        TreeState state;
        uint8_t *data;
        size_t start, size; /* unread bytes are data[start … size) */
        bool has_magic;
} TreeDecoder;

int tree_decoder_init(TreeDecoder *d);
void tree_decoder_done(TreeDecoder *d);
/* Where bytes that arrived are put, and how many fit (never 0 when tree_decode() asked for more).
 * Invalidates the data of the last item. */
uint8_t *tree_decoder_space(TreeDecoder *d, size_t *ret_size);
void tree_decoder_filled(TreeDecoder *d, size_t n);
/* 1: ret is the next item. 0: more bytes are needed. -EBADMSG. After END or FAIL: 0, and any byte more is
 * -EBADMSG. */
int tree_decode(TreeDecoder *d, TreeItem *ret);
/* No more bytes come. 0: the stream was whole; -EBADMSG. */
int tree_decoder_finish(const TreeDecoder *d);
