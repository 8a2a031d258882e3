/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "wire/attest.h"
#include "wire/runspec.h"

/* Plays systemd and the broker for one agentbox-exec: a process of another uid (where the test is root; else
 * in a user namespace), in an empty network namespace, with no_new_privs and an empty bounding set, SIGPIPE
 * ignored and SIGUSR1 blocked. Everything here asserts: a harness that does not work is a failed test. */

typedef struct Harness {
        int shim;        /* descriptors of the two programs */
        char *directory; /* the workspace, owned by the run's uid; "report" in it is the workload */
        char *report;
} Harness;

typedef struct Options {
        bool privileged; /* root of its (user) namespace with every capability, without no_new_privs; all it
                            sees is read-only */
        bool lethal;     /* a filter kills whoever tries keyctl, mount, capset, setresuid or unshare */
        bool keep_bounding; /* leave the bounding set as it is */
        const char *root;   /* chroot */
        bool pids;          /* in a PID namespace, whose init it is; what comes of that, waitpid() tells of */
        bool leak;          /* descriptor 40 stays open over the start of the shim */
        const char *abstract_name;
        char *const *env; /* of the shim */
} Options;

typedef struct Shim {
        pid_t pid;
        int channel;
        int out, err, executed; /* read ends; -1 before harness_send() */
        int copy_in;            /* goes with a RunSpec that says copy_in, and is closed by that */
} Shim;

typedef struct Outcome {
        int status; /* of waitpid() */
        bool has_failure, has_copied, has_ended;
        ExecFailure failure;
        ExecCopied copied;
        ExecEnded ended;
        char *out, *err;
        size_t n_out;
} Outcome;

/* argv: the paths of the two programs. 0: go on. Else the test cannot run and ends with success or failure
 * as said: an ordinary user may be allowed no namespaces, which is said as a skipped test. */
#define HARNESS_SKIP 1
#define HARNESS_USAGE 2
int harness_init(Harness *h, int argc, char *argv[]);
void harness_done(Harness *h);

Shim harness_start(const Harness *h, const Options *o);
void harness_attested(const Shim *s, Attest *ret);

/* A RunSpec with a filter that allows everything, no Landlock and the given argv and environment. */
RunSpec harness_spec(const Harness *h, const Attest *a, char *const *argv, char *const *env);
/* Sends raw parts: the bytes of the memfd, and the message. */
void harness_send_message(const Shim *s, const char *payload, const int *fds, size_t n_fds);
void harness_send(Shim *s, const RunSpec *spec);
/* Waits for the end; s is closed. */
void harness_finish(Shim *s, Outcome *ret);
void outcome_done(Outcome *o);

/* All of it at once. */
void harness_run(const Harness *h, char *const *argv, char *const *env, Outcome *ret);
void harness_run_spec(const Harness *h, void (*change)(RunSpec *, void *), void *userdata, char *const *argv,
                Outcome *ret);

/* ---- asserting ---- */

#define STRV(...) ((char *[]){ __VA_ARGS__, NULL })
#define S(s) ((char *) (s))

void assert_exit(const Outcome *o, int status);
/* Nothing ran: the failure was reported, the status fits, and there is no output. */
void assert_failure(const Outcome *o, ExecStage stage, int error, int status);
/* The workload wrote exactly this line, among others. */
void assert_line(const Outcome *o, const char *line);
