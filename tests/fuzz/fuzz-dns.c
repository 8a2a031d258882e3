/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/macro.h"
#include "warden/warden-dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One message from inside a sandbox. The answer is read again, strictly and by code of its own, and must be what these rules
 * allow: an address only for a name that has one, the question's own bytes, no size over the bound. */

static EgressRule rules[] = {
        { .kind = EGRESS_RULE_TLS, .text = (char *) "1", .name = (char *) "github.com", .port = 443 },
        { .kind = EGRESS_RULE_TLS, .text = (char *) "2", .name = (char *) "example.org", .wildcard = true, .port = 443 },
        { .kind = EGRESS_RULE_TLS, .text = (char *) "3", .name = (char *) "internal", .wildcard = true, .port = 443 },
};
static const WardenSpec spec = { .rules = rules, .n_rules = ELEMENTSOF(rules), .connections = 1, .seed = { 1, 2, 3 } };

static void must(bool b)
{
        if (!b)
                abort();
}

static unsigned take(const uint8_t **p, const uint8_t *end, size_t n)
{
        unsigned v = 0;

        must((size_t) (end - *p) >= n);
        for (size_t i = 0; i < n; i++)
                v = v << 8 | *(*p)++;
        return v;
}

static void skip_labels(const uint8_t **p, const uint8_t *end)
{
        const uint8_t *start = *p;

        for (unsigned n = take(p, end, 1); n > 0; n = take(p, end, 1)) {
                must(n < 64 && (size_t) (end - *p) >= n);
                *p += n;
        }
        must(*p - start <= 255);
}

static bool ends_in(const char *name, const char *suffix)
{
        size_t n = strlen(name), m = strlen(suffix);

        return n > m && streq(name + n - m, suffix);
}

static bool may_have_address(const char *name)
{
        if (ends_in(name, ".metadata.google.internal") || streq(name, "metadata.google.internal"))
                return false;
        return streq(name, "github.com") || ends_in(name, ".example.org") || ends_in(name, ".internal") ||
               streq(name, "localhost") || ends_in(name, ".localhost");
}

