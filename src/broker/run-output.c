/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <syslog.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include "base/io.h"
#include "broker/fd-store.h"
#include "broker/run-output.h"
#include "broker/run.h"
#include "wire/bus-iface.h"

#define PIPE_SIZE (256 * 1024)
/* After the end of the run: it tells the end itself, unless somebody has stopped it. */
#define OVER_WAIT_USEC ((OUTPUT_PATIENCE_MSEC + 5000) * UINT64_C(1000))

static RunOutput *output_new(void)
{
        RunOutput *o = calloc(1, sizeof(*o));

        if (o)
                *o = (RunOutput){ .channel_fd = -1, .write_fds = { -1, -1 } };
        return o;
}

static void close_channel(RunOutput *o)
{
        o->source = sd_event_source_disable_unref(o->source);
        o->deadline = sd_event_source_disable_unref(o->deadline);
        closep(&o->channel_fd);
        o->channel_fd = -1;
}

static void close_write_ends(RunOutput *o)
{
        for (size_t i = 0; i < ELEMENTSOF(o->write_fds); i++) {
                closep(o->write_fds + i);
                o->write_fds[i] = -1;
        }
}

RunOutput *run_output_free(RunOutput *o)
{
        if (!o)
                return NULL;
        close_channel(o);
        close_write_ends(o);
        free(o);
        return NULL;
}

/* ---- what it says */

/* A run that has ended meanwhile has a status of its own, which would say that all is well. */
static void on_lost(Run *r)
{
        sd_journal_print(LOG_WARNING, "Some of the output of run %s may not be on record", r->id);
        if (r->phase != RUN_ENDING)
                run_kill(r, KILL_OUTPUT_LOST);
        else if (r->kill_reason == KILL_NONE) {
                r->kill_reason = KILL_OUTPUT_LOST;
                (void) run_write_state(r, STATE_RUNNING);
        }
}

/* Its connection is at its end. */
static void on_gone(Run *r)
{
        RunOutput *o = r->output;

        close_channel(o);
        if (!o->is_done && r->phase >= RUN_LAUNCHED)
                on_lost(r);
        /* Not before that is written down: to the next broker a run without a channel is one whose output is whole. */
        fd_store_drop(FD_STORE_OUTPUT, r->id);
        if (r->phase == RUN_STARTING) {
                run_refuse(r, AGENTBOX_ERROR_START_FAILED,
                                "what keeps the output of a detached run ended at once; see \"systemctl status "
                                "agentbox-output.socket\"");
                return;
        }
        if (r->phase == RUN_ENDING)
                run_end(r);
}

/* The channel stays with PID 1 until all is on record, or the run has ended: a run without one is a run whose output is whole,
 * to the next broker. */
static void on_done(Run *r)
{
        r->output->is_done = true;
        fd_store_drop(FD_STORE_OUTPUT, r->id);
}

/* What a broker takes out of the channel its successor cannot hear any more: so it is heeded first. */
static int on_channel(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Run *r = userdata;
        RunOutput *o = r->output;
        uint8_t word = 0;
        ssize_t n = recv(fd, &word, sizeof(word), MSG_DONTWAIT | MSG_PEEK);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n == 1 && word == OUTPUT_DONE)
                on_done(r);
        else if (n == 1 && word == OUTPUT_LIMIT && r->phase >= RUN_LAUNCHED)
                run_kill(r, KILL_OUTPUT_LIMIT);
        else if (n != 1 || word != OUTPUT_READY || o->is_ready) {
                on_gone(r);
                return 0;
        }
        (void) recv(fd, &word, sizeof(word), MSG_DONTWAIT);
        if (word == OUTPUT_READY) {
                o->is_ready = true;
                run_advance(r);
        }
        return 0;
}

static int watch(Run *r)
{
        return sd_event_add_io(r->manager->event, &r->output->source, r->output->channel_fd, EPOLLIN, on_channel, r);
}

/* ---- the beginning */

