/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "cli/output.h"
#include "cli/timeline.h"

#define T0 UINT64_C(1735732800000000) /* 2025-01-01 12:00:00 UTC */

/* A record of T0 and some seconds, for one run; more: further fields as json_pack() takes them. */
static json_t *record(const char *event, unsigned seconds, const char *more)
{
        _cleanup_free_ char *text = NULL;
        json_t *j;

        assert_true(asprintf(&text,
                                    "{\"AGENTBOX_RUN_ID\":\"4f7k2m9qxa\",\"AGENTBOX_POLICY\":\"default\",\"AGENTBOX_EVENT\":\"%s\","
                                    "\"__REALTIME_TIMESTAMP\":\"%llu\"%s%s}",
                                    event, (unsigned long long) (T0 + seconds * UINT64_C(1000000)), *more ? "," : "", more) > 0);
        j = json_loads(text, 0, NULL);
        if (!j)
                fail_msg("not JSON: %s", text);
        return j;
}

static void take(Timeline *t, Buf *out, const char *event, unsigned seconds, const char *more)
{
        _cleanup_json_ json_t *j = record(event, seconds, more);

        assert_return_code(timeline_take(t, j, out), 0);
}

#define TO(name, proto, port, reason)                                                                         \
        "\"AGENTBOX_DEST_NAME\":\"" name "\",\"AGENTBOX_PROTO\":\"" proto "\",\"AGENTBOX_DEST_PORT\":\"" port \
        "\",\"AGENTBOX_REASON\":\"" reason "\",\"PRIORITY\":\"5\""
#define COMM(name) ",\"AGENTBOX_COMM\":\"" name "\""

static void check(Timeline *t, Buf *out, const char *want)
{
        assert_return_code(timeline_flush(t, out), 0);
        if (!streq((char *) out->data, want))
                fail_msg("wanted:\n%s\ngot:\n%s", want, out->data);
}

