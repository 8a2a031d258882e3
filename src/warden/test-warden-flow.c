/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "warden/warden.h"

/* warden-relay.c alone: which way the bytes go, that none of them is lost, doubled or miscounted, and where it ends. Beside it
 * stands here what it calls, and a splicer that takes and gives what a test says. */

#define KIB ((size_t) 1 << 10)
#define UNLIMITED SIZE_MAX

typedef struct Line {
        Warden w;
        Conn c;
        EgressTally tally;
        int client, upstream; /* the far ends */

        size_t gives; /* at most so many bytes of each splice are given; then error */
        int error;
        unsigned n_splices;
        size_t most_asked;

        unsigned n_finished, n_denied;
        CloseReason reason;
        bool reset;
        EgressReason denied;
} Line;

/* ---- what relay calls */

static bool room_grows; /* with each time that somebody asks; little at first */
static unsigned n_asked;

size_t splicer_size(int to)
{
        return room_grows && n_asked++ == 0 ? 1000 : SPLICE_MAX;
}

void splicer_move(Splicer *s, int from, int to, size_t n, uint8_t *rest, Spliced *ret)
{
        Line *l = CONTAINER(Line, w.splicer, s);
        ssize_t k;

        l->n_splices++;
        l->most_asked = MAX2(l->most_asked, n);
        k = recv(from, rest, n, MSG_DONTWAIT);
        *ret = (Spliced){ .taken = k > 0 ? (size_t) k : 0 };
        ret->given = MIN2(ret->taken, l->gives);
        assert_true(ret->given == 0 || send(to, rest, ret->given, MSG_DONTWAIT) == (ssize_t) ret->given);
        ret->error = ret->given < ret->taken ? l->error : 0;
        memmove(rest, rest + ret->given, ret->taken - ret->given);
}

void conn_finish(Warden *w, Conn *c, CloseReason reason, bool reset)
{
        Line *l = CONTAINER(Line, w, w);

        l->n_finished++;
        l->reason = reason;
        l->reset = reset;
        flow_done(w, &c->sent);
        flow_done(w, &c->received);
}

void conn_finish_with(Warden *w, Conn *c, CloseReason reason, const void *answer, size_t n)
{
        conn_finish(w, c, reason, false);
}

void conn_enqueue(Warden *w, Conn *c)
{
        c->queued = true;
}

void records_denied(Records *r, const Attempt *a, EgressReason reason, uint64_t count, uint64_t now)
{
        Line *l = CONTAINER(Line, w.records, r);

        l->n_denied++;
        l->denied = reason;
}

/* ---- */

static void make_end(End *e, int *ret_far)
{
        const int much = 1 << 20;
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
        for (size_t i = 0; i < ELEMENTSOF(pair); i++)
                assert_int_equal(setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &much, sizeof(much)), 0);
        *e = (End){ .fd = pair[0], .readable = true, .writable = true };
        *ret_far = pair[1];
}

static int line_set_up(void **state)
{
        Line *l = calloc(1, sizeof(*l));

        assert_non_null(l);
        l->gives = UNLIMITED;
        l->w.spec.egress_bytes = UINT64_MAX;
        l->w.tally = &l->tally;
        l->w.scratch = malloc(SPLICE_MAX);
        l->w.now = USEC_PER_SEC;
        timers_init(&l->w.timers);
        l->c.attempt.proto = PROTO_TCP;
        make_end(&l->c.client, &l->client);
        make_end(&l->c.upstream, &l->upstream);
        relay_begin(&l->w, &l->c);
        *state = l;
        return 0;
}

static int line_tear_down(void **state)
{
        Line *l = *state;

        assert_int_equal(l->w.n_held, l->c.sent.size + l->c.received.size);
        flow_done(&l->w, &l->c.sent);
        flow_done(&l->w, &l->c.received);
        timer_clear(&l->c.timer);
        closep(&l->c.client.fd);
        closep(&l->c.upstream.fd);
        closep(&l->client);
        closep(&l->upstream);
        free(l->w.scratch);
        free(l);
        return 0;
}

