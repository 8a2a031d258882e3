/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "base/io.h"
#include "broker/disk-image.h"
#include "broker/loop-device.h"
#include "broker/workspace-disk.h"

#define MIB UINT64_C(1048576)
#define HOST_SIZE (256 * MIB)
#define NAME "test-disk"
#define HOST 42u /* no host's number */

/* The host's disk: a file system of known size, seen by this process alone. */
static char directory[] = "/tmp/test-disk-XXXXXX";
static int dir_fd;
static const char *why_not; /* NULL: there are loop devices */

static int set_up(void **state)
{
        Error *e = NULL;
        int fd;

        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
                why_not = "only root can do this";
                return 0;
        }
        assert_non_null(mkdtemp(directory));
        assert_int_equal(mount("tmpfs", directory, "tmpfs", 0, "size=256m"), 0);
        dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(dir_fd >= 0);
        if (loop_devices_open(&fd, &e) < 0 || faccessat(fd, "loop-control", R_OK | W_OK, 0) < 0)
                why_not = "there are no loop devices here";
        else
                close(fd);
        error_free(e);
        return 0;
}

static int tear_down(void **state)
{
        umount2(directory, MNT_DETACH);
        rmdir(directory);
        return 0;
}

static void need_loop_devices(void)
{
        if (!why_not)
                return;
        print_message("# skipped: %s\n", why_not);
        skip();
}

static uint64_t host_free(void)
{
        struct statvfs st;

        assert_int_equal(statvfs(directory, &st), 0);
        return (uint64_t) st.f_bfree * st.f_frsize;
}

static bool is_called(const char *run, const void *userdata)
{
        return userdata && streq(run, userdata);
}

static size_t count_devices(const char *living)
{
        size_t n = 99;

        assert_int_equal(workspace_disks_left(HOST, is_called, living, &n), 0);
        return n;
}

/* The kernel takes a device apart behind the last one who had it. */
static void check_all_is_given_back(void)
{
        for (int i = 0; i < 500 && (count_devices(NULL) > 0 || host_free() < HOST_SIZE); i++)
                usleep(10000);
        assert_int_equal(count_devices(NULL), 0);
        assert_int_equal(host_free(), HOST_SIZE);
}

static int make(uint64_t size, uint64_t inodes, bool exec)
{
        Error *e = NULL;
        int fd;

        if (workspace_disk_make(dir_fd, HOST, NAME, size, inodes, exec, &fd, &e) < 0)
                fail_msg("%s", error_message(e, 0));
        return fd;
}

/* Whole at once, without a name, and gone with its descriptor. */
static void test_image(void **state)
{
        _cleanup_error_ Error *e = NULL;
        struct stat st;
        int fd;

        need_loop_devices();
        if (disk_image_make(dir_fd, directory, 64 * MIB, 1000, &fd, &e) < 0)
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
        assert_int_equal(disk_image_make(dir_fd, directory, 232 * MIB, 1000, &fd, &e), -ENOSPC);
        assert_non_null(strstr(e->message, "no room for WorkspaceSize=232M: 256M are free"));
        assert_int_equal(disk_image_make(dir_fd, directory, UINT64_MAX / 2, 1000, &fd, &e2), -ENOSPC);
        check_all_is_given_back();
}

static void test_made(void **state)
{
        struct statvfs st;
        struct statfs fs;
        int fd, f;

        need_loop_devices();
        fd = make(64 * MIB, 1000, true);
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
        fd = make(64 * MIB, 1000, false);
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
                int fd = make(rows[i].size, rows[i].inodes, true);
                struct statvfs st;

                assert_int_equal(fstatvfs(fd, &st), 0);
                if (st.f_files > rows[i].inodes || st.f_files + 48 < rows[i].inodes)
                        fail_msg("%zu: %lu inodes", i, st.f_files);
                close(fd);
                check_all_is_given_back();
        }
}