static void test_run(void **state)
{
        _cleanup_timeline_ Timeline t = {};
        _cleanup_buf_ Buf out = {};

        take(&t, &out, "run-requested", 0, "\"AGENTBOX_COMMAND\":\"pip\",\"AGENTBOX_CALLER_UID\":\"4294967000\"");
        take(&t, &out, "run-verified", 0, "\"AGENTBOX_VERIFIED\":\"uid network wall\"");
        take(&t, &out, "run-started", 0, "\"MESSAGE\":\"Run 4f7k2m9qxa started\"");
        take(&t, &out, "egress-denied", 1, TO("evil.example", "dns", "53", "no-rule") COMM("python3"));
        take(&t, &out, "egress-denied", 1, TO("evil.example", "dns", "53", "no-rule") COMM("python3"));
        take(&t, &out, "egress-denied", 2,
                        "\"AGENTBOX_DEST_ADDR\":\"169.254.169.254\",\"AGENTBOX_PROTO\":\"tcp\",\"AGENTBOX_DEST_PORT\":\"80\","
                        "\"AGENTBOX_REASON\":\"metadata\",\"PRIORITY\":\"4\"" COMM("curl"));
        take(&t, &out, "egress-denied", 3, TO("evil.example", "dns", "53", "no-rule") COMM("python3") ",\"AGENTBOX_COUNT\":\"998\"");
        take(&t, &out, "egress-allowed", 4,
                        "\"AGENTBOX_DEST_NAME\":\"index.example.org\",\"AGENTBOX_PROTO\":\"tls\",\"AGENTBOX_DEST_PORT\":\"443\","
                        "\"AGENTBOX_RULE\":\"tls index.example.org\"" COMM("pip"));
        take(&t, &out, "egress-denied", 4, TO("evil.example", "dns", "53", "no-rule") COMM("python3"));
        take(&t, &out, "egress-denied", 4, TO("evil.example", "dns", "53", "no-rule") COMM("sh"));
        take(&t, &out, "egress-closed", 5,
                        "\"AGENTBOX_DEST_NAME\":\"index.example.org\",\"AGENTBOX_PROTO\":\"tls\",\"AGENTBOX_DEST_PORT\":\"443\","
                        "\"AGENTBOX_REASON\":\"closed\",\"AGENTBOX_BYTES_SENT\":\"1234\",\"AGENTBOX_BYTES_RECEIVED\":\"3565158\","
                        "\"AGENTBOX_USEC\":\"1200000\"" COMM("pip"));
        take(&t, &out, "syscall-denied", 6,
                        "\"AGENTBOX_SYSCALL\":\"ptrace\",\"AGENTBOX_SYSCALL_ARGS\":\"0x0\",\"AGENTBOX_COUNT\":\"7\"" COMM("gdb"));
        take(&t, &out, "egress-denied", 7, "\"AGENTBOX_REASON\":\"warden-lost\",\"AGENTBOX_COUNT\":\"12\"");
        take(&t, &out, "run-ended", 43200,
                        "\"AGENTBOX_REASON\":\"exited\",\"AGENTBOX_EXIT_CODE\":\"1\",\"AGENTBOX_WALL_USEC\":\"7000000\","
                        "\"AGENTBOX_MEMORY_PEAK\":\"36700160\",\"AGENTBOX_EGRESS_BYTES\":\"1234\",\"AGENTBOX_EGRESS_DENIED\":\"1015\"");
        check(&t, &out,
                        "2025-01-01\n"
                        "12:00:00  run-requested   uid 42949…  pip\n"
                        "12:00:00  run-verified                3 promises hold\n"
                        "12:00:00  run-started                 policy default\n"
                        "12:00:01  egress-denied   python3     evil.example (dns)            no-rule ×1000 in 2s\n"
                        "12:00:02  egress-denied   curl        169.254.169.254:80 (tcp)      metadata\n"
                        "12:00:04  egress-allowed  pip         index.example.org:443 (tls)   allowed\n"
                        "12:00:04  egress-denied               evil.example (dns)            no-rule ×2\n"
                        "12:00:05  egress-closed   pip         index.example.org:443 (tls)   1.2K out, 3.4M in, 1.200s\n"
                        "12:00:06  syscall-denied  gdb         ptrace(0x0)                   denied ×7\n"
                        "12:00:07  egress-denied               not recorded one by one       warden-lost ×12\n"
                        "2025-01-02\n"
                        "00:00:00  run-ended                   exited 1, 1015 denied, 7s, 35.0M memory, 1.2K sent\n");
}

