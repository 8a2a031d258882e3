/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/buf.h"
#include "warden/test-corpus.h"
#include "warden/warden-dns.h"

#define S(s) ((char *) (s))

enum { A = 1, NS = 2, CNAME = 5, SOA = 6, NULL_ = 10, PTR = 12, MX = 15, TXT = 16, AAAA = 28, SRV = 33, OPT = 41, DS = 43,
        DNSKEY = 48, TLSA = 52, SVCB = 64, HTTPS = 65, TSIG = 250, IXFR = 251, AXFR = 252, ANY = 255, CAA = 257 };
enum { NOERROR = 0, FORMERR = 1, NXDOMAIN = 3, NOTIMP = 4, BADVERS = 16, IN = 1, CH = 3 };

static EgressRule rules[] = {
        { .kind = EGRESS_RULE_TLS, .text = S("tls github.com"), .name = S("github.com"), .port = 443 },
        { .kind = EGRESS_RULE_TLS, .text = S("tls *.example.org"), .name = S("example.org"), .wildcard = true, .port = 443 },
        { .kind = EGRESS_RULE_HTTP, .text = S("http example.net"), .name = S("example.net"), .port = 80 },
        { .kind = EGRESS_RULE_TLS, .text = S("tls *.internal"), .name = S("internal"), .wildcard = true, .port = 443 },
};
static const WardenSpec spec = { .rules = rules, .n_rules = ELEMENTSOF(rules), .connections = 1, .seed = { 42 } };

static int setup(void **state)
{
        return decider_new(&spec, (Decider **) state);
}

static int teardown(void **state)
{
        decider_free(*state);
        return 0;
}

/* ---- questions */

static void put_u16(Buf *b, unsigned v)
{
        buf_u8(b, (uint8_t) (v >> 8));
        buf_u8(b, (uint8_t) v);
}

/* "a.b" as labels; "" and "." are the root. */
static void put_name(Buf *b, const char *name)
{
        while (*name && !streq(name, ".")) {
                size_t n = strcspn(name, ".");

                buf_u8(b, (uint8_t) n);
                buf_append(b, name, n);
                name += n + (name[n] == '.');
        }
        buf_u8(b, 0);
}

static void put_header(Buf *b, unsigned flags, unsigned questions, unsigned answers, unsigned authorities,
                unsigned additional)
{
        put_u16(b, 0xbeef);
        put_u16(b, flags);
        put_u16(b, questions);
        put_u16(b, answers);
        put_u16(b, authorities);
        put_u16(b, additional);
}

static void put_question(Buf *b, const char *name, unsigned type, unsigned class)
{
        put_name(b, name);
        put_u16(b, type);
        put_u16(b, class);
}

static void put_opt(Buf *b, unsigned size, unsigned version, unsigned flags, const char *data, size_t n)
{
        buf_u8(b, 0);
        put_u16(b, OPT);
        put_u16(b, size);
        put_u16(b, version);
        put_u16(b, flags);
        put_u16(b, (unsigned) n);
        buf_append(b, data, n);
}

/* ---- answers, read by rules of their own */

typedef struct Parsed {
        unsigned flags, rcode, type, class;
        bool question, opt, soa, dnssec_ok;
        size_t question_size;
        unsigned address_size; /* 0: no answer */
        uint8_t address[16];
        int error; /* of the extended one; -1 */
        char error_text[64];
} Parsed;

static unsigned get(const uint8_t **p, const uint8_t *end, size_t n)
{
        unsigned v = 0;

        assert_true((size_t) (end - *p) >= n);
        for (size_t i = 0; i < n; i++)
                v = v << 8 | *(*p)++;
        return v;
}

static void skip_name(const uint8_t **p, const uint8_t *end)
{
        for (unsigned n = get(p, end, 1); n > 0; n = get(p, end, 1)) {
                assert_true(n < 64 && (size_t) (end - *p) >= n);
                *p += n;
        }
}

