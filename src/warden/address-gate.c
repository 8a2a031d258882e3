/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/macro.h"
#include "warden/address-gate.h"

/* Which addresses the warden dials. An address is looked up in the table; if it is an IPv6 one that a translator, a tunnel
 * or the kernel itself turns into an IPv4 one, that is taken out and looked up as well, and the worse of the two counts.
 * IPv4-mapped ones are never dialled: the kernel would send to the IPv4 address, but look for a route of the other. */

/* The IANA registries of IPv4 and IPv6 special-purpose addresses, by the document of each entry. What they call globally
 * reachable out of 192.0.0.0/24 and 2001::/23 (PCP, TURN, AMT, AS112, ORCHIDv2) is no place of a service and stays out. */
const AddressRow address_rows[] = {
        { AF_INET, {}, 0, ADDRESS_GLOBAL, "whatever no other row has" },
        { AF_INET, { 0 }, 8, ADDRESS_NEVER, "RFC 791: this network; the kernel takes 0.0.0.0 for itself" },
        { AF_INET, { 10 }, 8, ADDRESS_SPECIAL, "RFC 1918: private" },
        { AF_INET, { 100, 64 }, 10, ADDRESS_SPECIAL, "RFC 6598: shared by a carrier's customers" },
        { AF_INET, { 127 }, 8, ADDRESS_NEVER, "RFC 1122: loopback" },
        { AF_INET, { 172, 16 }, 12, ADDRESS_SPECIAL, "RFC 1918: private" },
        { AF_INET, { 192, 0, 0 }, 24, ADDRESS_SPECIAL, "RFC 6890: IETF protocol assignments" },
        { AF_INET, { 192, 0, 2 }, 24, ADDRESS_SPECIAL, "RFC 5737: documentation" },
        { AF_INET, { 192, 88, 99 }, 24, ADDRESS_SPECIAL, "RFC 7526: once the relays of 6to4" },
        { AF_INET, { 192, 168 }, 16, ADDRESS_SPECIAL, "RFC 1918: private" },
        { AF_INET, { 198, 18 }, 15, ADDRESS_SPECIAL, "RFC 2544: benchmarks; the synthetic addresses are here" },
        { AF_INET, { 198, 51, 100 }, 24, ADDRESS_SPECIAL, "RFC 5737: documentation" },
        { AF_INET, { 203, 0, 113 }, 24, ADDRESS_SPECIAL, "RFC 5737: documentation" },
        { AF_INET, { 224 }, 4, ADDRESS_NEVER, "RFC 1112: multicast" },
        { AF_INET, { 240 }, 4, ADDRESS_NEVER, "RFC 1112: reserved; RFC 919: broadcast" },

        { AF_INET, { 169, 254 }, 16, ADDRESS_METADATA, "RFC 3927: link-local, where nearly every cloud has it" },
        { AF_INET, { 100, 100, 100, 200 }, 32, ADDRESS_METADATA, "a cloud's, in the shared range" },
        { AF_INET, { 168, 63, 129, 16 }, 32, ADDRESS_METADATA, "a cloud's, a public address that the host answers" },
        { AF_INET, { 192, 0, 0, 192 }, 32, ADDRESS_METADATA, "a cloud's, in the protocol assignments" },

        { AF_INET6, {}, 0, ADDRESS_NEVER, "RFC 4291: nothing but 2000::/3 is global unicast; ::, ::1, ff00::/8" },
        { AF_INET6, { 0x20 }, 3, ADDRESS_GLOBAL, "RFC 4291, RFC 3513: global unicast" },
        { AF_INET6, { 0, 0x64, 0xff, 0x9b }, 96, ADDRESS_GLOBAL, "RFC 6052: NAT64" },
        { AF_INET6, { 0, 0x64, 0xff, 0x9b, 0, 1 }, 48, ADDRESS_NEVER,
                        "RFC 8215: NAT64 of a network's own, how is known to its operator alone (WardenSpec.nat64)" },
        { AF_INET6, { 0x20, 0x01 }, 23, ADDRESS_SPECIAL, "RFC 2928: IETF protocol assignments, Teredo among them" },
        { AF_INET6, { 0x20, 0x01, 0x0d, 0xb8 }, 32, ADDRESS_SPECIAL, "RFC 3849: documentation" },
        { AF_INET6, { 0x20, 0x02 }, 16, ADDRESS_SPECIAL, "RFC 3056, RFC 7526: 6to4" },
        { AF_INET6, { 0x3f, 0xff }, 20, ADDRESS_SPECIAL, "RFC 9637: documentation" },
        { AF_INET6, { 0xfc }, 7, ADDRESS_SPECIAL, "RFC 4193: private" },

        { AF_INET6, { 0xfe, 0x80 }, 10, ADDRESS_METADATA, "RFC 4291: link-local" },
        { AF_INET6, { 0xfd, 0, 0x0e, 0xc2, [14] = 0x02, 0x54 }, 128, ADDRESS_METADATA, "a cloud's: fd00:ec2::254" },
        { AF_INET6, { 0xfd, 0, 0x0e, 0xc2, [15] = 0x23 }, 128, ADDRESS_METADATA, "its containers': fd00:ec2::23" },
        { AF_INET6, { 0xfd, 0x20, 0, 0xce, [14] = 0x02, 0x54 }, 128, ADDRESS_METADATA, "a cloud's: fd20:ce::254" },
};
const size_t n_address_rows = ELEMENTSOF(address_rows);

