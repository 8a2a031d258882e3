/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/error.h"
#include "policy/policy-keys.h"
#include "policy/policy.h"

/* One value: from text and back, by the key's row. */

void policy_value_done(PolicyValue *v);
int policy_value_copy(const PolicyValue *v, PolicyValue *ret);
/* Back to the default. */
int policy_value_reset(PolicyValue *v, PolicyKey key);
/* Says what it would say if nobody had set it. Not for strings and lists. */
bool policy_value_is_default(const PolicyValue *v, PolicyKey key);

/* A value that is no list: type, range, enumeration, the row's own check. Takes u, s and set; the source is
 * the caller's. -EINVAL, -ERANGE with an error; ret_offset is the byte of text where it went wrong. v is
 * untouched on failure. */
int policy_value_take(PolicyValue *v, PolicyKey key, const char *text, size_t *ret_offset, Error **reterr);
/* The next item of a list's text from *offset on; moves *offset behind it. 1: there is one (*ret newly
 * allocated, *ret_start where it stands), 0: no more, -ENOMEM. */
int policy_value_next_item(PolicyKey key, const char *text, size_t *offset, char **ret, size_t *ret_start);
/* Judges one item and appends it in canonical form; one that is there already stays once. from: for
 * PolicyValue.from. */
int policy_value_append(PolicyValue *v, PolicyKey key, const char *item, const char *from,
                size_t *ret_offset, Error **reterr);

/* As a file would say it; newly allocated, NULL when out of memory. Not for lists. */
char *policy_value_format(PolicyKey key, const PolicyValue *v);
/* Any u of a number, time, size, enumeration, ... the same way. */
char *policy_value_format_u64(PolicyKey key, uint64_t u);

/* PolicyValue.from: "FILE:LINE:COLUMN", or "--set" (ret_file is NULL then, line and column 0). */
char *policy_origin_format(const char *file, unsigned line, unsigned column);
int policy_origin_parse(const char *from, char **ret_file, unsigned *ret_line, unsigned *ret_column);
