/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "test-dns-harness.h"
#include "warden/test-corpus.h"

/* Messages of every form, and those that are none. */

/* ---- what is no question */

static void expect_error(Decider *d, const Buf *b, unsigned rcode)
{
        DnsAnswer a;
        Parsed r = ask(d, b, &a);

        assert_int_equal(a.reason, EGRESS_MALFORMED);
        assert_int_equal(a.size, 12);
        assert_int_equal(r.rcode, rcode);
        assert_false(r.question || r.opt);
}

static void test_dropped(void **state)
{
        _cleanup_buf_ Buf b = {};
        DnsAnswer a;

        put_header(&b, 0x8100, 1, 0, 0, 0);
        put_question(&b, "github.com", A, IN);
        ask(*state, &b, &a);
        assert_int_equal(a.size, 0);
        assert_int_equal(a.reason, EGRESS_MALFORMED);
        b.data[2] = 1;
        for (size_t n = 0; n < 12; n++) {
                b.size = n;
                ask(*state, &b, &a);
                assert_int_equal(a.size, 0);
                assert_int_equal(a.reason, EGRESS_MALFORMED);
                assert_string_equal(a.name, "");
        }
        b.size = 12;
        expect_error(*state, &b, FORMERR);
}

static void test_opcodes(void **state)
{
        for (unsigned opcode = 1; opcode < 16; opcode++) {
                _cleanup_buf_ Buf b = {};
                DnsAnswer a;
                Parsed r;

                put_header(&b, opcode << 11 | 0x0110, 1, 0, 3, 0);
                put_question(&b, "GitHub.com", SOA, IN);
                expect_error(*state, &b, NOTIMP);
                r = ask(*state, &b, &a);
                assert_int_equal(r.flags, 0x8194 | opcode << 11); /* RD and CD come back */
                assert_string_equal(a.name, "github.com");        /* for the record */
                assert_int_equal(a.type, SOA);
                b.size = 12;
                expect_error(*state, &b, NOTIMP);
        }
}

static void test_counts(void **state)
{
        static const unsigned rows[][4] = { { 0, 0, 0, 0 }, { 2, 0, 0, 0 }, { 65535, 0, 0, 0 }, { 1, 1, 0, 0 },
                { 1, 0, 1, 0 }, { 1, 0, 0, 1 }, { 1, 0, 0, 2 }, { 257, 0, 0, 0 }, { 1, 256, 0, 0 }, { 1, 0, 0, 257 } };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_buf_ Buf b = {};

                put_header(&b, 0, rows[i][0], rows[i][1], rows[i][2], rows[i][3]);
                put_question(&b, "github.com", A, IN);
                expect_error(*state, &b, FORMERR);
                /* Another question behind it helps nobody. */
                put_question(&b, "evil.example", A, IN);
                expect_error(*state, &b, FORMERR);
        }
}

static void test_names(void **state)
{
        /* Compression: to itself, to and fro, to the header, at the end of a name; labels of other kinds. */
        static const struct {
                const char *bytes;
                size_t n;
        } rows[] = {
#define ROW(s) { s, sizeof(s) - 1 }
                ROW("\xc0\x0c\0\1\0\1"),
                ROW("\1a\xc0\x0c\0\1\0\1"),
                ROW("\xc0\x0e\xc0\x0c\0\1\0\1"),
                ROW("\xc0\0\0\1\0\1"),
                ROW("\xff\xff\0\1\0\1"),
                ROW("\6github\3com\xc0\x0c\0\1\0\1"),
                ROW("\x40" "a\0\0\1\0\1"),
                ROW("\x41\1a\0\0\1\0\1"),
                ROW("\x80" "a\0\0\1\0\1"),
                ROW("\6github\3com"),
                ROW("\6github\3com\0"),
                ROW("\6github\3com\0\0\1\0"),
                ROW("\6github\3co"),
                ROW("\6github\3com\0\0\1\0\1\0"),
                ROW("\6github\3com\0\0\1\0\1x"),
                ROW("\3abc"),
                ROW("\1a\0\1"),
                ROW(""),
                ROW("\0"),
#undef ROW
        };
        char label[65];

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_buf_ Buf b = {};

                put_header(&b, 0, 1, 0, 0, 0);
                buf_append(&b, rows[i].bytes, rows[i].n);
                expect_error(*state, &b, FORMERR);
        }
        memset(label, 'a', sizeof(label));
        label[63] = 0;
        expect(*state, label, A, NXDOMAIN, EGRESS_NO_RULE);
        label[63] = 'a', label[64] = 0;
        {
                _cleanup_buf_ Buf b = {};

                put_header(&b, 0, 1, 0, 0, 0);
                put_question(&b, label, A, IN);
                expect_error(*state, &b, FORMERR);
        }
}

