/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "cli/facts.h"
#include "cli/output.h"
#include "cli/why.h"
#include "policy/allow-rule.h"

#define RECORD(event, ...)                                                                 \
        "{\"AGENTBOX_RUN_ID\":\"r\",\"AGENTBOX_POLICY\":\"p\",\"AGENTBOX_EVENT\":\"" event \
        "\"," __VA_ARGS__ "}"
#define ENDED(...) RECORD("run-ended", __VA_ARGS__)
#define EXITED(code) ENDED("\"AGENTBOX_REASON\":\"exited\",\"AGENTBOX_EXIT_CODE\":\"" code "\"")

/* As the warden writes them. */
#define FIELDS(proto, reason, port)                                                                           \
        "\"AGENTBOX_PROTO\":\"" proto "\",\"AGENTBOX_REASON\":\"" reason "\",\"AGENTBOX_DEST_PORT\":\"" port \
        "\",\"MESSAGE\":\"x\""
#define TO_NAME(name, proto, reason, port, ...) \
        RECORD("egress-denied", FIELDS(proto, reason, port) ",\"AGENTBOX_DEST_NAME\":\"" name "\"" __VA_ARGS__)
#define TO_ADDRESS(address, proto, reason, port, ...) \
        RECORD("egress-denied", FIELDS(proto, reason, port) ",\"AGENTBOX_DEST_ADDR\":\"" address "\"" __VA_ARGS__)
#define COUNT(n) ",\"AGENTBOX_COUNT\":\"" n "\""
#define ADDR(a) ",\"AGENTBOX_DEST_ADDR\":\"" a "\""
#define ASKED(name) ",\"AGENTBOX_ASKED_NAME\":\"" name "\""
#define RULE(text) ",\"AGENTBOX_RULE\":\"" text "\""

static Policy *policy_of(const char *text)
{
        static const char *const nowhere[] = { NULL };
        _cleanup_error_ Error *e = NULL;
        Policy *p = NULL;

        if (policy_load_text("p", text, strlen(text), nowhere, "/nonexistent", &p, &e) < 0)
                fail_msg("%s", error_message(e, -EINVAL));
        return p;
}

/* Records without the brackets of an array. */
static char *why(const char *json, const char *policy)
{
        static char own[] = "203.0.113.5";
        char *l[] = { own, NULL };
        _cleanup_policy_ Policy *p = policy ? policy_of(policy) : NULL;
        _cleanup_free_ char *text = NULL;
        _cleanup_json_ json_t *records = NULL;
        _cleanup_why_ Why w = {};
        Buf out = {};

        assert_true(asprintf(&text, "[%s]", json) > 0);
        records = json_loads(text, 0, NULL);
        if (!records)
                fail_msg("not JSON: %s", text);
        for (size_t i = 0; i < json_array_size(records); i++)
                assert_return_code(why_take(&w, json_array_get(records, i)), 0);
        assert_return_code(why_explain(&w, &(AdviceContext){ .policy = p, .own = l }, &out), 0);
        return buf_take_string(&out);
}

static void expect_in(const char *text, const char *want)
{
        if (!strstr(text, want))
                fail_msg("wanted: %s\ngot: %s", want, text);
}

static void expect_not_in(const char *text, const char *bad)
{
        if (strstr(text, bad))
                fail_msg("not wanted: %s\ngot: %s", bad, text);
}

