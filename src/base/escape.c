/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/buf.h"
#include "base/escape.h"

/* The length of the valid UTF-8 sequence at p that is safe to show, or 0. Overlong forms, surrogates, C1 controls and what
 * lies above U+10FFFF are not valid; bidirectional overrides (U+202A..E, U+2066..9) would let a name rewrite the line. */
static size_t safe_sequence(const uint8_t *p, size_t n)
{
        uint32_t c;
        size_t len;

        if (p[0] >= 0x20 && p[0] < 0x7f && p[0] != '\\')
                return 1;
        if (p[0] >= 0xc2 && p[0] <= 0xdf)
                len = 2, c = p[0] & 0x1f;
        else if ((p[0] & 0xf0) == 0xe0)
                len = 3, c = p[0] & 0x0f;
        else if (p[0] >= 0xf0 && p[0] <= 0xf4)
                len = 4, c = p[0] & 0x07;
        else
                return 0;
        if (len > n)
                return 0;
        for (size_t i = 1; i < len; i++) {
                if ((p[i] & 0xc0) != 0x80)
                        return 0;
                c = c << 6 | (p[i] & 0x3f);
        }
        if (c < 0xa0 || (len == 3 && c < 0x800) || (len == 4 && c < 0x10000) || c > 0x10ffff)
                return 0;
        if ((c >= 0xd800 && c <= 0xdfff) || (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
            (c >= 0x2066 && c <= 0x2069))
                return 0;
        return len;
}

char *escape_for_display(const void *p, size_t n, size_t max)
{
        _cleanup_buf_ Buf b = {};
        const uint8_t *c = p;
        size_t take = MIN2(n, max);

        for (size_t i = 0; i < take;) {
                size_t len = safe_sequence(c + i, take - i);

                if (len > 0)
                        buf_append(&b, c + i, len);
                else
                        buf_printf(&b, "\\x%02x", c[i]);
                i += MAX2(len, (size_t) 1);
        }
        if (take < n)
                buf_append(&b, "…", strlen("…"));
        return buf_take_string(&b);
}
