/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/strv.h"

/* What more than one message needs on top of base/buf.h. Errors are sticky there and here. */

/* u32 count, then each string as a blob. A NULL list counts as empty. */
int buf_strv(Buf *b, char *const *l);
/* Never NULL where it succeeds: an empty list is an array with nothing but its end. -EBADMSG (in r) where
 * there are more than max_count strings or one is longer than max_size; the count is believed only as far as
 * bytes stand behind it. */
char **read_strv(Reader *r, size_t max_count, size_t max_size);
/* One byte, 0 or 1; any other is an error. */
bool read_bool(Reader *r);
/* How many elements of at least element_size bytes each follow: the u32, checked against max and the bytes
 * left. */
uint32_t read_count(Reader *r, size_t max, size_t element_size);

/* Absolute, no empty, "." or ".." component, no slash at the end but in "/", shorter than PATH_MAX. */
bool path_is_normal(const char *path) _pure_;
