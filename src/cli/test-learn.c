/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "cli/facts.h"
#include "cli/learn.h"
#include "cli/output.h"

#define RECORD(run, event, ...)                                                                    \
        "{\"AGENTBOX_RUN_ID\":\"" run "\",\"AGENTBOX_POLICY\":\"p\",\"AGENTBOX_EVENT\":\"" event \
        "\"," __VA_ARGS__ "}"
#define DENIED(run, proto, reason, port, ...)                                                                          \
        RECORD(run, "egress-denied",                                                                                   \
                        "\"AGENTBOX_PROTO\":\"" proto "\",\"AGENTBOX_REASON\":\"" reason "\",\"AGENTBOX_DEST_PORT\":\"" port \
                        "\"," __VA_ARGS__)
#define NAME(s) "\"AGENTBOX_DEST_NAME\":\"" s "\""
#define ADDR(s) "\"AGENTBOX_DEST_ADDR\":\"" s "\""
#define COUNT(n) ",\"AGENTBOX_COUNT\":\"" n "\""

static Policy *policy_of(const char *text)
{
        static const char *const nowhere[] = { NULL };
        _cleanup_error_ Error *e = NULL;
        Policy *p = NULL;

        if (policy_load_text("p", text, strlen(text), nowhere, "/nonexistent", &p, &e) < 0)
                fail_msg("%s\n%s", error_message(e, -EINVAL), text);
        return p;
}

static void take_all(Learn *l, const char *json)
{
        _cleanup_free_ char *text = NULL;
        _cleanup_json_ json_t *records = NULL;

        assert_true(asprintf(&text, "[%s]", json) > 0);
        records = json_loads(text, 0, NULL);
        if (!records)
                fail_msg("not JSON: %s", text);
        for (size_t i = 0; i < json_array_size(records); i++) {
                _cleanup_error_ Error *e = NULL;

                if (learn_take(l, json_array_get(records, i), &e) < 0)
                        fail_msg("%s", error_message(e, -EINVAL));
        }
}

static char *learned(const char *json, const Policy *policy, LearnForm form)
{
        static char own[] = "203.0.113.5";
        char *l[] = { own, NULL };
        _cleanup_learn_ Learn learn = {};
        Buf out = {};

        take_all(&learn, json);
        assert_return_code(learn_print(&learn, &(AdviceContext){ .policy = policy, .own = l }, form, &out), 0);
        return buf_take_string(&out);
}

static const char records[] =
                RECORD("r1", "run-started", "\"MESSAGE\":\"x\"") ","
                DENIED("r1", "dns", "no-rule", "53", NAME("index.example.org") COUNT("2")) ","
                DENIED("r1", "tcp", "no-rule", "5432", ADDR("192.0.2.77")) ","
                DENIED("r1", "tcp", "metadata", "80", ADDR("169.254.169.254") COUNT("3")) ","
                DENIED("r1", "tcp", "no-rule", "22", ADDR("203.0.113.5")) ","
                DENIED("r1", "udp", "no-rule", "443", ADDR("192.0.2.78")) ","
                DENIED("r1", "tcp", "port", "22", NAME("git.example.org")) ","
                DENIED("r1", "dns", "no-rule", "53", NAME("known.example.org")) ","
                RECORD("r1", "syscall-denied", "\"AGENTBOX_SYSCALL\":\"ptrace\",\"AGENTBOX_COUNT\":\"5\"") ","
                RECORD("r1", "syscall-denied", "\"AGENTBOX_SYSCALL\":\"mount\"") ","
                RECORD("r1", "syscall-denied", "\"AGENTBOX_SYSCALL\":\"no_such_call\"") ","
                RECORD("r1", "run-ended", "\"AGENTBOX_REASON\":\"oom\",\"AGENTBOX_MEMORY_PEAK\":\"268435456\"") ","
                DENIED("r2", "dns", "no-rule", "53", NAME("index.example.org") COUNT("4")) ","
                DENIED("r2", "tls", "addr-blocked", "443",
                                NAME("mirror.example.net") "," ADDR("10.1.2.3") ",\"AGENTBOX_RULE\":\"tls mirror.example.net\"") ","
                DENIED("r2", "tls", "limit", "443", NAME("mirror.example.net")) ","
                RECORD("r2", "run-ended", "\"AGENTBOX_REASON\":\"timeout\",\"AGENTBOX_WALL_USEC\":\"60000000\"");
static const char policy_text[] = "[Network]\nAllow=tls mirror.example.net\nAllow=tls known.example.org\nAllow=tls git.example.org\n";

