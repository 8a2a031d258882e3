/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* agentbox: the command. Runs as the caller, with the caller's rights and nothing more.
 *
 * Touches: the caller's standard streams and terminal, the file of --result, the system bus, the journal
 * (reading). Trusts: what the broker answers, and the journal's own fields. Not: bytes from inside a run;
 * they are passed on unaltered and are never interpreted, and whatever of them gets into a message of ours
 * (a name, a command) is escaped first. Must:   give the broker pipes or a pty of its own making, never a
 * descriptor of the caller; pass on no variable that was not asked for; leave the terminal as it was; exit
 * with the statuses of agentbox(1). Must not: speak to PID 1, or decide what a run may do: that is the
 * broker's alone.
 *
 * Stages of a run: read the command line (run-request.c), attend the run (session.c: client.c asks, relay.c
 * carries the bytes), say how it ended (ending.c), write the record (result-file.c). */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

#include "cli/message.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "policy/policy-suggest.h"

typedef struct Verb {
        const char *name;
        int (*run)(int argc, char **argv);
        const char *summary;
} Verb;

static const Verb verbs[] = {
        { "run", verb_run, "run a command in a sandbox" },
        { "ps", verb_ps, "list the runs" },
        { "show", verb_show, "show one run: policy, limits, usage, verification" },
        { "wait", verb_wait, "wait for the end of a run; exit as it did" },
        { "attach", verb_attach, "show what a detached run prints, until it ends" },
        { "kill", verb_kill, "end a run, or send it a signal" },
        { "thaw", verb_thaw, "let a frozen run go on" },
        { "log", verb_log, "show the audit records" },
        { "why", verb_why, "say what ended a run or was denied, and what would allow it" },
        { "policy", verb_policy, "list, show, check, explain, compare and learn policies" },
        { "doctor", verb_doctor, "check what this host can enforce" },
};

static void print_help(void)
{
        printf("agentbox VERB [OPTION...] [ARGUMENT...]\n\n"
               "Runs programs that nobody trusts, so that they keep to a policy.\n\n");
        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                printf("  %-12s %s\n", verbs[i].name, verbs[i].summary);
        printf("\n  --help       show this text; 'agentbox VERB --help' tells about one verb\n"
               "  --version    show the version\n");
}

/* Descriptors that this process opens must not land on 0, 1 or 2: what is written there would go to the
 * wrong place. */
static int open_standard_streams(void)
{
        for (int i = 0; i <= STDERR_FILENO; i++)
                if (fcntl(i, F_GETFD) < 0 && open("/dev/null", i == STDIN_FILENO ? O_RDONLY : O_WRONLY) != i)
                        return -1;
        return 0;
}

/* Either it is misspelt, or "run" was left out. */
static void no_such_verb(const char *name)
{
        const char *names[ELEMENTSOF(verbs)], *meant;

        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                names[i] = verbs[i].name;
        meant = policy_suggest(name, names, ELEMENTSOF(names));
        if (meant)
                message("no such verb: %s; did you mean %s? See 'agentbox --help'", name, meant);
        else
                message("no such verb: %s; see 'agentbox --help', or 'agentbox run -- %s' to run it", name, name);
}

static int dispatch(int argc, char **argv)
{
        const char *name = argc > 1 ? argv[1] : "";

        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                if (streq(verbs[i].name, name))
                        return verbs[i].run(argc - 1, argv + 1);
        if (streq(name, "--help") || streq(name, "-h") || streq(name, "help")) {
                print_help();
                return 0;
        }
        if (streq(name, "--version")) {
                puts("agentbox " AGENTBOX_VERSION);
                return 0;
        }
        if (argc < 2)
                message("no verb given; see 'agentbox --help'");
        else
                no_such_verb(name);
        return EXIT_OURS;
}

int main(int argc, char **argv)
{
        int status, r;

        /* Services are started with SIGPIPE ignored; whoever leaves off reading our output ends us, as it
         * would end cat(1). */
        signal(SIGPIPE, SIG_DFL);

        if (open_standard_streams() < 0)
                return EXIT_OURS;
        status = dispatch(argc, argv);
        r = output_flush();
        if (r < 0 && status == 0) {
                message("cannot write to standard output: %s", strerror(-r));
                return EXIT_OURS;
        }
        return status;
}
