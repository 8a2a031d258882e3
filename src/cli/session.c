/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <systemd/sd-event.h>
#include <time.h>

#include "cli/client.h"
#include "cli/facts.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/relay.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "wire/bus-iface.h"

#define USEC_PER_SEC UINT64_C(1000000)

enum {
        PIPE_SIZE = 256 * 1024,
        /* How long a broker that went away is waited for. Its unit restarts at once. */
        LOST_SECONDS = 30,
        /* Two interrupts within this time, or three in all, mean "end it", whatever the program does about
           them. */
        INSIST_SECONDS = 2,
        INSIST_COUNT = 3,
        /* How often the run is asked for where the broker is just leaving. */
        ASK_MAX = 5,
};

typedef struct Session {
        RunRequest *request;
        sd_event *event;
        sd_bus *bus;
        Relay relay;
        Terminal terminal;
        ScopeChild scope;
        Copy copy;
        int inner[3]; /* the run's ends, until the broker has them */
        char *run;    /* NULL until it has begun */
        RunResult *result;
        bool ended;
        bool is_concluded; /* its results took their places */
        bool limit_reported;
        unsigned n_asked;
        uint64_t asked;      /* when the broker was asked for the end of the run, the last time */
        uint64_t lost_since; /* when it went away; 0: it is there */
        unsigned n_interrupts;
        uint64_t last_interrupt;
        Error *error;
} Session;

static uint64_t now_usec(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * USEC_PER_SEC + (uint64_t) t.tv_nsec / 1000;
}

static void close_inner(Session *s)
{
        for (size_t i = 0; i < ELEMENTSOF(s->inner); i++)
                if (s->inner[i] >= 0)
                        close(TAKE_FD(s->inner[i]));
        /* Else the shim would never see the broker close its end. */
        if (s->scope.channel >= 0)
                close(TAKE_FD(s->scope.channel));
}

static int finish_failed(Session *s, RunReason reason, int r)
{
        s->result->reason = reason;
        return sd_event_exit(s->event, r);
}

static int on_copy_reported(sd_bus_message *m, void *userdata, sd_bus_error *reterr)
{
        Session *s = userdata;

        if (sd_bus_message_is_method_error(m, NULL))
                message("that not all results were written could not be recorded: %s", sd_bus_message_get_error(m)->message);
        return sd_event_exit(s->event, 0);
}

/* The results take their places; only here is it known what of them was not written. Who is gone is not listened to any more, so the
 * answer is waited for. */
static int conclude_copies(Session *s)
{
        const Copy *c = &s->copy;
        int r;

        if (s->is_concluded)
                return 0;
        s->is_concluded = true;
        (void) copy_conclude(&s->copy);
        r = c->refused ? client_report_copy(s->bus, s->run, c->refused_files, c->refused_bytes, c->refused,
                                         on_copy_reported, s)
                       : -ECANCELED;
        return r < 0 ? sd_event_exit(s->event, 0) : 0;
}

/* The loop is left when the run has ended and its output is out. */
static int finish_if_done(Session *s)
{
        if (!s->ended || !relay_outputs_finished(&s->relay) || !copy_is_over(&s->copy))
                return 0;
        return conclude_copies(s);
}

/* The reply that sd-bus makes up when the connection breaks looks like a broker that does not answer. */
static bool bus_is_gone(Session *s)
{
        if (sd_bus_is_open(s->bus) > 0)
                return false;
        error_set(&s->error, -ECONNRESET, "the system bus closed the connection");
        return true;
}

/* Nothing here depends on the answer: the end of the run comes by itself, or the run stays as it is. */
static int kill_run(Session *s, int signal, const char *reason)
{
        int r = client_kill_nowait(s->bus, s->run, signal, reason);

        if (r < 0)
                message("cannot pass signal %i on to run %s: %s", signal, s->run, strerror(-r));
        return 0;
}

