/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/error.h"
#include "cli/copy-manifest.h"

/* --view: a directory of the caller's, opened by the caller, with the caller's rights; and what its copy out
 * of the run amounts to, held against the directory as it is when the copy comes. Nothing is ever written to
 * it, and no link in it is followed. */

typedef struct View {
        int fd;         /* -1: there is none */
        Manifest seen;  /* what came, by its path */
        Manifest whole; /* directories of which came all that is to be in them */
} View;

#define VIEW_NONE ((View){ .fd = -1 })

int view_open(View *v, const char *path, Error **reterr);
void view_done(View *v);
/* As manifest_compare(); size: of a FILE. Of the directory, no more than that is read. */
Change view_compare(const View *v, const char *path, TreeType type, uint32_t mode, uint64_t size,
                const uint8_t *digest);
/* Whether the directory has something there; with *ret_directory, if that is a directory. */
bool view_has(const View *v, const char *path, bool *ret_directory);
/* For TreeObserver: all that comes. */
void view_observe(View *v, const TreeState *s, const TreeItem *i);
/* When all has come: what the directory has and the run deleted with the rest of its directory. 0, or what
 * deleted() said. */
int view_deleted(View *v, void *userdata, int (*deleted)(void *userdata, const char *path, bool directory));
