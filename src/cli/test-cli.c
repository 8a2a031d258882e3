/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/io.h"
#include "cli/audit.h"
#include "cli/ending.h"
#include "cli/facts.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/result-file.h"
#include "cli/run-output.h"
#include "cli/run-request.h"
#include "cli/since.h"

/* Parses a command line (getopt reorders and keeps the pointers, so they must be writable). */
static int parse(RunRequest *q, Error **reterr, int n, const char *const *words)
{
        static char *argv[32];

        for (int i = 0; i < n; i++)
                argv[i] = (char *) words[i];
        argv[n] = NULL;
        return run_request_parse(n, argv, q, reterr);
}

#define PARSE(q, e, ...)                                             \
        ({                                                           \
                const char *const _words[] = { "run", __VA_ARGS__ }; \
                parse((q), (e), (int) ELEMENTSOF(_words), _words);   \
        })

static void test_run_options(void **state)
{
        RunRequest q = {};
        Error *e = NULL;

        assert_int_equal(PARSE(&q, &e, "-p", "build", "--set", "Limits.Memory=1G", "-eA=b c", "--timeout",
                                         "5s", "-C", "sub", "--name=n", "--result", "r", "--unit", "scope",
                                         "make", "-j2", "--", "-p", "x"),
                        0);
        assert_string_equal(q.policy, "build");
        assert_int_equal(strv_length(q.tightenings), 2);
        assert_string_equal(q.tightenings[0], "Limits.Memory=1G");
        assert_string_equal(q.tightenings[1], "Limits.Runtime=5s");
        assert_string_equal(q.env[0], "A=b c");
        assert_string_equal(q.cwd, "sub");
        assert_string_equal(q.name, "n");
        assert_string_equal(q.unit, "scope");
        assert_string_equal(q.result_file, "r");
        assert_int_equal(strv_length(q.argv), 5);
        assert_string_equal(q.argv[1], "-j2");
        assert_string_equal(q.argv[2], "--");
        run_request_done(&q);

        assert_int_equal(PARSE(&q, &e, "--", "-x"), 0);
        assert_string_equal(q.policy, "default");
        assert_string_equal(q.argv[0], "-x");
        run_request_done(&q);
}

static void test_run_refusals(void **state)
{
        static const char *const rows[][4] = {
                { "--detach", "--out=x", "true", "--out" },
                { "--force", "--", "true", "--force" },
                { "--out-summary", "--", "true", "--out-summary" },
                { "--unit", "slice", "true", "--unit" },
                { "--name", "", "true", "--name" },
                { "-p", "", "true", "-p" },
                { "--frobnicate", "x", "true", "--frobnicate" },
                { "-e", "=x", "true", "-e" },
                { "-e", "SURELY_NOT_SET_ANYWHERE", "true", "SURELY_NOT_SET_ANYWHERE" },
                { "--detach", "-t", "true", "-t" },
                { "--set", "x", "--set", "--set" },
                { "-x", "x", "true", "-x" },
                { "--", NULL, NULL, "COMMAND" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                const char *words[4] = { "run", rows[i][0], rows[i][1], rows[i][2] };
                RunRequest q = {};
                Error *e = NULL;

                assert_int_equal(parse(&q, &e, rows[i][1] ? 4 : 2, words), -EINVAL);
                assert_non_null(e);
                if (!strstr(e->message, rows[i][3]))
                        fail_msg("\"%s\" does not name %s", e->message, rows[i][3]);
                error_free(e);
                run_request_done(&q);
        }
}

static void test_pass(void **state)
{
        static char a[] = "PASS_ME", b[] = "NOT_SET_ANYWHERE_ELSE", c[] = "GIVEN";
        char *names[] = { a, b, c, NULL };
        RunRequest q = {};

        setenv("PASS_ME", "1", 1);
        setenv("GIVEN", "caller", 1);
        assert_int_equal(PARSE(&q, NULL, "-e", "GIVEN=option", "true"), 0);
        assert_return_code(run_request_pass(&q, names), 0);
        assert_int_equal(strv_length(q.env), 2);
        assert_string_equal(q.env[0], "GIVEN=option");
        assert_string_equal(q.env[1], "PASS_ME=1");
        run_request_done(&q);
}

static void test_since(void **state)
{
        const uint64_t s = 1000000, now = 1735732800 * s; /* 2025-01-01 12:00:00 UTC */
        static const struct {
                const char *text;
                int64_t back; /* seconds before now */
        } rows[] = {
                { "90s", 90 },
                { "-1h", 3600 },
                { "1h 30min ago", 5400 },
                { "now", 0 },
                { "@1735732000", 800 },
                { "today", 43200 },
                { "yesterday", 129600 },
                { "11:30", 1800 },
                { "2025-01-01", 43200 },
                { "2024-12-31 12:00", 86400 },
                { "2024-12-31T12:00:30", 86370 },
        };
        static const char *const bad[] = { "", "soon", "25:00", "2025-02-31", "2025-13-01", "-", "1x", "@",
                "@-1", "12:00 " };
        uint64_t v;

        setenv("TZ", "UTC", 1);
        tzset();
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                assert_int_equal(since_parse(rows[i].text, now, &v), 0);
                assert_int_equal((int64_t) (now - v), rows[i].back * (int64_t) s);
        }
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                assert_int_equal(since_parse(bad[i], now, &v), -EINVAL);
}

