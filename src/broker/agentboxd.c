/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* agentboxd: composes, starts, verifies, watches and ends the units of runs; answers on the system bus.
 *
 * uid           root; capabilities as units/agentboxd.service names them, each with its reason
 * descriptors   the system bus, PID 1's private socket, the journal's files; one wall made ahead (broker-wall.h); for a
 *               run that starts: its channel, pipe, the caller's three, and if it is filtered its wall, its warden's
 *               channel and what that is handed; for one that lives: its process, six files of its cgroup and the
 *               file that its warden counts in
 * trusts        the policies and the configuration on its disk, PID 1, polkit, the journal, the kernel
 * must          check every promise before it sends a RunSpec, of the warden as well; put a run on record before it
 *               starts; end what it began
 * must not      open a path that a caller names; parse a byte that a workload wrote (the shim's attestation and the
 *               warden's hello are read before any workload exists, bounded, and judged as untrusted; what the warden
 *               counts is taken as numbers, and its texts are escaped); put argv or environment into a unit's properties
 *
 * Stages: start (directories, the host's own values, its own packet filter, connections), adopt (what an earlier
 * broker left), serve (one event loop), idle (the name is given back after 30 s without runs and calls). Runs and
 * their wardens do not end with it. */
/* clang-format on */

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <syslog.h>
#include <systemd/sd-daemon.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include "broker/broker-adopt.h"
#include "broker/broker-boots.h"
#include "broker/broker-bus.h"
#include "broker/manager.h"

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata)
{
        Manager *m = userdata;

        m->stopping = true;
        (void) sd_notify(false, "STOPPING=1");
        return sd_event_exit(m->event, 0);
}

static int add_signals(Manager *m)
{
        static const int signals[] = { SIGTERM, SIGINT };
        sigset_t set;

        sigemptyset(&set);
        for (size_t i = 0; i < ELEMENTSOF(signals); i++)
                sigaddset(&set, signals[i]);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(signals); i++) {
                int r = sd_event_add_signal(m->event, NULL, signals[i], on_signal, m);

                if (r < 0)
                        return r;
        }
        signal(SIGPIPE, SIG_IGN);
        return 0;
}

static int start(Manager *m, Error **reterr)
{
        int r = manager_start(m, reterr);

        if (r < 0)
                return r;
        r = add_signals(m);
        if (r >= 0)
                r = sd_event_set_watchdog(m->event, true);
        if (r < 0)
                return error_set(reterr, r, "cannot set up the event loop: %s", strerror(-r));
        r = broker_bus_connect(m, reterr);
        if (r >= 0)
                r = broker_adopt(m, reterr);
        if (r >= 0)
                r = broker_bus_take_name(m, reterr);
        if (r < 0)
                return r;
        boots_settle(m);
        manager_touch(m);
        (void) sd_notify(false, "READY=1\nSTATUS=Waiting for calls");
        return 0;
}

/* As many descriptors as we may have: a run needs about ten. */
static void raise_limits(void)
{
        struct rlimit l;

        if (getrlimit(RLIMIT_NOFILE, &l) < 0)
                return;
        l.rlim_cur = l.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &l);
}

static int parse_arguments(int argc, char *argv[])
{
        static const struct option options[] = {
                { "help", no_argument, NULL, 'h' },
                { "version", no_argument, NULL, 'V' },
                {},
        };
        int c;

        while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0)
                switch (c) {
                case 'h':
                        puts("usage: agentboxd\n\nThe broker of agentbox. Started on demand by the system "
                             "bus; see agentboxd(8).");
                        return 0;
                case 'V':
                        puts("agentboxd " AGENTBOX_VERSION);
                        return 0;
                default:
                        return -EINVAL;
                }
        if (optind < argc) {
                fputs("agentboxd: no arguments are taken\n", stderr);
                return -EINVAL;
        }
        return 1;
}

int main(int argc, char *argv[])
{
        _cleanup_(manager_done) Manager m = MANAGER_NONE;
        _cleanup_error_ Error *e = NULL;
        int r = parse_arguments(argc, argv);

        if (r <= 0)
                return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
        if (geteuid() != 0) {
                fputs("agentboxd: must be root; it is started by systemd\n", stderr);
                return EXIT_FAILURE;
        }
        umask(0077);
        (void) prctl(PR_SET_DUMPABLE, 0);
        raise_limits();
        m.debug = getenv("AGENTBOXD_DEBUG") != NULL;
        r = start(&m, &e);
        if (r >= 0)
                r = sd_event_loop(m.event);
        else
                sd_journal_print(LOG_ERR, "%s", error_message(e, r));
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
