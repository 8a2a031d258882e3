/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/strv.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/package-indexes.h"
#include "cli/verbs.h"
#include "policy/policy-explain.h"
#include "policy/policy-keys.h"
#include "policy/policy-suggest.h"
#include "policy/policy-value.h"
#include "policy/policy.h"

/* agentbox policy ...: reads the policies of this machine as the broker would, with the caller's own rights,
 * and starts nothing. */

enum { EXIT_DIFFERENT = 1, EXIT_INVALID = 1 };

typedef struct PolicyArgs {
        bool json, drop_in;
} PolicyArgs;

static const Option json_option[] = {
        { "json", 0, OPTION_SET, offsetof(PolicyArgs, json), NULL, "one JSON object a line" },
};

static const Option drop_in_option[] = {
        { "drop-in", 0, OPTION_SET, offsetof(PolicyArgs, drop_in), NULL,
                        "as a file for POLICY.policy.d, with what has to be decided as comments" },
};

/* Prints, and turns a stdout that takes no more into a failure. */
static int finish(int status)
{
        int r = output_flush();

        return r < 0 ? message_failure(NULL, r) : status;
}

/* Loads the policy so that it can be shown. *ret_whole says whether it is one that could be run: where only
 * a set is missing, the policy is shown with the set's name in it and the error on stderr. */
static int load_shown(const char *name, Policy **ret, bool *ret_whole, Error **reterr)
{
        _cleanup_error_ Error *e = NULL;
        int r = policy_load(name, NULL, NULL, ret, &e);

        *ret_whole = r >= 0;
        if (r >= 0)
                return 0;
        if (policy_load_for_display(name, NULL, NULL, ret, NULL) >= 0) {
                message("%s", e->message);
                return 0;
        }
        *reterr = TAKE_PTR(e);
        return r;
}

enum { LIST_COLUMNS = 4, LIST_FILE = 2 };

/* One row of the list: name, file, egress, description, or what is wrong. */
static int list_one(const char *name, Table *t)
{
        _cleanup_policy_ Policy *p = NULL;
        _cleanup_error_ Error *e = NULL;
        _cleanup_free_ char *path = NULL;
        const char *text = NULL, *egress = NULL;
        int r = policy_load(name, NULL, NULL, &p, &e);
        int whole = r >= 0;

        if (!whole && policy_load_for_display(name, NULL, NULL, &p, NULL) >= 0)
                text = "not usable: a set that it names is missing; see \"agentbox policy show\"";
        else if (!whole)
                text = "not valid; see \"agentbox policy check\"";
        else
                text = policy_string(p, POLICY_DESCRIPTION);
        if (p)
                egress = policy_keys[NETWORK_EGRESS].names[policy_u64(p, NETWORK_EGRESS)];
        r = policy_find(name, NULL, &path);
        if (r >= 0)
                r = table_add(t, strdup(name));
        if (r >= 0)
                r = table_add(t, egress ? strdup(egress) : NULL);
        if (r >= 0 && t->columns == LIST_COLUMNS)
                r = table_add(t, TAKE_PTR(path));
        if (r >= 0)
                r = table_add(t, text ? strdup(text) : NULL);
        return r < 0 ? r : whole;
}

static int policy_list_verb(const PolicyArgs *args, char **argv)
{
        static const char *const heads[LIST_COLUMNS] = { "POLICY", "EGRESS", "FILE", "DESCRIPTION" };
        /* Where it is, "agentbox policy explain" says as well. */
        bool narrow = output_is_narrow();
        _cleanup_table_ Table t = { .columns = narrow ? LIST_COLUMNS - 1 : LIST_COLUMNS };
        _cleanup_strv_ char **names = NULL;
        int r = policy_list_names(NULL, &names);

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(heads); i++)
                r = narrow && i == LIST_FILE ? 0 : table_add(&t, strdup(heads[i]));
        STRV_FOREACH(i, names) {
                if (r < 0)
                        break;
                r = list_one(*i, &t);
        }
        if (r < 0)
                return message_failure(NULL, r);
        table_print(&t);
        return finish(EXIT_SUCCESS);
}