/* 255 bytes are a name, 256 are none; as text the longest ones are cut where no byte is. */
static void test_long_names(void **state)
{
        char name[300];
        DnsAnswer a;

        for (size_t i = 0; i < 254; i++)
                name[i] = i % 2 ? '.' : 'b';
        name[253] = 0;
        ask_name(*state, name, A, &a);
        assert_int_equal(a.reason, EGRESS_NO_RULE);
        assert_string_equal(a.name, name);
        memcpy(name + 253 - strlen(".example.org"), ".example.org", sizeof(".example.org"));
        name[253 - strlen(".example.org") - 1] = 'b';
        ask_name(*state, name, A, &a);
        assert_int_equal(a.reason, EGRESS_OK);
        assert_string_equal(a.name, name);

        for (size_t n = 1; n < 9; n++) {
                _cleanup_buf_ Buf b = {};
                char want[300];
                size_t used = n + 1;

                /* Some letters, then bytes that nobody can print: as many whole ones as there is room for. */
                memset(name, 'a', n);
                memset(name + n + 1, 1, 63);
                name[n] = '.', name[n + 64] = 0;
                put_header(&b, 0, 1, 0, 0, 0);
                put_question(&b, name, A, IN);
                ask(*state, &b, &a);
                memcpy(want, name, used);
                for (size_t i = 0; i < 63 && used + 4 <= (n + 1 + 63 * 4 < DNS_NAME_TEXT_MAX ? 255u : 252u); i++, used += 4)
                        memcpy(want + used, "\\001", 5);
                strcpy(want + used, n + 1 + 63 * 4 < DNS_NAME_TEXT_MAX ? "" : "...");
                assert_int_equal(a.reason, EGRESS_NO_RULE);
                assert_string_equal(a.name, want);
        }
        memset(name, 'a', sizeof(name));
        for (size_t i = 1; i < 254; i += 2)
                name[i] = '.';
        name[254] = 'a', name[255] = 0; /* 128 labels: 257 bytes */
        {
                _cleanup_buf_ Buf b = {};

                put_header(&b, 0, 1, 0, 0, 0);
                put_question(&b, name, A, IN);
                expect_error(*state, &b, FORMERR);
        }
        name[253] = 'a', name[254] = 0; /* the last one of two: 256 */
        {
                _cleanup_buf_ Buf b = {};

                put_header(&b, 0, 1, 0, 0, 0);
                put_question(&b, name, A, IN);
                expect_error(*state, &b, FORMERR);
        }
}

