/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "base/io.h"
#include "test-exec-harness.h"

#define LANDLOCK_ALL 0xffffu

static Harness harness;

#define STRV(...) ((char *[]){ __VA_ARGS__, NULL })
#define S(s) ((char *) (s))

static void assert_exit(const Outcome *o, int status)
{
        assert_true(WIFEXITED(o->status));
        assert_int_equal(WEXITSTATUS(o->status), status);
}

static void assert_failure(const Outcome *o, ExecStage stage, int error, int status)
{
        assert_exit(o, status);
        assert_true(o->has_failure);
        assert_string_equal(exec_stage_to_string(o->failure.stage), exec_stage_to_string(stage));
        assert_int_equal(o->failure.error, error);
        assert_string_equal(o->out ?: "", "");
}

static void assert_line(const Outcome *o, const char *line)
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

/* ---- the attestation ---- */

static void test_attestation(void **state)
{
        Shim s = harness_start(&harness, &(Options){ .leak = true, .env = STRV(S("A=1"), S("B=\xff")) });
        Attest a;
        Outcome o;

        harness_attested(&s, &a);
        assert_int_equal(a.pid, s.pid);
        for (size_t i = 0; i < 4; i++)
                assert_int_equal(a.uid[i], getuid() == 0 ? 65534 : getuid());
        assert_true(a.no_new_privs);
        assert_int_equal(a.cap_bounding, 0);
        assert_int_equal(a.cap_permitted | a.cap_effective | a.cap_inheritable | a.cap_ambient, 0);
        assert_int_equal(a.dumpable, 0);
        assert_non_null(strstr(a.mountinfo, " /proc "));
        assert_non_null(strstr(a.netdev, "lo:"));
        assert_non_null(strchr(a.cgroup, ':'));
        assert_int_equal(a.n_fds, 4);
        for (size_t i = 0; i < 4; i++)
                assert_int_equal(a.fds[i].fd, ((int[]){ 0, 1, 2, 40 })[i]);
        assert_memory_equal(a.fds[0].target, "socket:[", 8);
        assert_string_equal(a.fds[3].target, "/dev/null");
        assert_int_equal(strv_length(a.environ_), 2);
        assert_string_equal(a.environ_[1], "B=\xff");
        assert_int_equal(a.n_limits, 16);
        assert_int_equal(a.fs[ATTEST_FS_PROC].type, 0x9fa0);
        assert_int_equal(a.fs[ATTEST_FS_WORKSPACE].error, 0);
        for (size_t i = 0; i < _ATTEST_NS_MAX; i++) {
                char path[64];
                struct stat st;

                snprintf(path, sizeof(path), "/proc/self/ns/%s", attest_ns_names[i]);
                assert_int_equal(stat(path, &st), 0);
                if (i == ATTEST_NS_NET)
                        assert_int_not_equal(a.ns[i], st.st_ino);
                else if (i != ATTEST_NS_USER)
                        assert_int_equal(a.ns[i], st.st_ino);
        }
        attest_done(&a);
        shutdown(s.channel, SHUT_WR);
        harness_finish(&s, &o);
        assert_exit(&o, EXEC_EXIT_ABANDONED);
        assert_false(o.has_failure);
        outcome_done(&o);
}

static void test_probes(void **state)
{
        static const struct {
                AttestProbe probe;
                int result;
        } expected[] = {
                { PROBE_METADATA_CONNECT, ENETUNREACH }, { PROBE_ELSEWHERE_CONNECT, ENETUNREACH },
                { PROBE_LOOPBACK_BIND, 0 },              { PROBE_WRITE_ROOT, EACCES },
                { PROBE_WRITE_USR, EACCES },             { PROBE_WRITE_ETC, EACCES },
                { PROBE_WRITE_WORKSPACE, 0 },            { PROBE_WRITE_TMP, 0 },
                { PROBE_ABSTRACT_UNIX, ECONNREFUSED },   { PROBE_MPROTECT_EXEC, 0 },
                { PROBE_MOUNT, EPERM },                  { PROBE_SETUID_0, EPERM },
                { PROBE_OPEN_PROC_1, EACCES },
        };
        struct timespec before, after;
        Attest a;
        Outcome o;
        Shim s;

        clock_gettime(CLOCK_MONOTONIC, &before);
        s = harness_start(&harness, &(Options){ .abstract_name = "agentbox-test-exec-nobody-listens" });
        harness_attested(&s, &a);
        clock_gettime(CLOCK_MONOTONIC, &after);
        print_message("# from fork to attestation: %ld us\n",
                        (after.tv_sec - before.tv_sec) * 1000000 + (after.tv_nsec - before.tv_nsec) / 1000);
        for (size_t i = 0; i < ELEMENTSOF(expected); i++) {
                /* Without root, the uid of the namespace is not mapped to 0: the same call fails otherwise. */
                bool odd = getuid() != 0 && expected[i].probe == PROBE_SETUID_0;

                if (a.probes[expected[i].probe] != (odd ? EINVAL : expected[i].result))
                        fail_msg("%s: %d", attest_probe_names[expected[i].probe], a.probes[expected[i].probe]);
        }
        for (size_t i = 0; i < _PROBE_MAX; i++)
                assert_int_not_equal(a.probes[i], -1);
        attest_done(&a);
        close(s.channel);
        s.channel = -1;
        assert_int_equal(waitpid(s.pid, &o.status, 0), s.pid);
        assert_exit(&o, EXEC_EXIT_ABANDONED);
}

