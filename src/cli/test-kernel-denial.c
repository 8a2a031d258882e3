/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cli/facts.h"
#include "cli/kernel-denial.h"
#include "cli/output.h"
#include "cli/timeline.h"
#include "cli/why.h"

#define WHO "auid=4294967295 uid=61234 gid=61234 ses=4294967295 subj=unconfined pid=339 "
#define CALL(arch, number, code) "exe=\"/usr/bin/python3.11\" sig=31 arch=" arch " syscall=" number " compat=1 ip=0x7f786e619007 code=" code
#define I386 CALL("40000003", "11", "0x80000000")
#define STAMP "audit: type=1326 audit(1796038304.280:2): "
#define USEC UINT64_C(1796038304280000)
#define BOOT "dcca00f37cf844da88c225b3f3e40af8"

static void test_parse(void **state)
{
        KernelDenial d = {};

        assert_true(kernel_denial_parse_line(STAMP WHO "comm=612062012278 " I386, &d));
        assert_int_equal(d.usec, USEC);
        assert_int_equal(d.serial, 2);
        assert_int_equal(d.uid, 61234);
        assert_int_equal(d.pid, 339);
        assert_int_equal(d.arch, 0x40000003);
        assert_int_equal(d.number, 11);
        assert_int_equal(d.action, 0x80000000);
        assert_int_equal(d.signal, 31);
        assert_string_equal(d.comm, "a b\001\"x");
        /* As journald has it, with the type's name in front. */
        assert_true(kernel_denial_parse("SECCOMP " WHO "comm=\"python3\" " I386, &d));
        assert_string_equal(d.comm, "python3");
        /* The kernel writes the number with its sign. */
        assert_true(kernel_denial_parse(WHO "comm=\"x\" " CALL("c000003e", "-1", "0x80000000"), &d));
        assert_int_equal(d.number, UINT32_MAX);
        assert_true(kernel_denial_parse(WHO CALL("c000003e", "101", "0x00050001"), &d));
        assert_int_equal(d.action, 0x00050000);
        assert_string_equal(d.comm, "");
}

static void test_refused(void **state)
{
        static const char *const lines[] = {
                "",
                "audit: type=1326",
                "audit: type=1326 audit(",
                "audit: type=1327 audit(1796038304.280:2): " WHO "comm=\"x\" " I386,
                "audit: type=1326 audit(1796038304:2): " WHO "comm=\"x\" " I386,
                "audit: type=1326 audit(1796038304.28:2): " WHO "comm=\"x\" " I386,
                "audit: type=1326 audit(1796038304.280:): " WHO "comm=\"x\" " I386,
                "audit: type=1326 audit(-1.280:2): " WHO "comm=\"x\" " I386,
                "audit: type=1326 audit(99999999999999999999.280:2): " WHO "comm=\"x\" " I386,
                "x " STAMP WHO "comm=\"x\" " I386,
                /* One of the words is missing, or is no number. */
                STAMP "auid=61234 pid=1 comm=\"x\" " I386,
                STAMP "uid=61234 comm=\"x\" " I386,
                STAMP "uid=4294967296 pid=1 comm=\"x\" " I386,
                STAMP "uid=+1 pid=1 comm=\"x\" " I386,
                STAMP "uid= pid=1 comm=\"x\" " I386,
                STAMP "uid=0x1 pid=1 comm=\"x\" " I386,
                STAMP WHO "sig=31 arch=zz syscall=11 code=0x80000000",
                STAMP WHO "sig=31 arch=40000003 syscall=-99999999999 code=0x80000000",
                STAMP WHO "sig=31 arch=40000003 syscall=11 code=80000000",
                STAMP WHO "sig=31 arch=40000003 syscall=11",
                /* Of what was let through. */
                STAMP WHO CALL("c000003e", "101", "0x7ffc0000"),
                STAMP WHO CALL("c000003e", "101", "0x7fc00000"),
                STAMP WHO CALL("c000003e", "101", "0x7fff0000"),
        };

        for (size_t i = 0; i < ELEMENTSOF(lines); i++) {
                KernelDenial d = { .serial = 77 };

                if (kernel_denial_parse_line(lines[i], &d))
                        fail_msg("taken: %s", lines[i]);
                assert_int_equal(d.serial, 77);
        }
}

