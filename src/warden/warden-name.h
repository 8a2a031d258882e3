/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macro.h"

/* PURE. What the readers of TLS and HTTP have in common: pieces of hostile bytes, and the host names in them. Letters are
 * those of ASCII, whatever the locale. */

typedef struct ByteSpan {
        const uint8_t *p;
        size_t n;
} ByteSpan;

/* The same bytes but for the case of ASCII letters; text is lower case. */
bool span_is(ByteSpan s, const char *text);
/* A name that a rule could have: labels of 1 to 63 letters, digits and hyphens (none at either end), 253 bytes at most, no
 * final dot, and no address: whatever ends in a number is one to some resolver (127.1, 2130706433, 0x7f.1). */
bool span_is_host_name(ByteSpan s);
/* Text for a record: printable ASCII as it is; a backslash and all other bytes as \xNN. What has no room is cut at a whole
 * byte and "..." put behind. ret is always terminated; size is at least 4. */
void span_escape(ByteSpan s, char *ret, size_t size);
