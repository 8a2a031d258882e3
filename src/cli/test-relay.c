/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "base/io.h"
#include "base/macro.h"
#include "cli/relay.h"

static void make_pipe(int *ret_read, int *ret_write)
{
        int fds[2];

        assert_return_code(pipe2(fds, O_CLOEXEC), errno);
        *ret_read = fds[0];
        *ret_write = fds[1];
}

static void wait_finished(Relay *r)
{
        while (!relay_outputs_finished(r)) {
                struct pollfd p = { .fd = r->event_fd, .events = POLLIN };

                assert_int_equal(poll(&p, 1, 20000), 1);
                relay_acknowledge(r);
        }
}

static size_t read_all(int fd)
{
        static char buffer[65536];
        size_t sum = 0;
        ssize_t n;

        while ((n = read(fd, buffer, sizeof(buffer))) > 0)
                sum += (size_t) n;
        assert_int_equal(n, 0);
        return sum;
}

static void test_output_to_pipe(void **state)
{
        int inner_read, inner_write, caller_read, caller_write;
        char got[6] = {};
        Relay r;

        make_pipe(&inner_read, &inner_write);
        make_pipe(&caller_read, &caller_write);
        assert_return_code(relay_init(&r, 1000), 0);
        assert_return_code(relay_add_output(&r, inner_read, caller_write), 0);
        assert_return_code(relay_start(&r), 0);
        assert_return_code(write_full(inner_write, "h\0llo", 5), 0);
        assert_int_equal(read(caller_read, got, 5), 5);
        assert_memory_equal(got, "h\0llo", 5);
        assert_false(relay_outputs_finished(&r));
        close(inner_write);
        wait_finished(&r);
        assert_int_equal(relay_error(&r), 0);
        /* The caller's descriptor is the caller's: neither closed nor changed. */
        assert_int_equal(fcntl(caller_write, F_GETFL) & O_NONBLOCK, 0);
        relay_done(&r);
        close(caller_read);
        close(caller_write);
}

static void *write_much(void *userdata)
{
        static const char block[65536];
        int fd = *(int *) userdata;

        for (int i = 0; i < 64; i++)
                if (write_full(fd, block, sizeof(block)) < 0)
                        break;
        close(fd);
        return NULL;
}

static void test_much_to_file(void **state)
{
        int inner_read, inner_write, file = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        pthread_t writer;
        Relay r;

        assert_return_code(file, errno);
        make_pipe(&inner_read, &inner_write);
        assert_return_code(relay_init(&r, UINT64_MAX), 0);
        assert_return_code(relay_add_output(&r, inner_read, file), 0);
        assert_return_code(relay_start(&r), 0);
        assert_int_equal(pthread_create(&writer, NULL, write_much, &inner_write), 0);
        pthread_join(writer, NULL);
        wait_finished(&r);
        assert_int_equal(lseek(file, 0, SEEK_END), 64 * 65536);
        relay_done(&r);
        close(file);
}

static void test_back_pressure(void **state)
{
        int inner_read, inner_write, caller_read, caller_write;
        size_t sent = 0;
        Relay r;

        make_pipe(&inner_read, &inner_write);
        make_pipe(&caller_read, &caller_write);
        assert_return_code(relay_init(&r, UINT64_MAX), 0);
        assert_return_code(relay_add_output(&r, inner_read, caller_write), 0);
        assert_return_code(relay_start(&r), 0);
        assert_return_code(fd_set_nonblock(inner_write, true), 0);
        /* Nobody reads: the writer must come to a stop, with two pipes and one buffer full. */
        for (int idle = 0; idle < 20;) {
                static const char block[4096];
                ssize_t n = write(inner_write, block, sizeof(block));

                if (n > 0) {
                        sent += (size_t) n;
                        idle = 0;
                } else {
                        idle++;
                        usleep(2000);
                }
                assert_true(sent < 4 << 20);
        }
        close(inner_write);
        relay_run_ended(&r);
        /* And not a byte is lost when somebody reads at last, after the end of the run. */
        for (size_t got = 0; got < sent;) {
                char buffer[4096];
                ssize_t n = read(caller_read, buffer, sizeof(buffer));

                assert_true(n > 0);
                got += (size_t) n;
        }
        wait_finished(&r);
        relay_done(&r);
        close(caller_read);
        close(caller_write);
}

static void test_limit_is_exact(void **state)
{
        int a_read, a_write, b_read, b_write, caller_read, caller_write;
        static const char block[700];
        Relay r;

        make_pipe(&a_read, &a_write);
        make_pipe(&b_read, &b_write);
        make_pipe(&caller_read, &caller_write);
        assert_return_code(relay_init(&r, 1000), 0);
        assert_return_code(relay_add_output(&r, a_read, caller_write), 0);
        assert_return_code(relay_add_output(&r, b_read, caller_write), 0);
        assert_return_code(relay_start(&r), 0);
        assert_return_code(write_full(a_write, block, sizeof(block)), 0);
        assert_return_code(write_full(b_write, block, sizeof(block)), 0);
        close(a_write);
        close(b_write);
        wait_finished(&r);
        assert_true(atomic_load(&r.limit_hit));
        close(caller_write);
        assert_int_equal(read_all(caller_read), 1000);
        relay_done(&r);
        close(caller_read);
}

static void test_limit_that_is_just_reached(void **state)
{
        int inner_read, inner_write, caller_read, caller_write;
        static const char block[1000];
        Relay r;

        make_pipe(&inner_read, &inner_write);
        make_pipe(&caller_read, &caller_write);
        assert_return_code(relay_init(&r, sizeof(block)), 0);
        assert_return_code(relay_add_output(&r, inner_read, caller_write), 0);
        assert_return_code(relay_start(&r), 0);
        assert_return_code(write_full(inner_write, block, sizeof(block)), 0);
        close(inner_write);
        wait_finished(&r);
        assert_false(atomic_load(&r.limit_hit));
        relay_done(&r);
        close(caller_read);
        close(caller_write);
}

