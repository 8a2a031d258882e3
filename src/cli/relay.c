/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/io.h"
#include "base/macro.h"
#include "cli/relay.h"

enum {
        BUFFER_SIZE = 128 * 1024,
        BACKGROUND_USEC = 200 * 1000, /* until the next look whether the terminal is ours again */
};

static void notify(int fd)
{
        uint64_t one = 1;

        /* Cannot fail but by overflow, and then it is readable as it should be. */
        if (write(fd, &one, sizeof(one)) < 0)
                return;
}

/* Waits until fd is ready, or its other end is gone, or the run has ended. */
static void wait_inner(const Relay *r, int fd, short events)
{
        struct pollfd p[] = { { .fd = fd, .events = events }, { .fd = r->ended_fd, .events = POLLIN } };

        (void) poll(p, ELEMENTSOF(p), -1);
}

static int write_to_caller(int fd, const char *p, size_t n)
{
        while (n > 0) {
                ssize_t k = write(fd, p, n);

                if (k >= 0) {
                        p += k;
                        n -= (size_t) k;
                } else if (errno == EAGAIN) {
                        /* Somebody who shares it made it non-blocking. */
                        struct pollfd w = { .fd = fd, .events = POLLOUT };

                        (void) poll(&w, 1, -1);
                } else if (errno != EINTR)
                        return -errno;
        }
        return 0;
}

/* How many of n bytes may be delivered; the rest is over the limit. */
static size_t reserve(Relay *r, size_t n)
{
        uint_fast64_t left = atomic_load(&r->left);
        size_t granted;

        do
                granted = (size_t) MIN2(left, (uint_fast64_t) n);
        while (!atomic_compare_exchange_weak(&r->left, &left, left - granted));
        return granted;
}

static void pump_output(RelayStream *s, char *buffer)
{
        Relay *r = s->relay;

        for (;;) {
                /* Asked before the read: all that was written before the end is then in the pipe already. */
                bool ended = atomic_load(&r->ended);
                ssize_t n = read(s->from, buffer, BUFFER_SIZE);
                size_t granted;
                int k;

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN && !ended) {
                        wait_inner(r, s->from, POLLIN);
                        continue;
                }
                if (n <= 0) /* end of the pipe, EIO of a pty without slaves, or empty and ended */
                        return;
                granted = reserve(r, (size_t) n);
                k = write_to_caller(s->to, buffer, granted);
                if (k < 0) {
                        if (k != -EPIPE)
                                atomic_store(&s->error, k);
                        return;
                }
                if (granted < (size_t) n && !atomic_exchange(&r->limit_hit, true))
                        notify(r->event_fd);
        }
}

/* False where the run has ended or nobody inside reads any more. */
static bool write_to_run(RelayStream *s, const char *p, size_t n)
{
        while (n > 0) {
                ssize_t k = write(s->to, p, n);

                if (k >= 0) {
                        p += k;
                        n -= (size_t) k;
                } else if (errno == EAGAIN) {
                        if (atomic_load(&s->relay->ended))
                                return false;
                        wait_inner(s->relay, s->to, POLLOUT);
                } else if (errno != EINTR)
                        return false;
        }
        return true;
}

/* Waits until the caller has something; false where that has become pointless. */
static bool wait_input(const RelayStream *s)
{
        struct pollfd p[] = {
                { .fd = s->from, .events = POLLIN },
                { .fd = s->shared ? -1 : s->to }, /* POLLERR when the last reader is gone; a pty's master has
                                                     no such word */
                { .fd = s->relay->ended_fd, .events = POLLIN },
        };

        while (poll(p, ELEMENTSOF(p), -1) < 0)
                if (errno != EINTR)
                        return false;
        return p[1].revents == 0 && p[2].revents == 0;
}

/* A terminal that a shell reads from while we are in the background. With SIGTTIN blocked, read() says EIO
 * instead of stopping the whole client for a line that was not meant for it. */
static bool in_background(int fd)
{
        pid_t foreground = tcgetpgrp(fd);

        return foreground > 0 && foreground != getpgrp();
}

