/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>

#include "base/escape.h"
#include "base/strv.h"
#include "cli/message.h"
#include "cli/output.h"

/* Of a table that does not fit on the terminal. */
enum { LAST_COLUMN_MIN = 24, LAST_COLUMN_INDENT = 4, COLUMN_MIN = 8 };
enum { BEHIND_MIN = 30, PROSE_WIDTH = 80, PROSE_WIDTH_MAX = 100, NARROW = 100 };

static const char *const colours[_COLOUR_MAX] = {
        [COLOUR_NONE] = "",
        [COLOUR_BOLD] = "\033[1m",
        [COLOUR_GREEN] = "\033[32m",
        [COLOUR_YELLOW] = "\033[33m",
        [COLOUR_RED] = "\033[31m",
};

static bool want_colours(void)
{
        const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

        return isatty(STDOUT_FILENO) && !(no && *no) && term && !streq(term, "dumb");
}

const char *output_colour(Colour c)
{
        return want_colours() ? colours[c] : "";
}

const char *output_colour_end(Colour c)
{
        return c != COLOUR_NONE && want_colours() ? "\033[0m" : "";
}

void table_done(Table *t)
{
        for (size_t i = 0; i < t->n_cells; i++)
                free(t->cells[i]);
        free(t->cells);
        *t = (Table){};
}

int table_add(Table *t, char *text)
{
        char *shown = text ? message_clean(text) : strdup("-");
        char **cells;

        free(text);
        cells = reallocarray(t->cells, t->n_cells + 1, sizeof(*cells));
        if (cells)
                t->cells = cells;
        if (!shown || !cells) {
                free(shown);
                return -ENOMEM;
        }
        t->cells[t->n_cells++] = shown;
        return 0;
}

size_t output_width(void)
{
        struct winsize size;

        return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40 ? size.ws_col : 0;
}

bool output_is_narrow(void)
{
        size_t terminal = output_width();

        return terminal > 0 && terminal < NARROW;
}

/* Code points: near enough to columns, without asking the locale. */
static size_t width(const char *s)
{
        size_t n = 0;

        for (; *s; s++)
                n += (*s & 0xc0) != 0x80;
        return n;
}

static size_t column_width(const Table *t, size_t column)
{
        size_t w = 0;

        for (size_t i = column; i < t->n_cells; i += t->columns)
                w = MAX2(w, width(t->cells[i]));
        return w;
}

/* Where all together are wider than the terminal, the widest gives way. The width of all but the last. */
static size_t fit_columns(size_t *widths, size_t n)
{
        size_t terminal = output_width(), before = 0, widest = 0;

        for (size_t c = 0; c + 1 < n; c++) {
                before += widths[c] + 2;
                if (widths[c] > widths[widest])
                        widest = c;
        }
        if (terminal > 0 && before > terminal && widths[widest] > before - terminal + COLUMN_MIN) {
                widths[widest] -= before - terminal;
                before = terminal;
        }
        return before;
}

static void print_cell(const char *text, Colour c, size_t columns)
{
        size_t n = width(text), cut = 0;

        if (n <= columns) {
                printf("%s%s%s%*s", output_colour(c), text, output_colour_end(c), (int) (columns - n + 2), "");
                return;
        }
        for (size_t i = 0; i + 1 < columns; i++)
                do
                        cut++;
                while ((text[cut] & 0xc0) == 0x80);
        printf("%s%.*s…%s  ", output_colour(c), (int) cut, text, output_colour_end(c));
}

static void print_last_cell(const char *text, Colour c, size_t before)
{
        size_t terminal = output_width();
        _cleanup_buf_ Buf b = {};

        if (terminal == 0 || before + width(text) <= terminal)
                buf_printf(&b, "%s\n", text);
        else if (before + LAST_COLUMN_MIN <= terminal)
                output_wrap_behind(&b, text, before, terminal);
        else {
                buf_printf(&b, "\n");
                if (c == COLOUR_NONE) /* a heading that stands below says nothing */
                        output_wrap(&b, text, LAST_COLUMN_INDENT, terminal);
        }
        /* A line ends in the colour that it began with. */
        if (b.error >= 0)
                printf("%s%.*s%s", output_colour(c), (int) b.size - 1, (const char *) b.data, output_colour_end(c));
        puts("");
}

void table_print(const Table *t)
{
        size_t widths[TABLE_COLUMNS_MAX] = {}, before = 0;

        for (size_t c = 0; c < t->columns; c++)
                widths[c] = column_width(t, c);
        before = fit_columns(widths, t->columns);
        for (size_t i = 0; i < t->n_cells; i++) {
                size_t column = i % t->columns;
                Colour c = i < t->columns ? COLOUR_BOLD : COLOUR_NONE;

                if (column == t->columns - 1)
                        print_last_cell(t->cells[i], c, before);
                else
                        print_cell(t->cells[i], c, widths[column]);
        }
}

