/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "test-http-harness.h"

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

Outcome run(const void *p, size_t n, size_t first, size_t each, uint16_t port)
{
        Caller c = { .p = p };

        http_reader_init(&c.reader, NAME, port);
        for (size_t next = first; c.come < n && c.out.reason == EGRESS_OK; next = each)
                caller_more(&c, MIN2(next, n - c.come));
        return c.out;
}

void same_outcome(const Outcome *a, const Outcome *b)
{
        assert_string_equal(verdict_text(a->reason), verdict_text(b->reason));
        assert_int_equal(a->status, b->status);
        assert_int_equal(a->passed, b->passed);
        assert_string_equal(a->host, b->host);
}

Outcome every_cut(const void *p, size_t n, uint16_t port)
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

void expect_bytes(const char *what, const void *p, size_t n, EgressReason reason, unsigned status, size_t passed)
{
        Outcome o = every_cut(p, n, 80);

        if (o.reason != reason || o.status != status || o.passed != passed)
                fail_msg("%s: got %s, %u, %zu passed; want %s, %u, %zu", what, verdict_text(o.reason), o.status, o.passed,
                                verdict_text(reason), status, passed);
}

void append(Buf *b, const char *s)
{
        assert_int_equal(buf_append(b, s, strlen(s)), 0);
}

void append_many(Buf *b, char c, size_t n)
{
        while (n-- > 0)
                assert_int_equal(buf_u8(b, (uint8_t) c), 0);
}
