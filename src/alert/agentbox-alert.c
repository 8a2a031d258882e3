/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* agentbox-alert COMMAND [ARG...]
 *
 * Hands each record that an administrator wants to hear of at once to COMMAND, as one line of JSON on its standard input: egress
 * that was denied, a run that was not verified, a tripwire. Runs as agentbox-alert.service.
 *
 * uid            its own dynamic one, in the group systemd-journal, without any capability
 * descriptors    the journal's files; $STATE_DIRECTORY
 * trusts         journald about who has written what; only records count that "agentbox log" shows
 * must           lose none; hand none over twice but where COMMAND fails half-way or this is killed while it runs; keep the order
 *                within a lane; let what is urgent wait for nothing but what is urgent
 * must not       be stopped by a COMMAND that fails or hangs
 *
 * Two processes, a lane each: what is urgent does not wait behind a flood of what is not. Equal records of one batch are one alert
 * (alert-batch.h). Where a lane has come to stands in a file of its name. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include "alert/alert-lane.h"
#include "alert/alert-position.h"

/* Not the past, the first time: but from this moment on. */
static int begin_now(int state_fd, AlertLane lane)
{
        AlertPosition p = { .to = "-" };
        struct timespec now;

        if (faccessat(state_fd, alert_lane_names[lane], F_OK, 0) == 0)
                return 0;
        clock_gettime(CLOCK_REALTIME, &now);
        snprintf(p.from, sizeof(p.from), "@%llu", (unsigned long long) now.tv_sec * 1000000 + (unsigned long long) now.tv_nsec / 1000);
        return alert_position_write(state_fd, alert_lane_names[lane], &p);
}

static _noreturn_ void be_lane(AlertLane lane, const char *state, int state_fd, char *const command[], pid_t parent)
{
        _cleanup_error_ Error *e = NULL;
        int r = prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent ? -ESRCH : alert_lane_run(lane, state, state_fd, command, &e);

        fprintf(stderr, "agentbox-alert: %s\n", error_message(e, r));
        _exit(EXIT_FAILURE);
}

/* Until one of them ends, which none does by itself. */
static void run_lanes(const char *state, int state_fd, char *const command[])
{
        const pid_t self = getpid();
        pid_t pids[_ALERT_LANE_MAX];
        size_t n = 0;

        for (; n < _ALERT_LANE_MAX; n++) {
                pids[n] = fork();
                if (pids[n] < 0)
                        break;
                if (pids[n] == 0)
                        be_lane((AlertLane) n, state, state_fd, command, self);
        }
        if (n == _ALERT_LANE_MAX) {
                (void) sd_notify(false, "READY=1");
                while (waitpid(-1, NULL, 0) < 0 && errno == EINTR)
                        ;
        }
        for (size_t i = 0; i < n; i++)
                (void) kill(pids[i], SIGKILL);
}

int main(int argc, char *argv[])
{
        const char *state = getenv("STATE_DIRECTORY");
        _cleanup_close_ int state_fd = -1;
        int r = 0;

        if (argc < 2 || !state) {
                fputs("agentbox-alert: give a command; started as agentbox-alert.service, which has a state directory\n", stderr);
                return 2;
        }
        state_fd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (state_fd < 0)
                r = -errno;
        for (AlertLane lane = 0; r >= 0 && lane < _ALERT_LANE_MAX; lane++)
                r = begin_now(state_fd, lane);
        if (r < 0)
                fprintf(stderr, "agentbox-alert: %s: %s\n", state, strerror(-r));
        else
                run_lanes(state, state_fd, argv + 1);
        return EXIT_FAILURE;
}
