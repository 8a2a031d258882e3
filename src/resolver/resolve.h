/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>

#include "wire/egress.h"

/* What the warden and its resolver say to each other, one message a datagram (SOCK_SEQPACKET). The warden asks for names
 * that it has checked; the resolver checks them again. Either side drops a message that is not well-formed. */

#define RESOLVE_ADDRESSES_MAX 16u
#define RESOLVE_NAME_MAX 253u
#define RESOLVE_MESSAGE_MAX 1024u

/* Lower case letters, digits, hyphens and underscores in labels of 1 to 63 bytes, without a final dot, the last one not a
 * number: nothing that a resolver would take for an address or complete by a search list. */
bool resolve_name_valid(const char *name) _pure_;

#define RESOLVE_REQUEST_MAGIC 0x31514241u /* "ABQ1" */
typedef struct ResolveRequest {
        uint32_t id;
        uint64_t deadline; /* CLOCK_MONOTONIC, microseconds: nobody waits any longer then */
        char name[RESOLVE_NAME_MAX + 1]; /* "": no question; the answer says that the resolver is there */
} ResolveRequest;
int resolve_request_encode(const ResolveRequest *q, Buf *out);             /* -EINVAL: the name */
int resolve_request_decode(const void *p, size_t n, ResolveRequest *ret); /* -EBADMSG */

#define RESOLVE_ANSWER_MAGIC 0x31524241u /* "ABR1" */
typedef struct ResolveAnswer {
        uint32_t id; /* of the request */
        uint32_t n;  /* 0: it could not be resolved */
        EgressAddress addresses[RESOLVE_ADDRESSES_MAX]; /* in the order of preference */
} ResolveAnswer;
int resolve_answer_encode(const ResolveAnswer *a, Buf *out);
int resolve_answer_decode(const void *p, size_t n, ResolveAnswer *ret); /* -EBADMSG */
