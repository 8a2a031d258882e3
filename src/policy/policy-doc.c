/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdio.h>

#include "policy/policy-keys.h"

/* Run at build time: prints the section of agentbox.policy(5) that describes the keys, in roff, from the
 * table. */

static const char *const type_syntax[] = {
        [POLICY_TYPE_STRING] = "TEXT",
        [POLICY_TYPE_LIST] = "ITEM...",
        [POLICY_TYPE_SIZE] = "SIZE",
        [POLICY_TYPE_TIME] = "TIME",
        [POLICY_TYPE_PERCENT] = "PERCENT",
        [POLICY_TYPE_NUMBER] = "NUMBER",
        [POLICY_TYPE_BOOL] = "yes|no",
        [POLICY_TYPE_ENUM] = "NAME",
};

/* Roff takes a period or quote at the start of a line for a request, and backslashes for escapes everywhere.
 */
static void roff_text(const char *s)
{
        if (*s == '.' || *s == '\'')
                fputs("\\&", stdout);
        for (; *s; s++)
                if (*s == '\\')
                        fputs("\\e", stdout);
                else if (*s == '-')
                        fputs("\\-", stdout);
                else if (*s == '"')
                        fputs("\\(dq", stdout);
                else
                        putchar(*s);
}

static void print_syntax(const PolicyKeyInfo *k)
{
        fputs("\\fI", stdout);
        if (k->type == POLICY_TYPE_ENUM)
                for (size_t i = 0; i < k->n_names; i++) {
                        if (i > 0)
                                putchar('|');
                        roff_text(k->names[i]);
                }
        else
                roff_text(k->syntax ? k->syntax : type_syntax[k->type]);
        fputs("\\fR\n", stdout);
}

static void print_key(const PolicyKeyInfo *k)
{
        printf(".TP\n\\fB%s=\\fR", k->name);
        print_syntax(k);
        roff_text(k->doc);
        putchar('\n');
        if (k->fallback) {
                fputs("Default: ", stdout);
                roff_text(k->fallback);
                fputs(".\n", stdout);
        } else {
                fputs("Not set by default.\n", stdout);
        }
        if (k->merge == POLICY_MERGE_APPEND)
                fputs("May be given several times; the items add up.\n", stdout);
        puts(policy_order_texts[k->order]);
        if (k->pending) {
                fputs("In this version: ", stdout);
                roff_text(k->pending);
                fputs(".\n", stdout);
        }
}

int main(void)
{
        const char *section = "";

        for (int k = 0; k < _POLICY_KEY_MAX; k++) {
                if (!streq(section, policy_keys[k].section)) {
                        section = policy_keys[k].section;
                        printf(".SH [%s]\n", section);
                }
                print_key(policy_keys + k);
        }
        return ferror(stdout) || fflush(stdout) != 0;
}
