/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/buf.h"
#include "warden/test-corpus.h"
#include "warden/warden-http.h"

/* Plays the caller of the reader, as the warden is one: what was not passed is given again. */

#define NAME "example.net"
#define HOST "Host: example.net\r\n"
#define GET "GET / HTTP/1.1\r\n" HOST
#define POST "POST /p HTTP/1.1\r\n" HOST
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"

typedef struct Outcome {
        EgressReason reason;
        unsigned status;
        size_t passed;
        char host[256];
} Outcome;

/* The n bytes at p: the first so many, then pieces of so many each, until one is refused. */
Outcome run(const void *p, size_t n, size_t first, size_t each, uint16_t port);
void same_outcome(const Outcome *a, const Outcome *b);
/* In one piece, in single bytes, and in two pieces wherever they are cut (long ones in steps): the same each time. */
Outcome every_cut(const void *p, size_t n, uint16_t port);
void expect_bytes(const char *what, const void *p, size_t n, EgressReason reason, unsigned status, size_t passed);

void append(Buf *b, const char *s);
void append_many(Buf *b, char c, size_t n);
