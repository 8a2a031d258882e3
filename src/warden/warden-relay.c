/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "warden/warden.h"

/* Bytes, both ways, by read and write through one buffer that all connections share; many of them, where nobody here has to
 * read them, without passing through here at all (warden-splice.h). What a socket does not take is held, at most HELD_MAX a
 * direction, and nothing more is read before it is gone: the peer feels that as its window closing. */

#define PIECE ((size_t) 4096)
/* Where so many came at a time the next ones are not copied. Not where fewer did: there a copy costs less than the calls, and
 * in the queue of a socket each small piece would hold the whole page that its sender happened to put it in. */
#define MANY ((size_t) 64 << 10)
/* A direction and turn of the loop; then it is others' turn. */
#define TURN_CHUNKS 4
#define TURN_BYTES ((uint64_t) 1 << 20)

typedef enum Pump {
        PUMP_WAIT,  /* for one of the two sockets */
        PUMP_MORE,  /* its turn is over, and there is more to do */
        PUMP_DONE,  /* the end has been passed on */
        PUMP_LIMIT, /* EgressBytes= */
        PUMP_RESET, /* either peer has broken it off */
} Pump;

typedef struct Direction {
        Warden *w;
        Conn *c;
        End *from, *to;
        Flow *flow;
        _Atomic uint64_t *tally;
        uint64_t left; /* this may still be sent in all */
} Direction;

bool flow_reserve(Warden *w, Flow *f, size_t n)
{
        size_t size = MAX2((n + PIECE - 1) / PIECE * PIECE, MIN2(2 * f->size, HELD_MAX));
        uint8_t *held;

        if (n <= f->size)
                return true;
        held = realloc(f->held, size);
        if (!held)
                return false;
        w->n_held += size - f->size;
        f->held = held;
        f->size = size;
        return true;
}

void flow_done(Warden *w, Flow *f)
{
        free(f->held);
        w->n_held -= f->size;
        f->held = NULL;
        f->size = f->n_held = f->n_good = f->at = 0;
}

static void count(Direction *d, size_t n)
{
        d->flow->bytes += n;
        d->left -= n;
        atomic_fetch_add_explicit(d->tally, n, memory_order_relaxed);
}

/* Returns how many bytes of data were taken; -EAGAIN: none. */
static ssize_t put(Direction *d, const uint8_t *data, size_t n, int flags)
{
        ssize_t k = send(d->to->fd, data, n, MSG_NOSIGNAL | flags);

        if (k < 0)
                return -errno;
        count(d, (size_t) k);
        if ((size_t) k < n)
                d->to->writable = false;
        return k;
}

/* What is held and good goes first. PUMP_DONE: nothing of it is left. */
static Pump put_held(Direction *d)
{
        Flow *f = d->flow;

        while (f->n_good > 0) {
                ssize_t k;

                if (d->left == 0)
                        return PUMP_LIMIT;
                if (!d->to->writable)
                        return PUMP_WAIT;
                k = put(d, f->held + f->at, MIN2(f->n_good, d->left), 0);
                if (k == -EAGAIN) {
                        d->to->writable = false;
                        return PUMP_WAIT;
                }
                if (k < 0)
                        return PUMP_RESET;
                f->at += (size_t) k;
                f->n_good -= (size_t) k;
                f->n_held -= (size_t) k;
        }
        if (f->n_held == 0)
                flow_done(d->w, f);
        return PUMP_DONE;
}

/* Puts the n bytes at data, of which the first n_good may go out, into the flow, which is empty. */
static bool hold(Warden *w, Flow *f, const uint8_t *data, size_t n, size_t n_good)
{
        if (n == 0) {
                flow_done(w, f);
                return true;
        }
        if (!flow_reserve(w, f, n))
                return false;
        memcpy(f->held, data, n);
        f->n_held = n;
        f->n_good = n_good;
        f->at = 0;
        return true;
}

static bool is_http(const Direction *d)
{
        return d->from == &d->c->client && d->c->attempt.proto == PROTO_HTTP;
}

/* A request that was refused gets its own record, at once: what its client and its server do next, they may do to hide it. */
static void note_refusal(Warden *w, Conn *c)
{
        if (c->refused == EGRESS_OK || c->refusal_noted)
                return;
        c->refusal_noted = true;
        c->attempt.asked = c->asked[0] ? c->asked : NULL;
        records_denied(&w->records, &c->attempt, c->refused, 1, w->now);
        c->attempt.asked = NULL;
}

/* How much of what came from the client may go out. */
static size_t judge(Direction *d, const uint8_t *data, size_t n)
{
        Conn *c = d->c;
        HttpVerdict v;

        if (!is_http(d))
                return n;
        http_reader_feed(&c->http, data, n, &v);
        if (v.reason != EGRESS_OK) {
                c->refused = v.reason;
                c->refused_status = v.status;
                memcpy(c->asked, v.host, sizeof(c->asked));
                note_refusal(d->w, c);
        }
        return v.pass;
}

