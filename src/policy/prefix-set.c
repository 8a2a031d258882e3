/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/strv.h"
#include "policy/prefix-set.h"

static const unsigned family_bits[_PREFIX_FAMILY_MAX] = { [PREFIX_IPV4] = 32, [PREFIX_IPV6] = 128 };

/* The lowest n bits set, 0 ≤ n ≤ 128: a shift by the full width is undefined. */
static PrefixBits low_bits(unsigned n)
{
        return n >= 128 ? ~(PrefixBits) 0 : ((PrefixBits) 1 << n) - 1;
}

static PrefixRange prefix_range(const Prefix *p)
{
        return (PrefixRange){ p->address, p->address | low_bits(family_bits[p->family] - p->length) };
}

int prefix_parse(const char *s, Prefix *ret)
{
        char address[INET6_ADDRSTRLEN];
        const char *slash = strchr(s, '/');
        size_t n = slash ? (size_t) (slash - s) : strlen(s);
        uint8_t bytes[16];
        Prefix p = {};
        uint64_t length;
        PrefixBits host;

        if (n >= sizeof(address))
                return -EINVAL;
        memcpy(address, s, n);
        address[n] = 0;
        p.family = strchr(address, ':') ? PREFIX_IPV6 : PREFIX_IPV4;
        if (inet_pton(p.family == PREFIX_IPV6 ? AF_INET6 : AF_INET, address, bytes) != 1)
                return -EINVAL;
        length = family_bits[p.family];
        /* A leading zero would make "/08" and "/8" two spellings of one thing. */
        if (slash && (parse_u64(slash + 1, &length) < 0 || length > family_bits[p.family] ||
                                     (slash[1] == '0' && slash[2])))
                return -EINVAL;
        p.length = (unsigned) length;
        for (unsigned i = 0; i < family_bits[p.family] / 8; i++)
                p.address = p.address << 8 | bytes[i];
        host = p.address & low_bits(family_bits[p.family] - p.length);
        p.address ^= host;
        *ret = p;
        return host ? -ERANGE : 0;
}

void prefix_format(const Prefix *p, bool bare, char ret[static PREFIX_TEXT_MAX])
{
        unsigned bits = family_bits[p->family];
        char address[INET6_ADDRSTRLEN];
        uint8_t bytes[16];

        for (unsigned i = 0; i < bits / 8; i++)
                bytes[i] = (uint8_t) (p->address >> (bits - 8 - 8 * i));
        inet_ntop(p->family == PREFIX_IPV6 ? AF_INET6 : AF_INET, bytes, address, sizeof(address));
        if (bare && p->length == bits)
                snprintf(ret, PREFIX_TEXT_MAX, "%s", address);
        else
                snprintf(ret, PREFIX_TEXT_MAX, "%s/%u", address, p->length);
}

bool prefix_covers(const Prefix *outer, const Prefix *inner)
{
        return outer->family == inner->family && outer->length <= inner->length &&
               (inner->address & ~low_bits(family_bits[outer->family] - outer->length)) == outer->address;
}

void prefix_set_done(PrefixSet *s)
{
        for (int f = 0; f < _PREFIX_FAMILY_MAX; f++)
                free(s->ranges[f]);
        *s = (PrefixSet){};
}

/* Puts r between its neighbours, swallowing those it overlaps or touches. */
static int add_range(PrefixSet *s, PrefixFamily f, PrefixRange r)
{
        PrefixRange *old = s->ranges[f], *new;
        size_t n = 0;
        bool placed = false;

        new = reallocarray(NULL, s->n[f] + 1, sizeof(*new));
        if (!new)
                return -ENOMEM;
        for (size_t i = 0; i < s->n[f]; i++) {
                /* Written so that neither side can wrap at either end of the address space. */
                if (old[i].last < r.first && r.first - old[i].last > 1) {
                        new[n++] = old[i];
                } else if (r.last < old[i].first && old[i].first - r.last > 1) {
                        if (!placed)
                                new[n++] = r;
                        placed = true;
                        new[n++] = old[i];
                } else {
                        r.first = MIN2(r.first, old[i].first);
                        r.last = MAX2(r.last, old[i].last);
                }
        }
        if (!placed)
                new[n++] = r;
        free(old);
        s->ranges[f] = new;
        s->n[f] = n;
        return 0;
}

