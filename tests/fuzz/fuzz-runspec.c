/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "wire/runspec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the broker tells the shim, and what the shim answers where it fails. Whatever is accepted has one
 * form only. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_(runspec_done) RunSpec spec = {};
        _cleanup_buf_ Buf b = {};
        ExecFailure failure;

        if (exec_failure_decode(data, size, &failure) >= 0)
                (void) exec_stage_to_string(failure.stage);
        if (runspec_decode(data, size, &spec) < 0)
                return 0;
        if (runspec_encode(&spec, &b) < 0 || b.size != size || memcmp(b.data, data, size) != 0)
                abort();
        return 0;
}
