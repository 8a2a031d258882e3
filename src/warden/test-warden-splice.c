/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/io.h"
#include "base/macro.h"
#include "warden/warden-splice.h"

/* ---- two connections: what is written to a.far is at a.near, and the same of b */

typedef struct Link {
        int far, near;
} Link;

static void link_open(Link *l)
{
        struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t n = sizeof(sa);
        _cleanup_close_ int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_true(listener >= 0);
        assert_int_equal(bind(listener, (struct sockaddr *) &sa, sizeof(sa)), 0);
        assert_int_equal(getsockname(listener, (struct sockaddr *) &sa, &n), 0);
        assert_int_equal(listen(listener, 1), 0);
        l->far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(l->far, (struct sockaddr *) &sa, sizeof(sa)), 0);
        l->near = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        assert_true(l->near >= 0);
}

static void link_close(Link *l)
{
        closep(&l->far);
        closep(&l->near);
}

typedef struct Relay {
        Splicer s;
        Link a, b;
        uint8_t rest[SPLICE_MAX];
        uint64_t sent, seen; /* how far the pattern has come, at either end */
} Relay;

static int relay_set_up(void **state)
{
        Relay *r = calloc(1, sizeof(*r));

        assert_non_null(r);
        assert_int_equal(splicer_open(&r->s), 0);
        link_open(&r->a);
        link_open(&r->b);
        *state = r;
        return 0;
}

static int relay_tear_down(void **state)
{
        Relay *r = *state;

        splicer_close(&r->s);
        link_close(&r->a);
        link_close(&r->b);
        free(r);
        return 0;
}

/* No two places within 64 KiB look the same for long. */
static uint8_t pattern(uint64_t at)
{
        return (uint8_t) ((at * 2654435761u) >> 13);
}

/* So many more bytes are on their way to a.near when this returns, and the first of them are there. */
static void say(Relay *r, size_t n)
{
        uint8_t *data = malloc(n);
        int there = 0;

        assert_non_null(data);
        for (size_t i = 0; i < n; i++)
                data[i] = pattern(r->sent++);
        assert_int_equal(write_full(r->a.far, data, n), 0);
        free(data);
        while (there < (int) MIN2(n, 10000u))
                assert_int_equal(ioctl(r->a.near, FIONREAD, &there), 0);
}

static void check(Relay *r, const uint8_t *data, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (data[i] != pattern(r->seen++))
                        fail_msg("byte %llu is another one", (unsigned long long) r->seen - 1);
}

/* Exactly n come out at b.far. */
static void hear(Relay *r, size_t n)
{
        uint8_t data[4096];

        while (n > 0) {
                ssize_t k = recv(r->b.far, data, MIN2(n, sizeof(data)), 0);

                assert_true(k > 0);
                check(r, data, (size_t) k);
                n -= (size_t) k;
        }
        assert_int_equal(recv(r->b.far, data, 1, MSG_DONTWAIT), -1);
        assert_int_equal(errno, EAGAIN);
}

static void assert_pipe_empty(Relay *r)
{
        int n = -1;

        assert_true(splicer_is_open(&r->s));
        assert_int_equal(ioctl(r->s.fds[0], FIONREAD, &n), 0);
        assert_int_equal(n, 0);
}

static Spliced move(Relay *r, size_t n)
{
        Spliced m = { .taken = 77 };

        splicer_move(&r->s, r->a.near, r->b.near, n, r->rest, &m);
        assert_pipe_empty(r);
        assert_in_range(m.taken, m.given, n);
        return m;
}

/* ---- */

static void test_moves(void **state)
{
        static const size_t sizes[] = { 1, 2, 4095, 4096, 65536, 65537 };
        Relay *r = *state;

        for (size_t i = 0; i < ELEMENTSOF(sizes); i++) {
                size_t done = 0;

                say(r, sizes[i]);
                while (done < sizes[i]) {
                        Spliced m = move(r, SPLICE_MAX);

                        assert_int_equal(m.taken, m.given);
                        assert_int_equal(m.error, 0);
                        hear(r, m.given);
                        done += m.given;
                }
                assert_int_equal(done, sizes[i]);
        }
}

/* Never one byte more: that is how a run's limit is kept. */
static void test_no_more_than_asked(void **state)
{
        Relay *r = *state;

        say(r, 10000);
        for (size_t n = 1; n <= 4096; n *= 4) {
                assert_int_equal(move(r, n).given, n);
                hear(r, n);
        }
}

static void test_nothing(void **state)
{
        Relay *r = *state;
        Spliced m = move(r, 1000);
        char byte;

        assert_int_equal(m.taken, 0);
        /* The bytes before the end still come, then nothing, and recv() says why. */
        say(r, 10);
        assert_int_equal(shutdown(r->a.far, SHUT_WR), 0);
        assert_int_equal(move(r, 1000).given, 10);
        hear(r, 10);
        assert_int_equal(move(r, 1000).taken, 0);
        assert_int_equal(recv(r->a.near, &byte, 1, 0), 0);
}

