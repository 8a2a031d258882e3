/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "cli/audit-log.h"
#include "cli/client.h"
#include "cli/facts.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/verbs.h"

typedef struct DoctorArgs {
        bool json;
} DoctorArgs;

static const Option doctor_options[] = {
        { "json", 0, OPTION_SET, offsetof(DoctorArgs, json), NULL, "one JSON object a line" },
};

static const Usage doctor_usage = {
        .verb = "doctor",
        .synopsis = "[--json]",
        .description = "Checks what this host can enforce, by doing it: asks the broker for its checks and "
                       "for leftovers, then runs a\n"
                       "program that does nothing and shows which promises were verified. Exits with 0 "
                       "where all is well, with 1\n"
                       "where something cannot be enforced.",
        .options = doctor_options,
        .n_options = ELEMENTSOF(doctor_options),
};

#define OK "ok"
#define WARNING "warning"
#define FAILED "failed"

static int report(
                json_t *checks, const char *check, const char *status, const char *text, const char *advice)
{
        json_t *line = json_pack("{s:s,s:s,s:o,s:s}", "check", check, "status", status, "message",
                        output_json_bytes(text, strlen(text)), "advice", advice);

        return json_array_append_new(checks, line) < 0 ? -ENOMEM : 0;
}

static int check_journal(json_t *checks)
{
        _cleanup_audit_log_ AuditLog *j = NULL;
        _cleanup_error_ Error *e = NULL;
        int r = audit_open(NULL, 0, &j, &e);

        return r < 0 ? report(checks, "audit records can be read", WARNING, error_message(e, r),
                                       "needed for 'agentbox log' and 'why' alone")
                     : report(checks, "audit records can be read", OK, "the journal is readable", "");
}

/* The broker's own checks; where the caller may not have them, that is a warning: the probe below still
 * proves what counts. */
static int check_broker(sd_bus *bus, json_t *checks)
{
        _cleanup_json_ json_t *list = NULL;
        _cleanup_error_ Error *e = NULL;
        int r = client_doctor(bus, &list, &e);

        if (r >= 0)
                return json_array_extend(checks, list) < 0 ? -ENOMEM : 0;
        return report(checks, "the broker's checks", r == -EACCES || r == -EPERM ? WARNING : FAILED,
                        error_message(e, r), "run 'agentbox doctor' as root for the broker's checks");
}

/* Runs true(1) under a policy: every wall of that policy is built and verified. */
static int probe(json_t *checks, const char *policy)
{
        static char command[] = "true", *argv[] = { command, NULL };
        RunRequest q = { .policy = policy, .argv = argv, .silent = true };
        _cleanup_(run_result_done) RunResult result;
        _cleanup_error_ Error *e = NULL;
        _cleanup_free_ char *check = NULL, *verified = NULL, *text = NULL;
        int relay_error, r;

        run_result_init(&result);
        r = session_run(&q, &result, &relay_error, &e);
        if (asprintf(&check, "a run under policy %s", policy) < 0)
                return -ENOMEM;
        if (r < 0)
                return report(checks, check, FAILED, error_message(e, r),
                                "'agentbox log' has the broker's record of it");
        verified = strv_join(result.verified, ", ");
        if (run_result_exit_status(&result) != 0)
                return report(checks, check, FAILED, result.message ?: "its program did not exit with 0",
                                "'agentbox why' tells more");
        if (strv_length(result.verified) == 0)
                return report(checks, check, FAILED, "it ran, but nothing was verified",
                                "the broker is of another version");
        if (asprintf(&text, "verified: %s", verified) < 0)
                return -ENOMEM;
        return report(checks, check, OK, text, "");
}

static int run_checks(json_t *checks)
{
        _cleanup_bus_ sd_bus *bus = NULL;
        _cleanup_error_ Error *e = NULL;
        int r = client_connect(&bus, &e);

        if (r < 0)
                return report(checks, "the system bus", FAILED, error_message(e, r),
                                "agentbox needs dbus and systemd");
        r = report(checks, "the system bus", OK, "reachable", "");
        if (r >= 0)
                r = check_journal(checks);
        if (r >= 0)
                r = check_broker(bus, checks);
        if (r >= 0)
                r = probe(checks, "offline");
        return r < 0 ? r : probe(checks, "default");
}

static Colour colour_of(const char *status)
{
        return streq(status, OK) ? COLOUR_GREEN : streq(status, WARNING) ? COLOUR_YELLOW : COLOUR_RED;
}

static int print_check(const json_t *line)
{
        const char *status = facts_string(line, "status") ?: FAILED, *advice = facts_string(line, "advice");
        _cleanup_free_ char *check = message_clean(facts_string(line, "check") ?: "?");
        _cleanup_free_ char *text = message_clean(facts_string(line, "message") ?: "");
        _cleanup_free_ char *shown_advice = advice && *advice ? message_clean(advice) : NULL;
        Colour c = colour_of(status);

        if (!check || !text)
                return -ENOMEM;
        printf("%s%-8s%s %s%s%s\n", output_colour(c), status, output_colour_end(c), check, *text ? ": " : "",
                        text);
        if (shown_advice)
                printf("         %s\n", shown_advice);
        return 0;
}

int verb_doctor(int argc, char **argv)
{
        _cleanup_error_ Error *e = NULL;
        _cleanup_json_ json_t *checks = json_array();
        DoctorArgs args = {};
        bool failed = false;
        int first, r;

        r = options_parse(&doctor_usage, argc, argv, &args, &first, &e);
        if (r > 0)
                return 0;
        if (r >= 0)
                r = run_checks(checks);
        for (size_t i = 0; r >= 0 && i < json_array_size(checks); i++) {
                const json_t *line = json_array_get(checks, i);
                const char *status = facts_string(line, "status");

                failed = failed || !status || (!streq(status, OK) && !streq(status, WARNING));
                r = args.json ? output_json(line) : print_check(line);
        }
        return r < 0 ? message_failure(e, r) : failed ? 1 : 0;
}
