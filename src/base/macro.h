/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ELEMENTSOF(x) (sizeof(x) / sizeof((x)[0]))
#define MIN2(a, b) ((a) < (b) ? (a) : (b))
#define MAX2(a, b) ((a) > (b) ? (a) : (b))
#define _cleanup_(f) __attribute__((cleanup(f)))
#define _printf_(a, b) __attribute__((format(printf, a, b)))
#define _pure_ __attribute__((pure))
#define _unused_ __attribute__((unused))
#define _noreturn_ __attribute__((noreturn))

/* Hands the value over to somebody else and leaves nothing behind for the cleanup attribute. */
#define TAKE_PTR(p)                            \
        ({                                     \
                __typeof__(p) _taken_ = (p);   \
                (p) = NULL;                    \
                _taken_;                       \
        })
#define TAKE_FD(fd)                            \
        ({                                     \
                int _taken_ = (fd);            \
                (fd) = -1;                     \
                _taken_;                       \
        })

/* Defines f##p(), the form that the cleanup attribute wants, for a function that frees a pointer. */
#define DEFINE_CLEANUP(type, f)                    \
        static inline void f##p(type *p)           \
        {                                          \
                if (*p)                            \
                        f(*p);                     \
        }

static inline void freep(void *p)
{
        free(*(void **) p);
}

static inline void closep(int *fd)
{
        if (*fd >= 0)
                close(*fd);
}

#define _cleanup_free_ _cleanup_(freep)
#define _cleanup_close_ _cleanup_(closep)

static inline int streq(const char *a, const char *b)
{
        return strcmp(a, b) == 0;
}

static inline const char *startswith(const char *s, const char *prefix)
{
        size_t n = strlen(prefix);
        return strncmp(s, prefix, n) == 0 ? s + n : NULL;
}
