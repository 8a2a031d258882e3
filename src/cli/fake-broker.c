/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Answers on a private bus as the broker does and runs the command without any sandbox, so that the client
 * can be tested from end to end without PID 1 and without root. The name of the policy chooses what happens:
 *   refuse, unverified   the error that the broker would give
 *   leaving              is about to leave, twice; then all is well
 *   cap                  an output limit of 1000 bytes
 *   denied               twelve attempts to reach something were denied
 *   copy-cut, copy-garbage, copy-other, copy-large   what comes out is cut, nonsense, not what was asked for, too much
 *   oom, timeout         ends so as soon as the program has written its first byte to /dev/null's place (at
 * once) crash                this process exits without a word as soon as the run has begun; the command
 * goes on adopted              what a second instance answers with for a run that it has not started Never
 * installed. The workspace is the directory FAKE_WORKSPACE. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#include "base/macro.h"
#include "base/strv.h"
#include "base/io.h"
#include "wire/bus-iface.h"
#include "wire/tree-receive.h"

typedef struct FakeRun {
        char id[16];
        char policy[32], name[32];
        pid_t pid;
        sd_bus_message *waiter;
        bool ended;
        const char *reason; /* why this process ended it, or NULL */
        int copy_in, copy_out; /* -1: none */
        char **paths;
        int exit_code, signal;
} FakeRun;

enum { RUNS_MAX = 64 };

typedef struct Fake {
        sd_event *event;
        sd_bus *bus;
        FakeRun runs[RUNS_MAX];
        size_t n_runs;
        unsigned n_left;
} Fake;

static FakeRun *find(Fake *f, const char *id)
{
        for (size_t i = 0; i < f->n_runs; i++)
                if (streq(f->runs[i].id, id) || (f->runs[i].name[0] && streq(f->runs[i].name, id)))
                        return f->runs + i;
        return NULL;
}

static int reply_result(sd_bus_message *call, const FakeRun *run)
{
        sd_bus_message *m;
        int r = sd_bus_message_new_method_return(call, &m);

        if (r < 0)
                return r;
        sd_bus_message_open_container(m, 'a', "{sv}");
        sd_bus_message_append(m, "{sv}{sv}{sv}", "run", "s", run->id, "policy", "s", run->policy, "reason",
                        "s",
                        run->reason
                                        ?: run->signal > 0 ? run->reason ?: "signal"
                                                           : "exited");
        if (run->exit_code >= 0)
                sd_bus_message_append(m, "{sv}", "exit_code", "t", (uint64_t) run->exit_code);
        if (run->signal > 0)
                sd_bus_message_append(m, "{sv}", "signal", "t", (uint64_t) run->signal);
        sd_bus_message_append(m, "{sv}{sv}", "wall_usec", "t", UINT64_C(1234), "verified", "as", 2, "uid",
                        "network");
        if (streq(run->policy, "denied"))
                sd_bus_message_append(m, "{sv}{sv}", "egress_denied", "t", UINT64_C(12), "egress_denied_to", "as", 2,
                                "evil\033.example:443", "169.254.169.254:80");
        if (run->reason && streq(run->reason, "oom"))
                sd_bus_message_append(m, "{sv}", "message", "s", "memory limit 256M reached (peak 256M)");
        sd_bus_message_close_container(m);
        r = sd_bus_send(NULL, m, NULL);
        sd_bus_message_unref(m);
        return r;
}

/* ---- the shim's part, and that of the reader of workspaces */

static int place(void *userdata, const char *path, TreePlace *ret)
{
        return tree_place_beneath(*(int *) userdata, path, ret);
}

