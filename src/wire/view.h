/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

/* Broker ↔ agentbox-view, over one connection (SOCK_SEQPACKET) for each view: one request, one answer, both
 * with their descriptors in the same message. */

#define VIEW_SOCKET "/run/agentbox-view.socket"
#define VIEW_WORKSPACE_MAX 255u
#define VIEW_MESSAGE_MAX (VIEW_WORKSPACE_MAX + 64u)

/* Beneath the workspace of a run with a view, all of it covered by the view that is put together from it. */
#define VIEW_CHANGES "changes" /* the run's own: what it has written */
#define VIEW_WORK "work"       /* the overlay's */
#define VIEW_TREE "tree" /* where the host's tree is mounted while the view is made, and then no more */

/* u32 magic, uid, gid, caller, blob workspace */
#define VIEW_REQUEST_MAGIC 0x31564241u /* "ABV1" */
typedef struct ViewRequest {
        uid_t uid; /* the run's, never root's; so with gid */
        gid_t gid;
        uid_t caller;                           /* whose files become the run's own in the view */
        char workspace[VIEW_WORKSPACE_MAX + 1]; /* the directory in the run's root, where a file system of its
                                                   own is mounted: normal, not "/" */
} ViewRequest;
enum {
        VIEW_REQUEST_TREE,   /* the directory that is to be seen, open for reading */
        VIEW_REQUEST_MOUNTS, /* the run's mount namespace */
        _VIEW_REQUEST_FDS,
};

/* What was done last. */
typedef enum ViewStage {
        VIEW_DONE,      /* it is there */
        VIEW_REQUESTED, /* the request was no right one */
        VIEW_CLONE,   /* taking the tree: -EINVAL where it lies in another mount namespace than the host's */
        VIEW_OWNER,   /* showing the caller's files as the run's: -EINVAL where the file system cannot */
        VIEW_ENTER,   /* entering the run's mounts */
        VIEW_LAYERS,  /* making the directories */
        VIEW_BENEATH, /* something else is mounted beneath the directory (error is EXDEV), or cannot be
                         looked for */
        VIEW_OVERLAY, /* the overlay */
        _VIEW_STAGE_MAX,
} ViewStage;

/* u32 magic, stage, error */
#define VIEW_REPLY_MAGIC 0x31574241u /* "ABW1" */
typedef struct ViewReply {
        ViewStage stage;
        int error; /* positive errno; 0 with VIEW_DONE */
} ViewReply;
/* With VIEW_DONE alone. Both are open for reading and stay of use when the run is dead. */
enum {
        VIEW_REPLY_CHANGES, /* the directory VIEW_CHANGES */
        VIEW_REPLY_MERGED,  /* the top of the view: the host's tree with the changes */
        _VIEW_REPLY_FDS,
};

/* -EINVAL: breaks a rule above. */
int view_request_encode(const ViewRequest *q, Buf *out);
int view_request_decode(const void *p, size_t n, ViewRequest *ret); /* -EBADMSG */
int view_reply_encode(const ViewReply *r, Buf *out);
int view_reply_decode(const void *p, size_t n, ViewReply *ret); /* -EBADMSG */
