/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "resolver/resolve.h"
#include "wire/codec.h"

#define LABEL_MAX 63u

static bool name_byte(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

bool resolve_name_valid(const char *name)
{
        size_t n = strlen(name), label = 0;
        bool number = true;

        if (n == 0 || n > RESOLVE_NAME_MAX)
                return false;
        for (const char *c = name; *c; c++) {
                if (*c == '.') {
                        if (label == 0)
                                return false;
                        label = 0;
                        number = true;
                        continue;
                }
                if (!name_byte(*c) || ++label > LABEL_MAX)
                        return false;
                /* 0x7f000001 is an address as well; no top level domain begins with a digit. */
                if (label == 1)
                        number = *c >= '0' && *c <= '9';
        }
        return label > 0 && !number;
}

int resolve_request_encode(const ResolveRequest *q, Buf *out)
{
        if (q->name[0] && !resolve_name_valid(q->name))
                return -EINVAL;
        buf_u32(out, RESOLVE_REQUEST_MAGIC);
        buf_u32(out, q->id);
        buf_u64(out, q->deadline);
        return buf_blob(out, q->name, strlen(q->name));
}

int resolve_request_decode(const void *p, size_t n, ResolveRequest *ret)
{
        Reader r = { .data = p, .size = n };
        ResolveRequest q = {};
        const uint8_t *name;
        size_t n_name = 0;

        if (read_u32(&r) != RESOLVE_REQUEST_MAGIC)
                return -EBADMSG;
        q.id = read_u32(&r);
        q.deadline = read_u64(&r);
        name = read_blob(&r, RESOLVE_NAME_MAX, &n_name);
        if (read_end(&r) < 0 || memchr(name, 0, n_name))
                return -EBADMSG;
        memcpy(q.name, name, n_name);
        if (n_name > 0 && !resolve_name_valid(q.name))
                return -EBADMSG;
        *ret = q;
        return 0;
}

static size_t address_size(uint8_t family)
{
        return family == AF_INET ? 4 : family == AF_INET6 ? 16 : 0;
}

int resolve_answer_encode(const ResolveAnswer *a, Buf *out)
{
        if (a->n > RESOLVE_ADDRESSES_MAX)
                return -EINVAL;
        buf_u32(out, RESOLVE_ANSWER_MAGIC);
        buf_u32(out, a->id);
        buf_u32(out, a->n);
        for (uint32_t i = 0; i < a->n; i++) {
                size_t size = address_size(a->addresses[i].family);

                if (size == 0)
                        return -EINVAL;
                buf_blob(out, a->addresses[i].bytes, size);
        }
        return out->error;
}

int resolve_answer_decode(const void *p, size_t n, ResolveAnswer *ret)
{
        Reader r = { .data = p, .size = n };
        ResolveAnswer a = {};

        if (read_u32(&r) != RESOLVE_ANSWER_MAGIC)
                return -EBADMSG;
        a.id = read_u32(&r);
        a.n = read_count(&r, RESOLVE_ADDRESSES_MAX, sizeof(uint32_t));
        for (uint32_t i = 0; i < a.n; i++) {
                size_t size = 0;
                const uint8_t *bytes = read_blob(&r, sizeof(a.addresses[i].bytes), &size);

                if (!bytes || (size != address_size(AF_INET) && size != address_size(AF_INET6)))
                        return -EBADMSG;
                /* The length tells the family. */
                a.addresses[i].family = size == address_size(AF_INET) ? AF_INET : AF_INET6;
                memcpy(a.addresses[i].bytes, bytes, size);
        }
        if (read_end(&r) < 0)
                return -EBADMSG;
        *ret = a;
        return 0;
}