static void test_ends(void **state)
{
        static const struct {
                const char *records, *want;
        } rows[] = {
                { ENDED("\"AGENTBOX_REASON\":\"oom\",\"AGENTBOX_MEMORY_PEAK\":\"268435456\""),
                                "[Limits]\n    Memory=512M\n" },
                { ENDED("\"AGENTBOX_REASON\":\"timeout\",\"AGENTBOX_WALL_USEC\":\"60000123\""),
                                "    Runtime=121s\n" },
                { ENDED("\"AGENTBOX_REASON\":\"output-limit\""), "[Limits] Output=" },
                { ENDED("\"AGENTBOX_REASON\":\"killed\""), "It was ended: killed on request.\n" },
                { ENDED("\"AGENTBOX_REASON\":\"killed\",\"AGENTBOX_MESSAGE\":\"its warden died (signal 9)\""),
                                "It was ended: its warden died (signal 9).\n" },
                { RECORD("tripwire", "\"AGENTBOX_REASON\":\"decoy\",\"AGENTBOX_DECOY\":\"/d\",\"AGENTBOX_COMM\":\"c\\u001b[2J\","
                                     "\"AGENTBOX_COUNT\":\"2\"") "," RECORD("tripwire",
                                  "\"AGENTBOX_REASON\":\"decoy\",\"AGENTBOX_DECOY\":\"/d\",\"AGENTBOX_COUNT\":\"5\"") "," EXITED("0"),
                                "Run r under policy p\nIt touched tripwires, which code that does only its work has no reason to:\n"
                                "  opened the decoy /d, as c\\x1b[2J (7 times)\n" },
                { RECORD("tripwire", "\"AGENTBOX_REASON\":\"metadata\",\"AGENTBOX_COUNT\":\"1\"") "," EXITED("0"),
                                "  tried a cloud's metadata service\n" },
                { EXITED("3"), "the cause lies in the program itself" },
                { EXITED("0"), "nothing was denied" },
                { ENDED("\"AGENTBOX_REASON\":\"signal\",\"AGENTBOX_SIGNAL\":\"11\""),
                                "Signal 11 (SIGSEGV)" },
                { ENDED("\"AGENTBOX_REASON\":\"signal\",\"AGENTBOX_SIGNAL\":\"31\""), "[Syscalls]" },
                { RECORD("run-unverified", "\"AGENTBOX_BROKEN\":\"memory-limit: x\\nuid: y\""), "  memory-limit: x\n  uid: y\n" },
                { RECORD("run-refused", "\"AGENTBOX_REASON\":\"no policy \\u001b[2J\""),
                                "no policy \\x1b[2J" },
                { RECORD("run-refused", "\"AGENTBOX_REASON\":\"a:1:1: x\\nb:2:1: y\""), "It was refused:\n  a:1:1: x\n  b:2:1: y\n" },
                { RECORD("run-started", "\"MESSAGE\":\"x\""), "still runs" },
                { RECORD("syscall-denied", "\"AGENTBOX_SYSCALL\":\"ptrace\",\"AGENTBOX_COUNT\":\"3\","
                                           "\"MESSAGE\":\"ptrace denied\"") "," RECORD("syscall-denied",
                                  "\"AGENTBOX_SYSCALL\":\"ptrace\",\"AGENTBOX_COUNT\":"
                                  "\"4\",\"MESSAGE\":\"ptrace denied\""),
                                "  system call ptrace (7 times)\n    [Syscalls]\n    Allow=ptrace\n"
                                "    That opens to every program of such runs: looking into other processes.\n" },
                { RECORD("syscall-denied", "\"AGENTBOX_SYSCALL\":\"socket\",\"MESSAGE\":\"socket denied\""),
                                "  system call socket\n    no policy can allow it with these arguments\n" },
                { RECORD("syscall-denied", "\"AGENTBOX_SYSCALL\":\"mount\",\"MESSAGE\":\"mount denied\""),
                                "  system call mount\n    no policy can allow it" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_free_ char *text = why(rows[i].records, NULL);

                expect_in(text, rows[i].want);
                expect_not_in(text, "network");
        }
}

/* One record, and the line that would have allowed it (NULL: none may be there) and a part of what is said. */
static void test_lines(void **state)
{
        static const char policy[] = "[Network]\nAllow=tls x.example\nEgressBytes=1M\nConnections=6000\n";
        static const struct {
                const char *record, *line, *says;
        } rows[] = {
                { TO_NAME("evil.example", "dns", "no-rule", "53"), "Allow=tls evil.example:443",
                                "for plain HTTP the line is" },
                { TO_NAME("1.2.evil.example", "dns", "no-rule", "53"), "Allow=tls 1.2.evil.example:443", "very name" },
                { TO_NAME("x.example", "tls", "no-rule", "8443"), "Allow=tls x.example:8443", "opens TLS" },
                { TO_ADDRESS("1.2.3.4", "tcp", "no-rule", "443"), "Allow=tcp 1.2.3.4:443", "any bytes" },
                { TO_ADDRESS("10.0.0.1", "tcp", "no-rule", "5432"), "Allow=tcp 10.0.0.1:5432", "any bytes" },
                { TO_ADDRESS("::ffff:1.2.3.4", "tcp", "no-rule", "22"), "Allow=tcp 1.2.3.4:22", "any bytes" },
                { TO_ADDRESS("2001:db8::1", "tcp", "no-rule", "22"), "Allow=tcp [2001:db8::1]:22", "any bytes" },
                { TO_NAME("x.example", "tcp", "port", "80"), "Allow=http x.example:80", "another port" },
                { TO_NAME("x.example", "tcp", "port", "22"), "Allow=tcp x.example:22", "to any bytes" },
                { TO_NAME("x.example", "tls", "sni-mismatch", "443", ASKED("y.example") RULE("tls x.example")),
                                "Allow=tls y.example:443", "another name than the one that was looked up: y.example" },
                { TO_NAME("x.example", "tls", "sni-mismatch", "443", ASKED("a\\\\x1b.example")), NULL,
                                "The name that was asked for" },
                { TO_NAME("x.example", "tls", "sni-mismatch", "443", ASKED("metadata.google.internal")), NULL,
                                "or no rule can have it" },
                { TO_NAME("x.example", "http", "host-mismatch", "80", ASKED("y.example")), "Allow=http y.example:80",
                                "another host" },
                { TO_NAME("x.example", "tls", "sni-bad", "443"), "Allow=tcp x.example:443", "not checked any more" },
                { TO_NAME("x.example", "tls", "ech", "443", RULE("tls x.example")), "Allow=tls x.example ech=allow",
                                "front" },
                { TO_NAME("x.example", "tls", "ech", "443", RULE("tls x.example ech=allow")), NULL, "No line" },
                { TO_NAME("x.example", "tls", "not-tls", "443"), "Allow=tcp x.example:443", "http rule is narrower" },
                { TO_NAME("x.example", "http", "bad-request", "80"), "Allow=tcp x.example:80", "unread" },
                { TO_NAME("x.example", "http", "too-large", "80"), "Allow=tcp x.example:80", "unread" },
                { TO_NAME("x.example", "tls", "addr-blocked", "443", RULE("tls *.example") ADDR("10.1.2.3")),
                                "Allow=tls *.example private=allow", "mirror of one's own" },
                { TO_NAME("x.example", "tls", "addr-blocked", "443", RULE("tls x.example") ADDR("127.0.0.1")), NULL,
                                "neither public nor private" },
                { TO_NAME("x.example", "tls", "addr-blocked", "443", RULE("tls x.example") ADDR("203.0.113.5")), NULL,
                                "this host is not" },
                { TO_NAME("x.example", "tls", "host-local", "443", RULE("tls x.example")), NULL, "this host" },
                { TO_ADDRESS("203.0.113.5", "tcp", "no-rule", "22"), NULL, "address of this host itself" },
                { TO_ADDRESS("240.0.0.1", "tcp", "no-rule", "22"), NULL, "No line can allow it" },
                { TO_ADDRESS("198.18.1.1", "tcp", "no-mapping", "443"), NULL, "looked up in the run" },
                { TO_NAME("x.example", "tls", "resolve-failed", "443"), NULL, "cannot resolve" },
                { TO_NAME("x.example", "tls", "connect-failed", "443"), NULL, "did not answer" },
                { TO_NAME("x.example", "tls", "proxy-failed", "443"), NULL, "agentbox.conf" },
                { TO_NAME("x.example", "tls", "timeout", "443"), NULL, "ten seconds" },
                { TO_NAME("x.example", "tls", "limit", "443"), "Connections=8192", "too many connections" },
                { TO_NAME("x.example", "dns", "limit", "53"), NULL, "under a wildcard" },
                { TO_NAME("x.example", "tls", "bytes-limit", "443"), "EgressBytes=2M", "send more" },
                { TO_NAME("x.example", "tls", "no-journal", "443"), NULL, "systemd-journald" },
                { TO_NAME("x.example", "dns", "dns-type", "53"), NULL, "nothing to allow" },
                { TO_NAME("\\\\000", "dns", "malformed", "53"), NULL, "nothing to allow" },
                { TO_ADDRESS("1.2.3.4", "udp", "no-rule", "443"), NULL, "fall back to TCP" },
                { TO_ADDRESS("1.2.3.4", "udp", "no-rule", "123"), NULL, "clock" },
                { TO_ADDRESS("1.2.3.4", "udp", "no-rule", "4500"), NULL, "only TCP" },
                { TO_ADDRESS("1.2.3.4", "icmp", "no-rule", "0"), NULL, "ping" },
                { TO_ADDRESS("169.254.169.254", "tcp", "metadata", "80"), NULL, "hands credentials" },
                { TO_ADDRESS("169.254.169.254", "tcp", "no-rule", "80"), NULL, "No line can allow it" },
                { TO_NAME("metadata.google.internal", "dns", "no-rule", "53"), NULL, "No line can allow it" },
                { TO_NAME("_x._tcp.evil.example", "dns", "no-rule", "53"), NULL, "No line can allow it" },
                { TO_NAME("*", "dns", "no-rule", "53"), NULL, "not recorded one by one" },
                { RECORD("egress-denied", "\"AGENTBOX_REASON\":\"warden-lost\",\"AGENTBOX_COUNT\":\"7\""), NULL,
                                "(7 attempts)" },
                { RECORD("egress-denied", "\"AGENTBOX_REASON\":\"of-a-later-version\""), NULL, "says no more" },
                { RECORD("egress-denied", "\"MESSAGE\":\"x\""), NULL, "says no more" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_free_ char *text = why(rows[i].record, policy), *line = NULL, *flat = strdup(text);

                /* Lines of text are broken anywhere. */
                for (char *c = flat; *c; c++)
                        if (*c == '\n')
                                while (c[1] == ' ')
                                        memmove(c, c + 1, strlen(c));
                expect_in(flat, rows[i].says);
                if (rows[i].line) {
                        assert_true(asprintf(&line, "\n      %s\n", rows[i].line) > 0);
                        expect_in(text, line);
                } else
                        expect_not_in(text, "\n      ");
        }
}

/* Every line that is proposed for [Network] is one that a policy can have. */
static void test_lines_parse(void **state)
{
        static const char *const names[] = { "evil.example", "a.b", "1.2.3.4", "localhost", "metadata.goog", "x_y.example", "*",
                "", "a..b", "xn--a.example", "-a.example", "x.example private=allow", "x\\ny" };
        static const char *const protos[] = { "tls", "http", "tcp", "udp", "dns", "icmp", "other", "new" };
        static const char *const reasons[] = { "no-rule", "port", "sni-mismatch", "sni-bad", "ech", "not-tls", "bad-request",
                "host-mismatch", "addr-blocked", "limit", "metadata" };

        for (size_t i = 0; i < ELEMENTSOF(names) * ELEMENTSOF(protos) * ELEMENTSOF(reasons) * 2; i++) {
                const char *name = names[i % ELEMENTSOF(names)];
                const char *proto = protos[i / ELEMENTSOF(names) % ELEMENTSOF(protos)];
                const char *reason = reasons[i / ELEMENTSOF(names) / ELEMENTSOF(protos) % ELEMENTSOF(reasons)];
                EgressGroup g = { .name = i % 2 ? (char *) name : NULL, .address = (char *) name, .asked = (char *) name,
                        .proto = (char *) proto, .reason = (char *) reason, .rule = (char *) "tls *.example", .port = 443,
                        .n_names = i / 2 % 3 };
                _cleanup_policy_ Policy *p = NULL;
                _cleanup_free_ char *text = NULL;
                _cleanup_advice_ Advice a = {};

                assert_return_code(egress_advise(&g, &(AdviceContext){}, &a), 0);
                assert_true(a.fact && *a.fact && a.meaning && *a.meaning);
                if (!a.line)
                        continue;
                assert_true(asprintf(&text, "[Network]\n%s\n", a.line) > 0);
                p = policy_of(text);
                expect_not_in(a.line, "metadata");
        }
}

/* A run as it was recorded: pip under a policy without an index, and what else it did. */
static void test_whole(void **state)
{
        static const char records[] =
                        RECORD("run-started", "\"MESSAGE\":\"started\"") ","
                        TO_ADDRESS("169.254.169.254", "tcp", "metadata", "80", COUNT("3")) ","
                        TO_NAME("index.example.org", "dns", "no-rule", "53", COUNT("2")) ","
                        TO_ADDRESS("192.0.2.77", "tcp", "no-rule", "5432") ","
                        TO_ADDRESS("192.0.2.78", "udp", "no-rule", "443") ","
                        TO_NAME("index.example.org", "dns", "no-rule", "53", COUNT("8")) ","
                        TO_NAME("mirror.example.net", "tls", "addr-blocked", "443",
                                        RULE("tls mirror.example.net") ADDR("10.20.0.7")) ","
                        TO_NAME("x.example", "tls", "sni-mismatch", "443", ASKED("index.example.org")) ","
                        EXITED("1");
        static const char want[] =
                        "Run r under policy p\n"
                        "It exited with status 1 by itself.\n"
                        "Refused of the network: 17 attempts, the likeliest cause first. Each line\n"
                        "belongs into [Network] of the policy and is the smallest that would have allowed\n"
                        "what stands above it.\n"
                        "\n"
                        "  mirror.example.net:443 (1 attempt)\n"
                        "    it leads to a private or special address\n"
                        "      Allow=tls mirror.example.net private=allow\n"
                        "    It lets the name lead into private networks, as a mirror of one's own does.\n"
                        "    Whoever answers for the name then chooses where in them.\n"
                        "\n"
                        "  index.example.org (11 attempts)\n"
                        "    its name was looked up, and no rule names it\n"
                        "    the handshake asked for another name than the one that was looked up:\n"
                        "    index.example.org\n"
                        "      Allow=tls index.example.org:443\n"
                        "    It opens TLS to this very name; for plain HTTP the line is Allow=http\n"
                        "    index.example.org:80.\n"
                        "\n"
                        "  192.0.2.77:5432 (1 attempt)\n"
                        "    no rule names it\n"
                        "      Allow=tcp 192.0.2.77:5432\n"
                        "    It opens this address at this port, to any bytes. Where the program could go\n"
                        "    by a name, a rule with the name says more.\n"
                        "\n"
                        "  192.0.2.78:443 (1 attempt)\n"
                        "    QUIC, which is HTTP over UDP\n"
                        "    There is nothing to allow: programs fall back to TCP by themselves.\n"
                        "\n"
                        "  169.254.169.254:80 (3 attempts)\n"
                        "    a cloud metadata service\n"
                        "    Nothing can allow it: it hands credentials of this machine to whoever asks.\n"
                        "    The clouds' own libraries ask when they find no others; where none is in\n"
                        "    use, look at what the run was given to execute.\n";
        _cleanup_free_ char *text = why(records, "[Network]\nAllow=tls mirror.example.net\n");
        size_t same = 0;

        while (text[same] && text[same] == want[same])
                same++;
        if (!streq(text, want))
                fail_msg("wanted: ...%s\ngot: ...%s", want + same, text + same);
        for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
                assert_true(strcspn(line, "\n") <= 80);
}

/* What nothing can allow is said once, with the first few of its destinations. */
static void test_said_once(void **state)
{
        _cleanup_free_ char *text = why(
                        TO_ADDRESS("169.254.169.254", "tcp", "metadata", "80") "," TO_ADDRESS("fd00:ec2::254", "tcp", "metadata",
                                        "80", COUNT("3")) "," TO_NAME("metadata.google.internal", "dns", "metadata", "53") "," TO_ADDRESS(
                                        "100.100.100.200", "tcp", "metadata", "80") "," TO_ADDRESS("168.63.129.16", "tcp",
                                        "metadata", "80") "," TO_ADDRESS("192.0.2.1", "tcp", "no-rule",
                                        "22") "," TO_ADDRESS("192.0.2.2", "tcp", "no-rule", "22"),
                        NULL);

        expect_in(text, "\n  169.254.169.254:80, 168.63.129.16:80, 100.100.100.200:80,\n"
                        "  metadata.google.internal and 1 more (7 attempts)\n    a cloud metadata service\n");
        expect_in(text, "\n  192.0.2.1:22 (1 attempt)\n");
        expect_in(text, "\n  192.0.2.2:22 (1 attempt)\n");
}

static void test_no_warden(void **state)
{
        _cleanup_free_ char *none = why(EXITED("1"), "[Network]\nEgress=none\n"),
                            *open = why(EXITED("1"), "[Network]\nEgress=open\n"),
                            *filtered = why(EXITED("1"), ""), *fine = why(EXITED("0"), "[Network]\nEgress=none\n");

        expect_in(none, "no network but its own loopback (Egress=none); what it tried to reach is not on record");
        expect_in(open, "less the metadata services (Egress=open)");
        expect_not_in(filtered, "on record");
        expect_not_in(fine, "on record");
}

static void test_allowed_now(void **state)
{
        _cleanup_free_ char *text = why(TO_NAME("a.x.example", "dns", "no-rule", "53"), "[Network]\nAllow=tls *.x.example\n");

        expect_in(text, "The policy has this line, or a wider one, by now");
        expect_not_in(text, "It opens");
}

/* Thousands of names below one domain: one group, an exact sum, and a bound on what is printed and kept. */
static void test_tunnel(void **state)
{
        enum { NAMES = 5000 };
        _cleanup_why_ Why w = {};
        _cleanup_buf_ Buf out = {};
        size_t lines = 0;

        for (int i = 0; i < NAMES; i++) {
                char name[64];
                _cleanup_json_ json_t *record = NULL;

                snprintf(name, sizeof(name), "%x.%s", i * 7919, i < 1000 ? "t.evil.example" : "other.example");
                record = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s}", "AGENTBOX_RUN_ID", "r", "AGENTBOX_EVENT", "egress-denied",
                                "AGENTBOX_DEST_NAME", name, "AGENTBOX_PROTO", "dns", "AGENTBOX_REASON", "no-rule",
                                "AGENTBOX_COUNT", "2");
                assert_return_code(why_take(&w, record), 0);
        }
        assert_int_equal(w.egress.n, EGRESS_GROUPS_MAX);
        assert_int_equal(w.egress.count, 2 * NAMES);
        assert_return_code(why_explain(&w, &(AdviceContext){}, &out), 0);
        expect_in((char *) out.data, "1000 names below t.evil.example (2000 attempts)");
        expect_in((char *) out.data, "1048 names below other.example (2096 attempts)");
        expect_in((char *) out.data, "      Allow=tls *.t.evil.example:443\n");
        expect_in((char *) out.data, "And 5904 attempts more: agentbox log --denied r\n");
        for (const char *c = (char *) out.data; *c; c++)
                lines += *c == '\n';
        assert_true(lines < 40);
}

