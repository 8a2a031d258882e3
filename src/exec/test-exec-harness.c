/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/io.h"
#include "test-exec-harness.h"

#define NOBODY 65534
#define PATIENCE_MSEC 20000

/* ---- the child: what systemd would have done ---- */

static void check(bool ok, const char *what)
{
        if (ok)
                return;
        perror(what);
        _exit(99);
}

static void write_text(const char *path, const char *text)
{
        int fd = open(path, O_WRONLY | O_CLOEXEC);

        check(fd >= 0 && write_full(fd, text, strlen(text)) >= 0, path);
        close(fd);
}

static void loopback_up(void)
{
        struct ifreq i = { .ifr_name = "lo", .ifr_flags = IFF_UP };
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        check(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &i) >= 0, "lo");
        close(fd);
}

static void own_namespaces(bool privileged)
{
        char map[64];
        unsigned uid = getuid(), gid = getgid();

        if (uid != 0) {
                check(unshare(CLONE_NEWUSER) >= 0, "unshare");
                write_text("/proc/self/setgroups", "deny");
                snprintf(map, sizeof(map), "%u %u 1", privileged ? 0 : uid, uid);
                write_text("/proc/self/uid_map", map);
                snprintf(map, sizeof(map), "%u %u 1", privileged ? 0 : gid, gid);
                write_text("/proc/self/gid_map", map);
        }
        check(unshare(CLONE_NEWNET | CLONE_NEWNS) >= 0, "unshare");
        check(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) >= 0, "private mounts");
}

static void drop_privileges(const Options *o, bool root)
{
        for (int c = 0; !o->keep_bounding && c < 64; c++)
                if (prctl(PR_CAPBSET_DROP, c, 0, 0, 0) < 0)
                        check(errno == EINVAL && c > 30, "bounding set");
        if (root) {
                check(setgroups(0, NULL) >= 0, "setgroups");
                check(setresgid(NOBODY, NOBODY, NOBODY) >= 0, "setresgid");
                check(setresuid(NOBODY, NOBODY, NOBODY) >= 0, "setresuid");
        }
        check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) >= 0, "no_new_privs");
}

/* The remount of a user namespace may not clear flags that the mount has: they are named again. */
static void make_read_only(void)
{
        struct statvfs v;

        check(statvfs("/", &v) >= 0, "statvfs");
        check(mount(NULL, "/", NULL,
                              MS_REMOUNT | MS_BIND | MS_RDONLY |
                                              (v.f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC)),
                              NULL) >= 0,
                        "read-only root");
}

static void load_lethal_filter(void)
{
        static struct sock_filter program[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_keyctl, 5, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mount, 4, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_capset, 3, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setresuid, 2, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 1, 0),
                BPF_STMT(BPF_RET | BPF_K, 0x7fff0000 /* SECCOMP_RET_ALLOW */),
                BPF_STMT(BPF_RET | BPF_K, 0x80000000 /* SECCOMP_RET_KILL_PROCESS */),
        };
        const struct sock_fprog p = { .len = ELEMENTSOF(program), .filter = program };

        check(prctl(PR_SET_SECCOMP, 2, &p, 0, 0) >= 0, "filter");
}

/* As PID 1 does it: the process that made the namespace is not in it, and only tells how its init ended. */
static void own_pids(void)
{
        pid_t pid;
        int status;

        check(unshare(CLONE_NEWPID) >= 0, "unshare");
        pid = fork();
        check(pid >= 0, "fork");
        if (pid == 0)
                return;
        check(close_range(0, ~0u, 0) >= 0, "close_range");
        while (waitpid(pid, &status, 0) < 0)
                check(errno == EINTR, "waitpid");
        if (WIFSIGNALED(status))
                (void) kill(getpid(), WTERMSIG(status));
        _exit(WEXITSTATUS(status));
}

static void become_unit(const Options *o)
{
        sigset_t usr1;
        bool root = getuid() == 0;

        own_namespaces(o->privileged);
        if (o->pids)
                own_pids();
        loopback_up();
        if (o->root)
                check(chroot(o->root) >= 0 && chdir("/") >= 0, "chroot");
        if (o->privileged)
                make_read_only();
        else
                drop_privileges(o, root);
        check(setsid() >= 0, "setsid");
        umask(0077);
        signal(SIGPIPE, SIG_IGN);
        sigemptyset(&usr1);
        sigaddset(&usr1, SIGUSR1);
        sigprocmask(SIG_BLOCK, &usr1, NULL);
        if (o->lethal)
                load_lethal_filter();
}

static void child(const Harness *h, const Options *o, int channel)
{
        char *const argv[] = { (char *) "agentbox-exec", h->directory, (char *) o->abstract_name, NULL };
        char *const empty[] = { NULL };
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        check(null >= 0, "/dev/null");
        become_unit(o);
        check(close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) >= 0, "close_range");
        check(dup2(channel, 0) >= 0 && dup2(null, 1) >= 0 && dup2(null, 2) >= 0, "dup2");
        if (o->leak)
                check(dup2(null, 40) >= 0, "dup2");
        syscall(SYS_execveat, h->shim, "", argv, o->env ?: empty, AT_EMPTY_PATH);
        _exit(98);
}

