/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/macro.h"

/* What a verb answers, on stdout: tables and texts for people, or JSON with one object a line. */

#define _cleanup_json_ _cleanup_(json_decrefp)

typedef enum Colour {
        COLOUR_NONE,
        COLOUR_BOLD,
        COLOUR_GREEN,
        COLOUR_YELLOW,
        COLOUR_RED,
        _COLOUR_MAX
} Colour;

/* The sequence that starts the colour, or "" where stdout is no terminal or NO_COLOR is set. */
const char *output_colour(Colour c);
const char *output_colour_end(Colour c);

/* Columns of the terminal that stdout is; 0 where it is none, and nothing has to fit. */
size_t output_width(void);

/* Whether that is too little for tables with many columns. */
bool output_is_narrow(void);

/* Cells row after row, columns to a row; they are owned by the table. */
enum { TABLE_COLUMNS_MAX = 12 };
typedef struct Table {
        size_t columns; /* at most TABLE_COLUMNS_MAX */
        char **cells;
        size_t n_cells;
} Table;

#define _cleanup_table_ _cleanup_(table_done)
void table_done(Table *t);
/* Takes the text over; NULL counts as "-". Control bytes are escaped. */
int table_add(Table *t, char *text);
/* The first row in bold. The last column may be as wide as it likes; on a terminal it is wrapped, within its column or, where
 * that is narrow, below the line; and where the others do not fit, the widest of them is cut. */
void table_print(const Table *t);

/* One line; text that is no ASCII is written as \u. Negative where stdout does not take it. */
int output_json(const json_t *value);
/* A JSON string of bytes that need not be UTF-8 (those that are not are shown as \xNN). */
json_t *output_json_bytes(const void *p, size_t n);
/* The text, which is safe to show, in lines of at most width columns, each indented. */
int output_wrap(Buf *out, const char *text, size_t indent, size_t width);
/* The same behind what stands on a line already, up to the column indent, where the further lines begin. Not wrapped where width
 * is 0 or leaves next to nothing. */
int output_wrap_behind(Buf *out, const char *text, size_t indent, size_t width);
/* Paragraphs, with an empty line between them; a single line break counts as a space. */
int output_paragraphs(Buf *out, const char *text, size_t indent, size_t width);
/* Columns for prose on whatever stdout is: of the terminal, as far as lines are good to read, else 80. */
size_t output_prose_width(void);
/* Negative errno where something of what was printed could not be written. */
int output_flush(void);

/* For people; newly allocated, NULL when out of memory: 35.2M, 1.25s or 3min 2s, local time. */
char *output_size(uint64_t bytes);
char *output_duration(uint64_t usec);
char *output_time(uint64_t usec_epoch);
/* The name of a user as this host has it now, or "uid 1234". Not safe to show. */
char *output_user(uint64_t uid);