static void test_all_runs(void **state)
{
        _cleanup_timeline_ Timeline t = { .all_runs = true };
        _cleanup_buf_ Buf out = {};

        take(&t, &out, "run-refused", 0, "\"AGENTBOX_REASON\":\"no such \\u001b[2Jpolicy\",\"AGENTBOX_CALLER_UID\":\"4294967000\"");
        take(&t, &out, "run-unverified", 0, "\"AGENTBOX_BROKEN\":\"memory-limit: x\\nuid: y\",\"PRIORITY\":\"4\"");
        take(&t, &out, "egress-denied", 1, TO("evil.example", "dns", "53", "no-rule"));
        take(&t, &out, "egress-denied", 1, TO("evil.example", "dns", "53", "no-rule") ",\"AGENTBOX_RUN_ID\":\"other\"");
        take(&t, &out, "copy-refused", 2, "\"MESSAGE\":\"Run 4f7k2m9qxa: a socket\"");
        take(&t, &out, "copy-in", 2, "\"AGENTBOX_FILES\":\"1\",\"AGENTBOX_BYTES\":\"2048\"");
        take(&t, &out, "copy-out", 2, "\"MESSAGE\":\"Run 4f7k2m9qxa: copied\"");
        take(&t, &out, "copy-refused", 2, "\"AGENTBOX_REASON\":\"a fifo\\nand a socket\"");
        take(&t, &out, "tripwire", 2,
                        "\"AGENTBOX_REASON\":\"decoy\",\"AGENTBOX_DECOY\":\"/home/agent/.env\",\"AGENTBOX_COMM\":\"c\\u001bt\","
                        "\"AGENTBOX_COUNT\":\"7\",\"AGENTBOX_ACTION\":\"kill\"");
        take(&t, &out, "tripwire", 2, "\"AGENTBOX_REASON\":\"metadata\",\"AGENTBOX_COUNT\":\"1\",\"AGENTBOX_ACTION\":\"log\"");
        take(&t, &out, "run-ended", 2, "\"AGENTBOX_REASON\":\"signal\",\"AGENTBOX_SIGNAL\":\"9\"");
        take(&t, &out, "of-a-later-version", 2, "\"MESSAGE\":\"Run other: x\"");
        check(&t, &out,
                        "2025-01-01\n"
                        "12:00:00  4f7k2m9qxa  run-refused     uid 42949…  no such \\x1b[2Jpolicy\n"
                        "12:00:00  4f7k2m9qxa  run-unverified              memory-limit: x; uid: y\n"
                        "12:00:01  4f7k2m9qxa  egress-denied               evil.example (dns)            no-rule\n"
                        "12:00:01  other       egress-denied               evil.example (dns)            no-rule\n"
                        "12:00:02  4f7k2m9qxa  copy-refused                a socket\n"
                        "12:00:02  4f7k2m9qxa  copy-in                     1 file, 2.0K\n"
                        "12:00:02  4f7k2m9qxa  copy-out                    copied\n"
                        "12:00:02  4f7k2m9qxa  copy-refused                a fifo; and a socket\n"
                        "12:00:02  4f7k2m9qxa  tripwire        c\\x1bt      /home/agent/.env              decoy opened ×7, killed\n"
                        "12:00:02  4f7k2m9qxa  tripwire                    a metadata service            tried\n"
                        "12:00:02  4f7k2m9qxa  run-ended                   signal 9 (SIGKILL)\n"
                        "12:00:02  4f7k2m9qxa  of-a-later-ve…              Run other: x\n");
}

