/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>

#include "cli/client.h"
#include "cli/facts.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/verbs.h"

typedef struct ShowArgs {
        bool json;
} ShowArgs;

static const Option show_options[] = {
        { "json", 0, OPTION_SET, offsetof(ShowArgs, json), NULL, "one JSON object" },
};

static const Usage show_usage = {
        .verb = "show",
        .synopsis = "RUN [--json]",
        .description = "Shows one run, by its id, the beginning of its id, or its name: its policy and "
                       "limits, what it uses, what\n"
                       "was verified before it began, and how it ended if it has.",
        .options = show_options,
        .n_options = ELEMENTSOF(show_options),
        .min = 1,
        .max = 1,
};

/* How to write a fact for people, and how to call it. One that is not in the table is written as it is. */
typedef char *(*Format)(uint64_t);
static const struct {
        const char *fact;
        Format format;
        const char *label;
} formats[] = {
        { "caller_uid", output_user, "caller" },
        { "started", output_time, NULL },
        { "ended", output_time, NULL },
        { "wall_usec", output_duration, "wall time" },
        { "cpu_usec", output_duration, "cpu time" },
        { "memory", output_size, NULL },
        { "memory_peak", output_size, NULL },
        { "egress_bytes", output_size, "bytes sent" },
        { "ingress_bytes", output_size, "bytes received" },
        { "output_limit", output_size, NULL },
        { "egress_denied_to", NULL, "denied to" },
        { "syscalls_denied", NULL, "calls denied" },
};

/* With more, a digest would have no room on 80 columns. */
enum { LABEL_WIDTH = 14 };

static char *format_integer(const char *name, json_int_t v)
{
        char *s;

        for (size_t i = 0; i < ELEMENTSOF(formats); i++)
                if (streq(formats[i].fact, name) && formats[i].format && v >= 0)
                        return formats[i].format((uint64_t) v);
        return asprintf(&s, "%lld", (long long) v) < 0 ? NULL : s;
}

static char *format_array(const json_t *array)
{
        _cleanup_strv_ char **l = NULL;

        for (size_t i = 0; i < json_array_size(array); i++) {
                const char *s = json_string_value(json_array_get(array, i));

                if (s && strv_extend(&l, s) < 0)
                        return NULL;
        }
        return strv_join(l, ", ");
}

static char *format_fact(const char *name, const json_t *value)
{
        if (json_is_string(value))
                return strdup(json_string_value(value));
        if (json_is_boolean(value))
                return strdup(json_is_true(value) ? "yes" : "no");
        if (json_is_integer(value))
                return format_integer(name, json_integer_value(value));
        if (json_is_array(value))
                return format_array(value);
        return NULL;
}

/* "policy_digest" is a "policy digest". */
static char *label_of(const char *name)
{
        char *s;

        for (size_t i = 0; i < ELEMENTSOF(formats); i++)
                if (streq(formats[i].fact, name) && formats[i].label)
                        return strdup(formats[i].label);
        s = strdup(name);
        for (char *c = s; c && *c; c++)
                if (*c == '_')
                        *c = ' ';
        return s;
}

static int print_facts(json_t *facts)
{
        const char *name;
        json_t *value;

        json_object_foreach(facts, name, value)
        {
                _cleanup_free_ char *text = format_fact(name, value),
                                    *shown = text ? message_clean(text) : NULL, *label = label_of(name);
                _cleanup_buf_ Buf line = {};

                if (!label)
                        return -ENOMEM;
                if (!shown || !*shown)
                        continue;
                if (output_wrap_behind(&line, shown, MAX2((size_t) LABEL_WIDTH, strlen(label)) + 2, output_width()) < 0)
                        return -ENOMEM;
                printf("%*s: %s", LABEL_WIDTH, label, (const char *) line.data);
        }
        return 0;
}

int verb_show(int argc, char **argv)
{
        _cleanup_error_ Error *e = NULL;
        _cleanup_bus_ sd_bus *bus = NULL;
        _cleanup_json_ json_t *facts = NULL, *complete = NULL;
        _cleanup_free_ char *id = NULL;
        ShowArgs args = {};
        int first, r;

        r = options_parse(&show_usage, argc, argv, &args, &first, &e);
        if (r > 0)
                return 0;
        if (r >= 0)
                r = client_connect_for(argv[first], &bus, &id, &e);
        if (r >= 0)
                r = client_get_run(bus, id, &facts, &e);
        if (r >= 0) {
                complete = facts_complete(facts);
                r = complete ? 0 : -ENOMEM;
        }
        if (r >= 0)
                r = args.json ? output_json(complete) : print_facts(complete);
        return r < 0 ? message_failure(e, r) : 0;
}
