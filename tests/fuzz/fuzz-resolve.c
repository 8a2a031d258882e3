/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "resolver/resolve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_same(const Buf *b, const uint8_t *data, size_t size)
{
        if (b->error < 0 || b->size != size || memcmp(b->data, data, size) != 0)
                abort();
}

/* The two messages between warden and resolver; the first four bytes say which. Whatever is accepted has one form only, and
 * within its bounds. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_buf_ Buf b = {};
        ResolveRequest q;
        ResolveAnswer a;

        if (resolve_request_decode(data, size, &q) >= 0) {
                if (q.name[0] && !resolve_name_valid(q.name))
                        abort();
                resolve_request_encode(&q, &b);
                expect_same(&b, data, size);
        } else if (resolve_answer_decode(data, size, &a) >= 0) {
                if (a.n > RESOLVE_ADDRESSES_MAX)
                        abort();
                resolve_answer_encode(&a, &b);
                expect_same(&b, data, size);
        }
        return 0;
}
