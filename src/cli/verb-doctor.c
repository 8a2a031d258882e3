/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "cli/audit-log.h"
#include "cli/client.h"
#include "cli/doctor.h"
#include "cli/facts.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/run-wait.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "wire/output.h"

#define OUTPUT_JOURNAL_SOCKET "/run/systemd/journal." OUTPUT_NAMESPACE "/socket"
#define UNVERIFIED "not verified: " /* what the broker says then */
#define RECORD_TRIES 100u
#define RECORD_TRY_USEC 20000u

typedef struct DoctorArgs {
        bool json;
} DoctorArgs;

static const Option doctor_options[] = {
        { "json", 0, OPTION_SET, offsetof(DoctorArgs, json), NULL, "one JSON object a line" },
};

static const Usage doctor_usage = {
        .verb = "doctor",
        .synopsis = "[--json]",
        .description = "Checks what this host can enforce, by doing it: asks the broker for its checks and for\n"
                       "leftovers, then starts runs that do next to nothing and shows of each promise whether\n"
                       "it was kept, why not, and what to do. Exits with 0 where all is well, with 1 where\n"
                       "something cannot be enforced. Root sees most: the broker's checks, and the address filter.",
        .options = doctor_options,
        .n_options = ELEMENTSOF(doctor_options),
};

/* Each shows something that the others do not. */
static const struct {
        const char *policy, *trial, *name;
        bool of_root; /* it is wider than its policy */
        const char *tightenings[3];
} trials[] = {
        { "offline", "offline", "offline", false, { NULL } },
        { "default", "default", "default", false, { NULL } },
        { "strict", "strict", "strict", false, { NULL } },
        /* The host's network, of which PID 1's address filter leaves nothing (TEST-NET-1 is nowhere): that it refuses a
         * packet, to loopback as well, is tried by the shim. */
        { "offline", "addresses", "Egress=addresses", true, { "Network.Egress=addresses", "Network.Allow=192.0.2.1" } },
};

static int check_journal(json_t *lines)
{
        _cleanup_audit_log_ AuditLog *j = NULL;
        _cleanup_error_ Error *e = NULL;
        int r = audit_open(NULL, 0, &j, &e);

        return r < 0 ? doctor_add(lines, "host", "records", DOCTOR_WARNING, error_message(e, r),
                                       "needed for 'agentbox log', 'why' and 'attach' alone")
                     : doctor_add(lines, "host", "records", DOCTOR_OK, "audit records can be read", "");
}

/* Where the caller may not have them, that is a warning: the runs still prove what counts. */
static int check_broker(sd_bus *bus, json_t *lines)
{
        _cleanup_json_ json_t *list = NULL;
        _cleanup_error_ Error *e = NULL;
        int r = client_doctor(bus, &list, &e);

        if (r < 0)
                return doctor_add(lines, "host", "broker", r == -EACCES || r == -EPERM ? DOCTOR_WARNING : DOCTOR_FAILED,
                                error_message(e, r),
                                geteuid() == 0 ? "see 'systemctl status agentboxd'" : "run 'agentbox doctor' as root for the broker's checks");
        for (size_t i = 0; r >= 0 && i < json_array_size(list); i++) {
                const json_t *line = json_array_get(list, i);

                r = doctor_add(lines, "host", facts_string(line, "check"), facts_string(line, "status"),
                                facts_string(line, "message"), facts_string(line, "advice"));
        }
        return r;
}

/* Why a run was not verified is in the record of it: 1; 0: it cannot be found. */
static int read_unverified(json_t *promises, const char *run, const char *policy)
{
        _cleanup_audit_log_ AuditLog *log = NULL;
        int r = run ? audit_open(run, 0, &log, NULL) : -ENOENT;

        while (r >= 0) {
                _cleanup_json_ json_t *record = NULL;
                _cleanup_strv_ char **broken = NULL, **verified = NULL;

                r = audit_next(log, &record);
                if (r <= 0)
                        break;
                if (!streq(facts_string(record, "AGENTBOX_EVENT") ?: "", "run-unverified"))
                        continue;
                if (strv_split(facts_string(record, "AGENTBOX_BROKEN") ?: "", "\n", &broken) < 0 ||
                                strv_split(facts_string(record, "AGENTBOX_VERIFIED") ?: "", " ", &verified) < 0 ||
                                doctor_broken(promises, broken, policy) < 0 ||
                                doctor_verified(promises, verified) < 0)
                        return -ENOMEM;
                return 1;
        }
        return 0;
}

