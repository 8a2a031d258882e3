/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"

/* The command line of one verb: each option is a row, and the parser and --help derive from it. */

typedef enum OptionType {
        OPTION_SET,    /* bool: becomes true */
        OPTION_CLEAR,  /* bool: becomes false */
        OPTION_STRING, /* const char *: the last one wins */
        OPTION_LIST,   /* char **: appended, owned by the arguments */
} OptionType;

typedef struct Option {
        const char *name; /* long name, or NULL */
        char letter;      /* or 0 */
        OptionType type;
        size_t offset;        /* of the member in the verb's arguments */
        const char *argument; /* what --help calls the value; NULL where it takes none */
        const char *help;
} Option;

typedef struct Usage {
        const char *verb;
        const char *synopsis; /* what follows "agentbox VERB " */
        const char *description;
        const Option *options;
        size_t n_options;
        int min, max;       /* positional arguments; max -1: any number */
        bool stop_at_first; /* what follows the first positional argument is not ours to read */
} Usage;

/* argv[0] is the verb. Fills the members of args that options name. 0 and the index of the first positional
 * argument, 1 where
 * --help was asked for and answered on stdout, or -EINVAL. */
int options_parse(const Usage *usage, int argc, char **argv, void *args, int *ret_first, Error **reterr);
void usage_print(const Usage *usage, FILE *f);