static void parse_opt(Parsed *r, const uint8_t *p, const uint8_t *end)
{
        unsigned n;

        assert_int_equal(get(&p, end, 1), 0);
        assert_int_equal(get(&p, end, 2), OPT);
        assert_int_equal(get(&p, end, 2), 1232);
        r->rcode |= get(&p, end, 1) << 4;
        assert_int_equal(get(&p, end, 1), 0);
        n = get(&p, end, 2);
        assert_int_equal(n & 0x7fff, 0);
        r->dnssec_ok = n > 0;
        n = get(&p, end, 2);
        assert_int_equal(n, end - p);
        if (n > 0) {
                assert_int_equal(get(&p, end, 2), 15);
                n = get(&p, end, 2);
                assert_int_equal(n, end - p);
                r->error = (int) get(&p, end, 2);
                assert_true((size_t) (end - p) < sizeof(r->error_text));
                memcpy(r->error_text, p, (size_t) (end - p));
        }
        r->opt = true;
}

static void parse_soa(const uint8_t **p, const uint8_t *end)
{
        const uint8_t *data;
        unsigned n;

        assert_int_equal(get(p, end, 1), 0);
        assert_int_equal(get(p, end, 2), SOA);
        assert_int_equal(get(p, end, 2), IN);
        assert_true(get(p, end, 4) > 0);
        n = get(p, end, 2);
        data = *p;
        skip_name(p, end);
        skip_name(p, end);
        for (int i = 0; i < 5; i++)
                assert_true(get(p, end, 4) > 0);
        assert_int_equal(*p - data, n);
}

static Parsed parse(const uint8_t *message, size_t size)
{
        const uint8_t *p = message, *end = message + size;
        Parsed r = { .error = -1 };
        unsigned counts[4];

        assert_int_equal(get(&p, end, 2), 0xbeef);
        r.flags = get(&p, end, 2);
        r.rcode = r.flags & 0xf;
        for (int i = 0; i < 4; i++)
                assert_true((counts[i] = get(&p, end, 2)) <= 1);
        if (counts[0] > 0) {
                skip_name(&p, end);
                r.question = true;
                r.type = get(&p, end, 2);
                r.class = get(&p, end, 2);
                r.question_size = (size_t) (p - message) - 12;
        }
        if (counts[1] > 0) {
                assert_int_equal(get(&p, end, 2), 0xc00c);
                assert_int_equal(get(&p, end, 2), r.type);
                assert_int_equal(get(&p, end, 2), IN);
                assert_int_equal(get(&p, end, 4), 60);
                r.address_size = get(&p, end, 2);
                assert_int_equal(r.address_size, r.type == A ? 4 : 16);
                assert_true((size_t) (end - p) >= r.address_size);
                memcpy(r.address, p, r.address_size);
                p += r.address_size;
        }
        if (counts[2] > 0) {
                parse_soa(&p, end);
                r.soa = true;
        }
        if (counts[3] > 0)
                parse_opt(&r, p, end);
        else
                assert_ptr_equal(p, end);
        return r;
}

/* ---- asking */

/* What lies around the two buffers must stay as it is, and a sanitizer sees each byte too far of the question. */
static Parsed ask(Decider *d, const Buf *b, DnsAnswer *ret)
{
        uint8_t *exact = malloc(b->size + (b->size == 0)), answer[DNS_ANSWER_MAX + 16];
        Parsed r;

        memcpy(exact, b->data, b->size);
        memset(answer, 0x5a, sizeof(answer));
        dns_answer(d, exact, b->size, answer, ret);
        for (size_t i = DNS_ANSWER_MAX; i < sizeof(answer); i++)
                assert_int_equal(answer[i], 0x5a);
        assert_true(ret->size <= DNS_ANSWER_MAX);
        assert_true(ret->size == 0 || memcmp(answer, b->data, 2) == 0);
        assert_memory_equal(exact, b->data, b->size);
        r = ret->size > 0 ? parse(answer, ret->size) : (Parsed){};
        if (r.question) /* byte for byte */
                assert_memory_equal(answer + 12, b->data + 12, r.question_size);
        free(exact);
        return r;
}

/* Once without EDNS and once with: apart from that the two answers must be the same. */
static Parsed ask_name(Decider *d, const char *name, unsigned type, DnsAnswer *ret)
{
        _cleanup_buf_ Buf b = {}, with = {};
        Parsed r, s;

        put_header(&b, 0x0100, 1, 0, 0, 0);
        put_question(&b, name, type, IN);
        r = ask(d, &b, ret);
        assert_false(r.opt);
        assert_int_equal(r.flags & 0xfff0, 0x8180);
        put_header(&with, 0x0100, 1, 0, 0, 1);
        put_question(&with, name, type, IN);
        put_opt(&with, 1232, 0, 0x8000, "", 0);
        s = ask(d, &with, ret);
        assert_true(s.opt && s.dnssec_ok);
        assert_int_equal(r.rcode, s.rcode);
        assert_int_equal(r.address_size, s.address_size);
        assert_memory_equal(r.address, s.address, sizeof(r.address));
        assert_int_equal(r.soa, s.soa);
        assert_int_equal(r.soa, r.address_size == 0);
        assert_int_equal(s.error, ret->reason == EGRESS_OK ? -1 : 15);
        if (ret->reason != EGRESS_OK) {
                assert_memory_equal(s.error_text, "agentbox: ", 10);
                assert_string_equal(s.error_text + 10, egress_reason_to_string(ret->reason));
        }
        assert_int_equal(ret->type, type);
        return s;
}

