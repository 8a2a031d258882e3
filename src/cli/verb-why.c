/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>

#include "cli/audit-log.h"
#include "cli/facts.h"
#include "cli/find-run.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/own-addresses.h"
#include "cli/verbs.h"
#include "cli/why.h"

static const Usage why_usage = {
        .verb = "why",
        .synopsis = "RUN",
        .description = "Says from the audit records what ended a run and what it was denied, and the "
                       "smallest policy lines that would\n"
                       "allow it; or that nothing of agentbox stood in its way.",
        .min = 1,
        .max = 1,
};

static int read_records(const char *id, Why *w, Error **reterr)
{
        _cleanup_audit_log_ AuditLog *j = NULL;
        int r = audit_open(id, 0, &j, reterr);

        if (r < 0)
                return r;
        for (;;) {
                _cleanup_json_ json_t *record = NULL;

                r = audit_next(j, &record);
                if (r < 0)
                        return error_set(reterr, r, "cannot read the journal: %s", strerror(-r));
                if (r == 0)
                        return 0;
                if (why_take(w, record) < 0)
                        return error_set(reterr, -ENOMEM, "out of memory");
        }
}

/* "Allow=tls x.example:443", "--set Limits.Runtime=5s": to be copied as it is. */
static bool is_policy_line(const char *text)
{
        size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");

        return *text == '[' || (n > 0 && text[n] == '=') || startswith(text, "--");
}

/* On a terminal its sentences are wrapped, each within its indentation. */
static void print_lines(char *text)
{
        size_t width = output_width();

        for (char *line; text && *text && (line = strsep(&text, "\n"));) {
                size_t indent = strspn(line, " ");
                _cleanup_buf_ Buf b = {};

                if (!line[indent] || width == 0 || is_policy_line(line + indent) || output_wrap(&b, line + indent, indent, width) < 0)
                        puts(line);
                else
                        fputs((const char *) b.data, stdout);
        }
}

static int explain(const char *run, Error **reterr)
{
        _cleanup_strv_ char **own = NULL;
        _cleanup_policy_ Policy *policy = NULL;
        _cleanup_free_ char *id = NULL;
        _cleanup_why_ Why why = {};
        _cleanup_buf_ Buf text = {};
        const char *name;
        int r = find_run_in_journal(run, &id, reterr);

        if (r >= 0)
                r = read_records(id, &why, reterr);
        if (r < 0)
                return r;
        name = why.first ? facts_string(why.first, "AGENTBOX_POLICY") : NULL;
        /* Only makes the advice better: without it (not readable, gone since) it is said in general words.
         */
        if (name)
                (void) policy_load(name, NULL, NULL, &policy, NULL);
        r = own_addresses(&own);
        if (r >= 0)
                r = why_explain(&why, &(AdviceContext){ .policy = policy, .own = own }, &text);
        if (r < 0)
                return error_set(reterr, r, "out of memory");
        print_lines((char *) text.data);
        return output_flush();
}

int verb_why(int argc, char **argv)
{
        _cleanup_error_ Error *e = NULL;
        int first, r;

        r = options_parse(&why_usage, argc, argv, NULL, &first, &e);
        if (r > 0)
                return 0;
        if (r >= 0)
                r = explain(argv[first], &e);
        return r < 0 ? message_failure(e, r) : 0;
}
