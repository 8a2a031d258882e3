/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "policy/allow-rule.h"

/* The addresses and names under which clouds hand out credentials to whoever asks. */
static const char *const addresses[] = {
        "169.254.0.0/16",  /* link-local: 169.254.169.254 of most clouds, 169.254.170.2 and .23 of containers
                              there */
        "100.100.100.200", /* out of the shared range of carriers */
        "168.63.129.16",   /* a public address that is answered by the host */
        "192.0.0.192",     /* out of the protocol assignments */
        "fe80::/10",       /* link-local */
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        /* The IPv4 ones again, as a translator (NAT64) or a tunnel (6to4) of the host's network would take
           them. */
        "64:ff9b::a9fe:0/112",
        "64:ff9b::6464:64c8",
        "64:ff9b::a83f:8110",
        "64:ff9b::c000:c0",
        "2002:a9fe::/32",
        "2002:6464:64c8::/48",
        "2002:a83f:8110::/48",
        "2002:c000:c0::/48",
};

/* Each with everything below it. */
static const char *const names[] = {
        "metadata.google.internal",
        "metadata.goog",
        "instance-data",
        "instance-data.ec2.internal",
        "metadata.azure.internal",
        "metadata.tencentyun.com",
        "metadata.platformequinix.com",
};

bool metadata_name(const char *name)
{
        size_t n = strlen(name);

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                size_t m = strlen(names[i]);

                if (n >= m && streq(name + n - m, names[i]) && (n == m || name[n - m - 1] == '.'))
                        return true;
        }
        return false;
}

int metadata_prefixes(PrefixSet *ret)
{
        _cleanup_prefix_set_ PrefixSet set = {};

        for (size_t i = 0; i < ELEMENTSOF(addresses); i++) {
                Prefix p;

                if (prefix_parse(addresses[i], &p) < 0)
                        return -EINVAL;
                if (prefix_set_add(&set, &p) < 0)
                        return -ENOMEM;
        }
        *ret = set;
        set = (PrefixSet){};
        return 0;
}

enum {
        EMBEDDING_OCTET = 1 << 0,     /* bits 64 to 71 lie between the four bytes (RFC 6052) */
        EMBEDDING_INVERTED = 1 << 1,  /* Teredo's word for its client */
        EMBEDDING_INTERFACE = 1 << 2, /* the last 64 bits alone decide */
};

/* Where IPv6 addresses carry an IPv4 one, which a translator or a tunnel of the host's network would take
 * out. */
typedef struct Embedding {
        const char *prefix;
        unsigned at; /* the first of its 32 bits, counted from the left */
        unsigned flags;
} Embedding;

/* clang-format off */
static const Embedding embeddings[] = {
        { "::/96", 96, 0 },                        /* IPv4-compatible */
        { "::ffff:0:0/96", 96, 0 },                /* IPv4-mapped */
        { "::ffff:0:0:0/96", 96, 0 },              /* IPv4-translated */
        { "64:ff9b::/96", 96, 0 },                 /* NAT64 */
        { "64:ff9b:1::/48", 48, EMBEDDING_OCTET }, /* NAT64 of a network's own, with a prefix of 48 bits, */
        { "64:ff9b:1::/48", 56, EMBEDDING_OCTET }, /* of 56, */
        { "64:ff9b:1::/48", 64, EMBEDDING_OCTET }, /* of 64, */
        { "64:ff9b:1::/48", 96, 0 },               /* of 96 */
        { "2002::/16", 16, 0 },                    /* 6to4 */
        { "2001::/32", 32, 0 },                    /* Teredo, its server */
        { "2001::/32", 96, EMBEDDING_INVERTED },   /* and its client */
        { "::5efe:0:0/96", 96, EMBEDDING_INTERFACE }, /* ISATAP; two bits of the interface's may be anything */
        { "::100:5efe:0:0/96", 96, EMBEDDING_INTERFACE },
        { "::200:5efe:0:0/96", 96, EMBEDDING_INTERFACE },
        { "::300:5efe:0:0/96", 96, EMBEDDING_INTERFACE },
};
/* clang-format on */

#define LOW_BITS(n) (~(PrefixBits) 0 >> (128 - (n)))

static bool carries(const Embedding *e, const Prefix *p)
{
        Prefix form, q = *p;

        if (prefix_parse(e->prefix, &form) < 0)
                return false;
        if (e->flags & EMBEDDING_INTERFACE)
                q.address &= LOW_BITS(64);
        return prefix_covers(&form, &q);
}

/* The IPv4 addresses that those of p carry there. */
static Prefix embedded(const Embedding *e, const Prefix *p)
{
        PrefixBits bits = p->address;
        unsigned length = p->length;
        Prefix r = { .family = PREFIX_IPV4 };

        if (e->flags & EMBEDDING_OCTET) {
                bits = (bits & ~LOW_BITS(64)) | (bits & LOW_BITS(56)) << 8;
                length = length > 72 ? length - 8 : MIN2(length, 64u);
        }
        if (length <= e->at)
                return r;
        r.length = MIN2(length - e->at, 32u);
        r.address = bits >> (96 - e->at) & LOW_BITS(32);
        if (e->flags & EMBEDDING_INVERTED)
                r.address ^= LOW_BITS(32);
        if (r.length < 32)
                r.address &= ~LOW_BITS(32 - r.length);
        return r;
}

static bool within_metadata(const Prefix *p)
{
        for (size_t i = 0; i < ELEMENTSOF(addresses); i++) {
                Prefix m;

                if (prefix_parse(addresses[i], &m) >= 0 && prefix_covers(&m, p))
                        return true;
        }
        return false;
}

bool metadata_only(const Prefix *p)
{
        if (within_metadata(p))
                return true;
        for (size_t i = 0; p->family == PREFIX_IPV6 && i < ELEMENTSOF(embeddings); i++) {
                Prefix inner;

                if (!carries(embeddings + i, p))
                        continue;
                inner = embedded(embeddings + i, p);
                if (within_metadata(&inner))
                        return true;
        }
        return false;
}