/* The journal may not have it yet. */
static int note_unverified(json_t *promises, const char *run, const char *policy)
{
        int r = 0;

        for (unsigned i = 0; r == 0 && i < RECORD_TRIES; i++) {
                if (i > 0)
                        usleep(RECORD_TRY_USEC);
                r = read_unverified(promises, run, policy);
        }
        return r;
}

static int tell_failure(json_t *lines, json_t *promises, size_t i, const RunResult *result, const char *message)
{
        bool came_far = startswith(message, UNVERIFIED) != NULL;
        int r = came_far ? note_unverified(promises, result->run, trials[i].name) : 0;

        if (r > 0)
                return doctor_add(lines, "trial", trials[i].name, DOCTOR_FAILED, "it was not verified, and so did not run: see below",
                                "");
        if (r == 0 && !came_far)
                r = doctor_not_tried(promises, trials[i].trial);
        return r < 0 ? r : doctor_add(lines, "trial", trials[i].name, DOCTOR_FAILED, message, "");
}

/* true(1): every wall of the policy is built and verified. */
static int try_run(json_t *lines, json_t *promises, size_t i)
{
        static char command[] = "true", *argv[] = { command, NULL };
        RunRequest q = {
                .policy = trials[i].policy,
                .argv = argv,
                .silent = true,
                .tightenings = trials[i].tightenings[0] ? (char **) trials[i].tightenings : NULL,
        };
        _cleanup_(run_result_done) RunResult result;
        _cleanup_error_ Error *e = NULL;
        char text[64];
        int relay_error, r, n;

        run_result_init(&result);
        r = session_run(&q, &result, &relay_error, &e);
        if (r == -EACCES || r == -EPERM)
                return doctor_add(lines, "trial", trials[i].name, DOCTOR_WARNING, error_message(e, r), "");
        if (r < 0)
                return tell_failure(lines, promises, i, &result, error_message(e, r));
        r = doctor_verified(promises, result.verified);
        if (r < 0)
                return r;
        if (run_result_exit_status(&result) != 0)
                return doctor_add(lines, "trial", trials[i].name, DOCTOR_FAILED,
                                result.message ?: "its program did not exit with 0", "'agentbox why' tells more");
        n = (int) strv_length(result.verified);
        if (n == 0)
                return doctor_add(lines, "trial", trials[i].name, DOCTOR_FAILED, "it ran, but nothing was verified",
                                "the broker is of another version");
        snprintf(text, sizeof(text), "it ran; %i promises were verified before", n);
        return doctor_add(lines, "trial", trials[i].name, DOCTOR_OK, text, "");
}

/* ---- what a detached run prints, written and read back */

static int await_end(const char *run, Error **reterr)
{
        _cleanup_bus_ sd_bus *bus = NULL;
        RunWait w;
        int r = client_connect(&bus, reterr);

        if (r < 0)
                return r;
        r = run_wait_begin(&w, bus, run, reterr);
        while (r >= 0 && (r = run_wait_process(&w, reterr)) == 0)
                (void) sd_bus_wait(w.bus, UINT64_MAX);
        run_wait_done(&w);
        return r;
}

static int read_back(const char *run, const char *mark, Error **reterr)
{
        _cleanup_audit_log_ AuditLog *log = NULL;
        _cleanup_json_ json_t *record = NULL;
        int r = audit_log_open(&(JournalQuery){ .kind = JOURNAL_OUTPUT, .run = (char *) run }, &log, reterr);

        if (r < 0)
                return r;
        r = audit_next(log, &record);
        if (r < 0)
                return error_set(reterr, r, "cannot read the journal: %s", strerror(-r));
        return r > 0 && streq(facts_string(record, "MESSAGE") ?: "", mark)
                               ? 0
                               : error_set(reterr, -ENODATA, "what a run printed is not in the journal");
}

static int try_detached(json_t *lines)
{
        uint64_t random = 0;
        char mark[32], echo[] = "echo", *argv[] = { echo, mark, NULL };
        RunRequest q = { .policy = "offline", .argv = argv, .detach = true };
        _cleanup_(run_result_done) RunResult result;
        _cleanup_error_ Error *e = NULL;
        int relay_error, r;

        (void) !getrandom(&random, sizeof(random), 0);
        snprintf(mark, sizeof(mark), "%016llx", (unsigned long long) random);
        run_result_init(&result);
        r = session_run(&q, &result, &relay_error, &e);
        if (r >= 0)
                r = await_end(result.run, &e);
        if (r >= 0)
                r = read_back(result.run, mark, &e);
        if (r < 0 && startswith(error_message(e, r), UNVERIFIED))
                return doctor_add(lines, "trial", "--detach", DOCTOR_FAILED, "its run was not verified, like the others", "");
        if (r >= 0)
                return doctor_add(lines, "trial", "--detach", DOCTOR_OK, "what it printed was read back from the journal", "");
        return doctor_add(lines, "trial", "--detach", r == -EACCES || r == -EPERM ? DOCTOR_WARNING : DOCTOR_FAILED,
                        error_message(e, r), "needed for 'agentbox run --detach' alone: see 'systemctl status agentbox-output.socket'");
}

