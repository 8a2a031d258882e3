/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <inttypes.h>
#include <string.h>

#include "output/output.h"

size_t output_chunk(const uint8_t *p, size_t n, bool ended)
{
        const uint8_t *end = ended ? NULL : memrchr(p, '\n', n);

        return end ? (size_t) (end - p) + 1 : n;
}

int output_common(const OutputSpec *spec, Buf *out)
{
        buf_printf(out, "PRIORITY=6\nSYSLOG_IDENTIFIER=agentbox-output\nAGENTBOX_CALLER_UID=%u\n",
                        (unsigned) spec->caller_uid);
        journal_field_put(out, "AGENTBOX_RUN_ID", spec->run, strlen(spec->run));
        return journal_field_put(out, "AGENTBOX_POLICY", spec->policy, strlen(spec->policy));
}

int output_record(const Buf *common, const char *stream, const uint8_t *p, size_t n, Buf *out)
{
        bool partial = n == 0 || p[n - 1] != '\n';

        out->size = 0;
        buf_append(out, common->data, common->size);
        buf_printf(out, "AGENTBOX_STREAM=%s\n%s", stream, partial ? "AGENTBOX_PARTIAL=yes\n" : "");
        return journal_field_put(out, "MESSAGE", p, n - !partial);
}
