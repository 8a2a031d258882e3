/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/parse.h"
#include "warden/call-records.h"
#include "warden/warden-confine.h"
#include "warden/witness.h"
#include "wire/runspec.h"

#define FLUSH_AFTER USEC_PER_SEC
#define END_PATIENCE (2 * USEC_PER_SEC)
#define READ_TICK_MSEC 1
#define STATUS_MAX 4096u

typedef struct Witness {
        CallRecords records;
        bool kill_on_denied;
        int calls, proc, pipe, listener;
        bool armed; /* the shim has tried what is to be recorded; from here on it is the run's */
        uint32_t n_tried;
        uint64_t now, flush_at, check_at; /* 0: nothing waits */
        CpuShare share;
} Witness;

static uint64_t usec_of(clockid_t clock)
{
        struct timespec t;

        clock_gettime(clock, &t);
        return (uint64_t) t.tv_sec * USEC_PER_SEC + (uint64_t) t.tv_nsec / 1000;
}

static uint64_t now_usec(void)
{
        return usec_of(CLOCK_MONOTONIC);
}

static int tell(const Witness *w, char what)
{
        ssize_t n;

        do
                n = write(w->pipe, &what, 1);
        while (n < 0 && errno == EINTR);
        return n == 1 ? 0 : -errno;
}

/* ---- the listener */

