/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#include "base/parse.h"

/* The leading digits of *s; moves *s behind them. */
static int take_digits(const char **s, uint64_t *ret)
{
        uint64_t v = 0;

        if (!isdigit((unsigned char) **s))
                return -EINVAL;
        for (; isdigit((unsigned char) **s); (*s)++)
                if (__builtin_mul_overflow(v, (uint64_t) 10, &v) ||
                    __builtin_add_overflow(v, (uint64_t) (**s - '0'), &v))
                        return -ERANGE;
        *ret = v;
        return 0;
}

int parse_u64(const char *s, uint64_t *ret)
{
        uint64_t v;
        int r = take_digits(&s, &v);

        if (r < 0)
                return r;
        if (*s)
                return -EINVAL;
        *ret = v;
        return 0;
}

typedef struct Suffix {
        const char *text;
        uint64_t factor;
} Suffix;

/* Largest first: the printers take the first one that divides the value. */
static const Suffix sizes[] = {
        { "E", UINT64_C(1) << 60 }, { "P", UINT64_C(1) << 50 }, { "T", UINT64_C(1) << 40 },
        { "G", UINT64_C(1) << 30 }, { "M", UINT64_C(1) << 20 }, { "K", UINT64_C(1) << 10 },
        { "B", 1 },                 { "", 1 },
};

#define USEC_PER_SEC UINT64_C(1000000)

static const Suffix times[] = {
        { "w", 604800 * USEC_PER_SEC },  { "d", 86400 * USEC_PER_SEC }, { "h", 3600 * USEC_PER_SEC },
        { "min", 60 * USEC_PER_SEC },    { "s", USEC_PER_SEC },         { "ms", 1000 },
        { "us", 1 },                     { "", USEC_PER_SEC },          { "week", 604800 * USEC_PER_SEC },
        { "weeks", 604800 * USEC_PER_SEC }, { "day", 86400 * USEC_PER_SEC }, { "days", 86400 * USEC_PER_SEC },
        { "hr", 3600 * USEC_PER_SEC },   { "hour", 3600 * USEC_PER_SEC }, { "hours", 3600 * USEC_PER_SEC },
        { "m", 60 * USEC_PER_SEC },      { "minute", 60 * USEC_PER_SEC }, { "minutes", 60 * USEC_PER_SEC },
        { "sec", USEC_PER_SEC },         { "second", USEC_PER_SEC },    { "seconds", USEC_PER_SEC },
        { "msec", 1000 },                { "usec", 1 },
};

static const Suffix *find_suffix(const Suffix *table, size_t n, const char *s, size_t length)
{
        for (size_t i = 0; i < n; i++)
                if (strlen(table[i].text) == length && strncmp(table[i].text, s, length) == 0)
                        return table + i;
        return NULL;
}

int parse_size(const char *s, uint64_t *ret)
{
        const Suffix *suffix;
        uint64_t v;
        int r = take_digits(&s, &v);

        if (r < 0)
                return r;
        suffix = find_suffix(sizes, ELEMENTSOF(sizes), s, strlen(s));
        if (!suffix)
                return -EINVAL;
        if (__builtin_mul_overflow(v, suffix->factor, &v))
                return -ERANGE;
        *ret = v;
        return 0;
}

int parse_usec(const char *s, uint64_t *ret)
{
        uint64_t sum = 0;

        if (!*s)
                return -EINVAL;
        while (*s) {
                const Suffix *suffix;
                uint64_t v;
                size_t n;
                int r = take_digits(&s, &v);

                if (r < 0)
                        return r;
                n = strspn(s, "abcdefghijklmnopqrstuvwxyz");
                suffix = find_suffix(times, ELEMENTSOF(times), s, n);
                if (!suffix)
                        return -EINVAL;
                s += n;
                if (__builtin_mul_overflow(v, suffix->factor, &v) || __builtin_add_overflow(sum, v, &sum))
                        return -ERANGE;
                /* "1h 30min": single blanks between parts, none at the end. */
                if (*s == ' ' && !*++s)
                        return -EINVAL;
        }
        *ret = sum;
        return 0;
}

int parse_percent(const char *s, uint64_t *ret)
{
        uint64_t v;
        int r = take_digits(&s, &v);

        if (r < 0)
                return r;
        if (!streq(s, "%"))
                return -EINVAL;
        if (v == 0)
                return -ERANGE;
        *ret = v;
        return 0;
}

int parse_bool(const char *s, int *ret)
{
        static const char *const yes[] = { "yes", "true", "on", "1" };
        static const char *const no[] = { "no", "false", "off", "0" };

        for (size_t i = 0; i < ELEMENTSOF(yes); i++) {
                if (streq(s, yes[i])) {
                        *ret = 1;
                        return 0;
                }
                if (streq(s, no[i])) {
                        *ret = 0;
                        return 0;
                }
        }
        return -EINVAL;
}

char *format_size(uint64_t v)
{
        char *s = NULL;

        for (size_t i = 0; i < ELEMENTSOF(sizes); i++)
                if (v > 0 && sizes[i].factor > 1 && v % sizes[i].factor == 0)
                        return asprintf(&s, "%llu%s", (unsigned long long) (v / sizes[i].factor), sizes[i].text) < 0
                                               ? NULL
                                               : s;
        return asprintf(&s, "%llu", (unsigned long long) v) < 0 ? NULL : s;
}

char *format_usec(uint64_t v)
{
        _cleanup_free_ char *best = NULL;

        if (v == 0)
                return strdup("0");
        /* Largest unit first: of two texts of one length, "7d" and "1w", it is the one to read. */
        for (size_t i = 0; i < 7; i++) {
                char *s;

                if (v % times[i].factor != 0)
                        continue;
                if (asprintf(&s, "%llu%s", (unsigned long long) (v / times[i].factor), times[i].text) < 0)
                        return NULL;
                if (best && strlen(best) <= strlen(s)) {
                        free(s);
                        continue;
                }
                free(best);
                best = s;
        }
        return TAKE_PTR(best);
}
