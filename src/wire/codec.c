/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>

#include "wire/codec.h"

int buf_strv(Buf *b, char *const *l)
{
        size_t n = strv_length(l);

        if (n > UINT32_MAX)
                return b->error = b->error < 0 ? b->error : -E2BIG;
        buf_u32(b, (uint32_t) n);
        STRV_FOREACH(i, l)
        buf_blob(b, *i, strlen(*i));
        return b->error;
}

bool read_bool(Reader *r)
{
        uint8_t v = read_u8(r);

        if (v > 1)
                r->error = -EBADMSG;
        return v == 1;
}

uint32_t read_count(Reader *r, size_t max, size_t element_size)
{
        uint32_t n = read_u32(r);

        if (r->error == 0 && (n > max || n > (r->size - r->pos) / element_size))
                r->error = -EBADMSG;
        return r->error == 0 ? n : 0;
}

char **read_strv(Reader *r, size_t max_count, size_t max_size)
{
        uint32_t n = read_count(r, max_count, sizeof(uint32_t));
        _cleanup_strv_ char **l = NULL;

        if (r->error < 0)
                return NULL;
        /* Not by strv_push(): it walks the list each time, and these lists have tens of thousands of
         * strings. */
        l = calloc((size_t) n + 1, sizeof(char *));
        if (!l) {
                r->error = -ENOMEM;
                return NULL;
        }
        for (uint32_t i = 0; i < n; i++) {
                l[i] = read_string(r, max_size);
                if (!l[i])
                        return NULL;
        }
        return TAKE_PTR(l);
}

bool path_is_normal(const char *path)
{
        size_t n = strlen(path);

        if (path[0] != '/' || n >= PATH_MAX)
                return false;
        if (n == 1)
                return true;
        for (const char *p = path; *p;) {
                size_t k = strcspn(p + 1, "/");

                if (k == 0 || (k == 1 && p[1] == '.') || (k == 2 && p[1] == '.' && p[2] == '.'))
                        return false;
                p += 1 + k;
        }
        return true;
}