int prefix_set_add(PrefixSet *s, const Prefix *p)
{
        return add_range(s, p->family, prefix_range(p));
}

int prefix_set_add_everything(PrefixSet *s)
{
        for (int f = 0; f < _PREFIX_FAMILY_MAX; f++) {
                int r = add_range(s, f, (PrefixRange){ 0, low_bits(family_bits[f]) });

                if (r < 0)
                        return r;
        }
        return 0;
}

/* Writes what is left of r without the n ascending ranges of cut to out; returns how many pieces that is (at
 * most n + 1). */
static size_t subtract_from_range(PrefixRange r, const PrefixRange *cut, size_t n, PrefixRange *out)
{
        size_t k = 0;

        for (size_t i = 0; i < n; i++) {
                if (cut[i].last < r.first)
                        continue;
                if (cut[i].first > r.last)
                        break;
                if (cut[i].first > r.first)
                        out[k++] = (PrefixRange){ r.first, cut[i].first - 1 };
                if (cut[i].last >= r.last)
                        return k;
                r.first = cut[i].last + 1;
        }
        out[k++] = r;
        return k;
}

int prefix_set_subtract(PrefixSet *s, const PrefixSet *other)
{
        PrefixRange *left[_PREFIX_FAMILY_MAX] = {};
        size_t n[_PREFIX_FAMILY_MAX] = {};

        for (int f = 0; f < _PREFIX_FAMILY_MAX; f++) {
                /* Every cut can add one piece over all, as the ranges do not overlap. */
                left[f] = reallocarray(NULL, s->n[f] + other->n[f] + 1, sizeof(PrefixRange));
                if (!left[f]) {
                        free(left[PREFIX_IPV4]);
                        return -ENOMEM;
                }
                for (size_t i = 0; i < s->n[f]; i++)
                        n[f] += subtract_from_range(
                                        s->ranges[f][i], other->ranges[f], other->n[f], left[f] + n[f]);
        }
        prefix_set_done(s);
        for (int f = 0; f < _PREFIX_FAMILY_MAX; f++) {
                s->ranges[f] = left[f];
                s->n[f] = n[f];
        }
        return 0;
}

static bool covers_range(const PrefixSet *s, int f, PrefixRange r)
{
        /* Ranges never touch, so whatever is covered is covered by one of them. */
        for (size_t i = 0; i < s->n[f]; i++)
                if (s->ranges[f][i].first <= r.first && s->ranges[f][i].last >= r.last)
                        return true;
        return false;
}

bool prefix_set_covers(const PrefixSet *outer, const PrefixSet *inner)
{
        for (int f = 0; f < _PREFIX_FAMILY_MAX; f++)
                for (size_t i = 0; i < inner->n[f]; i++)
                        if (!covers_range(outer, f, inner->ranges[f][i]))
                                return false;
        return true;
}

bool prefix_set_covers_prefix(const PrefixSet *s, const Prefix *p)
{
        return covers_range(s, p->family, prefix_range(p));
}

/* The largest prefix that starts at r.first and ends within r. Taking it again and again gives the fewest:
 * no prefix of the set can reach over the ends of its range, and none that starts here can be longer. */
static Prefix largest_prefix(PrefixFamily f, PrefixRange r)
{
        unsigned host = 0;

        while (host < family_bits[f] && (r.first & low_bits(host + 1)) == 0 &&
                        low_bits(host + 1) <= r.last - r.first)
                host++;
        return (Prefix){ f, family_bits[f] - host, r.first };
}

int prefix_set_to_strv(const PrefixSet *s, char ***ret)
{
        _cleanup_strv_ char **l = NULL;

        for (int f = 0; f < _PREFIX_FAMILY_MAX; f++)
                for (size_t i = 0; i < s->n[f]; i++) {
                        PrefixRange r = s->ranges[f][i];

                        for (;;) {
                                Prefix p = largest_prefix(f, r);
                                PrefixBits end = prefix_range(&p).last;
                                char text[PREFIX_TEXT_MAX];

                                prefix_format(&p, false, text);
                                if (strv_extend(&l, text) < 0)
                                        return -ENOMEM;
                                if (end == r.last)
                                        break;
                                r.first = end + 1;
                        }
                }
        *ret = TAKE_PTR(l);
        return 0;
}
