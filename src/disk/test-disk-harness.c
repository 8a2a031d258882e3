/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "base/strv.h"
#include "disk/disk-make.h"
#include "disk/loop-device.h"
#include "disk/test-disk-harness.h"

char disk_test_path[] = "/tmp/test-disk-XXXXXX";
int disk_test_dir_fd;
static const char *why_not; /* NULL: there are loop devices */

int disk_test_set_up(void **state)
{
        Error *e = NULL;
        int fd;

        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
                why_not = "only root can do this";
                return 0;
        }
        assert_non_null(mkdtemp(disk_test_path));
        assert_int_equal(mount("tmpfs", disk_test_path, "tmpfs", 0, "size=256m"), 0);
        disk_test_dir_fd = open(disk_test_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(disk_test_dir_fd >= 0);
        if (loop_devices_open(&fd, &e) < 0 || faccessat(fd, "loop-control", R_OK | W_OK, 0) < 0)
                why_not = "there are no loop devices here";
        else
                close(fd);
        error_free(e);
        return 0;
}

int disk_test_tear_down(void **state)
{
        umount2(disk_test_path, MNT_DETACH);
        rmdir(disk_test_path);
        return 0;
}

void need_loop_devices(void)
{
        if (!why_not)
                return;
        print_message("# skipped: %s\n", why_not);
        skip();
}

uint64_t host_free(void)
{
        struct statvfs st;

        assert_int_equal(statvfs(disk_test_path, &st), 0);
        return (uint64_t) st.f_bfree * st.f_frsize;
}

size_t count_devices(const char *living)
{
        char *runs[] = { (char *) living, NULL };
        _cleanup_strv_ char **left = NULL;

        assert_int_equal(disks_left(HOST, runs, &left, NULL), 0);
        return strv_length(left);
}

/* The kernel takes a device apart behind the last one who had it. */
void check_all_is_given_back(void)
{
        for (int i = 0; i < 500 && (count_devices(NULL) > 0 || host_free() < HOST_SIZE); i++)
                usleep(10000);
        assert_int_equal(count_devices(NULL), 0);
        assert_int_equal(host_free(), HOST_SIZE);
}

int make_disk(uint64_t size, uint64_t inodes, bool exec)
{
        Error *e = NULL;
        int fd;

        if (disk_make(disk_test_dir_fd, HOST, NAME, size, inodes, exec, -1, &fd, &e) < 0)
                fail_msg("%s", error_message(e, 0));
        return fd;
}

pid_t start_run(const char *place, bool own_mounts)
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

void end_run(pid_t pid)
{
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int attach_disk(int fd, pid_t pid, const char *path)
{
        char mounts[64];
        int status;
        pid_t child;

        snprintf(mounts, sizeof(mounts), "/proc/%i/ns/mnt", (int) pid);
        child = fork();
        if (child == 0)
                _exit(-disk_attach(fd, open(mounts, O_RDONLY | O_CLOEXEC), path, NULL));
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        return -WEXITSTATUS(status);
}