/* A process that was given a write end may live on outside; the end of the run is the end all the same. */
static void test_end_of_run_without_end_of_file(void **state)
{
        int inner_read, inner_write, caller_read, caller_write;
        char got[4];
        Relay r;

        make_pipe(&inner_read, &inner_write);
        make_pipe(&caller_read, &caller_write);
        assert_return_code(relay_init(&r, 1000), 0);
        assert_return_code(relay_add_output(&r, inner_read, caller_write), 0);
        assert_return_code(write_full(inner_write, "last", 4), 0);
        assert_return_code(relay_start(&r), 0);
        relay_run_ended(&r);
        wait_finished(&r);
        assert_int_equal(read(caller_read, got, sizeof(got)), 4);
        relay_done(&r);
        close(inner_write);
        close(caller_read);
        close(caller_write);
}

static void test_reader_that_leaves(void **state)
{
        int inner_read, inner_write, caller_read, caller_write;
        Relay r;

        make_pipe(&inner_read, &inner_write);
        make_pipe(&caller_read, &caller_write);
        close(caller_read);
        assert_return_code(relay_init(&r, 1000), 0);
        assert_return_code(relay_add_output(&r, inner_read, caller_write), 0);
        assert_return_code(relay_start(&r), 0);
        assert_return_code(write_full(inner_write, "x", 1), 0);
        wait_finished(&r);
        assert_int_equal(relay_error(&r), 0);
        assert_int_equal(write_full(inner_write, "x", 1), -EPIPE);
        relay_done(&r);
        close(inner_write);
        close(caller_write);
}

static void test_full_disk(void **state)
{
        int inner_read, inner_write, full = open("/dev/full", O_WRONLY | O_CLOEXEC);
        Relay r;

        assert_return_code(full, errno);
        make_pipe(&inner_read, &inner_write);
        assert_return_code(relay_init(&r, 1000), 0);
        assert_return_code(relay_add_output(&r, inner_read, full), 0);
        assert_return_code(relay_start(&r), 0);
        assert_return_code(write_full(inner_write, "x", 1), 0);
        wait_finished(&r);
        assert_int_equal(relay_error(&r), -ENOSPC);
        relay_done(&r);
        close(inner_write);
        close(full);
}

static void test_input(void **state)
{
        int inner_read, inner_write, caller_read, caller_write;
        char got[3];
        Relay r;

        make_pipe(&inner_read, &inner_write);
        make_pipe(&caller_read, &caller_write);
        assert_return_code(relay_init(&r, 0), 0);
        assert_return_code(relay_add_input(&r, caller_read, inner_write), 0);
        assert_return_code(relay_start(&r), 0);
        assert_return_code(write_full(caller_write, "abc", 3), 0);
        assert_int_equal(read(inner_read, got, 3), 3);
        close(caller_write);
        assert_int_equal(read(inner_read, got, 3), 0);
        assert_int_equal(fcntl(caller_read, F_GETFL) & O_NONBLOCK, 0);
        relay_done(&r);
        close(inner_read);
        close(caller_read);
}

/* What the run does not read stays with the caller. */
static void test_input_that_nobody_reads(void **state)
{
        int inner_read, inner_write, caller[2];
        struct pollfd p;
        Relay r;

        assert_return_code(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, caller), errno);
        make_pipe(&inner_read, &inner_write);
        assert_return_code(relay_init(&r, 0), 0);
        assert_return_code(relay_add_input(&r, caller[0], inner_write), 0);
        close(inner_read);
        assert_return_code(relay_start(&r), 0);
        p = (struct pollfd){ .fd = r.event_fd, .events = POLLIN };
        assert_int_equal(poll(&p, 1, 20000), 1);
        assert_return_code(write_full(caller[1], "mine", 4), 0);
        p = (struct pollfd){ .fd = caller[0], .events = POLLIN };
        assert_int_equal(poll(&p, 1, 20000), 1);
        assert_true(atomic_load(&r.streams[0].finished));
        relay_done(&r);
        close(caller[0]);
        close(caller[1]);
}

/* A thread that is stuck in a write to the caller does not keep the process. */
static void test_done_while_stuck(void **state)
{
        int inner_read, inner_write, caller_read, caller_write;
        static const char block[60000];
        Relay r;

        make_pipe(&inner_read, &inner_write);
        make_pipe(&caller_read, &caller_write);
        assert_return_code(relay_init(&r, UINT64_MAX), 0);
        assert_return_code(relay_add_output(&r, inner_read, caller_write), 0);
        assert_return_code(relay_start(&r), 0);
        assert_return_code(write_full(inner_write, block, sizeof(block)), 0);
        assert_return_code(write_full(inner_write, block, sizeof(block)), 0);
        usleep(20000);
        relay_done(&r);
        close(inner_write);
        close(caller_read);
        close(caller_write);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_output_to_pipe),
                cmocka_unit_test(test_much_to_file),
                cmocka_unit_test(test_back_pressure),
                cmocka_unit_test(test_limit_is_exact),
                cmocka_unit_test(test_limit_that_is_just_reached),
                cmocka_unit_test(test_end_of_run_without_end_of_file),
                cmocka_unit_test(test_reader_that_leaves),
                cmocka_unit_test(test_full_disk),
                cmocka_unit_test(test_input),
                cmocka_unit_test(test_input_that_nobody_reads),
                cmocka_unit_test(test_done_while_stuck),
        };

        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
