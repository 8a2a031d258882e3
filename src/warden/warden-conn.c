/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "warden/warden.h"

/* ---- lists */

static void list_remove(Conn *c)
{
        ConnList *l = c->list;

        if (!l)
                return;
        *(c->previous ? &c->previous->next : &l->first) = c->next;
        *(c->next ? &c->next->previous : &l->last) = c->previous;
        c->previous = c->next = NULL;
        c->list = NULL;
}

static void list_append(ConnList *l, Conn *c)
{
        list_remove(c);
        c->list = l;
        c->previous = l->last;
        *(l->last ? &l->last->next : &l->first) = c;
        l->last = c;
}

/* ---- sockets */

int end_watch(Warden *w, End *e, int fd)
{
        int r = warden_watch(w, fd, EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP | EPOLLET, &e->source);

        if (r >= 0)
                e->fd = fd;
        return r;
}

void end_note(End *e, uint32_t events)
{
        if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
                e->hung_up = true;
        if (events & EPOLLPRI)
                e->urgent = true;
        if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
                e->readable = true;
        if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
                e->writable = true;
}

void socket_reset(int fd)
{
        const struct linger now = { .l_onoff = 1 };

        (void) setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        close(fd);
}

static void end_close(End *e, bool reset)
{
        if (e->fd < 0)
                return;
        if (reset)
                socket_reset(e->fd);
        else
                close(e->fd);
        e->fd = -1;
}

/* ---- events */

static void client_ready(Warden *w, Source *s, uint32_t events)
{
        Conn *c = CONTAINER(Conn, client.source, s);

        end_note(&c->client, events);
        switch (c->state) {
        case CONN_RELAY:
                /* Nothing is read from it any more, which would show it. */
                if (c->upstream.shut && (events & EPOLLERR)) {
                        conn_finish(w, c, CLOSE_RESET, true);
                        break;
                }
                conn_enqueue(w, c);
                break;
        case CONN_HELLO:
        case CONN_LINGER:
                conn_enqueue(w, c);
                break;
        case CONN_RESOLVE:
        case CONN_DIAL:
        case CONN_PROXY:
        case CONN_RECORD:
                /* Whoever asked is gone before there was an answer. */
                if (events & (EPOLLHUP | EPOLLERR))
                        conn_deny(w, c, EGRESS_CONNECT_FAILED);
                break;
        case CONN_CLOSED:
        case CONN_DEAD:
                break;
        }
}

static void upstream_ready(Warden *w, Source *s, uint32_t events)
{
        Conn *c = CONTAINER(Conn, upstream.source, s);

        if (c->upstream.fd < 0)
                return;
        end_note(&c->upstream, events);
        if (c->state == CONN_DIAL || c->state == CONN_PROXY)
                dial_run(w, c);
        else if (c->state == CONN_RELAY)
                conn_enqueue(w, c);
}

static void conn_late(void *userdata, Timer *t)
{
        Warden *w = userdata;
        Conn *c = CONTAINER(Conn, timer, t);

        switch (c->state) {
        case CONN_HELLO:
                dialog_late(w, c);
                break;
        case CONN_RESOLVE:
        case CONN_DIAL:
        case CONN_PROXY:
                dial_late(w, c);
                break;
        case CONN_RECORD:
                conn_deny(w, c, EGRESS_NO_JOURNAL);
                break;
        case CONN_RELAY:
                relay_late(w, c);
                break;
        case CONN_LINGER:
                conn_close(w, c, false);
                break;
        case CONN_CLOSED:
        case CONN_DEAD:
                break;
        }
}

static void conn_try_late(void *userdata, Timer *t)
{
        dial_try_late(userdata, CONTAINER(Conn, try_timer, t));
}

/* ---- the queue of those that have something to do. Each has a bounded turn. */

void conn_enqueue(Warden *w, Conn *c)
{
        if (c->queued)
                return;
        c->queued = true;
        c->next_ready = NULL;
        *w->ready_end = c;
        w->ready_end = &c->next_ready;
}

#define QUEUE_TURN 64u /* then it is the turn of what else there is */

static void linger_run(Warden *w, Conn *c);

void conn_run_queue(Warden *w)
{
        Conn *last = w->ready ? CONTAINER(Conn, next_ready, w->ready_end) : NULL;

        /* What is queued from here on is for the next turn of the loop. */
        for (unsigned i = 0; w->ready && i < QUEUE_TURN; i++) {
                Conn *c = w->ready;
                bool is_last = c == last;

                w->ready = TAKE_PTR(c->next_ready);
                if (!w->ready)
                        w->ready_end = &w->ready;
                c->queued = false;
                if (c->state == CONN_HELLO)
                        dialog_run(w, c);
                else if (c->state == CONN_RELAY)
                        relay_run(w, c);
                else if (c->state == CONN_LINGER)
                        linger_run(w, c);
                if (is_last)
                        break;
        }
}

/* ---- the end of one */

static void end_work(Warden *w, Conn *c)
{
        timer_clear(&c->timer);
        timer_clear(&c->try_timer);
        dial_end(c);
        flow_done(w, &c->sent);
        flow_done(w, &c->received);
}

void conn_close(Warden *w, Conn *c, bool reset)
{
        if (c->state == CONN_DEAD)
                return;
        end_work(w, c);
        end_close(&c->client, reset);
        end_close(&c->upstream, reset);
        list_remove(c);
        c->state = CONN_DEAD;
        c->next = w->dead;
        w->dead = c;
        w->n_conns--;
}