/* A broker that goes away without even reading. */
static void test_abandoned_unread(void **state)
{
        Shim s = harness_start(&harness, NULL);
        int status;

        usleep(100000);
        close(s.channel);
        assert_int_equal(waitpid(s.pid, &status, 0), s.pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), EXEC_EXIT_ABANDONED);
}

/* ---- what the workload gets ---- */

static void test_arguments(void **state)
{
        char *argv[] = { harness.report, S("args"), S(""), S("a b\n\t\"'\\"), S("\x01\x7f\x80\xff\xc3\x28"), S("$HOME %n"), NULL };
        Buf expected = {};
        Outcome o;

        for (size_t i = 0; argv[i]; i++)
                buf_append(&expected, argv[i], strlen(argv[i]) + 1);
        harness_run(&harness, argv, NULL, &o);
        assert_exit(&o, 0);
        assert_false(o.has_failure);
        assert_int_equal(o.n_out, expected.size);
        assert_memory_equal(o.out, expected.data, expected.size);
        assert_string_equal(o.err ?: "", "");
        outcome_done(&o);
        buf_done(&expected);
}

static void test_many_arguments(void **state)
{
        size_t n = 10002;
        char **argv = calloc(n + 1, sizeof(char *));
        Buf expected = {};
        Outcome o;

        for (size_t i = 0; i < n; i++) {
                if (i < 2)
                        argv[i] = strdup(i == 0 ? harness.report : "args");
                else
                        assert_true(asprintf(&argv[i], "argument %zu", i) > 0);
                buf_append(&expected, argv[i], strlen(argv[i]) + 1);
        }
        harness_run(&harness, argv, NULL, &o);
        assert_exit(&o, 0);
        assert_int_equal(o.n_out, expected.size);
        assert_memory_equal(o.out, expected.data, expected.size);
        outcome_done(&o);
        buf_done(&expected);
        strv_free(argv);
}

static void test_environment(void **state)
{
        char *const env[] = { S("A=\xff\x01\n"), S("B="), S("A=twice"), S("LD_PRELOAD=/x"), NULL };
        static const char expected[] = "A=\xff\x01\n\0B=\0A=twice\0LD_PRELOAD=/x";
        Shim s = harness_start(&harness, &(Options){ .env = STRV(S("NOTIFY_SOCKET=/x"), S("SECRET=1")) });
        RunSpec spec;
        Attest a;
        Outcome o;

        harness_attested(&s, &a);
        spec = harness_spec(&harness, &a, STRV(harness.report, S("env")), env);
        harness_send(&s, &spec);
        harness_finish(&s, &o);
        assert_exit(&o, 0);
        assert_int_equal(o.n_out, sizeof(expected));
        assert_memory_equal(o.out, expected, sizeof(expected));
        outcome_done(&o);
        runspec_done(&spec);
        attest_done(&a);
}

static void test_huge_environment(void **state)
{
        char **env = calloc(33, sizeof(char *));
        Outcome o;

        for (size_t i = 0; i < 32; i++) {
                env[i] = malloc(65537);
                memset(env[i], 'x', 65536);
                env[i][65536] = 0;
                env[i][2] = '=';
        }
        harness_run(&harness, STRV(harness.report, S("env")), env, &o);
        assert_failure(&o, EXEC_STAGE_EXECVE, E2BIG, EXEC_EXIT_NOT_RUNNABLE);
        outcome_done(&o);
        strv_free(env);
}

