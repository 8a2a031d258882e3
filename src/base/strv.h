/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>

#include "base/macro.h"

/* NULL-terminated arrays of strings, each owned by the array. A NULL array counts as empty everywhere. */
char **strv_free(char **l);
DEFINE_CLEANUP(char **, strv_free)
#define _cleanup_strv_ _cleanup_(strv_freep)

size_t strv_length(char *const *l) _pure_;
bool strv_contains(char *const *l, const char *s) _pure_;
/* Appends a copy of s. 0, or -ENOMEM with *l as it was. */
int strv_extend(char ***l, const char *s);
/* Appends s itself, which the array then owns; on -ENOMEM s is freed. */
int strv_push(char ***l, char *s);
int strv_copy(char *const *l, char ***ret);
/* The strings with sep between them, newly allocated; NULL when out of memory. */
char *strv_join(char *const *l, const char *sep);
/* Splits at any of the bytes in seps; empty pieces are left out. */
int strv_split(const char *s, const char *seps, char ***ret);

#define STRV_FOREACH(i, l) for (char *const *i = (l); i && *i; i++)