static int connect_to_it(RunOutput *o, Error **reterr)
{
        const struct sockaddr_un a = { .sun_family = AF_UNIX, .sun_path = OUTPUT_SOCKET };

        o->channel_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (o->channel_fd < 0 || connect(o->channel_fd, (const struct sockaddr *) &a, sizeof(a)) < 0)
                return error_set(reterr, -errno,
                                "the output of a detached run cannot be kept: " OUTPUT_SOCKET
                                ": %s (is agentbox-output.socket active?)",
                                strerror(errno));
        return 0;
}

static int make_pipe(RunOutput *o, size_t i, int *ret_read_fd)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        o->write_fds[i] = fds[1];
        *ret_read_fd = fds[0];
        (void) fcntl(fds[0], F_SETPIPE_SZ, PIPE_SIZE);
        /* The run opens its end anew as /dev/stdout, under a uid of its own; never the other end. */
        return fchmod(fds[1], 0602) < 0 ? -errno : 0;
}

static int send_request(Run *r, const int fds[static _OUTPUT_FD_MAX])
{
        _cleanup_buf_ Buf b = {};
        union {
                char space[CMSG_SPACE(_OUTPUT_FD_MAX * sizeof(int))];
                struct cmsghdr align;
        } control = {};
        struct iovec v;
        struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        int k = output_spec_encode(&(OutputSpec){
                                                   .run = r->id,
                                                   .policy = r->policy_name,
                                                   .caller_uid = r->caller.uid,
                                                   .max_bytes = r->output_max,
                                   },
                        &b);

        if (k < 0)
                return k;
        v = (struct iovec){ .iov_base = b.data, .iov_len = b.size };
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(_OUTPUT_FD_MAX * sizeof(int));
        memcpy(CMSG_DATA(c), fds, _OUTPUT_FD_MAX * sizeof(int));
        return sendmsg(r->output->channel_fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

int run_output_prepare(Run *r, Error **reterr)
{
        int read_fds[_OUTPUT_FD_MAX] = { -1, -1 }, k;

        if (!r->detached)
                return 0;
        r->output = output_new();
        if (!r->output)
                return error_set(reterr, -ENOMEM, "out of memory");
        k = connect_to_it(r->output, reterr);
        if (k < 0)
                return k;
        for (size_t i = 0; k >= 0 && i < ELEMENTSOF(read_fds); i++)
                k = make_pipe(r->output, i, read_fds + i);
        if (k >= 0)
                k = send_request(r, read_fds);
        for (size_t i = 0; i < ELEMENTSOF(read_fds); i++)
                closep(read_fds + i);
        if (k >= 0)
                k = watch(r);
        return k < 0 ? error_set(reterr, k, "the output of a detached run cannot be kept: %s", strerror(-k)) : 0;
}

bool run_output_is_ready(const Run *r)
{
        return !r->output || r->output->is_ready;
}

int run_output_keep(Run *r)
{
        return r->output ? fd_store_put(FD_STORE_OUTPUT, r->id, &r->output->channel_fd, 1) : 0;
}

void run_output_on_sent(Run *r)
{
        if (r->output)
                close_write_ends(r->output);
}

int run_output_adopt(Run *r)
{
        int fd = fd_store_take(&r->manager->stored, FD_STORE_OUTPUT, r->id);

        if (fd < 0) /* all of it was over by then */
                return 0;
        r->output = output_new();
        if (!r->output) {
                close(fd);
                return -ENOMEM;
        }
        r->output->channel_fd = fd;
        return watch(r);
}

/* ---- the end */

static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
        on_gone(userdata);
        return 0;
}

bool run_output_is_over(Run *r)
{
        RunOutput *o = r->output;

        if (!o || o->channel_fd < 0)
                return true;
        close_write_ends(o);
        /* No workload ran, so there is nothing to be kept. */
        if (r->refused) {
                close_channel(o);
                fd_store_drop(FD_STORE_OUTPUT, r->id);
                return true;
        }
        if (!o->deadline &&
                        sd_event_add_time_relative(r->manager->event, &o->deadline, CLOCK_MONOTONIC, OVER_WAIT_USEC, 0,
                                        on_deadline, r) < 0) {
                close_channel(o);
                return true;
        }
        return false;
}