static void test_state(void **state)
{
        Outcome o;

        harness_run(&harness, STRV(harness.report, S("state")), NULL, &o);
        assert_exit(&o, 0);
        assert_line(&o, "fds=0,1,2,");
        assert_line(&o, "dumpable=1");
        assert_line(&o, "leader=1");
        assert_line(&o, "terminal=0");
        assert_line(&o, "nonblock=0");
        assert_line(&o, "children=0");
        assert_line(&o, "NoNewPrivs=1");
        assert_line(&o, "Seccomp=2");
        assert_line(&o, "Umask=0022");
        for (size_t i = 0; i < 5; i++) {
                char line[64];

                snprintf(line, sizeof(line), "Cap%s=0000000000000000", ((const char *[]){ "Inh", "Prm", "Eff", "Bnd", "Amb" })[i]);
                assert_line(&o, line);
        }
        assert_line(&o, "SigBlk=0000000000000000");
        assert_line(&o, "SigIgn=0000000000000000");
        assert_line(&o, "SigCgt=0000000000000000");
        outcome_done(&o);
}

static void set_tty(RunSpec *s, void *userdata)
{
        s->tty = true;
}

static void test_tty(void **state)
{
        int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave, fds[RUNSPEC_FDS];
        Shim s = harness_start(&harness, NULL);
        Buf b = {}, text = {};
        RunSpec spec;
        Attest a;
        Outcome o;

        assert_int_equal(unlockpt(master), 0);
        slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
        assert_true(slave >= 0);
        harness_attested(&s, &a);
        spec = harness_spec(&harness, &a, STRV(harness.report, S("state")), NULL);
        spec.tty = true;
        assert_int_equal(runspec_encode(&spec, &b), 0);
        fds[0] = memfd_sealed("runspec", b.data, b.size);
        fds[1] = fds[2] = fds[3] = fds[4] = slave; /* a master with no slave left reads EIO, so the last is a good "executed" here */
        harness_send_message(&s, RUNSPEC_MESSAGE, fds, RUNSPEC_FDS);
        close(fds[0]);
        close(slave);
        for (;;) {
                char p[4096];
                ssize_t n = read(master, p, sizeof(p));

                if (n <= 0)
                        break;
                buf_append(&text, p, (size_t) n);
        }
        harness_finish(&s, &o);
        assert_exit(&o, 0);
        assert_non_null(strstr((char *) text.data, "terminal=1\r\n"));
        assert_non_null(strstr((char *) text.data, "leader=1\r\n"));
        close(master);
        outcome_done(&o);
        buf_done(&b);
        buf_done(&text);
        runspec_done(&spec);
        attest_done(&a);

        harness_run_spec(&harness, set_tty, NULL, STRV(harness.report, S("state")), &o); /* a pipe is no terminal */
        assert_failure(&o, EXEC_STAGE_TTY, ENOTTY, EXEC_EXIT_FAILED);
        outcome_done(&o);
}

/* ---- commands that cannot be executed ---- */

static void test_not_executable(void **state)
{
        static const struct {
                const char *command, *env;
                int error, status;
        } cases[] = {
                { "/nowhere/agentbox-no-such", "X=", ENOENT, 127 },
                { "agentbox-no-such-command", "X=", ENOENT, 127 },
                { "agentbox-no-such-command", "PATH=", ENOENT, 127 },
                { "", "PATH=/usr/bin", ENOENT, 127 },
                { "/usr", "X=", EACCES, 126 },
                { "usr", "PATH=/:/nowhere", EACCES, 126 },
                { "/etc/passwd", "X=", EACCES, 126 },
                { "passwd", "PATH=/etc:/nowhere", EACCES, 126 },
                { "/etc/passwd/x", "X=", ENOTDIR, 126 },
                { "x", "PATH=/etc/passwd", ENOENT, 127 },
        };
        char longest[300] = "";
        Outcome o;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                harness_run(&harness, STRV(S(cases[i].command)), STRV(S(cases[i].env)), &o);
                assert_failure(&o, EXEC_STAGE_EXECVE, cases[i].error, cases[i].status);
                outcome_done(&o);
        }
        memset(longest, 'x', sizeof(longest) - 1);
        harness_run(&harness, STRV(longest), NULL, &o);
        assert_failure(&o, EXEC_STAGE_EXECVE, ENAMETOOLONG, 126);
        outcome_done(&o);
}

