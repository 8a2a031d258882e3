/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <strings.h>

#include "base/parse.h"
#include "cli/client.h"
#include "cli/facts.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/verbs.h"

typedef struct KillArgs {
        bool all;
        const char *signal;
} KillArgs;

static const Option kill_options[] = {
        { "signal", 's', OPTION_STRING, offsetof(KillArgs, signal), "SIGNAL",
                        "send the command SIGNAL (TERM, SIGTERM, 15) instead" },
        { "all", 0, OPTION_SET, offsetof(KillArgs, all), NULL, "every run that you may end" },
};

static const Usage kill_usage = {
        .verb = "kill",
        .synopsis = "RUN [-s SIGNAL] | --all [-s SIGNAL]",
        .description = "Ends a run at once, with everything in it; or sends its command a signal.",
        .options = kill_options,
        .n_options = ELEMENTSOF(kill_options),
        .min = 0,
        .max = 1,
};

/* 0 ends the run. */
static int signal_from_string(const char *s, int *ret)
{
        const char *name = strncasecmp(s, "SIG", 3) == 0 ? s + 3 : s;
        uint64_t number;

        if (parse_u64(s, &number) >= 0) {
                if (number < 1 || number > (uint64_t) SIGRTMAX)
                        return -EINVAL;
                *ret = (int) number;
                return 0;
        }
        for (int i = 1; i < NSIG; i++) {
                const char *known = sigabbrev_np(i);

                if (known && strcasecmp(known, name) == 0) {
                        *ret = i;
                        return 0;
                }
        }
        return -EINVAL;
}

/* Goes on after a failure: ending the others matters more. */
static int kill_all(sd_bus *bus, int signal, Error **reterr)
{
        _cleanup_json_ json_t *list = NULL;
        int r, failed = 0;

        r = client_list_runs(bus, &list, reterr);
        if (r < 0)
                return r;
        for (size_t i = 0; i < json_array_size(list); i++) {
                const char *id = facts_string(json_array_get(list, i), "run");
                const char *state = facts_string(json_array_get(list, i), "state");
                _cleanup_error_ Error *e = NULL;

                if (!id || (state && streq(state, "ended")))
                        continue;
                r = client_kill(bus, id, signal, &e);
                if (r < 0) {
                        message("run %s: %s", id, error_message(e, r));
                        failed = r;
                }
        }
        return failed < 0 ? error_set(reterr, failed, "not every run was ended") : 0;
}

static int kill_one(sd_bus *bus, const char *run, int signal, Error **reterr)
{
        _cleanup_free_ char *id = NULL;
        int r = client_find_run(bus, run, &id, reterr);

        return r < 0 ? r : client_kill(bus, id, signal, reterr);
}

static int check_arguments(const KillArgs *args, int n, int *ret_signal, Error **reterr)
{
        if (args->all == (n == 1))
                return error_set(reterr, -EINVAL,
                                "kill takes either a run or --all; see 'agentbox kill --help'");
        *ret_signal = 0;
        if (args->signal && signal_from_string(args->signal, ret_signal) < 0)
                return error_set(reterr, -EINVAL, "no such signal: %s", args->signal);
        return 0;
}

int verb_kill(int argc, char **argv)
{
        _cleanup_error_ Error *e = NULL;
        _cleanup_bus_ sd_bus *bus = NULL;
        KillArgs args = {};
        int first, signal = 0, r;

        r = options_parse(&kill_usage, argc, argv, &args, &first, &e);
        if (r > 0)
                return 0;
        if (r >= 0)
                r = check_arguments(&args, argc - first, &signal, &e);
        if (r >= 0)
                r = client_connect(&bus, &e);
        if (r >= 0)
                r = args.all ? kill_all(bus, signal, &e) : kill_one(bus, argv[first], signal, &e);
        return r < 0 ? message_failure(e, r) : 0;
}
