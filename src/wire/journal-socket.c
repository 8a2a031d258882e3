/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <linux/sock_diag.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "wire/journal-socket.h"

int journal_field_put(Buf *record, const char *name, const void *value, size_t n)
{
        buf_append(record, name, strlen(name));
        buf_append(record, "\n", 1);
        buf_u64(record, n);
        buf_append(record, value, n);
        return buf_append(record, "\n", 1);
}

/* An empty datagram, which journald passes by, is the mark: it has been taken once the record before it has been dealt
 * with, for that is done one after another. What has not been taken yet counts as memory of the sender's socket. */
bool journal_mark_is_read(JournalMark *m, int fd)
{
        uint32_t memory[SK_MEMINFO_VARS] = {};
        socklen_t n = sizeof(memory);

        if (!m->unread)
                return true;
        if (!m->marked) {
                if (send(fd, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
                        return errno != EAGAIN && errno != EINTR && errno != ENOBUFS && errno != ENOMEM;
                m->marked = true;
        }
        if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &n) < 0)
                return true;
        m->unread = memory[SK_MEMINFO_WMEM_ALLOC] > 0;
        return !m->unread;
}