/* splice(2) never passes an urgent byte, recv(2) does: what stands behind it is not lost. */
static void test_urgent(void **state)
{
        Relay *r = *state;
        uint8_t data[100];
        Spliced m;

        say(r, 10);
        assert_int_equal(send(r->a.far, "!", 1, MSG_OOB), 1);
        say(r, 10);
        m = move(r, 1000);
        assert_int_equal(m.given, 10);
        hear(r, 10);
        assert_int_equal(move(r, 1000).taken, 0);
        assert_int_equal(recv(r->a.near, data, sizeof(data), 0), 10);
        check(r, data, 10);
}

/* Until the second socket takes no more: what it did not take is there, byte for byte, and nothing of it is left for others. */
static void test_would_block(void **state)
{
        Relay *r = *state, other = { .s = r->s };
        const int small = 16384;
        uint64_t given = 0;
        Spliced m = {};

        assert_int_equal(setsockopt(r->b.near, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
        while (m.error == 0) {
                say(r, 65536);
                do {
                        m = move(r, 65536);
                        given += m.given;
                } while (m.error == 0 && m.taken > 0);
        }
        assert_int_equal(m.error, -EAGAIN);
        assert_true(m.taken > m.given);
        link_open(&other.a);
        link_open(&other.b);
        say(&other, 100);
        assert_int_equal(move(&other, 1000).given, 100);
        hear(&other, 100);
        link_close(&other.a);
        link_close(&other.b);
        hear(r, given);
        check(r, r->rest, m.taken - m.given);
}

/* Nobody is there to take it: said as an error, not by a signal, and nothing of it is left for others either. */
static void test_broken(void **state)
{
        const struct linger now = { .l_onoff = 1 };
        Relay *r = *state;
        Spliced m;

        assert_int_equal(setsockopt(r->b.far, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
        closep(&r->b.far);
        say(r, 10001);
        m = move(r, 10001);
        assert_int_equal(m.taken, 10001);
        assert_int_equal(m.given, 0);
        assert_true(m.error == -ECONNRESET || m.error == -EPIPE);
        /* The reset has been told; from now on it is just closed, which would be a signal. */
        say(r, 1000);
        m = move(r, 1000);
        assert_int_equal(m.error, -EPIPE);
        assert_int_equal(m.given, 0);

        link_close(&r->b);
        link_open(&r->b);
        r->seen = r->sent;
        say(r, 100);
        assert_int_equal(move(r, 1000).given, 100);
        hear(r, 100);
}

/* What cannot be taken back is lost, and the pipe with it: nobody else gets it. */
static void test_lost(void **state)
{
        Relay *r = *state;
        int ended[2], in = r->s.fds[0], out = r->s.fds[1];
        _cleanup_close_ int kept = fcntl(in, F_DUPFD_CLOEXEC, 3);
        Spliced m = { .taken = 77 };

        /* What is read from is another pipe, which is at its end. */
        assert_true(kept >= 0);
        assert_int_equal(pipe2(ended, O_CLOEXEC), 0);
        assert_int_equal(dup3(ended[0], in, O_CLOEXEC), in);
        close(ended[0]);
        close(ended[1]);
        say(r, 1000);
        splicer_move(&r->s, r->a.near, r->b.near, 1000, r->rest, &m);
        assert_int_equal(m.taken, 1000);
        assert_int_equal(m.given, 0);
        assert_int_equal(m.error, -EIO);
        assert_false(splicer_is_open(&r->s));
        assert_int_equal(fcntl(in, F_GETFD), -1);
        assert_int_equal(fcntl(out, F_GETFD), -1);
        hear(r, 0);
}

static void test_size(void **state)
{
        const int small = 16384, large = 1 << 20;
        Relay *r = *state;

        assert_int_equal(setsockopt(r->b.near, SOL_SOCKET, SO_SNDBUF, &large, sizeof(large)), 0);
        assert_in_range(splicer_size(r->b.near), 200000, SPLICE_MAX); /* the kernel gives less where that is its rule */
        assert_int_equal(setsockopt(r->b.near, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
        assert_int_equal(splicer_size(r->b.near), SPLICE_MIN);
        assert_int_equal(splicer_size(-1), SPLICE_MIN);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, relay_set_up, relay_tear_down)
        const struct CMUnitTest tests[] = {
                TEST(test_moves),
                TEST(test_no_more_than_asked),
                TEST(test_nothing),
                TEST(test_urgent),
                TEST(test_would_block),
                TEST(test_broken),
                TEST(test_lost),
                TEST(test_size),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
