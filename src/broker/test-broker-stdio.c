/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/macro.h"
#include "broker/broker-stdio.h"

/* A file system of a caller's own: it lets its top be opened, and answers nothing after that. Whoever asks it is told so by its end. */

static void answer(int fd, const struct fuse_in_header *in, const void *p, size_t n)
{
        struct fuse_out_header out = { .len = (uint32_t) (sizeof(out) + n), .unique = in->unique };
        const struct iovec v[] = { { &out, sizeof(out) }, { (void *) p, n } };

        if (writev(fd, v, ELEMENTSOF(v)) < 0)
                _exit(2);
}

_noreturn_ static void serve(int fd)
{
        static union {
                char space[FUSE_MIN_READ_BUFFER + (1 << 17)];
                struct fuse_in_header header;
        } in;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
                if (read(fd, &in, sizeof(in)) < (ssize_t) sizeof(in.header))
                        _exit(1);
                if (in.header.opcode == FUSE_INIT)
                        answer(fd, &in.header,
                                        &(struct fuse_init_out){ .major = FUSE_KERNEL_VERSION,
                                                        .minor = FUSE_KERNEL_MINOR_VERSION,
                                                        .max_write = 4096 },
                                        sizeof(struct fuse_init_out));
                else if (in.header.opcode == FUSE_OPENDIR)
                        answer(fd, &in.header, &(struct fuse_open_out){ .fh = 1 }, sizeof(struct fuse_open_out));
                else if (in.header.opcode == FUSE_GETATTR)
                        _exit(0);
        }
}

/* Returns the server; -1: there is no such thing here. */
static pid_t mount_server(const char *path)
{
        _cleanup_close_ int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
        char options[128];
        pid_t pid;

        if (fd < 0 || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return -1;
        snprintf(options, sizeof(options), "fd=%i,rootmode=40000,user_id=0,group_id=0,allow_other", fd);
        if (mount("test", path, "fuse", MS_NOSUID | MS_NODEV, options) < 0)
                return -1;
        pid = fork();
        if (pid == 0)
                serve(fd);
        return pid;
}

static void test_a_file_system_is_not_asked(void **state)
{
        char path[] = "/tmp/test-stdio-XXXXXX";
        int null = open("/dev/null", O_RDWR | O_CLOEXEC), fd;
        _cleanup_error_ Error *e = NULL;
        struct stat st;
        pid_t pid;

        assert_non_null(mkdtemp(path));
        pid = mount_server(path);
        if (pid < 0) {
                rmdir(path);
                print_message("# skipped: no file system can be served here\n");
                skip();
        }
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(stdio_check((int[]){ fd, null, null }, false, 0, &e), -EINVAL);
        assert_int_equal(stdio_check((int[]){ fd, fd, fd }, true, 0, NULL), -EINVAL);
        assert_int_equal(pipe_check(fd, false), -EINVAL);
        /* Whoever does, is left without an answer: that is what was tried. */
        assert_int_equal(fstat(fd, &st), -1);
        close(fd);
        close(null);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_int_equal(umount2(path, MNT_DETACH), 0);
        assert_int_equal(rmdir(path), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_file_system_is_not_asked),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