int output_json(const json_t *value)
{
        _cleanup_free_ char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;

        if (!text)
                return -ENOMEM;
        return puts(text) < 0 ? -EIO : 0;
}

json_t *output_json_bytes(const void *p, size_t n)
{
        json_t *j = json_stringn(p, n);
        _cleanup_free_ char *shown = NULL;

        if (j)
                return j;
        shown = escape_for_display(p, n, n);
        return shown ? json_string(shown) : NULL;
}

int output_wrap(Buf *out, const char *text, size_t indent, size_t line)
{
        size_t column = 0;

        while (*text) {
                size_t n = strcspn(text, " "), columns = 0;

                for (size_t i = 0; i < n; i++)
                        columns += (text[i] & 0xc0) != 0x80;
                if (column == 0 || column + 1 + columns > line) {
                        buf_printf(out, "%s%*s", column > 0 ? "\n" : "", (int) indent, "");
                        column = indent;
                } else {
                        buf_printf(out, " ");
                        column++;
                }
                buf_printf(out, "%.*s", (int) n, text);
                column += columns;
                text += n;
                text += strspn(text, " ");
        }
        return buf_printf(out, "\n");
}

int output_wrap_behind(Buf *out, const char *text, size_t indent, size_t line)
{
        _cleanup_buf_ Buf wrapped = {};

        if (line == 0 || line < indent + BEHIND_MIN)
                line = SIZE_MAX;
        if (!*text)
                return buf_printf(out, "\n");
        if (output_wrap(&wrapped, text, indent, line) < 0)
                return -ENOMEM;
        return buf_append(out, wrapped.data + indent, wrapped.size - indent);
}

int output_paragraphs(Buf *out, const char *text, size_t indent, size_t line)
{
        while (*text) {
                const char *end = strstr(text, "\n\n");
                size_t n = end ? (size_t) (end - text) : strlen(text);
                _cleanup_free_ char *paragraph = strndup(text, n);

                if (!paragraph)
                        return -ENOMEM;
                for (char *c = paragraph; *c; c++)
                        if (*c == '\n')
                                *c = ' ';
                output_wrap(out, paragraph, indent, line);
                text += n + strspn(text + n, "\n");
                if (*text)
                        buf_printf(out, "\n");
        }
        return out->error;
}

size_t output_prose_width(void)
{
        size_t terminal = output_width();

        return terminal == 0 ? (size_t) PROSE_WIDTH : MIN2(terminal, (size_t) PROSE_WIDTH_MAX);
}

int output_flush(void)
{
        errno = 0;
        if (fflush(stdout) == EOF || ferror(stdout))
                return errno > 0 ? -errno : -EIO;
        return 0;
}

char *output_size(uint64_t bytes)
{
        static const char units[] = "BKMGTPE";
        double v = (double) bytes;
        size_t unit = 0;
        char *s;

        while (v >= 1024 && units[unit + 1]) {
                v /= 1024;
                unit++;
        }
        return asprintf(&s, unit == 0 ? "%.0f%c" : "%.1f%c", v, units[unit]) < 0 ? NULL : s;
}

char *output_duration(uint64_t usec)
{
        uint64_t s = usec / 1000000;
        char *text;
        int n;

        if (s < 60 && usec % 1000000 == 0)
                n = asprintf(&text, "%llus", (unsigned long long) s);
        else if (s < 60)
                n = asprintf(&text, "%.3fs", (double) usec / 1e6);
        else if (s < 3600)
                n = asprintf(&text, "%llumin %llus", (unsigned long long) s / 60,
                                (unsigned long long) s % 60);
        else if (s < 86400)
                n = asprintf(&text, "%lluh %llumin", (unsigned long long) s / 3600,
                                (unsigned long long) s / 60 % 60);
        else
                n = asprintf(&text, "%llud %lluh", (unsigned long long) s / 86400,
                                (unsigned long long) s / 3600 % 24);
        return n < 0 ? NULL : text;
}

char *output_time(uint64_t usec)
{
        time_t t = (time_t) (usec / 1000000);
        char text[64];
        struct tm tm;

        if (!localtime_r(&t, &tm) || strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm) == 0)
                return NULL;
        return strdup(text);
}

char *output_user(uint64_t uid)
{
        struct passwd entry, *found = NULL;
        char buffer[4096], *s;

        if (uid <= UINT32_MAX && getpwuid_r((uid_t) uid, &entry, buffer, sizeof(buffer), &found) == 0 && found)
                return strdup(found->pw_name);
        return asprintf(&s, "uid %llu", (unsigned long long) uid) < 0 ? NULL : s;
}
