/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>

#include "cli/client.h"
#include "cli/ending.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/result-file.h"
#include "cli/run-request.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "policy/policy.h"

/* Which variables the policy takes from the caller is read from the policy itself, which spares the broker a
 * question; it checks the names again. What is wrong with the policy or the tightenings, the broker will
 * say. */
static int names_to_pass(RunRequest *q, char ***ret, Error **reterr)
{
        _cleanup_policy_ Policy *p = NULL;
        _cleanup_bus_ sd_bus *bus = NULL;
        int r = policy_load(q->policy, NULL, NULL, &p, NULL);

        if (r == -EACCES || r == -EPERM) {
                r = client_connect(&bus, reterr);
                return r < 0 ? r : client_prepare_run(bus, q->policy, ret, reterr);
        }
        if (r < 0)
                return 0;
        STRV_FOREACH(i, q->tightenings)
        if (policy_tighten(p, *i, geteuid() == 0, NULL) < 0)
                return 0;
        free(q->workspace);
        q->workspace = strdup(policy_string(p, FILES_WORKSPACE));
        r = q->workspace ? strv_copy(policy_list(p, ENVIRONMENT_PASS), ret) : -ENOMEM;
        return r < 0 ? error_set(reterr, r, "out of memory") : 0;
}

static int take_message(RunResult *result, const Error *e, int r)
{
        if (!result->message)
                result->message = strdup(error_message(e, r));
        return result->message ? r : -ENOMEM;
}

static int run(int argc, char **argv, RunRequest *q, RunResult *result, int *ret_relay_error, Error **reterr)
{
        _cleanup_strv_ char **names = NULL;
        int r;

        result->reason = REASON_REFUSED;
        r = run_request_parse(argc, argv, q, reterr);
        if (q->policy)
                result->policy = strdup(q->policy);
        if (r != 0)
                return r < 0 ? r : 2;
        if (q->result_file) {
                r = result_file_check(q->result_file, reterr);
                if (r < 0) {
                        q->result_file = NULL; /* to be said once */
                        return r;
                }
        }
        r = names_to_pass(q, &names, reterr);
        if (r < 0)
                return r;
        r = run_request_pass(q, names);
        if (r < 0)
                return error_set(reterr, r, "out of memory");
        return session_run(q, result, ret_relay_error, reterr);
}

/* What is said, and the status, when the run is over or there was none. */
static int conclude(const RunRequest *q, RunResult *result, int relay_error, const Error *e, int r)
{
        int status;

        if (r < 0) {
                (void) take_message(result, e, r);
                message_failure(e, r);
        } else
                ending_say(result);
        status = run_result_exit_status(result);
        if (relay_error < 0) {
                message("not all bytes reached the caller or the run: %s", strerror(-relay_error));
                status = status ?: EXIT_OURS;
        }
        if (q->copy_failed)
                status = status ?: EXIT_OURS;
        if (q->result_file) {
                _cleanup_error_ Error *failed = NULL;
                int k = result_file_write(q->result_file, result, &failed);

                if (k < 0)
                        return message_failure(failed, k);
        }
        return status;
}

static int print_id(const char *run)
{
        int r;

        puts(run);
        r = output_flush();
        if (r < 0)
                message("run %s has begun, but its id cannot be written: %s", run, strerror(-r));
        return r < 0 ? EXIT_OURS : 0;
}

int verb_run(int argc, char **argv)
{
        _cleanup_(run_request_done) RunRequest q = {};
        _cleanup_(run_result_done) RunResult result;
        _cleanup_error_ Error *e = NULL;
        int relay_error = 0, r;

        run_result_init(&result);
        r = run(argc, argv, &q, &result, &relay_error, &e);
        if (r == 2) /* --help */
                return 0;
        if (r == 1)
                return print_id(result.run);
        return conclude(&q, &result, relay_error, e, r);
}