void conn_bury(Warden *w)
{
        Conn *c = TAKE_PTR(w->dead), *next;

        for (; c; c = next) {
                next = c->next;
                if (c->queued) {
                        c->next = w->dead;
                        w->dead = c;
                } else
                        free(c);
        }
}

/* Sent whole or not at all: it is short, and nothing was sent before it; where it does not fit in, nobody reads. */
static void linger_begin(Warden *w, Conn *c, const void *answer, size_t n)
{
        end_work(w, c);
        end_close(&c->upstream, true);
        if ((n > 0 && send(c->client.fd, answer, n, MSG_NOSIGNAL) != (ssize_t) n) ||
                        shutdown(c->client.fd, SHUT_WR) < 0) {
                conn_close(w, c, true);
                return;
        }
        c->state = CONN_LINGER;
        timer_set(&w->timers, &c->timer, TIMER_LINGER, w->now);
        conn_enqueue(w, c);
}

#define LINGER_READS 4

/* Closing with bytes unread would reset the connection, and take back what was sent. */
static void linger_run(Warden *w, Conn *c)
{
        for (unsigned i = 0; i < LINGER_READS; i++) {
                ssize_t n = recv(c->client.fd, w->scratch, SCRATCH_SIZE, 0);

                if (n < 0 && errno == EAGAIN)
                        return;
                if (n <= 0) {
                        conn_close(w, c, false);
                        return;
                }
        }
        conn_enqueue(w, c);
}

static void record_denied(Warden *w, Conn *c, EgressReason reason)
{
        if (c->rule)
                c->attempt.rule = c->rule->text;
        c->attempt.asked = c->asked[0] ? c->asked : NULL;
        records_denied(&w->records, &c->attempt, reason, 1, w->now);
}

void conn_deny(Warden *w, Conn *c, EgressReason reason)
{
        record_denied(w, c, reason);
        conn_close(w, c, true);
}

void conn_deny_with(Warden *w, Conn *c, EgressReason reason, const void *answer, size_t n)
{
        record_denied(w, c, reason);
        linger_begin(w, c, answer, n);
}

/* ---- records of what is allowed. They are written before the sandbox can see it, and in their order. */

static int write_closed(Warden *w, Conn *c)
{
        return records_closed(&w->records, &c->attempt, c->close_reason, c->sent.bytes, c->received.bytes,
                        c->moved - c->started, w->now);
}

void conn_finish_with(Warden *w, Conn *c, CloseReason reason, const void *answer, size_t n)
{
        c->close_reason = reason;
        c->moved = w->now;
        if (write_closed(w, c) >= 0)
                linger_begin(w, c, answer, n);
        else
                conn_finish(w, c, reason, false);
}

void conn_finish(Warden *w, Conn *c, CloseReason reason, bool reset)
{
        c->close_reason = reason;
        c->moved = w->now;
        if ((!w->waiting.first || w->stopping) && write_closed(w, c) >= 0) {
                conn_close(w, c, reset);
                return;
        }
        end_work(w, c);
        end_close(&c->client, reset);
        end_close(&c->upstream, reset);
        c->state = CONN_CLOSED;
        list_append(&w->waiting, c);
}

void conn_retry_records(Warden *w)
{
        Conn *c;

        while ((c = w->waiting.first)) {
                if (c->state == CONN_CLOSED) {
                        if (write_closed(w, c) < 0)
                                return;
                        conn_close(w, c, false);
                } else {
                        if (records_allowed(&w->records, &c->attempt, w->now) < 0)
                                return;
                        list_append(&w->conns, c);
                        relay_begin(w, c);
                }
        }
}

void conn_allow(Warden *w, Conn *c)
{
        int r;

        dial_end(c);
        timer_clear(&c->try_timer);
        c->state = CONN_RECORD;
        c->attempt.rule = c->rule->text;
        c->attempt.asked = NULL;
        c->started = w->now;
        r = w->waiting.first ? -EAGAIN : records_allowed(&w->records, &c->attempt, w->now);
        if (r >= 0) {
                relay_begin(w, c);
                return;
        }
        if (r != -EAGAIN) {
                conn_deny(w, c, EGRESS_NO_JOURNAL);
                return;
        }
        list_append(&w->waiting, c);
        timer_set(&w->timers, &c->timer, TIMER_JOURNAL, w->now);
}

/* ---- all of them */

Conn *conn_new(Warden *w, int client_fd)
{
        Conn *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        c->client.source.ready = client_ready;
        c->upstream.source.ready = upstream_ready;
        c->client.fd = c->upstream.fd = -1;
        c->timer.expired = conn_late;
        c->try_timer.expired = conn_try_late;
        if (end_watch(w, &c->client, client_fd) < 0) {
                free(c);
                return NULL;
        }
        list_append(&w->conns, c);
        w->n_conns++;
        return c;
}

void conn_stop_all(Warden *w)
{
        Conn *c, *next;

        for (c = w->conns.first; c; c = next) {
                next = c->next;
                if (c->state == CONN_RELAY)
                        conn_finish(w, c, CLOSE_RUN_ENDED, true);
                else if (c->state == CONN_LINGER)
                        conn_close(w, c, true);
                else
                        conn_deny(w, c, EGRESS_CONNECT_FAILED);
        }
        /* What stood and was not recorded has never been told to the sandbox. */
        for (c = w->waiting.first; c; c = next) {
                next = c->next;
                if (c->state == CONN_RECORD)
                        conn_deny(w, c, EGRESS_CONNECT_FAILED);
        }
}
