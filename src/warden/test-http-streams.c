/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "test-http-harness.h"

/* Whole connections: what is told of them, those that chance puts together, and those of real clients. */

/* argv[1]: the top of the source tree. */
static const char *top;

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
        return cmocka_run_group_tests_name("http-streams", tests, NULL, NULL);
}
