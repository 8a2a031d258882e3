/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#include "wire/runspec.h"

/* What a run's caller copies in and out of the workspace. Its bytes go from the caller to the shim, and from
 * agentbox-copyout to the caller; none of them comes by here. The broker hands on the ends of pipes, keeps
 * the workspace until everybody in it is dead, and writes down how much it was. */

typedef struct Run Run;

typedef struct RunCopy {
        int in_fd;          /* the caller's pipe; -1: none, or the shim has it */
        bool was_in;        /* the shim has it, or had it */
        int out_fd;         /* the caller's other pipe; -1: none, or it is over */
        char **paths;       /* what goes out, beneath the workspace */
        int workspace_fd;   /* -1: not known, or it is over; with a view: its changes */
        int view_fd;        /* the top of the view; -1: there is none, or likewise */
        uint64_t max_bytes, max_files;
        pid_t reader; /* 0: not there */
        uid_t uid;    /* whom it became */
        int report_fd;
        sd_event_source *report_source, *deadline;
        unsigned n_reports; /* of its client */
} RunCopy;

RunCopy *run_copy_free(RunCopy *c);
/* What the request has of it: from here on it is the run's. */
int run_copy_take(Run *r);
/* Of a run that an earlier broker began; paths are taken over. */
int run_copy_adopt(Run *r, char **paths, uint64_t max_bytes, uint64_t max_files);
/* The workspace (and the view, or -1), which are taken over, are kept until their run is dead, by PID 1 too. */
int run_copy_keep_workspace(Run *r, int workspace_fd, int view_fd);
/* The descriptor that goes to the shim; -1: none. */
int run_copy_in_fd(const Run *r);
/* Whether the workspace will be wanted when everybody in it is dead. */
bool run_copy_wants_workspace(const Run *r);
/* The workspace of a scope, so that its mount can go: a mount of its own that is nowhere. */
int run_copy_open_scope_workspace(const char *path);
/* The shim has it. */
void run_copy_on_sent(Run *r);
/* The shim has said that the files are there, if any were to come. */
void run_copy_on_copied(Run *r, const ExecCopied *c);
/* In words; newly allocated. What it says of files is written down, too. error 0: the shim died, over them or before, and PID 1
 * has said of what (r->status). */
char *run_copy_on_unpack_failure(Run *r, int error);
/* The shim has files of the caller's. */
bool run_copy_is_in(const Run *r);
/* All processes of the run are dead: whether its results are out, or will not be. run_end() follows when
 * they are. */
bool run_copy_is_over(Run *r);
/* Nobody waits for them any more. */
void run_copy_abandon(Run *r, const char *why);
/* Its client's word: so much of what came out was not written. -EINVAL: there is nothing that it could be
 * about. */
int run_copy_report(Run *r, uint64_t files, uint64_t bytes, const char *reason);
