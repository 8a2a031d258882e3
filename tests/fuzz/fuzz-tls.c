/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdio.h>

#include "warden/warden-tls.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first bytes of a connection. The verdict does not change once it is there, whatever more comes, and no
 * hello is let through unless the short reader below, which shares nothing with the warden's, finds that
 * very name in it. The input is taken as it stands, and once more as the body of a hello whose lengths are
 * right, cut into records. */

#define NAME "github.com"
#define WIRE_MAX (64u << 10)

static size_t be(const uint8_t *p, size_t width)
{
        return width == 0 ? 0 : be(p, width - 1) << 8 | p[width - 1];
}

/* Puts the fragments of the records one behind the other until a message is whole. 0: it never is. */
static size_t naive_message(const uint8_t *p, size_t n, uint8_t *message)
{
        size_t have = 0;

        while (n >= 5 && n - 5 >= be(p + 3, 2)) {
                memcpy(message + have, p + 5, be(p + 3, 2));
                have += be(p + 3, 2);
                if (have >= 4 && have >= 4 + be(message + 1, 3))
                        return have;
                n -= 5 + be(p + 3, 2);
                p += 5 + be(p + 3, 2);
        }
        return 0;
}

/* True: each server_name extension is the one name, there is one, and (if wanted) no ECH. */
static bool naive_good(const uint8_t *p, size_t n, bool ech_allow)
{
        static uint8_t message[WIRE_MAX];
        size_t size = naive_message(p, n, message), pos = 4 + 2 + 32, names = 0;
        static const uint8_t want[] = "\0\x0f\0\x0d\0\0\x0agithub.com";

        if (size == 0)
                return false;
        pos += 1 + message[pos];
        pos += 2 + be(message + pos, 2);
        pos += 1 + message[pos];
        for (pos += 2; pos < size; pos += 4 + be(message + pos + 2, 2)) {
                size_t type = be(message + pos, 2);

                if (!ech_allow && (type == 0xfe0d || type == 0xffce))
                        return false;
                if (type != 0)
                        continue;
                names++;
                for (size_t i = 0; i < sizeof(want) - 1; i++)
                        if ((message[pos + 2 + i] | (i >= 7 && i != 13 ? 0x20 : 0)) != want[i])
                                return false;
        }
        return pos == size && names == 1;
}

typedef struct Result {
        EgressReason reason;
        bool complete, ech;
        char sni[256];
} Result;

static Result look(TlsReader *t, const uint8_t *p, size_t n, bool ech_allow)
{
        /* Its own piece of memory, so that a byte too far is seen. */
        _cleanup_free_ uint8_t *copy = malloc(n > 0 ? n : 1);
        Result r;

        if (!copy)
                abort();
        memcpy(copy, p, n);
        r.reason = tls_hello_check(t, copy, n, NAME, ech_allow, &r.complete, &r.ech, r.sni);
        if (strnlen(r.sni, sizeof(r.sni)) == sizeof(r.sni) || (r.complete && r.reason != EGRESS_OK))
                abort();
        for (const char *c = r.sni; *c; c++)
                if (*c < ' ' || *c > '~')
                        abort();
        return r;
}

static void check(const uint8_t *p, size_t n, bool ech_allow)
{
        TlsReader at_once = {}, in_pieces = {};
        Result last = look(&at_once, p, n, ech_allow);
        bool final = false;
        uint32_t chance = (uint32_t) n * 2654435761u + (n > 0 ? p[n - 1] : 0u);

        if (last.complete && !naive_good(p, n, ech_allow))
                abort();
        for (size_t i = 0; i < n; i += 1 + (chance >> 16) % (1 + n / 8)) {
                Result r = look(&in_pieces, p, i, ech_allow);

                chance = chance * 1664525 + 1013904223;
                if (!r.complete && r.reason == EGRESS_OK) {
                        if (final || i >= TLS_HELLO_WIRE_MAX)
                                abort();
                        continue;
                }
                final = true;
                if (r.reason != last.reason || r.complete != last.complete || r.ech != last.ech ||
                                !streq(r.sni, last.sni))
                        abort();
        }
}

static size_t wrap(const uint8_t *data, size_t size, uint8_t *wire)
{
        size_t each = size > 0 && data[0] % 4 == 0 ? 1 + data[size - 1] : 1 << 14, n = 0, total = size + 4;
        const uint8_t header[4] = { 1, (uint8_t) (size >> 16), (uint8_t) (size >> 8), (uint8_t) size };

        for (size_t pos = 0; pos < total; pos += each) {
                size_t length = total - pos < each ? total - pos : each;

                memcpy(wire + n, (const uint8_t[]){ 22, 3, 1, (uint8_t) (length >> 8), (uint8_t) length },
                                5);
                n += 5;
                for (size_t i = 0; i < length; i++)
                        wire[n++] = pos + i < 4 ? header[pos + i] : data[pos + i - 4];
        }
        return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static uint8_t wire[6 * (TLS_HELLO_MAX + 8)];

        if (size > TLS_HELLO_MAX + 1024)
                return 0;
        check(data, size, false);
        check(data, size, true);
        if (size > TLS_HELLO_MAX)
                return 0;
        check(wire, wrap(data, size, wire), false);
        /* A hello's body where the input is a whole one in one record. */
        if (size > 9)
                check(wire, wrap(data + 9, size - 9, wire), true);
        return 0;
}