static void expect(Decider *d, const char *name, unsigned type, unsigned rcode, EgressReason reason)
{
        DnsAnswer a;
        Parsed r = ask_name(d, name, type, &a);

        if (r.rcode != rcode || a.reason != reason || r.address_size > 0)
                fail_msg("%s type %u: rcode %u, %s, %u bytes", name, type, r.rcode, egress_reason_to_string(a.reason),
                                r.address_size);
}

static const unsigned other_types[] = { NS, CNAME, SOA, NULL_, PTR, MX, TXT, SRV, OPT, DS, DNSKEY, TLSA, TSIG, IXFR, AXFR,
        ANY, CAA, 0, 65535 };

static void test_listed(void **state)
{
        static const char *const names[] = { "github.com", "GitHub.COM", "example.net", "a.example.org", "AZ.b.Example.oRg",
                "_a.example.org", "other.internal" };
        Decider *d = *state;

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                EgressAddress ipv4, ipv6;
                char lower[64] = {};
                DnsAnswer a;
                Parsed r;

                for (size_t k = 0; names[i][k]; k++)
                        lower[k] = (char) (names[i][k] >= 'A' && names[i][k] <= 'Z' ? names[i][k] + 32 : names[i][k]);
                r = ask_name(d, names[i], A, &a);
                assert_int_equal(a.reason, EGRESS_OK);
                assert_string_equal(a.name, lower);
                assert_int_equal(decider_name(d, lower, &ipv4, &ipv6), EGRESS_OK);
                assert_int_equal(r.address_size, 4);
                assert_memory_equal(r.address, ipv4.bytes, 4);
                r = ask_name(d, names[i], AAAA, &a);
                assert_int_equal(a.reason, EGRESS_OK);
                assert_int_equal(r.address_size, 16);
                assert_memory_equal(r.address, ipv6.bytes, 16);

                expect(d, names[i], HTTPS, NOERROR, EGRESS_OK);
                expect(d, names[i], SVCB, NOERROR, EGRESS_OK);
                for (size_t k = 0; k < ELEMENTSOF(other_types); k++)
                        expect(d, names[i], other_types[k], NOERROR, EGRESS_DNS_TYPE);
        }
}

static void test_foreign(void **state)
{
        static const char *const names[] = { "evil.example", "evilgithub.com", "github.com.evil.example", "gith.ub.com",
                "example.org", "www.github.com", "com", ".", "1.0.0.127.in-addr.arpa", "_dns.resolver.arpa",
                "xn--bcher-kva.example", "b\303\274cher.example.org", "a b.example.org", "a\x01.example.org",
                "*.example.org", "-a.example.org", "a-.example.org", "a.-.example.org", "notlocalhost" };
        static const unsigned types[] = { A, AAAA, HTTPS, SVCB };
        DnsAnswer a;

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                for (size_t k = 0; k < ELEMENTSOF(types); k++)
                        expect(*state, names[i], types[k], NXDOMAIN, EGRESS_NO_RULE);
                for (size_t k = 0; k < ELEMENTSOF(other_types); k++)
                        expect(*state, names[i], other_types[k], NXDOMAIN, EGRESS_NO_RULE);
        }
        expect(*state, "xn--bcher-kva.example.org", TXT, NOERROR, EGRESS_DNS_TYPE);
        ask_name(*state, ".", A, &a);
        assert_string_equal(a.name, ".");
        ask_name(*state, "a", A, &a);
        assert_string_equal(a.name, "a");
}

