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
#include <sys/stat.h>

#include "base/io.h"
#include "broker/workspace-disk.h"
#include "disk/test-disk-harness.h"

static AttestFs look(int fd, pid_t pid, const char *path)
{
        AttestFs seen = { .error = 42 };
        Error *e = NULL;

        if (workspace_disk_look(fd, pid, path, &seen, &e) < 0)
                fail_msg("%s", error_message(e, 0));
        return seen;
}

/* What is there is told by what the kernel says of it: its size, and that it is this one, on a file without a name. */
static void test_look(void **state)
{
        char place[] = "/tmp/test-disk-run-XXXXXX", path[96];
        AttestFs seen = { .error = 42 };
        int fd, other, memory;
        pid_t pid;

        need_loop_devices();
        fd = make_disk(16 * MIB, 100, true);
        other = make_disk(16 * MIB, 100, true);
        memory = open("/tmp", O_PATH | O_CLOEXEC);
        assert_non_null(mkdtemp(place));
        snprintf(path, sizeof(path), "%s/work", place);
        assert_int_equal(mkdir(path, 0755), 0);
        pid = start_run(place, true);
        assert_int_equal(workspace_disk_look(fd, pid, "/absent", &seen, NULL), -ENOENT);
        assert_int_equal(seen.error, 42);
        assert_int_equal(look(fd, pid, "/work").error, EXDEV);
        assert_int_equal(attach_disk(fd, pid, path), 0);
        seen = look(fd, pid, "/work");
        assert_int_equal(seen.error, 0);
        assert_int_equal(seen.type, EXT4_SUPER_MAGIC);
        assert_true(seen.bytes > 14 * MIB && seen.bytes <= 16 * MIB && seen.inodes <= 100);
        assert_int_equal(look(other, pid, "/work").error, EXDEV);
        close(fd);
        close(other);
        end_run(pid);
        pid = start_run("/tmp", true);
        assert_int_equal(look(memory, pid, "/").error, ENOTBLK);
        end_run(pid);
        close(memory);
        check_all_is_given_back();
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(rmdir(place), 0);
}

static int make_dirty(int fd)
{
        static uint8_t block[1 << 20];
        int f = openat(fd, "dirty", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

        assert_true(f >= 0);
        memset(block, 'x', sizeof(block));
        for (int i = 0; i < 8; i++)
                assert_int_equal(write_full(f, block, sizeof(block)), 0);
        return f;
}

/* From then on nothing is written any more; and it is done to no other file system. */
static void test_abandon(void **state)
{
        int fd, f, seen;

        need_loop_devices();
        fd = make_disk(32 * MIB, 100, true);
        f = make_dirty(fd);
        workspace_disk_abandon(disk_test_dir_fd);
        assert_int_equal(write_full(f, "x", 1), 0);
        assert_int_equal(fsync(f), 0);
        assert_true((seen = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0);
        workspace_disk_abandon(seen);
        close(seen);
        assert_int_equal(write(f, "x", 1), -1);
        assert_int_equal(errno, EIO);
        close(f);
        close(fd);
        check_all_is_given_back();
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_look),
                cmocka_unit_test(test_abandon),
        };

        return cmocka_run_group_tests(tests, disk_test_set_up, disk_test_tear_down);
}