static bool namespaces_possible(void)
{
        pid_t pid = fork();
        int status;

        if (pid == 0) {
                own_namespaces(false);
                _exit(0);
        }
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return status == 0;
}

/* ---- the parent: what the broker will do ---- */

static void copy_program(const char *from, const char *to)
{
        char *data;
        size_t size;

        assert_int_equal(read_file(from, 64u << 20, &data, &size), 0);
        assert_int_equal(write_new_file_at(AT_FDCWD, to, data, size, 0755), 0);
        free(data);
}

int harness_init(Harness *h, int argc, char *argv[])
{
        *h = (Harness){};
        if (argc != 3)
                return HARNESS_USAGE;
        if (!namespaces_possible()) {
                puts("1..0 # SKIP no namespaces for an ordinary user here");
                return HARNESS_SKIP;
        }
        h->shim = open(argv[1], O_PATH | O_CLOEXEC);
        assert_true(h->shim >= 0);
        h->directory = strdup("/tmp/agentbox-test-exec-XXXXXX");
        assert_non_null(mkdtemp(h->directory));
        assert_int_equal(chmod(h->directory, 0755), 0);
        assert_true(asprintf(&h->report, "%s/report", h->directory) > 0);
        copy_program(argv[2], h->report);
        if (getuid() == 0)
                assert_int_equal(chown(h->directory, NOBODY, NOBODY), 0);
        return 0;
}

void harness_done(Harness *h)
{
        unlink(h->report);
        assert_int_equal(rmdir(h->directory), 0); /* nothing may be left in it */
        close(h->shim);
        free(h->directory);
        free(h->report);
}

Shim harness_start(const Harness *h, const Options *o)
{
        Shim s = { .out = -1, .err = -1, .executed = -1, .copy_in = -1 };
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        s.pid = fork();
        if (s.pid == 0)
                child(h, o ?: &(Options){}, pair[1]);
        assert_true(s.pid > 0);
        close(pair[1]);
        s.channel = pair[0];
        return s;
}

static ssize_t receive(int channel, void *p, size_t n)
{
        struct pollfd poller = { .fd = channel, .events = POLLIN };

        assert_int_equal(poll(&poller, 1, PATIENCE_MSEC), 1);
        return recv(channel, p, n, MSG_TRUNC);
}

void harness_attested(const Shim *s, Attest *ret)
{
        char *p = malloc(ATTEST_SIZE_MAX);
        ssize_t n = receive(s->channel, p, ATTEST_SIZE_MAX);

        assert_in_range(n, 1, ATTEST_SIZE_MAX);
        assert_int_equal(attest_decode(p, (size_t) n, ret), 0);
        free(p);
}

RunSpec harness_spec(const Harness *h, const Attest *a, char *const *argv, char *const *env)
{
        static const struct sock_filter allow =
                        BPF_STMT(BPF_RET | BPF_K, 0x7fff0000 /* SECCOMP_RET_ALLOW */);
        RunSpec spec = { .n_filter = 1,
                .landlock_abi = a->landlock_abi > 0 ? (uint32_t) a->landlock_abi : 0 };

        assert_int_equal(strv_copy(argv, &spec.argv), 0);
        assert_int_equal(strv_copy(env, &spec.env), 0);
        spec.cwd = strdup(h->directory);
        spec.filter = malloc(sizeof(allow));
        *spec.filter = allow;
        return spec;
}

void harness_send_message(const Shim *s, const char *payload, const int *fds, size_t n_fds)
{
        union {
                char space[CMSG_SPACE(16 * sizeof(int))];
                struct cmsghdr align;
        } control = {};
        struct iovec v = { .iov_base = (char *) payload, .iov_len = strlen(payload) };
        struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

        if (n_fds > 0) {
                m.msg_control = &control;
                m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
                control.align = (struct cmsghdr){
                        .cmsg_level = SOL_SOCKET,
                        .cmsg_type = SCM_RIGHTS,
                        .cmsg_len = CMSG_LEN(n_fds * sizeof(int)),
                };
                memcpy(CMSG_DATA(&control.align), fds, n_fds * sizeof(int));
        }
        assert_int_equal(sendmsg(s->channel, &m, MSG_NOSIGNAL), strlen(payload));
}