/* PID 1 leaves the file of the socket where it was, so after that trial it is there as it will be for every run. */
static int check_output_socket(json_t *lines)
{
        struct stat st;

        if (lstat(OUTPUT_JOURNAL_SOCKET, &st) < 0)
                return errno == ENOENT ? 0 : doctor_add(lines, "host", "output", DOCTOR_WARNING, OUTPUT_JOURNAL_SOCKET " cannot be looked at", "");
        if (st.st_mode & S_IWOTH)
                return doctor_add(lines, "host", "output", DOCTOR_WARNING,
                                "any user of this host can write into the journal that keeps the output of detached runs, and so push that "
                                "output out",
                                "see that systemd-journald@agentbox.socket has agentbox's SocketMode=0660 ('systemctl cat "
                                "systemd-journald@agentbox.socket'), and restart it while no detached run is there");
        return doctor_add(lines, "host", "output", DOCTOR_OK, "only agentbox writes into the journal of detached runs", "");
}

static int run_trials(sd_bus *bus, json_t *lines)
{
        _cleanup_json_ json_t *promises = NULL;
        _cleanup_error_ Error *e = NULL;
        int r = client_list_promises(bus, &promises, &e);

        if (r < 0)
                return doctor_add(lines, "trial", "promises", DOCTOR_FAILED, error_message(e, r), "");
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(trials); i++)
                if (!trials[i].of_root || geteuid() == 0)
                        r = try_run(lines, promises, i);
        if (r >= 0)
                r = try_detached(lines);
        if (r >= 0)
                r = check_output_socket(lines);
        return r < 0 ? r : doctor_add_promises(lines, promises);
}

static int run_checks(json_t *lines)
{
        _cleanup_bus_ sd_bus *bus = NULL;
        _cleanup_error_ Error *e = NULL;
        int r = client_connect(&bus, &e);

        if (r < 0)
                return doctor_add(lines, "host", "system bus", DOCTOR_FAILED, error_message(e, r),
                                "agentbox needs dbus and systemd");
        r = doctor_add(lines, "host", "system bus", DOCTOR_OK, "reachable", "");
        if (r >= 0)
                r = check_journal(lines);
        if (r >= 0)
                r = check_broker(bus, lines);
        return r < 0 ? r : run_trials(bus, lines);
}

/* What belongs together, wherever in the course of it all it came up. */
static json_t *by_part(const json_t *lines)
{
        static const char *const parts[] = { "host", "trial", "promise" };
        json_t *sorted = json_array();

        for (size_t p = 0; p < ELEMENTSOF(parts); p++)
                for (size_t i = 0; i < json_array_size(lines); i++) {
                        json_t *line = json_array_get(lines, i);

                        if (streq(facts_string(line, "part") ?: "", parts[p]) && json_array_append(sorted, line) < 0) {
                                json_decref(sorted);
                                return NULL;
                        }
                }
        return sorted;
}

static int print_lines(const json_t *lines)
{
        _cleanup_json_ json_t *sorted = by_part(lines);
        _cleanup_buf_ Buf text = {};
        int r = sorted ? doctor_print(sorted, output_width(), &text) : -ENOMEM;

        if (r >= 0)
                fwrite(text.data, 1, text.size, stdout);
        return r;
}

int verb_doctor(int argc, char **argv)
{
        _cleanup_error_ Error *e = NULL;
        _cleanup_json_ json_t *lines = json_array();
        DoctorArgs args = {};
        int first, r;

        r = options_parse(&doctor_usage, argc, argv, &args, &first, &e);
        if (r > 0)
                return 0;
        if (r >= 0)
                r = run_checks(lines);
        for (size_t i = 0; r >= 0 && args.json && i < json_array_size(lines); i++)
                r = output_json(json_array_get(lines, i));
        if (r >= 0 && !args.json)
                r = print_lines(lines);
        return r < 0 ? message_failure(e, r) : doctor_status(lines);
}
