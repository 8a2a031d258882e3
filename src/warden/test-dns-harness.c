/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdint.h>

#include "test-dns-harness.h"

#define S(s) ((char *) (s))

static EgressRule rules[] = {
        { .kind = EGRESS_RULE_TLS, .text = S("tls github.com"), .name = S("github.com"), .port = 443 },
        { .kind = EGRESS_RULE_TLS, .text = S("tls *.example.org"), .name = S("example.org"), .wildcard = true, .port = 443 },
        { .kind = EGRESS_RULE_HTTP, .text = S("http example.net"), .name = S("example.net"), .port = 80 },
        { .kind = EGRESS_RULE_TLS, .text = S("tls *.internal"), .name = S("internal"), .wildcard = true, .port = 443 },
};
const WardenSpec dns_spec = { .rules = rules, .n_rules = ELEMENTSOF(rules), .connections = 1, .seed = { 42 } };

int dns_set_up(void **state)
{
        return decider_new(&dns_spec, (Decider **) state);
}

int dns_tear_down(void **state)
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

void put_header(Buf *b, unsigned flags, unsigned questions, unsigned answers, unsigned authorities,
                unsigned additional)
{
        put_u16(b, 0xbeef);
        put_u16(b, flags);
        put_u16(b, questions);
        put_u16(b, answers);
        put_u16(b, authorities);
        put_u16(b, additional);
}

void put_question(Buf *b, const char *name, unsigned type, unsigned class)
{
        put_name(b, name);
        put_u16(b, type);
        put_u16(b, class);
}

void put_opt(Buf *b, unsigned size, unsigned version, unsigned flags, const char *data, size_t n)
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
Parsed ask(Decider *d, const Buf *b, DnsAnswer *ret)
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

Parsed ask_name(Decider *d, const char *name, unsigned type, DnsAnswer *ret)
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

void expect(Decider *d, const char *name, unsigned type, unsigned rcode, EgressReason reason)
{
        DnsAnswer a;
        Parsed r = ask_name(d, name, type, &a);

        if (r.rcode != rcode || a.reason != reason || r.address_size > 0)
                fail_msg("%s type %u: rcode %u, %s, %u bytes", name, type, r.rcode, egress_reason_to_string(a.reason),
                                r.address_size);
}
