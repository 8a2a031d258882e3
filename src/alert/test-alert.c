/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "alert/alert-batch.h"
#include "alert/alert-command.h"
#include "alert/alert-position.h"
#include "cli/facts.h"
#include "cli/output.h"

static json_t *denied(const char *run, const char *reason, const char *address, const char *count)
{
        return json_pack("{s:s,s:s,s:s,s:s,s:s}", "AGENTBOX_EVENT", "egress-denied", "AGENTBOX_RUN_ID", run, "AGENTBOX_REASON", reason,
                        "AGENTBOX_DEST_ADDR", address, "AGENTBOX_COUNT", count);
}

static int add(AlertBatch *b, const char *run, const char *reason, const char *address, const char *count)
{
        _cleanup_json_ json_t *record = denied(run, reason, address, count);

        return alert_batch_add(b, record);
}

static void test_lanes(void **state)
{
        static const struct {
                const char *event, *reason;
                AlertLane lane;
        } rows[] = {
                { "tripwire", "decoy", ALERT_URGENT },       { "tripwire", "metadata", ALERT_URGENT },
                { "run-unverified", "", ALERT_URGENT },      { "egress-denied", "metadata", ALERT_URGENT },
                { "egress-denied", "no-rule", ALERT_DENIED }, { "egress-allowed", "metadata", ALERT_NONE },
                { "syscall-denied", "", ALERT_NONE },
        };
        _cleanup_json_ json_t *two = json_pack("{s:s,s:[s,s]}", "AGENTBOX_EVENT", "egress-denied", "AGENTBOX_REASON", "metadata", "x");

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_json_ json_t *record =
                                json_pack("{s:s,s:s}", "AGENTBOX_EVENT", rows[i].event, "AGENTBOX_REASON", rows[i].reason);

                assert_int_equal(alert_lane(record), rows[i].lane);
        }
        assert_int_equal(alert_lane(two), ALERT_DENIED);
}

static void test_equal_ones_are_one(void **state)
{
        AlertBatch b = {};
        _cleanup_free_ char *line = NULL;
        _cleanup_json_ json_t *j = NULL;

        assert_int_equal(add(&b, "aaaaaaaaaa", "no-rule", "192.0.2.1", "1"), 1);
        assert_int_equal(add(&b, "bbbbbbbbbb", "no-rule", "192.0.2.1", "1"), 1);
        assert_int_equal(add(&b, "aaaaaaaaaa", "no-rule", "192.0.2.2", "5"), 1);
        for (unsigned i = 0; i < 10000; i++)
                assert_int_equal(add(&b, "aaaaaaaaaa", "no-rule", "192.0.2.1", i % 2 ? "7" : "no number"), 1);
        assert_int_equal(b.n, 3);
        line = alert_line(b.alerts, false);
        j = json_loads(line, 0, NULL);
        assert_string_equal(facts_string(j, "AGENTBOX_ALERT_RECORDS"), "10001");
        assert_string_equal(facts_string(j, "AGENTBOX_ALERT_COUNT"), "40001");
        assert_string_equal(facts_string(j, "AGENTBOX_ALERT_OTHERS"), "no");
        assert_string_equal(facts_string(j, "AGENTBOX_COUNT"), "1");
        assert_null(strchr(line, '\n'));
        alert_batch_done(&b);
}

/* Nothing is left in it that a run could have chosen. */
static void test_shortened(void **state)
{
        _cleanup_json_ json_t *record = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s}", "AGENTBOX_EVENT", "tripwire", "AGENTBOX_RUN_ID", "aaaaaaaaaa",
                        "AGENTBOX_COMM", "chosen", "AGENTBOX_DEST_NAME", "chosen", "MESSAGE", "chosen", "AGENTBOX_SOMETHING_NEW", "chosen");
        AlertBatch b = {};
        _cleanup_free_ char *line = NULL, *whole = NULL;

        assert_int_equal(alert_batch_add(&b, record), 1);
        line = alert_line(b.alerts, true);
        whole = alert_line(b.alerts, false);
        assert_true(strstr(whole, "chosen") && !strstr(line, "chosen"));
        assert_true(strstr(line, "aaaaaaaaaa") && strstr(line, "\"AGENTBOX_ALERT_SHORTENED\":\"yes\"") && strstr(line, "ALERT_COUNT"));
        alert_batch_done(&b);
}