static uint8_t pattern(uint64_t at)
{
        return (uint8_t) ((at * 2654435761u) >> 13);
}

/* The bytes from place at on. */
static void say(int far, uint64_t at, size_t n)
{
        uint8_t *data = malloc(n);

        assert_non_null(data);
        for (size_t i = 0; i < n; i++)
                data[i] = pattern(at + i);
        assert_int_equal(send(far, data, n, 0), n);
        free(data);
}

/* How many have come, and they are those from place at on. */
static size_t hear(int far, uint64_t at)
{
        static uint8_t data[65536]; /* too much for the stack of a sanitizer */
        size_t n = 0;
        ssize_t k;

        while ((k = recv(far, data, sizeof(data), 0)) > 0)
                for (ssize_t i = 0; i < k; i++)
                        if (data[i] != pattern(at + n++))
                                fail_msg("byte %llu is another one", (unsigned long long) (at + n - 1));
        return n;
}

/* Turns, until it has nothing to do. */
static void run(Line *l)
{
        l->c.client.readable = l->c.upstream.readable = true;
        do {
                l->c.queued = false;
                relay_run(&l->w, &l->c);
        } while (l->c.queued && l->n_finished == 0);
}

/* ---- */

/* What comes in small pieces is copied; behind much the next is spliced; behind little it is copied again. */
static void test_way(void **state)
{
        Line *l = *state;

        say(l->client, 0, 63 * KIB);
        run(l);
        assert_int_equal(l->n_splices, 0);
        assert_false(l->c.sent.many);
        say(l->client, 63 * KIB, 64 * KIB + 5);
        run(l);
        assert_int_equal(l->n_splices, 1);
        assert_false(l->c.sent.many);
        assert_int_equal(hear(l->upstream, 0), 127 * KIB + 5);
        assert_int_equal(l->c.sent.bytes, 127 * KIB + 5);
        assert_int_equal(l->tally.bytes_sent, 127 * KIB + 5);
        assert_int_equal(l->tally.bytes_received, 0);
}

static void test_both_ways(void **state)
{
        Line *l = *state;
        size_t sent = 0, received = 0;

        for (unsigned i = 0; i < 20; i++) {
                say(l->client, i * 150 * KIB, 150 * KIB);
                say(l->upstream, 7 + i * 140 * KIB, 140 * KIB);
                run(l);
                sent += hear(l->upstream, sent);
                received += hear(l->client, 7 + received);
        }
        assert_true(l->n_splices >= 38);
        assert_int_equal(sent, 3000 * KIB);
        assert_int_equal(received, 2800 * KIB);
        assert_int_equal(l->tally.bytes_sent, sent);
        assert_int_equal(l->tally.bytes_received, received);
        assert_int_equal(l->c.sent.bytes, sent);
        assert_int_equal(l->c.received.bytes, received);
        assert_int_equal(l->w.n_held, 0);
}

/* What the other socket does not take is held, is not counted, and goes out first, in its place. */
static void test_not_taken(void **state)
{
        Line *l = *state;

        l->c.sent.many = true;
        l->gives = 10 * KIB;
        l->error = -EAGAIN;
        say(l->client, 0, 150 * KIB);
        run(l);
        assert_int_equal(l->n_splices, 1);
        assert_int_equal(l->n_finished, 0);
        assert_false(l->c.upstream.writable);
        assert_int_equal(l->c.sent.bytes, 10 * KIB);
        assert_int_equal(l->tally.bytes_sent, 10 * KIB);
        assert_int_equal(l->c.sent.n_held, 140 * KIB);
        assert_false(l->c.sent.many); /* that was more than there should be: not at once again */
        /* Nothing more is read meanwhile. */
        say(l->client, 150 * KIB, 50);
        run(l);
        assert_int_equal(l->n_splices, 1);
        assert_int_equal(l->c.sent.n_held, 140 * KIB);
        l->gives = UNLIMITED;
        l->c.upstream.writable = true;
        run(l);
        assert_int_equal(hear(l->upstream, 0), 150 * KIB + 50);
        assert_int_equal(l->tally.bytes_sent, 150 * KIB + 50);
        assert_int_equal(l->w.n_held, 0);
}

