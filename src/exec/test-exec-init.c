/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "test-exec-harness.h"

/* The shim as the init of a PID namespace. */

static Harness harness;

static void run(char *const *argv, Outcome *ret)
{
        Shim s = harness_start(&harness, &(Options){ .pids = true });
        RunSpec spec;
        Attest a;

        harness_attested(&s, &a);
        spec = harness_spec(&harness, &a, argv, NULL);
        harness_send(&s, &spec);
        harness_finish(&s, ret);
        runspec_done(&spec);
        attest_done(&a);
}

static void assert_ended(const Outcome *o, int code, int status)
{
        assert_true(o->has_ended);
        assert_int_equal(o->ended.code, code);
        assert_int_equal(o->ended.status, status);
        assert_exit(o, exec_ended_exit_status(&o->ended));
}

/* What is reported is of the process that becomes the workload: the second. */
static void test_attestation(void **state)
{
        Shim s = harness_start(&harness, &(Options){ .pids = true, .leak = true });
        struct stat st;
        Attest a;
        Outcome o;

        harness_attested(&s, &a);
        assert_int_equal(a.pid, 2);
        assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
        assert_int_not_equal(a.ns[ATTEST_NS_PID], st.st_ino);
        assert_int_equal(a.dumpable, 0);
        assert_int_equal(a.n_fds, 4); /* with the one that leaked, and without what init and it have said to each other */
        assert_int_equal(a.seccomp_filters, 0);
        attest_done(&a);
        shutdown(s.channel, SHUT_WR);
        harness_finish(&s, &o);
        assert_ended(&o, CLD_EXITED, EXEC_EXIT_ABANDONED);
        assert_false(o.has_failure);
        outcome_done(&o);
}

/* An exit status is never taken for a signal, nor the other way round. */
static void test_ends(void **state)
{
        static const struct {
                const char *what, *on;
                int code, status;
        } cases[] = {
                { "exit", "0", CLD_EXITED, 0 },
                { "exit", "3", CLD_EXITED, 3 },
                { "exit", "143", CLD_EXITED, 143 },
                { "exit", "255", CLD_EXITED, 255 },
                { "die", "15", CLD_KILLED, SIGTERM },
                { "die", "9", CLD_KILLED, SIGKILL },
                { "die", "1", CLD_KILLED, SIGHUP },
                { "die", "64", CLD_KILLED, 64 },
        };
        Outcome o;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                run(STRV(harness.report, S(cases[i].what), S(cases[i].on)), &o);
                assert_false(o.has_failure);
                assert_ended(&o, cases[i].code, cases[i].status);
                outcome_done(&o);
        }
}

static void test_failure(void **state)
{
        Outcome o;

        run(STRV(S("/nowhere/agentbox-no-such")), &o);
        assert_failure(&o, EXEC_STAGE_EXECVE, ENOENT, EXEC_EXIT_NOT_FOUND);
        assert_ended(&o, CLD_EXITED, EXEC_EXIT_NOT_FOUND);
        outcome_done(&o);
}

static void test_state(void **state)
{
        Outcome o;

        run(STRV(harness.report, S("state")), &o);
        assert_ended(&o, CLD_EXITED, 0);
        assert_line(&o, "fds=0,1,2,");
        assert_line(&o, "leader=1");
        assert_line(&o, "terminal=0");
        assert_line(&o, "children=0");
        assert_line(&o, "SigBlk=0000000000000000");
        assert_line(&o, "SigIgn=0000000000000000");
        assert_line(&o, "Seccomp=2");
        outcome_done(&o);
}

/* Nobody is left to hold its output open: that ends, else harness_finish() would not. */
static void test_left_behind(void **state)
{
        Outcome o;

        run(STRV(harness.report, S("leave")), &o);
        assert_ended(&o, CLD_EXITED, 0);
        outcome_done(&o);
}

static void test_orphans(void **state)
{
        Outcome o;

        run(STRV(harness.report, S("orphans")), &o);
        assert_ended(&o, CLD_EXITED, 0);
        assert_line(&o, "orphans=0");
        outcome_done(&o);
}

/* No signal reaches it, and nobody looks into it: the workload goes on, and its end is told. */
static void test_disturbed(void **state)
{
        Outcome o;

        run(STRV(harness.report, S("init")), &o);
        assert_ended(&o, CLD_EXITED, 0);
        assert_line(&o, "parent=1");
        assert_line(&o, "pid=2");
        assert_line(&o, "unsent=0");
        assert_line(&o, "seize=1");
        assert_line(&o, "getfd=1");
        assert_line(&o, "read=1");
        assert_line(&o, "write=1");
        outcome_done(&o);
}

int main(int argc, char *argv[])
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_attestation),
                cmocka_unit_test(test_ends),
                cmocka_unit_test(test_failure),
                cmocka_unit_test(test_state),
                cmocka_unit_test(test_left_behind),
                cmocka_unit_test(test_orphans),
                cmocka_unit_test(test_disturbed),
        };
        int r = harness_init(&harness, argc, argv);

        if (r != 0)
                return r == HARNESS_SKIP ? 0 : 2;
        r = cmocka_run_group_tests_name("exec-init", tests, NULL, NULL);
        harness_done(&harness);
        return r;
}
