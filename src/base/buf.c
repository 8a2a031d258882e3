/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/buf.h"

void buf_done(Buf *b)
{
        free(b->data);
        *b = (Buf){};
}

/* Room for n bytes more and the NUL. */
static int buf_reserve(Buf *b, size_t n)
{
        if (b->error < 0)
                return b->error;
        if (n > SIZE_MAX / 4 || b->size > SIZE_MAX / 4)
                return b->error = -E2BIG;
        if (b->allocated < b->size + n + 1) {
                size_t want = MAX2((size_t) 256, (b->size + n + 1) * 2);
                uint8_t *d = realloc(b->data, want);

                if (!d)
                        return b->error = -ENOMEM;
                b->data = d;
                b->allocated = want;
        }
        return 0;
}

int buf_append(Buf *b, const void *p, size_t n)
{
        int r = buf_reserve(b, n);

        if (r < 0)
                return r;
        if (n > 0)
                memcpy(b->data + b->size, p, n);
        b->size += n;
        b->data[b->size] = 0;
        return 0;
}

#define LINE 80 /* most are no longer: they are formatted once, where they belong */

int buf_printf(Buf *b, const char *format, ...)
{
        size_t room;
        va_list ap;
        int n, r = buf_reserve(b, LINE);

        if (r < 0)
                return r;
        room = b->allocated - b->size;
        va_start(ap, format);
        n = vsnprintf((char *) b->data + b->size, room, format, ap);
        va_end(ap);
        if (n >= 0 && (size_t) n >= room) {
                b->data[b->size] = 0;
                r = buf_reserve(b, (size_t) n);
                if (r < 0)
                        return r;
                va_start(ap, format);
                n = vsnprintf((char *) b->data + b->size, (size_t) n + 1, format, ap);
                va_end(ap);
        }
        if (n < 0) {
                b->data[b->size] = 0;
                return b->error = -ENOMEM;
        }
        b->size += (size_t) n;
        return 0;
}

int buf_u8(Buf *b, uint8_t v)
{
        return buf_append(b, &v, 1);
}

static int buf_le(Buf *b, uint64_t v, size_t n)
{
        uint8_t bytes[8];

        for (size_t i = 0; i < n; i++)
                bytes[i] = (uint8_t) (v >> (8 * i));
        return buf_append(b, bytes, n);
}

int buf_u32(Buf *b, uint32_t v)
{
        return buf_le(b, v, 4);
}

int buf_u64(Buf *b, uint64_t v)
{
        return buf_le(b, v, 8);
}

int buf_blob(Buf *b, const void *p, size_t n)
{
        if (n > UINT32_MAX)
                return b->error = b->error < 0 ? b->error : -E2BIG;
        buf_u32(b, (uint32_t) n);
        return buf_append(b, p, n);
}

char *buf_take_string(Buf *b)
{
        char *s;

        buf_append(b, "", 0);
        if (b->error < 0) {
                buf_done(b);
                return NULL;
        }
        s = (char *) b->data;
        *b = (Buf){};
        return s;
}

static const uint8_t *reader_take(Reader *r, size_t n)
{
        const uint8_t *p;

        if (r->error < 0)
                return NULL;
        if (n > r->size - r->pos) {
                r->error = -EBADMSG;
                return NULL;
        }
        p = r->data + r->pos;
        r->pos += n;
        return p;
}

static uint64_t reader_le(Reader *r, size_t n)
{
        const uint8_t *p = reader_take(r, n);
        uint64_t v = 0;

        for (size_t i = 0; p && i < n; i++)
                v |= (uint64_t) p[i] << (8 * i);
        return v;
}

uint8_t read_u8(Reader *r)
{
        return (uint8_t) reader_le(r, 1);
}

uint32_t read_u32(Reader *r)
{
        return (uint32_t) reader_le(r, 4);
}

uint64_t read_u64(Reader *r)
{
        return reader_le(r, 8);
}

const uint8_t *read_blob(Reader *r, size_t max, size_t *ret_size)
{
        size_t n = read_u32(r);
        const uint8_t *p;

        if (r->error == 0 && n > max)
                r->error = -EBADMSG;
        p = reader_take(r, n);
        if (p)
                *ret_size = n;
        return p;
}

char *read_string(Reader *r, size_t max)
{
        size_t n = 0;
        const uint8_t *p = read_blob(r, max, &n);
        char *s;

        if (!p)
                return NULL;
        if (memchr(p, 0, n)) {
                r->error = -EBADMSG;
                return NULL;
        }
        s = malloc(n + 1);
        if (!s) {
                r->error = -ENOMEM;
                return NULL;
        }
        memcpy(s, p, n);
        s[n] = 0;
        return s;
}

int read_end(const Reader *r)
{
        if (r->error < 0)
                return r->error;
        return r->pos == r->size ? 0 : -EBADMSG;
}