void harness_send(Shim *s, const RunSpec *spec)
{
        Buf b = {};
        int out[2], err[2], executed[2], fds[RUNSPEC_FDS_MAX];
        size_t n = spec->copy_in ? RUNSPEC_FDS_MAX : RUNSPEC_FDS;

        assert_int_equal(runspec_encode(spec, &b), 0);
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        assert_int_equal(pipe2(err, O_CLOEXEC), 0);
        assert_int_equal(pipe2(executed, O_CLOEXEC), 0);
        fds[0] = memfd_sealed("runspec", b.data, b.size);
        fds[1] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        fds[2] = out[1];
        fds[3] = err[1];
        fds[4] = executed[1];
        fds[5] = s->copy_in;
        assert_int_equal(fd_set_nonblock(out[1], true), 0); /* the shim must undo it */
        harness_send_message(s, RUNSPEC_MESSAGE, fds, n);
        for (size_t i = 0; i < n; i++)
                close(fds[i]);
        s->out = out[0];
        s->err = err[0];
        s->executed = executed[0];
        buf_done(&b);
}

static void drain(int *fd, Buf *b)
{
        char p[65536];
        ssize_t n = read(*fd, p, sizeof(p));

        assert_true(n >= 0);
        if (n > 0) {
                assert_int_equal(buf_append(b, p, (size_t) n), 0);
                return;
        }
        close(*fd);
        *fd = -1;
}

/* End of file comes with the execve or the end of the shim, not before and not only when the workload has
 * ended: nothing of its output has been read yet. */
static void await_executed(Shim *s)
{
        struct pollfd poller = { .fd = s->executed, .events = POLLIN };
        char c;

        if (s->executed < 0)
                return;
        assert_int_equal(poll(&poller, 1, PATIENCE_MSEC), 1);
        assert_int_equal(read(s->executed, &c, 1), 0);
        close(s->executed);
        s->executed = -1;
}

void harness_finish(Shim *s, Outcome *ret)
{
        Buf out = {}, err = {};
        char p[256];
        ssize_t n;

        *ret = (Outcome){};
        await_executed(s);
        while (s->out >= 0 || s->err >= 0) {
                struct pollfd both[] = { { .fd = s->out, .events = POLLIN },
                        { .fd = s->err, .events = POLLIN } };

                assert_true(poll(both, 2, PATIENCE_MSEC) > 0);
                if (both[0].revents)
                        drain(&s->out, &out);
                if (both[1].revents)
                        drain(&s->err, &err);
        }
        n = receive(s->channel, p, sizeof(p));
        if (n > 0 && exec_copied_decode(p, (size_t) n, &ret->copied) >= 0) {
                ret->has_copied = true;
                n = receive(s->channel, p, sizeof(p));
        }
        if (n > 0 && exec_failure_decode(p, (size_t) n, &ret->failure) >= 0) {
                ret->has_failure = true;
                n = receive(s->channel, p, sizeof(p));
        }
        if (n > 0) {
                assert_int_equal(exec_ended_decode(p, (size_t) n, &ret->ended), 0);
                ret->has_ended = true;
                n = receive(s->channel, p, sizeof(p));
        }
        assert_true(n == 0 || (n < 0 && errno == ECONNRESET));
        close(s->channel);
        assert_int_equal(waitpid(s->pid, &ret->status, 0), s->pid);
        ret->n_out = out.size;
        ret->out = buf_take_string(&out);
        ret->err = buf_take_string(&err);
}

void outcome_done(Outcome *o)
{
        free(o->out);
        free(o->err);
        *o = (Outcome){};
}

static void run(const Harness *h, char *const *argv, char *const *env, void (*change)(RunSpec *, void *),
                void *userdata, Outcome *ret)
{
        Shim s = harness_start(h, NULL);
        Attest a;
        RunSpec spec;

        harness_attested(&s, &a);
        spec = harness_spec(h, &a, argv, env);
        if (change)
                change(&spec, userdata);
        harness_send(&s, &spec);
        harness_finish(&s, ret);
        runspec_done(&spec);
        attest_done(&a);
}

void harness_run(const Harness *h, char *const *argv, char *const *env, Outcome *ret)
{
        run(h, argv, env, NULL, NULL, ret);
}

void harness_run_spec(const Harness *h, void (*change)(RunSpec *, void *), void *userdata, char *const *argv,
                Outcome *ret)
{
        run(h, argv, NULL, change, userdata, ret);
}

/* ---- asserting ---- */

void assert_exit(const Outcome *o, int status)
{
        assert_true(WIFEXITED(o->status));
        assert_int_equal(WEXITSTATUS(o->status), status);
}

void assert_failure(const Outcome *o, ExecStage stage, int error, int status)
{
        assert_exit(o, status);
        assert_true(o->has_failure);
        assert_string_equal(exec_stage_to_string(o->failure.stage), exec_stage_to_string(stage));
        assert_int_equal(o->failure.error, error);
        assert_string_equal(o->out ?: "", "");
}

void assert_line(const Outcome *o, const char *line)
{
        const char *at = o->out;

        while (at && *at) {
                size_t n = strcspn(at, "\n");

                if (n == strlen(line) && memcmp(at, line, n) == 0)
                        return;
                at += n + (at[n] == '\n');
        }
        fail_msg("no line \"%s\" in:\n%s", line, o->out);
}
