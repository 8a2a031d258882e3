/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdint.h>

#include "base/macro.h"

/* A byte buffer that grows. Errors are sticky: after one failed append every further one fails, so a writer of a message
 * checks once, at the end. The data is always followed by a NUL byte that does not count. */
typedef struct Buf {
        uint8_t *data;
        size_t size, allocated;
        int error; /* 0, or the negative errno of the first failed append */
} Buf;

void buf_done(Buf *b);
#define _cleanup_buf_ _cleanup_(buf_done)

int buf_append(Buf *b, const void *p, size_t n);
/* What is formatted may not stand in b itself. */
int buf_printf(Buf *b, const char *format, ...) _printf_(2, 3);
int buf_u8(Buf *b, uint8_t v);
int buf_u32(Buf *b, uint32_t v); /* little endian */
int buf_u64(Buf *b, uint64_t v); /* little endian */
/* u32 length, then the bytes. */
int buf_blob(Buf *b, const void *p, size_t n);
/* The text collected so far, given to the caller; NULL where an append failed. b is empty afterwards. */
char *buf_take_string(Buf *b);

/* Reads what the functions above wrote. Every read past the end sets error (-EBADMSG) and returns zero or NULL, so that a
 * decoder checks once, at the end; nothing is ever read outside data[0..size). */
typedef struct Reader {
        const uint8_t *data;
        size_t size, pos;
        int error;
} Reader;

uint8_t read_u8(Reader *r);
uint32_t read_u32(Reader *r);
uint64_t read_u64(Reader *r);
/* A blob of at most max bytes; the pointer is into the message. An empty blob gives a non-NULL pointer. */
const uint8_t *read_blob(Reader *r, size_t max, size_t *ret_size);
/* A blob without NUL bytes in it, as a newly allocated string; NULL and error on failure (-ENOMEM, -EBADMSG). */
char *read_string(Reader *r, size_t max);
/* 0 where everything was read without error and nothing is left over, else negative errno. */
int read_end(const Reader *r);
