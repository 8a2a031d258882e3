/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "resolver/resolve.h"

static const char *program;

/* ---- names */

static void test_names(void **state)
{
        static const char *const good[] = { "a", "localhost", "a.b", "xn--bcher-kva.example", "1password.com", "a_b.example",
                "0x.example", "a.b1" };
        static const char *const bad[] = { "", ".", "a.", ".a", "a..b", "1.2.3.4", "127.1", "2130706433", "0x7f.1", "a.1b",
                "A.b", "a b", "a\nb", "a/b", "[::1]", "::1", "a%b", "\xc3\xa4.example" };
        char longest[256];

        for (size_t i = 0; i < ELEMENTSOF(good); i++)
                if (!resolve_name_valid(good[i]))
                        fail_msg("%s", good[i]);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                if (resolve_name_valid(bad[i]))
                        fail_msg("%s", bad[i]);
        memset(longest, 'a', sizeof(longest));
        longest[63] = 0;
        assert_true(resolve_name_valid(longest));
        longest[63] = 'a';
        longest[64] = 0;
        assert_false(resolve_name_valid(longest));
        for (size_t i = 1; i < sizeof(longest); i += 2)
                memcpy(longest + i - 1, "a.", 2);
        longest[253] = 0;
        assert_true(resolve_name_valid(longest));
        longest[253] = '.';
        longest[254] = 'a';
        longest[255] = 0;
        assert_false(resolve_name_valid(longest));
}

/* ---- messages */

static int request_again(const void *p, size_t n, Buf *out)
{
        ResolveRequest q;
        int r = resolve_request_decode(p, n, &q);

        return r < 0 ? r : resolve_request_encode(&q, out);
}

static int answer_again(const void *p, size_t n, Buf *out)
{
        ResolveAnswer a;
        int r = resolve_answer_decode(p, n, &a);

        return r < 0 ? r : resolve_answer_encode(&a, out);
}

/* Whatever is accepted encodes to the same bytes: there is one form of each message. */
static void assert_one_form(int (*again)(const void *p, size_t n, Buf *out), const Buf *message)
{
        for (size_t n = 0; n <= message->size + 1; n++) {
                uint8_t *copy = malloc(n + 1);
                _cleanup_buf_ Buf out = {};

                assert_non_null(copy);
                memcpy(copy, message->data, n); /* a byte beyond the end is a NUL */
                assert_int_equal(again(copy, n, &out), n == message->size ? 0 : -EBADMSG);
                free(copy);
        }
        for (size_t bit = 0; bit < 8 * message->size; bit++) {
                uint8_t *copy = malloc(message->size);
                _cleanup_buf_ Buf out = {};

                assert_non_null(copy);
                memcpy(copy, message->data, message->size);
                copy[bit / 8] ^= (uint8_t) (1 << bit % 8);
                if (again(copy, message->size, &out) == 0) {
                        assert_int_equal(out.size, message->size);
                        assert_memory_equal(out.data, copy, out.size);
                }
                free(copy);
        }
}

static void test_messages(void **state)
{
        ResolveRequest q = { .id = 7, .deadline = UINT64_C(1) << 40, .name = "a.example" }, q2;
        ResolveAnswer a = { .id = 7, .n = 2 }, a2;
        Buf b = {};

        assert_int_equal(resolve_request_encode(&q, &b), 0);
        assert_int_equal(resolve_request_decode(b.data, b.size, &q2), 0);
        assert_memory_equal(&q, &q2, sizeof(q));
        assert_one_form(request_again, &b);
        buf_done(&b);
        strcpy(q.name, "1.2.3.4");
        assert_int_equal(resolve_request_encode(&q, &b), -EINVAL);
        buf_done(&b);
        a.addresses[0] = (EgressAddress){ .family = AF_INET, .bytes = { 1, 2, 3, 4 } };
        a.addresses[1] = (EgressAddress){ .family = AF_INET6, .bytes = { 0x20, 1, [15] = 1 } };
        assert_int_equal(resolve_answer_encode(&a, &b), 0);
        assert_int_equal(resolve_answer_decode(b.data, b.size, &a2), 0);
        assert_memory_equal(&a, &a2, sizeof(a));
        assert_one_form(answer_again, &b);
        buf_done(&b);
        a.n = RESOLVE_ADDRESSES_MAX + 1;
        assert_int_equal(resolve_answer_encode(&a, &b), -EINVAL);
        buf_done(&b);
}

