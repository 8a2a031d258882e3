/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "wire/codec.h"
#include "wire/egress.h"
#include "wire/test-mutate.h"

#define S(s) ((char *) (s))

static EgressRule sample_rules[] = {
        { .kind = EGRESS_RULE_TLS, .text = S("tls github.com"), .name = S("github.com"), .port = 443 },
        { .kind = EGRESS_RULE_TLS, .text = S("tls *.example.org:8443 ech=allow private=allow"), .name = S("example.org"),
                        .wildcard = true, .port = 8443, .ech_allow = true, .private_allow = true },
        { .kind = EGRESS_RULE_HTTP, .text = S("http example.net"), .name = S("example.net"), .port = 80 },
        { .kind = EGRESS_RULE_TCP, .text = S("tcp xn--9ca.test:1 peer-first"), .name = S("xn--9ca.test"), .port = 1,
                        .peer_first = true },
        { .kind = EGRESS_RULE_TCP_ADDRESS, .text = S("tcp 192.0.2.77:5432"), .name = S(""),
                        .address = { AF_INET, { 192, 0, 2, 77 } }, .prefix_length = 32, .port = 5432 },
        { .kind = EGRESS_RULE_TCP_ADDRESS, .text = S("tcp [2001:db8::]/33:65535 peer-first"), .name = S(""),
                        .address = { AF_INET6, { 0x20, 0x01, 0x0d, 0xb8 } }, .prefix_length = 33, .port = 65535,
                        .peer_first = true },
};

/* Borrowed parts: never given to wardenspec_done(). */
static WardenSpec sample(void)
{
        return (WardenSpec){
                .run = S("4f7k2m9qxa"),
                .policy = S("python"),
                .digest = S("0123456789abcdef"),
                .unit = S("agentbox-4f7k2m9qxa.service"),
                .invocation_id = S("00112233445566778899aabbccddeeff"),
                .caller_uid = 1000,
                .rules = sample_rules,
                .n_rules = ELEMENTSOF(sample_rules),
                .egress_bytes = UINT64_MAX,
                .connections = 1024,
                .record_allowed = true,
                .record_calls = true,
                .kill_on_denied = true,
                .proxy_host = S("proxy.example"),
                .proxy_port = 3128,
                .has_nat64 = true,
                .nat64 = { 0x20, 0x01, 0x0d, 0xb8, 0x64 },
                .nat64_length = 40,
                .seed = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 },
        };
}

static void test_round_trip(void **state)
{
        WardenSpec in = sample(), out;
        _cleanup_buf_ Buf b = {};

        assert_int_equal(wardenspec_encode(&in, &b), 0);
        assert_int_equal(wardenspec_decode(b.data, b.size, &out), 0);
        assert_string_equal(in.run, out.run);
        assert_string_equal(in.policy, out.policy);
        assert_string_equal(in.digest, out.digest);
        assert_string_equal(in.unit, out.unit);
        assert_string_equal(in.invocation_id, out.invocation_id);
        assert_int_equal(in.caller_uid, out.caller_uid);
        assert_int_equal(in.n_rules, out.n_rules);
        for (uint32_t i = 0; i < in.n_rules; i++) {
                EgressRule *x = in.rules + i, *y = out.rules + i;

                assert_string_equal(x->text, y->text);
                assert_string_equal(x->name, y->name);
                assert_int_equal(x->kind, y->kind);
                assert_int_equal(x->wildcard, y->wildcard);
                assert_memory_equal(&x->address, &y->address, sizeof(x->address));
                assert_int_equal(x->prefix_length, y->prefix_length);
                assert_int_equal(x->port, y->port);
                assert_int_equal(x->ech_allow, y->ech_allow);
                assert_int_equal(x->private_allow, y->private_allow);
                assert_int_equal(x->peer_first, y->peer_first);
        }
        assert_true(in.egress_bytes == out.egress_bytes && in.connections == out.connections);
        assert_true(out.record_allowed && out.record_calls && out.kill_on_denied && out.has_nat64);
        assert_string_equal(in.proxy_host, out.proxy_host);
        assert_int_equal(in.proxy_port, out.proxy_port);
        assert_memory_equal(in.nat64, out.nat64, sizeof(in.nat64));
        assert_int_equal(in.nat64_length, out.nat64_length);
        assert_memory_equal(in.seed, out.seed, sizeof(in.seed));
        wardenspec_done(&out);
}