static void test_metadata(void **state)
{
        static const char *const names[] = { "metadata.google.internal", "Metadata.Google.Internal", "metadata.goog",
                "x.metadata.goog", "_x.metadata.goog", "a b.metadata.goog", "instance-data" };
        static const unsigned types[] = { A, AAAA, HTTPS, TXT, ANY };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                for (size_t k = 0; k < ELEMENTSOF(types); k++)
                        expect(*state, names[i], types[k], NXDOMAIN, EGRESS_METADATA);
}

static void test_localhost(void **state)
{
        static const char *const names[] = { "localhost", "LocalHost", "a.localhost", "a.b.localhost" };
        static const uint8_t four[] = { 127, 0, 0, 1 }, six[16] = { [15] = 1 };

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                DnsAnswer a;
                Parsed r = ask_name(*state, names[i], A, &a);

                assert_int_equal(a.reason, EGRESS_OK);
                assert_int_equal(r.address_size, 4);
                assert_memory_equal(r.address, four, 4);
                r = ask_name(*state, names[i], AAAA, &a);
                assert_int_equal(r.address_size, 16);
                assert_memory_equal(r.address, six, 16);
                expect(*state, names[i], TXT, NOERROR, EGRESS_OK);
        }
        expect(*state, "a b.localhost", A, NXDOMAIN, EGRESS_NO_RULE);
}

/* Another class than IN. */
static void test_class(void **state)
{
        static const struct {
                const char *name;
                EgressReason reason;
        } rows[] = { { "github.com", EGRESS_DNS_TYPE }, { "version.bind", EGRESS_NO_RULE }, { "localhost", EGRESS_NO_RULE },
                { "metadata.goog", EGRESS_METADATA } };
        static const unsigned classes[] = { 0, 2, CH, 4, 254, 255, 65535 };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                for (size_t k = 0; k < ELEMENTSOF(classes); k++)
                        for (unsigned type = A; type <= TXT; type += TXT - A) {
                                _cleanup_buf_ Buf b = {};
                                DnsAnswer a;
                                Parsed r;

                                put_header(&b, 0, 1, 0, 0, 0);
                                put_question(&b, rows[i].name, type, classes[k]);
                                r = ask(*state, &b, &a);
                                assert_int_equal(r.rcode, NXDOMAIN);
                                assert_int_equal(r.class, classes[k]);
                                assert_int_equal(r.address_size, 0);
                                assert_int_equal(a.reason, rows[i].reason);
                        }
}

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
static void test_pool(void **state)
{
        char name[64];
        DnsAnswer a;

        for (unsigned i = 0; i < 5000; i++) {
                snprintf(name, sizeof(name), "%u.t.example.org", i);
                ask_name(*state, name, TXT, &a);
                assert_int_equal(a.reason, EGRESS_DNS_TYPE);
                ask_name(*state, name, HTTPS, &a);
                assert_int_equal(a.reason, EGRESS_OK);
        }
        for (unsigned i = 0; i < 4096; i++) {
                snprintf(name, sizeof(name), "%u.a.example.org", i);
                assert_int_equal(ask_name(*state, name, A, &a).address_size, 4);
        }
        expect(*state, "one.more.example.org", A, NXDOMAIN, EGRESS_LIMIT);
        expect(*state, "one.more.example.org", TXT, NOERROR, EGRESS_DNS_TYPE);
        assert_int_equal(ask_name(*state, "github.com", AAAA, &a).address_size, 16);
        assert_int_equal(ask_name(*state, "7.a.example.org", AAAA, &a).address_size, 16);
}

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

        assert_int_equal(decider_new(&spec, &d), 0);
        dns_answer(d, p, n, answer, &a);
        if (!streq(verdict_text(a.reason), want))
                fail_msg("%s: %s", file, verdict_text(a.reason));
}

/* What clients really send, and what attackers may. */
static void test_kept(void **state)
{
        assert_true(corpus_each(top, "dns", check_kept) > 50);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = {
                TEST(test_listed),
                TEST(test_foreign),
                TEST(test_metadata),
                TEST(test_localhost),
                TEST(test_class),
                TEST(test_dropped),
                TEST(test_opcodes),
                TEST(test_counts),
                TEST(test_names),
                TEST(test_long_names),
                TEST(test_text),
                TEST(test_edns),
                TEST(test_edns_other),
                TEST(test_flags),
                TEST(test_size),
                TEST(test_pool),
                TEST(test_mutations),
                cmocka_unit_test(test_kept),
        };

        if (argc != 2)
                return 2;
        top = argv[1];
        return cmocka_run_group_tests_name("dns", tests, NULL, NULL);
}
