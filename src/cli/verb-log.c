/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/parse.h"
#include "cli/audit.h"
#include "cli/facts.h"
#include "cli/find-run.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/since.h"
#include "cli/verbs.h"

typedef struct LogArgs {
        bool follow, denied, json;
        const char *since;
} LogArgs;

static const Option log_options[] = {
        { "follow", 'f', OPTION_SET, offsetof(LogArgs, follow), NULL,
                        "go on with new records as they come" },
        { "denied", 0, OPTION_SET, offsetof(LogArgs, denied), NULL, "only what was denied or refused" },
        { "since", 0, OPTION_STRING, offsetof(LogArgs, since), "TIME",
                        "from TIME on: 1h, today, 14:30, 2025-01-31" },
        { "json", 0, OPTION_SET, offsetof(LogArgs, json), NULL, "one JSON object a line, with all fields" },
};

static const Usage log_usage = {
        .verb = "log",
        .synopsis = "[RUN] [-f] [--denied] [--since TIME] [--json]",
        .description = "Shows the audit records of a run, or of all, oldest first: time, run, event, what "
                       "happened. Only records\n"
                       "that the broker and the wardens wrote themselves are shown, whatever else is in the "
                       "journal.",
        .options = log_options,
        .n_options = ELEMENTSOF(log_options),
        .min = 0,
        .max = 1,
};

static Colour colour_of(const json_t *record)
{
        const char *priority = facts_string(record, "PRIORITY");
        const char *event = facts_string(record, "AGENTBOX_EVENT");

        if (priority && priority[0] >= '0' && priority[0] <= '4')
                return COLOUR_RED;
        return event && audit_event_denies(event) ? COLOUR_YELLOW : COLOUR_NONE;
}

static int print_line(const json_t *record)
{
        const char *run = facts_string(record, "AGENTBOX_RUN_ID"),
                   *event = facts_string(record, "AGENTBOX_EVENT");
        const char *text = facts_string(record, "MESSAGE"),
                   *realtime = facts_string(record, "__REALTIME_TIMESTAMP");
        _cleanup_free_ char *when = NULL, *shown_run = message_clean(run ?: "-"),
                            *shown_text = message_clean(text ?: "");
        Colour c = colour_of(record);
        uint64_t usec;

        if (realtime && parse_u64(realtime, &usec) >= 0)
                when = output_time(usec);
        if (!shown_run || !shown_text)
                return -ENOMEM;
        return printf("%s  %-10s  %s%-14s%s  %s\n", when ?: "-", shown_run, output_colour(c), event,
                               output_colour_end(c), shown_text) < 0
                               ? -EIO
                               : 0;
}

static int print_records(sd_journal *j, const LogArgs *args)
{
        int r;

        for (;;) {
                _cleanup_json_ json_t *record = NULL;

                r = audit_next(j, &record);
                if (r <= 0)
                        return r < 0 ? r : output_flush();
                if (args->denied && !audit_event_denies(facts_string(record, "AGENTBOX_EVENT")))
                        continue;
                r = args->json ? output_json(record) : print_line(record);
                if (r < 0)
                        return r;
        }
}

static int log_records(const char *run, const LogArgs *args, Error **reterr)
{
        _cleanup_journal_ sd_journal *j = NULL;
        _cleanup_free_ char *id = NULL;
        uint64_t since = 0;
        int r = 0;

        if (args->since && since_parse(args->since, (uint64_t) time(NULL) * 1000000, &since) < 0)
                return error_set(reterr, -EINVAL,
                                "--since: not a time: %s; give 1h, today, 14:30, 2025-01-31 or \"2025-01-31 "
                                "14:30\"",
                                args->since);
        if (run)
                r = find_run_in_journal(run, &id, reterr);
        if (r >= 0)
                r = audit_open(id, since, &j, reterr);
        if (r < 0)
                return r;
        for (;;) {
                r = print_records(j, args);
                if (r >= 0 && args->follow)
                        r = sd_journal_wait(j, UINT64_MAX);
                if (r < 0)
                        return error_set(reterr, r, "cannot show the journal: %s", strerror(-r));
                if (!args->follow)
                        return 0;
        }
}

int verb_log(int argc, char **argv)
{
        _cleanup_error_ Error *e = NULL;
        LogArgs args = {};
        int first, r;

        r = options_parse(&log_usage, argc, argv, &args, &first, &e);
        if (r > 0)
                return 0;
        if (r >= 0)
                r = log_records(argv[first], &args, &e);
        return r < 0 ? message_failure(e, r) : 0;
}