/* A script without "#!" is not given to a shell. */
static void test_no_shell_fallback(void **state)
{
        _cleanup_free_ char *script = NULL;
        Outcome o;

        assert_true(asprintf(&script, "%s/script", harness.directory) > 0);
        assert_int_equal(write_new_file_at(AT_FDCWD, script, "echo no\n", 8, 0755), 0);
        harness_run(&harness, STRV(script), NULL, &o);
        unlink(script);
        assert_failure(&o, EXEC_STAGE_EXECVE, ENOEXEC, 126);
        outcome_done(&o);
}

static void test_path_search(void **state)
{
        _cleanup_free_ char *path = NULL;
        const char *const paths[] = { "PATH=", "PATH=/nowhere:", "PATH=/nowhere::/usr/bin" }; /* empty: the working directory */
        Outcome o;

        assert_true(asprintf(&path, "PATH=/etc/passwd:/nowhere:%s:/usr/bin", harness.directory) > 0);
        for (size_t i = 0; i <= ELEMENTSOF(paths); i++) {
                harness_run(&harness, STRV(S("report"), S("state")), STRV(i == 0 ? path : S(paths[i - 1]), S("PATH=/nowhere")), &o);
                assert_exit(&o, 0);
                assert_line(&o, "NoNewPrivs=1");
                outcome_done(&o);
        }
}

/* ---- the working directory ---- */

static void set_cwd(RunSpec *s, void *cwd)
{
        free(s->cwd);
        s->cwd = strdup(cwd);
}

static void test_cwd(void **state)
{
        static const struct {
                const char *cwd, *line;
                int error;
        } cases[] = {
                { "/", "cwd=/", 0 },
                { "/usr/../..", "cwd=/", 0 },
                { "/../../../usr", "cwd=/usr", 0 },
                { "/proc/self/fd/3", NULL, ELOOP },
                { "/proc/self/cwd", NULL, ELOOP },
                { "/proc/self/root/usr", NULL, ELOOP },
                { "/proc/1/root", NULL, EACCES },
                { "/etc/passwd", NULL, ENOTDIR },
                { "/nowhere", NULL, ENOENT },
        };
        Outcome o;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                harness_run_spec(&harness, set_cwd, S(cases[i].cwd), STRV(harness.report, S("state")), &o);
                if (cases[i].line) {
                        assert_exit(&o, 0);
                        assert_line(&o, cases[i].line);
                } else {
                        assert_exit(&o, EXEC_EXIT_FAILED);
                        assert_true(o.has_failure);
                        assert_int_equal(o.failure.stage, EXEC_STAGE_CWD);
                        /* Magic links that may not be read say so first. */
                        assert_true(o.failure.error == cases[i].error || (cases[i].error == EACCES && o.failure.error == ELOOP));
                }
                outcome_done(&o);
        }
}

/* ---- the walls ---- */

static void test_bounding_set(void **state)
{
        Shim s = harness_start(&harness, &(Options){ .keep_bounding = true });
        RunSpec spec;
        Attest a;
        Outcome o;

        harness_attested(&s, &a);
        assert_int_not_equal(a.cap_bounding, 0);
        assert_int_equal(a.cap_effective, 0);
        spec = harness_spec(&harness, &a, STRV(harness.report, S("state")), NULL);
        harness_send(&s, &spec);
        harness_finish(&s, &o);
        assert_failure(&o, EXEC_STAGE_CAPABILITIES, EPERM, EXEC_EXIT_FAILED);
        outcome_done(&o);
        runspec_done(&spec);
        attest_done(&a);
}

static void set_filter(RunSpec *s, void *which)
{
        /* getppid → errno 77; the number is at offset 0 of struct seccomp_data */
        static const struct sock_filter refuse[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 110, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, 0x00050000 | 77),
                BPF_STMT(BPF_RET | BPF_K, 0x7fff0000),
        };
        static const struct sock_filter broken[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0) };
        bool good = which != NULL;

        s->n_filter = good ? ELEMENTSOF(refuse) : ELEMENTSOF(broken);
        free(s->filter);
        s->filter = malloc(sizeof(refuse));
        memcpy(s->filter, good ? refuse : broken, s->n_filter * sizeof(struct sock_filter));
}

static void test_filter(void **state)
{
        Outcome o;

#ifdef __x86_64__
        harness_run_spec(&harness, set_filter, harness.report, STRV(harness.report, S("try"), S("getppid:")), &o);
        assert_exit(&o, 0);
        assert_line(&o, "getppid:=77");
        outcome_done(&o);
#endif
        harness_run_spec(&harness, set_filter, NULL, STRV(harness.report, S("try"), S("getppid:")), &o);
        assert_failure(&o, EXEC_STAGE_SECCOMP, EINVAL, EXEC_EXIT_FAILED);
        outcome_done(&o);
}