static void test_ending(void **state)
{
        static const struct {
                RunReason reason;
                const char *text, *want;
        } rows[] = {
                { REASON_EXITED, NULL, NULL },
                { REASON_EXITED, "no such command: x", "run r1: no such command: x" },
                { REASON_SIGNAL, NULL, NULL },
                { REASON_OOM, "memory limit 256M reached (peak 256M)",
                                "run r1 killed: memory limit 256M reached (peak 256M)" },
                { REASON_TIMEOUT, NULL, "run r1 killed: time limit reached" },
                { REASON_OUTPUT_LIMIT, NULL, "run r1 killed: output limit reached" },
                { REASON_KILLED, NULL, "run r1 killed: it was asked for" },
                { REASON_KILLED, "killed on request", "run r1 killed: on request" },
                { REASON_KILLED, "killedx", "run r1 killed: killedx" },
                { REASON_LOST, "x", "run r1 lost: x" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                RunResult r = {
                        .run = (char *) "r1", .reason = rows[i].reason, .message = (char *) rows[i].text
                };
                _cleanup_free_ char *line = NULL;

                assert_return_code(ending_line(&r, &line), 0);
                if (rows[i].want)
                        assert_string_equal(line, rows[i].want);
                else
                        assert_null(line);
        }
}

static void test_ending_calls(void **state)
{
        static const struct {
                uint64_t signal, denied;
                const char *line, *calls;
        } rows[] = {
                { SIGTERM, 0, NULL, NULL },
                { SIGSYS, UINT64_MAX, "run r1: ended by SIGSYS, as by a system call that is not let through; see: agentbox why r1", NULL },
                { SIGTERM, 1, NULL, "run r1: system calls denied: 1 attempt; see: agentbox why r1" },
                { UINT64_MAX, 2000, NULL, "run r1: system calls denied: 2000 attempts; see: agentbox why r1" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                RunResult r = { .run = (char *) "r1", .reason = REASON_SIGNAL, .signal = rows[i].signal, .syscalls_denied = rows[i].denied };
                _cleanup_free_ char *line = NULL, *calls = NULL;

                assert_return_code(ending_line(&r, &line), 0);
                assert_return_code(ending_calls_line(&r, &calls), 0);
                assert_string_equal(line ?: "-", rows[i].line ?: "-");
                assert_string_equal(calls ?: "-", rows[i].calls ?: "-");
        }
}

static void test_ending_egress(void **state)
{
        char long_name[254], escapes[254];
        const struct {
                uint64_t denied;
                const char *to[4];
                const char *want;
        } rows[] = {
                { UINT64_MAX, {}, NULL },
                { 0, {}, NULL },
                { 0, { "x:1" }, NULL },
                { 1, { "evil.example:443" }, "run r1: egress denied: 1 attempt (evil.example:443); see: agentbox why r1" },
                { 2, {}, "run r1: egress denied: 2 attempts; see: agentbox why r1" },
                { 12, { "evil.example:443", "169.254.169.254:80", "[2001:db8::1]:22", "x:1" },
                                "run r1: egress denied: 12 attempts (evil.example:443, 169.254.169.254:80, [2001:db8::1]:22, …); "
                                "see: agentbox why r1" },
                { 3, { "a\x1b]52;c;x\a:1", "b:2" },
                                "run r1: egress denied: 3 attempts (a\\x1b]52;c;x\\x07:1, b:2); see: agentbox why r1" },
                { 3, { "b:2", long_name }, "run r1: egress denied: 3 attempts (b:2, …); see: agentbox why r1" },
                { UINT64_MAX - 1, { long_name },
                                "run r1: egress denied: 18446744073709551614 attempts; see: agentbox why r1" },
                { 3, { escapes, "b:2" }, "run r1: egress denied: 3 attempts; see: agentbox why r1" },
        };

        memset(long_name, 'a', sizeof(long_name) - 1);
        long_name[sizeof(long_name) - 1] = 0;
        memset(escapes, 1, sizeof(escapes) - 1);
        escapes[sizeof(escapes) - 1] = 0;
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                char *to[5] = { (char *) rows[i].to[0], (char *) rows[i].to[1], (char *) rows[i].to[2],
                        (char *) rows[i].to[3], NULL };
                RunResult r = { .run = (char *) "r1", .egress_denied = rows[i].denied, .egress_denied_to = to };
                _cleanup_free_ char *line = NULL;

                assert_return_code(ending_egress_line(&r, &line), 0);
                if (!rows[i].want) {
                        assert_null(line);
                        continue;
                }
                assert_string_equal(line, rows[i].want);
                assert_true(strlen(line) <= ENDING_COLUMNS - strlen("agentbox: ") + strlen("…") - 1);
        }
}

static void test_result_json(void **state)
{
        _cleanup_json_ json_t *j = NULL;
        RunResult r, back;

        run_result_init(&r);
        run_result_init(&back);
        r.run = strdup("id");
        r.policy = strdup("bad\xff\x1b");
        r.reason = REASON_OOM;
        r.memory_peak = 268435456;
        assert_return_code(strv_extend(&r.verified, "uid"), 0);
        j = result_to_json(&r);
        assert_int_equal(json_object_size(j), n_run_result_fields);
        assert_string_equal(facts_string(j, "reason"), "oom");
        assert_string_equal(facts_string(j, "policy"), "bad\\xff\\x1b");
        assert_true(json_is_null(json_object_get(j, "exit_code")));
        assert_int_equal(facts_u64(j, "memory_peak"), 268435456);
        assert_int_equal(json_array_size(json_object_get(j, "verified")), 1);
        /* And what went out comes back. */
        assert_return_code(result_from_facts(j, &back), 0);
        assert_int_equal(back.reason, REASON_OOM);
        assert_int_equal(back.memory_peak, 268435456);
        assert_true(back.exit_code == UINT64_MAX);
        assert_true(strv_contains(back.verified, "uid"));
        json_object_set_new(j, "reason", json_string("because"));
        assert_int_equal(result_from_facts(j, &back), -EBADMSG);
        run_result_done(&r);
        run_result_done(&back);
}

static void test_result_file(void **state)
{
        char directory[] = "/tmp/test-cli-XXXXXX";
        _cleanup_free_ char *path = NULL, *text = NULL;
        RunResult r;
        size_t n;

        assert_non_null(mkdtemp(directory));
        assert_true(asprintf(&path, "%s/result", directory) > 0);
        run_result_init(&r);
        r.reason = REASON_REFUSED;
        assert_return_code(result_file_check(path, NULL), 0);
        assert_return_code(result_file_write(path, &r, NULL), 0);
        assert_return_code(result_file_write(path, &r, NULL), 0); /* replaces the old one */
        assert_return_code(read_file(path, 65536, &text, &n), 0);
        assert_true(text[n - 1] == '\n' && strstr(text, "\"reason\":\"refused\""));
        assert_return_code(unlink(path), errno);
        assert_return_code(rmdir(directory), errno); /* no temporary file is left */
        assert_int_equal(result_file_check(path, NULL), -ENOENT);
        assert_int_equal(result_file_check("/", NULL), -EISDIR);
        assert_int_equal(result_file_check("", NULL), -ENOENT);
        assert_return_code(result_file_check("/dev/null", NULL), 0);
        assert_return_code(result_file_write("/dev/null", &r, NULL), 0);
        run_result_done(&r);
}

static void test_trust(void **state)
{
        static const struct {
                const char *unit, *uid, *transport, *run, *event;
                bool trusted;
        } rows[] = {
                { "agentboxd.service", "0", "journal", "abc", "egress-denied", true },
                { "agentboxd.service", "0", "journal", NULL, "egress-denied", true },
                { "agentboxd.service", "0", "stdout", "abc", "egress-denied", false },
                { "agentboxd.service", "1000", "journal", "abc", "egress-denied", false },
                { "agentboxd.service.evil.service", "0", "journal", "abc", "egress-denied", false },
                { "user@1000.service", "1000", "journal", "abc", "egress-denied", false },
                { NULL, "0", "journal", "abc", "egress-denied", false },
                { "agentbox-warden-abc.service", "61234", "journal", "abc", "egress-denied", true },
                { "agentbox-warden-abc.service", "61234", "journal", "abd", "egress-denied", false },
                { "agentbox-warden-abc.service", "61234", "journal", "ab", "egress-denied", false },
                { "agentbox-warden-abc.service", "61234", "journal", "", "egress-denied", false },
                { "agentbox-warden-abc.service", "61234", "syslog", "abc", "egress-denied", false },
                { "agentbox-abc.service", "61234", "journal", "abc", "egress-denied", false },
                /* Of what it sees, and of nothing that the broker alone knows. */
                { "agentbox-warden-abc.service", "61234", "journal", "abc", "syscall-denied", true },
                { "agentbox-warden-abc.service", "61234", "journal", "abc", "run-ended", false },
                { "agentbox-warden-abc.service", "61234", "journal", "abc", "run-verified", false },
                { "agentbox-warden-abc.service", "61234", "journal", "abc", "tripwire", false },
                { "agentbox-warden-abc.service", "61234", "journal", "abc", NULL, false },
                { "agentboxd.service", "0", "journal", "abc", "run-ended", true },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                assert_int_equal(audit_writer_is_trusted(
                                                 rows[i].unit, rows[i].uid, rows[i].transport, rows[i].run, rows[i].event),
                                rows[i].trusted);
}

static void test_output_trust(void **state)
{
        assert_true(audit_output_is_trusted("agentbox-output@0-1-0.service", "journal"));
        assert_false(audit_output_is_trusted("agentbox-output@0-1-0.service", "stdout"));
        assert_false(audit_output_is_trusted("agentboxd.service", "journal"));
        assert_false(audit_output_is_trusted("agentbox-abc.service", "journal"));
        assert_false(audit_output_is_trusted(NULL, "journal"));
        assert_false(audit_output_is_trusted("agentbox-output@0-1-0.service", NULL));
}

/* What was printed comes out as it was, whichever of its two forms it has. */
static void test_run_output(void **state)
{
        static const char expected[] = "a\nb\n\xff\0x\n";
        _cleanup_json_ json_t *text = json_pack("{s:s,s:s}", "AGENTBOX_STREAM", "stdout", "MESSAGE", "a\nb"),
                              *bytes = json_pack("{s:s,s:s,s:[i,i,i]}", "AGENTBOX_STREAM", "stdout", "AGENTBOX_PARTIAL", "yes",
                                              "MESSAGE", 255, 0, 'x'),
                              *empty = json_pack("{s:s,s:s}", "AGENTBOX_STREAM", "stdout", "MESSAGE", ""),
                              *bad = json_pack("{s:s,s:[i]}", "AGENTBOX_STREAM", "stdout", "MESSAGE", 256);
        char got[64];
        int fds[2], saved = dup(STDOUT_FILENO);

        fflush(stdout);
        assert_int_equal(pipe(fds), 0);
        dup2(fds[1], STDOUT_FILENO);
        assert_int_equal(run_output_print(text) | run_output_print(bytes) | run_output_print(empty), 0);
        assert_int_equal(run_output_print(bad), -EBADMSG);
        dup2(saved, STDOUT_FILENO);
        assert_int_equal(read(fds[0], got, sizeof(got)), sizeof(expected) - 1);
        assert_memory_equal(got, expected, sizeof(expected) - 1);
        close(saved);
        close(fds[0]);
        close(fds[1]);
}

static void test_message_clean(void **state)
{
        static const struct {
                const char *text, *want;
        } rows[] = {
                { "plain", "plain" },
                { "a\x1b[2J", "a\\x1b[2J" },
                { "kept \\x1b", "kept \\x1b" },
                { "\xff", "\\xff" },
                { "", "" },
                { "\xc2\x9b", "\\xc2\\x9b" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_free_ char *s = message_clean(rows[i].text);

                assert_string_equal(s, rows[i].want);
        }
}

static void test_output_formats(void **state)
{
        static const struct {
                char *(*format)(uint64_t);
                uint64_t v;
                const char *want;
        } rows[] = {
                { output_size, 0, "0B" },
                { output_size, 1023, "1023B" },
                { output_size, 1536, "1.5K" },
                { output_size, 268435456, "256.0M" },
                { output_duration, 1500000, "1.500s" },
                { output_duration, 7000000, "7s" },
                { output_duration, 182000000, "3min 2s" },
                { output_duration, UINT64_C(90061000000), "1d 1h" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_free_ char *s = rows[i].format(rows[i].v);

                assert_string_equal(s, rows[i].want);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_run_options),
                cmocka_unit_test(test_run_refusals),
                cmocka_unit_test(test_pass),
                cmocka_unit_test(test_since),
                cmocka_unit_test(test_ending),
                cmocka_unit_test(test_ending_calls),
                cmocka_unit_test(test_ending_egress),
                cmocka_unit_test(test_result_json),
                cmocka_unit_test(test_result_file),
                cmocka_unit_test(test_trust),
                cmocka_unit_test(test_output_trust),
                cmocka_unit_test(test_run_output),
                cmocka_unit_test(test_message_clean),
                cmocka_unit_test(test_output_formats),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
