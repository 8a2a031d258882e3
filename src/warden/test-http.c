/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/buf.h"
#include "warden/test-corpus.h"
#include "warden/warden-http.h"

/* argv[1]: the top of the source tree. */
static const char *top;

#define NAME "example.net"
#define HOST "Host: example.net\r\n"
#define GET "GET / HTTP/1.1\r\n" HOST
#define POST "POST /p HTTP/1.1\r\n" HOST
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"

/* ---- the caller of the reader, as the warden is one */

typedef struct Outcome {
        EgressReason reason;
        unsigned status;
        size_t passed;
        char host[256];
} Outcome;

typedef struct Caller {
        HttpReader reader;
        const uint8_t *p;  /* all that comes */
        size_t come;       /* of that, so far */
        Outcome out;
} Caller;

/* More bytes come: those that were not passed are given again, in a piece of memory that ends with them. */
static void caller_more(Caller *c, size_t n)
{
        size_t waiting = c->come - c->out.passed + n;
        _cleanup_free_ uint8_t *copy = malloc(MAX2(waiting, (size_t) 1));
        HttpVerdict v;

        assert_non_null(copy);
        memcpy(copy, c->p + c->out.passed, waiting);
        c->come += n;
        http_reader_feed(&c->reader, copy, waiting, &v);
        assert_true(v.pass <= waiting);
        assert_int_equal(v.reason != EGRESS_OK, v.status != 0);
        c->out.passed += v.pass;
        if (v.reason == EGRESS_OK) {
                assert_string_equal(v.host, "");
                assert_true(c->come - c->out.passed < HTTP_HEAD_MAX);
                return;
        }
        c->out.reason = v.reason;
        c->out.status = v.status;
        strcpy(c->out.host, v.host);
        /* Whatever comes then, nothing more goes out. */
        http_reader_feed(&c->reader, (const uint8_t *) GET "\r\n", strlen(GET "\r\n"), &v);
        assert_int_equal(v.pass, 0);
        assert_int_not_equal(v.reason, EGRESS_OK);
}

/* first bytes, then pieces of each. */
static Outcome run(const void *p, size_t n, size_t first, size_t each, uint16_t port)
{
        Caller c = { .p = p };

        http_reader_init(&c.reader, NAME, port);
        for (size_t next = first; c.come < n && c.out.reason == EGRESS_OK; next = each)
                caller_more(&c, MIN2(next, n - c.come));
        return c.out;
}

static void same_outcome(const Outcome *a, const Outcome *b)
{
        assert_string_equal(verdict_text(a->reason), verdict_text(b->reason));
        assert_int_equal(a->status, b->status);
        assert_int_equal(a->passed, b->passed);
        assert_string_equal(a->host, b->host);
}

/* In one piece, in single bytes, and in two pieces wherever they are cut (long ones in steps). */
static Outcome every_cut(const void *p, size_t n, uint16_t port)
{
        Outcome whole = run(p, n, n, n, port), o = run(p, n, 1, 1, port);

        same_outcome(&whole, &o);
        for (size_t i = 1; i < n; i += n > 2000 ? 997 : 1) {
                o = run(p, n, i, n, port);
                same_outcome(&whole, &o);
                if (i % 8 != 0)
                        continue;
                o = run(p, n, i, 1 + i % 7, port);
                same_outcome(&whole, &o);
        }
        return whole;
}

static void expect_bytes(const char *what, const void *p, size_t n, EgressReason reason, unsigned status, size_t passed)
{
        Outcome o = every_cut(p, n, 80);

        if (o.reason != reason || o.status != status || o.passed != passed)
                fail_msg("%s: got %s, %u, %zu passed; want %s, %u, %zu", what, verdict_text(o.reason), o.status, o.passed,
                                verdict_text(reason), status, passed);
}

/* ---- rows: what passes, and what comes behind it that does not */

typedef struct Row {
        const char *good;
        const char *bad;
        size_t n_bad;
} Row;
#define ROW(good, bad) { good, bad, sizeof(bad) - 1 }

/* Each is tried as it stands, and behind a request with a body and a chunked one on the same connection. */
static void expect_rows(const Row *rows, size_t n_rows, EgressReason reason, unsigned status)
{
        static const char *const before[] = { "", POST "Content-Length: 5\r\n\r\nhello", CHUNKED "5\r\nhello\r\n0\r\n\r\n" };

        for (size_t i = 0; i < n_rows; i++)
                for (size_t k = 0; k < ELEMENTSOF(before); k++) {
                        _cleanup_buf_ Buf b = {};
                        size_t passed;

                        assert_int_equal(buf_append(&b, before[k], strlen(before[k])), 0);
                        assert_int_equal(buf_append(&b, rows[i].good, strlen(rows[i].good)), 0);
                        passed = b.size;
                        assert_int_equal(buf_append(&b, rows[i].bad, rows[i].n_bad), 0);
                        expect_bytes((const char *) b.data, b.data, b.size, reason, status, passed);
                }
}

