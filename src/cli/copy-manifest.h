/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <nettle/umac.h>

#include "base/error.h"
#include "wire/tree-send.h"

/* What went into a workspace, so that what comes out of it can be compared: path by path, by what the files
 * hold and not by their times. */

/* Of a file's bytes, as they pass: UMAC-128 of its pages that are not all zero, each with its number, and of
 * its size. So a hole and zeros are the same, and a terabyte of nothing costs nothing. The key is this process's own, random, and
 * told to nobody: who writes the files cannot know which two would look alike, and for any two the chance is 2^-120 or so. Digests
 * under another key say nothing. */
#define COPY_DIGEST_SIZE UMAC128_DIGEST_SIZE
typedef struct CopyKey {
        struct umac128_ctx context;
} CopyKey;
int copy_key_make(CopyKey *k); /* 0, or negative errno */

#define DIGEST_PAGE 4096u
typedef struct CopyDigest {
        struct umac128_ctx context;
        uint64_t page;
        bool used; /* page holds something */
        uint8_t bytes[DIGEST_PAGE];
} CopyDigest;
void copy_digest_begin(CopyDigest *d, const CopyKey *k);
void copy_digest_data(CopyDigest *d, uint64_t offset, const uint8_t *p, size_t n);
void copy_digest_end(CopyDigest *d, uint64_t size, uint8_t ret[COPY_DIGEST_SIZE]);

typedef struct ManifestEntry {
        char *path;    /* beneath the workspace; "" is that itself */
        TreeType type; /* DIR, FILE, LINK */
        bool executable, seen;
        uint8_t digest[COPY_DIGEST_SIZE]; /* of a FILE's bytes, of a LINK's target */
} ManifestEntry;

typedef struct Manifest {
        CopyKey key; /* of all digests in it */
        ManifestEntry *entries;
        size_t n, allocated;
        bool sorted;
        int error; /* the first that an observer met */
        /* The file that passes. */
        CopyDigest digest;
        uint32_t mode;
} Manifest;

int manifest_init(Manifest *m); /* 0, or negative errno */
void manifest_done(Manifest *m);
/* Notes all that a sender sends: userdata is the manifest. Not: what was left out. */
void manifest_observe_item(void *userdata, const TreeState *s, const TreeItem *i);
void manifest_observe_data(void *userdata, uint64_t offset, const uint8_t *p, size_t n);
ManifestEntry *manifest_add(Manifest *m, const char *path, TreeType type); /* NULL: m->error */
/* Before anything is looked for. */
void manifest_sort(Manifest *m);

typedef enum Change { CHANGE_NONE, CHANGE_ADDED, CHANGED } Change;
/* How something that came out is to what went in; marks that as seen. digest: of FILE and LINK. */
Change manifest_compare(Manifest *m, const char *path, TreeType type, uint32_t mode, const uint8_t *digest);
/* Whether there is an entry of this path. */
bool manifest_has(Manifest *m, const char *path);
/* It came, though nothing is said of how it is. */
void manifest_mark(Manifest *m, const char *path);
void copy_digest_text(const CopyKey *k, const char *text, uint8_t ret[COPY_DIGEST_SIZE]);
/* The next entry at or beneath top that was not seen, from *at on, which begins at 0; NULL: no more. */
const ManifestEntry *manifest_missing(const Manifest *m, const char *top, size_t *at);