/* What a process calls itself cannot be another word of the record. */
static void test_comm(void **state)
{
        static const struct {
                const char *text, *want;
        } rows[] = {
                { "comm=\"uid=0\" ", "uid=0" },
                { "comm=207569643D3020 ", " uid=0 " },
                { "comm=0A0D1B5B324A ", "\n\r\033[2J" },
                { "comm=(null) ", "" },
                { "comm=123 ", "" },
                { "comm=\"open ", "" },
                { "comm=\" ", "" },
                { "comm= ", "" },
                { "comm=\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\" ", "" },
                { "comm=4100 ", "A" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_free_ char *line = NULL;
                KernelDenial d;

                assert_true(asprintf(&line, STAMP WHO "%s" I386, rows[i].text) > 0);
                assert_true(kernel_denial_parse_line(line, &d));
                assert_string_equal(d.comm, rows[i].want);
                assert_int_equal(d.uid, 61234);
        }
}

static json_t *verified(const char *uid, const char *boot)
{
        return json_pack("{s:s,s:s,s:s,s:s,s:s}", "AGENTBOX_RUN_ID", "4f7k2m9qxa", "AGENTBOX_POLICY", "default", "AGENTBOX_CALLER_UID",
                        "1000", "AGENTBOX_UID", uid, "_BOOT_ID", boot);
}

static void test_within(void **state)
{
        static const struct {
                const char *uid, *boot;
                uint64_t start, end;
                bool want;
        } rows[] = {
                { "61234", BOOT, USEC - 1000000, UINT64_MAX, true },
                { "61234", BOOT, USEC - 1000000, USEC + 1, true },
                { "61234", BOOT, USEC + 4000, UINT64_MAX, true }, /* the kernel's clock is a tick late */
                { "61234", BOOT, USEC + 1000000, UINT64_MAX, false },
                { "61234", BOOT, USEC - 1000000, USEC - 1, false },
                { "61235", BOOT, 0, UINT64_MAX, false },
                { "", BOOT, 0, UINT64_MAX, false },
                { "61234", "ecca00f37cf844da88c225b3f3e40af8", 0, UINT64_MAX, false },
                { "61234", "", 0, UINT64_MAX, false },
        };
        KernelDenial d;

        assert_true(kernel_denial_parse_line(STAMP WHO "comm=\"x\" " I386, &d));
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_json_ json_t *run = verified(rows[i].uid, rows[i].boot);

                assert_int_equal(kernel_denial_is_within(&d, run, BOOT, rows[i].start, rows[i].end), rows[i].want);
        }
        assert_false(kernel_denial_is_within(&d, NULL, BOOT, 0, UINT64_MAX));
        {
                /* root is nobody's run; a scope's record has no uid. */
                _cleanup_json_ json_t *root = verified("0", BOOT), *scope = verified("61234", BOOT);

                d.uid = 0;
                assert_false(kernel_denial_is_within(&d, root, BOOT, 0, UINT64_MAX));
                json_object_del(scope, "AGENTBOX_UID");
                d.uid = 61234;
                assert_false(kernel_denial_is_within(&d, scope, BOOT, 0, UINT64_MAX));
        }
}

/* The record of the text behind the stamp, with names. */
static json_t *record(const char *text)
{
        _cleanup_json_ json_t *run = verified("61234", BOOT);
        json_t *j;
        KernelDenial d;

        if (!kernel_denial_parse(text, &d))
                fail_msg("not taken: %s", text);
        d.usec = USEC;
        d.serial = 2;
        j = kernel_denial_record(&d, run);
        assert_non_null(j);
        assert_int_equal(kernel_denial_describe(j), 0);
        return j;
}

