/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdio.h>

#include "base/macro.h"
#include "warden/warden-dns.h"

/* One question in, one answer out, in three steps: it is read (whatever is not exactly one question with at most one OPT
 * record is malformed), decided, and written. Numbers on the wire are big endian. */

enum {
        HEADER_SIZE = 12,
        NAME_MAX_WIRE = 255, /* RFC 1035, 2.3.4: with all length bytes */
        LABEL_MAX = 63,
        OPT_SIZE = 11,       /* its fixed part */

        TYPE_A = 1,
        TYPE_SOA = 6,
        TYPE_AAAA = 28,
        TYPE_OPT = 41,
        TYPE_SVCB = 64,
        TYPE_HTTPS = 65,
        CLASS_IN = 1,

        RCODE_OK = 0,
        RCODE_FORMERR = 1,
        RCODE_NXDOMAIN = 3,
        RCODE_NOTIMP = 4,
        RCODE_BADVERS = 16, /* the upper eight bits of it stand in OPT */

        EDNS_OPTION_ERROR = 15, /* RFC 8914 */
        EDNS_ERROR_BLOCKED = 15,
        EDNS_UDP_SIZE = 1232,
        TTL = 60, /* what a name gets lasts as long as the run; so does what it does not get */
};

typedef struct Question {
        const uint8_t *p; /* the message */
        size_t n, end;    /* its size; where the question ends */
        uint16_t type, class;
        bool host_name;   /* labels as the decider wants them */
        bool opt, dnssec_ok;
        uint8_t version;  /* of EDNS */
} Question;

typedef struct Verdict {
        unsigned rcode;
        EgressReason reason;
        EgressAddress address; /* family 0: none */
} Verdict;

static uint16_t get_u16(const uint8_t *p)
{
        return (uint16_t) (p[0] << 8 | p[1]);
}

/* ---- reading */

/* Appends the label to text in lower case and says whether a host name can have it. */
static bool label_to_text(const uint8_t *label, size_t n, char *text, size_t *used)
{
        bool host_name = label[0] != '-' && label[n - 1] != '-';

        for (size_t i = 0; i < n; i++) {
                char c = (char) (label[i] >= 'A' && label[i] <= 'Z' ? label[i] | 0x20 : label[i]);

                if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_') {
                        text[(*used)++] = c;
                        continue;
                }
                *used += (size_t) sprintf(text + *used, "\\%03u", label[i]);
                host_name = false;
        }
        return host_name;
}

/* Copies as much as there is room for, never a part of an escaped byte. */
static void copy_name(const char *text, size_t n, char ret[static DNS_NAME_TEXT_MAX])
{
        size_t cut = DNS_NAME_TEXT_MAX - sizeof("...");

        if (n < DNS_NAME_TEXT_MAX) {
                memcpy(ret, text, n + 1);
                return;
        }
        for (size_t i = 1; i < 4; i++)
                if (text[cut - i] == '\\')
                        cut -= i;
        memcpy(ret, text, cut);
        memcpy(ret + cut, "...", sizeof("..."));
}

/* The name at q->end, which then is behind it. False: it is none, or compressed, for which a question has no reason. */
static bool read_name(Question *q, char ret[static DNS_NAME_TEXT_MAX])
{
        char text[4 * NAME_MAX_WIRE + 1];
        size_t used = 0, start = q->end, at = start;

        q->host_name = true;
        for (;;) {
                size_t label;

                if (at >= q->n)
                        return false;
                label = q->p[at++];
                if (label == 0)
                        break;
                if (label > LABEL_MAX || label > q->n - at || at + label - start >= NAME_MAX_WIRE)
                        return false;
                if (used > 0)
                        text[used++] = '.';
                if (!label_to_text(q->p + at, label, text, &used))
                        q->host_name = false;
                at += label;
        }
        if (used == 0) {
                text[used++] = '.';
                q->host_name = false;
        }
        text[used] = 0;
        copy_name(text, used, ret);
        q->end = at;
        return true;
}

static bool read_question(Question *q, DnsAnswer *ret)
{
        char name[DNS_NAME_TEXT_MAX];

        if (get_u16(q->p + 4) != 1)
                return false;
        q->end = HEADER_SIZE;
        if (!read_name(q, name) || q->n - q->end < 4)
                return false;
        q->type = get_u16(q->p + q->end);
        q->class = get_u16(q->p + q->end + 2);
        q->end += 4;
        memcpy(ret->name, name, sizeof(name));
        ret->type = q->type;
        return true;
}

