/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/io.h"
#include "test-exec-harness.h"

#define LANDLOCK_ALL 0xffffu

static Harness harness;

/* Started with everything, the workload has nothing: not even by being root, which is what the securebits
 * are for. */
static void test_privileged(void **state)
{
        Shim s = harness_start(&harness, &(Options){ .privileged = true });
        RunSpec spec;
        Attest a;
        Outcome o;

        harness_attested(&s, &a);
        assert_int_equal(a.uid[1], 0);
        assert_false(a.no_new_privs);
        assert_int_not_equal(a.cap_effective, 0);
        assert_int_not_equal(a.cap_bounding, 0);
        spec = harness_spec(&harness, &a, STRV(harness.report, S("state")), NULL);
        harness_send(&s, &spec);
        harness_finish(&s, &o);
        assert_exit(&o, 0);
        for (size_t i = 0; i < 5; i++) {
                char line[64];

                snprintf(line, sizeof(line), "Cap%s=0000000000000000",
                                ((const char *[]){ "Inh", "Prm", "Eff", "Bnd", "Amb" })[i]);
                assert_line(&o, line);
        }
        assert_line(&o, "NoNewPrivs=1");
        assert_line(&o, "securebits=0xef");
        outcome_done(&o);
        runspec_done(&spec);
        attest_done(&a);
}

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
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
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

        harness_run_spec(&harness, set_filter, harness.report, STRV(harness.report, S("try"), S("getppid:")),
                        &o);
        assert_exit(&o, 0);
        assert_line(&o, "getppid:=77");
        outcome_done(&o);
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

static int attested_abi(void)
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

        if (attested_abi() < 1)
                skip();
        assert_true(asprintf(&inside, "write:%s/file", harness.directory) > 0);
        assert_true(asprintf(&outside, "write:%s-outside", harness.directory) > 0);
        assert_true(asprintf(&run, "run:%s", harness.report) > 0);
        harness_run_spec(&harness, set_landlock, &l,
                        STRV(harness.report, S("try"), inside, outside, run, S("run:/bin/true"),
                                        S("write:/dev/null")),
                        &o);
        unlink(strchr(inside, '/'));
        unlink(strchr(outside, '/'));
        assert_exit(&o, 0);
        for (size_t i = 0; i < 5; i++) {
                _cleanup_free_ char *line = NULL;

                assert_true(asprintf(&line, "%s=%d",
                                            ((const char *[]){ inside, outside, run, "run:/bin/true",
                                                            "write:/dev/null" })[i],
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

        if (attested_abi() < 1)
                skip();
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                Landlock l = { .fs = LANDLOCK_ALL, .off = cases[i].off, .writable = cases[i].writable };

                harness_run_spec(&harness, set_landlock, &l, STRV(S("/bin/true")), &o);
                assert_failure(&o, EXEC_STAGE_LANDLOCK, cases[i].error, EXEC_EXIT_FAILED);
                outcome_done(&o);
        }
}

/* An abstract socket and a process of the same uid outside: reachable without the scope, the socket not with
 * it. The network namespaces differ here, so it is signals that are tested. */
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
                harness_run_spec(&harness, set_landlock, &l, STRV(harness.report, S("try"), signal_other),
                                &o);
                snprintf(line, sizeof(line), "%s=%d", signal_other, EPERM);
                assert_line(&o, line);
                outcome_done(&o);
        }
        attest_done(&a);
        close(other.channel);
        waitpid(other.pid, NULL, 0);
}

int main(int argc, char *argv[])
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_privileged),
                cmocka_unit_test(test_bounding_set),
                cmocka_unit_test(test_filter),
                cmocka_unit_test(test_landlock_files),
                cmocka_unit_test(test_landlock_refusals),
                cmocka_unit_test(test_landlock_scope),
        };
        int r = harness_init(&harness, argc, argv);

        if (r != 0)
                return r == HARNESS_SKIP ? 0 : 2;
        r = cmocka_run_group_tests_name("exec-walls", tests, NULL, NULL);
        harness_done(&harness);
        return r;
}