static int policy_show_verb(const PolicyArgs *args, char **argv)
{
        _cleanup_policy_ Policy *p = NULL;
        _cleanup_error_ Error *e = NULL;
        _cleanup_free_ char *text = NULL;
        bool whole;
        int r = load_shown(argv[0], &p, &whole, &e);

        if (r < 0)
                return message_failure(e, r);
        text = policy_to_text(p);
        if (!text)
                return message_failure(NULL, -ENOMEM);
        fputs(text, stdout);
        return finish(whole ? EXIT_SUCCESS : EXIT_INVALID);
}

static bool ends_in(const char *s, const char *suffix)
{
        size_t n = strlen(s), m = strlen(suffix);

        return n >= m && streq(s + n - m, suffix);
}

/* Every problem of every file, on stdout: they are what was asked for, in the form that editors read. */
static int policy_check_verb(const PolicyArgs *args, char **argv)
{
        int status = EXIT_SUCCESS;

        STRV_FOREACH(file, argv) {
                _cleanup_policy_ Policy *p = NULL;
                _cleanup_error_ Error *e = NULL;
                int r = ends_in(*file, ".list")   ? policy_check_set_file(*file, &e)
                        : ends_in(*file, ".conf") ? policy_check_drop_in(*file, &e)
                                                  : policy_load_file(*file, NULL, NULL, &p, &e);
                if (r >= 0)
                        continue;
                status = EXIT_INVALID;
                puts(error_message(e, r));
        }
        return finish(status);
}

/* Lists of hundreds of names are for --json. */
static void print_shortened(const char *s)
{
        enum { SHOWN = 160, HANGING = 6 };
        size_t n = strlen(s), cut = SHOWN, more = 0;
        _cleanup_free_ char *text = NULL;
        _cleanup_buf_ Buf b = {};

        while (cut > 0 && n > SHOWN + 40 && s[cut] != ' ')
                cut--;
        for (const char *c = n > SHOWN + 40 ? s + cut : ""; *c && *c != ';'; c++)
                more += *c == ' ';
        if (n <= SHOWN + 40)
                text = strdup(s);
        else if (asprintf(&text, "%.*s and %zu more%s", (int) cut, s, more, strchrnul(s, ';')) < 0)
                text = NULL;
        if (text && output_wrap_behind(&b, text, HANGING, output_width()) >= 0)
                printf("    %s", (const char *) b.data);
}

static void print_explanation(PolicyKey key, const PolicyExplanation *x)
{
        const PolicyKeyInfo *k = policy_keys + key;

        if (!x->values)
                printf("%s%s.%s%s  (not set)\n", output_colour(COLOUR_BOLD), k->section, k->name,
                                output_colour_end(COLOUR_BOLD));
        for (size_t i = 0; x->values && x->values[i]; i++)
                printf("%s%s.%s%s=%s  (%s)\n", output_colour(COLOUR_BOLD), k->section, k->name,
                                output_colour_end(COLOUR_BOLD), x->values[i], x->sources[i]);
        STRV_FOREACH(i, x->enforced)
                print_shortened(*i);
}

static json_t *json_strings(char *const *l)
{
        json_t *a = json_array();

        STRV_FOREACH(i, l)
                json_array_append_new(a, output_json_bytes(*i, strlen(*i)));
        return a;
}

static int print_explanation_json(PolicyKey key, const PolicyExplanation *x)
{
        const PolicyKeyInfo *k = policy_keys + key;
        bool list = k->type == POLICY_TYPE_LIST;
        _cleanup_json_ json_t *o = json_object();

        json_object_set_new(o, "section", json_string(k->section));
        json_object_set_new(o, "key", json_string(k->name));
        if (list) {
                json_object_set_new(o, "value", json_strings(x->values));
                json_object_set_new(o, "source", json_strings(x->sources));
        } else {
                json_object_set_new(o, "value", x->values ? json_string(x->values[0]) : json_null());
                json_object_set_new(o, "source", x->sources ? json_string(x->sources[0]) : json_null());
        }
        json_object_set_new(o, "enforced_by", json_strings(x->enforced));
        json_object_set_new(o, "documentation", json_string(k->doc));
        return o ? output_json(o) : -ENOMEM;
}

