/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/strv.h"

/* Broker ↔ agentbox-disk, over one connection (SOCK_SEQPACKET) for each workspace on disk: what is to be made; when the run has
 * its mounts, where it goes; one answer, which may come as soon as it is an error. A trial is made, given up and answered. */

#define DISK_SOCKET "/run/agentbox-disk.socket"
#define DISK_RUN_MAX 20u
#define DISK_LIVING_MAX 1024u /* more than there can be runs */
#define DISK_TEXT_MAX 1024u
#define DISK_MESSAGE_MAX (DISK_LIVING_MAX * (DISK_RUN_MAX + 4u) + DISK_TEXT_MAX + 64u)

/* u32 magic, blob run, u64 size, u64 inodes, u8 exec, strv living */
#define DISK_REQUEST_MAGIC 0x31444241u /* "ABD1" */
typedef struct DiskRequest {
        char *run; /* small letters and digits; "": a trial */
        uint64_t size, inodes; /* neither is 0 */
        bool exec;
        char **living; /* with a trial: the runs whose workspaces are none that were left over */
} DiskRequest;

/* u32 magic, blob workspace; with the run's mount namespace as its descriptor. */
#define DISK_PLACE_MAGIC 0x31454241u /* "ABE1" */
typedef struct DiskPlace {
        char *workspace; /* the directory in the run's root: normal, not "/" */
} DiskPlace;

/* u32 magic, u32 error, blob text, strv left */
#define DISK_REPLY_MAGIC 0x31464241u /* "ABF1" */
typedef struct DiskReply {
        int error;   /* positive errno; 0: it is there, and its root comes with this (of a trial: nothing) */
        char *text;  /* what is wrong, for a person; "" with error 0 */
        char **left; /* of a trial: the runs whose workspaces are there, but those that live */
} DiskReply;

void disk_request_done(DiskRequest *q);
void disk_place_done(DiskPlace *p);
void disk_reply_done(DiskReply *r);

/* -EINVAL: breaks a rule above. */
int disk_request_encode(const DiskRequest *q, Buf *out);
int disk_place_encode(const DiskPlace *p, Buf *out);
int disk_reply_encode(const DiskReply *r, Buf *out);
/* -EBADMSG */
int disk_request_decode(const void *p, size_t n, DiskRequest *ret);
int disk_place_decode(const void *p, size_t n, DiskPlace *ret);
int disk_reply_decode(const void *p, size_t n, DiskReply *ret);
