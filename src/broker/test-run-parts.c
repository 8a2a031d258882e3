/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/io.h"
#include "broker/broker-audit.h"
#include "broker/broker-result.h"
#include "broker/exit-status.h"
#include "broker/filter-cache.h"
#include "broker/run-env.h"
#include "broker/run-state.h"
#include "broker/run-usage.h"

static Policy *policy_of(const char *text)
{
        static const char *const no_dirs[] = { NULL };
        Policy *p = NULL;
        Error *e = NULL;

        if (policy_load_text("test.policy", text, strlen(text), no_dirs, NULL, &p, &e) < 0)
                fail_msg("%s", error_message(e, -EINVAL));
        return p;
}

/* ---- the environment */

static const char *value_of(char *const *env, const char *name)
{
        const char *found = NULL;
        size_t n = strlen(name);

        STRV_FOREACH(i, env)
                if (strncmp(*i, name, n) == 0 && (*i)[n] == '=') {
                        assert_null(found); /* each name once */
                        found = *i + n + 1;
                }
        return found;
}

static const RunHome home = { .workspace = "/work", .home = "/work", .user = "agent", .tmp = "/tmp" };

static void test_env_minimum(void **state)
{
        _cleanup_policy_ Policy *p = policy_of("");
        _cleanup_strv_ char **env = NULL;

        assert_int_equal(run_env_compose(p, &home, NULL, NULL, &env, NULL), 0);
        assert_string_equal(value_of(env, "HOME"), "/work");
        assert_string_equal(value_of(env, "USER"), "agent");
        assert_string_equal(value_of(env, "LOGNAME"), "agent");
        assert_string_equal(value_of(env, "LANG"), "C.UTF-8");
        assert_string_equal(value_of(env, "TMPDIR"), "/tmp");
        assert_string_equal(value_of(env, "SHELL"), "/bin/sh");
        assert_non_null(value_of(env, "PATH"));
        assert_null(value_of(env, "TERM"));
        assert_null(value_of(env, "CREDENTIALS_DIRECTORY"));
        assert_int_equal(strv_length(env), 7);
}

static void test_env_credentials(void **state)
{
        _cleanup_policy_ Policy *p = policy_of("");
        const char *given[] = { "CREDENTIALS_DIRECTORY=/workspace", NULL };
        _cleanup_strv_ char **env = NULL, **none = NULL;
        RunHome with = home;

        with.credentials = "/run/credentials/x.service";
        assert_int_equal(run_env_compose(p, &with, NULL, NULL, &env, NULL), 0);
        assert_string_equal(value_of(env, "CREDENTIALS_DIRECTORY"), "/run/credentials/x.service");
        assert_int_equal(run_env_compose(p, &with, (char **) given, NULL, &none, NULL), -EINVAL);
}

static void test_env_order(void **state)
{
        _cleanup_policy_ Policy *p =
                        policy_of("[Environment]\nSet=A=policy\nSet=PATH=/policy\nSet=AB=other\n");
        const char *given[] = { "A=caller", "B=1", "B=2", "EMPTY=", "EQUALS=a=b", NULL };
        _cleanup_strv_ char **env = NULL;

        assert_int_equal(run_env_compose(p, &home, (char **) given, "xterm-256color", &env, NULL), 0);
        assert_string_equal(value_of(env, "A"), "caller");
        assert_string_equal(value_of(env, "AB"), "other");
        assert_string_equal(value_of(env, "B"), "2");
        assert_string_equal(value_of(env, "PATH"), "/policy");
        assert_string_equal(value_of(env, "EMPTY"), "");
        assert_string_equal(value_of(env, "EQUALS"), "a=b");
        assert_string_equal(value_of(env, "TERM"), "xterm-256color");
}

