/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "base/escape.h"
#include "base/strv.h"
#include "cli/run-request.h"
#include "wire/runspec.h"

#define ARG(m) offsetof(RunRequest, m)

static const Option run_options[] = {
        { "policy", 'p', OPTION_STRING, ARG(policy), "POLICY",
                        "the policy to run under (default: default)" },
        { "set", 0, OPTION_LIST, ARG(set), "SECTION.KEY=VALUE",
                        "change one key of the policy; who is not root\nmay only make it stricter; "
                        "repeatable" },
        { "in", 0, OPTION_LIST, ARG(in), "SRC[:DEST]",
                        "copy a file or directory into the workspace, as\nDEST there; \"-\" is standard input; repeatable" },
        { "view", 0, OPTION_STRING, ARG(view), "DIR",
                        "show DIR in the workspace, copy-on-write: changes\nstay in the run, and are what --out copies" },
        { "out", 0, OPTION_LIST, ARG(out), "SRC[:DEST]",
                        "when the run is over, copy SRC of the workspace\nto DEST here; repeatable" },
        { "force", 0, OPTION_SET, ARG(force), NULL, "--out: put results in the place of what is there" },
        { "out-deny-exec", 0, OPTION_SET, ARG(out_deny_exec), NULL,
                        "--out: leave out what will execute later (hooks,\nCI files, shell profiles, programs, ...)" },
        { "out-summary", 0, OPTION_SET, ARG(out_summary), NULL,
                        "--out: print what was added, changed and deleted" },
        { "env", 'e', OPTION_LIST, ARG(env_given), "NAME[=VALUE]",
                        "set a variable inside, without =VALUE to what it\nis here; repeatable" },
        { "directory", 'C', OPTION_STRING, ARG(cwd), "DIR", "start in DIR; relative: below the workspace" },
        { "tty", 't', OPTION_SET, ARG(tty), NULL, "give the command a terminal of its own" },
        { "no-tty", 'T', OPTION_CLEAR, ARG(tty), NULL, "give it pipes (default)" },
        { "timeout", 0, OPTION_STRING, ARG(timeout), "TIME",
                        "end the run after TIME: 90s, 5min; as\n--set Limits.Runtime=TIME" },
        { "detach", 0, OPTION_SET, ARG(detach), NULL, "print the run's id and leave it running" },
        { "name", 0, OPTION_STRING, ARG(name), "NAME", "a name for ps, show, wait and kill" },
        { "result", 0, OPTION_STRING, ARG(result_file), "FILE", "write the result record (JSON) to FILE" },
        { "unit", 0, OPTION_STRING, ARG(unit), "service|scope", "the kind of unit (default: service)" },
};

const Usage run_usage = {
        .verb = "run",
        .synopsis = "[OPTION...] [--] COMMAND [ARG...]",
        .description = "Runs COMMAND in a sandbox and waits for it. Exits with the status of the command; "
                       "124: its time\n"
                       "limit passed; 125: agentbox failed or refused; 126, 127: the command could not be "
                       "executed, was not\n"
                       "found; 128+N: signal N killed it (137 with reason oom: its memory limit did).",
        .options = run_options,
        .n_options = ELEMENTSOF(run_options),
        .min = 1,
        .max = -1,
        .stop_at_first = true,
};

void run_request_done(RunRequest *q)
{
        strv_free(q->set);
        strv_free(q->in);
        strv_free(q->out);
        strv_free(q->env_given);
        strv_free(q->tightenings);
        strv_free(q->env);
        free(q->workspace);
        *q = (RunRequest){};
}

