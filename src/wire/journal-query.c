/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdlib.h>

#include "wire/codec.h"
#include "wire/journal-query.h"

/* The query: u32 magic, u8 kind, u8 follow, u64 since, run. */

void journal_query_done(JournalQuery *q)
{
        free(q->run);
        *q = (JournalQuery){};
}

/* No run's id has any other byte. */
static bool is_valid(const JournalQuery *q)
{
        if ((unsigned) q->kind >= _JOURNAL_KIND_MAX || !q->run || (!*q->run && q->kind != JOURNAL_AUDIT) ||
                        strlen(q->run) > JOURNAL_QUERY_RUN_MAX)
                return false;
        for (const char *c = q->run; *c; c++)
                if ((unsigned char) *c <= 0x20 || (unsigned char) *c >= 0x7f)
                        return false;
        return true;
}

int journal_query_encode(const JournalQuery *q, Buf *out)
{
        if (!is_valid(q))
                return -EINVAL;
        buf_u32(out, JOURNAL_QUERY_MAGIC);
        buf_u8(out, (uint8_t) q->kind);
        buf_u8(out, q->follow);
        buf_u64(out, q->since);
        return buf_blob(out, q->run, strlen(q->run));
}

int journal_query_decode(const void *p, size_t n, JournalQuery *ret)
{
        Reader reader = { .data = p, .size = n };
        JournalQuery q = {};
        int r;

        if (n > JOURNAL_QUERY_SIZE_MAX || read_u32(&reader) != JOURNAL_QUERY_MAGIC)
                return -EBADMSG;
        q.kind = (JournalKind) read_u8(&reader);
        q.follow = read_bool(&reader);
        q.since = read_u64(&reader);
        q.run = read_string(&reader, JOURNAL_QUERY_RUN_MAX);
        r = read_end(&reader);
        if (r >= 0 && !is_valid(&q))
                r = -EBADMSG;
        if (r < 0) {
                journal_query_done(&q);
                return r;
        }
        *ret = q;
        return 0;
}