/* ---- the program */

typedef struct Running {
        pid_t pid;
        int fd;
} Running;

static Running start(void)
{
        Running r;
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        r.pid = fork();
        assert_true(r.pid >= 0);
        if (r.pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (dup2(pair[1], 0) >= 0)
                        execl(program, program, NULL);
                _exit(99);
        }
        close(pair[1]);
        r.fd = pair[0];
        return r;
}

static void ask(const Running *r, uint32_t id, uint64_t deadline, const char *name)
{
        ResolveRequest q = { .id = id, .deadline = deadline };
        _cleanup_buf_ Buf b = {};

        snprintf(q.name, sizeof(q.name), "%s", name);
        assert_int_equal(resolve_request_encode(&q, &b), 0);
        assert_int_equal(send(r->fd, b.data, b.size, MSG_NOSIGNAL), b.size);
}

static ResolveAnswer answer(const Running *r)
{
        struct pollfd p = { .fd = r->fd, .events = POLLIN };
        uint8_t message[RESOLVE_MESSAGE_MAX];
        ResolveAnswer a;
        ssize_t n;

        assert_int_equal(poll(&p, 1, 20000), 1);
        n = recv(r->fd, message, sizeof(message), 0);
        assert_true(n > 0);
        assert_int_equal(resolve_answer_decode(message, (size_t) n, &a), 0);
        return a;
}

static int finish(Running *r)
{
        int status;

        close(r->fd);
        assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void test_program(void **state)
{
        Running r = start();
        ResolveAnswer a;
        bool found = false;

        /* Is it there? */
        ask(&r, 0, 0, "");
        a = answer(&r);
        assert_int_equal(a.id, 0);
        assert_int_equal(a.n, 0);
        /* A name that every host knows by itself. */
        ask(&r, 1, UINT64_MAX, "localhost");
        a = answer(&r);
        assert_int_equal(a.id, 1);
        for (uint32_t i = 0; i < a.n; i++)
                found = found || (a.addresses[i].family == AF_INET && memcmp(a.addresses[i].bytes, "\x7f\0\0\1", 4) == 0) ||
                        (a.addresses[i].family == AF_INET6 && a.addresses[i].bytes[15] == 1);
        assert_true(found);
        /* Nobody waits for this one any more. */
        ask(&r, 2, 1, "localhost");
        a = answer(&r);
        assert_int_equal(a.id, 2);
        assert_int_equal(a.n, 0);
        /* What is no request is passed by. */
        assert_int_equal(send(r.fd, "nonsense", 8, MSG_NOSIGNAL), 8);
        ask(&r, 3, 0, "");
        a = answer(&r);
        assert_int_equal(a.id, 3);
        assert_int_equal(finish(&r), 0);
}

/* Many at once: each is answered once. */
static void test_many(void **state)
{
        Running r = start();
        bool seen[64] = {};

        for (uint32_t i = 0; i < ELEMENTSOF(seen); i++)
                ask(&r, i, UINT64_MAX, "localhost");
        for (size_t i = 0; i < ELEMENTSOF(seen); i++) {
                ResolveAnswer a = answer(&r);

                assert_true(a.id < ELEMENTSOF(seen) && !seen[a.id]);
                seen[a.id] = true;
        }
        assert_int_equal(finish(&r), 0);
}

static void test_by_hand(void **state)
{
        int status;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
                if (!freopen("/dev/null", "r", stdin) || !freopen("/dev/null", "w", stderr))
                        _exit(99);
                execl(program, program, NULL);
                _exit(98);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 1);
}

int main(int argc, char *argv[])
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_messages),
                cmocka_unit_test(test_program),
                cmocka_unit_test(test_many),
                cmocka_unit_test(test_by_hand),
        };

        if (argc != 2)
                return 2;
        program = argv[1];
        return cmocka_run_group_tests(tests, NULL, NULL);
}