static int open_workspace(void)
{
        return open(getenv("FAKE_WORKSPACE"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int unpack(FakeRun *run)
{
        TreeReceiver t = TREE_RECEIVER_NONE;
        int fd = open_workspace(), r = tree_receiver_init(&t);

        t.userdata = &fd;
        t.place = place;
        t.merge = true;
        while (r >= 0 && (r = tree_receive(&t, run->copy_in)) > 0)
                ;
        tree_receiver_done(&t);
        close(fd);
        close(TAKE_FD(run->copy_in));
        return r;
}

static int send_path(TreeSender *t, int workspace, const char *path)
{
        TreeLeft left = TREE_LEFT_LINK;
        int fd = tree_open_beneath(workspace, path, &left);

        if (fd == -ENOENT || fd == -ENOTDIR)
                return tree_send_left(t, path, TREE_LEFT_MISSING);
        return fd < 0 ? tree_send_left(t, path, left) : tree_send_top(t, path, fd);
}

static void copy_out(FakeRun *run)
{
        TreeSender t = TREE_SENDER_NONE;
        int fd = open_workspace(), r = tree_sender_init(&t);

        t.fd = run->copy_out;
        if (streq(run->policy, "copy-garbage"))
                (void) write_full(run->copy_out, "ABT1nonsense", 12);
        STRV_FOREACH(i, run->paths)
                if (r >= 0)
                        r = send_path(&t, fd, streq(run->policy, "copy-other") ? "other" : *i);
        if (r >= 0 && !streq(run->policy, "copy-cut"))
                r = tree_send_end(&t);
        tree_sender_done(&t);
        close(fd);
        close(TAKE_FD(run->copy_out));
}

static int on_child(sd_event_source *source, const siginfo_t *si, void *userdata)
{
        FakeRun *run = userdata;

        run->ended = true;
        run->exit_code = si->si_code == CLD_EXITED ? si->si_status : -1;
        run->signal = si->si_code == CLD_EXITED ? 0 : si->si_status;
        if (run->copy_out >= 0)
                copy_out(run);
        if (run->waiter) {
                reply_result(run->waiter, run);
                sd_bus_message_unref(TAKE_PTR(run->waiter));
        }
        return 0;
}

static int read_byte_strings(sd_bus_message *m, char ***ret)
{
        char **l = NULL;
        int r = sd_bus_message_enter_container(m, 'a', "ay");

        while (r >= 0 && sd_bus_message_at_end(m, false) == 0) {
                const void *p;
                size_t n;

                r = sd_bus_message_read_array(m, 'y', &p, &n);
                if (r >= 0)
                        r = strv_push(&l, strndup(p, n));
        }
        *ret = l;
        return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int read_fd(sd_bus_message *m, int *ret)
{
        int fd, r = sd_bus_message_read(m, "v", "h", &fd);

        if (r >= 0)
                *ret = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        return r;
}

static int read_paths(sd_bus_message *m, FakeRun *run)
{
        int r = sd_bus_message_enter_container(m, 'v', "aay");

        if (r >= 0)
                r = read_byte_strings(m, &run->paths);
        return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int read_options(sd_bus_message *m, FakeRun *run)
{
        int r = sd_bus_message_enter_container(m, 'a', "{sv}");
        const char *key, *value;

        while (r >= 0 && (r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
                r = sd_bus_message_read_basic(m, 's', &key);
                if (r >= 0 && streq(key, "name")) {
                        r = sd_bus_message_read(m, "v", "s", &value);
                        snprintf(run->name, sizeof(run->name), "%s", value);
                } else if (r >= 0 && streq(key, "copy-in"))
                        r = read_fd(m, &run->copy_in);
                else if (r >= 0 && streq(key, "copy-out"))
                        r = read_fd(m, &run->copy_out);
                else if (r >= 0 && streq(key, "copy-out-paths"))
                        r = read_paths(m, run);
                else if (r >= 0)
                        r = sd_bus_message_skip(m, "v");
                if (r >= 0)
                        r = sd_bus_message_exit_container(m);
        }
        return r < 0 ? r : sd_bus_message_exit_container(m);
}

static _noreturn_ void child(char **argv, char **env, const int stdio[3], bool has_stdio)
{
        sigset_t none;

        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        signal(SIGINT, SIG_DFL);
        signal(SIGQUIT, SIG_DFL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setsid();
        for (int i = 0; has_stdio && i < 3; i++)
                dup2(stdio[i], i);
        STRV_FOREACH(i, env)
                putenv(*i);
        if (getenv("FAKE_WORKSPACE") && chdir(getenv("FAKE_WORKSPACE")) < 0)
                _exit(99);
        execvp(argv[0], argv);
        _exit(127);
}

static int start(Fake *f, FakeRun *run, sd_bus_message *m, sd_bus_error *e)
{
        char **tightenings = NULL, **argv = NULL, **env = NULL;
        int stdio[3] = { -1, -1, -1 }, r;
        bool has_stdio = true;

        r = sd_bus_message_read_strv(m, &tightenings);
        if (r >= 0)
                r = read_byte_strings(m, &argv);
        if (r >= 0)
                r = read_byte_strings(m, &env);
        if (r >= 0)
                r = read_options(m, run);
        if (r >= 0)
                r = sd_bus_message_enter_container(m, 'a', "h");
        for (int i = 0; r >= 0 && i < 3; i++) {
                r = sd_bus_message_read_basic(m, 'h', stdio + i);
                if (r == 0)
                        has_stdio = false;
        }
        if (r >= 0 && run->copy_in >= 0) {
                r = unpack(run);
                if (r < 0)
                        r = sd_bus_error_setf(e, AGENTBOX_ERROR_START_FAILED, "cannot copy in: %s", strerror(-r));
        }
        if (r >= 0) {
                run->pid = fork();
                if (run->pid == 0)
                        child(argv, env, stdio, has_stdio);
                r = sd_event_add_child(f->event, NULL, run->pid, WEXITED, on_child, run);
        }
        strv_free(tightenings);
        strv_free(argv);
        strv_free(env);
        return r;
}

static int broker_method_run(sd_bus_message *m, void *userdata, sd_bus_error *e)
{
        Fake *f = userdata;
        FakeRun *run = f->runs + f->n_runs;
        const char *policy;
        uint64_t limit;
        int r = sd_bus_message_read_basic(m, 's', &policy);

        if (r < 0)
                return r;
        if (streq(policy, "refuse"))
                return sd_bus_error_set(
                                e, AGENTBOX_ERROR_NOT_AUTHORIZED, "policy refuse is not open to you");
        if (streq(policy, "unverified"))
                return sd_bus_error_set(e, AGENTBOX_ERROR_NOT_VERIFIED, "not kept: memory limit");
        if (streq(policy, "leaving") && f->n_left++ < 2)
                return sd_bus_error_set(e, AGENTBOX_ERROR_SHUTTING_DOWN, "leaving");
        if (f->n_runs == RUNS_MAX)
                return sd_bus_error_set(e, AGENTBOX_ERROR_TOO_MANY_RUNS, "no more");
        snprintf(run->id, sizeof(run->id), "fake%06zu", f->n_runs);
        snprintf(run->policy, sizeof(run->policy), "%s", policy);
        if (streq(policy, "oom") || streq(policy, "timeout"))
                run->reason = run->policy;
        run->copy_in = run->copy_out = -1;
        r = start(f, run, m, e);
        if (r < 0)
                return r;
        f->n_runs++;
        limit = streq(policy, "cap") ? 1000 : UINT64_C(64) << 20;
        r = sd_bus_reply_method_return(m, AGENTBOX_RUN_RESULT, run->id, AGENTBOX_RUN_PATH_PREFIX "x", 3,
                        "output_limit", "t", limit, "copy_out_size", "t",
                        streq(policy, "copy-large") ? UINT64_C(1000) : UINT64_C(1) << 20, "copy_out_files", "t", UINT64_C(1000));
        if (streq(policy, "crash")) {
                sd_bus_flush(f->bus);
                _exit(0);
        }
        return r;
}

static int broker_method_wait_run(sd_bus_message *m, void *userdata, sd_bus_error *e)
{
        static const FakeRun adopted = { .id = "adopted", .policy = "crash", .exit_code = 17 };
        const char *id;
        FakeRun *run;
        int r = sd_bus_message_read_basic(m, 's', &id);

        if (r < 0)
                return r;
        if (getenv("FAKE_ADOPTS"))
                return reply_result(m, &adopted);
        run = find(userdata, id);
        if (!run)
                return sd_bus_error_setf(e, AGENTBOX_ERROR_NO_SUCH_RUN, "no run %s", id);
        if (run->ended)
                return reply_result(m, run);
        run->waiter = sd_bus_message_ref(m);
        return 1;
}

static int broker_method_kill_run(sd_bus_message *m, void *userdata, sd_bus_error *e)
{
        const char *id, *reason;
        int signal, r = sd_bus_message_read(m, AGENTBOX_KILL_SIGNATURE, &id, &signal, &reason);
        FakeRun *run = r < 0 ? NULL : find(userdata, id);

        if (!run)
                return sd_bus_error_setf(e, AGENTBOX_ERROR_NO_SUCH_RUN, "no such run");
        if (!run->ended)
                kill(signal > 0 ? run->pid : -run->pid, signal > 0 ? signal : SIGKILL);
        if (signal == 0 && !run->ended)
                run->reason = *reason ? "output-limit" : "killed";
        return sd_bus_reply_method_return(m, NULL);
}

static int broker_method_list_runs(sd_bus_message *m, void *userdata, sd_bus_error *e)
{
        Fake *f = userdata;
        sd_bus_message *reply;
        int r = sd_bus_message_new_method_return(m, &reply);

        if (r < 0)
                return r;
        sd_bus_message_open_container(reply, 'a', "a{sv}");
        for (size_t i = 0; i < f->n_runs; i++)
                sd_bus_message_append(reply, "a{sv}", 5, "run", "s", f->runs[i].id, "name", "s",
                                f->runs[i].name, "state", "s", f->runs[i].ended ? "ended" : "running",
                                "command", "s", "evil\033]52;c;aGk=\007", "memory", "t", UINT64_C(3) << 20);
        sd_bus_message_close_container(reply);
        r = sd_bus_send(NULL, reply, NULL);
        sd_bus_message_unref(reply);
        return r;
}

static int broker_method_get_run(sd_bus_message *m, void *userdata, sd_bus_error *e)
{
        const char *id;
        FakeRun *run;
        int r = sd_bus_message_read_basic(m, 's', &id);

        run = r < 0 ? NULL : find(userdata, id);
        if (!run)
                return sd_bus_error_setf(e, AGENTBOX_ERROR_NO_SUCH_RUN, "there is no run %s", id);
        return sd_bus_reply_method_return(m, "a{sv}", 4, "run", "s", run->id, "policy", "s", run->policy,
                        "odd", "(u)", 1, "verified", "as", 1, "uid");
}

static int broker_method_list_promises(sd_bus_message *m, void *userdata, sd_bus_error *e)
{
        return sd_bus_reply_method_return(m, AGENTBOX_PROMISES_RESULT, 2, "uid", "its uid is its own", "", "every", "wall",
                        "what it sends is caught", "boot another kernel", "default");
}

static int broker_method_doctor(sd_bus_message *m, void *userdata, sd_bus_error *e)
{
        return sd_bus_reply_method_return(m, AGENTBOX_DOCTOR_RESULT, 1, "memory limits", "failed",
                        "not enforced here", "mount cgroup2");
}

/* What its client says was not written: for the test to see. */
static int broker_method_report_copy(sd_bus_message *m, void *userdata, sd_bus_error *e)
{
        const char *id, *reason;
        uint64_t files, bytes;
        int r = sd_bus_message_read(m, AGENTBOX_REPORT_COPY_SIGNATURE, &id, &files, &bytes, &reason);

        if (r < 0)
                return r;
        printf("ReportCopy %s %llu %llu %s\n", id, (unsigned long long) files, (unsigned long long) bytes, reason);
        fflush(stdout);
        return sd_bus_reply_method_return(m, NULL);
}

/* For the test to see. */
static int broker_method_claim_run(sd_bus_message *m, void *userdata, sd_bus_error *e)
{
        const char *id;
        int r = sd_bus_message_read_basic(m, 's', &id);

        if (r < 0)
                return r;
        printf("ClaimRun %s\n", id);
        fflush(stdout);
        return sd_bus_reply_method_return(m, NULL);
}

static const sd_bus_vtable manager[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_METHOD("ClaimRun", "s", NULL, broker_method_claim_run, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("ReportCopy", AGENTBOX_REPORT_COPY_SIGNATURE, NULL, broker_method_report_copy,
                        SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("Run", AGENTBOX_RUN_SIGNATURE, AGENTBOX_RUN_RESULT, broker_method_run,
                        SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("WaitRun", "s", AGENTBOX_FACTS, broker_method_wait_run, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("KillRun", AGENTBOX_KILL_SIGNATURE, NULL, broker_method_kill_run,
                        SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("ListRuns", NULL, AGENTBOX_LIST_RESULT, broker_method_list_runs,
                        SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("GetRun", "s", AGENTBOX_FACTS, broker_method_get_run, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("ListPromises", NULL, AGENTBOX_PROMISES_RESULT, broker_method_list_promises, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("Doctor", NULL, AGENTBOX_DOCTOR_RESULT, broker_method_doctor,
                        SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_VTABLE_END,
};

int main(void)
{
        static Fake f;
        sigset_t set;
        int r;

        sigemptyset(&set);
        sigaddset(&set, SIGCHLD);
        sigprocmask(SIG_BLOCK, &set, NULL);
        r = sd_event_new(&f.event);
        if (r >= 0)
                r = sd_bus_open_system(&f.bus);
        if (r >= 0)
                r = sd_bus_attach_event(f.bus, f.event, 0);
        if (r >= 0)
                r = sd_bus_add_object_vtable(
                                f.bus, NULL, AGENTBOX_OBJECT_PATH, AGENTBOX_MANAGER_INTERFACE, manager, &f);
        if (r >= 0)
                r = sd_bus_request_name(f.bus, AGENTBOX_BUS_NAME, 0);
        if (r < 0) {
                fprintf(stderr, "fake-broker: %s\n", strerror(-r));
                return 1;
        }
        puts("ready");
        fflush(stdout);
        return sd_event_loop(f.event) < 0;
}