static int on_relay(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Session *s = userdata;

        relay_acknowledge(&s->relay);
        if (atomic_load(&s->relay.limit_hit) && !s->limit_reported) {
                s->limit_reported = true;
                kill_run(s, 0, "output-limit");
        }
        return finish_if_done(s);
}

static int wait_for_end(Session *s);

/* The bus was restarted, and everybody's connection is gone. */
static int reconnect(Session *s)
{
        _cleanup_bus_ sd_bus *bus = NULL;
        int r = client_connect(&bus, NULL);

        if (r >= 0)
                r = sd_bus_attach_event(bus, s->event, SD_EVENT_PRIORITY_NORMAL);
        if (r >= 0)
                r = client_claim_nowait(bus, s->run);
        if (r < 0)
                return r;
        sd_bus_close_unref(s->bus);
        s->bus = TAKE_PTR(bus);
        return 0;
}

static int on_broker_lost(Session *s);

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
        Session *s = userdata;

        if (sd_bus_is_open(s->bus) <= 0 && reconnect(s) < 0) {
                s->asked = now_usec();
                return on_broker_lost(s);
        }
        return wait_for_end(s);
}

/* The run goes on under the limits of PID 1, and the broker's successor takes it over; the call starts it
 * where need be. */
static int on_broker_lost(Session *s)
{
        uint64_t now = now_usec();

        if (now - s->asked >
                        LOST_SECONDS * USEC_PER_SEC) /* it was there for a while: this is another loss */
                s->lost_since = 0;
        if (s->lost_since == 0) {
                s->lost_since = now;
                message("the %s went away during run %s; waiting for it to come back",
                                sd_bus_is_open(s->bus) > 0 ? "broker" : "system bus", s->run);
        }
        if (now - s->lost_since > LOST_SECONDS * USEC_PER_SEC) {
                error_set(&s->error, -EHOSTDOWN,
                                "run %s is lost: the broker did not come back within %i seconds; see "
                                "'systemctl status agentboxd'",
                                s->run, LOST_SECONDS);
                return finish_failed(s, REASON_LOST, -EHOSTDOWN);
        }
        return sd_event_add_time_relative(s->event, NULL, CLOCK_MONOTONIC, USEC_PER_SEC / 5, 0, on_retry, s);
}

static int on_wait_reply(sd_bus_message *m, void *userdata, sd_bus_error *reterr)
{
        Session *s = userdata;
        int r;

        if (sd_bus_message_is_method_error(m, NULL) &&
                        (sd_bus_is_open(s->bus) <= 0 || client_broker_was_lost(sd_bus_message_get_error(m))))
                return on_broker_lost(s);
        r = client_wait_reply(m, s->result, &s->error);
        if (r < 0) {
                error_prefix(&s->error, r, "run %s is lost", s->run);
                return finish_failed(s, REASON_LOST, r);
        }
        s->ended = true;
        terminal_close_slave(&s->terminal);
        relay_run_ended(&s->relay);
        return finish_if_done(s);
}

/* Only here is it known how the command of a scope ended. Told to each broker that is asked for the end: one
 * of them writes it down. */
static void report_exit(Session *s)
{
        int r = s->run && s->scope.ended
                                ? client_report_exit_nowait(s->bus, s->run, s->scope.code, s->scope.status)
                                : 0;

        if (r < 0)
                message("cannot tell the broker how run %s ended: %s", s->run, strerror(-r));
}

static int on_child(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Session *s = userdata;
        int r = sd_event_source_set_enabled(source, SD_EVENT_OFF);

        if (r >= 0)
                r = scope_child_reap(&s->scope);
        if (r >= 0)
                report_exit(s);
        return r;
}

static int start_scope(Session *s, Error **reterr)
{
        int r = s->request->scope ? scope_child_start(&s->scope, reterr) : 0;

        if (r < 0 || !s->request->scope)
                return r;
        r = sd_event_add_io(s->event, NULL, s->scope.pidfd, EPOLLIN, on_child, s);
        return r < 0 ? error_set(reterr, r, "cannot watch the command: %s", strerror(-r)) : 0;
}

