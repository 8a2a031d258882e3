/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <jansson.h>
#include <systemd/sd-bus.h>

#include "base/error.h"
#include "cli/copy.h"
#include "cli/run-request.h"
#include "cli/scope-child.h"
#include "wire/record.h"

/* Calls of the broker: client_x() here is "X" of wire/bus-iface.h and broker_method_x() there. Failures come
 * back as an Error in the words of the broker, with what to do about it where the bus itself is the reason.
 */

static inline void bus_closep(sd_bus **bus)
{
        sd_bus_close_unref(*bus);
}
#define _cleanup_bus_ _cleanup_(bus_closep)

int client_connect(sd_bus **ret, Error **reterr);
/* Sets *reterr from what the bus answered to a call; returns a negative errno that fits. */
int client_error(const sd_bus_error *e, int r, Error **reterr);

/* stdio: three descriptors, or NULL with request->detach. scope: its process, with request->scope. copy: its pipes are
 * sent along. The
 * answer goes to handler: client_run_reply() reads it. */
int client_run(sd_bus *bus, const RunRequest *request, const int stdio[3], const ScopeChild *scope, const Copy *copy,
                sd_bus_message_handler_t handler, void *userdata, Error **reterr);
int client_run_reply(sd_bus_message *m, char **ret_run, json_t **ret_facts, Error **reterr);

/* The id under which a refused run is on record, from the error that client_run_reply() was given; newly allocated. NULL
 * where it never had one. */
char *client_refused_run(sd_bus_message *m);

/* Never times out: the answer comes when the run has ended. */
int client_wait(sd_bus *bus, const char *run, sd_bus_message_handler_t handler, void *userdata,
                Error **reterr);
int client_wait_reply(sd_bus_message *m, RunResult *ret, Error **reterr);
/* The broker went away while it was to answer; what is asked again reaches its successor, which has taken
 * the runs over. */
bool client_broker_was_lost(const sd_bus_error *e);

/* Sends and does not wait for the answer. */
int client_kill_nowait(sd_bus *bus, const char *run, int signal, const char *reason);
/* After client_connect() anew: the run is this client's as before. Nothing to wait for: where the broker does not wait for its client, the
 * run is another's, or goes on as it was. */
int client_claim_nowait(sd_bus *bus, const char *run);
int client_report_exit_nowait(sd_bus *bus, const char *run, int code, int status);
/* Of what came out of the run, so much was not written, and why. */
int client_report_copy(sd_bus *bus, const char *run, uint64_t files, uint64_t bytes, const char *reason,
                sd_bus_message_handler_t handler, void *userdata);
int client_kill(sd_bus *bus, const char *run, int signal, Error **reterr);
int client_thaw(sd_bus *bus, const char *run, Error **reterr);
int client_list_runs(sd_bus *bus, json_t **ret, Error **reterr);
int client_get_run(sd_bus *bus, const char *run, json_t **ret, Error **reterr);
/* The id of the run that an id, a name, or an id's beginning that fits one run only, stands for. */
int client_find_run(sd_bus *bus, const char *run, char **ret_id, Error **reterr);
/* Both for a verb about one run. The caller owns both results. */
int client_connect_for(const char *run, sd_bus **ret_bus, char **ret_id, Error **reterr);
/* The names of the variables that the policy takes from its caller. */
int client_prepare_run(sd_bus *bus, const char *policy, char ***ret, Error **reterr);
/* An array of objects: check, status (ok, warning, failed), message, advice. */
int client_doctor(sd_bus *bus, json_t **ret, Error **reterr);
/* An array of objects: name, promise, advice, trial. */
int client_list_promises(sd_bus *bus, json_t **ret, Error **reterr);