static int policy_explain_verb(const PolicyArgs *args, char **argv)
{
        _cleanup_(unit_props_done) UnitProps props = {};
        _cleanup_policy_ Policy *p = NULL;
        _cleanup_error_ Error *e = NULL, *refused = NULL;
        bool whole, enforceable;
        int r = load_shown(argv[0], &p, &whole, &e);

        if (r < 0)
                return message_failure(e, r);
        enforceable = policy_explain_props(p, &props, &refused) >= 0;
        for (int k = 0; k < _POLICY_KEY_MAX; k++) {
                _cleanup_explanation_ PolicyExplanation x = {};

                r = policy_explain_key(p, k, enforceable ? &props : NULL, &x);
                if (r >= 0 && args->json)
                        r = print_explanation_json(k, &x);
                else if (r >= 0)
                        print_explanation(k, &x);
                if (r < 0)
                        return message_failure(NULL, r);
        }
        if (!enforceable && whole)
                message("this version would refuse to run it:\n%s", error_message(refused, -EINVAL));
        return finish(whole ? EXIT_SUCCESS : EXIT_INVALID);
}

/* The lines of one key, for comparing. */
static int key_lines(const Policy *p, PolicyKey key, char ***ret)
{
        _cleanup_explanation_ PolicyExplanation x = {};
        int r = policy_explain_key(p, key, NULL, &x);

        if (r >= 0)
                *ret = TAKE_PTR(x.values);
        return r;
}

static void print_only_in(PolicyKey key, char *const *l, char *const *other, char sign, Colour colour)
{
        const PolicyKeyInfo *k = policy_keys + key;

        STRV_FOREACH(i, l)
                if (!strv_contains(other, *i))
                        printf("%s%c%s.%s=%s%s\n", output_colour(colour), sign, k->section, k->name, *i,
                                        output_colour_end(colour));
}

static int policy_diff_verb(const PolicyArgs *args, char **argv)
{
        _cleanup_policy_ Policy *a = NULL, *b = NULL;
        _cleanup_error_ Error *e = NULL;
        bool whole, different = false;
        int r = load_shown(argv[0], &a, &whole, &e);

        if (r >= 0)
                r = load_shown(argv[1], &b, &whole, &e);
        for (int k = 0; r >= 0 && k < _POLICY_KEY_MAX; k++) {
                _cleanup_strv_ char **left = NULL, **right = NULL;

                r = key_lines(a, k, &left);
                if (r >= 0)
                        r = key_lines(b, k, &right);
                /* The name of what was extended is no difference in what holds. */
                if (r < 0 || k == POLICY_EXTENDS)
                        continue;
                STRV_FOREACH(i, left)
                        different |= !strv_contains(right, *i);
                STRV_FOREACH(i, right)
                        different |= !strv_contains(left, *i);
                print_only_in(k, left, right, '-', COLOUR_RED);
                print_only_in(k, right, left, '+', COLOUR_GREEN);
        }
        if (r < 0)
                return message_failure(e, r);
        return finish(different ? EXIT_DIFFERENT : EXIT_SUCCESS);
}

static int policy_indexes_verb(const PolicyArgs *args, char **argv)
{
        _cleanup_strv_ char **rules = NULL, **proxies = NULL;
        int r = package_indexes("/", getenv("HOME"), &rules, &proxies);

        if (r < 0)
                return message_failure(NULL, r);
        STRV_FOREACH(i, rules)
                puts(*i);
        if (!rules)
                message("no pip, npm or apt here names a host");
        STRV_FOREACH(i, proxies)
                message("a proxy is in use here: %s. It is no rule, for it leads everywhere: name it in "
                        "/etc/agentbox/agentbox.conf (https_proxy=http://HOST:PORT), and runs go through it as their "
                        "rules say",
                                strchr(*i, ' ') + 1);
        return finish(EXIT_SUCCESS);
}

static int policy_learn_verb(const PolicyArgs *args, char **argv)
{
        return policy_learn(argv, args->drop_in);
}

typedef struct SubVerb {
        Usage usage;
        int (*run)(const PolicyArgs *args, char **argv);
} SubVerb;