static void test_diff(void **state)
{
        static const char want[] =
                        "# What 2 runs of policy p were refused, and the lines that would let it through.\n"
                        "# It is what the code tried, which need not be what the job needs: read each\n"
                        "# line. \"decide\" marks what reaches somebody new, opens more than was seen or\n"
                        "# gives up a check. The policy is not as it was then, or a run had --set.\n"
                        "--- p\n"
                        "+++ p\n"
                        " [Network]\n"
                        "# decide: 6 attempts in 2 runs: its name was looked up, and no rule names it. It\n"
                        "# opens TLS to this very name; for plain HTTP the line is Allow=http\n"
                        "# index.example.org:80.\n"
                        "+Allow=tls index.example.org:443\n"
                        "# 1 attempt in 1 run: a rule names it, at another port.\n"
                        "+Allow=tcp git.example.org:22\n"
                        "# decide: 1 attempt in 1 run: it leads to a private or special address. It lets\n"
                        "# the name lead into private networks, as a mirror of one's own does. Whoever\n"
                        "# answers for the name then chooses where in them.\n"
                        "+Allow=tls mirror.example.net private=allow\n"
                        "# decide: 1 attempt in 1 run: no rule names it. It opens this address at this\n"
                        "# port, to any bytes. Where the program could go by a name, a rule with the name\n"
                        "# says more.\n"
                        "+Allow=tcp 192.0.2.77:5432\n"
                        "# decide: 1 attempt in 1 run: too many connections were open at a time. It lets\n"
                        "# more of them be open.\n"
                        "-Connections=1024\n"
                        "+Connections=2048\n"
                        "\n [Limits]\n"
                        "# decide: 1 run: its memory limit was reached.\n"
                        "-Memory=256M\n"
                        "+Memory=512M\n"
                        "# decide: 1 run: its time limit passed.\n"
                        "-Runtime=60s\n"
                        "+Runtime=2min\n"
                        "\n [Syscalls]\n"
                        "# decide: 5 attempts: the program called it. It opens more of the kernel:\n"
                        "# looking into other processes.\n"
                        "+Allow=ptrace\n"
                        "\n"
                        "# Not among them:\n"
                        "# 169.254.169.254:80: a cloud metadata service\n"
                        "# 203.0.113.5:22: it is an address of this host itself\n"
                        "# 192.0.2.78:443: QUIC, which is HTTP over UDP\n"
                        "# known.example.org: the policy allows it by now\n"
                        "# mount(): it opens a way around the sandbox\n";
        _cleanup_policy_ Policy *p = policy_of(policy_text);
        _cleanup_free_ char *got = learned(records, p, LEARN_DIFF);
        size_t same = 0;

        while (got[same] && got[same] == want[same])
                same++;
        if (!streq(got, want))
                fail_msg("wanted: ...%s\ngot: ...%s", want + same, got + same);
}

/* What is printed as a drop-in is one: it loads with and without what somebody has to decide, and then the same attempts
 * are all allowed. */
static void test_drop_in(void **state)
{
        _cleanup_policy_ Policy *p = policy_of(policy_text), *safe = NULL, *all = NULL;
        _cleanup_free_ char *got = learned(records, p, LEARN_DROP_IN), *decided = strdup(got), *text = NULL, *text2 = NULL,
                            *again = NULL;

        assert_true(asprintf(&text, "%s%s", policy_text, got) > 0);
        safe = policy_of(text);
        assert_int_equal(strv_length(policy_list(safe, NETWORK_ALLOW)), 4); /* git.example.org at one more port */
        assert_int_equal(policy_u64(safe, LIMITS_MEMORY), 256 << 20);
        for (char *c = decided; *c; c++)
                if ((c == decided || c[-1] == '\n') && *c == '#' && c[1] >= 'A' && c[1] <= 'Z')
                        *c = ' ';
        assert_true(asprintf(&text2, "%s%s", policy_text, decided) > 0);
        all = policy_of(text2);
        assert_int_equal(strv_length(policy_list(all, NETWORK_ALLOW)), 7);
        assert_int_equal(policy_u64(all, LIMITS_MEMORY), 512 << 20);
        assert_int_equal(policy_u64(all, NETWORK_CONNECTIONS), 2048);
        assert_true(strv_contains(policy_list(all, SYSCALLS_ALLOW), "ptrace"));
        assert_return_code(policy_check_enforceable(all, false, NULL), 0);
        again = learned(records, all, LEARN_DIFF);
        assert_null(strstr(again, "+Allow=tls"));
        assert_null(strstr(again, "+Allow=tcp"));
        assert_null(strstr(again, "+Memory"));
}

