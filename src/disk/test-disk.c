/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "base/io.h"
#include "disk/disk-image.h"
#include "disk/test-disk-harness.h"

/* Whole at once, without a name, and gone with its descriptor. */
static void test_image(void **state)
{
        _cleanup_error_ Error *e = NULL;
        struct stat st;
        int fd;

        need_loop_devices();
        if (disk_image_make(disk_test_dir_fd, disk_test_path, 64 * MIB, 1000, -1, &fd, &e) < 0)
                fail_msg("%s", error_message(e, 0));
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(st.st_size, 64 * MIB);
        assert_int_equal(st.st_nlink, 0);
        assert_int_equal(st.st_uid, 0);
        assert_int_equal(st.st_mode, S_IFREG | 0600);
        assert_true(host_free() <= HOST_SIZE - 64 * MIB);
        close(fd);
        check_all_is_given_back();
}

/* The host keeps a tenth of its disk. */
static void test_no_room(void **state)
{
        _cleanup_error_ Error *e = NULL, *e2 = NULL;
        int fd;

        need_loop_devices();
        assert_int_equal(disk_image_make(disk_test_dir_fd, disk_test_path, 232 * MIB, 1000, -1, &fd, &e), -ENOSPC);
        assert_non_null(strstr(e->message, "no room for WorkspaceSize=232M: 256M are free"));
        assert_int_equal(disk_image_make(disk_test_dir_fd, disk_test_path, UINT64_MAX / 2, 1000, -1, &fd, &e2), -ENOSPC);
        check_all_is_given_back();
}

/* Who wanted it is gone: nothing is waited for, and all is given back. */
static void test_unwanted(void **state)
{
        int fds[2], status = 0;
        pid_t pid;

        need_loop_devices();
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
        close(fds[1]);
        pid = fork();
        if (pid == 0) {
                int fd;

                _exit(-disk_image_make(disk_test_dir_fd, disk_test_path, 120 * MIB, 1000, fds[0], &fd, NULL));
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), ECONNRESET);
        close(fds[0]);
        check_all_is_given_back();
}

static bool waits_for_a_lock(pid_t pid)
{
        _cleanup_free_ char *locks = NULL;
        char waiter[64];

        snprintf(waiter, sizeof(waiter), "-> FLOCK  ADVISORY  WRITE %i ", (int) pid);
        assert_int_equal(read_file("/proc/locks", 1 << 20, &locks, NULL), 0);
        return strstr(locks, waiter) != NULL;
}

