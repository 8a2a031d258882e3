/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "warden/warden-name.h"
#include "warden/warden-tls.h"

/* RFC 8446, 5.1 and 4; RFC 6066, 3. */
enum {
        RECORD_HANDSHAKE = 22,
        RECORD_HEADER = 5,
        RECORD_MAX = 1 << 14,
        HANDSHAKE_CLIENT_HELLO = 1,
        HANDSHAKE_HEADER = 4,
        EXTENSION_SERVER_NAME = 0,
        NAME_HOST = 0,
        VERSION_MAJOR = 3,
        VERSION_MINOR_MAX = 4,
};

const uint8_t tls_alert_access_denied[7] = { 21, VERSION_MAJOR, 3, 0, 2, 2 /* fatal */, 49 };

static size_t read_be(const uint8_t *p, size_t n)
{
        size_t v = 0;

        for (size_t i = 0; i < n; i++)
                v = v << 8 | p[i];
        return v;
}

/* ---- the records, until the message is there */

static bool message_complete(const TlsReader *t)
{
        return t->total > 0 && t->have == t->total;
}

/* n: how much of the header is there, at least 1. */
static bool record_header_good(const uint8_t *p, size_t n)
{
        size_t length = n >= RECORD_HEADER ? read_be(p + 3, 2) : 1;

        return p[0] == RECORD_HANDSHAKE && (n < 2 || p[1] == VERSION_MAJOR) &&
               (n < 3 || p[2] <= VERSION_MINOR_MAX) && length > 0 && length <= RECORD_MAX;
}

/* part: as much of a record's length bytes as is there. */
static EgressReason message_add(TlsReader *t, ByteSpan part, size_t length)
{
        for (size_t i = 0; i < part.n && t->have + i < HANDSHAKE_HEADER; i++)
                t->header[t->have + i] = part.p[i];
        if (t->have + part.n > 0 && t->header[0] != HANDSHAKE_CLIENT_HELLO)
                return EGRESS_NOT_TLS;
        if (t->have + part.n >= HANDSHAKE_HEADER) {
                t->total = HANDSHAKE_HEADER + read_be(t->header + 1, 3);
                if (t->total > TLS_HELLO_MAX)
                        return EGRESS_TOO_LARGE;
                if (t->have + length > t->total)
                        return EGRESS_NOT_TLS;
        }
        t->have += part.n;
        return EGRESS_OK;
}

/* Goes over the records that are new. What is there of the last one is looked at, but not remembered. */
static EgressReason message_follow(TlsReader *t, const uint8_t *p, size_t n)
{
        while (t->seen < n && !message_complete(t)) {
                const uint8_t *record = p + t->seen;
                size_t left = n - t->seen, length;
                TlsReader next = *t;
                EgressReason reason;

                if (!record_header_good(record, left))
                        return EGRESS_NOT_TLS;
                if (left < RECORD_HEADER)
                        break;
                left -= RECORD_HEADER;
                length = read_be(record + 3, 2);
                reason = message_add(
                                &next, (ByteSpan){ record + RECORD_HEADER, MIN2(length, left) }, length);
                if (reason != EGRESS_OK)
                        return reason;
                if (left < length)
                        break;
                next.seen += RECORD_HEADER + length;
                *t = next;
        }
        return EGRESS_OK;
}

/* The fragments of a message that is complete, one behind the other. */
static void message_copy(const uint8_t *p, size_t total, uint8_t *copy)
{
        for (size_t have = 0, length; have < total; have += length, p += RECORD_HEADER + length) {
                length = read_be(p + 3, 2);
                memcpy(copy + have, p + RECORD_HEADER, length);
        }
}

/* ---- the message */

/* Takes n bytes off the front of s. */
static bool take(ByteSpan *s, size_t n, ByteSpan *ret)
{
        if (n > s->n)
                return false;
        *ret = (ByteSpan){ s->p, n };
        s->p += n;
        s->n -= n;
        return true;
}

static bool take_number(ByteSpan *s, size_t width, size_t *ret)
{
        ByteSpan number;

        if (!take(s, width, &number))
                return false;
        *ret = read_be(number.p, width);
        return true;
}

/* A vector whose length stands in front of it in width bytes. */
static bool take_vector(ByteSpan *s, size_t width, ByteSpan *ret)
{
        size_t n;

        return take_number(s, width, &n) && take(s, n, ret);
}