/* RFC 6891, 6.1: the whole rest of the message is one OPT record, and its options fill it exactly. */
static bool read_opt(Question *q)
{
        const uint8_t *p = q->p + q->end;
        size_t n = q->n - q->end;

        if (n < OPT_SIZE || p[0] != 0 || get_u16(p + 1) != TYPE_OPT || get_u16(p + 9) != n - OPT_SIZE)
                return false;
        for (size_t at = OPT_SIZE; at < n;) {
                if (n - at < 4 || get_u16(p + at + 2) > n - at - 4)
                        return false;
                at += 4u + get_u16(p + at + 2);
        }
        q->opt = true;
        q->version = p[6];
        q->dnssec_ok = p[7] & 0x80;
        return true;
}

/* Nothing but the question and, perhaps, OPT. A signed question (TSIG, SIG(0)) would want a signed answer. */
static bool read_rest(Question *q)
{
        unsigned additional = get_u16(q->p + 10);

        if (get_u16(q->p + 6) != 0 || get_u16(q->p + 8) != 0 || additional > 1)
                return false;
        return additional == 1 ? read_opt(q) : q->end == q->n;
}

/* ---- deciding */

/* RFC 6761, 6.3: the sandbox's own; no record, for nothing was asked for that is outside. */
static bool is_localhost(const char *name)
{
        size_t n = strlen(name), m = strlen("localhost");

        return n >= m && streq(name + n - m, "localhost") && (n == m || name[n - m - 1] == '.');
}

static Verdict decide_localhost(uint16_t type)
{
        Verdict v = { .rcode = RCODE_OK };

        if (type == TYPE_A)
                v.address = (EgressAddress){ AF_INET, { 127, 0, 0, 1 } };
        else if (type == TYPE_AAAA)
                v.address = (EgressAddress){ AF_INET6, { [15] = 1 } };
        return v;
}

/* REFUSED or SERVFAIL for what is denied would make resolvers try again and speak of a temporary failure. */
static Verdict decide(Decider *d, const Question *q, const char *name)
{
        bool wants_address = q->class == CLASS_IN && (q->type == TYPE_A || q->type == TYPE_AAAA);
        EgressAddress ipv4 = {}, ipv6 = {};
        EgressReason reason;

        if (!q->host_name)
                return (Verdict){ RCODE_NXDOMAIN, metadata_host_name(name) ? EGRESS_METADATA : EGRESS_NO_RULE, {} };
        if (q->class == CLASS_IN && is_localhost(name))
                return decide_localhost(q->type);
        reason = decider_name(d, name, wants_address ? &ipv4 : NULL, wants_address ? &ipv6 : NULL);
        if (reason != EGRESS_OK)
                return (Verdict){ RCODE_NXDOMAIN, reason, {} };
        if (wants_address)
                return (Verdict){ RCODE_OK, EGRESS_OK, q->type == TYPE_A ? ipv4 : ipv6 };
        /* Every browser asks for these first; there are none, and so no key for an encrypted ClientHello. */
        if (q->class == CLASS_IN && (q->type == TYPE_HTTPS || q->type == TYPE_SVCB))
                return (Verdict){ RCODE_OK, EGRESS_OK, {} };
        return (Verdict){ q->class == CLASS_IN ? RCODE_OK : RCODE_NXDOMAIN, EGRESS_DNS_TYPE, {} };
}

/* ---- writing */

typedef struct Writer {
        uint8_t *p;
        size_t n;
} Writer;

static void put(Writer *w, const void *p, size_t n)
{
        memcpy(w->p + w->n, p, n);
        w->n += n;
}

static void put_u16(Writer *w, unsigned v)
{
        put(w, (const uint8_t[]){ (uint8_t) (v >> 8), (uint8_t) v }, 2);
}

static void put_u32(Writer *w, uint32_t v)
{
        put_u16(w, v >> 16);
        put_u16(w, v & 0xffff);
}

/* The same id, opcode, RD and CD; RA, for more recursion than this there is not. */
static void put_header(Writer *w, const uint8_t *question, unsigned rcode, unsigned questions)
{
        put(w, question, 2);
        put_u16(w, 0x8080u | (question[2] & 0x79u) << 8 | (question[3] & 0x10u) | (rcode & 0xfu));
        put_u16(w, questions);
        for (unsigned i = 0; i < 3; i++)
                put_u16(w, 0);
}

