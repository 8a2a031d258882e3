/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* agentbox-warden [RESOLVER]
 *
 * The network of one run: whatever its processes connect to ends here, is decided by the run's rules, recorded, and if a rule
 * names it connected to the real destination. Names are answered here too, from the rules alone.
 *
 * uid            a dynamic uid of its own, in a unit of its own, in the host's network namespace; no capability
 * descriptors    0: the channel to the broker, a SOCK_SEQPACKET socket, read once and then left alone; 1, 2: whatever the
 *                unit gives. From the broker: enum WardenFd, sockets inside the run's network namespace among them
 * system calls   the table in warden-confine.c, once it is ready. Before: what a static C program needs to start, files of
 *                /proc/self, one fork, the witness (witness.h), one fork and execve of RESOLVER, mmap, Landlock and seccomp
 * environment    WATCHDOG_USEC, WATCHDOG_PID
 * trusts         the kernel, what the broker sends. Not: a byte that comes from inside the run or from the network, the
 *                resolver's answers, comm of a process
 * must           count, and record, before the sandbox can see a verdict; dial the very address that was judged; give every
 *                source a bounded turn; keep at most 64 KiB a direction
 * must not       open a file; wait for anybody; ask the outside anything because a name was asked for
 *
 * Stages: hello, receive, witness, resolver, confine, ready (each that fails ends the process, which the broker takes as a refusal);
 * then the loop, until SIGTERM says that the run is over: everything that is pending is recorded, and it exits with 0.
 */

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>

#include "base/parse.h"
#include "warden/warden-confine.h"
#include "warden/warden.h"
#include "warden/witness.h"

#define CHANNEL 0
#define RESOLVER_PATIENCE_MSEC 5000
#define EVENTS_MAX 64
/* Beside two a connection: the broker's, the loop's own, those of DNS over TCP, one in reserve. */
#define OTHER_FDS 48u
#define STOP_PATIENCE (2 * USEC_PER_SEC)
#define DRAIN_TURNS 80 /* of 64 connections and datagrams each: more than the kernel's queues hold */
#define READ_TICK (1 * USEC_PER_MSEC) /* how often it is looked whether the journal has been read, at the end */

static uint64_t now_usec(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * USEC_PER_SEC + (uint64_t) t.tv_nsec / 1000;
}