/* What the bytes are must not change without the magic number changing, too. */
static void test_golden(void **state)
{
        static const uint8_t golden[] = "ABW2"
                                        "\1\0\0\0r"
                                        "\1\0\0\0p"
                                        "\1\0\0\0d"
                                        "\1\0\0\0u"
                                        "\1\0\0\0i"
                                        "\xe8\3\0\0"
                                        "\1\0\0\0"
                                        "\3\5\0\0\0tcp x\0\0\0\0\0\2\xc0\0\2\x4d\0\0\0\0\0\0\0\0\0\0\0\0\x20\x38\x15\0\0\0\0\1"
                                        "\2\1\0\0\0\0\0\0"
                                        "\5\0\0\0"
                                        "\1\1\1"
                                        "\0\0\0\0\0\0\0\0"
                                        "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                                        "\1\2\3\4\5\6\7\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10";
        EgressRule rule = sample_rules[4];
        WardenSpec in = sample();
        _cleanup_buf_ Buf b = {};

        rule.text = S("tcp x");
        rule.peer_first = true;
        in.run = S("r"), in.policy = S("p"), in.digest = S("d"), in.unit = S("u"), in.invocation_id = S("i");
        in.rules = &rule, in.n_rules = 1;
        in.egress_bytes = 0x102, in.connections = 5;
        in.proxy_host = S(""), in.proxy_port = 0;
        in.has_nat64 = false, in.nat64_length = 0, memset(in.nat64, 0, sizeof(in.nat64));
        assert_int_equal(wardenspec_encode(&in, &b), 0);
        assert_int_equal(b.size, sizeof(golden) - 1);
        assert_memory_equal(b.data, golden, b.size);
}

static int encode_with(const WardenSpec *s)
{
        _cleanup_buf_ Buf b = {};

        return wardenspec_encode(s, &b);
}

static int encode_rule(EgressRule r)
{
        WardenSpec s = sample();

        s.rules = &r;
        s.n_rules = 1;
        return encode_with(&s);
}

/* A copy of a rule of the sample with one field changed. */
#define RULE(i, ...)                           \
        ({                                     \
                EgressRule r_ = sample_rules[i]; \
                __VA_ARGS__;                   \
                encode_rule(r_);               \
        })

/* The last rule counts as well as the first. */
static void test_each_rule(void **state)
{
        for (size_t i = 0; i < ELEMENTSOF(sample_rules); i++) {
                EgressRule rules[ELEMENTSOF(sample_rules)];
                WardenSpec s = sample();

                memcpy(rules, sample_rules, sizeof(rules));
                rules[i].port = 0;
                s.rules = rules;
                assert_int_equal(encode_with(&s), -EINVAL);
        }
}

static void test_rule_rules(void **state)
{
        static char *const bad_names[] = { S(""), S("."), S("a."), S(".a"), S("a..b"), S("A.b"), S("a_b.c"), S("-a.b"),
                S("a-.b"), S("*.a"), S("a b"), S("\xc3\xa9.test"), S("1.2.3.4"), S("127.1"), S("a.0x7f"), S("a.0x"), S("0"),
                S("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.b") };
        char longest[255];

        for (size_t i = 0; i < ELEMENTSOF(sample_rules); i++)
                assert_int_equal(encode_rule(sample_rules[i]), 0);
        for (size_t i = 0; i < ELEMENTSOF(bad_names); i++)
                if (RULE(0, r_.name = bad_names[i]) != -EINVAL)
                        fail_msg("%s", bad_names[i]);
        for (size_t i = 0; i < sizeof(longest); i++)
                longest[i] = i % 2 ? '.' : 'a';
        longest[253] = 0;
        assert_int_equal(RULE(0, r_.name = longest), 0);
        longest[253] = '.', longest[254] = 0;
        assert_int_equal(RULE(0, r_.name = longest), -EINVAL);
        assert_int_equal(RULE(0, r_.name = S("a.1a")), 0);

        assert_int_equal(RULE(0, r_.kind = _EGRESS_RULE_KIND_MAX), -EINVAL);
        assert_int_equal(RULE(0, r_.text = NULL), -EINVAL);
        assert_int_equal(RULE(0, r_.name = NULL), -EINVAL);
        assert_int_equal(RULE(0, r_.text = S("tls a\nb")), -EINVAL);
        assert_int_equal(RULE(0, r_.port = 0), -EINVAL);
        assert_int_equal(RULE(0, r_.peer_first = true), -EINVAL);
        assert_int_equal(RULE(2, r_.ech_allow = true), -EINVAL);
        assert_int_equal(RULE(0, r_.address.family = AF_INET), -EINVAL);
        assert_int_equal(RULE(0, r_.address.bytes[15] = 1), -EINVAL);
        assert_int_equal(RULE(0, r_.prefix_length = 1), -EINVAL);

        assert_int_equal(RULE(4, r_.name = S("a")), -EINVAL);
        assert_int_equal(RULE(4, r_.wildcard = true), -EINVAL);
        assert_int_equal(RULE(4, r_.private_allow = true), -EINVAL);
        assert_int_equal(RULE(4, r_.ech_allow = true), -EINVAL);
        assert_int_equal(RULE(4, r_.address.family = 0), -EINVAL);
        assert_int_equal(RULE(4, r_.prefix_length = 33), -EINVAL);
        assert_int_equal(RULE(4, r_.prefix_length = 31), -EINVAL); /* 77 is odd */
        assert_int_equal(RULE(4, r_.address.bytes[4] = 1), -EINVAL);
        assert_int_equal(RULE(5, r_.prefix_length = 129), -EINVAL);
        assert_int_equal(RULE(5, r_.address.bytes[4] = 0x40), -EINVAL); /* behind its 33 bits */
        assert_int_equal(RULE(5, r_.address.bytes[4] = 0x80), 0);
}

