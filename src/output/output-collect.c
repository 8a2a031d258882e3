/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "output/output.h"

#define GATHER_MSEC 200u /* how long the first byte of a record waits for more */
#define RETRY_MSEC 20

static uint64_t now_msec(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * 1000 + (uint64_t) t.tv_nsec / 1000000;
}

int output_say(int channel_fd, OutputWord word)
{
        uint8_t byte = (uint8_t) word;
        ssize_t n;

        do
                n = send(channel_fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : 0;
}

int collector_init(Collector *c, const OutputSpec *spec)
{
        int r = output_common(spec, &c->common);

        /* A record is never longer than this. */
        if (r >= 0 && buf_append(&c->record, c->common.data, c->common.size) >= 0)
                for (size_t i = 0; i < OUTPUT_CHUNK / 64 + 8; i++)
                        r = buf_append(&c->record, (const uint8_t[64]){}, 64);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(c->streams); i++) {
                c->streams[i].data = malloc(OUTPUT_CHUNK);
                r = c->streams[i].data ? 0 : -ENOMEM;
        }
        c->left = spec->max_bytes;
        c->streams[OUTPUT_FD_STDOUT].name = "stdout";
        c->streams[OUTPUT_FD_STDERR].name = "stderr";
        return r;
}

void collector_done(Collector *c)
{
        for (size_t i = 0; i < ELEMENTSOF(c->streams); i++)
                free(c->streams[i].data);
        buf_done(&c->common);
        buf_done(&c->record);
}

/* A journald that is slow, or being restarted, is waited for; the pipes fill meanwhile, and the workload waits too. */
static int send_record(Collector *c)
{
        uint64_t until = now_msec() + OUTPUT_PATIENCE_MSEC;

        for (;;) {
                struct pollfd p = { .fd = c->journal_fd, .events = POLLOUT };

                if (send(c->journal_fd, c->record.data, c->record.size, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
                        c->mark = (JournalMark){ .unread = true };
                        return 0;
                }
                if (errno == EMSGSIZE)
                        return -errno;
                if (now_msec() >= until)
                        return -ETIMEDOUT;
                if (errno == EAGAIN)
                        (void) poll(&p, 1, RETRY_MSEC);
                else if (errno != EINTR)
                        (void) poll(NULL, 0, RETRY_MSEC);
        }
}

static int write_chunk(Collector *c, Stream *s, bool ended)
{
        size_t n = output_chunk(s->data, s->n, ended);
        int r = output_record(&c->common, s->name, s->data, n, &c->record);

        if (r >= 0)
                r = send_record(c);
        if (r < 0)
                return r;
        memmove(s->data, s->data + n, s->n - n);
        s->n -= n;
        s->since = now_msec();
        return 0;
}

static int write_all(Collector *c, Stream *s)
{
        int r = 0;

        while (r >= 0 && s->n > 0)
                r = write_chunk(c, s, true);
        return r;
}

/* More than there may be: what may be is written down, and nothing is read any more. The run is ended by who hears of it;
 * until then it waits where it writes. */
static int reach_limit(Collector *c)
{
        int r = 0;

        c->limited = true;
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(c->streams); i++)
                r = write_all(c, c->streams + i);
        if (r >= 0)
                (void) output_say(c->channel_fd, OUTPUT_LIMIT);
        return r;
}

static int end_stream(Collector *c, Stream *s)
{
        close(s->fd);
        s->fd = -1;
        return write_all(c, s);
}

static int read_stream(Collector *c, Stream *s)
{
        ssize_t n = read(s->fd, s->data + s->n, OUTPUT_CHUNK - s->n);

        if (n < 0)
                return errno == EINTR || errno == EAGAIN ? 0 : -errno;
        if (n == 0)
                return end_stream(c, s);
        if (s->n == 0)
                s->since = now_msec();
        s->n += (size_t) MIN2((uint64_t) n, c->left);
        if ((uint64_t) n > c->left)
                return reach_limit(c);
        c->left -= (uint64_t) n;
        return 0;
}

/* What has waited long enough, or has no room to go on. */
static int write_due(Collector *c)
{
        uint64_t now = now_msec();
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(c->streams); i++) {
                Stream *s = c->streams + i;

                if (s->n == OUTPUT_CHUNK || (s->n > 0 && now - s->since >= GATHER_MSEC))
                        r = write_chunk(c, s, false);
        }
        return r;
}

static int time_left(const Collector *c)
{
        uint64_t now = now_msec(), left = UINT64_MAX;

        for (size_t i = 0; i < ELEMENTSOF(c->streams); i++) {
                const Stream *s = c->streams + i;

                if (s->n > 0)
                        left = MIN2(left, s->since + GATHER_MSEC > now ? s->since + GATHER_MSEC - now : 0);
        }
        return left == UINT64_MAX ? -1 : (int) left;
}

/* One turn; with the limit reached, only the end of the streams is waited for. */
static int turn(Collector *c)
{
        struct pollfd p[_OUTPUT_FD_MAX];
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(p); i++)
                p[i] = (struct pollfd){ .fd = c->streams[i].fd, .events = c->limited ? 0 : POLLIN };
        if (poll(p, ELEMENTSOF(p), time_left(c)) < 0)
                return errno == EINTR ? 0 : -errno;
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(p); i++) {
                if (c->limited && (p[i].revents & (POLLHUP | POLLERR)))
                        r = end_stream(c, c->streams + i);
                else if (!c->limited && p[i].revents)
                        r = read_stream(c, c->streams + i);
        }
        return r < 0 ? r : write_due(c);
}

int collector_run(Collector *c)
{
        uint64_t until;
        int r = 0;

        while (r >= 0 && (c->streams[OUTPUT_FD_STDOUT].fd >= 0 || c->streams[OUTPUT_FD_STDERR].fd >= 0))
                r = turn(c);
        if (r < 0)
                return r;
        until = now_msec() + OUTPUT_PATIENCE_MSEC;
        while (!journal_mark_is_read(&c->mark, c->journal_fd)) {
                if (now_msec() >= until)
                        return -ETIMEDOUT;
                (void) poll(NULL, 0, 1);
        }
        return output_say(c->channel_fd, OUTPUT_DONE);
}
