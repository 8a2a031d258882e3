/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <systemd/sd-event.h>

#include "cli/client.h"
#include "cli/ending.h"
#include "cli/message.h"
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

typedef struct Wait {
        RunResult result;
        bool answered, lost;
        int r;
        Error *error;
} Wait;

static int on_reply(sd_bus_message *m, void *userdata, sd_bus_error *reterr)
{
        Wait *w = userdata;

        w->answered = true;
        w->lost = sd_bus_message_is_method_error(m, NULL) &&
                  client_broker_was_lost(sd_bus_message_get_error(m));
        w->r = w->lost ? -EHOSTDOWN : client_wait_reply(m, &w->result, &w->error);
        return 0;
}

static int wait_once(sd_bus *bus, const char *id, Wait *w, Error **reterr)
{
        int r;

        w->answered = false;
        r = client_wait(bus, id, on_reply, w, reterr);
        while (r >= 0 && !w->answered) {
                r = sd_bus_process(bus, NULL);
                if (r == 0)
                        r = sd_bus_wait(bus, UINT64_MAX);
                if (r == -EINTR)
                        r = 0;
        }
        if (r < 0 && !w->answered)
                return error_set(reterr, r, "the system bus closed the connection: %s", strerror(-r));
        return 0;
}

/* A broker that goes away is asked again, a few times: its successor takes the runs over. */
static int wait_for_run(sd_bus *bus, const char *id, Wait *w, Error **reterr)
{
        for (int tries = 0; tries < 30; tries++) {
                int r = wait_once(bus, id, w, reterr);

                if (r < 0)
                        return r;
                if (!w->lost) {
                        if (w->r < 0)
                                *reterr = TAKE_PTR(w->error);
                        return w->r;
                }
                if (sd_bus_is_open(bus) <= 0)
                        return error_set(reterr, -ECONNRESET, "the system bus closed the connection");
                sleep(1);
        }
        return error_set(reterr, -EHOSTDOWN,
                        "the broker does not come back; see 'systemctl status agentboxd'");
}

int verb_wait(int argc, char **argv)
{
        _cleanup_error_ Error *e = NULL;
        _cleanup_bus_ sd_bus *bus = NULL;
        _cleanup_free_ char *id = NULL;
        Wait w = {};
        int first, r, status;

        r = options_parse(&wait_usage, argc, argv, NULL, &first, &e);
        if (r > 0)
                return 0;
        if (r >= 0)
                r = client_connect(&bus, &e);
        if (r >= 0)
                r = client_find_run(bus, argv[first], &id, &e);
        if (r < 0)
                return message_failure(e, r);

        run_result_init(&w.result);
        r = wait_for_run(bus, id, &w, &e);
        if (r < 0)
                status = message_failure(e, r);
        else {
                ending_say(&w.result);
                status = run_result_exit_status(&w.result);
        }
        run_result_done(&w.result);
        return status;
}
