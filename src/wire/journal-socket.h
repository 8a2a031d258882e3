/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* The journal's native protocol, for processes that write to its socket themselves: a datagram a record. */

/* NAME, the length of the value in eight bytes, the value: whatever bytes it has, it is one field. */
int journal_field_put(Buf *record, const char *name, const void *value, size_t n);

/* Whether journald has dealt with everything that was sent by a socket. It asks the kernel about the sender of a record when
 * it deals with it, so who exits before may be taken for nobody. */
typedef struct JournalMark {
        bool unread; /* set when a record has been sent */
        bool marked; /* cleared then */
} JournalMark;

bool journal_mark_is_read(JournalMark *m, int fd);