/* Behind the n bytes in scratch: more, or the end, which goes out in one packet with what stands before it. Returns how many
 * bytes came. ret_broken: there is no more, and no end. */
static size_t look_for_end(Direction *d, size_t n, bool *ret_broken)
{
        ssize_t k = recv(d->from->fd, d->w->scratch + n, SCRATCH_SIZE - n, 0);

        d->from->eof = k == 0;
        *ret_broken = k < 0 && errno != EAGAIN;
        return k > 0 ? (size_t) k : 0;
}

/* One chunk: what is held (and waits for more), then what comes now. PUMP_MORE: go on. */
static Pump move_chunk(Direction *d)
{
        uint8_t *scratch = d->w->scratch;
        size_t before = d->flow->n_held, n, n_good, done = 0;
        bool broken = false;
        ssize_t k;

        if (before > 0)
                memcpy(scratch, d->flow->held + d->flow->at, before);
        k = recv(d->from->fd, scratch + before, SCRATCH_SIZE - before, 0);
        if (k < 0 && errno == EAGAIN) {
                d->from->readable = false;
                return PUMP_WAIT;
        }
        if (k < 0)
                return PUMP_RESET;
        if (k == 0) {
                d->from->eof = true;
                return PUMP_MORE;
        }
        d->flow->many = (size_t) k >= MANY;
        n = before + (size_t) k;
        /* A short read means that there was no more; but for the end, which is read separately, and what is urgent. */
        if (n < SCRATCH_SIZE && !d->from->hung_up && !d->from->urgent)
                d->from->readable = false;
        else if (n < SCRATCH_SIZE && !d->from->urgent)
                n += look_for_end(d, n, &broken);
        n_good = judge(d, scratch, n);
        if (n_good > 0 && d->left > 0) {
                /* Of the last bytes the end will be said at once (pump()). */
                k = put(d, scratch, MIN2(n_good, d->left), d->from->eof && n_good == n && n <= d->left ? MSG_MORE : 0);
                if (k < 0 && k != -EAGAIN)
                        return PUMP_RESET;
                if (k == -EAGAIN)
                        d->to->writable = false;
                else
                        done = (size_t) k;
        }
        /* More than may be sent is told of first. */
        if (broken && (done == n_good || d->left > 0))
                return PUMP_RESET;
        return hold(d->w, d->flow, scratch + done, n - done, n_good - done) ? PUMP_MORE : PUMP_RESET;
}

/* Where much is held already: looks at what came, and takes out of the socket what the other one took. */
static Pump move_peeked(Direction *d)
{
        uint8_t *scratch = d->w->scratch;
        ssize_t n = recv(d->from->fd, scratch, SCRATCH_SIZE, MSG_PEEK), k;

        if (n <= 0)
                return move_chunk(d);
        if (d->left == 0)
                return PUMP_LIMIT;
        k = put(d, scratch, MIN2((size_t) n, d->left), 0);
        if (k == -EAGAIN)
                d->to->writable = false;
        else if (k < 0 || recv(d->from->fd, scratch, (size_t) k, 0) != k)
                return PUMP_RESET;
        return PUMP_MORE;
}

static Pump move_spliced(Direction *d)
{
        uint8_t *scratch = d->w->scratch;
        size_t room = splicer_size(d->to->fd); /* once: it may have grown since */
        Spliced m;

        splicer_move(&d->w->splicer, d->from->fd, d->to->fd, MIN2(room, d->left), scratch, &m);
        if (m.taken == 0)
                return move_chunk(d);
        /* Where splicer_size() was mistaken, it may be so again. */
        d->flow->many = m.taken >= MANY && m.taken - m.given <= SPLICE_MIN;
        count(d, m.given);
        if (m.error == -EAGAIN)
                d->to->writable = false;
        else if (m.error < 0)
                return PUMP_RESET;
        return hold(d->w, d->flow, scratch, m.taken - m.given, m.taken - m.given) ? PUMP_MORE : PUMP_RESET;
}

/* What comes next, to a socket that takes something. */
static Pump move_some(Direction *d)
{
        if (is_http(d))
                return move_chunk(d);
        if (d->w->n_held >= HELD_TOTAL_MAX)
                return move_peeked(d);
        return d->flow->many && d->left > 0 && splicer_is_open(&d->w->splicer) ? move_spliced(d) : move_chunk(d);
}

