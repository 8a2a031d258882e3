/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <systemd/sd-bus.h>

#include "base/error.h"
#include "base/strv.h"

/* What a caller asks for with Run(), decoded and within its bounds; nothing of it has been judged against a
 * policy. */
typedef struct Request {
        char *policy;
        char **tightenings;
        char **argv, **env;
        char *cwd;  /* as given, or NULL */
        char *name; /* or NULL */
        char *term; /* with tty: never NULL */
        bool detach, tty, scope;
        int stdio[3]; /* our own copies; -1: none were given (detach) */
        int scope_channel, scope_pidfd; /* with scope: our own copies */
        int copy_in, copy_out;          /* pipes, our own copies; -1: nothing is copied so */
        int view;                       /* a directory, our own copy; -1: none */
        char **copy_paths;              /* with copy_out: what, in the form of wire/tree.h */
} Request;

#define REQUEST_NONE ((Request){ .stdio = { -1, -1, -1 }, .scope_channel = -1, .scope_pidfd = -1, .copy_in = -1, .copy_out = -1, .view = -1 })
#define REQUEST_BYTES_MAX (6u * 1024 * 1024) /* argv and environment together */

void request_done(Request *q);

/* -EINVAL, -E2BIG: the caller's mistake, in words. */
int request_read(sd_bus_message *m, Request *ret, Error **reterr);

/* [A-Za-z0-9_-]{1,32} */
#define POLICY_NAME_MAX 64u
bool run_name_is_valid(const char *s);
bool term_is_valid(const char *s);

/* The directory to start in: absolute, relative ones beneath the workspace. Whether it exists, the shim
 * finds out. */
char *request_directory(const Request *q, const char *workspace);
