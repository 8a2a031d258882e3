/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/prefix-set.h"

/* clang-format off */
/* One destination of [Network] Allow=. The text forms:
 *   tls NAME[:PORT] [ech=allow] [private=allow]      the ClientHello must name NAME; port 443 where none is given
 *   http NAME[:PORT] [private=allow]                 every request's Host must be NAME; port 80 where none is given
 *   tcp NAME:PORT [private=allow] [peer-first]       bytes as they come, to the addresses of NAME
 *   tcp ADDRESS[/LEN]:PORT [peer-first]              IPv6 in brackets: [2001:db8::]/32:443
 *   ADDRESS[/LEN]                                    Egress=addresses only
 *   @SET                                             stands for the rules of a file; see policy-load.c */
/* clang-format on */

typedef enum AllowKind {
        ALLOW_TLS,
        ALLOW_HTTP,
        ALLOW_TCP,         /* by name */
        ALLOW_TCP_ADDRESS, /* by address */
        ALLOW_ADDRESS,     /* without a port */
        ALLOW_SET,
        _ALLOW_KIND_MAX,
} AllowKind;

#define ALLOW_NAME_MAX 253

typedef struct AllowRule {
        AllowKind kind;
        char name[ALLOW_NAME_MAX +
                        1]; /* lower case, no final dot; without the "*." of a wildcard; of a set its name */
        bool wildcard;      /* any depth below name, not name itself */
        Prefix prefix;      /* ALLOW_TCP_ADDRESS, ALLOW_ADDRESS */
        uint16_t port;
        bool ech_allow, private_allow, peer_first;
} AllowRule;

/* -EINVAL with an error that says what is wrong and, where that is known, how it is written right.
 * ret_offset: the byte of s. */
int allow_rule_parse(const char *s, AllowRule *ret, size_t *ret_offset, Error **reterr);
/* The one canonical text of the rule; newly allocated, NULL when out of memory. */
char *allow_rule_format(const AllowRule *r);
/* Whatever inner lets through, outer lets through as well. */
bool allow_rule_covers(const AllowRule *outer, const AllowRule *inner);

/* The cloud metadata services, which nothing may allow. */
bool metadata_name(const char *name);  /* lower case, no final dot */
int metadata_prefixes(PrefixSet *ret); /* 0 or -ENOMEM */
/* Nothing of p but metadata addresses. */
bool metadata_only(const Prefix *p);

/* A name of letters, digits and hyphens in labels, at most 253 bytes, that no resolver takes for an address.
 */
bool host_name_valid(const char *name, const char **ret_reason);