/* Between the look and the taking somebody else takes as much: what is to stay free, stays so. */
static void test_no_room_for_both(void **state)
{
        int lock, f, status = 0;
        pid_t pid;

        need_loop_devices();
        lock = open(disk_test_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(flock(lock, LOCK_EX), 0);
        pid = fork();
        if (pid == 0) {
                int dir = open(disk_test_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd;

                _exit(-disk_image_make(dir, disk_test_path, 120 * MIB, 1000, -1, &fd, NULL));
        }
        while (!waits_for_a_lock(pid) && waitpid(pid, &status, WNOHANG) == 0)
                usleep(1000);
        f = open(disk_test_path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        assert_int_equal(fallocate(f, 0, 0, 120 * MIB), 0);
        assert_int_equal(flock(lock, LOCK_UN), 0);
        close(lock);
        (void) waitpid(pid, &status, 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), ENOSPC);
        close(f);
        check_all_is_given_back();
}

static void test_made(void **state)
{
        struct statvfs st;
        struct statfs fs;
        int fd, f;

        need_loop_devices();
        fd = make_disk(64 * MIB, 1000, true);
        assert_int_equal(fstatvfs(fd, &st), 0);
        assert_int_equal(fstatfs(fd, &fs), 0);
        assert_int_equal(fs.f_type, EXT4_SUPER_MAGIC);
        assert_true(st.f_blocks * st.f_frsize <= 64 * MIB && st.f_blocks * st.f_frsize > 60 * MIB);
        assert_true(st.f_files <= 1000 && st.f_files > 950);
        assert_int_equal(st.f_flag & (ST_NOSUID | ST_NODEV | ST_NOEXEC | ST_RDONLY), ST_NOSUID | ST_NODEV);
        assert_int_equal(faccessat(fd, "lost+found", F_OK, 0), -1);
        f = openat(fd, "file", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        assert_true(f >= 0 && write_full(f, "x", 1) == 0);
        close(f);
        assert_int_equal(count_devices(NULL), 1);
        assert_int_equal(count_devices(NAME), 0);
        assert_int_equal(count_devices("another"), 1);
        close(fd);
        check_all_is_given_back();
        fd = make_disk(64 * MIB, 1000, false);
        assert_int_equal(fstatvfs(fd, &st), 0);
        assert_true(st.f_flag & ST_NOEXEC);
        close(fd);
        check_all_is_given_back();
}

/* No more inodes than asked for, whatever mke2fs rounds to. */
static void test_inodes(void **state)
{
        static const struct {
                uint64_t size, inodes;
        } rows[] = { { 16 * MIB, 16 }, { 16 * MIB, 32768 }, { 127 * MIB, 100 }, { 129 * MIB, 1001 }, { 200 * MIB, 33 },
                { 128 * MIB + 4096, 5000 }, { 130 * MIB, 65536 } };

        need_loop_devices();
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                int fd = make_disk(rows[i].size, rows[i].inodes, true);
                struct statvfs st;

                assert_int_equal(fstatvfs(fd, &st), 0);
                if (st.f_files > rows[i].inodes || st.f_files + 48 < rows[i].inodes)
                        fail_msg("%zu: %lu inodes", i, st.f_files);
                close(fd);
                check_all_is_given_back();
        }
}

/* It is there and nowhere else, and ends with whoever was in there. The process of a run has its root elsewhere than its mount
 * namespace has, here; so the path is the host's. */
static void test_attach(void **state)
{
        char place[] = "/tmp/test-disk-run-XXXXXX", path[96];
        struct stat st;
        dev_t device;
        pid_t pid;
        int fd;

        need_loop_devices();
        fd = make_disk(16 * MIB, 100, true);
        assert_int_equal(fstat(fd, &st), 0);
        device = st.st_dev;
        assert_non_null(mkdtemp(place));
        snprintf(path, sizeof(path), "%s/work", place);
        assert_int_equal(mkdir(path, 0755), 0);
        pid = start_run(place, true);
        assert_int_equal(attach_disk(fd, pid, path), 0);
        close(fd);
        assert_int_equal(stat(path, &st), 0);
        assert_int_not_equal(st.st_dev, device);
        assert_int_equal(count_devices(NULL), 1);
        end_run(pid);
        check_all_is_given_back();
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(rmdir(place), 0);
}

/* Never in the mounts of this process, and not through a link. */
static void test_attach_refused(void **state)
{
        char place[] = "/tmp/test-disk-run-XXXXXX", path[96], link[96], absent[96];
        pid_t pid;
        int fd;

        need_loop_devices();
        fd = make_disk(16 * MIB, 100, true);
        assert_non_null(mkdtemp(place));
        snprintf(path, sizeof(path), "%s/work", place);
        snprintf(link, sizeof(link), "%s/link", place);
        snprintf(absent, sizeof(absent), "%s/absent", place);
        assert_int_equal(mkdir(path, 0755), 0);
        assert_int_equal(symlink("work", link), 0);
        pid = start_run(place, false);
        assert_int_equal(attach_disk(fd, pid, path), -EPERM);
        end_run(pid);
        pid = start_run(place, true);
        assert_int_equal(attach_disk(fd, pid, link), -ELOOP);
        assert_int_equal(attach_disk(fd, pid, absent), -ENOENT);
        end_run(pid);
        close(fd);
        check_all_is_given_back();
        assert_int_equal(unlink(link), 0);
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(rmdir(place), 0);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_image),
                cmocka_unit_test(test_no_room),
                cmocka_unit_test(test_unwanted),
                cmocka_unit_test(test_no_room_for_both),
                cmocka_unit_test(test_made),
                cmocka_unit_test(test_inodes),
                cmocka_unit_test(test_attach),
                cmocka_unit_test(test_attach_refused),
        };

        return cmocka_run_group_tests(tests, disk_test_set_up, disk_test_tear_down);
}