static void test_env_refused(void **state)
{
        _cleanup_policy_ Policy *p = policy_of("[Environment]\nPass=LD_LIBRARY_PATH\n");
        const struct {
                const char *variable;
                int r;
        } rows[] = {
                { "LD_PRELOAD=/tmp/x.so", -EPERM },
                { "LD_LIBRARY_PATH=/x", 0 },
                { "NODE_OPTIONS=--require=/x", -EPERM },
                { "BASH_ENV=/x", -EPERM },
                { "PYTHONSTARTUP=x", -EPERM },
                { "no-name=1", -EINVAL },
                { "=1", -EINVAL },
                { "JUST_A_NAME", -EINVAL },
                { "1A=2", -EINVAL },
                { "GOOD_1=\xff\x1b", 0 },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                char *given[] = { (char *) rows[i].variable, NULL };
                char **env = NULL;
                Error *e = NULL;

                assert_int_equal(run_env_compose(p, &home, given, NULL, &env, &e), rows[i].r);
                assert_true((e != NULL) == (rows[i].r < 0));
                assert_true((env != NULL) == (rows[i].r == 0));
                strv_free(env);
                error_free(e);
        }
}

/* Sorting, not searching: this many would take minutes otherwise. */
static void test_env_many(void **state)
{
        _cleanup_policy_ Policy *p = policy_of("");
        _cleanup_strv_ char **env = NULL;
        char **given = calloc(50001, sizeof(char *));

        for (int i = 0; i < 50000; i++)
                assert_true(asprintf(&given[i], "N%d=%d", i % 40000, i) > 0);
        assert_int_equal(run_env_compose(p, &home, given, NULL, &env, NULL), 0);
        assert_int_equal(strv_length(env), 40000 + 7);
        strv_free(given);
}

/* ---- the result */

