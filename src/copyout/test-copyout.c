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
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/io.h"
#include "copyout/copyout.h"
#include "wire/copyout.h"
#include "wire/tree-receive.h"

#define RUN_UID 61184
#define PATIENCE_MSEC 20000

static const char *program;
static char base[] = "/tmp/agentbox-test-copyout-XXXXXX";
static int base_fd, from_fd, to_fd, merged_fd = -1; /* merged: of a spec with a view */

static int set_up(void **state)
{
        strcpy(base + sizeof(base) - 7, "XXXXXX");
        assert_non_null(mkdtemp(base));
        assert_int_equal(chmod(base, 0700), 0); /* the run's uid could not come by here itself */
        base_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(mkdirat(base_fd, "from", 0700), 0);
        assert_int_equal(fchownat(base_fd, "from", RUN_UID, RUN_UID, 0), 0);
        assert_int_equal(mkdirat(base_fd, "to", 0755), 0);
        from_fd = openat(base_fd, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        to_fd = openat(base_fd, "to", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return 0;
}

static int tear_down(void **state)
{
        close(from_fd);
        close(to_fd);
        close(base_fd);
        return tree_remove(AT_FDCWD, base);
}

static void put(const char *path, const char *text, uid_t uid, mode_t mode)
{
        int fd = openat(from_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);

        assert_true(fd >= 0);
        assert_int_equal(write_full(fd, text, strlen(text)), 0);
        assert_int_equal(fchown(fd, uid, uid), 0);
        close(fd);
}

/* More than any pipe holds. */
static void put_large(const char *path)
{
        int fd;

        put(path, "", RUN_UID, 0600);
        fd = openat(from_fd, path, O_WRONLY | O_CLOEXEC);
        for (int i = 0; i < 1024; i++)
                assert_int_equal(write_full(fd, (char[4096]){}, 4096), 0);
        close(fd);
}

static void put_directory(const char *path)
{
        assert_int_equal(mkdirat(from_fd, path, 0700), 0);
        assert_int_equal(fchownat(from_fd, path, RUN_UID, RUN_UID, 0), 0);
}

/* ---- the broker's part */

typedef struct Copier {
        pid_t pid;
        int stream, report;
} Copier;

static Copier start(const CopyoutSpec *spec, int workspace)
{
        int stream[2], report[2], memfd;
        Copier c;
        Buf b = {};

        assert_int_equal(copyout_spec_encode(spec, &b), 0);
        memfd = memfd_sealed("spec", b.data, b.size);
        buf_done(&b);
        assert_int_equal(pipe2(stream, O_CLOEXEC), 0);
        assert_int_equal(pipe2(report, O_CLOEXEC), 0);
        c.pid = fork();
        assert_true(c.pid >= 0);
        if (c.pid == 0) {
                int fds[_COPYOUT_FD_MAX] = { memfd, stream[1], report[1], workspace, spec->has_view ? merged_fd : workspace };

                for (int i = 0; i < _COPYOUT_FD_MAX; i++)
                        fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 20);
                for (int i = 0; i < _COPYOUT_FD_MAX; i++)
                        dup2(fds[i], i);
                dup2(0, 77); /* one that leaks */
                execl(program, "agentbox-copyout", NULL);
                _exit(99);
        }
        close(memfd);
        close(stream[1]);
        close(report[1]);
        c.stream = stream[0];
        c.report = report[0];
        return c;
}

static CopyoutReport finish(Copier *c)
{
        uint8_t p[COPYOUT_REPORT_SIZE + 1];
        struct pollfd poller = { .fd = c->report, .events = POLLIN };
        CopyoutReport r;
        ssize_t n;

        assert_int_equal(poll(&poller, 1, PATIENCE_MSEC), 1);
        n = read(c->report, p, sizeof(p));
        assert_int_equal(n, COPYOUT_REPORT_SIZE);
        assert_int_equal(copyout_report_decode(p, (size_t) n, &r), 0);
        assert_int_equal(waitpid(c->pid, NULL, 0), c->pid);
        close(c->report);
        if (c->stream >= 0)
                close(c->stream);
        return r;
}

typedef struct Left {
        char path[256];
        TreeLeft reason;
} Left;

typedef struct Got {
        int received;
        CopyoutReport report;
        Left left[8];
        size_t n_left, n_whole;
} Got;

static int place(void *userdata, const char *path, TreePlace *ret)
{
        return tree_place_beneath(to_fd, streq(path, ".") ? "all" : path, ret);
}

static void note(void *userdata, const TreeState *s, const TreeItem *i)
{
        Got *got = userdata;

        got->n_whole += i->type == TREE_WHOLE;
        if (i->type == TREE_LEFT) {
                assert_true(got->n_left < ELEMENTSOF(got->left));
                snprintf(got->left[got->n_left].path, 256, "%.255s", s->path);
                got->left[got->n_left++].reason = i->reason;
        }
}

static Got copy(const CopyoutSpec *spec)
{
        Copier c = start(spec, from_fd);
        TreeReceiver r = TREE_RECEIVER_NONE;
        Got got = {};

        assert_int_equal(tree_receiver_init(&r), 0);
        r.place = place;
        r.foreign = true;
        r.observer = (TreeObserver){ .userdata = &got, .item = note };
        while ((got.received = tree_receive(&r, c.stream)) > 0)
                ;
        tree_receiver_done(&r);
        got.report = finish(&c);
        return got;
}

static CopyoutSpec spec_of(char **paths)
{
        return (CopyoutSpec){
                .uid = RUN_UID,
                .gid = RUN_UID,
                .max_entries = 100,
                .max_bytes = 1 << 20,
                .paths = paths,
        };
}

#define PATHS(...) ((char *[]){ __VA_ARGS__, NULL })
#define S(s) ((char *) (s))

static void assert_text(const char *path, const char *want)
{
        char *got;

        if (read_file_at(to_fd, path, 1 << 20, &got, NULL) < 0)
                fail_msg("%s: %s", path, strerror(errno));
        assert_string_equal(got, want);
        free(got);
}

/* ---- */

static void test_copies(void **state)
{
        CopyoutSpec spec = spec_of(PATHS(S("d"), S("d/f"), S("gone"), S("gone/x")));
        Got got;

        put_directory("d");
        put("d/f", "private", RUN_UID, 0600);
        got = copy(&spec);
        assert_int_equal(got.received, -EEXIST); /* d/f, twice */
        assert_int_equal(tree_remove(to_fd, "d"), 0);

        spec.paths = PATHS(S("d"), S("gone"), S("gone/x"));
        got = copy(&spec);
        assert_int_equal(got.received, 0);
        assert_int_equal(got.report.outcome, COPYOUT_SENT);
        assert_true(got.report.entries == 2 && got.report.bytes == 7 && got.report.left == 2);
        assert_text("d/f", "private");
        assert_true(got.n_left == 2 && got.left[0].reason == TREE_LEFT_MISSING &&
                        got.left[1].reason == TREE_LEFT_MISSING);

        spec.paths = PATHS(S("."));
        got = copy(&spec);
        assert_int_equal(got.received, 0);
        assert_text("all/d/f", "private");
}

static bool was_left(const Got *got, const char *path, TreeLeft reason)
{
        for (size_t i = 0; i < got->n_left; i++)
                if (streq(got->left[i].path, path))
                        return got->left[i].reason == reason;
        return false;
}

/* Of a view, what is copied are its changes; what else there is says only why something is none. */
static void test_view(void **state)
{
        CopyoutSpec spec = spec_of(PATHS(S("d"), S("same"), S("deleted"), S("deleted-d/x"), S("never"), S("device")));
        Got got;

        spec.has_view = true;
        put_directory("d");
        put("d/changed", "1", RUN_UID, 0600);
        assert_int_equal(mknodat(from_fd, "d/w", S_IFCHR, 0), 0);
        assert_int_equal(mknodat(from_fd, "deleted", S_IFCHR, 0), 0);
        assert_int_equal(mknodat(from_fd, "deleted-d", S_IFCHR, 0), 0);
        assert_int_equal(mknodat(from_fd, "device", S_IFCHR | 0666, makedev(1, 3)), 0);
        assert_true(mkdirat(base_fd, "merged", 0755) == 0 && mkdirat(base_fd, "merged/d", 0755) == 0 &&
                        mkdirat(base_fd, "merged/device", 0755) == 0 && mkdirat(base_fd, "merged/same", 0700) == 0);
        assert_int_equal(symlinkat("1", base_fd, "merged/d/changed"), 0);
        merged_fd = openat(base_fd, "merged", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        got = copy(&spec);
        close(merged_fd);
        assert_int_equal(got.received, 0);
        assert_text("d/changed", "1");
        assert_true(was_left(&got, "d/w", TREE_LEFT_WHITEOUT) && was_left(&got, "same", TREE_LEFT_UNCHANGED) &&
                        was_left(&got, "deleted", TREE_LEFT_WHITEOUT) && was_left(&got, "deleted-d/x", TREE_LEFT_MISSING) &&
                        was_left(&got, "never", TREE_LEFT_MISSING) && was_left(&got, "device", TREE_LEFT_DEVICE));
        assert_int_equal(got.n_whole, 1);
}

/* It has the run's uid and nothing else: what is root's and not for everybody cannot be read. */
static void test_only_as_the_run(void **state)
{
        CopyoutSpec spec = spec_of(
                        PATHS(S("root"), S("none"), S("fifo"), S("link"), S("through/shadow"), S("open")));
        static const TreeLeft want[] = { TREE_LEFT_UNREADABLE, TREE_LEFT_UNREADABLE, TREE_LEFT_FIFO,
                TREE_LEFT_LINK, TREE_LEFT_LINK };
        Got got;

        put("root", "root's", 0, 0600);
        put("none", "nobody's", RUN_UID, 0);
        put("open", "open", 0, 0644);
        assert_int_equal(mkfifoat(from_fd, "fifo", 0666), 0);
        assert_int_equal(symlinkat("/etc/shadow", from_fd, "link"), 0);
        assert_int_equal(symlinkat("/etc", from_fd, "through"), 0);
        got = copy(&spec);
        assert_int_equal(got.received, 0);
        assert_int_equal(got.n_left, ELEMENTSOF(want));
        for (size_t i = 0; i < ELEMENTSOF(want); i++)
                assert_int_equal(got.left[i].reason, want[i]);
        assert_text("open", "open");
}

static void test_limits(void **state)
{
        CopyoutSpec spec = spec_of(PATHS(S("d")));
        Got got;

        put_directory("d");
        put("d/f", "12345", RUN_UID, 0600);
        spec.max_entries = 1;
        got = copy(&spec);
        assert_int_equal(got.received, -EREMOTEIO);
        assert_int_equal(got.report.outcome, COPYOUT_FILES);
        assert_int_equal(tree_remove(to_fd, "d"), 0);
        spec.max_entries = 2;
        spec.max_bytes = 4;
        got = copy(&spec);
        assert_int_equal(got.received, -EREMOTEIO);
        assert_int_equal(got.report.outcome, COPYOUT_BYTES);
}

/* The caller has gone. */
static void test_unread(void **state)
{
        CopyoutSpec spec = spec_of(PATHS(S("f")));
        Copier c;

        put_large("f");
        spec.max_bytes = UINT64_MAX;
        c = start(&spec, from_fd);
        close(c.stream);
        c.stream = -1;
        assert_int_equal(finish(&c).outcome, COPYOUT_UNREAD);
}

static char *status_of(pid_t pid)
{
        char path[64], *status;

        snprintf(path, sizeof(path), "/proc/%i/status", (int) pid);
        assert_int_equal(read_file(path, 1 << 16, &status, NULL), 0);
        return status;
}

static void test_confined_as_seen_from_outside(void **state)
{
        static const char *const lines[] = { "\nUid:\t61184\t61184\t61184\t61184\n",
                "\nGid:\t61184\t61184\t61184\t61184\n", "\nGroups:\t \n", "\nCapInh:\t0000000000000000\n",
                "\nCapPrm:\t0000000000000000\n", "\nCapEff:\t0000000000000000\n",
                "\nCapAmb:\t0000000000000000\n", "\nNoNewPrivs:\t1\n", "\nSeccomp:\t2\n" };
        CopyoutSpec spec = spec_of(PATHS(S("f")));
        char *status = NULL, path[64], root[256] = "", want[256], first;
        Copier c;
        int n_fds = 0;

        spec.max_bytes = UINT64_MAX;
        put_large("f");
        c = start(&spec, from_fd);
        assert_int_equal(read(c.stream, &first, 1), 1); /* it copies, and waits for us */
        status = status_of(c.pid);
        for (size_t i = 0; i < ELEMENTSOF(lines); i++)
                if (!strstr(status, lines[i]))
                        fail_msg("no%sin:\n%s", lines[i], status);
        snprintf(path, sizeof(path), "/proc/%i/root", (int) c.pid);
        assert_true(readlink(path, root, sizeof(root) - 1) > 0);
        snprintf(want, sizeof(want), "%s/from", base);
        assert_string_equal(root, want);
        for (int i = 0; i < 100; i++) {
                snprintf(path, sizeof(path), "/proc/%i/fd/%i", (int) c.pid, i);
                n_fds += access(path, F_OK) == 0 || (i < _COPYOUT_FD_MAX && readlink(path, root, 1) > 0);
        }
        assert_int_equal(n_fds, _COPYOUT_FD_MAX + 1); /* and the file it reads */
        close(c.stream);
        c.stream = -1;
        assert_int_equal(finish(&c).outcome, COPYOUT_UNREAD);
        free(status);
}

static void test_by_hand(void **state)
{
        pid_t pid = fork();
        int status;

        if (pid == 0) {
                dup2(open("/dev/null", O_RDWR | O_CLOEXEC), 2);
                close(3);
                execl(program, "agentbox-copyout", NULL);
                _exit(99);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

static void test_bad_spec(void **state)
{
        CopyoutSpec spec = spec_of(PATHS(S("f")));
        _cleanup_close_ int file = openat(base_fd, "file", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        Copier c = start(&spec, file); /* no directory */

        assert_int_equal(read(c.report, (char[1]){}, 1), 1); /* it says so, in words, and no more */
        assert_int_equal(waitpid(c.pid, NULL, 0), c.pid);
        close(c.report);
        close(c.stream);
}

/* ---- what could be done from inside, if somebody got there: each in a child, whose end tells */

static int in_confinement(int (*attempt)(void), bool filter)
{
        pid_t pid = fork();
        int status;

        assert_true(pid >= 0);
        if (pid == 0) {
                for (int i = 0; i < _COPYOUT_FD_MAX; i++)
                        dup2(i == COPYOUT_FD_WORKSPACE ? from_fd : base_fd, i);
                if (copyout_confine_identity(COPYOUT_FD_WORKSPACE, RUN_UID, RUN_UID) < 0 ||
                                copyout_confine_landlock((const int[]){ COPYOUT_FD_WORKSPACE }, 1) < 0 ||
                                (filter && copyout_confine_seccomp() < 0))
                        _exit(98);
                _exit(attempt());
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static int outcome(long r)
{
        return r < 0 ? errno : 0;
}

static int read_inside(void)
{
        return outcome(open("/f", O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
}

static int read_above(void)
{
        return outcome(open("../../../../etc/passwd", O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
}

static int read_absolute(void)
{
        return outcome(open("/etc/passwd", O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
}

static int read_by_link(void)
{
        return outcome(open("/link", O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
}

static int follow_link(void)
{
        return outcome(open("/link", O_RDONLY | O_CLOEXEC));
}

static int open_to_write(void)
{
        return outcome(open("/f", O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
}

static int create(void)
{
        return outcome(open("/new", O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
}

static int make_socket(void)
{
        return outcome(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

static int execute(void)
{
        return outcome(execl("/f", "f", NULL));
}

static int become_root(void)
{
        return outcome(setuid(0));
}

static int signal_broker(void)
{
        return outcome(kill(getppid(), 0));
}

static int remove_file(void)
{
        return outcome(unlink("/f"));
}

static int write_elsewhere(void)
{
        return outcome(write(COPYOUT_FD_WORKSPACE, "x", 1));
}

static int leave_root(void)
{
        return outcome(chroot("."));
}

static void test_from_inside(void **state)
{
        static const struct {
                const char *name;
                int (*attempt)(void);
                int with_filter, without; /* -SIGSYS or errno; without: -1: not tried */
        } rows[] = {
                { "read inside", read_inside, 0, 0 },
                { "read above", read_above, ENOENT, ENOENT },
                { "read an absolute path", read_absolute, ENOENT, ENOENT },
                { "read a link", read_by_link, ELOOP, ELOOP },
                { "follow a link", follow_link, -SIGSYS, ENOENT },
                { "open for writing", open_to_write, -SIGSYS, -1 },
                { "make a file", create, -SIGSYS, -1 },
                { "make a socket", make_socket, -SIGSYS, -1 },
                { "execute", execute, -SIGSYS, EACCES },
                { "become root", become_root, -SIGSYS, EPERM },
                { "signal", signal_broker, -SIGSYS, EPERM },
                { "remove a file", remove_file, -SIGSYS, -1 },
                { "write elsewhere", write_elsewhere, -SIGSYS, EBADF },
                { "change the root", leave_root, -SIGSYS, EPERM },
        };

        put("f", "x", RUN_UID, 0600);
        assert_int_equal(symlinkat("/etc/passwd", from_fd, "link"), 0);
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                int got = in_confinement(rows[i].attempt, true);

                if (got != rows[i].with_filter)
                        fail_msg("%s, with the filter: %i", rows[i].name, got);
                got = rows[i].without < 0 ? -1 : in_confinement(rows[i].attempt, false);
                if (got != rows[i].without)
                        fail_msg("%s, without: %i", rows[i].name, got);
        }
}

/* The second lock, without the first. */
static void test_landlock_alone(void **state)
{
        int status;
        pid_t pid;

        if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1) < 0)
                skip(); /* the kernel has none */
        put("f", "x", RUN_UID, 0600);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || copyout_confine_landlock(&from_fd, 1) < 0)
                        _exit(98);
                if (openat(from_fd, "f", O_RDONLY | O_CLOEXEC) < 0)
                        _exit(97);
                _exit(outcome(open("/etc/passwd", O_RDONLY | O_CLOEXEC)));
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), EACCES);
}

int main(int argc, char *argv[])
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                T(test_copies),
                T(test_view), T(test_only_as_the_run),
                T(test_limits),
                T(test_unread),
                T(test_confined_as_seen_from_outside),
                T(test_by_hand),
                T(test_bad_spec),
                T(test_from_inside),
                T(test_landlock_alone),
        };

        if (argc != 2)
                return 2;
        program = argv[1];
        if (geteuid() != 0) {
                puts("1..0 # SKIP only root can become a run's uid");
                return 0;
        }
        return cmocka_run_group_tests_name("copyout", tests, NULL, NULL);
}
