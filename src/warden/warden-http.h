/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stddef.h>

#include "warden/decide.h"

/* PURE. Follows the client's side of one HTTP/1.x connection (RFC 9110, 9112) and says how much of it may be passed on:
 * every head of every request is seen whole and found good before its first byte goes out, bodies are followed by
 * Content-Length or chunked coding. What two readers could read differently is refused. The answers of the server are not
 * read: pipelining does not matter, for requests are framed by themselves.
 *
 * host-mismatch (400): the one Host field, or the authority of an absolute-form target, is not the name (or the name with
 * ":" and the port). bad-request (400): everything else that is refused. too-large: 414 for the request line, 431 for the
 * head or a trailer section. In particular:
 * - Lines end in CRLF. No other control bytes but HTAB in values, no folded line, no blank before a colon, no empty line
 *   before a request (RFC 9112, 2.2 would allow one; no client of today sends it).
 * - "METHOD SP target SP HTTP/1.0 or 1.1" with single blanks. Targets are printable ASCII: origin-form, "*" for OPTIONS,
 *   absolute-form with the scheme http. CONNECT, Upgrade, HTTP2-Settings and the preface of HTTP/2 are refused.
 * - Host exactly once, with HTTP/1.0 too.
 * - Content-Length once, plain decimal digits without leading zeros. Transfer-Encoding once, "chunked" in lower case, with
 *   HTTP/1.1 and without Content-Length. For these two at most one blank stands behind the colon and none behind the value.
 * - Chunk sizes of at most 8 hexadecimal digits, below 2^31; no chunk extensions. Fields that frame or route a request are
 *   refused in trailers, and everywhere in a spelling with "_" for "-".
 * - Expect only as "100-continue" and where a body follows. Connection may not name a field that frames or routes.
 *
 * The verdicts depend on the bytes alone, not on how they are cut. Residual: a server that does not frame requests as
 * RFC 9112 says (that ignores the body of a GET, say) may see another request in a body. */

#define HTTP_HEAD_MAX (16u << 10) /* of a head or trailer section, the empty line included */
#define HTTP_FIELDS_MAX 100u      /* in each of these */
#define HTTP_LINE_MAX (8u << 10)  /* of a request line, without CRLF */

typedef struct HttpReader {
        const char *name; /* what Host must be (a rule's name, lower case): this, or this with ":port"; the caller's */
        uint16_t port;
        enum {
                HTTP_HEAD, /* between requests, or in a head */
                HTTP_BODY,
                HTTP_CHUNK_SIZE,
                HTTP_CHUNK_DATA,
                HTTP_CHUNK_END,
                HTTP_TRAILER,
                HTTP_FAILED,
        } state;
        uint64_t left;    /* of a body or chunk */
        size_t seen;      /* of a head or trailer section that is not complete: how far it was searched already */
        unsigned n_lines; /* of these bytes: complete lines */
        uint64_t n_requests; /* heads that were passed */
} HttpReader;
void http_reader_init(HttpReader *h, const char *name, uint16_t port);

typedef struct HttpVerdict {
        size_t pass;         /* of the bytes given, this many may go out (more may be passed although reason is set) */
        EgressReason reason; /* EGRESS_OK, or why the rest may not; final */
        unsigned status;     /* 400, 414, 431 for http_error_response(); 0 with EGRESS_OK */
        char host[256];      /* with a reason: the authority that was asked for, escaped; "" where unknown */
} HttpVerdict;
/* p[0..n): what came and has not been passed yet, from the last call's end on: the bytes that the last call did not pass
 * come again, with more behind them. With pass < n and EGRESS_OK the rest waits for more bytes; it is less than
 * HTTP_HEAD_MAX, so a buffer of that size is enough. Each byte is looked at twice at most, however they are cut. */
void http_reader_feed(HttpReader *h, const uint8_t *p, size_t n, HttpVerdict *ret);

/* A whole response with "Connection: close" and a text/plain body that says what was refused. status: 400, 408, 414, 431.
 * Returns its length; 0: size is too small (HTTP_ERROR_RESPONSE_MAX is enough). Holds no byte of the request. */
#define HTTP_ERROR_RESPONSE_MAX 512u
size_t http_error_response(unsigned status, EgressReason reason, char *buf, size_t size);
