/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "base/io.h"
#include "test-exec-harness.h"

static Harness harness;

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
                if (i == ATTEST_NS_NET || i == ATTEST_NS_MNT)
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
                { PROBE_METADATA_SEND, ENETUNREACH },
                { PROBE_ELSEWHERE_SEND, ENETUNREACH },
                { PROBE_LOOPBACK, 0 },
                { PROBE_WRITE_ROOT, EACCES },
                { PROBE_WRITE_USR, EACCES },
                { PROBE_WRITE_ETC, EACCES },
                { PROBE_WRITE_WORKSPACE, 0 },
                { PROBE_WRITE_TMP, 0 },
                { PROBE_ABSTRACT_UNIX, ECONNREFUSED },
                { PROBE_MPROTECT_EXEC, 0 },
                { PROBE_MOUNT, EPERM },
                { PROBE_SETUID_0, EPERM },
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
                /* Without root, the uid of the namespace is not mapped to 0: the same call fails otherwise.
                 */
                bool odd = getuid() != 0 && expected[i].probe == PROBE_SETUID_0;

                if (a.probes[expected[i].probe] != (odd ? EINVAL : expected[i].result))
                        fail_msg("%s: %d", attest_probe_names[expected[i].probe],
                                        a.probes[expected[i].probe]);
        }
        for (size_t i = 0; i < _PROBE_MAX; i++)
                assert_int_not_equal(a.probes[i], -1);
        attest_done(&a);
        close(s.channel);
        s.channel = -1;
        assert_int_equal(waitpid(s.pid, &o.status, 0), s.pid);
        assert_exit(&o, EXEC_EXIT_ABANDONED);
}

/* A filter that kills: the child dies of each trial, the shim goes on and says so. */
static void test_lethal_filter(void **state)
{
        Shim s = harness_start(&harness, &(Options){ .lethal = true });
        Attest a;
        Outcome o;

        harness_attested(&s, &a);
        assert_int_equal(a.probes[PROBE_MOUNT], EPERM);
        assert_int_equal(a.probes[PROBE_SETUID_0], EPERM);
        assert_int_equal(a.probes[PROBE_UNSHARE_USER], EPERM);
        assert_int_equal(a.keyring_error, EPERM);
        assert_string_equal(a.keyring, "");
        assert_int_equal(a.seccomp_mode, 2);
        assert_int_equal(a.seccomp_filters, 1);
        attest_done(&a);
        shutdown(s.channel, SHUT_WR);
        harness_finish(&s, &o);
        assert_exit(&o, EXEC_EXIT_ABANDONED);
        outcome_done(&o);
}

/* A root with nothing in it: the shim runs, being static, and says that it cannot say anything. */
static void test_empty_root(void **state)
{
        char root[] = "/tmp/agentbox-test-root-XXXXXX";
        Outcome o;
        Shim s;

        assert_non_null(mkdtemp(root));
        assert_int_equal(chmod(root, 0755), 0);
        s = harness_start(&harness, &(Options){ .root = root });
        harness_finish(&s, &o);
        assert_failure(&o, EXEC_STAGE_ATTEST, ENOENT, EXEC_EXIT_FAILED);
        outcome_done(&o);
        assert_int_equal(rmdir(root), 0);
}

/* Started by hand, or with anything but the channel as standard input. */
static void test_no_channel(void **state)
{
        int wrong[] = { open("/dev/null", O_RDWR | O_CLOEXEC),
                socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
                socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), -1 };
        char *const argv[] = { S("agentbox-exec"), S("/tmp"), NULL }, *const empty[] = { NULL };

        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                pid_t pid = fork();
                int status;

                if (pid == 0) {
                        close(0);
                        if (wrong[i] >= 0)
                                dup2(wrong[i], 0);
                        dup2(wrong[0], 2);
                        syscall(SYS_execveat, harness.shim, "", argv, empty, AT_EMPTY_PATH);
                        _exit(98);
                }
                assert_int_equal(waitpid(pid, &status, 0), pid);
                assert_true(WIFEXITED(status));
                assert_int_equal(WEXITSTATUS(status), EXEC_EXIT_FAILED);
                if (wrong[i] >= 0 && i > 0)
                        close(wrong[i]);
        }
        close(wrong[0]);
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
        char *argv[] = { harness.report, S("args"), S(""), S("a b\n\t\"'\\"), S("\x01\x7f\x80\xff\xc3\x28"),
                S("$HOME %n"), NULL };
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

static void check_sigpending(const Outcome *o)
{
        const char *at = o->out ? strstr(o->out, "SigQ=") : NULL;
        unsigned queued, limit;

        assert_non_null(at);
        assert_int_equal(sscanf(at, "SigQ=%u/%u", &queued, &limit), 2);
        assert_int_equal(limit, 256);
}

static void test_state(void **state)
{
        Shim s = harness_start(&harness, &(Options){ .leak = true });
        RunSpec spec;
        Attest a;
        Outcome o;

        harness_attested(&s, &a);
        assert_int_equal(a.umask, 0077);
        spec = harness_spec(&harness, &a, STRV(harness.report, S("state")), NULL);
        harness_send(&s, &spec);
        harness_finish(&s, &o);
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

                snprintf(line, sizeof(line), "Cap%s=0000000000000000",
                                ((const char *[]){ "Inh", "Prm", "Eff", "Bnd", "Amb" })[i]);
                assert_line(&o, line);
        }
        check_sigpending(&o);
        assert_line(&o, "SigBlk=0000000000000000");
        assert_line(&o, "SigIgn=0000000000000000");
        assert_line(&o, "SigCgt=0000000000000000");
        outcome_done(&o);
        runspec_done(&spec);
        attest_done(&a);
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
        fds[1] = fds[2] = fds[3] = fds[4] = slave; /* a master with no slave left reads EIO, so the last is a
                                                      good "executed" here */
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

        harness_run_spec(&harness, set_tty, NULL, STRV(harness.report, S("state")),
                        &o); /* a pipe is no terminal */
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
        const char *const paths[] = {
                "PATH=", "PATH=/nowhere:", "PATH=/nowhere::/usr/bin"
        }; /* empty: the working directory */
        Outcome o;

        assert_true(asprintf(&path, "PATH=/etc/passwd:/nowhere:%s:/usr/bin", harness.directory) > 0);
        for (size_t i = 0; i <= ELEMENTSOF(paths); i++) {
                harness_run(&harness, STRV(S("report"), S("state")),
                                STRV(i == 0 ? path : S(paths[i - 1]), S("PATH=/nowhere")), &o);
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
                { "/proc/self/fd/0", NULL, ENOTDIR },
                { "/proc/self/fd/400", NULL, ENOENT },
                { "/proc/self/root/usr", "cwd=/usr", 0 },
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
                        assert_true(o.failure.error == cases[i].error ||
                                        (cases[i].error == EACCES && o.failure.error == ELOOP));
                }
                outcome_done(&o);
        }
}

int main(int argc, char *argv[])
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_attestation),
                cmocka_unit_test(test_probes),
                cmocka_unit_test(test_lethal_filter),
                cmocka_unit_test(test_empty_root),
                cmocka_unit_test(test_no_channel),
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
        };
        int r = harness_init(&harness, argc, argv);

        if (r != 0)
                return r == HARNESS_SKIP ? 0 : 2;
        r = cmocka_run_group_tests_name("exec", tests, NULL, NULL);
        harness_done(&harness);
        return r;
}