int warden_watch(Warden *w, int fd, uint32_t events, Source *s)
{
        struct epoll_event e = { .events = events, .data.ptr = s };

        return epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

static void watch_change(Warden *w, int fd, uint32_t events, Source *s)
{
        struct epoll_event e = { .events = events, .data.ptr = s };

        (void) epoll_ctl(w->epoll_fd, EPOLL_CTL_MOD, fd, &e);
}

/* ---- what the loop serves */

static void events_ready(Warden *w, Source *s, uint32_t events)
{
        warden_read_events(w);
}

static void write_pending(Warden *w)
{
        conn_retry_records(w);
        if (!w->waiting.first)
                (void) records_flush(&w->records, w->now);
}

/* The journal has room again. */
static void journal_ready(Warden *w, Source *s, uint32_t events)
{
        write_pending(w);
}

static void resolver_ready(Warden *w, Source *s, uint32_t events)
{
        if (w->resolver.fd >= 0)
                (void) resolver_dispatch(&w->resolver, w);
}

static void listeners_watch(Warden *w, bool watch)
{
        for (size_t i = 0; i < ELEMENTSOF(w->listeners); i++) {
                int fd = w->fds[i == 0 ? WARDEN_FD_TCP4 : WARDEN_FD_TCP6];

                if (fd >= 0)
                        watch_change(w, fd, watch ? EPOLLIN : 0, w->listeners + i);
        }
}

/* The run is over. What it left in the queues of the kernel is still judged and recorded. */
static void stop(Warden *w)
{
        if (w->stopping)
                return;
        for (size_t i = 0; i < DRAIN_TURNS * ELEMENTSOF(w->listeners); i++) {
                size_t k = i % ELEMENTSOF(w->listeners);

                if (w->fds[k == 0 ? WARDEN_FD_TCP4 : WARDEN_FD_TCP6] >= 0)
                        accept_ready(w, w->listeners + k, EPOLLIN);
                if (w->fds[k == 0 ? WARDEN_FD_DNS4 : WARDEN_FD_DNS6] >= 0)
                        dns_udp_ready(w, w->dns + k, EPOLLIN);
        }
        warden_read_events(w);
        accept_over(w);
        w->stopping = true;
        w->stop_deadline = w->now + STOP_PATIENCE;
        dns_stop_all(w);
        conn_stop_all(w);
        for (WardenFd i = 0; i < _WARDEN_FD_MAX; i++)
                if ((i == WARDEN_FD_TCP4 || i == WARDEN_FD_TCP6 || i == WARDEN_FD_DNS4 || i == WARDEN_FD_DNS6 ||
                                    i == WARDEN_FD_EVENTS) &&
                                w->fds[i] >= 0)
                        close(TAKE_FD(w->fds[i]));
        (void) records_flush(&w->records, w->now);
}

static void signal_ready(Warden *w, Source *s, uint32_t events)
{
        struct signalfd_siginfo si;

        if (read(w->signal_fd, &si, sizeof(si)) == sizeof(si))
                stop(w);
}

/* A witness that has died cannot be replaced: without it no refused call is on record. The run ends with its warden. */
static void witness_ready(Warden *w, Source *s, uint32_t events)
{
        char what;
        ssize_t n = read(w->witness_fd, &what, 1);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n != 1 || what != WITNESS_DONE) {
                w->exit_status = n == 1 && what == WITNESS_FATAL ? WARDEN_EXIT_FATAL_CALL : EXIT_FAILURE;
                stop(w);
        }
        closep(&w->witness_fd);
        w->witness_fd = -1;
}

/* Every second while something waits. */
static void tick_expired(void *userdata, Timer *t)
{
        Warden *w = userdata;

        write_pending(w);
        if (w->accept_paused && !w->stopping) {
                w->accept_paused = false;
                listeners_watch(w, true);
        }
}

/* Where it had no room, it may have. */
static void check_journal(Warden *w)
{
        journal_check(&w->records.journal, w->now);
        if (w->records.journal.blocked_since != 0 && w->records.journal.waits && !w->records.journal.closed)
                write_pending(w);
}

static void check_expired(void *userdata, Timer *t)
{
        check_journal(userdata);
}

static void watchdog_expired(void *userdata, Timer *t)
{
        static const char message[] = "WATCHDOG=1";
        Warden *w = userdata;

        (void) send(w->fds[WARDEN_FD_NOTIFY], message, strlen(message), MSG_DONTWAIT | MSG_NOSIGNAL);
        timer_set(&w->timers, t, TIMER_WATCHDOG, w->now);
}

/* ---- the loop */

static bool is_pending(const Warden *w)
{
        return w->waiting.first || records_pending(&w->records);
}

/* Nothing is left to be done before it ends. Where its end is what ends the run (OnDenied=kill), the run goes on until then: it is enough
 * that journald knows whose the records are, and what it drops of them the broker counts. */
static bool is_settled(Warden *w)
{
        bool is_there;

        check_journal(w);
        is_there = w->exit_status == WARDEN_EXIT_FATAL_CALL ? journal_is_read(&w->records.journal) : !journal_wants_check(&w->records.journal);
        return !is_pending(w) && w->witness_fd < 0 && is_there;
}