/* What was given leads back to the name, or to the sandbox itself. */
static void check_address(Decider *d, const uint8_t *p, unsigned size, const DnsAnswer *a)
{
        static const uint8_t loopback4[] = { 127, 0, 0, 1 }, loopback6[16] = { [15] = 1 };
        EgressAddress address = { .family = size == 4 ? AF_INET : AF_INET6 };
        EgressDecision decision;

        must(a->reason == EGRESS_OK && may_have_address(a->name));
        must(strspn(a->name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == strlen(a->name));
        if (streq(a->name, "localhost") || ends_in(a->name, ".localhost")) {
                must(memcmp(p, size == 4 ? loopback4 : loopback6, size) == 0);
                return;
        }
        memcpy(address.bytes, p, size);
        decider_connection(d, &address, 443, &decision);
        must(decision.reason == EGRESS_OK && decision.tls && streq(decision.name, a->name));
}

static void check_record(Decider *d, const uint8_t **p, const uint8_t *end, unsigned type, const DnsAnswer *a)
{
        unsigned size;

        must(take(p, end, 2) == 0xc00c && take(p, end, 2) == type && take(p, end, 2) == 1 && take(p, end, 4) == 60);
        size = take(p, end, 2);
        must((type == 1 && size == 4) || (type == 28 && size == 16));
        must((size_t) (end - *p) >= size);
        check_address(d, *p, size, a);
        *p += size;
}

static void check_soa(const uint8_t **p, const uint8_t *end)
{
        const uint8_t *start;
        unsigned size;

        must(take(p, end, 1) == 0 && take(p, end, 2) == 6 && take(p, end, 2) == 1 && take(p, end, 4) == 60);
        size = take(p, end, 2);
        start = *p;
        skip_labels(p, end);
        skip_labels(p, end);
        must((size_t) (end - *p) >= 20);
        *p += 20;
        must((size_t) (*p - start) == size);
}

/* Returns the upper bits of the response code. */
static unsigned check_opt(const uint8_t **p, const uint8_t *end, const DnsAnswer *a)
{
        unsigned rcode, size;

        must(take(p, end, 1) == 0 && take(p, end, 2) == 41 && take(p, end, 2) == 1232);
        rcode = take(p, end, 1);
        must(take(p, end, 1) == 0 && (take(p, end, 2) & 0x7fff) == 0);
        size = take(p, end, 2);
        must(size == (size_t) (end - *p) && (size > 0) == (a->reason != EGRESS_OK && rcode == 0));
        if (size > 0) {
                must(take(p, end, 2) == 15 && take(p, end, 2) == size - 4 && take(p, end, 2) == 15);
                for (; *p < end; (*p)++)
                        must(**p >= 0x20 && **p < 0x7f);
        }
        return rcode << 4;
}

static void check_answer(Decider *d, const uint8_t *q, size_t n, const uint8_t *answer, const DnsAnswer *a)
{
        const uint8_t *p = answer, *end = answer + a->size;
        unsigned flags, rcode, questions, answers, authorities, additional, type = 0;

        must(a->size >= 12 && a->size <= DNS_ANSWER_MAX);
        must(take(&p, end, 2) == ((unsigned) q[0] << 8 | q[1]));
        flags = take(&p, end, 2);
        rcode = flags & 0xf;
        must((flags & 0xfff0) == (0x8080u | (q[2] & 0x79u) << 8 | (q[3] & 0x10u)));
        questions = take(&p, end, 2);
        answers = take(&p, end, 2);
        authorities = take(&p, end, 2);
        additional = take(&p, end, 2);
        must(questions <= 1 && answers + authorities <= questions && additional <= questions);
        if (questions == 1) {
                skip_labels(&p, end);
                type = take(&p, end, 2);
                take(&p, end, 2);
                must(a->type == type && (size_t) (p - answer) <= n &&
                     memcmp(answer + 12, q + 12, (size_t) (p - answer) - 12) == 0);
        }
        if (answers == 1)
                check_record(d, &p, end, type, a);
        if (authorities == 1)
                check_soa(&p, end);
        if (additional == 1)
                rcode |= check_opt(&p, end, a);
        must(p == end);
        if (rcode == 1 || rcode == 4 || rcode == 16)
                must(a->reason == EGRESS_MALFORMED && questions == (rcode == 16) && answers == 0);
        else
                must((rcode == 0 || rcode == 3) && questions == 1 && a->reason != EGRESS_MALFORMED);
        must(a->reason != EGRESS_LIMIT);
        must(rcode != 3 || (answers == 0 && a->reason != EGRESS_OK));
        must(((q[2] & 0x78) != 0) == (rcode == 4));
}

/* One for many inputs, for it takes a while to make; a new one before its pool of names is empty. */
static Decider *get_decider(void)
{
        static Decider *d;
        static unsigned used;

        if (used++ % 4000 == 0) {
                d = decider_free(d);
                must(decider_new(&spec, &d) == 0);
        }
        return d;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        Decider *d = get_decider();
        uint8_t first[DNS_ANSWER_MAX], second[DNS_ANSWER_MAX];
        DnsAnswer a, b;

        dns_answer(d, data, size, first, &a);
        must(memchr(a.name, 0, sizeof(a.name)) != NULL);
        for (const char *c = a.name; *c; c++)
                must(*c > 0x20 && *c < 0x7f);
        if (size < 12 || data[2] & 0x80)
                must(a.size == 0);
        else
                check_answer(d, data, size, first, &a);
        /* Asked again, the same again. */
        dns_answer(d, data, size, second, &b);
        must(a.size == b.size && a.reason == b.reason && a.type == b.type && streq(a.name, b.name) &&
             memcmp(first, second, a.size) == 0);
        return 0;
}
