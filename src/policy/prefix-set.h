/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sets of IPv4 and IPv6 addresses, with exact arithmetic. Needed because in systemd an allowed prefix wins
 * over a denied one: "all but" can only be said by computing the rest. */

typedef unsigned __int128 PrefixBits;

typedef enum PrefixFamily {
        PREFIX_IPV4, /* 32 bits */
        PREFIX_IPV6, /* 128 bits */
        _PREFIX_FAMILY_MAX,
} PrefixFamily;

#define PREFIX_TEXT_MAX sizeof("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255/128")

typedef struct Prefix {
        PrefixFamily family;
        unsigned length;    /* 0 … 32 or 128 */
        PrefixBits address; /* the low 32 or 128 bits; those behind length are zero */
} Prefix;

/* "ADDRESS" or "ADDRESS/LEN", IPv4 as four decimal numbers, IPv6 without a zone. -EINVAL: not of that form;
 * -ERANGE: well-formed, but bits behind the length are set (ret is the prefix that holds the address). */
int prefix_parse(const char *s, Prefix *ret);
/* "ADDRESS/LEN" always; "ADDRESS" alone where the prefix is one address and bare is set. */
void prefix_format(const Prefix *p, bool bare, char ret[static PREFIX_TEXT_MAX]);
bool prefix_covers(const Prefix *outer, const Prefix *inner);

/* Inclusive. */
typedef struct PrefixRange {
        PrefixBits first, last;
} PrefixRange;

typedef struct PrefixSet {
        /* Each family's ranges: ascending, neither overlapping nor touching. */
        PrefixRange *ranges[_PREFIX_FAMILY_MAX];
        size_t n[_PREFIX_FAMILY_MAX];
} PrefixSet;

void prefix_set_done(PrefixSet *s);
#define _cleanup_prefix_set_ _cleanup_(prefix_set_done)

/* All return 0 or -ENOMEM, which leaves the set as it was. */
int prefix_set_add(PrefixSet *s, const Prefix *p);
int prefix_set_add_everything(PrefixSet *s);
int prefix_set_subtract(PrefixSet *s, const PrefixSet *other);

bool prefix_set_covers(const PrefixSet *outer, const PrefixSet *inner);
bool prefix_set_covers_prefix(const PrefixSet *s, const Prefix *p);

/* The fewest prefixes that make up exactly this set, "ADDRESS/LEN" each, IPv4 first, ascending. An empty set
 * gives NULL. */
int prefix_set_to_strv(const PrefixSet *s, char ***ret);
