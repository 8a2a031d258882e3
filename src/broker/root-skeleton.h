/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <sys/stat.h>

#include "broker/broker-root.h"

/* A run's root while it is made; for broker-root.c and its parts alone. Paths are relative: to the root that
 * is made, and to the tree that it is made from. All set *reterr of the skeleton where they fail. */

typedef struct Skeleton {
        int fd;           /* the root */
        int source_fd;    /* what Root= names, as O_PATH; host-usr: the host's / */
        const char *from; /* its path, "" for the host's */
        RunRoot out;
        Error **reterr;
} Skeleton;

void skeleton_done(Skeleton *s);
/* Makes the directory name in dir_fd, for a root that is made from source: "host-usr" or the path of a tree. */
int skeleton_open(Skeleton *s, int dir_fd, const char *name, const char *source);
/* What is shown where, as the unit is told; dir_path: of dir_fd. */
int skeleton_finish(Skeleton *s, const char *dir_path, const char *name);
int skeleton_directory(Skeleton *s, const char *path, mode_t mode); /* there may be one already */
int skeleton_parents(Skeleton *s, const char *path);
int skeleton_link(Skeleton *s, const char *target, const char *path);
int skeleton_file(Skeleton *s, const char *path, const void *p, size_t n);
/* A link of the source as the same link. 0: it is none. */
int skeleton_copy_link(Skeleton *s, const char *path);
/* What fd (O_PATH) is open on is to be seen at path; in place of what was to be seen there before. */
int skeleton_bind(Skeleton *s, int fd, const char *path);
/* A directory of the source at the same path, with its place to mount it on. 0: there is none that everybody
 * may enter. */
int skeleton_bind_directory(Skeleton *s, const char *path);

/* broker-root.c: /bin, /lib, ... */
int skeleton_programs(Skeleton *s, const Policy *p);
/* root-etc.c */
int skeleton_etc(Skeleton *s, const Policy *p);
/* root-expose.c: what Expose= names, last of all */
int skeleton_expose(Skeleton *s, const Policy *p);
/* root-credentials.c: makes nothing in the root, only judges what PID 1 is to hand in */
int skeleton_credentials(Skeleton *s, const Policy *p);
