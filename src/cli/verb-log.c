/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli/audit-log.h"
#include "cli/audit.h"
#include "cli/facts.h"
#include "cli/find-run.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/run-output.h"
#include "cli/since.h"
#include "cli/timeline.h"
#include "cli/verbs.h"

typedef struct LogArgs {
        bool follow, denied, json, output;
        const char *since;
} LogArgs;

static const Option log_options[] = {
        { "follow", 'f', OPTION_SET, offsetof(LogArgs, follow), NULL,
                        "go on with new records as they come" },
        { "denied", 0, OPTION_SET, offsetof(LogArgs, denied), NULL, "only what was denied or refused" },
        { "since", 0, OPTION_STRING, offsetof(LogArgs, since), "TIME",
                        "from TIME on: 1h, today, 14:30, 2025-01-31" },
        { "output", 0, OPTION_SET, offsetof(LogArgs, output), NULL,
                        "what the detached run RUN has printed, instead" },
        { "json", 0, OPTION_SET, offsetof(LogArgs, json), NULL, "one JSON object a line, with all fields" },
};

static const Usage log_usage = {
        .verb = "log",
        .synopsis = "[RUN] [-f] [--denied | --output] [--since TIME] [--json]",
        .description = "Shows the audit records of a run, or of all, oldest first: time, event, who, what, "
                       "verdict. Equal denials\n"
                       "in a row are one line with their count; --json has each record. Only records that "
                       "the broker and the\nwardens wrote themselves are shown, whatever else is in the journal.\n\n"
                       "With --output, shows what a detached run has printed: byte for byte, each stream on its own\n"
                       "one; on a terminal, what the terminal would obey is shown instead.",
        .options = log_options,
        .n_options = ELEMENTSOF(log_options),
        .min = 0,
        .max = 1,
};

static int show(Buf *text)
{
        size_t n = text->size;
        int r = text->error;

        if (r >= 0 && n > 0 && fwrite(text->data, 1, n, stdout) != n)
                r = -EIO;
        buf_done(text);
        return r;
}

static int print_record(const json_t *record, const LogArgs *args, Timeline *t, Buf *text)
{
        if (args->json)
                return output_json(record);
        return args->output ? run_output_print(record) : timeline_take(t, record, text);
}

/* All that there are now. */
static int print_records(AuditLog *l, const LogArgs *args, Timeline *t)
{
        _cleanup_buf_ Buf text = {};
        int r;

        for (;;) {
                _cleanup_json_ json_t *record = NULL;

                r = audit_next(l, &record);
                if (r <= 0)
                        break;
                if (args->denied && !audit_event_denies(facts_string(record, "AGENTBOX_EVENT")))
                        continue;
                r = print_record(record, args, t, &text);
                if (r >= 0)
                        r = show(&text);
                if (r < 0)
                        return r;
        }
        if (r >= 0)
                r = timeline_flush(t, &text);
        if (r >= 0)
                r = show(&text);
        return r < 0 ? r : output_flush();
}

static int log_records(const char *run, const LogArgs *args, Error **reterr)
{
        _cleanup_audit_log_ AuditLog *l = NULL;
        _cleanup_timeline_ Timeline t = { .all_runs = !run, .width = output_width() };
        _cleanup_free_ char *id = NULL;
        uint64_t since = 0;
        int r = 0;

        if (args->since && since_parse(args->since, (uint64_t) time(NULL) * 1000000, &since) < 0)
                return error_set(reterr, -EINVAL,
                                "--since: not a time: %s; give 1h, today, 14:30, 2025-01-31 or \"2025-01-31 "
                                "14:30\"",
                                args->since);
        if (args->output && (!run || args->denied))
                return error_set(reterr, -EINVAL, "--output: %s",
                                run ? "it has nothing to do with --denied" : "of which run? give its id");
        if (run)
                r = find_run_in_journal(run, &id, reterr);
        if (r >= 0)
                r = audit_log_open(
                                &(JournalQuery){
                                                .kind = args->output ? JOURNAL_OUTPUT : JOURNAL_AUDIT,
                                                .follow = args->follow,
                                                .since = since,
                                                .run = id ?: (char *) "",
                                },
                                &l, reterr);
        if (r < 0)
                return r;
        for (;;) {
                r = print_records(l, args, &t);
                if (r >= 0 && args->follow)
                        r = audit_log_wait(l);
                if (r < 0)
                        return error_set(reterr, r, "cannot show the journal: %s", audit_log_error(l, r));
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
