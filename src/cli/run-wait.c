/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/run-wait.h"

#define LOST_MAX 30u

static int on_reply(sd_bus_message *m, void *userdata, sd_bus_error *reterr)
{
        RunWait *w = userdata;

        w->answered = true;
        w->lost = sd_bus_message_is_method_error(m, NULL) &&
                  (sd_bus_is_open(w->bus) <= 0 || client_broker_was_lost(sd_bus_message_get_error(m)));
        w->r = w->lost ? -EHOSTDOWN : client_wait_reply(m, &w->result, &w->error);
        return 0;
}

int run_wait_begin(RunWait *w, sd_bus *bus, const char *run, Error **reterr)
{
        *w = (RunWait){ .bus = bus, .run = run };
        run_result_init(&w->result);
        return client_wait(bus, run, on_reply, w, reterr);
}

/* Where the bus itself was restarted. */
static int reconnect(RunWait *w)
{
        sd_bus *bus;
        int r;

        if (sd_bus_is_open(w->bus) > 0)
                return 0;
        r = client_connect(&bus, NULL);
        if (r < 0)
                return r;
        sd_bus_close_unref(w->own_bus);
        w->bus = w->own_bus = bus;
        return 0;
}

/* A broker that goes away is asked again, a few times: its successor takes the runs over. */
static int ask_again(RunWait *w, Error **reterr)
{
        int r;

        do {
                if (++w->n_lost >= LOST_MAX)
                        return error_set(reterr, -EHOSTDOWN,
                                        "the broker does not come back; see 'systemctl status agentboxd'");
                sleep(1);
                r = reconnect(w);
        } while (r < 0);
        w->answered = false;
        return client_wait(w->bus, w->run, on_reply, w, reterr);
}

int run_wait_process(RunWait *w, Error **reterr)
{
        int r;

        do
                r = sd_bus_process(w->bus, NULL);
        while (r > 0 && !w->answered);
        if (r < 0 && !w->answered)
                return error_set(reterr, r, "the system bus closed the connection: %s", strerror(-r));
        if (!w->answered)
                return 0;
        if (w->lost) {
                r = ask_again(w, reterr);
                return r < 0 ? r : 0;
        }
        return w->r < 0 ? error_set(reterr, w->r, "%s", error_message(w->error, w->r)) : 1;
}

void run_wait_done(RunWait *w)
{
        run_result_done(&w->result);
        error_free(w->error);
        sd_bus_close_unref(w->own_bus);
}