typedef struct Landlock {
        uint64_t fs;
        bool scope, exec_written;
        uint32_t off; /* how far the expected version is wrong */
        const char *writable;
} Landlock;

static void set_landlock(RunSpec *s, void *userdata)
{
        const Landlock *l = userdata;

        s->landlock_fs = l->fs;
        s->landlock_scope = l->scope;
        s->landlock_exec_written = l->exec_written;
        s->landlock_abi += l->off;
        assert_int_equal(strv_extend(&s->landlock_write, l->writable), 0);
}

static int landlock_abi(void)
{
        Shim s = harness_start(&harness, NULL);
        Attest a;
        int abi;

        harness_attested(&s, &a);
        abi = a.landlock_abi;
        attest_done(&a);
        close(s.channel);
        waitpid(s.pid, NULL, 0);
        return abi;
}

static void test_landlock_files(void **state)
{
        _cleanup_free_ char *inside = NULL, *outside = NULL, *run = NULL;
        char *argv[] = { S("/bin/true"), NULL };
        Landlock l = { .fs = LANDLOCK_ALL, .exec_written = true, .writable = harness.directory };
        Outcome o;

        if (landlock_abi() < 1)
                skip();
        assert_true(asprintf(&inside, "write:%s/file", harness.directory) > 0);
        assert_true(asprintf(&outside, "write:%s-outside", harness.directory) > 0);
        assert_true(asprintf(&run, "run:%s", harness.report) > 0);
        harness_run_spec(&harness, set_landlock, &l,
                        STRV(harness.report, S("try"), inside, outside, run, S("run:/bin/true"), S("write:/dev/null")), &o);
        unlink(strchr(inside, '/'));
        unlink(strchr(outside, '/'));
        assert_exit(&o, 0);
        for (size_t i = 0; i < 5; i++) {
                _cleanup_free_ char *line = NULL;

                assert_true(asprintf(&line, "%s=%d", ((const char *[]){ inside, outside, run, "run:/bin/true", "write:/dev/null" })[i],
                                            i == 1 ? EACCES : 0) > 0);
                assert_line(&o, line);
        }
        outcome_done(&o);

        /* Nothing that was written may be executed; what lies beside may. */
        l.exec_written = false;
        harness_run_spec(&harness, set_landlock, &l, STRV(harness.report), &o);
        assert_failure(&o, EXEC_STAGE_EXECVE, EACCES, EXEC_EXIT_NOT_RUNNABLE);
        outcome_done(&o);
        harness_run_spec(&harness, set_landlock, &l, argv, &o);
        assert_exit(&o, 0);
        assert_false(o.has_failure);
        outcome_done(&o);
}

static void test_landlock_refusals(void **state)
{
        static const struct {
                const char *writable;
                uint32_t off;
                int error;
        } cases[] = {
                { "/nowhere", 0, ENOENT },
                { "/proc/self/cwd", 0, ELOOP },
                { "/", 0, EINVAL },
                { "/tmp", 1, ESTALE },
                { "/tmp", UINT32_MAX, ESTALE },
        };
        Outcome o;

        if (landlock_abi() < 1)
                skip();
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                Landlock l = { .fs = LANDLOCK_ALL, .off = cases[i].off, .writable = cases[i].writable };

                harness_run_spec(&harness, set_landlock, &l, STRV(S("/bin/true")), &o);
                assert_failure(&o, EXEC_STAGE_LANDLOCK, cases[i].error, EXEC_EXIT_FAILED);
                outcome_done(&o);
        }
}

/* An abstract socket and a process of the same uid outside: reachable without the scope, the socket not with it. The network
 * namespaces differ here, so it is signals that are tested. */
static void test_landlock_scope(void **state)
{
        Landlock l = { .scope = true, .writable = "/tmp" };
        Shim other = harness_start(&harness, NULL);
        char signal_other[64];
        Attest a;
        Outcome o;

        harness_attested(&other, &a);
        snprintf(signal_other, sizeof(signal_other), "signal:%d", (int) other.pid);
        if (a.landlock_abi >= 6) {
                char line[80];

                harness_run(&harness, STRV(harness.report, S("try"), signal_other), NULL, &o);
                /* In a user namespace of its own, the other is out of reach anyway. */
                snprintf(line, sizeof(line), "%s=0", signal_other);
                assert_line(&o, line);
                outcome_done(&o);
                harness_run_spec(&harness, set_landlock, &l, STRV(harness.report, S("try"), signal_other), &o);
                snprintf(line, sizeof(line), "%s=%d", signal_other, EPERM);
                assert_line(&o, line);
                outcome_done(&o);
        }
        attest_done(&a);
        close(other.channel);
        waitpid(other.pid, NULL, 0);
}