/* On a terminal no line is wider than it, whatever the names: they lose their ends, the verdict is kept. */
static void test_width(void **state)
{
        static const size_t widths[] = { 60, 80, 81, 120 };

        for (size_t i = 0; i < ELEMENTSOF(widths); i++)
                for (int all = 0; all <= 1; all++) {
                        _cleanup_timeline_ Timeline t = { .width = widths[i], .all_runs = all };
                        _cleanup_buf_ Buf out = {};

                        take(&t, &out, "egress-denied", 1,
                                        TO("a-rather-long-name-for-a-host.and-its-domain.example", "tls", "8443", "sni-mismatch")
                                                        COMM("a-long-comm-name"));
                        take(&t, &out, "egress-denied", 1, TO("x.example", "dns", "53", "no-rule"));
                        take(&t, &out, "egress-denied", 9, TO("x.example", "dns", "53", "no-rule"));
                        take(&t, &out, "run-unverified", 0,
                                        "\"AGENTBOX_BROKEN\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"");
                        assert_return_code(timeline_flush(&t, &out), 0);
                        for (const char *line = (char *) out.data; *line; line += strcspn(line, "\n") + 1) {
                                size_t n = 0;

                                for (const char *c = line; *c != '\n'; c++)
                                        n += (*c & 0xc0) != 0x80;
                                /* Below 80 what stands left keeps its columns. */
                                if (n > MAX2(widths[i], (size_t) 80))
                                        fail_msg("%zu > %zu: %s", n, widths[i], line);
                        }
                        if (widths[i] >= 80)
                                assert_non_null(strstr((char *) out.data, "sni-mismatch\n"));
                }
}

/* Calls and connections that take turns are a line each, with their sums. */
static void test_turns(void **state)
{
        _cleanup_timeline_ Timeline t = {};
        _cleanup_buf_ Buf out = {};

        for (unsigned i = 0; i < 50; i++) {
                take(&t, &out, "syscall-denied", 1,
                                "\"AGENTBOX_SYSCALL\":\"ptrace\",\"AGENTBOX_SYSCALL_ARGS\":\"0x0\",\"AGENTBOX_COUNT\":\"20\"" COMM("gdb"));
                take(&t, &out, "egress-denied", 2, TO("evil.example", "dns", "53", "no-rule") COMM("gdb"));
                take(&t, &out, "syscall-denied", 3, "\"AGENTBOX_SYSCALL\":\"ptrace\",\"AGENTBOX_SYSCALL_ARGS\":\"0x1\"" COMM("gdb"));
        }
        take(&t, &out, "run-started", 4, "");
        assert_true(t.window.n == 0 && !t.calls);
        check(&t, &out,
                        "2025-01-01\n"
                        "12:00:01  syscall-denied  gdb         ptrace(0x0)                   denied ×1000\n"
                        "12:00:02  egress-denied   gdb         evil.example (dns)            no-rule ×50\n"
                        "12:00:03  syscall-denied  gdb         ptrace(0x1)                   denied ×50\n"
                        "12:00:04  run-started                 policy default\n");
}

/* Of one run a reason is told to its end, where it stands; but not what somebody made to fill the screen. */
static void test_reasons(void **state)
{
        static const char reason[] = "\"AGENTBOX_REASON\":\"there is no policy \\\"nope\\\"; there are build, default, node, offline, python\"";
        _cleanup_timeline_ Timeline t = { .width = 80 }, all = { .width = 80, .all_runs = true };
        _cleanup_buf_ Buf out = {}, out_all = {}, long_one = {};
        char many[2048];

        take(&t, &out, "run-refused", 0, reason);
        check(&t, &out,
                        "2025-01-01\n"
                        "12:00:00  run-refused                 there is no policy \"nope\"; there are\n"
                        "                                      build, default, node, offline, python\n");
        take(&all, &out_all, "run-refused", 0, reason);
        check(&all, &out_all, "2025-01-01\n12:00:00 4f7k2m9qxa run-refused             there is no policy \"nope\"; there ar…\n");
        memset(many, 'x', sizeof(many));
        for (size_t i = 9; i < sizeof(many); i += 10)
                many[i] = ' ';
        memcpy(many, "\"MESSAGE\":\"", 11);
        memcpy(many + sizeof(many) - 2, "\"", 2);
        take(&t, &long_one, "copy-refused", 0, many);
        assert_int_equal(strcspn((char *) long_one.data, "\n") + 1, long_one.size);
}

/* A tunnel by names, and a flood of different destinations: bounded lines, exact sums. */
static void test_floods(void **state)
{
        _cleanup_timeline_ Timeline t = {};
        _cleanup_buf_ Buf out = {}, flood = {};
        size_t lines = 0;

        for (unsigned i = 0; i < 400; i++) {
                _cleanup_free_ char *more = NULL;

                assert_true(asprintf(&more, TO("%x.t.evil.example", "dns", "53", "no-rule") COMM("sh"), i) > 0);
                take(&t, &out, "egress-denied", i / 100, more);
        }
        check(&t, &out, "2025-01-01\n12:00:00  egress-denied   sh          400 names below t.evil.example (dns)  "
                        "no-rule ×400 in 3s\n");
        for (unsigned i = 0; i < 3000; i++) {
                _cleanup_free_ char *more = NULL;

                assert_true(asprintf(&more, "\"AGENTBOX_DEST_ADDR\":\"10.%u.%u.1\",\"AGENTBOX_PROTO\":\"tcp\"", i >> 8, i & 255) > 0);
                take(&t, &flood, "egress-denied", 5, more);
                assert_true(t.window.n <= 512);
        }
        assert_return_code(timeline_flush(&t, &flood), 0);
        for (const char *c = (char *) flood.data; *c; c++)
                lines += *c == '\n';
        assert_int_equal(lines, 3000);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_run),
                cmocka_unit_test(test_all_runs),
                cmocka_unit_test(test_width),
                cmocka_unit_test(test_turns),
                cmocka_unit_test(test_reasons),
                cmocka_unit_test(test_floods),
        };

        setenv("TZ", "UTC", 1);
        tzset();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