/* What was given counts, what was not is gone: then it is over, for what came behind it would look as if it belonged to what
 * came before. */
static void test_broken(void **state)
{
        static const int errors[] = { -EPIPE, -ECONNRESET, -EIO };

        for (size_t i = 0; i < ELEMENTSOF(errors); i++) {
                Line *l = *state;

                l->c.sent.many = true;
                l->gives = 3;
                l->error = errors[i];
                say(l->client, 0, 1000);
                run(l);
                assert_int_equal(l->n_finished, 1);
                assert_int_equal(l->reason, CLOSE_RESET);
                assert_true(l->reset);
                assert_int_equal(l->c.sent.bytes, 3);
                assert_int_equal(l->tally.bytes_sent, 3);
                assert_int_equal(hear(l->upstream, 0), 3);
                line_tear_down(state);
                line_set_up(state);
        }
}

/* EgressBytes= to the byte, whatever is spliced, held and copied before; what comes back does not count. */
static void test_limit(void **state)
{
        static const size_t gives[] = { UNLIMITED, 1, 999, 20 * KIB };

        for (size_t i = 0; i < ELEMENTSOF(gives); i++) {
                Line *l = *state;

                l->w.spec.egress_bytes = 100001;
                l->tally.bytes_sent = 1; /* by another connection */
                l->c.sent.many = l->c.received.many = true;
                l->gives = gives[i];
                l->error = -EAGAIN;
                say(l->upstream, 0, 150 * KIB);
                say(l->client, 0, 120000);
                for (unsigned turn = 0; turn < 10 && l->n_finished == 0; turn++) {
                        l->c.client.writable = l->c.upstream.writable = true;
                        run(l);
                }
                assert_int_equal(l->n_finished, 1);
                assert_int_equal(l->reason, CLOSE_BYTES_LIMIT);
                assert_int_equal(l->n_denied, 1);
                assert_int_equal(l->denied, EGRESS_BYTES_LIMIT);
                assert_int_equal(l->tally.bytes_sent, 100001);
                assert_int_equal(l->c.sent.bytes, 100000);
                assert_int_equal(hear(l->upstream, 0), 100000);
                assert_true(l->n_splices > 0);
                line_tear_down(state);
                line_set_up(state);
        }
}

/* Exactly as much as may be sent is not too much. */
static void test_limit_reached(void **state)
{
        Line *l = *state;

        l->w.spec.egress_bytes = 50000;
        l->c.sent.many = true;
        say(l->client, 0, 50000);
        run(l);
        assert_int_equal(l->most_asked, 50000);
        assert_int_equal(l->n_finished, 0);
        assert_int_equal(hear(l->upstream, 0), 50000);
        say(l->client, 0, 1);
        run(l);
        assert_int_equal(l->reason, CLOSE_BYTES_LIMIT);
        assert_int_equal(hear(l->upstream, 0), 0);
}

/* What was sent before a reset is passed on, and is on record where it is more than may be. */
static void test_reset_behind_bytes(void **state)
{
        static const struct {
                uint64_t limit;
                CloseReason reason;
                size_t passed;
        } rows[] = { { UINT64_MAX, CLOSE_RESET, 100 }, { 100, CLOSE_RESET, 100 }, { 50, CLOSE_BYTES_LIMIT, 50 } };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                Line *l = *state;

                l->w.spec.egress_bytes = rows[i].limit;
                assert_int_equal(send(l->c.client.fd, "x", 1, 0), 1);
                say(l->client, 0, 100);
                closep(&l->client); /* with something unread: a reset */
                l->client = -1;
                l->c.client.hung_up = true;
                run(l);
                assert_int_equal(l->n_finished, 1);
                assert_int_equal(l->reason, rows[i].reason);
                assert_int_equal(l->n_denied, rows[i].reason == CLOSE_BYTES_LIMIT);
                assert_int_equal(l->tally.bytes_sent, rows[i].passed);
                assert_int_equal(hear(l->upstream, 0), rows[i].passed);
                line_tear_down(state);
                line_set_up(state);
        }
}

