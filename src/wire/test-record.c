/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/record.h"

static const RecordField *field(const char *name)
{
        for (size_t i = 0; i < n_run_result_fields; i++)
                if (streq(run_result_fields[i].name, name))
                        return &run_result_fields[i];
        return NULL;
}

/* The names of the contract, and "message". */
static void test_fields(void **state)
{
        static const char *const names[] = { "run", "policy", "reason", "exit_code", "signal", "wall_usec",
                "cpu_usec", "memory_peak", "tasks_peak", "egress_bytes", "ingress_bytes", "egress_allowed",
                "egress_denied", "egress_denied_to", "syscalls_denied", "tripwires", "started", "ended", "verified", "message" };

        assert_int_equal(n_run_result_fields, ELEMENTSOF(names));
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                assert_non_null(field(names[i]));
        assert_int_equal(field("tasks_peak")->offset, offsetof(RunResult, tasks_peak));
        assert_int_equal(field("tasks_peak")->type, RECORD_U64);
        assert_int_equal(field("verified")->type, RECORD_LIST);
        assert_int_equal(field("reason")->type, RECORD_REASON);
}

static void test_init_and_done(void **state)
{
        RunResult r;

        run_result_init(&r);
        assert_int_equal(r.reason, REASON_LOST);
        assert_int_equal(r.exit_code, UINT64_MAX);
        assert_int_equal(r.ended, UINT64_MAX);
        assert_int_equal(r.syscalls_denied, UINT64_MAX);
        assert_null(r.run);
        assert_null(r.verified);
        r.run = strdup("x");
        r.message = strdup("y");
        r.cpu_usec = 1;
        assert_int_equal(strv_extend(&r.verified, "uid"), 0);
        run_result_done(&r);
        assert_null(r.run);
        assert_null(r.verified);
        assert_int_equal(r.cpu_usec, UINT64_MAX);
}

static void test_reasons(void **state)
{
        for (int i = 0; i < _REASON_MAX; i++)
                assert_int_equal(run_reason_from_string(run_reason_names[i]), i);
        assert_int_equal(run_reason_from_string(""), -EINVAL);
        assert_int_equal(run_reason_from_string("exit"), -EINVAL);
        assert_int_equal(run_reason_from_string("Exited"), -EINVAL);
}

static void test_exit_status(void **state)
{
        static const struct {
                RunReason reason;
                uint64_t exit_code, signal;
                int status;
        } cases[] = {
                { REASON_EXITED, 0, UINT64_MAX, 0 },
                { REASON_EXITED, 125, UINT64_MAX, 125 },
                { REASON_EXITED, 255, UINT64_MAX, 255 },
                { REASON_EXITED, 256, UINT64_MAX, 125 },
                { REASON_EXITED, UINT64_MAX, UINT64_MAX, 125 },
                { REASON_SIGNAL, UINT64_MAX, 15, 143 },
                { REASON_SIGNAL, UINT64_MAX, 64, 192 },
                { REASON_SIGNAL, UINT64_MAX, UINT64_MAX, 125 },
                { REASON_SIGNAL, UINT64_MAX, 0, 125 },
                { REASON_KILLED, UINT64_MAX, 2, 130 },
                { REASON_KILLED, UINT64_MAX, UINT64_MAX, 137 },
                { REASON_TIMEOUT, 0, 15, 124 },
                { REASON_OOM, UINT64_MAX, 15, 137 },
                { REASON_OUTPUT_LIMIT, UINT64_MAX, 15, 137 },
                { REASON_REFUSED, 0, UINT64_MAX, 125 },
                { REASON_LOST, 0, UINT64_MAX, 125 },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                RunResult r = {
                        .reason = cases[i].reason, .exit_code = cases[i].exit_code, .signal = cases[i].signal
                };

                assert_int_equal(run_result_exit_status(&r), cases[i].status);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_fields),
                cmocka_unit_test(test_init_and_done),
                cmocka_unit_test(test_reasons),
                cmocka_unit_test(test_exit_status),
        };

        return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
