/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cli/learn.h"
#include "cli/output.h"
#include "cli/timeline.h"
#include "cli/why.h"

/* Whatever a sandbox gets into the records that speak of it (names, what a process calls itself, in every combination with
 * every reason): the timeline, the explanation and what is learned stay text, in lines, of a bounded size, and propose
 * nothing that a policy would refuse. */

static const char *const texts[] = { "evil.example", "a.b.evil.example", "*", "", "metadata.google.internal", "169.254.169.254",
        "fd00:ec2::254", "::ffff:169.254.169.254", "1.2.3.4", "2001:db8::1", "127.0.0.1", "203.0.113.5", "\x1b[2J\x07", "x\nAllow=tls y",
        "x\r\n+Allow=tls y", "\xe2\x80\xae", "\x7f", "%s%n%s", "tls x.example", "tls *.example private=allow", "no-rule", "port",
        "metadata", "sni-mismatch", "addr-blocked", "limit", "dns", "tls", "tcp", "udp", "0", "22", "443", "65536", "-1",
        "18446744073709551615", "99999999999999999999", "exited", "signal", "oom", "timeout", "killed", "mount", "ptrace",
        "run-ended", "run-refused", "egress-denied", "egress-allowed", "egress-closed", "syscall-denied", "copy-refused" };
static const char *const fields[] = { "AGENTBOX_EVENT", "AGENTBOX_RUN_ID", "AGENTBOX_DEST_NAME", "AGENTBOX_DEST_ADDR",
        "AGENTBOX_DEST_PORT", "AGENTBOX_PROTO", "AGENTBOX_REASON", "AGENTBOX_RULE", "AGENTBOX_ASKED_NAME", "AGENTBOX_COMM",
        "AGENTBOX_COUNT", "AGENTBOX_BYTES_SENT", "AGENTBOX_BYTES_RECEIVED", "AGENTBOX_USEC", "AGENTBOX_SYSCALL",
        "AGENTBOX_SYSCALL_ARGS", "AGENTBOX_COMMAND", "AGENTBOX_CALLER_UID", "AGENTBOX_EXIT_CODE", "AGENTBOX_SIGNAL",
        "AGENTBOX_WALL_USEC", "AGENTBOX_MEMORY_PEAK", "AGENTBOX_TASKS_PEAK", "AGENTBOX_MESSAGE", "AGENTBOX_VERIFIED", "AGENTBOX_BROKEN",
        "AGENTBOX_EGRESS_DENIED", "AGENTBOX_POLICY_DIGEST", "MESSAGE", "PRIORITY", "__REALTIME_TIMESTAMP" };

static uint32_t dice(uint32_t n)
{
        static uint64_t state = 1;

        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (uint32_t) (state >> 33) % n;
}

static json_t *any_record(const char *policy)
{
        json_t *record = json_object();

        /* Most of them denials. */
        json_object_set_new(record, "AGENTBOX_EVENT", json_string("egress-denied"));
        for (size_t i = 0; i < ELEMENTSOF(fields); i++) {
                const char *text = texts[dice(ELEMENTSOF(texts))];

                if (dice(i == 0 ? 4 : 3) == 0)
                        json_object_set_new(record, fields[i],
                                        dice(50) == 0 ? json_pack("[s,s]", "a", "b") : output_json_bytes(text, strlen(text)));
        }
        json_object_set_new(record, "AGENTBOX_POLICY", json_string(policy));
        return record;
}

static void check_text(const Buf *out)
{
        const char *s = (const char *) out->data;

        if (!s)
                return;
        assert_int_equal(strlen(s), out->size);
        for (const char *c = s; *c; c++)
                if ((*c > 0 && *c < 32 && *c != '\n') || *c == 127)
                        fail_msg("byte %u in: %s", (unsigned) *c, s);
        assert_null(strstr(s, "\xe2\x80\xae"));
        if (strstr(s, "\nAllow=tls y"))
                fail_msg("a line of its own: %s", s);
        if (strstr(s, "\n+Allow=tls y"))
                fail_msg("a line of its own: %s", s);
}

static Policy *parsed(const char *text)
{
        static const char *const nowhere[] = { NULL };
        _cleanup_error_ Error *e = NULL;
        Policy *p = NULL;

        if (policy_load_text("p", text, strlen(text), nowhere, "/nonexistent", &p, &e) < 0)
                fail_msg("%s\n%s", error_message(e, -EINVAL), text);
        return p;
}

/* All that is proposed, as the policy that it would make. */
static void check_proposals(const char *drop_in)
{
        _cleanup_free_ char *text = strdup(drop_in);
        _cleanup_policy_ Policy *p = NULL;

        for (char *c = text; *c; c++)
                if ((c == text || c[-1] == '\n') && *c == '#' && c[1] >= 'A' && c[1] <= 'Z')
                        *c = ' ';
        p = parsed(text);
        assert_return_code(policy_check_enforceable(p, false, NULL), 0);
        STRV_FOREACH(i, policy_list(p, NETWORK_ALLOW))
                if (strstr(*i, "metadata") || strstr(*i, "169.254") || strstr(*i, "203.0.113.5") || strstr(*i, "ec2"))
                        fail_msg("proposed: %s", *i);
        assert_false(strv_contains(policy_list(p, SYSCALLS_ALLOW), "mount"));
}

static void test_anything(void **state)
{
        static char own[] = "203.0.113.5";
        char *own_list[] = { own, NULL };
        _cleanup_policy_ Policy *policy = parsed("[Network]\nAllow=tls *.example\nEgressBytes=1M\n");
        const AdviceContext contexts[] = { {}, { .policy = policy, .own = own_list } };

        for (int round = 0; round < 300; round++) {
                const AdviceContext *c = contexts + round % 2;
                _cleanup_timeline_ Timeline t = { .all_runs = round % 3 == 0, .width = round % 5 ? 80 : 0 };
                _cleanup_buf_ Buf log = {}, why = {}, diff = {}, drop_in = {};
                _cleanup_learn_ Learn learn = {};
                _cleanup_why_ Why w = {};

                for (uint32_t i = dice(40); i > 0; i--) {
                        _cleanup_json_ json_t *record = any_record(round % 2 ? "p" : "p\x1b\n+Allow=tls y");

                        assert_return_code(timeline_take(&t, record, &log), 0);
                        assert_return_code(why_take(&w, record), 0);
                        assert_return_code(learn_take(&learn, record, NULL), 0);
                }
                assert_return_code(timeline_flush(&t, &log), 0);
                assert_return_code(why_explain(&w, c, &why), 0);
                check_text(&log);
                check_text(&why);
                if (!learn.policy)
                        continue;
                assert_return_code(learn_print(&learn, &(AdviceContext){ .policy = c->policy, .own = own_list }, LEARN_DIFF, &diff), 0);
                assert_return_code(
                                learn_print(&learn, &(AdviceContext){ .policy = c->policy, .own = own_list }, LEARN_DROP_IN, &drop_in),
                                0);
                check_text(&diff);
                check_text(&drop_in);
                check_proposals((const char *) drop_in.data);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_anything) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