static Pump pump(Direction *d)
{
        const uint64_t end = d->flow->bytes + TURN_BYTES;

        for (unsigned i = 0; i < TURN_CHUNKS && d->flow->bytes < end; i++) {
                Pump r;

                if (d->to->shut)
                        return PUMP_DONE;
                r = put_held(d);
                if (r != PUMP_DONE)
                        return r;
                /* What was refused ends the direction, as if the client had closed it: what was good is answered first. The
                 * client then gets the last word from here. */
                if (d->from->eof && d->to == &d->c->client && d->c->refused != EGRESS_OK)
                        return PUMP_DONE;
                if (d->from->eof || (d->from == &d->c->client && d->c->refused != EGRESS_OK)) {
                        /* Where it is the last direction, closing says it. */
                        if (!d->from->shut && shutdown(d->to->fd, SHUT_WR) < 0)
                                return PUMP_RESET;
                        flow_done(d->w, d->flow);
                        d->to->shut = true;
                        return PUMP_DONE;
                }
                if (!d->from->readable || !d->to->writable)
                        return PUMP_WAIT;
                r = move_some(d);
                if (r != PUMP_MORE)
                        return r;
        }
        return PUMP_MORE;
}

/* ---- the connection */

static Pump pump_direction(Warden *w, Conn *c, bool sent)
{
        uint64_t used = atomic_load_explicit(&w->tally->bytes_sent, memory_order_relaxed);
        Direction d = {
                .w = w,
                .c = c,
                .from = sent ? &c->client : &c->upstream,
                .to = sent ? &c->upstream : &c->client,
                .flow = sent ? &c->sent : &c->received,
                .tally = sent ? &w->tally->bytes_sent : &w->tally->bytes_received,
                .left = UINT64_MAX,
        };

        if (sent && w->spec.egress_bytes != UINT64_MAX)
                d.left = w->spec.egress_bytes > used ? w->spec.egress_bytes - used : 0;
        return pump(&d);
}

/* A head that has begun must end in time (or another line that frames: a chunk's size); else the connection may be idle
 * for long, but not half of one. Where something good waits before it, it is the server that takes its time; and once
 * something was passed on, it is another head. */
static void set_timer(Warden *w, Conn *c, bool moved)
{
        bool in_head = c->sent.n_held > 0 && c->sent.n_good == 0;

        if (in_head && c->in_head && c->sent.bytes == c->head_at)
                return;
        if (in_head || in_head != c->in_head || (moved && w->now - c->moved >= USEC_PER_SEC)) {
                c->in_head = in_head;
                c->head_at = c->sent.bytes;
                c->moved = w->now;
                timer_set(&w->timers, &c->timer,
                                in_head ? TIMER_HEAD
                                        : c->client.shut || c->upstream.shut ? TIMER_HALF : TIMER_IDLE,
                                w->now);
        }
}

/* The client is told where nothing can be mistaken for the answer to another request. */
static void refuse(Warden *w, Conn *c)
{
        char answer[2048];
        size_t n = 0;

        note_refusal(w, c);
        if (c->received.bytes == 0 && c->received.n_held == 0)
                n = http_error_response(c->refused_status, c->refused, answer, sizeof(answer));
        conn_finish_with(w, c, CLOSE_REFUSED, answer, n);
}

static void cut(Warden *w, Conn *c)
{
        records_denied(&w->records, &c->attempt, EGRESS_BYTES_LIMIT, 1, w->now);
        conn_finish(w, c, CLOSE_BYTES_LIMIT, true);
}

void relay_run(Warden *w, Conn *c)
{
        uint64_t before = c->sent.bytes + c->received.bytes;
        bool shut = c->client.shut || c->upstream.shut;
        Pump sent = pump_direction(w, c, true), received;

        if (sent == PUMP_LIMIT) {
                cut(w, c);
                return;
        }
        received = sent == PUMP_RESET ? PUMP_RESET : pump_direction(w, c, false);
        if (received == PUMP_RESET) {
                conn_finish(w, c, CLOSE_RESET, true);
                return;
        }
        if (received == PUMP_DONE && c->refused != EGRESS_OK) {
                refuse(w, c);
                return;
        }
        if (sent == PUMP_DONE && received == PUMP_DONE) {
                conn_finish(w, c, CLOSE_CLOSED, false);
                return;
        }
        if (sent == PUMP_MORE || received == PUMP_MORE)
                conn_enqueue(w, c);
        if (shut != (c->client.shut || c->upstream.shut))
                timer_set(&w->timers, &c->timer, TIMER_HALF, w->now);
        set_timer(w, c, before != c->sent.bytes + c->received.bytes);
}

void relay_late(Warden *w, Conn *c)
{
        if (!c->in_head) {
                conn_finish(w, c, CLOSE_IDLE, true);
                return;
        }
        c->refused = EGRESS_TIMEOUT;
        c->refused_status = 408;
        refuse(w, c);
}

void relay_begin(Warden *w, Conn *c)
{
        c->state = CONN_RELAY;
        c->started = c->moved = w->now;
        timer_set(&w->timers, &c->timer, TIMER_IDLE, w->now);
        note_refusal(w, c); /* of what came behind the first request */
        conn_enqueue(w, c);
}
