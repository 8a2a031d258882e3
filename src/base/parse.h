/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdint.h>

#include "base/macro.h"

/* All return 0 or -EINVAL (not of the form) / -ERANGE, and touch the output only on success. No sign, no white space, no
 * trailing bytes are accepted anywhere. */

int parse_u64(const char *s, uint64_t *ret);
/* Bytes: 4096, 64K, 256M, 2G, 1T (powers of 1024; a count such as inodes is written the same way). */
int parse_size(const char *s, uint64_t *ret);
/* Time in microseconds as systemd writes it: 90 (seconds), 90s, 5min, 1h 30min, 250ms, 2d. Never "infinity". */
int parse_usec(const char *s, uint64_t *ret);
/* "150%" → 150; whole percents, at least 1. */
int parse_percent(const char *s, uint64_t *ret);
int parse_bool(const char *s, int *ret);

/* The inverse, in the shortest form that parses back to the same value; newly allocated, NULL when out of memory. */
char *format_size(uint64_t v);
char *format_usec(uint64_t v);