static const SubVerb sub_verbs[] = {
        { .usage = { .verb = "policy list",
                          .synopsis = "",
                          .description = "The policies of this machine, where they are and what they are "
                                         "for." },
                        .run = policy_list_verb },
        { .usage = { .verb = "policy show",
                          .synopsis = "POLICY",
                          .description = "The effective policy, with what it extends and its drop-ins, as "
                                         "one text.",
                          .min = 1,
                          .max = 1 },
                        .run = policy_show_verb },
        { .usage = { .verb = "policy check",
                          .synopsis = "FILE...",
                          .description = "Everything that is wrong with these files, as FILE:LINE:COLUMN: "
                                         "message.\n"
                                         "FILE.conf is checked as a drop-in, FILE.list as a set of rules.\n"
                                         "Exit status 1 where something is wrong.",
                          .min = 1,
                          .max = -1 },
                        .run = policy_check_verb },
        { .usage = { .verb = "policy explain",
                          .synopsis = "[--json] POLICY",
                          .description = "Every key: its value, the file and line it came from, what "
                                         "enforces it.",
                          .options = json_option,
                          .n_options = ELEMENTSOF(json_option),
                          .min = 1,
                          .max = 1 },
                        .run = policy_explain_verb },
        { .usage = { .verb = "policy diff",
                          .synopsis = "POLICY POLICY",
                          .description = "The keys in which two policies differ. Exit status 1 where they "
                                         "do.",
                          .min = 2,
                          .max = 2 },
                        .run = policy_diff_verb },
        { .usage = { .verb = "policy indexes",
                          .synopsis = "",
                          .description = "The hosts that pip, npm and apt use here, as rules of Allow=, ready to "
                                         "be saved as\n"
                                         "package-index.list in the directory of sets. A host with a private address "
                                         "takes\nprivate=allow behind its rule." },
                        .run = policy_indexes_verb },
        { .usage = { .verb = "policy learn",
                          .synopsis = "[--drop-in] RUN...",
                          .description = "The lines that would have let these runs of one policy through, as a diff "
                                         "against it: the\nnarrowest first, and marked where a person has to decide. "
                                         "Nothing is changed.",
                          .options = drop_in_option,
                          .n_options = ELEMENTSOF(drop_in_option),
                          .min = 1,
                          .max = -1 },
                        .run = policy_learn_verb },
};

static void policy_usage(FILE *f)
{
        fputs("Usage: agentbox policy COMMAND ...\n\nCommands:\n", f);
        for (size_t i = 0; i < ELEMENTSOF(sub_verbs); i++) {
                const Usage *u = &sub_verbs[i].usage;
                _cleanup_buf_ Buf text = {};

                fprintf(f, "  %s %s\n", u->verb + strlen("policy "), u->synopsis);
                if (output_paragraphs(&text, u->description, 6, output_prose_width()) >= 0)
                        fputs((const char *) text.data, f);
        }
}

static int unknown_sub_verb(const char *name)
{
        const char *names[ELEMENTSOF(sub_verbs)], *near;

        for (size_t i = 0; i < ELEMENTSOF(sub_verbs); i++)
                names[i] = sub_verbs[i].usage.verb + strlen("policy ");
        near = policy_suggest(name, names, ELEMENTSOF(names));
        message("unknown command \"policy %s\"%s%s%s; see \"agentbox policy --help\"", name,
                        near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
        return EXIT_OURS;
}

int verb_policy(int argc, char **argv)
{
        PolicyArgs args = {};
        _cleanup_error_ Error *e = NULL;
        int r, first;

        if (argc < 2) {
                policy_usage(stderr);
                return EXIT_OURS;
        }
        if (streq(argv[1], "--help") || streq(argv[1], "-h")) {
                policy_usage(stdout);
                return finish(EXIT_SUCCESS);
        }
        for (size_t i = 0; i < ELEMENTSOF(sub_verbs); i++) {
                const SubVerb *v = sub_verbs + i;

                if (!streq(argv[1], v->usage.verb + strlen("policy ")))
                        continue;
                r = options_parse(&v->usage, argc - 1, argv + 1, &args, &first, &e);
                if (r < 0)
                        return message_failure(e, r);
                return r > 0 ? finish(EXIT_SUCCESS) : v->run(&args, argv + 1 + first);
        }
        return unknown_sub_verb(argv[1]);
}
