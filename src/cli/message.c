/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/escape.h"
#include "cli/message.h"
#include "cli/output.h"

#define PREFIX "agentbox: "

char *message_clean(const char *text)
{
        _cleanup_buf_ Buf b = {};

        while (*text) {
                size_t n = strcspn(text, "\\");
                _cleanup_free_ char *piece = escape_for_display(text, n, n);

                if (!piece)
                        return NULL;
                buf_append(&b, piece, strlen(piece));
                text += n;
                if (*text == '\\') {
                        buf_append(&b, text, 1);
                        text++;
                }
        }
        return buf_take_string(&b);
}

/* Columns of the terminal that stderr is; 0: nothing is wrapped. */
static size_t width(void)
{
        struct winsize size;

        return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40 ? size.ws_col : 0;
}

/* Several lines (all the errors of a policy, say) each get the prefix. */
static void write_lines(const char *text)
{
        _cleanup_buf_ Buf out = {};

        for (;;) {
                size_t n = strcspn(text, "\n");
                _cleanup_free_ char *line = strndup(text, n), *shown = line ? message_clean(line) : NULL;

                buf_printf(&out, PREFIX);
                output_wrap_behind(&out, shown ?: "out of memory", sizeof(PREFIX) - 1, width());
                text += n;
                if (!*text || !*++text)
                        break;
        }
        if (out.error >= 0)
                fwrite(out.data, 1, out.size, stderr);
}

void message(const char *format, ...)
{
        _cleanup_free_ char *text = NULL;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(&text, format, ap);
        va_end(ap);
        if (n < 0)
                text = NULL;
        write_lines(text ?: "out of memory");
}

int message_failure(const Error *e, int r)
{
        write_lines(error_message(e, r));
        return EXIT_OURS;
}