static void test_good(void **state)
{
        static const Row rows[] = {
                ROW(GET "\r\n", ""),
                ROW("GET / HTTP/1.0\r\n" HOST "\r\n", ""),
                ROW("GET / HTTP/1.1\r\nhost:EXAMPLE.net\r\n\r\n", ""),
                ROW("GET / HTTP/1.1\r\nHOST: \t example.net \t\r\n\r\n", ""),
                ROW("GET / HTTP/1.1\r\nHost: example.net:80\r\n\r\n", ""),
                ROW("GET /a//b?c=d&e=%20;{|}\"<> HTTP/1.1\r\n" HOST "\r\n", ""),
                ROW("GET //evil.example/ HTTP/1.1\r\n" HOST "\r\n", ""),
                ROW("GET http://example.net/ HTTP/1.1\r\n" HOST "\r\n", ""),
                ROW("GET HTTP://Example.NET:80 HTTP/1.1\r\n" HOST "\r\n", ""),
                ROW("GET http://example.net?q HTTP/1.1\r\n" HOST "\r\n", ""),
                ROW("OPTIONS * HTTP/1.1\r\n" HOST "\r\n", ""),
                ROW("M-SEARCH / HTTP/1.1\r\n" HOST "\r\n", ""),
                ROW("TRACE / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", ""),
                ROW(GET "X-Empty:\r\nX-Tab: a\tb\r\nX-8bit: \xc3\xbc\xff\r\n!#$%&'*+-.^_`|~09aZ: v\r\n\r\n", ""),
                ROW(GET "Connection: keep-alive, TE\r\nTE: trailers\r\nConnection: close\r\n\r\n", ""),
                ROW(GET "Upgrade-Insecure-Requests: 1\r\nContent-Length-X: 7\r\nHostname: evil.example\r\n\r\n", ""),
                ROW(POST "Content-Length: 0\r\n\r\n", ""),
                ROW(POST "Content-Length:5\r\n\r\n\r\n\n\r\n", ""),
                ROW(POST "Content-Length: 5\r\nExpect: 100-continue\r\n\r\nhello", ""),
                ROW(POST "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ""),
                ROW(CHUNKED "0\r\n\r\n", ""),
                ROW(CHUNKED "00000000\r\n\r\n", ""),
                ROW(CHUNKED "a\r\n0123456789\r\nA\r\n0123456789\r\n0000000A\r\nGET / HTTP\r\n000\r\n\r\n", ""),
                ROW(CHUNKED "1\r\nx\r\n0\r\nX-Sum: 1\r\nX-More:\r\n\r\n", ""),
                ROW(GET "\r\n" GET "\r\n" POST "Content-Length: 2\r\n\r\nok" GET "\r\n", ""),
                /* What waits for more. */
                ROW("", "G"),
                ROW(GET "\r\n", "GET / HTTP/1.1\r\nHost: exam"),
                ROW("", GET "X-A: b\r\n"),
                ROW("", GET "\r"),
                ROW(POST "Content-Length: 5\r\n\r\nhel", ""),
                ROW(POST "Content-Length: 9223372036854775807\r\n\r\nhel", ""),
                ROW(CHUNKED, "5"),
                ROW(CHUNKED, "5\r"),
                ROW(CHUNKED "7fffffff\r\nabc", ""),
                ROW(CHUNKED "5\r\nhel", ""),
                ROW(CHUNKED "5\r\nhello", "\r"),
                ROW(CHUNKED "0\r\n", "X-A: b\r\n\r"),
        };

        expect_rows(rows, ELEMENTSOF(rows), EGRESS_OK, 0);
}

static void test_host(void **state)
{
        static const Row mismatch[] = {
                ROW("", "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
                ROW("", "GET / HTTP/1.1\r\nHost:\r\n\r\n"),
                ROW("", "GET / HTTP/1.1\r\nHost: example.net.\r\n\r\n"),
                ROW("", "GET / HTTP/1.1\r\nHost: example.net:\r\n\r\n"),
                ROW("", "GET / HTTP/1.1\r\nHost: example.net:8080\r\n\r\n"),
                ROW("", "GET / HTTP/1.1\r\nHost: example.net:080\r\n\r\n"),
                ROW("", "GET / HTTP/1.1\r\nHost: example.net:80:80\r\n\r\n"),
                ROW("", "GET / HTTP/1.1\r\nHost: example.net:80@evil.example\r\n\r\n"),
                ROW("", "GET / HTTP/1.1\r\nHost: example.net, evil.example\r\n\r\n"),
                ROW("", "GET / HTTP/1.1\r\nHost: example.net evil.example\r\n\r\n"),
                ROW("", "GET / HTTP/1.1\r\nHost: example.net/\r\n\r\n"),
                ROW("", "GET / HTTP/1.1\r\nHost: example.net\xa0\r\n\r\n"),
                ROW("", "GET / HTTP/1.1\r\nHost: evil.example.net\r\n\r\n"),
                ROW("", "GET / HTTP/1.1\r\nHost: example.net.evil.example\r\n\r\n"),
                ROW("", "GET / HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n"),
                ROW("", "GET http://evil.example/ HTTP/1.1\r\n" HOST "\r\n"),
                ROW("", "GET http://evil.example HTTP/1.1\r\n" HOST "\r\n"),
                ROW("", "GET http://example.net:8080/ HTTP/1.1\r\n" HOST "\r\n"),
                ROW("", "GET http://example.net@evil.example/ HTTP/1.1\r\n" HOST "\r\n"),
                ROW("", "GET http://evil.example@example.net/ HTTP/1.1\r\n" HOST "\r\n"),
                ROW("", "GET http:///example.net/ HTTP/1.1\r\n" HOST "\r\n"),
                ROW("", "GET http:// HTTP/1.1\r\n" HOST "\r\n"),
                ROW("", "GET http://example.net/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
                ROW("", "GET http://example.net\\.evil.example/ HTTP/1.1\r\n" HOST "\r\n"),
        };
        static const Row bad[] = {
                ROW("", "GET / HTTP/1.1\r\n\r\n"),
                ROW("", "GET / HTTP/1.0\r\n\r\n"),
                ROW("", "GET / HTTP/1.1\r\nX-Host: example.net\r\n\r\n"),
                ROW("", GET HOST "\r\n"),
                ROW("", GET "Host: evil.example\r\n\r\n"),
                ROW("", GET "X-A: b\r\nhOST:\r\n\r\n"),
                ROW("", "GET http://example.net/ HTTP/1.1\r\n\r\n"),
        };

        expect_rows(mismatch, ELEMENTSOF(mismatch), EGRESS_HOST_MISMATCH, 400);
        expect_rows(bad, ELEMENTSOF(bad), EGRESS_BAD_REQUEST, 400);
}

static void test_request_line(void **state)
{
        static const Row rows[] = {
                ROW("", "GET  / HTTP/1.1\r\n"),
                ROW("", "GET /  HTTP/1.1\r\n"),
                ROW("", "GET / HTTP/1.1 \r\n"),
                ROW("", " GET / HTTP/1.1\r\n"),
                ROW("", "GET\t/ HTTP/1.1\r\n"),
                ROW("", "GET /\tHTTP/1.1\r\n"),
                ROW("", "GET / a HTTP/1.1\r\n"),
                ROW("", "GET /\ta HTTP/1.1\r\n"),
                ROW("", "GET /\r\n"),
                ROW("", "GET\r\n"),
                ROW("", "\r\n"),
                ROW("", "\n"),
                ROW("", "\r\r"),
                ROW("", "GET / HTTP/1.2\r\n"),
                ROW("", "GET / HTTP/2.0\r\n"),
                ROW("", "GET / HTTP/0.9\r\n"),
                ROW("", "GET / HTTP/1.10\r\n"),
                ROW("", "GET / HTTP/01.1\r\n"),
                ROW("", "GET / http/1.1\r\n"),
                ROW("", "GET / HTTPS/1.1\r\n"),
                ROW("", "GET / HTTP/1.1\n"),
                ROW("", "GET / HTTP/1.1\r\rH"),
                ROW("", "G@T / HTTP/1.1\r\n"),
                ROW("", "G\xc3T / HTTP/1.1\r\n"),
                ROW("", "GET /\0 HTTP/1.1\r\n"),
                ROW("", "GET /\x7f HTTP/1.1\r\n"),
                ROW("", "GET /\x1b[m HTTP/1.1\r\n"),
                ROW("", "GET /\xc3\xbc HTTP/1.1\r\n"),
                ROW("", "GET /\xa0 HTTP/1.1\r\n"),
                ROW("", "GET /#a HTTP/1.1\r\n"),
                ROW("", "GET a HTTP/1.1\r\n"),
                ROW("", "GET \\ HTTP/1.1\r\n"),
                ROW("", "GET ?a HTTP/1.1\r\n"),
                ROW("", "GET * HTTP/1.1\r\n"),
                ROW("", "options * HTTP/1.1\r\n"),
                ROW("", "OPTIONS ** HTTP/1.1\r\n"),
                ROW("", "GET example.net:80 HTTP/1.1\r\n"),
                ROW("", "GET https://example.net/ HTTP/1.1\r\n"),
                ROW("", "GET ftp://example.net/ HTTP/1.1\r\n"),
                ROW("", "GET http:/example.net/ HTTP/1.1\r\n"),
                ROW("", "GET http:example.net HTTP/1.1\r\n"),
                ROW("", "CONNECT example.net:80 HTTP/1.1\r\n"),
                ROW("", "Connect / HTTP/1.1\r\n"),
                ROW("", "PRI * HTTP/2.0\r\n"),
                ROW("", "PRI / HTTP/1.1\r\n"),
                ROW("", "SSH-2.0-OpenSSH_9.2p1\r\n"),
                ROW("", "\x16\x03\x01\x02"),
                ROW("", "HELO example.net\r\n"),
        };

        /* At the end of the line, however little comes behind it. */
        expect_rows(rows, ELEMENTSOF(rows), EGRESS_BAD_REQUEST, 400);
}

static void test_bytes(void **state)
{
        static const Row rows[] = {
                ROW("", GET " X-A: b\r\n\r\n"),
                ROW("", GET "X-A: b\r\n c\r\n\r\n"),
                ROW("", GET "X-A: b\r\n\tc\r\n\r\n"),
                ROW("", GET "X-A: b\r\n \r\n\r\n"),
                ROW("", "GET / HTTP/1.1\r\n Host: example.net\r\n" HOST "\r\n"),
                ROW("", GET "X-A: b\nX-C: d\r\n\r\n"),
                ROW("", GET "X-A: b\n\n"),
                ROW("", GET "\n"),
                ROW("", GET "X-A: b\rX-C: d\r\n\r\n"),
                ROW("", GET "X-A: b\r\r\n\r\n"),
                ROW("", GET "\r\r\n"),
                ROW("", GET "\rX"),
                ROW("", GET "X-A : b\r\n\r\n"),
                ROW("", GET "X-A\t: b\r\n\r\n"),
                ROW("", "GET / HTTP/1.1\r\nHost : example.net\r\n\r\n"),
                ROW("", GET "X A: b\r\n\r\n"),
                ROW("", GET ": b\r\n\r\n"),
                ROW("", GET "X-A\r\n\r\n"),
                ROW("", GET "X-A b\r\n\r\n"),
                ROW("", GET "X(A): b\r\n\r\n"),
                ROW("", GET "X\xc3: b\r\n\r\n"),
                ROW("", GET "X-A: b\0c\r\n\r\n"),
                ROW("", GET "X-A\0: b\r\n\r\n"),
                ROW("", GET "\0"),
                ROW("", GET "X-A: \x01\r\n\r\n"),
                ROW("", GET "X-A: \x0b\r\n\r\n"),
                ROW("", GET "X-A: \x0c\r\n\r\n"),
                ROW("", GET "X-A: \x1b\r\n\r\n"),
                ROW("", GET "X-A: \x7f\r\n\r\n"),
        };

        expect_rows(rows, ELEMENTSOF(rows), EGRESS_BAD_REQUEST, 400);
}

static void test_framing(void **state)
{
        static const Row rows[] = {
                ROW("", POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
                ROW("", POST "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n"),
                ROW("", POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\n"),
                ROW("", POST "Content-Length: 5\r\ncontent-length: 5\r\n\r\n"),
                ROW("", POST "Content-Length: 5, 5\r\n\r\n"),
                ROW("", POST "Content-Length: 5,\r\n\r\n"),
                ROW("", POST "Content-Length:\r\n\r\n"),
                ROW("", POST "Content-Length: \r\n\r\n"),
                ROW("", POST "Content-Length: +5\r\n\r\n"),
                ROW("", POST "Content-Length: -5\r\n\r\n"),
                ROW("", POST "Content-Length: 0x5\r\n\r\n"),
                ROW("", POST "Content-Length: 05\r\n\r\n"),
                ROW("", POST "Content-Length: 00\r\n\r\n"),
                ROW("", POST "Content-Length: 5 \r\n\r\n"),
                ROW("", POST "Content-Length:  5\r\n\r\n"),
                ROW("", POST "Content-Length:\t5\r\n\r\n"),
                ROW("", POST "Content-Length: 5 5\r\n\r\n"),
                ROW("", POST "Content-Length: 5a\r\n\r\n"),
                ROW("", POST "Content-Length: 5.0\r\n\r\n"),
                ROW("", POST "Content-Length: 5e1\r\n\r\n"),
                ROW("", POST "Content-Length: \xb2\r\n\r\n"),
                ROW("", POST "Content-Length: 9223372036854775808\r\n\r\n"),
                ROW("", POST "Content-Length: 18446744073709551621\r\n\r\n"),
                ROW("", POST "Content_Length: 5\r\n\r\n"),
                ROW("", POST "Transfer-Encoding: identity\r\n\r\n"),
                ROW("", POST "Transfer-Encoding: gzip, chunked\r\n\r\n"),
                ROW("", POST "Transfer-Encoding: chunked, identity\r\n\r\n"),
                ROW("", POST "Transfer-Encoding: chunked, chunked\r\n\r\n"),
                ROW("", POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
                ROW("", POST "Transfer-Encoding: chunked\r\nTransfer-encoding: x\r\n\r\n"),
                ROW("", POST "Transfer-Encoding: Chunked\r\n\r\n"),
                ROW("", POST "Transfer-Encoding: \"chunked\"\r\n\r\n"),
                ROW("", POST "Transfer-Encoding: xchunked\r\n\r\n"),
                ROW("", POST "Transfer-Encoding: chunked;a=b\r\n\r\n"),
                ROW("", POST "Transfer-Encoding: chunke\r\n\r\n"),
                ROW("", POST "Transfer-Encoding:\r\n\r\n"),
                ROW("", POST "Transfer-Encoding: chunked \r\n\r\n"),
                ROW("", POST "Transfer-Encoding:\tchunked\r\n\r\n"),
                ROW("", POST "Transfer-Encoding:  chunked\r\n\r\n"),
                ROW("", POST "Transfer-Encoding: ,chunked\r\n\r\n"),
                ROW("", POST "Transfer_Encoding: chunked\r\n\r\n"),
                ROW("", POST "TRANSFER-ENCODING: \xff\r\n\r\n"),
                ROW("", "POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"),
                ROW("", "TRACE / HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\n"),
                ROW("", "TRACE / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"),
                ROW("", POST "Expect: 100-continue\r\n\r\n"),
                ROW("", POST "Expect: 100-continue\r\nContent-Length: 0\r\n\r\n"),
                ROW("", POST "Expect: 200-ok\r\nContent-Length: 1\r\n\r\n"),
                ROW("", POST "Expect: y 100-continue\r\nContent-Length: 1\r\n\r\n"),
                ROW("", POST "Expect: 100-continue\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"),
                ROW("", "POST / HTTP/1.0\r\n" HOST "Expect: 100-continue\r\nContent-Length: 1\r\n\r\n"),
        };

        expect_rows(rows, ELEMENTSOF(rows), EGRESS_BAD_REQUEST, 400);
}

static void test_chunks(void **state)
{
        static const Row rows[] = {
                ROW(CHUNKED, "\r\n"),
                ROW(CHUNKED, "x"),
                ROW(CHUNKED, " 5\r\n"),
                ROW(CHUNKED, "5 \r\n"),
                ROW(CHUNKED, "5;a=b\r\n"),
                ROW(CHUNKED, "5;\r\n"),
                ROW(CHUNKED, "5\n"),
                ROW(CHUNKED, "5\rx"),
                ROW(CHUNKED, "5\0"),
                ROW(CHUNKED, "0x5\r\n"),
                ROW(CHUNKED, "+5\r\n"),
                ROW(CHUNKED, "-5\r\n"),
                ROW(CHUNKED, "5_0\r\n"),
                ROW(CHUNKED, "\xb2\r\n"),
                ROW(CHUNKED, "000000000"),
                ROW(CHUNKED, "100000005"),
                ROW(CHUNKED, "80000000"),
                ROW(CHUNKED, "ffffffff"),
                ROW(CHUNKED "5\r\nhello", "x"),
                ROW(CHUNKED "5\r\nhello", "\n"),
                ROW(CHUNKED "5\r\nhello", "\rx"),
                ROW(CHUNKED "5\r\nhello", "0\r\n\r\n"),
                ROW(CHUNKED "5\r\nhello\r\n", "\r\n"),
                ROW(CHUNKED "0\r\n", "X-A\r\n\r\n"),
                ROW(CHUNKED "0\r\n", " X-A: b\r\n\r\n"),
                ROW(CHUNKED "0\r\n", "X-A: b\r\n c\r\n\r\n"),
                ROW(CHUNKED "0\r\n", "X-A : b\r\n\r\n"),
                ROW(CHUNKED "0\r\n", "X-A: b\n"),
                ROW(CHUNKED "0\r\n", "X-A: \0"),
                ROW(CHUNKED "0\r\n", "\n"),
                ROW(CHUNKED "0\r\n", "\rX"),
                ROW(CHUNKED "0\r\n", GET "\r\n"),
                ROW(CHUNKED "0\r\n", "Host: example.net\r\n\r\n"),
                ROW(CHUNKED "0\r\n", "Content-Length: 5\r\n\r\n"),
                ROW(CHUNKED "0\r\n", "transfer-encoding: chunked\r\n\r\n"),
                ROW(CHUNKED "0\r\n", "Transfer_Encoding: chunked\r\n\r\n"),
                ROW(CHUNKED "0\r\n", "Connection: close\r\n\r\n"),
                ROW(CHUNKED "0\r\n", "Expect: 100-continue\r\n\r\n"),
                ROW(CHUNKED "0\r\n\r\n", "\r\n"),
        };

        expect_rows(rows, ELEMENTSOF(rows), EGRESS_BAD_REQUEST, 400);
}

static void test_upgrade(void **state)
{
        static const Row rows[] = {
                ROW("", GET "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n"),
                ROW("", GET "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"),
                ROW("", GET "Upgrade:\r\n\r\n"),
                ROW("", GET "HTTP2-Settings: AAMAAABk\r\n\r\n"),
                ROW("", GET "HTTP2_Settings: AAMAAABk\r\n\r\n"),
                ROW("", GET "Connection: upgrade\r\n\r\n"),
                ROW("", GET "Connection: keep-alive, Upgrade\r\n\r\n"),
                ROW("", GET "Connection: keep-alive\r\nconnection:UPGRADE\r\n\r\n"),
                ROW("", GET "Connection: close, content-length\r\n\r\n"),
                ROW("", GET "Connection: Host\r\n\r\n"),
                ROW("", GET "Connection: transfer_encoding\r\n\r\n"),
                ROW("", GET "Connection: close;upgrade\r\n\r\n"),
                ROW("", GET "Connection: close upgrade\r\n\r\n"),
                ROW("", GET "Connection: \"upgrade\"\r\n\r\n"),
                ROW("", GET "Connection: ,close\r\n\r\n"),
                ROW("", GET "Connection:\r\n\r\n"),
                ROW("", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        };

        expect_rows(rows, ELEMENTSOF(rows), EGRESS_BAD_REQUEST, 400);
}

/* ---- limits */

static void append(Buf *b, const char *s)
{
        assert_int_equal(buf_append(b, s, strlen(s)), 0);
}

static void append_many(Buf *b, char c, size_t n)
{
        while (n-- > 0)
                assert_int_equal(buf_u8(b, (uint8_t) c), 0);
}

/* prefix, then a head of size bytes in which a value is as long as that takes. */
static void expect_head_of(const char *prefix, const char *start, size_t size, EgressReason reason, unsigned status)
{
        _cleanup_buf_ Buf b = {};
        size_t before;

        append(&b, prefix);
        before = b.size;
        append(&b, start);
        append(&b, "X-Fill: ");
        append_many(&b, 'x', size - (b.size - before) - 4);
        append(&b, "\r\n\r\n");
        assert_int_equal(b.size - before, size);
        expect_bytes("head", b.data, b.size, reason, status, reason == EGRESS_OK ? b.size : before);
        /* Too much of it decides as well, though its end may never come. */
        if (reason != EGRESS_OK)
                expect_bytes("part of a head", b.data, before + HTTP_HEAD_MAX, reason, status, before);
}

static void test_head_size(void **state)
{
        static const char *const prefixes[] = { "", GET "\r\n", CHUNKED "3\r\nabc\r\n0\r\n\r\n" };

        for (size_t i = 0; i < ELEMENTSOF(prefixes); i++) {
                expect_head_of(prefixes[i], GET, HTTP_HEAD_MAX, EGRESS_OK, 0);
                expect_head_of(prefixes[i], GET, HTTP_HEAD_MAX + 1, EGRESS_TOO_LARGE, 431);
        }
        expect_head_of(CHUNKED "0\r\n", "", HTTP_HEAD_MAX, EGRESS_OK, 0);
        expect_head_of(CHUNKED "0\r\n", "", HTTP_HEAD_MAX + 1, EGRESS_TOO_LARGE, 431);
}

static void expect_fields(const char *prefix, const char *start, unsigned n, EgressReason reason)
{
        _cleanup_buf_ Buf b = {};
        size_t before;

        append(&b, prefix);
        before = b.size;
        append(&b, start);
        for (unsigned i = 0; i < n; i++)
                append(&b, "X-A: b\r\n");
        append(&b, "\r\n");
        expect_bytes("fields", b.data, b.size, reason, reason == EGRESS_OK ? 0 : 431,
                        reason == EGRESS_OK ? b.size : before);
}

static void test_fields(void **state)
{
        expect_fields("", GET, HTTP_FIELDS_MAX - 1, EGRESS_OK);
        expect_fields("", GET, HTTP_FIELDS_MAX, EGRESS_TOO_LARGE);
        expect_fields(GET "\r\n", GET, HTTP_FIELDS_MAX - 1, EGRESS_OK);
        expect_fields(GET "\r\n", GET, HTTP_FIELDS_MAX, EGRESS_TOO_LARGE);
        expect_fields(CHUNKED "0\r\n", "", HTTP_FIELDS_MAX, EGRESS_OK);
        expect_fields(CHUNKED "0\r\n", "", HTTP_FIELDS_MAX + 1, EGRESS_TOO_LARGE);
}

static void expect_line_of(size_t size, EgressReason reason)
{
        _cleanup_buf_ Buf b = {};

        append(&b, "GET /");
        append_many(&b, 'x', size - strlen("GET / HTTP/1.1"));
        append(&b, " HTTP/1.1\r\n" HOST "\r\n");
        expect_bytes("line", b.data, b.size, reason, reason == EGRESS_OK ? 0 : 414, reason == EGRESS_OK ? b.size : 0);
        if (reason != EGRESS_OK)
                expect_bytes("part of a line", b.data, HTTP_LINE_MAX + 1, reason, 414, 0);
}

static void test_line_size(void **state)
{
        expect_line_of(HTTP_LINE_MAX, EGRESS_OK);
        expect_line_of(HTTP_LINE_MAX + 1, EGRESS_TOO_LARGE);
        expect_line_of(HTTP_LINE_MAX + 2, EGRESS_TOO_LARGE);
        expect_line_of(2 * HTTP_HEAD_MAX, EGRESS_TOO_LARGE);
}

/* ---- what the record says, and the port */

static void expect_host(const char *stream, uint16_t port, EgressReason reason, const char *host)
{
        Outcome o = every_cut(stream, strlen(stream), port);

        assert_string_equal(verdict_text(o.reason), verdict_text(reason));
        assert_string_equal(o.host, host);
}

static void test_record(void **state)
{
        expect_host(GET "\r\n", 80, EGRESS_OK, "");
        expect_host("GET / HTTP/1.1\r\nHost:  Evil.example:81 \r\n\r\n", 80, EGRESS_HOST_MISMATCH, "Evil.example:81");
        expect_host("GET http://evil.example/x HTTP/1.1\r\n" HOST "\r\n", 80, EGRESS_HOST_MISMATCH, "evil.example");
        expect_host("GET http://example.net/x HTTP/1.1\r\nHost: evil.example\r\n\r\n", 80, EGRESS_HOST_MISMATCH,
                        "evil.example");
        expect_host("GET / HTTP/1.1\r\nHost: a\\\xff\tb\r\n\r\n", 80, EGRESS_HOST_MISMATCH, "a\\x5c\\xff\\x09b");
        expect_host(GET "\r\n" "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 80, EGRESS_HOST_MISMATCH, "evil.example");
        expect_host("GET /\r\n", 80, EGRESS_BAD_REQUEST, "");
}

static void test_port(void **state)
{
        expect_host(GET "\r\n", 8080, EGRESS_OK, "");
        expect_host("GET / HTTP/1.1\r\nHost: example.net:8080\r\n\r\n", 8080, EGRESS_OK, "");
        expect_host("GET / HTTP/1.1\r\nHost: example.net:80\r\n\r\n", 8080, EGRESS_HOST_MISMATCH, "example.net:80");
        expect_host("GET / HTTP/1.1\r\nHost: example.net:65535\r\n\r\n", 65535, EGRESS_OK, "");
}

static void test_requests_are_counted(void **state)
{
        static const char stream[] = GET "\r\n" POST "Content-Length: 1\r\n\r\nx" CHUNKED "0\r\n\r\nGET";
        HttpReader h;
        HttpVerdict v;

        http_reader_init(&h, NAME, 80);
        http_reader_feed(&h, (const uint8_t *) stream, sizeof(stream) - 1, &v);
        assert_int_equal(v.pass, sizeof(stream) - 1 - 3);
        assert_int_equal(h.n_requests, 3);
        assert_int_equal(h.state, HTTP_HEAD);
}

/* ---- connections put together by chance: all that is good passes, and not one byte of a head that is not */

static uint32_t random_state = 1;

static unsigned chance(unsigned n)
{
        random_state = random_state * 1664525 + 1013904223;
        return (random_state >> 16) % n;
}

static void append_request(Buf *b)
{
        static const char *const plain[] = { GET "\r\n", "HEAD /x HTTP/1.0\r\n" HOST "\r\n",
                                             "GET http://example.net/ HTTP/1.1\r\nA: b\r\n" HOST "\r\n" };
        unsigned n = chance(40);

        switch (chance(3)) {
        case 0:
                append(b, plain[chance(ELEMENTSOF(plain))]);
                break;
        case 1:
                assert_int_equal(buf_printf(b, POST "Content-Length: %u\r\n\r\n", n), 0);
                /* A body that looks like what must not be asked for. */
                for (unsigned i = 0; i < n; i++)
                        assert_int_equal(buf_u8(b, (uint8_t) "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n\0\0\0"[i % 38]), 0);
                break;
        default:
                append(b, CHUNKED);
                for (unsigned i = chance(4); i > 0; i--) {
                        assert_int_equal(buf_printf(b, "%x\r\n", n + 1), 0);
                        append_many(b, '\n', n + 1);
                        append(b, "\r\n");
                }
                append(b, "0\r\n");
                append(b, chance(2) ? "\r\n" : "X-T: 1\r\n\r\n");
        }
}

static void test_connections(void **state)
{
        static const char *const bad[] = {
                "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
                "GET http://evil.example/ HTTP/1.1\r\n" HOST "\r\n",
                GET "Host: evil.example\r\n\r\n",
                POST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                "\r\n" GET "\r\n",
                GET "Upgrade: h2c\r\n\r\n",
                "garbage\r\n\r\n",
        };

        for (unsigned i = 0; i < 3000; i++) {
                _cleanup_buf_ Buf b = {};
                Outcome o, single;
                size_t good;

                for (unsigned n = chance(6); n > 0; n--)
                        append_request(&b);
                good = b.size;
                append(&b, bad[chance(ELEMENTSOF(bad))]);
                append_request(&b);
                o = run(b.data, b.size, 1 + chance(200), 1 + chance(200), 80);
                single = run(b.data, b.size, 1, 1, 80);
                same_outcome(&o, &single);
                assert_int_not_equal(o.reason, EGRESS_OK);
                assert_int_equal(o.passed, good);
        }
}

/* ---- what real clients send */

static void check_kept(const char *file, const uint8_t *p, size_t n, const char *want)
{
        Outcome o = every_cut(p, n, 80);

        if (!streq(verdict_text(o.reason), want) || (o.reason == EGRESS_OK && o.passed != n))
                fail_msg("%s: %s, %zu of %zu passed", file, verdict_text(o.reason), o.passed, n);
}

static void test_corpus(void **state)
{
        assert_true(corpus_each(top, "http", check_kept) > 40);
}

static void test_error_response(void **state)
{
        static const unsigned statuses[] = { 400, 408, 414, 431 };

        for (size_t i = 0; i < ELEMENTSOF(statuses); i++)
                for (EgressReason reason = EGRESS_OK; reason < _EGRESS_REASON_MAX; reason++) {
                        char buf[HTTP_ERROR_RESPONSE_MAX], start[32], *body, *length;
                        size_t n = http_error_response(statuses[i], reason, buf, sizeof(buf));

                        assert_true(n > 0 && n < sizeof(buf));
                        assert_int_equal(strlen(buf), n);
                        snprintf(start, sizeof(start), "HTTP/1.1 %u ", statuses[i]);
                        assert_non_null(startswith(buf, start));
                        assert_non_null(strstr(buf, "\r\nConnection: close\r\n"));
                        body = strstr(buf, "\r\n\r\n") + 4;
                        length = strstr(buf, "\r\nContent-Length: ");
                        assert_int_equal(strtoul(length + strlen("\r\nContent-Length: "), NULL, 10), strlen(body));
                        assert_non_null(startswith(body, "agentbox refused this request: "));
                        assert_non_null(strstr(body, egress_reason_to_string(reason)));
                        assert_non_null(strstr(body, "agentbox why"));
                        assert_int_equal(http_error_response(statuses[i], reason, buf, n), 0);
                        assert_int_equal(http_error_response(statuses[i], reason, buf, n + 1), n);
                }
}

int main(int argc, char *argv[])
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_good),
                cmocka_unit_test(test_host),
                cmocka_unit_test(test_request_line),
                cmocka_unit_test(test_bytes),
                cmocka_unit_test(test_framing),
                cmocka_unit_test(test_chunks),
                cmocka_unit_test(test_upgrade),
                cmocka_unit_test(test_head_size),
                cmocka_unit_test(test_fields),
                cmocka_unit_test(test_line_size),
                cmocka_unit_test(test_record),
                cmocka_unit_test(test_port),
                cmocka_unit_test(test_requests_are_counted),
                cmocka_unit_test(test_connections),
                cmocka_unit_test(test_corpus),
                cmocka_unit_test(test_error_response),
        };

        if (argc != 2)
                return 2;
        top = argv[1];
        return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