/* ---- messages that are wrong ---- */

static int memfd(const void *p, size_t n)
{
        int fd = memfd_sealed("runspec", p, n);

        assert_true(fd >= 0);
        return fd;
}

static void assert_message_refused(const char *payload, const int *fds, size_t n_fds, int error)
{
        Shim s = harness_start(&harness, NULL);
        Attest a;
        Outcome o;

        harness_attested(&s, &a);
        harness_send_message(&s, payload, fds, n_fds);
        harness_finish(&s, &o);
        assert_failure(&o, EXEC_STAGE_RECEIVE, error, EXEC_EXIT_FAILED);
        outcome_done(&o);
        attest_done(&a);
}

static void test_wrong_messages(void **state)
{
        RunSpec spec = harness_spec(&harness, &(Attest){ .landlock_abi = 1 }, STRV(S("/bin/true")), NULL);
        int fds[12], unsealed = memfd_create("runspec", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        Buf b = {};

        assert_int_equal(runspec_encode(&spec, &b), 0);
        assert_int_equal(write_full(unsealed, b.data, b.size), 0);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                fds[i] = i == 0 ? memfd(b.data, b.size) : open("/dev/null", O_RDWR | O_CLOEXEC);
        for (size_t n = 0; n <= ELEMENTSOF(fds); n++)
                if (n != RUNSPEC_FDS)
                        assert_message_refused(RUNSPEC_MESSAGE, fds, n, EBADMSG);
        assert_message_refused("agentbox-runspec 2", fds, RUNSPEC_FDS, EBADMSG);
        assert_message_refused(RUNSPEC_MESSAGE "x", fds, RUNSPEC_FDS, EBADMSG);
        assert_message_refused("x", fds, RUNSPEC_FDS, EBADMSG);
        assert_message_refused(RUNSPEC_MESSAGE, (int[]){ unsealed, fds[1], fds[1], fds[1], fds[1] }, RUNSPEC_FDS, EPERM);
        assert_message_refused(RUNSPEC_MESSAGE, fds + 1, RUNSPEC_FDS, EINVAL); /* no memfd */
        close(fds[0]);
        for (size_t cut = 0; cut <= b.size; cut += 7) {
                Buf wrong = {};

                buf_append(&wrong, b.data, b.size - cut);
                if (cut == 0)
                        buf_u8(&wrong, 0);
                fds[0] = memfd(wrong.data, wrong.size);
                assert_message_refused(RUNSPEC_MESSAGE, fds, RUNSPEC_FDS, EBADMSG);
                close(fds[0]);
                buf_done(&wrong);
        }
        for (size_t i = 1; i < ELEMENTSOF(fds); i++)
                close(fds[i]);
        close(unsealed);
        buf_done(&b);
        runspec_done(&spec);
}

int main(int argc, char *argv[])
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_attestation),
                cmocka_unit_test(test_probes),
                cmocka_unit_test(test_abandoned_unread),
                cmocka_unit_test(test_arguments),
                cmocka_unit_test(test_many_arguments),
                cmocka_unit_test(test_environment),
                cmocka_unit_test(test_huge_environment),
                cmocka_unit_test(test_state),
                cmocka_unit_test(test_tty),
                cmocka_unit_test(test_not_executable),
                cmocka_unit_test(test_no_shell_fallback),
                cmocka_unit_test(test_path_search),
                cmocka_unit_test(test_cwd),
                cmocka_unit_test(test_bounding_set),
                cmocka_unit_test(test_filter),
                cmocka_unit_test(test_landlock_files),
                cmocka_unit_test(test_landlock_refusals),
                cmocka_unit_test(test_landlock_scope),
                cmocka_unit_test(test_wrong_messages),
        };
        int r;

        if (argc != 3)
                return 2;
        if (!harness_possible()) {
                puts("1..0 # SKIP no namespaces for an ordinary user here");
                return 0;
        }
        harness_init(&harness, argv[1], argv[2]);
        r = cmocka_run_group_tests_name("exec", tests, NULL, NULL);
        harness_done(&harness);
        return r;
}
