/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cli/doctor.h"
#include "cli/facts.h"
#include "cli/output.h"

static json_t *some_promises(void)
{
        return json_pack("[{s:s,s:s,s:s,s:s},{s:s,s:s,s:s,s:s},{s:s,s:s,s:s,s:s},{s:s,s:s,s:s,s:s}]", "name", "uid", "promise",
                        "a uid of its own", "advice", "", "trial", "every", "name", "memory-limit", "promise", "memory is limited",
                        "advice", "mount it", "trial", "every", "name", "wall", "promise", "it is caught", "advice", "CONFIG_X",
                        "trial", "default", "name", "credentials", "promise", "they are there", "advice", "", "trial", "");
}

static const json_t *line_of(const json_t *lines, const char *check)
{
        for (size_t i = 0; i < json_array_size(lines); i++)
                if (streq(facts_string(json_array_get(lines, i), "check"), check))
                        return json_array_get(lines, i);
        return NULL;
}

static void assert_line(const json_t *lines, const char *check, const char *status, const char *message, const char *advice)
{
        const json_t *line = line_of(lines, check);

        assert_non_null(line);
        assert_string_equal(facts_string(line, "status"), status);
        assert_string_equal(facts_string(line, "message"), message);
        assert_string_equal(facts_string(line, "advice"), advice);
}

/* One run showed that it is not kept: that another kept it changes nothing. What no run is for has no line. */
static void test_promises(void **state)
{
        static char *verified[] = { (char *) "uid", (char *) "memory-limit", (char *) "of-another-version", NULL };
        static char *broken[] = { (char *) "memory-limit: it is max; the policy asks 256M: wall: x", (char *) "unknown: y",
                (char *) "no colon", NULL };
        _cleanup_json_ json_t *promises = some_promises(), *lines = json_array();

        assert_int_equal(doctor_verified(promises, verified), 0);
        assert_int_equal(doctor_broken(promises, broken, "strict"), 0);
        assert_int_equal(doctor_broken(promises, broken, "offline"), 0); /* the first stays */
        assert_int_equal(doctor_not_tried(promises, "default"), 0);
        assert_int_equal(doctor_add_promises(lines, promises), 0);
        assert_int_equal(json_array_size(lines), 3);
        assert_line(lines, "uid", "ok", "a uid of its own", "");
        assert_line(lines, "memory-limit", "failed",
                        "not kept: memory is limited (under policy strict: it is max; the policy asks 256M: wall: x)", "mount it");
        assert_line(lines, "wall", "failed", "not kept: it is caught (no run of the kind \"default\" comes up here)", "");
        assert_int_equal(doctor_status(lines), 1);
}

static void test_status(void **state)
{
        _cleanup_json_ json_t *lines = json_array();

        doctor_add(lines, "host", "a", DOCTOR_OK, "", NULL);
        assert_int_equal(doctor_status(lines), 1); /* nothing was shown to hold */
        doctor_add(lines, "promise", "uid", DOCTOR_OK, "", NULL);
        doctor_add(lines, "host", "b", DOCTOR_WARNING, "", NULL);
        assert_int_equal(doctor_status(lines), 0);
        doctor_add(lines, "host", "c", "what a later broker says", "", NULL);
        assert_int_equal(doctor_status(lines), 1);
}

static void test_print(void **state)
{
        static const char expected[] =
                        "This host\n"
                        "ok       kernel             Linux 6.1\n"
                        "failed   bpf                programs of cgroups cannot be\n"
                        "                            queried: \\x1b[2J\n"
                        "                            -> let bpf() through, or boot\n"
                        "                               another\n"
                        "\nPromises, as the trial runs showed them\n"
                        "ok       uid                a uid of its own\n"
                        "\n1 promise holds; not here: bpf\n";
        _cleanup_json_ json_t *lines = json_array();
        _cleanup_buf_ Buf out = {};

        doctor_add(lines, "host", "kernel", DOCTOR_OK, "Linux 6.1", "");
        doctor_add(lines, "host", "bpf", DOCTOR_FAILED, "programs of cgroups cannot be queried: \x1b[2J",
                        "let bpf() through, or boot another");
        doctor_add(lines, "promise", "uid", DOCTOR_OK, "a uid of its own", "");
        assert_int_equal(doctor_print(lines, 62, &out), 0);
        assert_string_equal(out.data, expected);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_promises),
                cmocka_unit_test(test_status),
                cmocka_unit_test(test_print),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