static void test_spec_rules(void **state)
{
        static char *const bad_hosts[] = { S("Proxy"), S("a b"), S("300.1.2.3"), S("10.1"), S("[::1]"), S("fe80::1%lo"),
                S("http://proxy"), S("proxy:1") };
        static char *const good_hosts[] = { S("proxy"), S("10.0.0.1"), S("2001:db8::1") };
        static const uint8_t lengths[] = { 32, 40, 48, 56, 64, 96 };
        WardenSpec s;
        char text[257];

        memset(text, 'x', sizeof(text));
        text[256] = 0;
        s = sample(), s.run = NULL, assert_int_equal(encode_with(&s), -EINVAL);
        s = sample(), s.run = S(""), assert_int_equal(encode_with(&s), -EINVAL);
        s = sample(), s.policy = NULL, assert_int_equal(encode_with(&s), -EINVAL);
        s = sample(), s.unit = S("a\tb"), assert_int_equal(encode_with(&s), -EINVAL);
        s = sample(), s.digest = text, assert_int_equal(encode_with(&s), -E2BIG);
        text[255] = 0;
        assert_int_equal(encode_with(&s), 0);
        s = sample(), s.connections = 0, assert_int_equal(encode_with(&s), -EINVAL);
        s = sample(), s.record_calls = false, assert_int_equal(encode_with(&s), -EINVAL);
        s = sample(), s.n_rules = WARDENSPEC_RULES_MAX + 1, assert_int_equal(encode_with(&s), -E2BIG);
        s = sample(), s.rules = NULL, s.n_rules = 0, assert_int_equal(encode_with(&s), 0);

        s = sample(), s.proxy_host = NULL, assert_int_equal(encode_with(&s), -EINVAL);
        s = sample(), s.proxy_host = S(""), assert_int_equal(encode_with(&s), -EINVAL);
        s.proxy_port = 0, assert_int_equal(encode_with(&s), 0);
        s = sample(), s.proxy_port = 0, assert_int_equal(encode_with(&s), -EINVAL);
        for (size_t i = 0; i < ELEMENTSOF(bad_hosts); i++) {
                s = sample(), s.proxy_host = bad_hosts[i];
                if (encode_with(&s) != -EINVAL)
                        fail_msg("%s", bad_hosts[i]);
        }
        for (size_t i = 0; i < ELEMENTSOF(good_hosts); i++) {
                s = sample(), s.proxy_host = good_hosts[i];
                assert_int_equal(encode_with(&s), 0);
        }

        for (unsigned length = 0; length < 256; length++) {
                s = sample(), s.nat64_length = (uint8_t) length;
                memset(s.nat64 + 4, 0, 12);
                assert_int_equal(encode_with(&s), memchr(lengths, (int) length, sizeof(lengths)) ? 0 : -EINVAL);
        }
        s = sample(), s.nat64[5] = 1, assert_int_equal(encode_with(&s), -EINVAL);
        s = sample(), s.nat64_length = 96, s.nat64[8] = 1, assert_int_equal(encode_with(&s), -EINVAL);
        s = sample(), s.has_nat64 = false, assert_int_equal(encode_with(&s), -EINVAL);
        s.nat64_length = 0, assert_int_equal(encode_with(&s), -EINVAL);
        memset(s.nat64, 0, sizeof(s.nat64)), assert_int_equal(encode_with(&s), 0);
}