/* How much room there is may be another answer each time: it is asked for once, and never more than may be sent is taken. */
static void test_limit_while_room_grows(void **state)
{
        Line *l = *state;

        l->w.spec.egress_bytes = 50000;
        l->c.sent.many = true;
        say(l->client, 0, 80000);
        room_grows = true;
        n_asked = 0;
        run(l);
        room_grows = false;
        assert_int_equal(l->reason, CLOSE_BYTES_LIMIT);
        assert_int_equal(l->c.sent.bytes, 50000);
        assert_int_equal(l->tally.bytes_sent, 50000);
        assert_int_equal(hear(l->upstream, 0), 50000);
}

/* The requests are read here, whatever comes at a time; the answers are not. */
static void test_http(void **state)
{
        static const char head[] = "POST / HTTP/1.1\r\nHost: one.example\r\nContent-Length: 102400\r\n\r\n";
        Line *l = *state;
        char back[sizeof(head)];

        l->c.attempt.proto = PROTO_HTTP;
        l->c.sent.many = true;
        http_reader_init(&l->c.http, "one.example", 80);
        assert_int_equal(send(l->client, head, strlen(head), 0), strlen(head));
        say(l->client, 0, 100 * KIB);
        run(l);
        assert_int_equal(l->n_splices, 0);
        assert_int_equal(recv(l->upstream, back, strlen(head), 0), strlen(head));
        assert_int_equal(hear(l->upstream, 0), 100 * KIB);
        say(l->upstream, 0, 100 * KIB);
        run(l);
        assert_true(l->n_splices > 0);
        assert_int_equal(hear(l->client, 0), 100 * KIB);
}

/* Where all connections together hold their most, nothing is taken that is not taken there. */
static void test_much_held(void **state)
{
        Line *l = *state;

        l->c.sent.many = true;
        l->w.n_held += HELD_TOTAL_MAX;
        say(l->client, 0, 60 * KIB);
        run(l);
        assert_int_equal(l->n_splices, 0);
        assert_int_equal(hear(l->upstream, 0), 60 * KIB);
        l->w.n_held -= HELD_TOTAL_MAX;
}

/* Nothing spliced says nothing: recv() tells the end, which is passed on, from silence, which is waited for. */
static void test_end(void **state)
{
        Line *l = *state;
        char byte;

        l->c.sent.many = l->c.received.many = true;
        run(l);
        assert_int_equal(l->n_splices, 2);
        assert_false(l->c.client.readable);
        say(l->client, 0, 40 * KIB);
        assert_int_equal(shutdown(l->client, SHUT_WR), 0);
        run(l);
        assert_int_equal(hear(l->upstream, 0), 40 * KIB);
        assert_int_equal(recv(l->upstream, &byte, 1, 0), 0);
        assert_int_equal(l->n_finished, 0);
        /* The other half goes on. */
        say(l->upstream, 0, 100 * KIB);
        assert_int_equal(shutdown(l->upstream, SHUT_WR), 0);
        run(l);
        assert_int_equal(hear(l->client, 0), 100 * KIB);
        assert_int_equal(l->n_finished, 1);
        assert_int_equal(l->reason, CLOSE_CLOSED);
        assert_int_equal(l->c.received.bytes, 100 * KIB);
}

/* Without the pipe everything goes on, by copies. */
static void test_no_pipe(void **state)
{
        Line *l = *state;

        l->w.splicer = SPLICER_NONE;
        l->c.sent.many = true;
        say(l->client, 0, 150 * KIB);
        run(l);
        assert_int_equal(l->n_splices, 0);
        assert_int_equal(hear(l->upstream, 0), 150 * KIB);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, line_set_up, line_tear_down)
        const struct CMUnitTest tests[] = {
                TEST(test_way),
                TEST(test_both_ways),
                TEST(test_not_taken),
                TEST(test_broken),
                TEST(test_limit),
                TEST(test_limit_reached),
                TEST(test_reset_behind_bytes),
                TEST(test_limit_while_room_grows),
                TEST(test_http),
                TEST(test_much_held),
                TEST(test_end),
                TEST(test_no_pipe),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
