/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdio.h>

#include "warden/warden-name.h"

static uint8_t ascii_lower(uint8_t c)
{
        return c >= 'A' && c <= 'Z' ? (uint8_t) (c | 0x20) : c;
}

static bool is_digit(uint8_t c)
{
        return c >= '0' && c <= '9';
}

static bool is_letter(uint8_t c)
{
        return ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z';
}

static bool is_hex_digit(uint8_t c)
{
        return is_digit(c) || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'f');
}

bool span_is(ByteSpan s, const char *text)
{
        if (strlen(text) != s.n)
                return false;
        for (size_t i = 0; i < s.n; i++)
                if (ascii_lower(s.p[i]) != (uint8_t) text[i])
                        return false;
        return true;
}

static bool label_valid(ByteSpan s)
{
        if (s.n == 0 || s.n > 63 || s.p[0] == '-' || s.p[s.n - 1] == '-')
                return false;
        for (size_t i = 0; i < s.n; i++)
                if (!is_letter(s.p[i]) && !is_digit(s.p[i]) && s.p[i] != '-')
                        return false;
        return true;
}

static bool label_is_number(ByteSpan s)
{
        bool hex = s.n >= 2 && s.p[0] == '0' && ascii_lower(s.p[1]) == 'x';

        for (size_t i = hex ? 2 : 0; i < s.n; i++)
                if (hex ? !is_hex_digit(s.p[i]) : !is_digit(s.p[i]))
                        return false;
        return true;
}

bool span_is_host_name(ByteSpan s)
{
        size_t start = 0;

        if (s.n == 0 || s.n > 253)
                return false;
        for (size_t i = 0; i <= s.n; i++) {
                ByteSpan label = { s.p + start, i - start };

                if (i < s.n && s.p[i] != '.')
                        continue;
                if (!label_valid(label) || (i == s.n && label_is_number(label)))
                        return false;
                start = i + 1;
        }
        return true;
}

static size_t escaped_width(uint8_t c)
{
        return c >= 0x20 && c < 0x7f && c != '\\' ? 1 : 4;
}

void span_escape(ByteSpan s, char *ret, size_t size)
{
        size_t width = 0, used = 0, room = size - 1;

        for (size_t i = 0; i < s.n; i++)
                width += escaped_width(s.p[i]);
        if (width > room)
                room -= 3;
        for (size_t i = 0; i < s.n && used + escaped_width(s.p[i]) <= room; i++) {
                if (escaped_width(s.p[i]) == 1)
                        ret[used] = (char) s.p[i];
                else
                        snprintf(ret + used, 5, "\\x%02x", s.p[i]);
                used += escaped_width(s.p[i]);
        }
        if (width > size - 1) {
                memcpy(ret + used, "...", 3);
                used += 3;
        }
        ret[used] = 0;
}
