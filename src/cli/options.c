/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <getopt.h>

#include "base/buf.h"
#include "base/strv.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/output.h"

enum { LONG_ONLY = 256, OPTIONS_MAX = 32 }; /* values of getopt above those of any letter */

static bool takes_value(const Option *o)
{
        return o->type == OPTION_STRING || o->type == OPTION_LIST;
}

static int build_letters(const Usage *u, char **ret)
{
        _cleanup_buf_ Buf b = {};

        buf_printf(&b, "%s:h", u->stop_at_first ? "+" : "");
        for (size_t i = 0; i < u->n_options; i++)
                if (u->options[i].letter)
                        buf_printf(&b, "%c%s", u->options[i].letter, takes_value(u->options + i) ? ":" : "");
        *ret = buf_take_string(&b);
        return *ret ? 0 : -ENOMEM;
}

static int value_of(const Option *o, int row)
{
        return o->letter ? o->letter : LONG_ONLY + row;
}

static const Option *find_row(const Usage *u, int value)
{
        for (size_t i = 0; i < u->n_options; i++)
                if (value_of(u->options + i, (int) i) == value)
                        return u->options + i;
        return NULL;
}

static int apply(const Option *o, const char *value, void *args)
{
        void *member = (char *) args + o->offset;

        switch (o->type) {
        case OPTION_SET:
        case OPTION_CLEAR:
                *(bool *) member = o->type == OPTION_SET;
                return 0;
        case OPTION_STRING:
                *(const char **) member = value;
                return 0;
        case OPTION_LIST:
                return strv_extend((char ***) member, value);
        }
        return -EINVAL;
}

static int refuse(const Usage *u, int c, char **argv, int bad_letter, Error **reterr)
{
        /* For a long option optopt is 0 (unknown) or its value (no argument given); for a letter it is the
         * letter. */
        const char *given = argv[optind - 1];
        _cleanup_free_ char *shown = NULL;

        if (bad_letter > 0 && bad_letter < LONG_ONLY && given[0] == '-' && given[1] != '-')
                shown = message_clean((const char[]){ '-', (char) bad_letter, 0 });
        else
                shown = message_clean(given);
        return error_set(reterr, -EINVAL,
                        c == ':' ? "option %s needs a value; see 'agentbox %s --help'"
                                 : "no such option: %s; see 'agentbox %s --help'",
                        shown ?: "?", u->verb);
}

static int check_count(const Usage *u, int n, Error **reterr)
{
        if (n < u->min)
                return error_set(reterr, -EINVAL, "too few arguments; usage: agentbox %s %s", u->verb,
                                u->synopsis);
        if (u->max >= 0 && n > u->max)
                return error_set(reterr, -EINVAL, "too many arguments; usage: agentbox %s %s", u->verb,
                                u->synopsis);
        return 0;
}

int options_parse(const Usage *u, int argc, char **argv, void *args, int *ret_first, Error **reterr)
{
        struct option names[OPTIONS_MAX + 2] = { { "help", no_argument, NULL, 'h' } };
        _cleanup_free_ char *letters = NULL;
        size_t n_names = 1;
        int c, r;

        if (u->n_options > OPTIONS_MAX)
                return error_set(reterr, -E2BIG, "too many options");
        for (size_t i = 0; i < u->n_options; i++)
                if (u->options[i].name)
                        names[n_names++] = (struct option){
                                u->options[i].name,
                                takes_value(u->options + i) ? required_argument : no_argument,
                                NULL,
                                value_of(u->options + i, (int) i),
                        };
        r = build_letters(u, &letters);
        if (r < 0)
                return error_set(reterr, r, "out of memory");

        optind = 0; /* makes getopt of glibc start anew */
        opterr = 0;
        while ((c = getopt_long(argc, argv, letters, names, NULL)) >= 0) {
                const Option *o;

                if (c == 'h') {
                        usage_print(u, stdout);
                        return 1;
                }
                if (c == '?' || c == ':')
                        return refuse(u, c, argv, optopt, reterr);
                o = find_row(u, c);
                r = o ? apply(o, optarg, args) : -EINVAL;
                if (r < 0)
                        return error_set(reterr, r, "cannot take option: %s", strerror(-r));
        }
        r = check_count(u, argc - optind, reterr);
        if (r < 0)
                return r;
        *ret_first = optind;
        return 0;
}

static void print_option(FILE *f, char letter, const char *name, const char *argument, const char *help)
{
        char left[64];
        const char *line = help;
        int n = 0;

        n += snprintf(left, sizeof(left), letter ? "-%c%s" : "  ", letter, letter && name ? ", " : "");
        if (name)
                n += snprintf(left + n, sizeof(left) - (size_t) n, "%s--%s", letter ? "" : "  ", name);
        if (argument)
                snprintf(left + n, sizeof(left) - (size_t) n, " %s", argument);
        /* A newline in the help text continues in the second column. */
        while (line) {
                const char *end = strchrnul(line, '\n');

                fprintf(f, "  %-26s %.*s\n", line == help ? left : "", (int) (end - line), line);
                line = *end ? end + 1 : NULL;
        }
}

void usage_print(const Usage *u, FILE *f)
{
        _cleanup_buf_ Buf text = {};

        fprintf(f, "agentbox %s %s\n\n", u->verb, u->synopsis);
        if (output_paragraphs(&text, u->description, 0, output_prose_width()) >= 0)
                fprintf(f, "%s\n", (const char *) text.data);
        for (size_t i = 0; i < u->n_options; i++)
                print_option(f, u->options[i].letter, u->options[i].name, u->options[i].argument,
                                u->options[i].help);
        print_option(f, 'h', "help", NULL, "show this text");
}
