/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Everything that is wrong with a policy's files, collected so that a person sees all of it at once. */

typedef struct PolicyProblem {
        char *file;
        unsigned line, column; /* from 1; 0: the file as a whole */
        char *text;
} PolicyProblem;

typedef struct PolicyProblems {
        PolicyProblem *items;
        size_t n;
        size_t dropped; /* over the bound: a broken file of a megabyte must not become a message of many */
        bool out_of_memory;
} PolicyProblems;

void policy_problems_done(PolicyProblems *p);
#define _cleanup_problems_ _cleanup_(policy_problems_done)

/* Takes a note. file may be NULL (a value given on the command line: no position); its bytes and those of
 * the text are made safe to show. */
void policy_problem(PolicyProblems *p, const char *file, unsigned line, unsigned column, const char *format,
                ...) _printf_(5, 6);

/* 0 where nothing is wrong; else -EINVAL and one line each, in the order of the files and of their lines; or
 * -ENOMEM. */
int policy_problems_to_error(PolicyProblems *p, Error **reterr);
