/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

#include "cli/audit-log.h"
#include "cli/client.h"
#include "cli/ending.h"
#include "cli/facts.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/run-output.h"
#include "cli/run-wait.h"
#include "cli/verbs.h"

enum { EXIT_DETACHED = 130 };

typedef struct AttachArgs {
        bool fresh;
} AttachArgs;

static const Option attach_options[] = {
        { "new", 'n', OPTION_SET, offsetof(AttachArgs, fresh), NULL, "only what it prints from now on" },
};

static const Usage attach_usage = {
        .verb = "attach",
        .synopsis = "[-n] RUN",
        .description = "Shows what a detached run prints, from its beginning, until it has ended, and exits as\n"
                       "'agentbox wait' does. Ctrl-C leaves it running. Nothing goes to the run: its standard\n"
                       "input is /dev/null.",
        .options = attach_options,
        .n_options = ELEMENTSOF(attach_options),
        .min = 1,
        .max = 1,
};

typedef struct Attach {
        const char *run;
        AuditLog *log;
        size_t n_seen, n_skipped;
        int signal_fd;
        RunWait wait;
} Attach;

static int print_records(Attach *a, AuditLog *log, size_t skip, Error **reterr)
{
        int r;

        for (size_t n = 0;; n++) {
                _cleanup_json_ json_t *record = NULL;

                r = audit_next(log, &record);
                if (r > 0 && n >= skip)
                        r = run_output_print(record);
                else if (r > 0)
                        continue;
                else
                        break;
                if (r < 0)
                        break;
                a->n_seen++;
        }
        return r < 0 ? error_set(reterr, r, "cannot show what run %s prints: %s", a->run, strerror(-r)) : 0;
}

static int skip_old(Attach *a, Error **reterr)
{
        for (;; a->n_skipped++) {
                _cleanup_json_ json_t *record = NULL;
                int r = audit_next(a->log, &record);

                if (r < 0)
                        return error_set(reterr, r, "cannot read the journal: %s", strerror(-r));
                if (r == 0)
                        return 0;
        }
}

/* The run has ended, and so has its output: what the log that is followed has not told yet, another one does. */
static int print_rest(Attach *a, Error **reterr)
{
        _cleanup_audit_log_ AuditLog *all = NULL;
        int r = audit_log_open(&(JournalQuery){ .kind = JOURNAL_OUTPUT, .run = (char *) a->run }, &all, reterr);

        return r < 0 ? r : print_records(a, all, a->n_skipped + a->n_seen, reterr);
}

static int bus_timeout(sd_bus *bus)
{
        uint64_t usec;
        struct timespec t;

        if (sd_bus_get_timeout(bus, &usec) < 0 || usec == UINT64_MAX)
                return -1;
        clock_gettime(CLOCK_MONOTONIC, &t);
        usec -= MIN2(usec, (uint64_t) t.tv_sec * 1000000 + (uint64_t) t.tv_nsec / 1000);
        return (int) MIN2(usec / 1000 + 1, UINT64_C(60000));
}

/* 1: there may be something to do; 0: whoever watches has had enough. */
static int wait_for_something(Attach *a, sd_bus *bus, Error **reterr)
{
        struct pollfd p[] = {
                { .fd = sd_bus_get_fd(bus), .events = (short) sd_bus_get_events(bus) },
                { .fd = audit_log_fd(a->log), .events = POLLIN },
                { .fd = a->signal_fd, .events = POLLIN },
        };
        int r;

        if (poll(p, ELEMENTSOF(p), bus_timeout(bus)) < 0 && errno != EINTR)
                return error_set(reterr, -errno, "cannot wait: %s", strerror(errno));
        if (p[2].revents)
                return 0;
        r = p[1].revents ? audit_log_process(a->log) : 0;
        return r < 0 ? error_set(reterr, r, "cannot read the journal: %s", strerror(-r)) : 1;
}

static int follow(Attach *a, int *ret_status, Error **reterr)
{
        int r;

        for (;;) {
                r = run_wait_process(&a->wait, reterr);
                if (r > 0)
                        r = print_rest(a, reterr) < 0 ? -EIO : 1;
                if (r > 0) {
                        ending_say(&a->wait.result);
                        *ret_status = run_result_exit_status(&a->wait.result);
                        return 0;
                }
                if (r == 0)
                        r = print_records(a, a->log, 0, reterr);
                if (r >= 0)
                        r = wait_for_something(a, a->wait.bus, reterr);
                if (r < 0)
                        return r;
                if (r == 0) {
                        message("run %s goes on; 'agentbox attach %s' shows more of it, 'agentbox kill %s' ends it", a->run,
                                        a->run, a->run);
                        *ret_status = EXIT_DETACHED;
                        return 0;
                }
        }
}

static int check_is_detached(sd_bus *bus, const char *run, Error **reterr)
{
        _cleanup_json_ json_t *facts = NULL;
        int r = client_get_run(bus, run, &facts, reterr);

        if (r < 0)
                return r;
        return json_is_true(json_object_get(facts, "detached"))
                               ? 0
                               : error_set(reterr, -EINVAL, "run %s is not detached: what it prints is with its client", run);
}

static int attach(sd_bus *bus, const char *run, bool fresh, int *ret_status, Error **reterr)
{
        Attach a = { .run = run, .signal_fd = -1 };
        sigset_t set;
        int r = check_is_detached(bus, run, reterr);

        if (r < 0)
                return r;
        sigemptyset(&set);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGTERM);
        sigaddset(&set, SIGHUP);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 || (a.signal_fd = signalfd(-1, &set, SFD_CLOEXEC)) < 0)
                return error_set(reterr, -errno, "cannot wait for signals: %s", strerror(errno));
        r = audit_log_open(&(JournalQuery){ .kind = JOURNAL_OUTPUT, .follow = true, .run = (char *) run }, &a.log, reterr);
        if (r >= 0 && fresh)
                r = skip_old(&a, reterr);
        if (r >= 0) {
                r = run_wait_begin(&a.wait, bus, run, reterr);
                if (r >= 0)
                        r = follow(&a, ret_status, reterr);
                run_wait_done(&a.wait);
        }
        audit_log_free(a.log);
        close(a.signal_fd);
        return r;
}

int verb_attach(int argc, char **argv)
{
        _cleanup_error_ Error *e = NULL;
        _cleanup_bus_ sd_bus *bus = NULL;
        _cleanup_free_ char *id = NULL;
        AttachArgs args = {};
        int first, r, status = 0;

        r = options_parse(&attach_usage, argc, argv, &args, &first, &e);
        if (r > 0)
                return 0;
        if (r >= 0)
                r = client_connect_for(argv[first], &bus, &id, &e);
        if (r >= 0)
                r = attach(bus, id, args.fresh, &status, &e);
        return r < 0 ? message_failure(e, r) : status;
}