/* Attempts on metadata services at every address of theirs must not hide another run's. */
static void test_metadata_is_one_of_a_run(void **state)
{
        AlertBatch b = {};
        char address[32];

        for (unsigned i = 0; i < 1000; i++) {
                snprintf(address, sizeof(address), "169.254.%u.%u", i / 256, i % 256);
                assert_int_equal(add(&b, "aaaaaaaaaa", "metadata", address, "1"), 1);
        }
        assert_int_equal(add(&b, "bbbbbbbbbb", "metadata", "169.254.169.254", "1"), 1);
        assert_int_equal(b.n, 2);
        assert_int_equal(b.alerts[0].records, 1000);
        alert_batch_done(&b);
}

static void test_a_run_has_so_many(void **state)
{
        AlertBatch b = {};
        char address[32];

        for (unsigned i = 0; i < 1000; i++) {
                snprintf(address, sizeof(address), "203.0.%u.%u", i / 256, i % 256);
                assert_int_equal(add(&b, "aaaaaaaaaa", "no-rule", address, "1"), 1);
        }
        assert_int_equal(add(&b, "bbbbbbbbbb", "no-rule", "192.0.2.1", "1"), 1);
        assert_int_equal(b.n, ALERTS_OF_RUN_MAX + 2);
        assert_true(b.alerts[ALERTS_OF_RUN_MAX].others);
        assert_int_equal(b.alerts[ALERTS_OF_RUN_MAX].records, 1000 - ALERTS_OF_RUN_MAX);
        assert_false(b.alerts[ALERTS_OF_RUN_MAX + 1].others);
        /* One that is known is still told by itself. */
        assert_int_equal(add(&b, "aaaaaaaaaa", "no-rule", "203.0.0.0", "1"), 1);
        assert_int_equal(b.alerts[0].records, 2);
        alert_batch_done(&b);
}

static void test_a_batch_is_bounded(void **state)
{
        AlertBatch b = {};
        char run[16];

        for (unsigned i = 0; i < ALERTS_MAX; i++) {
                snprintf(run, sizeof(run), "run%07u", i);
                assert_int_equal(add(&b, run, "no-rule", "192.0.2.1", "1"), 1);
        }
        assert_int_equal(add(&b, "aaaaaaaaaa", "no-rule", "192.0.2.1", "1"), 0);
        assert_int_equal(add(&b, run, "no-rule", "192.0.2.1", "1"), 1);
        assert_int_equal(b.n, ALERTS_MAX);
        alert_batch_done(&b);
}

static void test_position(void **state)
{
        static const char *const broken[] = { "", "a\nb\n", "a\nb\nc\n", "a\nb\n1\n2\n", "a\nb\n-1\n" };
        char dir[] = "/tmp/test-alert-XXXXXX";
        AlertPosition p = { .from = "s=1;i=2", .to = "-", .done = 3 }, q = {};
        _cleanup_close_ int fd = -1;

        assert_non_null(mkdtemp(dir));
        fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(alert_position_read(fd, "x", &q), -ENOENT);
        assert_int_equal(alert_position_write(fd, "x", &p), 0);
        assert_int_equal(alert_position_read(fd, "x", &q), 0);
        assert_memory_equal(&p, &q, sizeof(p));
        for (size_t i = 0; i < ELEMENTSOF(broken); i++) {
                int file = openat(fd, "x", O_WRONLY | O_TRUNC | O_CLOEXEC);

                assert_int_equal(write(file, broken[i], strlen(broken[i])), strlen(broken[i]));
                close(file);
                assert_int_equal(alert_position_read(fd, "x", &q), -EBADMSG);
        }
        unlinkat(fd, "x", 0);
        rmdir(dir);
}

static void test_command(void **state)
{
        char sh[] = "/bin/sh", c[] = "-c", reads[] = "read -r x && test \"$x\" = '{\"a\":1}'", fails[] = "exit 3", ignores[] = "exit 0",
             none[] = "/nonexistent";
        char *argv[] = { sh, c, reads, NULL }, *no[] = { none, NULL };
        _cleanup_free_ char *large = calloc(1, 1 << 20);

        memset(large, 'x', (1 << 20) - 1);
        assert_int_equal(alert_command(argv, "{\"a\":1}"), 1);
        assert_int_equal(alert_command(argv, "{\"a\":2}"), 0);
        argv[2] = fails;
        assert_int_equal(alert_command(argv, "{}"), 0);
        argv[2] = ignores;
        assert_int_equal(alert_command(argv, large), 1);
        assert_int_equal(alert_command(no, "{}"), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lanes),           cmocka_unit_test(test_equal_ones_are_one), cmocka_unit_test(test_metadata_is_one_of_a_run),
                cmocka_unit_test(test_shortened),       cmocka_unit_test(test_a_run_has_so_many), cmocka_unit_test(test_a_batch_is_bounded), cmocka_unit_test(test_position),
                cmocka_unit_test(test_command),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