static void check_field(const json_t *j, const char *name, const char *want)
{
        const char *is = facts_string(j, name);

        if (!is || !streq(is, want))
                fail_msg("%s is %s, not %s", name, is ?: "nothing", want);
}

static void test_describe(void **state)
{
        static const struct {
                const char *text, *arch, *call, *action;
        } rows[] = {
                { WHO "comm=\"x\" " I386, "i386", "execve", "kill" },
                { WHO "comm=\"x\" " CALL("c000003e", "1073741863", "0x80000000"), "x32", "getpid", "kill" },
                { WHO "comm=\"x\" " CALL("c000003e", "165", "0x00050001"), "x86-64", "mount", "errno" },
                { WHO "comm=\"x\" " CALL("c00000b7", "40", "0x00000000"), "aarch64", "mount", "kill-thread" },
                { WHO "comm=\"x\" " CALL("c000003e", "99999", "0x00030000"), "x86-64", "99999", "trap" },
                { WHO "comm=\"x\" " CALL("c000003e", "-1", "0x80000000"), "x86-64", "4294967295", "kill" },
                { WHO "comm=\"x\" " CALL("1", "5", "0x80000000"), "other", "5", "kill" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_json_ json_t *j = record(rows[i].text);

                check_field(j, "AGENTBOX_ARCH", rows[i].arch);
                check_field(j, "AGENTBOX_SYSCALL", rows[i].call);
                check_field(j, "AGENTBOX_ACTION", rows[i].action);
                check_field(j, "AGENTBOX_EVENT", "kernel-denied");
                check_field(j, "AGENTBOX_RUN_ID", "4f7k2m9qxa");
                check_field(j, "AGENTBOX_CALLER_UID", "1000");
                check_field(j, "__REALTIME_TIMESTAMP", "1796038304280000");
        }
}

/* Other records are not touched, and neither is one of that name that is none. */
static void test_describe_others(void **state)
{
        static const char *const texts[] = { "{}", "{\"AGENTBOX_EVENT\":\"syscall-denied\",\"AGENTBOX_ARCH_NUMBER\":\"40000003\"}",
                "{\"AGENTBOX_EVENT\":\"kernel-denied\"}",
                "{\"AGENTBOX_EVENT\":\"kernel-denied\",\"AGENTBOX_ARCH_NUMBER\":\"-1\",\"AGENTBOX_SYSCALL_NUMBER\":\"1\"}",
                "{\"AGENTBOX_EVENT\":[\"kernel-denied\",\"kernel-denied\"],\"AGENTBOX_ARCH_NUMBER\":\"1\",\"AGENTBOX_SYSCALL_NUMBER\":\"1\"}",
                "{\"AGENTBOX_EVENT\":\"kernel-denied\",\"AGENTBOX_ARCH_NUMBER\":\"1\",\"AGENTBOX_SYSCALL_NUMBER\":\"4294967296\"}" };

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                _cleanup_json_ json_t *j = json_loads(texts[i], 0, NULL), *same = json_deep_copy(j);

                assert_non_null(j);
                assert_int_equal(kernel_denial_describe(j), 0);
                assert_true(json_equal(j, same));
        }
}

/* Whatever becomes of the kernel's text: no more than it says, in words that can be shown. */
static void test_mutated(void **state)
{
        static const char genuine[] = STAMP WHO "comm=612062012278 " I386;
        static const char bytes[] = " =\":().\n\x1b\xff" "0aA9-x";
        uint64_t dice = 1;
        size_t taken = 0;

        for (unsigned i = 0; i < 20000; i++) {
                _cleanup_json_ json_t *run = verified("61234", BOOT), *j = NULL;
                char text[sizeof(genuine)];
                KernelDenial d;

                memcpy(text, genuine, sizeof(genuine));
                for (unsigned k = 0; k < 1 + i % 3; k++) {
                        dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                        text[(dice >> 33) % (sizeof(genuine) - 1)] = bytes[(dice >> 20) % sizeof(bytes)];
                }
                if (!kernel_denial_parse_line(text, &d))
                        continue;
                taken++;
                assert_true(memchr(d.comm, 0, sizeof(d.comm)) != NULL);
                j = kernel_denial_record(&d, run);
                assert_non_null(j);
                assert_int_equal(kernel_denial_describe(j), 0);
                for (const char *c = facts_string(j, "MESSAGE"); *c; c++)
                        if ((unsigned char) *c < 32 || *c == 127)
                                fail_msg("%s", facts_string(j, "MESSAGE"));
        }
        assert_true(taken > 1000);
}