/* What one option forbids; each row is a refusal. */
static int check_options(const RunRequest *q, Error **reterr)
{
        const struct {
                bool refused;
                const char *why;
        } rows[] = {
                { q->out && q->detach, "--out: nobody waits for the results of a detached run" },
                { !q->out && q->force, "--force: is for --out" },
                { !q->out && q->out_deny_exec, "--out-deny-exec: is for --out" },
                { !q->out && q->out_summary, "--out-summary: is for --out" },
                { q->view && q->in, "--view: what a run is to have besides goes into that directory, not through --in" },
                { q->view && q->scope, "--view: a scope sees the host's own files" },
                { q->unit && !streq(q->unit, "service") && !streq(q->unit, "scope"),
                                "--unit: must be service or scope" },
                { q->detach && q->tty, "-t: a detached run has no terminal" },
                { q->detach && q->scope,
                                "--unit=scope: the command of a scope is a child of this agentbox, so it "
                                "cannot be detached" },
                { q->detach && q->result_file, "--result: a detached run is not waited for; ask 'agentbox "
                                               "wait' or 'agentbox show'" },
                { q->name && !*q->name, "--name: must not be empty" },
                { q->cwd && !*q->cwd, "-C: must not be empty" },
                { q->policy && !*q->policy, "-p: must not be empty" },
                { q->tty && !isatty(STDIN_FILENO),
                                "-t: standard input is no terminal; leave -t out for pipes" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (rows[i].refused)
                        return error_set(reterr, -EINVAL, "%s", rows[i].why);
        return 0;
}

static int add_variable(RunRequest *q, const char *given, Error **reterr)
{
        size_t n = strcspn(given, "=");
        _cleanup_free_ char *shown = escape_for_display(given, n, 64), *name = NULL;
        const char *value;
        char *pair;

        if (n == 0)
                return error_set(reterr, -EINVAL, "-e: must be NAME or NAME=VALUE");
        if (given[n] == '=')
                return strv_extend(&q->env, given);
        name = strndup(given, n);
        value = name ? getenv(name) : NULL;
        if (!value)
                return error_set(reterr, -EINVAL,
                                "-e %s: there is no such variable here; give its value as %s=VALUE", shown,
                                shown);
        return asprintf(&pair, "%s=%s", name, value) < 0 ? -ENOMEM : strv_push(&q->env, pair);
}

/* The broker has the same bound; here the message comes before megabytes travel. */
static int check_size(const RunRequest *q, Error **reterr)
{
        size_t size = 0;

        if (strv_length(q->argv) > RUNSPEC_ARGS_MAX)
                return error_set(reterr, -E2BIG, "the command has more than %u arguments", RUNSPEC_ARGS_MAX);
        STRV_FOREACH(i, q->argv)
        size += strlen(*i) + 1;
        STRV_FOREACH(i, q->env)
        size += strlen(*i) + 1;
        if (size > RUNSPEC_SIZE_MAX - 65536)
                return error_set(reterr, -E2BIG, "arguments and environment are larger than %u MiB together",
                                RUNSPEC_SIZE_MAX >> 20);
        return 0;
}

static int collect_tightenings(RunRequest *q)
{
        char *runtime;

        STRV_FOREACH(i, q->set)
        if (strv_extend(&q->tightenings, *i) < 0)
                return -ENOMEM;
        if (!q->timeout)
                return 0;
        if (asprintf(&runtime, "Limits.Runtime=%s", q->timeout) < 0)
                return -ENOMEM;
        return strv_push(&q->tightenings, runtime);
}

int run_request_parse(int argc, char **argv, RunRequest *q, Error **reterr)
{
        int first, r;

        r = options_parse(&run_usage, argc, argv, q, &first, reterr);
        if (r != 0)
                return r;
        q->argv = argv + first;
        if (!q->policy)
                q->policy = "default";
        if (q->tty)
                q->term = getenv("TERM") ?: "dumb";
        q->scope = q->unit && streq(q->unit, "scope");
        r = check_options(q, reterr);
        if (r < 0)
                return r;
        STRV_FOREACH(i, q->env_given)
        {
                r = add_variable(q, *i, reterr);
                if (r < 0)
                        return error_set(reterr, r, "out of memory");
        }
        r = collect_tightenings(q);
        if (r < 0)
                return error_set(reterr, r, "out of memory");
        return check_size(q, reterr);
}

static bool has_variable(char *const *env, const char *name)
{
        size_t n = strlen(name);

        STRV_FOREACH(i, env)
        if (strncmp(*i, name, n) == 0 && (*i)[n] == '=')
                return true;
        return false;
}

int run_request_pass(RunRequest *q, char *const *names)
{
        STRV_FOREACH(i, names)
        {
                const char *value = getenv(*i);
                char *pair;

                if (!value || has_variable(q->env, *i))
                        continue;
                if (asprintf(&pair, "%s=%s", *i, value) < 0)
                        return -ENOMEM;
                if (strv_push(&q->env, pair) < 0)
                        return -ENOMEM;
        }
        return 0;
}
