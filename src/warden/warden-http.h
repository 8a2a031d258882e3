/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "warden/decide.h"

/* PURE. Follows the client's side of one HTTP/1.x connection (RFC 9112) byte by byte and says how much of it may be passed
 * on: every head of every request is seen whole and found good before its first byte goes out, bodies are followed by
 * Content-Length or chunked coding. What two readers could read differently is refused. Upgrade, CONNECT and h2c are
 * refused. The answers of the server are not read: pipelining does not matter, for requests are framed by themselves. */

#define HTTP_HEAD_MAX (16u << 10)
#define HTTP_FIELDS_MAX 100u
#define HTTP_LINE_MAX (8u << 10)

typedef struct HttpReader {
        const char *name; /* what Host must be: this, or this with ":port" */
        uint16_t port;
        enum { HTTP_HEAD, HTTP_BODY, HTTP_CHUNK_SIZE, HTTP_CHUNK_DATA, HTTP_CHUNK_END, HTTP_TRAILER, HTTP_FAILED } state;
        uint64_t left;    /* of a body or chunk */
        size_t seen;      /* of a head or line that is not complete: how far it was searched already */
        unsigned n_fields;
        unsigned n_requests;
} HttpReader;
void http_reader_init(HttpReader *h, const char *name, uint16_t port);

typedef struct HttpVerdict {
        size_t pass;         /* of the bytes given, this many may go out (more may be passed although reason is set) */
        EgressReason reason; /* EGRESS_OK, or why the rest may not */
        unsigned status;     /* 400, 408, 414, 431 for http_error_response() */
        char host[256];      /* the authority asked for, escaped; "" where unknown */
} HttpVerdict;
/* p[0..n): what came and has not been passed yet, from the last call's end on. With pass < n and EGRESS_OK the rest waits
 * for more bytes; a head is at most HTTP_HEAD_MAX. */
void http_reader_feed(HttpReader *h, const uint8_t *p, size_t n, HttpVerdict *ret);
/* A whole response with "Connection: close" and a text/plain body that says which rule was missed. Returns its length. */
size_t http_error_response(unsigned status, EgressReason reason, char *buf, size_t size);