/* As many rules as there may be, and as many bytes. */
static void test_bounds(void **state)
{
        EgressRule *rules = calloc(WARDENSPEC_RULES_MAX, sizeof(*rules));
        WardenSpec in = sample(), out;
        _cleanup_buf_ Buf b = {};
        char text[512];

        for (size_t i = 0; i < WARDENSPEC_RULES_MAX; i++)
                rules[i] = sample_rules[i % ELEMENTSOF(sample_rules)];
        in.rules = rules, in.n_rules = WARDENSPEC_RULES_MAX;
        assert_int_equal(wardenspec_encode(&in, &b), 0);
        assert_int_equal(wardenspec_decode(b.data, b.size, &out), 0);
        assert_int_equal(out.n_rules, WARDENSPEC_RULES_MAX);
        wardenspec_done(&out);
        buf_done(&b);

        memset(text, 'x', sizeof(text));
        text[511] = 0;
        for (size_t i = 0; i < WARDENSPEC_RULES_MAX; i++)
                rules[i].text = text;
        assert_int_equal(wardenspec_encode(&in, &b), -E2BIG);
        free(rules);
}

static void test_hostile(void **state)
{
        static const uint8_t many[] = "ABW1\1\0\0\0r\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x20\0\0"; /* 8192 rules */
        WardenSpec in = sample(), out;
        _cleanup_buf_ Buf b = {};

        memset(&out, 0x5a, sizeof(out));
        assert_int_equal(wardenspec_decode(many, sizeof(many) - 1, &out), -EBADMSG);
        assert_int_equal(wardenspec_encode(&in, &b), 0);
        for (size_t i = 0; i < b.size; i++) {
                uint8_t *exact = malloc(i + 1);

                memcpy(exact, b.data, i);
                assert_int_equal(wardenspec_decode(exact, i, &out), -EBADMSG);
                free(exact);
        }
        buf_u8(&b, 0);
        assert_int_equal(wardenspec_decode(b.data, b.size, &out), -EBADMSG);
        for (size_t i = 0; i < sizeof(out); i++) /* untouched on failure */
                assert_int_equal(((uint8_t *) &out)[i], 0x5a);
}

static int decode_spec(const void *p, size_t n)
{
        WardenSpec s;
        Buf b = {};
        int r = wardenspec_decode(p, n, &s);

        if (r < 0)
                return r;
        /* What is accepted has one form only. */
        assert_int_equal(wardenspec_encode(&s, &b), 0);
        assert_int_equal(b.size, n);
        assert_memory_equal(b.data, p, n);
        buf_done(&b);
        wardenspec_done(&s);
        return 0;
}

/* Every single bit changed: refused, or the one form of another good message. */
static void flip_bits(Buf *b, int (*decode)(const void *, size_t))
{
        size_t accepted = 0;

        for (size_t i = 0; i < b->size * 8; i++) {
                int r;

                b->data[i / 8] ^= (uint8_t) (1u << i % 8);
                r = decode(b->data, b->size);
                assert_true(r == 0 || r == -EBADMSG);
                accepted += r == 0;
                b->data[i / 8] ^= (uint8_t) (1u << i % 8);
        }
        assert_true(accepted > 0 && accepted < b->size * 8);
}

static void test_spec_mutations(void **state)
{
        WardenSpec in = sample();
        _cleanup_buf_ Buf b = {};

        assert_int_equal(wardenspec_encode(&in, &b), 0);
        flip_bits(&b, decode_spec);
        mutate(b.data, b.size, 100000, decode_spec);
}

static void test_hello(void **state)
{
        static const uint8_t golden[] = "ABH1"
                                        "\1\0\0\0\2\0\0\0"
                                        "\3\0\0\0\0\0\0\0"
                                        "\1\2"
                                        "\4\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0"
                                        "\7\0\0\0\x08\0\0\0\x09\0\0\0"
                                        "\x0a\0\0\0\0\0\0\0\x0b\0\0\0\0\0\0\x80";
        WardenHello in = { 1, 2, 3, true, 2, 4, 5, 6, 7, 8, 9, 10, 11 | (uint64_t) 1 << 63 }, out, kept;
        _cleanup_buf_ Buf b = {};

        assert_int_equal(wardenhello_encode(&in, &b), 0);
        assert_int_equal(b.size, sizeof(golden) - 1);
        assert_memory_equal(b.data, golden, b.size);
        memset(&out, 0x5a, sizeof(out));
        memcpy(&kept, &out, sizeof(out));
        for (size_t i = 0; i < b.size; i++)
                assert_int_equal(wardenhello_decode(b.data, i, &out), -EBADMSG);
        b.data[20] = 2; /* a bool */
        assert_int_equal(wardenhello_decode(b.data, b.size, &out), -EBADMSG);
        assert_memory_equal(&out, &kept, sizeof(out));
        b.data[20] = 1;
        assert_int_equal(wardenhello_decode(b.data, b.size, &out), 0);
        assert_true(out.uid == 1 && out.gid == 2 && out.capabilities == 3 && out.no_new_privileges &&
                    out.seccomp_mode == 2 && out.netns_inode == 4 && out.userns_inode == 5 && out.mntns_inode == 6 &&
                    out.n_fds == 7 && out.canary_loopback == 8 && out.canary_metadata == 9 && out.memory_limit == 10 &&
                    out.open_files_limit == in.open_files_limit);
        buf_u8(&b, 0);
        assert_int_equal(wardenhello_decode(b.data, b.size, &out), -EBADMSG);
}