static int wait_for_end(Session *s)
{
        int r;

        report_exit(s);
        r = client_wait(s->bus, s->run, on_wait_reply, s, &s->error);

        s->asked = now_usec();
        return r < 0 ? finish_failed(s, REASON_LOST, r) : 0;
}

static int on_copy_over(void *userdata)
{
        return finish_if_done(userdata);
}

static int copies_began(Session *s, const json_t *facts)
{
        int r = copy_run_began(&s->copy, s->run, facts_u64(facts, "copy_out_size"), facts_u64(facts, "copy_out_files"));

        return r < 0 ? error_set(&s->error, r, "cannot wait for the run's results: %s", strerror(-r)) : 0;
}

static int start_relay(Session *s, const json_t *facts)
{
        uint64_t limit = facts_u64(facts, "output_limit");
        int r = 0;

        if (limit == UINT64_MAX)
                return error_set(&s->error, -EBADMSG,
                                "the broker did not say how much output the policy allows");
        atomic_store(&s->relay.left, limit);
        if (s->request->tty)
                r = terminal_set_raw(&s->terminal);
        if (r >= 0)
                r = sd_event_add_io(s->event, NULL, s->relay.event_fd, EPOLLIN, on_relay, s);
        if (r >= 0)
                r = relay_start(&s->relay);
        return r < 0 ? error_set(&s->error, r, "cannot relay the run's output: %s", strerror(-r)) : 0;
}

static int ask_for_run(Session *s);

static int on_run_reply(sd_bus_message *m, void *userdata, sd_bus_error *reterr)
{
        Session *s = userdata;
        _cleanup_json_ json_t *facts = NULL;
        int r;

        if (sd_bus_message_is_method_error(m, AGENTBOX_ERROR_SHUTTING_DOWN) && s->n_asked < ASK_MAX) {
                /* It was about to leave, for it had nothing to do; the next call starts it anew. */
                r = ask_for_run(s);
                return r < 0 ? finish_failed(s, REASON_REFUSED, r) : 0;
        }
        close_inner(s);
        if (sd_bus_message_is_method_error(m, NULL) && bus_is_gone(s))
                return finish_failed(s, REASON_REFUSED, -ECONNRESET);
        r = client_run_reply(m, &s->run, &facts, &s->error);
        if (r < 0) {
                s->result->run = client_refused_run(m);
                copy_run_refused(&s->copy, &s->error);
                return finish_failed(s, REASON_REFUSED, r);
        }
        r = copies_began(s, facts);
        if (r >= 0 && s->request->detach)
                return sd_event_exit(s->event, 1);
        if (r >= 0)
                r = start_relay(s, facts);
        if (r < 0) /* the broker ends the run when this process is gone */
                return finish_failed(s, REASON_LOST, r);
        return wait_for_end(s);
}

static int ask_for_run(Session *s)
{
        s->n_asked++;
        return client_run(s->bus, s->request, s->request->detach ? NULL : s->inner, &s->scope, &s->copy, on_run_reply,
                        s, &s->error);
}

static bool insists(Session *s, int signal)
{
        uint64_t now = now_usec();
        bool soon = s->n_interrupts > 0 && now - s->last_interrupt < INSIST_SECONDS * USEC_PER_SEC;

        if (signal != SIGINT && signal != SIGTERM && signal != SIGQUIT)
                return false;
        s->last_interrupt = now;
        return ++s->n_interrupts >= INSIST_COUNT || soon;
}

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata)
{
        Session *s = userdata;
        int signal = (int) si->ssi_signo;

        if (signal == SIGUSR1 || signal == SIGUSR2)
                return s->run ? kill_run(s, signal, "") : 0;
        if (!s->run) {
                error_set(&s->error, -EINTR, "interrupted before the run had begun");
                s->result->signal = (uint64_t) signal;
                return finish_failed(s, REASON_KILLED, -EINTR);
        }
        if (s->ended) /* only the delivery of its output is left, and nobody wants it any more */
                return sd_event_exit(s->event, 0);
        if (!insists(s, signal))
                return kill_run(s, signal, "");
        if (s->n_interrupts > INSIST_COUNT + 1) {
                error_set(&s->error, -EINTR, "gave up waiting for the end of run %s; the broker ends it",
                                s->run);
                return finish_failed(s, REASON_LOST, -EINTR);
        }
        return kill_run(s, 0, "");
}