/* Where an IPv6 address carries an IPv4 one. */
typedef struct Embedding {
        uint8_t prefix[16];
        uint8_t length;   /* of prefix */
        uint8_t at;       /* its first byte; byte 8 is left out (RFC 6052, 2.2) */
        bool inverted;
        bool interface;   /* prefix and length are of the last 64 bits; the two bits that say "universal" and "group"
                             do not count */
} Embedding;

static const Embedding embeddings[] = {
        { {}, 96, 12 },                                /* RFC 4291: IPv4-compatible */
        { { [10] = 0xff, 0xff }, 96, 12 },             /* RFC 4291: IPv4-mapped */
        { { [8] = 0xff, 0xff }, 96, 12 },              /* RFC 2765: IPv4-translated */
        { { 0, 0x64, 0xff, 0x9b }, 96, 12 },           /* RFC 6052: NAT64 */
        { { 0, 0x64, 0xff, 0x9b, 0, 1 }, 48, 6 },      /* RFC 8215: a prefix of 48 bits, */
        { { 0, 0x64, 0xff, 0x9b, 0, 1 }, 48, 7 },      /* of 56, */
        { { 0, 0x64, 0xff, 0x9b, 0, 1 }, 48, 8 },      /* of 64, */
        { { 0, 0x64, 0xff, 0x9b, 0, 1 }, 48, 12 },     /* of 96 */
        { { 0x20, 0x02 }, 16, 2 },                     /* RFC 3056: 6to4 */
        { { 0x20, 0x01, 0, 0 }, 32, 4 },               /* RFC 4380: Teredo, its server */
        { { 0x20, 0x01, 0, 0 }, 32, 12, .inverted = true }, /* and its client */
        { { 0, 0, 0x5e, 0xfe }, 32, 12, .interface = true }, /* RFC 5214: ISATAP */
};

const char *const metadata_host_names[] = {
        "metadata.google.internal",
        "metadata.goog",
        "instance-data",
        "instance-data.ec2.internal",
        "metadata.azure.internal",
        "metadata.tencentyun.com",
        "metadata.platformequinix.com",
};
const size_t n_metadata_host_names = ELEMENTSOF(metadata_host_names);

static bool bits_equal(const uint8_t *a, const uint8_t *b, unsigned n)
{
        if (memcmp(a, b, n / 8) != 0)
                return false;
        return n % 8 == 0 || (a[n / 8] ^ b[n / 8]) >> (8 - n % 8) == 0;
}

bool address_has_prefix(const EgressAddress *a, uint8_t family, const uint8_t prefix[static 16], unsigned length)
{
        return a->family == family && bits_equal(a->bytes, prefix, length);
}

