/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "wire/output.h"

/* The spec: u32 magic, caller_uid, u64 max_bytes, run, policy. */

void output_spec_done(OutputSpec *s)
{
        free(s->run);
        free(s->policy);
        *s = (OutputSpec){};
}

static bool is_line(const char *s)
{
        if (!s || !*s)
                return false;
        for (; *s; s++)
                if ((unsigned char) *s < 0x20 || *s == 0x7f)
                        return false;
        return true;
}

int output_spec_encode(const OutputSpec *s, Buf *out)
{
        if (!is_line(s->run) || !is_line(s->policy))
                return -EINVAL;
        buf_u32(out, OUTPUT_SPEC_MAGIC);
        buf_u32(out, s->caller_uid);
        buf_u64(out, s->max_bytes);
        buf_blob(out, s->run, strlen(s->run));
        buf_blob(out, s->policy, strlen(s->policy));
        if (out->error == 0 && out->size > OUTPUT_SPEC_SIZE_MAX)
                out->error = -E2BIG;
        return out->error;
}

int output_spec_decode(const void *p, size_t n, OutputSpec *ret)
{
        Reader reader = { .data = p, .size = n };
        OutputSpec s = {};
        int r;

        if (n > OUTPUT_SPEC_SIZE_MAX || read_u32(&reader) != OUTPUT_SPEC_MAGIC)
                return -EBADMSG;
        s.caller_uid = read_u32(&reader);
        s.max_bytes = read_u64(&reader);
        s.run = read_string(&reader, OUTPUT_SPEC_SIZE_MAX);
        s.policy = read_string(&reader, OUTPUT_SPEC_SIZE_MAX);
        r = read_end(&reader);
        if (r >= 0 && (!is_line(s.run) || !is_line(s.policy)))
                r = -EBADMSG;
        if (r < 0) {
                output_spec_done(&s);
                return r;
        }
        *ret = s;
        return 0;
}