static void put_address(Writer *w, const EgressAddress *a)
{
        size_t size = a->family == AF_INET ? 4 : 16;

        put_u16(w, 0xc000 | HEADER_SIZE); /* the name is the question's */
        put_u16(w, a->family == AF_INET ? TYPE_A : TYPE_AAAA);
        put_u16(w, CLASS_IN);
        put_u32(w, TTL);
        put_u16(w, (unsigned) size);
        put(w, a->bytes, size);
}

/* RFC 2308: without it no client remembers that there was nothing. The zone is the root: what has no rule is not there. */
static const uint8_t soa[] = "\0"            /* owner */
                             "\0\6\0\1"      /* SOA IN */
                             "\0\0\0\x3c"    /* TTL */
                             "\0\x36"        /* 54 bytes */
                             "\x08" "agentbox\x07invalid\0"
                             "\x06" "nobody\x07invalid\0"
                             "\0\0\0\1"      /* serial */
                             "\0\0\x0e\x10"  /* refresh */
                             "\0\0\2\x58"    /* retry */
                             "\0\1\x51\x80"  /* expire */
                             "\0\0\0\x3c";   /* what says "none" lives as long as the TTL */
#define SOA_SIZE (sizeof(soa) - 1)
_Static_assert(SOA_SIZE == OPT_SIZE + 54, "an owner of one byte, the fixed part of a record, the data");

/* Behind an extended error: "agentbox: no-rule". */
#define ERROR_TEXT_MAX 32u
_Static_assert(HEADER_SIZE + NAME_MAX_WIRE + 4 + SOA_SIZE + OPT_SIZE + 6 + ERROR_TEXT_MAX <= DNS_ANSWER_MAX,
                "the longest answer there is");

static void put_opt(Writer *w, const Question *q, const Verdict *v)
{
        char text[ERROR_TEXT_MAX];
        int n = snprintf(text, sizeof(text), "agentbox: %s", egress_reason_to_string(v->reason));
        unsigned size = (unsigned) MIN2((size_t) n, sizeof(text) - 1);
        bool blocked = v->reason != EGRESS_OK && v->rcode != RCODE_BADVERS;

        put(w, "", 1); /* the root */
        put_u16(w, TYPE_OPT);
        put_u16(w, EDNS_UDP_SIZE);
        put_u16(w, v->rcode >> 4 << 8); /* version 0 */
        put_u16(w, q->dnssec_ok ? 0x8000 : 0);
        put_u16(w, blocked ? 6 + size : 0);
        if (!blocked)
                return;
        put_u16(w, EDNS_OPTION_ERROR);
        put_u16(w, 2 + size);
        put_u16(w, EDNS_ERROR_BLOCKED);
        put(w, text, size);
}

static size_t write_answer(const Question *q, const Verdict *v, uint8_t *answer)
{
        Writer w = { .p = answer };

        put_header(&w, q->p, v->rcode, 1);
        put(&w, q->p + HEADER_SIZE, q->end - HEADER_SIZE);
        if (v->address.family != 0) {
                put_address(&w, &v->address);
                answer[7] = 1;
        } else if (v->rcode != RCODE_BADVERS && q->class == CLASS_IN) {
                put(&w, soa, SOA_SIZE);
                answer[9] = 1;
        }
        if (q->opt) {
                put_opt(&w, q, v);
                answer[11] = 1;
        }
        return w.n;
}

/* The header alone: what could not be read cannot be repeated. */
static size_t write_error(const uint8_t *question, unsigned rcode, uint8_t *answer)
{
        Writer w = { .p = answer };

        put_header(&w, question, rcode, 0);
        return w.n;
}

void dns_answer(Decider *d, const uint8_t *question, size_t n, uint8_t answer[static DNS_ANSWER_MAX], DnsAnswer *ret)
{
        Question q = { .p = question, .n = n };
        Verdict v;

        *ret = (DnsAnswer){ .reason = EGRESS_MALFORMED };
        if (n < HEADER_SIZE || question[2] & 0x80)
                return;
        if (question[2] & 0x78) {
                read_question(&q, ret); /* for the record */
                ret->size = write_error(question, RCODE_NOTIMP, answer);
                return;
        }
        if (!read_question(&q, ret) || !read_rest(&q)) {
                ret->size = write_error(question, RCODE_FORMERR, answer);
                return;
        }
        if (q.opt && q.version != 0)
                v = (Verdict){ RCODE_BADVERS, EGRESS_MALFORMED, {} };
        else
                v = decide(d, &q, ret->name);
        ret->reason = v.reason;
        ret->size = write_answer(&q, &v, answer);
}
