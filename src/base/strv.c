/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "base/strv.h"

char **strv_free(char **l)
{
        if (l)
                for (char **i = l; *i; i++)
                        free(*i);
        free(l);
        return NULL;
}

size_t strv_length(char *const *l)
{
        size_t n = 0;

        for (; l && *l; l++)
                n++;
        return n;
}

bool strv_contains(char *const *l, const char *s)
{
        STRV_FOREACH(i, l)
                if (streq(*i, s))
                        return true;
        return false;
}

int strv_push(char ***l, char *s)
{
        size_t n = strv_length(*l);
        char **t = NULL;

        /* Grown in powers of two: n is a power of two (or zero) exactly when the array is full. */
        if (n == 0 || (n & (n - 1)) == 0) {
                t = reallocarray(*l, n == 0 ? 2 : n * 2 + 1, sizeof(char *));
                if (!t) {
                        free(s);
                        return -ENOMEM;
                }
                *l = t;
        }
        (*l)[n] = s;
        (*l)[n + 1] = NULL;
        return 0;
}

int strv_extend(char ***l, const char *s)
{
        char *copy = strdup(s);

        if (!copy)
                return -ENOMEM;
        return strv_push(l, copy);
}

int strv_copy(char *const *l, char ***ret)
{
        _cleanup_strv_ char **copy = NULL;

        STRV_FOREACH(i, l)
                if (strv_extend(&copy, *i) < 0)
                        return -ENOMEM;
        *ret = TAKE_PTR(copy);
        return 0;
}

char *strv_join(char *const *l, const char *sep)
{
        size_t n = 1, sl = strlen(sep);
        char *s, *p;

        STRV_FOREACH(i, l)
                n += strlen(*i) + sl;
        s = p = malloc(n);
        if (!s)
                return NULL;
        STRV_FOREACH(i, l) {
                if (i != l)
                        p = stpcpy(p, sep);
                p = stpcpy(p, *i);
        }
        *p = 0;
        return s;
}

int strv_split(const char *s, const char *seps, char ***ret)
{
        _cleanup_strv_ char **l = NULL;

        for (;;) {
                size_t n;
                char *piece;

                s += strspn(s, seps);
                if (!*s)
                        break;
                n = strcspn(s, seps);
                piece = strndup(s, n);
                if (!piece || strv_push(&l, piece) < 0)
                        return -ENOMEM;
                s += n;
        }
        *ret = TAKE_PTR(l);
        return 0;
}