static void test_text(void **state)
{
        static const struct {
                const char *label;
                size_t n;
                const char *text;
        } rows[] = {
                { "a.b", 3, "a\\046b.example.org" },       { "A\0B", 3, "a\\000b.example.org" },
                { "\xff\\\"", 3, "\\255\\092\\034.example.org" }, { "\n[", 2, "\\010\\091.example.org" },
                { "@`{", 3, "\\064\\096\\123.example.org" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_buf_ Buf b = {};
                DnsAnswer a;
                Parsed r;

                put_header(&b, 0, 1, 0, 0, 0);
                buf_u8(&b, (uint8_t) rows[i].n);
                buf_append(&b, rows[i].label, rows[i].n);
                put_question(&b, "Example.org", A, IN);
                r = ask(*state, &b, &a);
                assert_int_equal(r.rcode, NXDOMAIN);
                assert_int_equal(a.reason, EGRESS_NO_RULE);
                assert_string_equal(a.name, rows[i].text);
        }
}

static void test_edns(void **state)
{
        static const struct {
                const char *data;
                size_t n;
                bool good;
        } rows[] = {
                { "", 0, true },
                { "\0\12\0\0", 4, true },
                { "\0\12\0\x08" "12345678", 12, true }, /* a cookie */
                { "\0\12\0\0\0\x0c\0\2\0\0", 10, true },
                { "\0", 1, false },
                { "\0\12\0", 3, false },
                { "\0\12\0\1", 4, false },
                { "\0\12\0\x08" "1234567", 11, false },
                { "\0\12\xff\xff" "1234567", 11, false },
                { "\0\12\0\0\0", 5, false },
        };
        static const unsigned sizes[] = { 0, 1, 511, 512, 1232, 65535 };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                for (size_t k = 0; k < ELEMENTSOF(sizes); k++) {
                        _cleanup_buf_ Buf b = {};
                        DnsAnswer a;
                        Parsed r;

                        put_header(&b, 0, 1, 0, 0, 1);
                        put_question(&b, "github.com", A, IN);
                        put_opt(&b, sizes[k], 0, 0, rows[i].data, rows[i].n);
                        if (!rows[i].good) {
                                expect_error(*state, &b, FORMERR);
                                continue;
                        }
                        r = ask(*state, &b, &a);
                        assert_true(r.opt && !r.dnssec_ok && r.error == -1 && r.address_size == 4);
                        buf_u8(&b, 0);
                        expect_error(*state, &b, FORMERR);
                }
}

/* OPT of another version; more than one; not of the root; something else in its place; not announced. */
static void test_edns_other(void **state)
{
        _cleanup_buf_ Buf b = {};
        DnsAnswer a;
        Parsed r;

        for (unsigned version = 1; version < 256; version++) {
                buf_done(&b);
                put_header(&b, 0, 1, 0, 0, 1);
                put_question(&b, "github.com", A, IN);
                put_opt(&b, 1232, version, 0, "", 0);
                r = ask(*state, &b, &a);
                assert_int_equal(r.rcode, BADVERS);
                assert_int_equal(a.reason, EGRESS_MALFORMED);
                assert_true(r.question && r.opt && !r.soa && r.error == -1 && r.address_size == 0);
        }
        buf_done(&b);
        put_header(&b, 0, 1, 0, 0, 2);
        put_question(&b, "github.com", A, IN);
        put_opt(&b, 1232, 0, 0, "", 0);
        put_opt(&b, 1232, 0, 0, "", 0);
        expect_error(*state, &b, FORMERR);
        b.data[11] = 1;
        expect_error(*state, &b, FORMERR);
        b.data[11] = 0;
        expect_error(*state, &b, FORMERR);
        buf_done(&b);
        put_header(&b, 0, 1, 0, 0, 1);
        put_question(&b, "github.com", A, IN);
        buf_append(&b, "\1a\0\x29\4\xd0\0\0\0\0\0\0", 12);
        expect_error(*state, &b, FORMERR);
        buf_done(&b);
        put_header(&b, 0, 1, 0, 0, 1);
        put_question(&b, "github.com", A, IN);
        buf_append(&b, "\0\0\xfa\0\xff\0\0\0\0\0\0", 11); /* TSIG */
        expect_error(*state, &b, FORMERR);
}

/* Bits that a question need not have, and what comes back of them. */
static void test_flags(void **state)
{
        for (unsigned flags = 0; flags < 0x800; flags++) {
                _cleanup_buf_ Buf b = {};
                DnsAnswer a;
                Parsed r;

                put_header(&b, flags, 1, 0, 0, 0);
                put_question(&b, "github.com", A, IN);
                r = ask(*state, &b, &a);
                assert_int_equal(r.flags, 0x8080 | (flags & 0x0110));
                assert_int_equal(r.address_size, 4);
                assert_int_equal(a.reason, EGRESS_OK);
        }
}

/* The longest answers there are. */
static void test_size(void **state)
{
        char name[300];
        DnsAnswer a;
        Parsed r;

        memset(name, 'a', sizeof(name));
        for (size_t i = 63; i < 253; i += 64)
                name[i] = '.';
        name[253] = 0;
        r = ask_name(*state, name, A, &a);
        assert_int_equal(r.rcode, NXDOMAIN);
        assert_int_equal(a.size, 12 + 255 + 4 + 65 + 11 + 6 + strlen("agentbox: no-rule"));
}

/* Only a question for an address uses up a name of the pool. */
/* Whatever arrives, the answer is one: each byte of a good question changed in every way. */
static void test_mutations(void **state)
{
        _cleanup_buf_ Buf b = {};
        size_t good = 0;

        put_header(&b, 0x0100, 1, 0, 0, 1);
        put_question(&b, "a.example.org", AAAA, IN);
        put_opt(&b, 4096, 0, 0x8000, "\0\12\0\2ab", 6);
        for (size_t i = 2; i < b.size; i++) { /* not the id, which the reader of answers knows */
                uint8_t kept = b.data[i];

                for (unsigned v = 0; v < 256; v++) {
                        DnsAnswer a;

                        b.data[i] = (uint8_t) v;
                        good += ask(*state, &b, &a).address_size == 16;
                }
                b.data[i] = kept;
        }
        assert_true(good > 100);
        for (size_t n = b.size - 1; n >= 12; n--) {
                b.size = n;
                expect_error(*state, &b, FORMERR);
        }
}

static const char *top;

static void check_kept(const char *file, const uint8_t *p, size_t n, const char *want)
{
        _cleanup_(decider_freep) Decider *d = NULL;
        uint8_t answer[DNS_ANSWER_MAX];
        DnsAnswer a;

        assert_int_equal(decider_new(&dns_spec, &d), 0);
        dns_answer(d, p, n, answer, &a);
        if (!streq(verdict_text(a.reason), want))
                fail_msg("%s: %s", file, verdict_text(a.reason));
}

/* What clients really send, and what attackers may. */
static void test_kept(void **state)
{
        assert_true(corpus_each(top, "dns", check_kept) > 50);
}

int main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = {
                DNS_TEST(test_dropped),
                DNS_TEST(test_opcodes),
                DNS_TEST(test_counts),
                DNS_TEST(test_names),
                DNS_TEST(test_long_names),
                DNS_TEST(test_text),
                DNS_TEST(test_edns),
                DNS_TEST(test_edns_other),
                DNS_TEST(test_flags),
                DNS_TEST(test_size),
                DNS_TEST(test_mutations),
                cmocka_unit_test(test_kept),
        };

        if (argc != 2)
                return 2;
        top = argv[1];
        return cmocka_run_group_tests_name("dns-messages", tests, NULL, NULL);
}
