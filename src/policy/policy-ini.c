/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "policy/policy-checks.h"
#include "policy/policy-ini.h"

#define BLANKS " \t"

void policy_ini_done(PolicyIni *ini)
{
        for (size_t i = 0; i < ini->n; i++) {
                free(ini->lines[i].section);
                free(ini->lines[i].key);
                free(ini->lines[i].value);
                free(ini->lines[i].pieces);
        }
        free(ini->lines);
        *ini = (PolicyIni){};
}

void policy_line_position(const PolicyLine *l, size_t offset, unsigned *ret_line, unsigned *ret_column)
{
        *ret_line = l->line;
        *ret_column = l->column;
        for (size_t i = 0; i < l->n_pieces && l->pieces[i].offset <= offset; i++) {
                *ret_line = l->pieces[i].line;
                *ret_column = l->pieces[i].column + (unsigned) (offset - l->pieces[i].offset);
        }
}

/* The reader's state: a logical line grows in text, piece by piece, until a line is not continued. */
typedef struct Reading {
        const char *file;
        PolicyProblems *problems;
        PolicyIni ini;
        char *section;
        Buf text;
        PolicyPiece *pieces;
        size_t n_pieces;
} Reading;

static void reading_done(Reading *r)
{
        policy_ini_done(&r->ini);
        free(r->section);
        buf_done(&r->text);
        free(r->pieces);
}

static void trim_end(char *s)
{
        size_t n = strlen(s);

        while (n > 0 && strchr(BLANKS, s[n - 1]))
                s[--n] = 0;
}

/* Whether the bytes of a line are text; the first that is not is noted. */
static bool line_is_text(Reading *r, const char *s, size_t n, unsigned line)
{
        if (n > POLICY_LINE_MAX) {
                policy_problem(r->problems, r->file, line, 1,
                                "the line is longer than %u bytes; continue it with a backslash",
                                POLICY_LINE_MAX);
                return false;
        }
        for (size_t i = 0; i < n;) {
                size_t length = s[i] == '\t' ? 1 : policy_text_sequence(s + i, n - i);
                unsigned column = (unsigned) i + 1;

                if (length > 0) {
                        i += length;
                        continue;
                }
                if (s[i] == '\r' && i + 1 == n)
                        policy_problem(r->problems, r->file, line, column,
                                        "carriage return: lines must end in a line feed alone");
                else if (s[i] == 0)
                        policy_problem(r->problems, r->file, line, column, "NUL byte");
                else if ((unsigned char) s[i] < 0x80)
                        policy_problem(r->problems, r->file, line, column, "control character 0x%02x",
                                        (unsigned char) s[i]);
                else
                        policy_problem(r->problems, r->file, line, column,
                                        "not valid UTF-8, or a control character");
                return false;
        }
        return true;
}

static int add_line(Reading *r, PolicyLine l)
{
        PolicyLine *lines = reallocarray(r->ini.lines, r->ini.n + 1, sizeof(*lines));

        if (!lines)
                return -ENOMEM;
        r->ini.lines = lines;
        lines[r->ini.n++] = l;
        return 0;
}

static int end_section_line(Reading *r, char *text, const PolicyLine *at)
{
        size_t n = strlen(text);
        char *name;
        PolicyLine l = { .line = at->line, .column = at->column + 1 };

        free(r->section);
        r->section = NULL;
        if (text[n - 1] != ']' || n < 3) {
                policy_problem(r->problems, r->file, at->line, at->column,
                                "a section is written [Name], alone on its line");
                /* What follows belongs to nothing known; one message is enough. */
                name = strdup("");
        } else {
                text[n - 1] = 0;
                name = strdup(text + 1);
        }
        if (!name)
                return -ENOMEM;
        r->section = name;
        l.section = strdup(name);
        if (!l.section || add_line(r, l) < 0) {
                free(l.section);
                return -ENOMEM;
        }
        return 0;
}

/* The pieces of the whole line, made to count from the first byte of the value. */
static PolicyPiece *value_pieces(const Reading *r, size_t start, size_t *ret_n)
{
        PolicyPiece *pieces = reallocarray(NULL, r->n_pieces, sizeof(*pieces));
        size_t n = 0;

        for (size_t i = 0; pieces && i < r->n_pieces; i++) {
                PolicyPiece p = r->pieces[i];

                if (i + 1 < r->n_pieces && r->pieces[i + 1].offset <= start)
                        continue;
                if (p.offset < start) {
                        p.column += (unsigned) (start - p.offset);
                        p.offset = start;
                }
                p.offset -= start;
                pieces[n++] = p;
        }
        *ret_n = n;
        return pieces;
}