static int on_resize(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata)
{
        Session *s = userdata;

        terminal_resize(&s->terminal);
        return 0;
}

/* Stopped from outside (^Z goes to the run, as a byte): the shell gets its terminal as it knew it. */
static int on_stop(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata)
{
        Session *s = userdata;
        bool was_raw = s->terminal.raw;

        terminal_restore(&s->terminal);
        raise(SIGSTOP);
        if (was_raw && terminal_set_raw(&s->terminal) < 0)
                message("cannot set the terminal to raw mode again");
        terminal_resize(&s->terminal);
        return 0;
}

/* A signal that the caller had ignored (nohup, "&" in a script) stays ignored. */
static bool wants_signal(const Session *s, int signal, bool tty_only)
{
        struct sigaction old;

        if (tty_only && !s->request->tty)
                return false;
        return sigaction(signal, NULL, &old) == 0 && old.sa_handler != SIG_IGN;
}

static int add_signals(Session *s)
{
        static const struct {
                int signal;
                sd_event_signal_handler_t handler;
                bool tty_only;
        } rows[] = {
                { SIGINT, on_signal, false },
                { SIGTERM, on_signal, false },
                { SIGHUP, on_signal, false },
                { SIGQUIT, on_signal, false },
                { SIGUSR1, on_signal, false },
                { SIGUSR2, on_signal, false },
                { SIGWINCH, on_resize, true },
                { SIGTSTP, on_stop, true },
        };
        sigset_t set;
        int r;

        sigemptyset(&set);
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (wants_signal(s, rows[i].signal, rows[i].tty_only))
                        sigaddset(&set, rows[i].signal);
        /* Before any thread exists: they inherit it, and signals come through the loop alone. */
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return -errno;
        signal(SIGPIPE, SIG_IGN);
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                if (!sigismember(&set, rows[i].signal))
                        continue;
                r = sd_event_add_signal(s->event, NULL, rows[i].signal, rows[i].handler, s);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int make_terminal(Session *s, Error **reterr)
{
        int r = terminal_open(&s->terminal, STDIN_FILENO, reterr);

        if (r < 0)
                return r;
        for (size_t i = 0; i < ELEMENTSOF(s->inner); i++) {
                s->inner[i] = fcntl(s->terminal.slave, F_DUPFD_CLOEXEC, 3);
                if (s->inner[i] < 0)
                        return error_set(reterr, -errno, "cannot duplicate a descriptor: %s",
                                        strerror(errno));
        }
        r = relay_add_terminal(&s->relay, s->terminal.master, STDIN_FILENO, STDOUT_FILENO);
        return r < 0 ? error_set(reterr, r, "cannot set up the terminal: %s", strerror(-r)) : 0;
}

static int make_pipe(Session *s, int i)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        /* A wish: whoever is over the system's limit for pipes keeps the small one. */
        (void) fcntl(fds[0], F_SETPIPE_SZ, PIPE_SIZE);
        s->inner[i] = i == 0 ? fds[0] : fds[1];
        /* The run opens its end anew as /dev/stdin or /dev/stderr, under a uid of its own; never the other end. */
        if (fchmod(s->inner[i], i == 0 ? 0604 : 0602) < 0)
                return -errno;
        return i == 0 ? relay_add_input(&s->relay, i, fds[1]) : relay_add_output(&s->relay, fds[0], i);
}

