/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/escape.h"
#include "cli/facts.h"
#include "cli/run-output.h"

/* A string, or an array of the bytes' numbers. */
static int read_bytes(const json_t *message, Buf *out)
{
        if (json_is_string(message))
                return buf_append(out, json_string_value(message), json_string_length(message));
        for (size_t i = 0; i < json_array_size(message); i++) {
                json_int_t v = json_integer_value(json_array_get(message, i));

                if (v < 0 || v > 255)
                        return -EBADMSG;
                buf_u8(out, (uint8_t) v);
        }
        return out->error;
}

/* Lines and tabulators stay. */
static int make_safe(const Buf *bytes, Buf *out)
{
        for (size_t i = 0; i < bytes->size;) {
                size_t n = 0;
                _cleanup_free_ char *shown = NULL;

                while (i + n < bytes->size && bytes->data[i + n] != '\n' && bytes->data[i + n] != '\t')
                        n++;
                shown = escape_for_display(bytes->data + i, n, n);
                if (!shown)
                        return -ENOMEM;
                buf_append(out, shown, strlen(shown));
                i += n;
                if (i < bytes->size)
                        buf_append(out, bytes->data + i++, 1);
        }
        return out->error;
}

int run_output_print(const json_t *record)
{
        const char *stream = facts_string(record, "AGENTBOX_STREAM"), *partial = facts_string(record, "AGENTBOX_PARTIAL");
        FILE *f = stream && streq(stream, "stderr") ? stderr : stdout;
        _cleanup_buf_ Buf bytes = {}, shown = {};
        bool on_terminal = isatty(fileno(f));
        int r = read_bytes(json_object_get(record, "MESSAGE"), &bytes);

        if (r >= 0 && !partial)
                r = buf_append(&bytes, "\n", 1);
        if (r >= 0 && on_terminal)
                r = make_safe(&bytes, &shown);
        if (r < 0)
                return r;
        errno = 0;
        if (fwrite(on_terminal ? shown.data : bytes.data, 1, on_terminal ? shown.size : bytes.size, f) !=
                                        (on_terminal ? shown.size : bytes.size) ||
                        fflush(f) == EOF)
                return errno > 0 ? -errno : -EIO;
        return 0;
}
