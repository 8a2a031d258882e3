/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/error.h"
#include "base/strv.h"
#include "cli/copy-gate.h"
#include "cli/copy-manifest.h"
#include "cli/copy-temporary.h"
#include "cli/copy-view.h"
#include "wire/tree-receive.h"

/* --out: what a dead run has left, written where the caller wants it, by the caller, who believes nothing of
 * it. Each result is written into a fresh directory beside its place (copy-temporary.h) and takes its
 * place by one rename when all of all results is there: whole or not at all, and nothing that stands there
 * is overwritten. */

typedef struct CopyOutItem {
        char *source;        /* in the workspace */
        char *parent, *name; /* as given: where to, and the name there */
        int parent_fd, temporary_fd;
        char temporary[COPY_TEMPORARY_NAME_SIZE]; /* beneath parent_fd; "": none */
        bool came, left;    /* something is in temporary; it was left out, and why was said */
} CopyOutItem;

/* Of a list that may be long: the first so many. */
#define NOTES_MAX 1000u
typedef struct Notes {
        char **lines;      /* escaped */
        size_t n, n_lines; /* all, and those in lines */
} Notes;

typedef struct CopyOut {
        CopyOutItem *items;
        size_t n_items;
        bool force, deny_exec;
        bool summary;       /* every change is to be told, not only those that the gate is about */
        Manifest *manifest; /* borrowed; NULL: nothing went in */
        View *view;         /* borrowed; NULL: there was none, else all that comes is held against it */
        int read_fd;
        int write_fd; /* for the broker; closed by copy_out_sent() */
        TreeReceiver receiver;
        size_t n_tops;     /* that came */
        CopyOutItem *item; /* the one that comes */
        /* The file that comes. */
        CopyDigest digest;
        uint8_t sum[COPY_DIGEST_SIZE];
        GateClass class;
        /* What came of it. */
        uint64_t n_files, n_bytes; /* written: files and links */
        uint64_t n_denied, n_denied_bytes;
        Notes left, gate[_GATE_CLASS_MAX], added, changed, deleted;
        Notes kept; /* what stood there before, under its new name */
        uint64_t n_same;
} CopyOut;

#define COPY_OUT_NONE ((CopyOut){ .read_fd = -1, .write_fd = -1, .receiver = TREE_RECEIVER_NONE })

/* Finds the places, and the pipe: what cannot work is said before anything runs. */
int copy_out_open(CopyOut *c, char *const *options, const char *workspace, bool force, Error **reterr);
void copy_out_sent(CopyOut *c);
/* The limits of the policy, from the broker: whoever reads the workspace keeps to them, too, if it is whom
 * we think. */
int copy_out_begin(CopyOut *c, Manifest *manifest, View *view, uint64_t max_bytes, uint64_t max_files, Error **reterr);
/* Takes what read_fd has. 1: more may come. 0: all is there, for copy_out_publish(). Negative: it is over,
 * in words. */
int copy_out_receive(CopyOut *c, Error **reterr);
/* 0: every result took its place. Negative: in words; those that did not are gone. run: for the name of what
 * is kept where it is replaced. */
int copy_out_publish(CopyOut *c, const char *run, Error **reterr);
void copy_out_done(CopyOut *c);

/* copy-place.c: how a result takes its place. Both names are beneath their descriptors. */
/* -EEXIST: something is there, and stays as it was. */
int place_new(int from_fd, const char *from, int to_fd, const char *to);
/* What is there is replaced: a file by a file for good; else it is kept, as kept (NULL where it was not
 * needed). */
int place_instead(
                int from_fd, const char *from, int to_fd, const char *to, const char *run, char **ret_kept);
