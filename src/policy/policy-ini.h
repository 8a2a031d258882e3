/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stddef.h>

#include "policy/policy-problems.h"

/* The form of the files, as systemd's: sections, KEY=VALUE, comments, continued lines. No word of what the
 * keys mean. */

#define POLICY_FILE_SIZE_MAX (256u * 1024)
#define POLICY_LINE_MAX 4096u
#define POLICY_VALUE_MAX 65536u

/* From which byte of a value on it stands where in the file: one piece for each line that it was continued
 * over. */
typedef struct PolicyPiece {
        size_t offset;
        unsigned line, column;
} PolicyPiece;

typedef struct PolicyLine {
        char *section;         /* NULL: before the first section */
        char *key;             /* NULL: this line is the section's header */
        char *value;           /* without blanks around it */
        unsigned line, column; /* of the key or section name */
        PolicyPiece *pieces;
        size_t n_pieces;
} PolicyLine;

typedef struct PolicyIni {
        PolicyLine *lines;
        size_t n;
} PolicyIni;

void policy_ini_done(PolicyIni *ini);
#define _cleanup_ini_ _cleanup_(policy_ini_done)

/* Reads what can be read; everything else is noted in problems. -ENOMEM leaves *ret as it was. */
int policy_ini_read(
                const char *file, const char *text, size_t size, PolicyIni *ret, PolicyProblems *problems);
/* Where byte offset of the value stands. */
void policy_line_position(const PolicyLine *l, size_t offset, unsigned *ret_line, unsigned *ret_column);
