/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"

static char oom_text[] = "out of memory";

int error_set(Error **reterr, int r, const char *format, ...)
{
        va_list ap;
        Error *e;

        if (!reterr || *reterr)
                return r;
        e = calloc(1, sizeof(*e));
        if (!e)
                return r;
        e->code = r;
        va_start(ap, format);
        if (vasprintf(&e->message, format, ap) < 0)
                e->message = oom_text;
        va_end(ap);
        *reterr = e;
        return r;
}

int error_prefix(Error **reterr, int r, const char *format, ...)
{
        _cleanup_free_ char *prefix = NULL;
        char *joined;
        va_list ap;
        int n;

        if (!reterr || !*reterr)
                return r;
        va_start(ap, format);
        n = vasprintf(&prefix, format, ap);
        va_end(ap);
        if (n < 0) {
                prefix = NULL;
                return r;
        }
        if (asprintf(&joined, "%s: %s", prefix, (*reterr)->message) < 0)
                return r;
        if ((*reterr)->message != oom_text)
                free((*reterr)->message);
        (*reterr)->message = joined;
        return r;
}

Error *error_free(Error *e)
{
        if (!e)
                return NULL;
        if (e->message != oom_text)
                free(e->message);
        free(e);
        return NULL;
}

const char *error_message(const Error *e, int r)
{
        return e ? e->message : strerror(r < 0 ? -r : r);
}