static int decode_hello(const void *p, size_t n)
{
        WardenHello h;
        Buf b = {};
        int r = wardenhello_decode(p, n, &h);

        if (r < 0)
                return r;
        assert_int_equal(wardenhello_encode(&h, &b), 0);
        assert_int_equal(b.size, n);
        assert_memory_equal(b.data, p, n);
        buf_done(&b);
        return 0;
}

static void test_ready(void **state)
{
        static const uint8_t golden[] = "ABY1\15\0\0\0seccomp\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        WardenReady in = { .error = EACCES, .stage = "seccomp" }, out;
        _cleanup_buf_ Buf b = {}, c = {};

        assert_int_equal(wardenready_encode(&in, &b), 0);
        assert_int_equal(b.size, sizeof(golden) - 1);
        assert_memory_equal(b.data, golden, b.size);
        for (size_t i = 0; i < b.size; i++)
                assert_int_equal(wardenready_decode(b.data, i, &out), -EBADMSG);
        assert_int_equal(wardenready_decode(b.data, b.size, &out), 0);
        assert_int_equal(out.error, EACCES);
        assert_string_equal(out.stage, "seccomp");

        assert_int_equal(wardenready_encode(&(WardenReady){}, &c), 0);
        assert_int_equal(wardenready_decode(c.data, c.size, &out), 0);
        assert_int_equal(out.error, 0);
        assert_string_equal(out.stage, "");

        assert_int_equal(wardenready_encode(&(WardenReady){ .error = -1 }, &b), -EINVAL);
        assert_int_equal(wardenready_encode(&(WardenReady){ .error = 4096 }, &b), -EINVAL);
        assert_int_equal(wardenready_encode(&(WardenReady){ .stage = "x" }, &b), -EINVAL);
        assert_int_equal(wardenready_encode(&(WardenReady){ .error = 1, .stage = "a\nb" }, &b), -EINVAL);
        assert_int_equal(wardenready_encode(&(WardenReady){ .error = 1, .stage = "\nb" }, &b), -EINVAL);
        assert_int_equal(wardenready_encode(&(WardenReady){ .error = 1, .stage = "a\0b" }, &b), -EINVAL);
        memset(in.stage, 'x', sizeof(in.stage)); /* no end */
        assert_int_equal(wardenready_encode(&in, &b), -EINVAL);
}

static int decode_ready(const void *p, size_t n)
{
        WardenReady r;
        Buf b = {};
        int k = wardenready_decode(p, n, &r);

        if (k < 0)
                return k;
        assert_int_equal(wardenready_encode(&r, &b), 0);
        assert_int_equal(b.size, n);
        assert_memory_equal(b.data, p, n);
        buf_done(&b);
        return 0;
}

static void test_answer_mutations(void **state)
{
        _cleanup_buf_ Buf hello = {}, ready = {};

        assert_int_equal(wardenhello_encode(&(WardenHello){ .no_new_privileges = true }, &hello), 0);
        flip_bits(&hello, decode_hello);
        mutate(hello.data, hello.size, 20000, decode_hello);
        assert_int_equal(wardenready_encode(&(WardenReady){ .error = EACCES, .stage = "seccomp" }, &ready), 0);
        flip_bits(&ready, decode_ready);
        mutate(ready.data, ready.size, 20000, decode_ready);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_golden),
                cmocka_unit_test(test_each_rule),
                cmocka_unit_test(test_rule_rules),
                cmocka_unit_test(test_spec_rules),
                cmocka_unit_test(test_bounds),
                cmocka_unit_test(test_hostile),
                cmocka_unit_test(test_spec_mutations),
                cmocka_unit_test(test_hello),
                cmocka_unit_test(test_ready),
                cmocka_unit_test(test_answer_mutations),
        };

        return cmocka_run_group_tests_name("egress", tests, NULL, NULL);
}
