/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "cli/client.h"
#include "cli/ending.h"
#include "cli/message.h"
#include "cli/run-wait.h"
#include "cli/verbs.h"

static const Usage wait_usage = {
        .verb = "wait",
        .synopsis = "RUN",
        .description = "Waits until the run has ended and exits as 'agentbox run' would have: with the "
                       "status of its command, or\n"
                       "124 (time limit), 125 (agentbox failed), 126, 127, 128+N (signal N).",
        .min = 1,
        .max = 1,
};

static int wait_for_run(RunWait *w, sd_bus *bus, const char *id, Error **reterr)
{
        int r = run_wait_begin(w, bus, id, reterr);

        while (r >= 0 && (r = run_wait_process(w, reterr)) == 0) {
                int k = sd_bus_wait(w->bus, UINT64_MAX);

                if (k < 0 && k != -EINTR)
                        return error_set(reterr, k, "the system bus closed the connection: %s", strerror(-k));
        }
        return r;
}

int verb_wait(int argc, char **argv)
{
        _cleanup_error_ Error *e = NULL;
        _cleanup_bus_ sd_bus *bus = NULL;
        _cleanup_free_ char *id = NULL;
        RunWait w;
        int first, r, status;

        r = options_parse(&wait_usage, argc, argv, NULL, &first, &e);
        if (r > 0)
                return 0;
        if (r >= 0)
                r = client_connect_for(argv[first], &bus, &id, &e);
        if (r < 0)
                return message_failure(e, r);

        r = wait_for_run(&w, bus, id, &e);
        if (r < 0)
                status = message_failure(e, r);
        else {
                ending_say(&w.result);
                status = run_result_exit_status(&w.result);
        }
        run_wait_done(&w);
        return status;
}
