/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "cli/client.h"
#include "cli/facts.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/verbs.h"

typedef struct PsArgs {
        bool json;
} PsArgs;

static const Option ps_options[] = {
        { "json", 0, OPTION_SET, offsetof(PsArgs, json), NULL, "one JSON object a line" },
};

static const Usage ps_usage = {
        .verb = "ps",
        .synopsis = "[--json]",
        .description = "Lists the runs there are now: your own, and everybody's where polkit lets you see "
                       "them.",
        .options = ps_options,
        .n_options = ELEMENTSOF(ps_options),
};

typedef enum ColumnType { COLUMN_TEXT, COLUMN_SIZE, COLUMN_DURATION, COLUMN_NUMBER, COLUMN_AGE, COLUMN_USER } ColumnType;

static const struct {
        const char *title, *fact;
        ColumnType type;
        bool wide; /* where there is room: "agentbox show" has it, too */
} columns[] = {
        { "RUN", "run", COLUMN_TEXT, false },
        { "NAME", "name", COLUMN_TEXT, false },
        { "POLICY", "policy", COLUMN_TEXT, false },
        { "STATE", "state", COLUMN_TEXT, false },
        { "CALLER", "caller_uid", COLUMN_USER, false },
        { "AGE", "started", COLUMN_AGE, false },
        { "CPU", "cpu_usec", COLUMN_DURATION, true },
        { "MEMORY", "memory", COLUMN_SIZE, false },
        { "TASKS", "tasks", COLUMN_NUMBER, true },
        { "COMMAND", "command", COLUMN_TEXT, false },
};

static char *format_number(uint64_t v)
{
        char *s;

        return asprintf(&s, "%llu", (unsigned long long) v) < 0 ? NULL : s;
}

static char *format_cell(const json_t *facts, const char *fact, ColumnType type, uint64_t now)
{
        uint64_t v = facts_u64(facts, fact);
        const char *s = facts_string(facts, fact);

        if (type == COLUMN_TEXT)
                return s && *s ? strdup(s) : NULL;
        if (v == UINT64_MAX)
                return NULL;
        switch (type) {
        case COLUMN_SIZE:
                return output_size(v);
        case COLUMN_DURATION:
                return output_duration(v);
        case COLUMN_USER:
                return output_user(v);
        case COLUMN_AGE:
                return output_duration(now > v ? (now - v) / 1000000 * 1000000 : 0);
        default:
                return format_number(v);
        }
}

static int print_table(const json_t *list)
{
        _cleanup_table_ Table t = {};
        uint64_t now = (uint64_t) time(NULL) * 1000000;
        bool narrow = output_is_narrow();
        int r = 0;

        for (size_t c = 0; r >= 0 && c < ELEMENTSOF(columns); c++)
                if (!narrow || !columns[c].wide) {
                        r = table_add(&t, strdup(columns[c].title));
                        t.columns++;
                }
        for (size_t i = 0; i < json_array_size(list); i++)
                for (size_t c = 0; r >= 0 && c < ELEMENTSOF(columns); c++)
                        if (!narrow || !columns[c].wide)
                                r = table_add(&t, format_cell(json_array_get(list, i), columns[c].fact, columns[c].type, now));
        if (r >= 0)
                table_print(&t);
        return r;
}

static int print_json(const json_t *list)
{
        for (size_t i = 0; i < json_array_size(list); i++) {
                _cleanup_json_ json_t *facts = facts_complete(json_array_get(list, i));
                int r = output_json(facts);

                if (r < 0)
                        return r;
        }
        return 0;
}

/* The broker still knows runs that ended lately, for wait and show; here only what runs is meant. */
static void drop_ended(json_t *list)
{
        for (size_t i = json_array_size(list); i > 0; i--) {
                const char *state = facts_string(json_array_get(list, i - 1), "state");

                if (state && streq(state, "ended"))
                        json_array_remove(list, i - 1);
        }
}

int verb_ps(int argc, char **argv)
{
        _cleanup_error_ Error *e = NULL;
        _cleanup_bus_ sd_bus *bus = NULL;
        _cleanup_json_ json_t *list = NULL;
        PsArgs args = {};
        int first, r;

        r = options_parse(&ps_usage, argc, argv, &args, &first, &e);
        if (r > 0)
                return 0;
        if (r >= 0)
                r = client_connect(&bus, &e);
        if (r >= 0)
                r = client_list_runs(bus, &list, &e);
        if (r >= 0) {
                drop_ended(list);
                r = args.json ? print_json(list) : print_table(list);
        }
        return r < 0 ? message_failure(e, r) : 0;
}