static void test_classify(void **state)
{
        const struct {
                RunEnding ending;
                uint64_t peak;
                RunReason reason;
                uint64_t exit_code, signal;
                int status;
                const char *message;
        } rows[] = {
                { { .exec_main_code = CLD_EXITED }, 5, REASON_EXITED, 0, UINT64_MAX, 0, NULL },
                { { .exec_main_code = CLD_EXITED, .exec_main_status = 7, .unit_result = "exit-code" }, 5,
                                REASON_EXITED, 7, UINT64_MAX, 7, NULL },
                /* systemd calls it a success. */
                { { .exec_main_code = CLD_KILLED, .exec_main_status = SIGTERM, .unit_result = "success" }, 5,
                                REASON_SIGNAL, UINT64_MAX, SIGTERM, 128 + SIGTERM, NULL },
                { { .exec_main_code = CLD_DUMPED, .exec_main_status = SIGSEGV, .unit_result = "core-dump" },
                                5, REASON_SIGNAL, UINT64_MAX, SIGSEGV, 128 + SIGSEGV, NULL },
                { { .exec_main_code = CLD_KILLED,
                                  .exec_main_status = SIGTERM,
                                  .unit_result = "timeout",
                                  .runtime_usec = 60000000 },
                                5, REASON_TIMEOUT, UINT64_MAX, SIGTERM, 124, "time limit 60s passed" },
                /* It exited politely when its time was over. */
                { { .exec_main_code = CLD_EXITED, .unit_result = "timeout", .runtime_usec = 1000000 }, 5,
                                REASON_TIMEOUT, UINT64_MAX, UINT64_MAX, 124, "time limit 1s passed" },
                { { .exec_main_code = CLD_KILLED,
                                  .exec_main_status = SIGKILL,
                                  .unit_result = "oom-kill",
                                  .memory_max = 256 << 20 },
                                UINT64_MAX, REASON_OOM, UINT64_MAX, SIGKILL, 137,
                                "memory limit 256M reached (peak 256M)" },
                /* A child died for memory, the run exited. */
                { { .exec_main_code = CLD_EXITED,
                                  .exec_main_status = 1,
                                  .oom_kills = 1,
                                  .memory_max = 1 << 20 },
                                5, REASON_OOM, UINT64_MAX, UINT64_MAX, 137,
                                "memory limit 1M reached (peak 1M)" },
                { { .exec_main_code = CLD_KILLED,
                                  .exec_main_status = SIGKILL,
                                  .kill_reason = KILL_OOM,
                                  .memory_max = 1 << 20 },
                                2 << 20, REASON_OOM, UINT64_MAX, SIGKILL, 137,
                                "memory limit 1M reached (peak 1M)" },
                /* Nobody could count, but it died at its limit; and not at its limit. */
                { { .exec_main_code = CLD_KILLED,
                                  .exec_main_status = SIGKILL,
                                  .oom_kills_unknown = true,
                                  .memory_max = 1 << 20 },
                                1 << 20, REASON_OOM, UINT64_MAX, SIGKILL, 137,
                                "memory limit 1M reached (peak 1M)" },
                { { .exec_main_code = CLD_KILLED,
                                  .exec_main_status = SIGKILL,
                                  .oom_kills_unknown = true,
                                  .memory_max = 1 << 20 },
                                5, REASON_SIGNAL, UINT64_MAX, SIGKILL, 137, NULL },
                { { .exec_main_code = CLD_KILLED, .exec_main_status = SIGKILL, .kill_reason = KILL_ASKED },
                                5, REASON_KILLED, UINT64_MAX, SIGKILL, 137, "killed on request" },
                { { .exec_main_code = CLD_KILLED,
                                  .exec_main_status = SIGTERM,
                                  .kill_reason = KILL_WARDEN,
                                  .warden_death = "it was killed by signal 9",
                                  .main_exit = 20,
                                  .warden_exit = 10 },
                                5, REASON_KILLED, UINT64_MAX, SIGTERM, 128 + SIGTERM,
                                "its network warden died (it was killed by signal 9)" },
                { { .exec_main_code = CLD_KILLED, .exec_main_status = SIGKILL, .kill_reason = KILL_WARDEN }, 5,
                                REASON_KILLED, UINT64_MAX, SIGKILL, 137,
                                "its network warden died (nobody saw how)" },
                /* PID 1 may have been faster. */
                { { .exec_main_code = CLD_KILLED, .exec_main_status = SIGTERM, .call = "unshare" }, 5, REASON_KILLED,
                                UINT64_MAX, SIGTERM, 128 + SIGTERM,
                                "system call unshare denied, and the policy has OnDenied=kill" },
                { { .exec_main_code = CLD_KILLED, .exec_main_status = SIGKILL, .kill_reason = KILL_TRIPWIRE }, 5,
                                REASON_KILLED, UINT64_MAX, SIGKILL, 137, "it touched a tripwire (OnTripwire=)" },
                /* The run had ended before, and PID 1 told of its warden first. */
                { { .exec_main_code = CLD_EXITED,
                                  .exec_main_status = 3,
                                  .kill_reason = KILL_WARDEN,
                                  .main_exit = 10,
                                  .warden_exit = 20 },
                                5, REASON_EXITED, 3, UINT64_MAX, 3, NULL },
                { { .exec_main_code = CLD_KILLED,
                                  .exec_main_status = SIGKILL,
                                  .kill_reason = KILL_ASKED,
                                  .client_gone = true },
                                5, REASON_KILLED, UINT64_MAX, SIGKILL, 137, "its client is gone" },
                { { .exec_main_code = CLD_KILLED,
                                  .exec_main_status = SIGKILL,
                                  .kill_reason = KILL_OUTPUT_LIMIT,
                                  .output_max = 64 << 20 },
                                5, REASON_OUTPUT_LIMIT, UINT64_MAX, SIGKILL, 137,
                                "output limit 64M reached" },
                { { .exec_main_code = CLD_KILLED, .exec_main_status = SIGPIPE, .kill_reason = KILL_OUTPUT_LOST }, 5,
                                REASON_KILLED, UINT64_MAX, SIGPIPE, 128 + SIGPIPE, "its output could not be kept any more" },
                { { .unit_result = "success", .unreported = true, .client_gone = true }, 5, REASON_KILLED,
                                UINT64_MAX, UINT64_MAX, 137, "its client is gone" },
                { { .unit_result = "success" }, 5, REASON_LOST, UINT64_MAX, UINT64_MAX, 125,
                                "nobody saw how it ended: the broker or its connection to PID 1 was away" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                RunEnding e = rows[i].ending;
                RunResult r;

                if (e.memory_max == 0)
                        e.memory_max = UINT64_MAX;
                run_result_init(&r);
                r.memory_peak = rows[i].peak;
                assert_int_equal(run_result_classify(&e, &r), 0);
                assert_int_equal(r.reason, rows[i].reason);
                assert_true(r.exit_code == rows[i].exit_code && r.signal == rows[i].signal);
                assert_int_equal(run_result_exit_status(&r), rows[i].status);
                if (rows[i].message)
                        assert_string_equal(r.message, rows[i].message);
                else
                        assert_null(r.message);
                run_result_done(&r);
        }
}

/* What was said before (the command that could not be executed) stays. */
static void test_classify_keeps_message(void **state)
{
        RunResult r;

        run_result_init(&r);
        r.message = strdup("cannot execute x");
        assert_int_equal(run_result_classify(&(RunEnding){ .exec_main_code = CLD_EXITED,
                                                             .exec_main_status = 127 },
                                         &r),
                        0);
        assert_string_equal(r.message, "cannot execute x");
        run_result_done(&r);
}

/* ---- how a process ended */

static void check_exit_status(int exit_code, int signal, int code, int status)
{
        int go[2], fd, got_code, got_status;
        pid_t pid;
        char c;

        assert_int_equal(pipe(go), 0);
        pid = fork();
        if (pid == 0) {
                close(go[1]);
                (void) !read(go[0], &c, 1); /* until the other end is closed */
                if (signal > 0)
                        kill(getpid(), signal);
                _exit(exit_code);
        }
        fd = (int) syscall(SYS_pidfd_open, pid, 0);
        assert_true(fd >= 0);
        assert_int_equal(exit_status_of(fd, &got_code, &got_status), -ESRCH); /* it lives */
        close(go[0]);
        close(go[1]);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        if (exit_status_of(fd, &got_code, &got_status) >= 0) { /* else the kernel does not keep it */
                assert_int_equal(got_code, code);
                assert_int_equal(got_status, status);
        }
        close(fd);
}

static void test_exit_status(void **state)
{
        check_exit_status(0, 0, CLD_EXITED, 0);
        check_exit_status(3, 0, CLD_EXITED, 3);
        check_exit_status(0, SIGTERM, CLD_KILLED, SIGTERM);
        check_exit_status(0, SIGKILL, CLD_KILLED, SIGKILL);
}

/* ---- the state */

static void state_fill(RunState *s)
{
        *s = (RunState){ .phase = STATE_RUNNING,
                .id = strdup("abc"),
                .name = strdup(""),
                .policy = strdup("default"),
                .digest = strdup("00"),
                .command = strdup("sh \\x1b"),
                .client = strdup(":1.5"),
                .bus = strdup("0123456789abcdef0123456789abcdef"),
                .invocation_id = strdup("ff"),
                .control_group = strdup("/agentbox.slice/x"),
                .caller_uid = 1000,
                .uid = 64000,
                .gid = 64001,
                .command_pid = 77,
                .copy_bytes = 9,
                .copy_files = 10,
                .on_tripwire = 2,
                .metadata_on_record = 11,
                .detached = true,
                .scope = true,
                .started = 5,
                .started_monotonic = 6,
                .memory_max = UINT64_MAX,
                .runtime_usec = 7,
                .output_max = 8,
                .unit_result = strdup("timeout"),
                .exec_main_code = 2,
                .exec_main_status = 15,
                .exec_main_exit = 11,
                .exec_main_exit_monotonic = 12,
                .kill_reason = 3,
                .client_gone = true };
        assert_int_equal(strv_extend(&s->verified, "uid"), 0);
        assert_int_equal(strv_extend(&s->verified, "mounts"), 0);
        assert_int_equal(strv_extend(&s->copy_paths, "a/b"), 0);
        assert_int_equal(strv_extend(&s->decoys, "0 1 2"), 0);
}

static void test_state(void **state)
{
        _cleanup_(run_state_done) RunState a = {}, b = {};
        char directory[] = "/tmp/agentbox-test-XXXXXX";
        _cleanup_close_ int fd = -1;

        state_fill(&a);
        assert_non_null(mkdtemp(directory));
        fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(run_state_read(fd, &b), -ENOENT);
        assert_int_equal(run_state_write(fd, &a), 0);
        a.phase = STATE_ENDING;
        assert_int_equal(run_state_write(fd, &a), 0);
        assert_int_equal(run_state_read(fd, &b), 0);
        assert_int_equal(b.phase, STATE_ENDING);
        assert_string_equal(b.id, "abc");
        assert_string_equal(b.control_group, "/agentbox.slice/x");
        assert_string_equal(b.command, "sh \\x1b");
        assert_string_equal(b.client, ":1.5");
        assert_string_equal(b.bus, "0123456789abcdef0123456789abcdef");
        assert_true(b.caller_uid == 1000 && b.uid == 64000 && b.command_pid == 77 && b.detached && b.scope);
        assert_true(b.started == 5 && b.started_monotonic == 6 && b.memory_max == UINT64_MAX && b.runtime_usec == 7 &&
                        b.output_max == 8);
        assert_int_equal(strv_length(b.verified), 2);
        assert_int_equal(strv_length(b.copy_paths), 1);
        assert_string_equal(b.copy_paths[0], "a/b");
        assert_string_equal(b.unit_result, "timeout");
        assert_true(b.exec_main_code == 2 && b.exec_main_status == 15 && b.kill_reason == 3 && b.exec_main_exit == 11 &&
                        b.exec_main_exit_monotonic == 12 && b.client_gone);
        assert_true(b.on_tripwire == 2 && b.metadata_on_record == 11 && strv_length(b.decoys) == 1);
        assert_true(b.gid == 64001 && b.copy_bytes == 9 && b.copy_files == 10);
        assert_int_equal(unlinkat(fd, "state", 0), 0);
        assert_int_equal(rmdir(directory), 0);
}

/* Cut short anywhere, longer, or with another byte in it: an error or another value, never a crash; never a
 * half-filled output. */
static void test_state_malformed(void **state)
{
        _cleanup_(run_state_done) RunState a = {};
        _cleanup_buf_ Buf b = {};

        state_fill(&a);
        assert_int_equal(run_state_encode(&a, &b), 0);
        for (size_t n = 0; n < b.size; n++) {
                RunState s = {};

                assert_int_equal(run_state_decode(b.data, n, &s), -EBADMSG);
                assert_null(s.id);
        }
        for (size_t i = 0; i < b.size; i++) {
                RunState s = {};

                b.data[i] ^= 0xff;
                if (run_state_decode(b.data, b.size, &s) < 0)
                        assert_null(s.id);
                run_state_done(&s);
                b.data[i] ^= 0xff;
        }
        assert_int_equal(buf_u8(&b, 0), 0);
        assert_int_equal(run_state_decode(b.data, b.size, &a), -EBADMSG);
}

/* ---- usage, with a made-up hierarchy */

static void put(int fd, const char *path, const char *text)
{
        _cleanup_close_ int f = openat(fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        assert_true(f >= 0 && write_full(f, text, strlen(text)) == 0);
}

static void test_usage(void **state)
{
        char root[] = "/tmp/agentbox-test-XXXXXX";
        HostFacts host = { .cgroup_root_unified = mkdtemp(root) };
        RunUsage u = RUN_USAGE_NONE;
        _cleanup_close_ int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        assert_true(fd >= 0 && mkdirat(fd, "s", 0700) == 0 && mkdirat(fd, "s/u", 0700) == 0);
        put(fd, "s/memory.current", "4096\n");
        put(fd, "s/memory.events", "low 0\nhigh 0\nmax 3\noom 2\noom_kill 1\noom_group_kill 0\n");
        put(fd, "s/cpu.stat", "usage_usec 1234\nuser_usec 1000\n");
        put(fd, "s/pids.current", "3\n");
        put(fd, "s/u/cgroup.procs", "17\n");
        run_usage_open(&u, &host, "/s/u");
        run_usage_sample(&u);
        assert_true(u.last[USAGE_MEMORY] == 4096 && u.last[USAGE_OOM_KILLS] == 1 &&
                        u.last[USAGE_CPU_USEC] == 1234);
        assert_true(u.last[USAGE_TASKS] == 3);
        /* Files that this kernel does not have. */
        assert_true(u.last[USAGE_MEMORY_PEAK] == UINT64_MAX && u.last[USAGE_TASKS_PEAK] == UINT64_MAX);
        /* A file without a number keeps the figure and says so. */
        put(fd, "s/memory.current", "");
        run_usage_sample(&u);
        assert_true(u.last[USAGE_MEMORY] == 4096 && u.failed[USAGE_MEMORY] && !u.failed[USAGE_TASKS]);
        assert_false(run_cgroup_is_empty(&host, "/s/u"));
        put(fd, "s/u/cgroup.procs", "");
        assert_true(run_cgroup_is_empty(&host, "/s/u"));
        assert_true(run_cgroup_is_empty(&host, "/gone"));
        assert_true(run_cgroup_is_empty(&host, NULL));
        run_usage_close(&u);
        for (const char *const *i = (const char *const[]){ "s/u/cgroup.procs", "s/memory.current",
                             "s/memory.events", "s/cpu.stat", "s/pids.current", NULL };
                        *i; i++)
                assert_int_equal(unlinkat(fd, *i, 0), 0);
        assert_true(unlinkat(fd, "s/u", AT_REMOVEDIR) == 0 && unlinkat(fd, "s", AT_REMOVEDIR) == 0 &&
                        rmdir(root) == 0);
}

/* ---- the command in the record */

static void test_command(void **state)
{
        const char *argv[] = { "sh", "-c", "a b", "\x1b[31m\n", "", NULL };
        const struct {
                uint64_t arguments;
                const char *text;
        } rows[] = {
                { ARGUMENTS_NONE, "" },
                { ARGUMENTS_FIRST, "sh" },
                { ARGUMENTS_ALL, "sh -c \"a b\" \"\\x1b[31m\\x0a\" \"\"" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_free_ char *text = audit_command((char **) argv, rows[i].arguments);

                assert_string_equal(text, rows[i].text);
        }
}

static void test_command_bounded(void **state)
{
        char **argv = NULL;
        _cleanup_free_ char *text = NULL;

        for (int i = 0; i < 2000; i++)
                assert_int_equal(strv_extend(&argv, "argument"), 0);
        text = audit_command(argv, ARGUMENTS_ALL);
        assert_true(strlen(text) < 8192);
        strv_free(argv);
}

/* ---- the filter cache */

static void test_filter_cache(void **state)
{
        _cleanup_policy_ Policy *p = policy_of("");
        const struct sock_filter *first, *again, *other;
        FilterCache c = {};
        size_t n, n_again, n_other;

        assert_int_equal(filter_cache_get(&c, p, "d1", true, &first, &n, NULL), 0);
        assert_int_equal(filter_cache_get(&c, p, "d1", true, &again, &n_again, NULL), 0);
        assert_ptr_equal(first, again);
        assert_int_equal(n, n_again);
        assert_int_equal(filter_cache_get(&c, p, "d1", false, &other, &n_other, NULL), 0);
        assert_ptr_not_equal(first, other);
        assert_false(n == n_other && memcmp(first, other, n * sizeof(*first)) == 0);
        filter_cache_done(&c);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_env_minimum),
                cmocka_unit_test(test_env_credentials),
                cmocka_unit_test(test_env_order),
                cmocka_unit_test(test_env_refused),
                cmocka_unit_test(test_env_many),
                cmocka_unit_test(test_classify),
                cmocka_unit_test(test_classify_keeps_message),
                cmocka_unit_test(test_exit_status),
                cmocka_unit_test(test_state),
                cmocka_unit_test(test_state_malformed),
                cmocka_unit_test(test_usage),
                cmocka_unit_test(test_command),
                cmocka_unit_test(test_command_bounded),
                cmocka_unit_test(test_filter_cache),
        };

        return cmocka_run_group_tests_name("run-parts", tests, NULL, NULL);
}
