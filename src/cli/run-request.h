/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "cli/options.h"

/* What "agentbox run" was asked for. */
typedef struct RunRequest {
        /* From the command line; strings point into argv. */
        const char *policy, *cwd, *name, *unit, *timeout, *result_file;
        const char *view;
        char **set, **in, **out, **env_given;
        bool tty, detach;
        bool force, out_deny_exec, out_summary;
        bool scope;  /* unit is that */
        bool silent; /* not of the command line: all three streams are /dev/null */

        char **tightenings; /* set and timeout, as the broker wants them */
        char **env;         /* NAME=VALUE: what -e gave and what the policy passes */
        char **argv;        /* points into the command line */
        const char *term;   /* with tty */
        char *workspace;    /* the policy's, as far as it is known here */
        bool copy_failed;   /* afterwards: not all that --out names is there, and why was said */
} RunRequest;

extern const Usage run_usage;

void run_request_done(RunRequest *request);
/* Reads the command line and checks what can be checked without the broker. 0, 1 where --help was answered,
 * negative. Even after a failure result_file stands where it was given, so that the refusal gets its record.
 */
int run_request_parse(int argc, char **argv, RunRequest *ret, Error **reterr);
/* Adds the caller's values of the variables in names that -e did not give. */
int run_request_pass(RunRequest *request, char *const *names);
