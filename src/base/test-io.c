/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/io.h"

static char directory[32];
static int dir_fd = -1;

static int set_up(void **state)
{
        strcpy(directory, "/tmp/test-io.XXXXXX");
        if (!mkdtemp(directory))
                return -1;
        dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return dir_fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
        char command[64];

        close(dir_fd);
        snprintf(command, sizeof(command), "rm -rf %s", directory);
        return system(command);
}

static void test_write_then_read(void **state)
{
        _cleanup_free_ char *data = malloc(100000), *back = NULL;
        size_t n = 0;
        struct stat st;

        for (size_t i = 0; i < 100000; i++)
                data[i] = (char) (i * 31);
        assert_int_equal(write_new_file_at(dir_fd, "f", data, 100000, 0640), 0);
        assert_int_equal(fstatat(dir_fd, "f", &st, 0), 0);
        assert_int_equal(st.st_mode & 07777, 0640);
        assert_int_equal(read_file_at(dir_fd, "f", 100000, &back, &n), 0);
        assert_int_equal(n, 100000);
        assert_memory_equal(back, data, n);
        assert_int_equal(back[n], 0);
}

static void test_read_bounds(void **state)
{
        _cleanup_free_ char *a = NULL, *empty = NULL;
        char *untouched = (char *) 1;
        size_t n = 7;

        assert_int_equal(write_new_file_at(dir_fd, "ten", "0123456789", 10, 0600), 0);
        assert_int_equal(write_new_file_at(dir_fd, "empty", "", 0, 0600), 0);
        assert_int_equal(read_file_at(dir_fd, "ten", 10, &a, NULL), 0);
        assert_string_equal(a, "0123456789");
        assert_int_equal(read_file_at(dir_fd, "ten", 9, &untouched, &n), -EFBIG);
        assert_int_equal(read_file_at(dir_fd, "none", 9, &untouched, &n), -ENOENT);
        assert_int_equal(read_file_at(dir_fd, ".", 9, &untouched, &n), -EISDIR);
        assert_ptr_equal(untouched, (char *) 1);
        assert_int_equal(n, 7);
        assert_int_equal(read_file_at(dir_fd, "empty", 0, &empty, &n), 0);
        assert_string_equal(empty, "");
        assert_int_equal(n, 0);
}

static void test_read_proc(void **state)
{
        _cleanup_free_ char *s = NULL;
        size_t n = 0;

        assert_int_equal(read_file("/proc/self/status", 1 << 20, &s, &n), 0);
        assert_true(n > 100);
        assert_non_null(strstr(s, "Pid:"));
}

static void test_new_means_new(void **state)
{
        _cleanup_free_ char *s = NULL;

        assert_int_equal(write_new_file_at(dir_fd, "x", "a", 1, 0600), 0);
        assert_int_equal(write_new_file_at(dir_fd, "x", "b", 1, 0600), -EEXIST);
        assert_int_equal(symlinkat("target", dir_fd, "link"), 0);
        assert_int_equal(write_new_file_at(dir_fd, "link", "b", 1, 0600), -EEXIST);
        assert_int_equal(faccessat(dir_fd, "target", F_OK, 0), -1);
        assert_int_equal(read_file_at(dir_fd, "x", 10, &s, NULL), 0);
        assert_string_equal(s, "a");
}

static void test_sealed(void **state)
{
        _cleanup_close_ int fd = memfd_sealed("t", "secret\0x", 8),
                            open_fd = memfd_create("u", MFD_CLOEXEC | MFD_ALLOW_SEALING),
                            half = memfd_create("h", MFD_CLOEXEC | MFD_ALLOW_SEALING), file = -1;
        _cleanup_free_ void *p = NULL;
        void *untouched = (void *) 1;
        size_t n = 0;

        assert_true(fd >= 0 && open_fd >= 0 && half >= 0);
        assert_int_equal(write(fd, "y", 1), -1);
        assert_int_equal(ftruncate(fd, 1), -1);
        assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        assert_int_equal(memfd_read_sealed(fd, 8, &p, &n), 0);
        assert_int_equal(n, 8);
        assert_memory_equal(p, "secret\0x", 8);
        assert_int_equal(memfd_read_sealed(fd, 7, &untouched, &n), -EFBIG);
        /* What somebody could still change is not read at all. */
        assert_int_equal(memfd_read_sealed(open_fd, 8, &untouched, &n), -EPERM);
        assert_int_equal(fcntl(half, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
        assert_int_equal(memfd_read_sealed(half, 8, &untouched, &n), -EPERM);
        file = openat(dir_fd, "plain", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        assert_true(file >= 0);
        assert_true(memfd_read_sealed(file, 8, &untouched, &n) < 0);
        assert_ptr_equal(untouched, (void *) 1);
}

static void test_write_full_and_nonblock(void **state)
{
        int p[2];

        assert_int_equal(pipe2(p, O_CLOEXEC), 0);
        assert_int_equal(write_full(p[1], "abc", 3), 0);
        assert_int_equal(fd_set_nonblock(p[1], true), 0);
        assert_true(fcntl(p[1], F_GETFL) & O_NONBLOCK);
        assert_int_equal(fd_set_nonblock(p[1], false), 0);
        assert_false(fcntl(p[1], F_GETFL) & O_NONBLOCK);
        close(p[0]);
        close(p[1]);
        assert_int_equal(write_full(p[1], "abc", 3), -EBADF);
        assert_int_equal(fd_set_nonblock(p[1], true), -EBADF);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        static const struct CMUnitTest tests[] = {
                TEST(test_write_then_read),
                TEST(test_read_bounds),
                TEST(test_read_proc),
                TEST(test_new_means_new),
                TEST(test_sealed),
                TEST(test_write_full_and_nonblock),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