/* 1: it is there. 0: the broker has closed its end, the run was not started. */
static int receive_listener(Witness *w)
{
        char payload[sizeof(WITNESS_LISTENER)];
        union {
                char space[CMSG_SPACE(sizeof(int))];
                struct cmsghdr align;
        } control;
        struct iovec v = { .iov_base = payload, .iov_len = sizeof(payload) };
        struct msghdr m = {
                .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        struct cmsghdr *c;
        ssize_t n;

        do
                n = recvmsg(w->calls, &m, MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n <= 0)
                return n < 0 ? -errno : 0;
        c = CMSG_FIRSTHDR(&m);
        if ((m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || (size_t) n != strlen(WITNESS_LISTENER) ||
                        memcmp(payload, WITNESS_LISTENER, (size_t) n) != 0 || !c || c->cmsg_level != SOL_SOCKET ||
                        c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof(int)) || CMSG_NXTHDR(&m, c))
                return -EBADMSG; /* the process ends: nothing is left open */
        memcpy(&w->listener, CMSG_DATA(c), sizeof(int));
        closep(&w->calls);
        w->calls = -1;
        return 1;
}

/* ---- who it was */

static ssize_t read_proc(const Witness *w, uint32_t pid, const char *file, char *ret, size_t size)
{
        char path[64];
        _cleanup_close_ int fd = -1;
        ssize_t n;

        snprintf(path, sizeof(path), "%" PRIu32 "/%s", pid, file);
        fd = openat(w->proc, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        n = fd < 0 ? -1 : read(fd, ret, size - 1);
        if (n >= 0)
                ret[n] = 0;
        return n;
}

/* The thread's name, and the process that it belongs to. The name stands before that line, but the kernel writes no line break
 * that is in it as one. Nobody, where the thread has been replaced by another in the meantime. */
static Who find_caller(const Witness *w, const struct seccomp_notif *n)
{
        static const char tag[] = "\nTgid:\t";
        char status[STATUS_MAX], comm[sizeof(((Who *) 0)->comm) + 2];
        uint64_t id = n->id;
        Who who = { .tgid = n->pid };
        const char *line;
        ssize_t length;

        if (read_proc(w, n->pid, "status", status, sizeof(status)) > 0) {
                line = strstr(status, tag);
                if (line)
                        who.tgid = (uint32_t) strtoul(line + strlen(tag), NULL, 10);
        }
        length = read_proc(w, n->pid, "comm", comm, sizeof(comm));
        if (length > 1)
                memcpy(who.comm, comm, (size_t) length - 1); /* without the line break behind it */
        return ioctl(w->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) < 0 ? (Who){} : who;
}

/* ---- one call */

/* Never with SECCOMP_USER_NOTIF_FLAG_CONTINUE. ENOENT: who called is dead. */
static int answer(const Witness *w, uint64_t id, int error)
{
        struct seccomp_notif_resp response = { .id = id, .error = -error };

        return ioctl(w->listener, SECCOMP_IOCTL_NOTIF_SEND, &response) < 0 && errno != ENOENT ? -errno : 0;
}

/* The shim's own, before anything of the run exists (wire/runspec.h). */
static int on_canary(Witness *w, const struct seccomp_notif *n)
{
        if (n->data.nr != SYS_bpf || n->data.args[0] != EXEC_CANARY_END) {
                w->n_tried++;
                return answer(w, n->id, EXEC_CANARY_ERROR);
        }
        w->armed = n->data.args[1] == w->n_tried;
        return answer(w, n->id, w->armed ? EXEC_CANARY_ERROR : EPROTO);
}

static bool settled(Witness *w, bool arrived)
{
        w->now = now_usec();
        journal_check(&w->records.journal, w->now);
        if (calls_flush(&w->records, w->now) < 0)
                return false;
        return arrived ? !journal_wants_check(&w->records.journal) : journal_is_read(&w->records.journal);
}

/* What is on record must also be known as this process's, for as long as it lives: see journal_is_read(). arrived: and it must be
 * there. */
static void settle(Witness *w, bool arrived)
{
        uint64_t deadline = now_usec() + END_PATIENCE;

        while (!settled(w, arrived) && w->now < deadline)
                (void) poll(NULL, 0, READ_TICK_MSEC);
}

/* It has no answer; the run ends with it. */
static int on_fatal(Witness *w, const DeniedCall *c)
{
        uint32_t none = 0;

        if (!atomic_compare_exchange_strong(&w->records.tally->fatal, &none, (uint32_t) c->number + 1))
                return 0;
        settle(w, false);
        return tell(w, WITNESS_FATAL);
}

static int on_call(Witness *w)
{
        struct seccomp_notif n = {};
        DeniedCall c;

        if (ioctl(w->listener, SECCOMP_IOCTL_NOTIF_RECV, &n) < 0)
                return errno == EINTR || errno == ENOENT ? 0 : -errno;
        if (!w->armed)
                return on_canary(w, &n);
        c = (DeniedCall){ .number = n.data.nr, .who = find_caller(w, &n) };
        denied_call_args(&n.data, c.args);
        calls_denied(&w->records, &c, w->now);
        return w->kill_on_denied ? on_fatal(w, &c) : answer(w, n.id, EPERM);
}

/* Who calls without end waits: it is a run's own time then, not the host's, nor that of the warden, whose unit this is. */
static void hold_back(Witness *w)
{
        uint64_t usec = cpu_share_wait(&w->share, usec_of(CLOCK_PROCESS_CPUTIME_ID), now_usec());

        if (usec > 0)
                (void) poll(NULL, 0, (int) (usec / USEC_PER_MSEC));
}

/* ---- the loop */

static void set_alarm(uint64_t *at, bool wanted, uint64_t time)
{
        if (!wanted)
                *at = 0;
        else if (*at == 0)
                *at = time;
}

static int time_left(Witness *w)
{
        uint64_t next;

        set_alarm(&w->flush_at, calls_pending(&w->records), w->now + FLUSH_AFTER);
        set_alarm(&w->check_at, journal_wants_check(&w->records.journal), w->now + JOURNAL_CHECK_USEC);
        next = MIN2(w->flush_at ?: UINT64_MAX, w->check_at ?: UINT64_MAX);
        if (next == UINT64_MAX)
                return -1;
        return next <= w->now ? 0 : (int) ((next - w->now + USEC_PER_MSEC - 1) / USEC_PER_MSEC);
}

static void on_alarms(Witness *w)
{
        if (w->check_at != 0 && w->now >= w->check_at) {
                journal_check(&w->records.journal, w->now);
                w->check_at = 0;
        }
        if (w->flush_at != 0 && w->now >= w->flush_at) {
                (void) calls_flush(&w->records, w->now);
                w->flush_at = 0;
        }
}

/* Until nobody is left who could call. */
static int serve(Witness *w)
{
        for (;;) {
                struct pollfd p = { .fd = w->listener, .events = POLLIN };
                int r = poll(&p, 1, time_left(w));

                if (r < 0 && errno != EINTR)
                        return -errno;
                w->now = now_usec();
                on_alarms(w);
                if (r <= 0)
                        continue;
                if (!(p.revents & POLLIN))
                        return p.revents & POLLHUP ? 0 : -EIO;
                r = on_call(w);
                if (r < 0)
                        return r;
                hold_back(w);
        }
}

static int run(Witness *w)
{
        int r = warden_confine_files(w->proc);

        if (r >= 0)
                r = warden_confine_witness();
        if (r >= 0)
                r = receive_listener(w);
        w->share = CPU_SHARE_FULL(usec_of(CLOCK_PROCESS_CPUTIME_ID), now_usec());
        if (r > 0)
                r = serve(w);
        if (r < 0)
                return r;
        settle(w, true);
        return tell(w, WITNESS_DONE);
}

/* Everything else that the warden had open is closed. */
static int keep(int *const *fds, size_t n)
{
        int next = STDERR_FILENO + 1;

        for (size_t i = 0; i < n; i++) {
                int moved = fcntl(*fds[i], F_DUPFD_CLOEXEC, next + (int) n);

                if (moved < 0)
                        return -errno;
                *fds[i] = moved;
        }
        for (size_t i = 0; i < n; i++) {
                if (dup3(*fds[i], next, O_CLOEXEC) < 0)
                        return -errno;
                *fds[i] = next++;
        }
        if (close_range(0, STDERR_FILENO, 0) < 0 || close_range((unsigned) next, ~0u, 0) < 0)
                return -errno;
        return 0;
}

_noreturn_ static void become_witness(const WardenSpec *spec, EgressTally *tally, const WitnessFds *fds, int pipe_fd, pid_t warden)
{
        _cleanup_free_ Witness *w = malloc(sizeof(*w));
        int journal = fds->journal, r;
        sigset_t none;

        if (!w)
                _exit(EXIT_FAILURE);
        *w = (Witness){ .kill_on_denied = spec->kill_on_denied, .calls = fds->calls, .proc = fds->proc, .pipe = pipe_fd, .listener = -1 };
        sigemptyset(&none);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != warden || sigprocmask(SIG_SETMASK, &none, NULL) < 0)
                _exit(EXIT_FAILURE);
        r = keep((int *const[]){ &w->calls, &w->proc, &w->pipe, &journal }, 4);
        if (r >= 0)
                r = calls_open(&w->records, spec, tally, journal);
        if (r >= 0)
                r = run(w);
        _exit(r < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

int witness_start(const WardenSpec *spec, EgressTally *tally, const WitnessFds *fds, int *ret_fd)
{
        _cleanup_close_ int ours = -1, theirs = -1;
        pid_t warden = getpid(), pid;
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return -errno;
        ours = ends[0];
        theirs = ends[1];
        if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0)
                return -errno;
        /* Nobody waits for it: its end is the closing of the pipe. */
        if (signal(SIGCHLD, SIG_IGN) == SIG_ERR)
                return -errno;
        pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0)
                become_witness(spec, tally, fds, theirs, warden);
        *ret_fd = TAKE_FD(ours);
        return 0;
}