/* The caller's standard input becomes a file of the workspace: there is nothing more to read. */
static int make_end_of_file(Session *s)
{
        s->inner[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return s->inner[0] < 0 ? -errno : 0;
}

static int make_silence(Session *s, Error **reterr)
{
        for (size_t i = 0; i < ELEMENTSOF(s->inner); i++) {
                s->inner[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
                if (s->inner[i] < 0)
                        return error_set(reterr, -errno, "cannot open /dev/null: %s", strerror(errno));
        }
        return 0;
}

static int make_stdio(Session *s, Error **reterr)
{
        struct stat st;
        int r;

        r = relay_init(&s->relay, 0);
        if (r < 0)
                return error_set(reterr, r, "cannot make an eventfd: %s", strerror(-r));
        if (s->request->detach)
                return 0;
        if (s->request->silent)
                return make_silence(s, reterr);
        if (s->request->tty && s->copy.in.takes_stdin)
                return error_set(reterr, -EINVAL, "--in -: standard input is the terminal that -t is about");
        if (s->request->tty)
                return make_terminal(s, reterr);
        if (fstat(STDIN_FILENO, &st) == 0 && S_ISDIR(st.st_mode))
                return error_set(reterr, -EISDIR,
                                "standard input is a directory: give a file, a pipe or </dev/null");
        for (int i = 0; i < 3; i++) {
                r = i == 0 && s->copy.in.takes_stdin ? make_end_of_file(s) : make_pipe(s, i);
                if (r < 0)
                        return error_set(reterr, r, "cannot make a pipe: %s", strerror(-r));
        }
        return 0;
}

static int attend(Session *s, Error **reterr)
{
        int r;

        r = sd_event_new(&s->event);
        if (r >= 0)
                r = add_signals(s);
        if (r < 0)
                return error_set(reterr, r, "cannot set up the event loop: %s", strerror(-r));
        r = copy_open(&s->copy, s->request, reterr);
        if (r >= 0)
                r = make_stdio(s, reterr);
        if (r >= 0)
                r = start_scope(s, reterr);
        if (r < 0)
                return r;
        r = client_connect(&s->bus, reterr);
        if (r < 0)
                return r;
        r = sd_bus_attach_event(s->bus, s->event, SD_EVENT_PRIORITY_NORMAL);
        if (r < 0)
                return error_set(reterr, r, "cannot set up the event loop: %s", strerror(-r));
        r = copy_begin(&s->copy, s->event, on_copy_over, s, reterr);
        if (r >= 0)
                r = ask_for_run(s);
        if (r < 0)
                return r;
        r = sd_event_loop(s->event);
        if (r < 0)
                error_set(&s->error, r, "the run is not attended any more: %s", strerror(-r));
        return r;
}

int session_run(RunRequest *request, RunResult *ret, int *ret_relay_error, Error **reterr)
{
        Session s = {
                .request = request,
                .terminal = TERMINAL_NONE,
                .inner = { -1, -1, -1 },
                .scope = SCOPE_CHILD_NONE,
                .copy = COPY_NONE,
                .relay = { .event_fd = -1, .ended_fd = -1 },
                .result = ret,
        };
        int r;

        ret->reason = REASON_REFUSED;
        r = attend(&s, &s.error);
        if (r < 0 && s.run && ret->reason == REASON_REFUSED)
                ret->reason = REASON_LOST;
        if (s.run && !ret->run)
                ret->run = TAKE_PTR(s.run);
        *ret_relay_error = relay_error(&s.relay);
        terminal_done(&s.terminal);
        request->copy_failed = copy_conclude(&s.copy) < 0;
        copy_done(&s.copy);
        relay_done(&s.relay);
        close_inner(&s);
        scope_child_done(&s.scope);
        sd_bus_close_unref(s.bus);
        sd_event_unref(s.event);
        free(s.run);
        if (reterr && r < 0)
                *reterr = TAKE_PTR(s.error);
        error_free(s.error);
        return r;
}