static void test_never(void **state)
{
        static const char json[] =
                        DENIED("r", "dns", "no-rule", "53", NAME("metadata.google.internal")) ","
                        DENIED("r", "dns", "metadata", "53", NAME("metadata.google.internal")) ","
                        DENIED("r", "tcp", "no-rule", "80", ADDR("169.254.169.254")) ","
                        DENIED("r", "tcp", "no-rule", "80", ADDR("fd00:ec2::254")) ","
                        DENIED("r", "tcp", "no-rule", "80", ADDR("64:ff9b::a9fe:a9fe")) ","
                        DENIED("r", "tcp", "no-rule", "80", ADDR("::ffff:169.254.169.254")) ","
                        DENIED("r", "tcp", "no-rule", "80", ADDR("127.0.0.1")) ","
                        DENIED("r", "tcp", "no-rule", "80", ADDR("203.0.113.5")) ","
                        DENIED("r", "tls", "host-local", "443", NAME("own.example")) ","
                        DENIED("r", "tls", "sni-mismatch", "443",
                                        NAME("x.example") ",\"AGENTBOX_ASKED_NAME\":\"metadata.goog\"") ","
                        DENIED("r", "dns", "no-rule", "53", NAME("x\\nAllow=tls evil.example")) ","
                        DENIED("r", "dns", "no-rule", "53", NAME("\\u001b[2J.example")) ","
                        RECORD("r", "syscall-denied", "\"AGENTBOX_SYSCALL\":\"init_module\"") ","
                        RECORD("r", "syscall-denied", "\"AGENTBOX_SYSCALL\":\"bpf\"") ","
                        RECORD("r", "syscall-denied", "\"AGENTBOX_SYSCALL\":\"x\\nAllow=mount\"");
        _cleanup_free_ char *got = learned(json, NULL, LEARN_DIFF);

        if (strstr(got, "\n+") || !strstr(got, "There are none") || strchr(got, '\x1b'))
                fail_msg("%s", got);
}

static void test_policies_do_not_mix(void **state)
{
        _cleanup_learn_ Learn l = {};
        _cleanup_error_ Error *e = NULL;
        _cleanup_json_ json_t *other = json_pack("{s:s,s:s}", "AGENTBOX_RUN_ID", "r9", "AGENTBOX_POLICY", "q");

        take_all(&l, RECORD("r1", "run-started", "\"MESSAGE\":\"x\""));
        assert_int_equal(learn_take(&l, other, &e), -EINVAL);
        assert_non_null(strstr(e->message, "run r9 was under policy q"));
}

static void test_quiet_run(void **state)
{
        _cleanup_policy_ Policy *p = policy_of(policy_text);
        _cleanup_free_ char *got = learned(
                        RECORD("r1", "run-ended", "\"AGENTBOX_REASON\":\"exited\",\"AGENTBOX_EXIT_CODE\":\"0\""), p, LEARN_DROP_IN);

        assert_non_null(strstr(got, "nothing was refused that a line could allow"));
        assert_null(strstr(got, "["));
}

/* Rules come from the narrowest to the widest, and a tunnel is one line that somebody has to decide. */
static void test_order(void **state)
{
        _cleanup_learn_ Learn l = {};
        _cleanup_buf_ Buf out = {};
        const char *last = NULL;

        for (int i = 0; i < 50; i++) {
                char name[64];
                _cleanup_json_ json_t *record = NULL;

                snprintf(name, sizeof(name), "%d.t.evil.example", i);
                record = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s}", "AGENTBOX_RUN_ID", "r", "AGENTBOX_POLICY", "p",
                                "AGENTBOX_EVENT", "egress-denied", "AGENTBOX_DEST_NAME", name, "AGENTBOX_PROTO", "dns",
                                "AGENTBOX_REASON", "no-rule");
                assert_return_code(learn_take(&l, record, NULL), 0);
        }
        take_all(&l, DENIED("r", "tcp", "no-rule", "22", ADDR("192.0.2.1")) "," DENIED("r", "tcp", "port", "22", NAME("b.example")) ","
                        DENIED("r", "dns", "no-rule", "53", NAME("a.example")));
        assert_return_code(learn_print(&l, &(AdviceContext){}, LEARN_DROP_IN, &out), 0);
        for (size_t i = 0; i < 4; i++) {
                static const char *const lines[] = { "\n#Allow=tls a.example:443\n", "\n#Allow=tcp b.example:22\n",
                        "\n#Allow=tcp 192.0.2.1:22\n", "\n#Allow=tls *.t.evil.example:443\n" };
                const char *at = strstr((char *) out.data, lines[i]);

                if (!at || at < last)
                        fail_msg("%s not at its place in\n%s", lines[i], out.data);
                last = at;
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_diff),
                cmocka_unit_test(test_drop_in),
                cmocka_unit_test(test_never),
                cmocka_unit_test(test_policies_do_not_mix),
                cmocka_unit_test(test_quiet_run),
                cmocka_unit_test(test_order),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