static void block_background_stop(void)
{
        sigset_t set;

        sigemptyset(&set);
        sigaddset(&set, SIGTTIN);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void pump_input(RelayStream *s, char *buffer)
{
        block_background_stop();
        while (wait_input(s)) {
                ssize_t n = read(s->from, buffer, BUFFER_SIZE);

                if (n < 0 && (errno == EINTR || errno == EAGAIN))
                        continue;
                if (n < 0 && errno == EIO && in_background(s->from)) {
                        usleep(BACKGROUND_USEC);
                        continue;
                }
                if (n < 0) {
                        atomic_store(&s->error, -errno);
                        return;
                }
                if (n == 0 || !write_to_run(s, buffer, (size_t) n))
                        return;
        }
}

static void *stream_main(void *userdata)
{
        RelayStream *s = userdata;
        void *buffer = malloc(BUFFER_SIZE);

        pthread_cleanup_push(free, buffer);
        if (!buffer)
                atomic_store(&s->error, -ENOMEM);
        else if (s->output)
                pump_output(s, buffer);
        else
                pump_input(s, buffer);
        pthread_cleanup_pop(true);
        /* From here on relay_done() waits: a cancelled close would leave it unknown whose the descriptor is.
         */
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
        /* Closing is the message: end of file for what reads inside, EPIPE for what writes. */
        if (!s->shared) {
                close(s->inner);
                s->inner = -1;
        }
        atomic_store(&s->finished, true);
        notify(s->relay->event_fd);
        return NULL;
}

int relay_init(Relay *r, uint64_t output_limit)
{
        *r = (Relay){ .event_fd = -1, .ended_fd = -1 };
        atomic_init(&r->left, output_limit);
        r->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        r->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        return r->event_fd < 0 || r->ended_fd < 0 ? -errno : 0;
}

static int add(Relay *r, int from, int to, int inner, bool output, bool shared)
{
        RelayStream *s = r->streams + r->n_streams++;

        s->relay = r;
        s->from = from;
        s->to = to;
        s->inner = inner;
        s->output = output;
        s->shared = shared;
        return fd_set_nonblock(inner, true);
}

int relay_add_input(Relay *r, int caller_fd, int inner_fd)
{
        return add(r, caller_fd, inner_fd, inner_fd, false, false);
}

int relay_add_output(Relay *r, int inner_fd, int caller_fd)
{
        return add(r, inner_fd, caller_fd, inner_fd, true, false);
}

int relay_add_terminal(Relay *r, int master, int caller_in, int caller_out)
{
        int k = add(r, master, caller_out, master, true, true);

        return k < 0 ? k : add(r, caller_in, master, master, false, true);
}

int relay_start(Relay *r)
{
        for (size_t i = 0; i < r->n_streams; i++) {
                int k = pthread_create(&r->streams[i].thread, NULL, stream_main, r->streams + i);

                if (k != 0)
                        return -k;
                r->streams[i].started = true;
        }
        return 0;
}

void relay_run_ended(Relay *r)
{
        atomic_store(&r->ended, true);
        notify(r->ended_fd);
}

void relay_acknowledge(Relay *r)
{
        uint64_t n;

        if (read(r->event_fd, &n, sizeof(n)) < 0)
                return;
}

bool relay_outputs_finished(const Relay *r)
{
        for (size_t i = 0; i < r->n_streams; i++)
                if (r->streams[i].output && !atomic_load(&r->streams[i].finished))
                        return false;
        return true;
}

int relay_error(const Relay *r)
{
        for (size_t i = 0; i < r->n_streams; i++)
                if (atomic_load(&r->streams[i].error) < 0)
                        return atomic_load(&r->streams[i].error);
        return 0;
}

void relay_done(Relay *r)
{
        int master = -1;

        for (size_t i = 0; i < r->n_streams; i++) {
                RelayStream *s = r->streams + i;

                if (s->started) {
                        pthread_cancel(s->thread);
                        pthread_join(s->thread, NULL);
                }
                if (s->shared)
                        master = s->inner;
                else if (s->inner >= 0)
                        close(s->inner);
        }
        if (master >= 0)
                close(master);
        if (r->event_fd >= 0)
                close(r->event_fd);
        if (r->ended_fd >= 0)
                close(r->ended_fd);
        *r = (Relay){ .event_fd = -1, .ended_fd = -1 };
}
