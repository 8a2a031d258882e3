/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "wire/egress.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_same(const Buf *b, const uint8_t *data, size_t size)
{
        if (b->error < 0 || b->size != size || memcmp(b->data, data, size) != 0)
                abort();
}

/* The three messages between broker and warden; the first four bytes say which. Whatever is accepted has one form only. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_(wardenspec_done) WardenSpec spec = {};
        _cleanup_buf_ Buf b = {};
        WardenHello hello;
        WardenReady ready;

        if (wardenspec_decode(data, size, &spec) >= 0) {
                wardenspec_encode(&spec, &b);
                expect_same(&b, data, size);
        } else if (wardenhello_decode(data, size, &hello) >= 0) {
                wardenhello_encode(&hello, &b);
                expect_same(&b, data, size);
        } else if (wardenready_decode(data, size, &ready) >= 0) {
                wardenready_encode(&ready, &b);
                expect_same(&b, data, size);
        }
        return 0;
}