static int end_key_line(Reading *r, char *text, const PolicyLine *at)
{
        char *equals = strchr(text, '='), *value;
        PolicyLine l = *at;

        if (!equals) {
                policy_problem(r->problems, r->file, at->line, at->column,
                                "neither [Section] nor Key=Value");
                return 0;
        }
        value = equals + 1 + strspn(equals + 1, BLANKS);
        l.pieces = value_pieces(r, (size_t) (value - text), &l.n_pieces);
        *equals = 0;
        trim_end(text);
        if (!*text) {
                policy_problem(r->problems, r->file, at->line, at->column,
                                "the key is missing before \"=\"");
                free(l.pieces);
                return 0;
        }
        l.key = strdup(text);
        l.value = strdup(value);
        l.section = r->section ? strdup(r->section) : NULL;
        if (!l.key || !l.value || !l.pieces || (r->section && !l.section) || add_line(r, l) < 0) {
                free(l.key);
                free(l.value);
                free(l.section);
                free(l.pieces);
                return -ENOMEM;
        }
        return 0;
}

static int end_line(Reading *r)
{
        _cleanup_free_ char *text = NULL;
        PolicyLine at = {};
        int k = 0;

        if (r->n_pieces == 0)
                return 0;
        at.line = r->pieces[0].line;
        at.column = r->pieces[0].column;
        text = buf_take_string(&r->text);
        if (!text)
                return -ENOMEM;
        trim_end(text);
        if (strlen(text) > POLICY_VALUE_MAX)
                policy_problem(r->problems, r->file, at.line, at.column,
                                "longer than %u bytes with its continued lines", POLICY_VALUE_MAX);
        else if (*text)
                k = *text == '[' ? end_section_line(r, text, &at) : end_key_line(r, text, &at);
        r->n_pieces = 0;
        return k;
}

static bool ends_in_continuation(const char *s, size_t n)
{
        size_t backslashes = 0;

        while (backslashes < n && s[n - 1 - backslashes] == '\\')
                backslashes++;
        return backslashes % 2 == 1;
}

/* One line of the file, without its end. Returns 1 where the next one continues it. */
static int take_line(Reading *r, const char *s, size_t n, unsigned line)
{
        PolicyPiece *pieces;
        size_t blank = 0;
        bool continued;

        if (!line_is_text(r, s, n, line)) {
                /* Half a value is worse than none. */
                buf_done(&r->text);
                r->n_pieces = 0;
                return 0;
        }
        while (blank < n && strchr(BLANKS, s[blank]))
                blank++;
        if (blank < n && strchr("#;", s[blank]))
                return r->n_pieces > 0;
        pieces = reallocarray(r->pieces, r->n_pieces + 1, sizeof(*pieces));
        if (!pieces)
                return -ENOMEM;
        r->pieces = pieces;
        pieces[r->n_pieces++] = (PolicyPiece){ r->text.size, line, (unsigned) blank + 1 };
        continued = ends_in_continuation(s, n);
        buf_append(&r->text, s + blank, n - blank - continued);
        if (continued)
                return buf_append(&r->text, " ", 1) < 0 ? -ENOMEM : 1;
        return end_line(r);
}

int policy_ini_read(
                const char *file, const char *text, size_t size, PolicyIni *ret, PolicyProblems *problems)
{
        _cleanup_(reading_done) Reading r = { .file = file, .problems = problems };
        unsigned line = 1;
        int k = 0;

        if (size > POLICY_FILE_SIZE_MAX) {
                policy_problem(problems, file, 1, 1, "the file is larger than %uK",
                                POLICY_FILE_SIZE_MAX / 1024);
                return 0;
        }
        if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
                policy_problem(problems, file, 1, 1,
                                "a byte order mark: the file must be saved without one");
                text += 3;
                size -= 3;
        }
        for (size_t at = 0; at < size; line++) {
                const char *end = memchr(text + at, '\n', size - at);
                size_t n = end ? (size_t) (end - text) - at : size - at;

                k = take_line(&r, text + at, n, line);
                if (k < 0)
                        return k;
                at += n + 1;
        }
        if (k > 0) {
                policy_problem(problems, file, r.pieces[r.n_pieces - 1].line,
                                r.pieces[r.n_pieces - 1].column,
                                "the last line is continued, but nothing follows");
                r.n_pieces = 0;
        }
        *ret = r.ini;
        r.ini = (PolicyIni){};
        return 0;
}