/* A process with a root of its own, and a directory in it. */
static pid_t start_run(const char *place, bool own_mounts)
{
        int fds[2];
        pid_t pid;
        char c;

        assert_int_equal(pipe(fds), 0);
        pid = fork();
        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (own_mounts && (unshare(CLONE_NEWNS) < 0 || mount(place, place, NULL, MS_BIND, NULL) < 0 || chroot(place) < 0))
                        _exit(1);
                (void) !write(fds[1], "x", 1);
                pause();
                _exit(0);
        }
        assert_true(pid > 0);
        assert_int_equal(read(fds[0], &c, 1), 1);
        close(fds[0]);
        close(fds[1]);
        return pid;
}

static uint64_t mnt_inode(pid_t pid)
{
        struct stat st;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%i/ns/mnt", (int) pid);
        assert_int_equal(stat(path, &st), 0);
        return st.st_ino;
}

static void end_run(pid_t pid)
{
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* It is there and nowhere else, and ends with whoever was in there. */
static void test_attach(void **state)
{
        char place[] = "/tmp/test-disk-run-XXXXXX", path[96];
        _cleanup_error_ Error *e = NULL;
        AttestFs seen = {};
        struct stat st;
        dev_t device;
        pid_t pid;
        int fd;

        need_loop_devices();
        fd = make(16 * MIB, 100, true);
        assert_int_equal(fstat(fd, &st), 0);
        device = st.st_dev;
        assert_non_null(mkdtemp(place));
        snprintf(path, sizeof(path), "%s/work", place);
        assert_int_equal(mkdir(path, 0755), 0);
        pid = start_run(place, true);
        if (workspace_disk_attach(fd, pid, mnt_inode(pid), "/work", &seen, &e) < 0)
                fail_msg("%s", error_message(e, 0));
        close(fd);
        assert_int_equal(seen.error, 0);
        assert_int_equal(seen.type, EXT4_SUPER_MAGIC);
        assert_true(seen.bytes > 14 * MIB && seen.bytes <= 16 * MIB && seen.inodes <= 100);
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
        char place[] = "/tmp/test-disk-run-XXXXXX", path[96], link[96];
        _cleanup_error_ Error *e = NULL;
        AttestFs seen = { .error = 42 };
        pid_t pid;
        int fd;

        need_loop_devices();
        fd = make(16 * MIB, 100, true);
        assert_non_null(mkdtemp(place));
        snprintf(path, sizeof(path), "%s/work", place);
        snprintf(link, sizeof(link), "%s/link", place);
        assert_int_equal(mkdir(path, 0755), 0);
        assert_int_equal(symlink("work", link), 0);
        pid = start_run(place, false);
        assert_int_equal(workspace_disk_attach(fd, pid, mnt_inode(pid), path, &seen, &e), -EPERM);
        assert_non_null(strstr(e->message, "shares the host's"));
        end_run(pid);
        pid = start_run(place, true);
        assert_int_equal(workspace_disk_attach(fd, pid, mnt_inode(pid), "/link", &seen, NULL), -ELOOP);
        assert_int_equal(workspace_disk_attach(fd, pid, mnt_inode(pid), "/absent", &seen, NULL), -ENOENT);
        assert_int_equal(workspace_disk_attach(fd, pid, mnt_inode(pid) + 1, "/work", &seen, NULL), -ESTALE);
        assert_int_equal(seen.error, 42);
        end_run(pid);
        close(fd);
        check_all_is_given_back();
        assert_int_equal(unlink(link), 0);
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

/* From then on nothing is written any more; and it is done to no other file system, nor for another's sake. */
static void test_abandon(void **state)
{
        int fd, f, seen;

        need_loop_devices();
        fd = make(32 * MIB, 100, true);
        f = make_dirty(fd);
        workspace_disk_abandon(fd, HOST, "another");
        workspace_disk_abandon(fd, HOST + 1, NAME);
        workspace_disk_abandon(dir_fd, HOST, NAME);
        assert_int_equal(write_full(f, "x", 1), 0);
        assert_int_equal(fsync(f), 0);
        assert_true((seen = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0);
        workspace_disk_abandon(seen, HOST, NAME);
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
                cmocka_unit_test(test_image),
                cmocka_unit_test(test_no_room),
                cmocka_unit_test(test_made),
                cmocka_unit_test(test_inodes),
                cmocka_unit_test(test_attach),
                cmocka_unit_test(test_attach_refused),
                cmocka_unit_test(test_abandon),
        };

        return cmocka_run_group_tests(tests, set_up, tear_down);
}
