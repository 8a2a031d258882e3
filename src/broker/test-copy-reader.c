/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/io.h"
#include "broker/copy-reader.h"

#define RUN_UID 61184
#define PATIENCE_MSEC 20000

static const char *program;
static char base[] = "/tmp/agentbox-test-reader-XXXXXX";
static int base_fd;

static int set_up(void **state)
{
        static const char block[1 << 16] = "x";
        int fd;

        assert_non_null(mkdtemp(base));
        assert_int_equal(chown(base, RUN_UID, RUN_UID), 0);
        base_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        fd = openat(base_fd, "large", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        for (int i = 0; i < 64; i++)
                assert_int_equal(write_full(fd, block, sizeof(block)), 0);
        close(fd);
        return 0;
}

static int tear_down(void **state)
{
        assert_int_equal(unlinkat(base_fd, "large", 0), 0);
        close(base_fd);
        return rmdir(base);
}

/* stream: its read end. */
static int start(const char *what, pid_t *ret_pid, int *ret_report, int *ret_stream)
{
        char *paths[] = { (char *) "large", NULL };
        const CopyoutSpec spec = {
                .uid = RUN_UID, .gid = RUN_UID, .max_entries = 10, .max_bytes = UINT64_MAX, .paths = paths
        };
        int fds[2], r;

        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        r = copy_reader_start(what, &spec, fds[1], base_fd, -1, ret_pid, ret_report, NULL);
        close(fds[1]);
        *ret_stream = fds[0];
        return r;
}

static void await(int fd)
{
        struct pollfd p = { .fd = fd, .events = POLLIN };

        assert_int_equal(poll(&p, 1, PATIENCE_MSEC), 1);
}

static bool is_gone(pid_t pid)
{
        return kill(pid, 0) < 0 && errno == ESRCH;
}

static void test_whole(void **state)
{
        CopyoutReport report;
        uint64_t total = 0;
        char block[65536];
        int fd, stream;
        ssize_t n;
        pid_t pid;

        assert_int_equal(start(program, &pid, &fd, &stream), 0);
        while ((n = read(stream, block, sizeof(block))) > 0)
                total += (uint64_t) n;
        await(fd);
        assert_int_equal(copy_reader_finish(pid, RUN_UID, fd, &report), 0);
        assert_int_equal(report.outcome, COPYOUT_SENT);
        assert_true(report.entries == 1 && report.bytes == 64 << 16 && total > report.bytes);
        assert_null(copy_reader_why(&report, 1, 1));
        assert_true(is_gone(pid));
        close(stream);
}

/* It waits for somebody who takes nothing, as another user by now, and is ended all the same. */
static void test_ended(void **state)
{
        CopyoutReport report;
        int fd, stream;
        pid_t pid;

        assert_int_equal(start(program, &pid, &fd, &stream), 0);
        await(stream);
        assert_int_equal(copy_reader_finish(pid, RUN_UID, fd, &report), -EBADMSG);
        assert_true(is_gone(pid));
        close(stream);
}

static void test_no_program(void **state)
{
        CopyoutReport report;
        int fd, stream;
        pid_t pid;

        assert_int_equal(start("/nonexistent", &pid, &fd, &stream), 0);
        await(fd);
        assert_int_equal(copy_reader_finish(pid, RUN_UID, fd, &report), -EBADMSG);
        assert_true(is_gone(pid));
        close(stream);
}

static void test_words(void **state)
{
        for (int o = 0; o < _COPYOUT_OUTCOME_MAX; o++) {
                CopyoutReport r = { .outcome = o, .error = EIO };
                _cleanup_free_ char *why = copy_reader_why(&r, 1 << 20, 7);

                assert_int_equal(why != NULL, o != COPYOUT_SENT);
                if (o == COPYOUT_FILES)
                        assert_non_null(strstr(why, "CopyOutFiles=7"));
                if (o == COPYOUT_BYTES)
                        assert_non_null(strstr(why, "CopyOutSize=1M"));
        }
}

int main(int argc, char *argv[])
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whole),
                cmocka_unit_test(test_ended),
                cmocka_unit_test(test_no_program),
                cmocka_unit_test(test_words),
        };

        if (argc != 2)
                return 2;
        program = argv[1];
        if (geteuid() != 0) {
                puts("1..0 # SKIP only root can become a run's uid");
                return 0;
        }
        return cmocka_run_group_tests_name("copy-reader", tests, set_up, tear_down);
}
