/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "test-http-harness.h"

/* What a request may look like: rows of good and bad ones, and how much of one there may be. */

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
        };

        return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