/* After each turn: somebody may have begun to wait for the journal or for a second. */
static void settle(Warden *w)
{
        /* Where it is not there, waiting for it would be no waiting: then the tick alone tries again. */
        bool watch = w->records.journal.blocked_since != 0 && !w->records.journal.waits && is_pending(w);

        if (watch && !w->journal_watched)
                w->journal_watched = warden_watch(w, w->fds[WARDEN_FD_JOURNAL], EPOLLOUT, &w->journal_source) >= 0;
        else if (!watch && w->journal_watched) {
                (void) epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, w->fds[WARDEN_FD_JOURNAL], NULL);
                w->journal_watched = false;
        }
        if (w->accept_paused)
                listeners_watch(w, false);
        if ((is_pending(w) || w->accept_paused) && !w->tick.next)
                timer_set(&w->timers, &w->tick, TIMER_TICK, w->now);
        if (journal_wants_check(&w->records.journal) && !w->check.next)
                timer_set(&w->timers, &w->check, TIMER_CHECK, w->now);
        conn_bury(w);
        dns_bury(w);
}

static int time_left(const Warden *w)
{
        uint64_t next = timers_next(&w->timers);

        if (w->ready)
                return 0;
        if (w->stopping)
                next = MIN2(next, MIN2(w->stop_deadline, w->now + READ_TICK));
        if (next == UINT64_MAX)
                return -1;
        return next <= w->now ? 0 : (int) MIN2((next - w->now + USEC_PER_MSEC - 1) / USEC_PER_MSEC, (uint64_t) 3600000);
}

static int loop(Warden *w)
{
        struct epoll_event events[EVENTS_MAX];

        while (!w->stopping || (w->now < w->stop_deadline && !is_settled(w))) {
                int n = epoll_wait(w->epoll_fd, events, EVENTS_MAX, time_left(w));

                if (n < 0 && errno != EINTR)
                        return -errno;
                w->now = now_usec();
                for (int i = 0; i < n; i++) {
                        Source *s = events[i].data.ptr;

                        s->ready(w, s, events[i].events);
                }
                conn_run_queue(w);
                timers_run(&w->timers, w->now, w);
                settle(w);
        }
        return 0;
}

/* ---- stages */

