/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/macro.h"

/* For every byte that comes from a caller or from inside and reaches a message, a terminal or a journal MESSAGE: control
 * bytes (C0, DEL, C1 in UTF-8), backslashes and bytes that are no valid UTF-8 become \xNN. Newly allocated, at most max bytes of
 * input are taken ("…" is put behind where some were cut). NULL when out of memory. */
char *escape_for_display(const void *p, size_t n, size_t max);
