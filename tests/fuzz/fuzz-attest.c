/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "wire/attest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the broker reads from inside a run's unit. Whatever is accepted has one form only. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_(attest_done) Attest a = {};
        _cleanup_buf_ Buf b = {};

        if (attest_decode(data, size, &a) < 0)
                return 0;
        if (attest_encode(&a, &b) < 0 || b.size != size || memcmp(b.data, data, size) != 0)
                abort();
        return 0;
}