static int send_message(const Buf *message)
{
        ssize_t n;

        if (message->error < 0)
                return message->error;
        do
                n = send(CHANNEL, message->data, message->size, MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : 0;
}

static int stage_hello(Warden *w)
{
        _cleanup_buf_ Buf b = {};
        WardenHello h;
        int r = setup_hello(&h);

        if (r >= 0)
                r = wardenhello_encode(&h, &b);
        if (r >= 0)
                r = send_message(&b);
        /* Nobody of the same uid looks into this process; not earlier, for it hides /proc/self from itself too. */
        return r < 0 ? r : prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}

static int stage_receive(Warden *w)
{
        return setup_receive(w, CHANNEL);
}

/* As early as that, so that nothing of the network or the run has reached this process when it is copied. */
static int stage_witness(Warden *w)
{
        const WitnessFds fds = {
                .calls = w->fds[WARDEN_FD_CALLS], .proc = w->fds[WARDEN_FD_PROC], .journal = w->fds[WARDEN_FD_JOURNAL]
        };
        int r = w->spec.record_calls ? witness_start(&w->spec, w->tally, &fds, &w->witness_fd) : 0;

        if (w->spec.record_calls && r >= 0)
                atomic_store(&w->tally->counts_calls, 1);
        closep(w->fds + WARDEN_FD_CALLS);
        closep(w->fds + WARDEN_FD_PROC);
        w->fds[WARDEN_FD_CALLS] = w->fds[WARDEN_FD_PROC] = -1;
        return r;
}

static bool needs_resolver(const Warden *w)
{
        if (w->spec.proxy_host[0])
                return !w->has_proxy_address;
        for (uint32_t i = 0; i < w->spec.n_rules; i++)
                if (w->spec.rules[i].name[0])
                        return true;
        return false;
}

static int stage_resolver(Warden *w)
{
        return needs_resolver(w) ? resolver_start(&w->resolver, w->resolver_path) : 0;
}

static int open_sources(Warden *w)
{
        static const WardenFd listeners[] = { WARDEN_FD_TCP4, WARDEN_FD_TCP6 }, dns[] = { WARDEN_FD_DNS4, WARDEN_FD_DNS6 };
        const int one = 1;
        int r = 0;

        w->event_source.ready = events_ready;
        w->journal_source.ready = journal_ready;
        w->resolver_source.ready = resolver_ready;
        w->signal_source.ready = signal_ready;
        w->witness_source.ready = witness_ready;
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(listeners); i++) {
                w->listeners[i].ready = accept_ready;
                w->dns[i].ready = dns_udp_ready;
                if (w->fds[listeners[i]] >= 0) {
                        /* What is accepted inherits it. */
                        (void) setsockopt(w->fds[listeners[i]], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
                        r = warden_watch(w, w->fds[listeners[i]], EPOLLIN, w->listeners + i);
                }
                if (r >= 0 && w->fds[dns[i]] >= 0)
                        r = warden_watch(w, w->fds[dns[i]], EPOLLIN, w->dns + i);
        }
        if (r >= 0)
                r = warden_watch(w, w->fds[WARDEN_FD_EVENTS], EPOLLIN, &w->event_source);
        if (r >= 0)
                r = warden_watch(w, w->signal_fd, EPOLLIN, &w->signal_source);
        if (r >= 0 && w->resolver.fd >= 0)
                r = warden_watch(w, w->resolver.fd, EPOLLIN, &w->resolver_source);
        if (r >= 0 && w->witness_fd >= 0)
                r = warden_watch(w, w->witness_fd, EPOLLIN, &w->witness_source);
        return r;
}

static void set_limits(Warden *w)
{
        struct rlimit l;

        w->n_conns_max = w->spec.connections;
        if (getrlimit(RLIMIT_NOFILE, &l) >= 0 && l.rlim_cur != RLIM_INFINITY) {
                uint64_t most = l.rlim_cur > OTHER_FDS + 2 ? (l.rlim_cur - OTHER_FDS) / 2 : 1;

                w->n_conns_max = (unsigned) MIN2((uint64_t) w->n_conns_max, most);
        }
}

/* A warden that PID 1 cannot be told to watch as closely as a run needs it is none: one that hangs would hang the run. */
static int set_watchdog(Warden *w)
{
        const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
        uint64_t v;

        if (!usec || parse_u64(usec, &v) < 0 || v < 3)
                return 0;
        if (pid && (parse_u64(pid, &(uint64_t){ 0 }) < 0 || strtol(pid, NULL, 10) != getpid()))
                return 0;
        if (v > EGRESS_WATCHDOG_USEC) {
                char message[40];

                v = EGRESS_WATCHDOG_USEC;
                snprintf(message, sizeof(message), "WATCHDOG_USEC=%llu", (unsigned long long) v);
                if (send(w->fds[WARDEN_FD_NOTIFY], message, strlen(message), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
                        return -errno;
        }
        w->timers.lengths[TIMER_WATCHDOG] = v / 3;
        w->watchdog.expired = watchdog_expired;
        watchdog_expired(w, &w->watchdog);
        return 0;
}

/* Everything that allocates, opens or asks, before nothing of that is possible any more. */
static int stage_loop(Warden *w)
{
        sigset_t stop;
        int r;

        w->scratch = malloc(SPLICE_MAX);
        w->datagram = dns_buffer_new();
        if (!w->scratch || !w->datagram)
                return -ENOMEM;
        sigemptyset(&stop);
        sigaddset(&stop, SIGTERM);
        sigaddset(&stop, SIGINT);
        if (sigprocmask(SIG_BLOCK, &stop, NULL) < 0)
                return -errno;
        w->signal_fd = signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK);
        w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (w->signal_fd < 0 || w->epoll_fd < 0)
                return -errno;
        w->reserve_fd = fcntl(w->epoll_fd, F_DUPFD_CLOEXEC, 3);
        if (w->reserve_fd < 0)
                return -errno;
        r = router_open(&w->router);
        if (r >= 0)
                r = splicer_open(&w->splicer);
        if (r >= 0)
                r = open_sources(w);
        if (r < 0)
                return r;
        set_limits(w);
        w->tick.expired = tick_expired;
        w->check.expired = check_expired;
        w->now = now_usec();
        return set_watchdog(w);
}

static int stage_confine(Warden *w)
{
        int r = w->resolver.fd >= 0 ? resolver_wait(&w->resolver, RESOLVER_PATIENCE_MSEC) : 0;

        if (r >= 0)
                r = warden_confine_files(-1);
        return r < 0 ? r : warden_confine_calls();
}

static int send_ready(int error, const char *stage)
{
        _cleanup_buf_ Buf b = {};
        WardenReady ready = { .error = error };
        int r;

        snprintf(ready.stage, sizeof(ready.stage), "%s", stage);
        r = wardenready_encode(&ready, &b);
        return r < 0 ? r : send_message(&b);
}

static const struct {
        const char *name;
        int (*run)(Warden *w);
} stages[] = {
        { "hello", stage_hello },
        { "receive", stage_receive },
        { "witness", stage_witness },
        { "resolver", stage_resolver },
        { "loop", stage_loop },
        { "confine", stage_confine },
};

static void warden_done(Warden *w)
{
        for (size_t i = 0; i < _WARDEN_FD_MAX; i++)
                closep(w->fds + i);
        while (w->conns.first)
                conn_close(w, w->conns.first, true);
        while (w->waiting.first)
                conn_close(w, w->waiting.first, true);
        (void) TAKE_PTR(w->ready);
        conn_bury(w);
        dns_bury(w);
        records_close(&w->records);
        events_close(&w->events);
        resolver_close(&w->resolver);
        decider_free(w->decider);
        wardenspec_done(&w->spec);
        free(w->scratch);
        free(w->datagram);
        if (w->tally)
                munmap(w->tally, sizeof(*w->tally));
        splicer_close(&w->splicer);
        closep(&w->witness_fd);
        closep(&w->router.fd);
        closep(&w->signal_fd);
        closep(&w->reserve_fd);
        closep(&w->epoll_fd);
}

static bool is_channel(int fd)
{
        int domain = 0, type = 0;
        socklen_t n = sizeof(int);

        return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 && domain == AF_UNIX &&
               getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 && type == SOCK_SEQPACKET;
}

int main(int argc, char *argv[])
{
        Warden w = {
                .resolver_path = argc == 2 ? argv[1] : PKGLIBEXECDIR "/agentbox-resolver",
                .epoll_fd = -1,
                .signal_fd = -1,
                .reserve_fd = -1,
                .witness_fd = -1,
                .router.fd = -1,
                .resolver = RESOLVER_NONE,
                .splicer = SPLICER_NONE,
        };
        int r;

        if (argc > 2 || !is_channel(CHANNEL)) {
                fputs("agentbox-warden: started by agentboxd for a run, not by hand\n", stderr);
                return EXIT_FAILURE;
        }
        for (size_t i = 0; i < _WARDEN_FD_MAX; i++)
                w.fds[i] = -1;
        w.ready_end = &w.ready;
        timers_init(&w.timers);
        for (size_t i = 0; i < ELEMENTSOF(stages); i++) {
                r = stages[i].run(&w);
                if (r < 0) {
                        (void) send_ready(-r, stages[i].name);
                        warden_done(&w);
                        return EXIT_FAILURE;
                }
        }
        r = send_ready(0, "");
        if (r >= 0)
                r = loop(&w);
        warden_done(&w);
        return r < 0 ? EXIT_FAILURE : w.exit_status;
}