static void test_timeline(void **state)
{
        _cleanup_timeline_ Timeline t = {};
        _cleanup_buf_ Buf out = {};

        for (int i = 0; i < 1000; i++) {
                _cleanup_json_ json_t *j = record(WHO "comm=1B5B324A " I386);

                assert_int_equal(timeline_take(&t, j, &out), 0);
        }
        {
                _cleanup_json_ json_t *j = record(WHO "comm=\"x\" " CALL("c000003e", "165", "0x80000000"));

                assert_int_equal(timeline_take(&t, j, &out), 0);
        }
        assert_int_equal(timeline_flush(&t, &out), 0);
        assert_non_null(strstr((char *) out.data, "  kernel-denied   \\x1b[2J     execve (i386)                 killed ×1000\n"));
#ifdef __x86_64__
        assert_non_null(strstr((char *) out.data, "  kernel-denied   x           mount                         killed\n"));
#endif
        assert_int_equal(timeline_flush(&t, &out), 0);
}

static void check_why(const char *const *texts, const char *const *want, const char *const *never)
{
        _cleanup_json_ json_t *ended = json_pack("{s:s,s:s,s:s,s:s}", "AGENTBOX_EVENT", "run-ended", "AGENTBOX_RUN_ID", "4f7k2m9qxa",
                        "AGENTBOX_REASON", "signal", "AGENTBOX_SIGNAL", "31");
        _cleanup_why_ Why w = {};
        _cleanup_buf_ Buf out = {};

        for (size_t i = 0; texts[i]; i++) {
                _cleanup_json_ json_t *j = record(texts[i]);

                assert_int_equal(why_take(&w, j), 0);
        }
        assert_int_equal(why_take(&w, ended), 0);
        assert_int_equal(why_explain(&w, &(AdviceContext){}, &out), 0);
        for (size_t i = 0; want[i]; i++)
                if (!strstr((char *) out.data, want[i]))
                        fail_msg("%s is not in: %s", want[i], out.data);
        for (size_t i = 0; never[i]; i++)
                if (strstr((char *) out.data, never[i]))
                        fail_msg("%s is in: %s", never[i], out.data);
}

#define TEXTS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void test_why(void **state)
{
        static const char foreign[] = WHO "comm=\"sh\" " I386;

        check_why(TEXTS(foreign, foreign),
                        TEXTS("The filter of system calls killed it (SIGSYS): execve of a foreign architecture (i386).\n",
                                        "  system call execve of a foreign architecture (i386) by sh: killed (2 times)\n", "no policy can allow it"),
                        TEXTS("Allow="));
#ifdef __x86_64__
        check_why(TEXTS(WHO "comm=\"sh\" " CALL("c000003e", "101", "0x80000000")),
                        TEXTS("killed it (SIGSYS): ptrace.\n", "    [Syscalls]\n    Allow=ptrace\n"), TEXTS("foreign"));
        check_why(TEXTS(WHO "comm=\"sh\" " CALL("c000003e", "165", "0x80000000"), foreign),
                        TEXTS("mount by sh: killed\n    no policy can allow it"), TEXTS("Allow=mount", "(SIGSYS): "));
#endif
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_parse),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_comm),
                cmocka_unit_test(test_within),
                cmocka_unit_test(test_describe),
                cmocka_unit_test(test_describe_others),
                cmocka_unit_test(test_mutated),
                cmocka_unit_test(test_timeline),
                cmocka_unit_test(test_why),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