EgressAddress address_unmapped(const EgressAddress *a)
{
        static const uint8_t mapped[16] = { [10] = 0xff, 0xff };
        EgressAddress r = { .family = AF_INET };

        if (!address_has_prefix(a, AF_INET6, mapped, 96))
                return *a;
        memcpy(r.bytes, a->bytes + 12, 4);
        return r;
}

/* By the table alone. What is neither IPv4 nor IPv6 is nowhere in it. */
static AddressClass class_of(const EgressAddress *a)
{
        AddressClass class = ADDRESS_NEVER;
        int longest = -1;

        for (size_t i = 0; i < ELEMENTSOF(address_rows); i++) {
                const AddressRow *row = address_rows + i;

                if (row->length > longest && address_has_prefix(a, row->family, row->prefix, row->length)) {
                        class = row->class;
                        longest = row->length;
                }
        }
        return class;
}

static EgressAddress take_out(const EgressAddress *a, unsigned at, bool inverted)
{
        EgressAddress inner = { .family = AF_INET };

        for (unsigned i = 0; i < 4; i++, at++) {
                if (at == 8)
                        at++;
                inner.bytes[i] = (uint8_t) (a->bytes[at] ^ (inverted ? 0xff : 0));
        }
        return inner;
}

static bool carries(const Embedding *e, const EgressAddress *a)
{
        uint8_t interface[8];

        if (!e->interface)
                return bits_equal(a->bytes, e->prefix, e->length);
        memcpy(interface, a->bytes + 8, sizeof(interface));
        interface[0] &= 0xfc;
        return bits_equal(interface, e->prefix, e->length);
}

/* Of the operator's own prefix, wherever it lies: what is behind it alone counts. */
static bool is_nat64(const EgressAddress *a, const WardenSpec *spec)
{
        return spec->has_nat64 && a->family == AF_INET6 && bits_equal(a->bytes, spec->nat64, spec->nat64_length);
}

size_t address_carried(const EgressAddress *a, const WardenSpec *spec, EgressAddress ret[static EGRESS_CARRIED_MAX])
{
        size_t n = 0;

        if (is_nat64(a, spec)) {
                ret[0] = take_out(a, spec->nat64_length / 8, false);
                return 1;
        }
        for (size_t i = 0; a->family == AF_INET6 && i < ELEMENTSOF(embeddings) && n < EGRESS_CARRIED_MAX; i++)
                if (carries(embeddings + i, a))
                        ret[n++] = take_out(a, embeddings[i].at, embeddings[i].inverted);
        return n;
}

static AddressClass address_class(const EgressAddress *a, const WardenSpec *spec)
{
        EgressAddress inner[EGRESS_CARRIED_MAX];
        AddressClass class = class_of(a);
        size_t n = address_carried(a, spec, inner);

        /* RFC 6052, 2.2: byte 8 is zero; what a translator makes of others is its own affair. */
        if (is_nat64(a, spec) && class != ADDRESS_METADATA)
                class = a->bytes[8] != 0 ? ADDRESS_NEVER : ADDRESS_GLOBAL;
        for (size_t i = 0; i < n; i++) {
                AddressClass c = class_of(inner + i);

                class = MAX2(class, c);
        }
        return class;
}

EgressReason address_gate(const EgressAddress *a, bool private_allowed, const WardenSpec *spec)
{
        switch (address_class(a, spec)) {
        case ADDRESS_GLOBAL:
                return EGRESS_OK;
        case ADDRESS_SPECIAL:
                return private_allowed ? EGRESS_OK : EGRESS_ADDR_BLOCKED;
        case ADDRESS_METADATA:
                return EGRESS_METADATA;
        case ADDRESS_NEVER:
                break;
        }
        return EGRESS_ADDR_BLOCKED;
}

bool metadata_address(const EgressAddress *a, const WardenSpec *spec)
{
        return address_class(a, spec) == ADDRESS_METADATA;
}

bool metadata_host_name(const char *name)
{
        size_t n = strlen(name);

        for (size_t i = 0; i < ELEMENTSOF(metadata_host_names); i++) {
                size_t m = strlen(metadata_host_names[i]);

                if (n >= m && streq(name + n - m, metadata_host_names[i]) && (n == m || name[n - m - 1] == '.'))
                        return true;
        }
        return false;
}
