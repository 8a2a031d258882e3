/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "base/macro.h"
#include "base/parse.h"
#include "cli/since.h"

#define USEC_PER_SEC UINT64_C(1000000)

static int parse_ago(const char *s, uint64_t now, uint64_t *ret)
{
        size_t n = strlen(s);
        _cleanup_free_ char *span = NULL;
        uint64_t usec;

        if (*s == '-')
                s++, n--;
        if (n > 4 && streq(s + n - 4, " ago"))
                n -= 4;
        span = strndup(s, n);
        if (!span)
                return -ENOMEM;
        if (parse_usec(span, &usec) < 0)
                return -EINVAL;
        *ret = now > usec ? now - usec : 0;
        return 0;
}

static int from_local(struct tm *tm, uint64_t *ret)
{
        time_t t;

        tm->tm_isdst = -1;
        t = mktime(tm);
        if (t < 0)
                return -EINVAL;
        *ret = (uint64_t) t * USEC_PER_SEC;
        return 0;
}

/* A day before now, at midnight. */
static int parse_day(uint64_t now, int days_back, struct tm *ret)
{
        time_t t = (time_t) (now / USEC_PER_SEC);

        if (!localtime_r(&t, ret))
                return -EINVAL;
        ret->tm_mday -= days_back;
        ret->tm_hour = ret->tm_min = ret->tm_sec = 0;
        return 0;
}

static int parse_calendar(const char *s, uint64_t now, uint64_t *ret)
{
        static const struct {
                const char *format;
                bool has_date;
        } forms[] = {
                { "%Y-%m-%d", true },
                { "%Y-%m-%d %H:%M", true },
                { "%Y-%m-%d %H:%M:%S", true },
                { "%Y-%m-%dT%H:%M", true },
                { "%Y-%m-%dT%H:%M:%S", true },
                { "%H:%M", false },
                { "%H:%M:%S", false },
        };

        for (size_t i = 0; i < ELEMENTSOF(forms); i++) {
                struct tm tm = {}, parsed;
                const char *end;
                time_t probe;

                if (!forms[i].has_date && parse_day(now, 0, &tm) < 0)
                        return -EINVAL;
                end = strptime(s, forms[i].format, &tm);
                if (!end || *end)
                        continue;
                /* mktime() would quietly turn the 31st of February into the 3rd of March. */
                parsed = tm;
                parsed.tm_isdst = -1;
                probe = mktime(&parsed);
                if (probe < 0 || parsed.tm_mday != tm.tm_mday)
                        return -EINVAL;
                return from_local(&tm, ret);
        }
        return -EINVAL;
}

int since_parse(const char *s, uint64_t now, uint64_t *ret)
{
        struct tm day;
        uint64_t v;
        int r;

        if (*s == '@') {
                r = parse_u64(s + 1, &v);
                if (r < 0 || v > UINT64_MAX / USEC_PER_SEC)
                        return -EINVAL;
                *ret = v * USEC_PER_SEC;
                return 0;
        }
        if (streq(s, "now")) {
                *ret = now;
                return 0;
        }
        if (streq(s, "today") || streq(s, "yesterday"))
                return parse_day(now, streq(s, "yesterday"), &day) < 0 ? -EINVAL : from_local(&day, ret);
        r = parse_ago(s, now, ret);
        return r == -EINVAL ? parse_calendar(s, now, ret) : r;
}