/* A few names, and names without a domain above that is anybody's, stay what they are. */
static void test_no_tunnel(void **state)
{
        _cleanup_free_ char *few = why(TO_NAME("a.x.example", "dns", "no-rule", "53") "," TO_NAME("b.x.example", "dns",
                                                        "no-rule", "53"),
                        NULL);
        _cleanup_why_ Why w = {};
        _cleanup_buf_ Buf out = {};

        expect_in(few, "Allow=tls a.x.example:443");
        expect_in(few, "Allow=tls b.x.example:443");
        for (int i = 0; i < 50; i++) {
                char name[32];
                _cleanup_json_ json_t *record = NULL;

                snprintf(name, sizeof(name), "site%d.example", i);
                record = json_pack("{s:s,s:s,s:s,s:s}", "AGENTBOX_EVENT", "egress-denied", "AGENTBOX_DEST_NAME", name,
                                "AGENTBOX_PROTO", "dns", "AGENTBOX_REASON", "no-rule");
                assert_return_code(why_take(&w, record), 0);
        }
        assert_return_code(why_explain(&w, &(AdviceContext){}, &out), 0);
        expect_in((char *) out.data, "Allow=tls site49.example:443");
        expect_not_in((char *) out.data, "*.example");
        expect_in((char *) out.data, "And 30 attempts more");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_ends),
                cmocka_unit_test(test_lines),
                cmocka_unit_test(test_lines_parse),
                cmocka_unit_test(test_whole),
                cmocka_unit_test(test_said_once),
                cmocka_unit_test(test_no_warden),
                cmocka_unit_test(test_allowed_now),
                cmocka_unit_test(test_tunnel),
                cmocka_unit_test(test_no_tunnel),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