typedef struct Hello {
        ByteSpan name;         /* the first host_name; of length 0: none was found */
        unsigned server_names; /* extensions of that type */
        bool name_alone;       /* the last of them held one host_name and nothing else */
        bool has_ech;
} Hello;

/* Of an extension that is malformed in itself all that can be said is that it holds no good name. */
static void read_server_name(ByteSpan data, Hello *h)
{
        ByteSpan list, name;
        size_t type;

        h->server_names++;
        h->name_alone = false;
        if (!take_vector(&data, 2, &list) || data.n > 0)
                return;
        if (!take_number(&list, 1, &type) || type != NAME_HOST || !take_vector(&list, 2, &name))
                return;
        if (h->name.n == 0)
                h->name = name;
        h->name_alone = list.n == 0;
}

/* What hides the name that is really asked for: ECH as it became RFC 9849, the numbers that its drafts went
 * through, and ESNI before them. GREASE of ECH (Chrome and Firefox send it to everybody) looks the same, and
 * is meant to. */
static bool extension_is_ech(size_t type)
{
        static const uint16_t types[] = { 0xfe0d, 0xfe0c, 0xfe0b, 0xfe0a, 0xfe09, 0xfe08, 0xff02, 0xffce };

        for (size_t i = 0; i < ELEMENTSOF(types); i++)
                if (type == types[i])
                        return true;
        return false;
}

static bool read_extensions(ByteSpan s, Hello *h)
{
        uint8_t seen[(UINT16_MAX + 1) / 8] = {};

        while (s.n > 0) {
                ByteSpan data;
                size_t type;

                if (!take_number(&s, 2, &type) || !take_vector(&s, 2, &data))
                        return false;
                if (type == EXTENSION_SERVER_NAME)
                        read_server_name(data, h);
                else if (seen[type / 8] & 1u << type % 8)
                        return false;
                seen[type / 8] |= (uint8_t) (1u << type % 8);
                h->has_ech = h->has_ech || extension_is_ech(type);
        }
        return true;
}

/* False: no ClientHello. */
static bool read_hello(ByteSpan s, Hello *h)
{
        ByteSpan version, random, session, ciphers, compressions, extensions;

        if (!take(&s, 2, &version) || version.p[0] != VERSION_MAJOR || version.p[1] > VERSION_MINOR_MAX)
                return false;
        if (!take(&s, 32, &random) || !take_vector(&s, 1, &session) || session.n > 32)
                return false;
        if (!take_vector(&s, 2, &ciphers) || ciphers.n == 0 || ciphers.n % 2 != 0)
                return false;
        if (!take_vector(&s, 1, &compressions) || !memchr(compressions.p, 0 /* null */, compressions.n))
                return false;
        /* Before TLS 1.2 there need be none: then there is no name either. */
        if (s.n == 0)
                return true;
        return take_vector(&s, 2, &extensions) && s.n == 0 && read_extensions(extensions, h);
}

static EgressReason hello_verdict(const Hello *h, const char *name, bool ech_allow)
{
        if (h->server_names != 1 || !h->name_alone || !span_is_host_name(h->name))
                return EGRESS_SNI_BAD;
        if (!span_is(h->name, name))
                return EGRESS_SNI_MISMATCH;
        return h->has_ech && !ech_allow ? EGRESS_ECH : EGRESS_OK;
}

EgressReason tls_hello_check(TlsReader *t, const uint8_t *p, size_t n, const char *name, bool ech_allow,
                bool *ret_complete, bool *ret_has_ech, char ret_sni[static 256])
{
        uint8_t copy[TLS_HELLO_MAX];
        Hello hello = {};
        EgressReason reason;

        *ret_complete = *ret_has_ech = false;
        ret_sni[0] = 0;
        n = MIN2(n, (size_t) TLS_HELLO_WIRE_MAX);
        reason = message_follow(t, p, n);
        if (reason != EGRESS_OK)
                return reason;
        if (!message_complete(t))
                return n < TLS_HELLO_WIRE_MAX ? EGRESS_OK : EGRESS_TOO_LARGE;

        message_copy(p, t->total, copy);
        if (!read_hello((ByteSpan){ copy + HANDSHAKE_HEADER, t->total - HANDSHAKE_HEADER }, &hello))
                return EGRESS_NOT_TLS;
        span_escape(hello.name, ret_sni, 256);
        *ret_has_ech = hello.has_ech;
        reason = hello_verdict(&hello, name, ech_allow);
        *ret_complete = reason == EGRESS_OK;
        return reason;
}
