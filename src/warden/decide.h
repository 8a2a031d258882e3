/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/egress.h"

/* PURE. One function family behind every way out: what the sandbox may reach by which rule. No clock, no descriptor, no
 * system call. */

/* AGENTBOX_REASON of a denial. EGRESS_OK is none. */
typedef enum EgressReason {
        EGRESS_OK,
        EGRESS_NO_RULE,        /* no-rule */
        EGRESS_METADATA,       /* metadata: a cloud metadata service; no rule can allow it; priority warning */
        EGRESS_ADDR_BLOCKED,   /* addr-blocked: a private or special-purpose address */
        EGRESS_HOST_LOCAL,     /* host-local: an address of this host */
        EGRESS_NO_MAPPING,     /* no-mapping: a synthetic address that was never given out */
        EGRESS_PORT,           /* port: a rule names this destination, at another port */
        EGRESS_SNI_MISMATCH,   /* sni-mismatch */
        EGRESS_SNI_BAD,        /* sni-bad: none, empty, several, an address, a trailing dot, bytes no name has */
        EGRESS_ECH,            /* ech */
        EGRESS_NOT_TLS,        /* not-tls */
        EGRESS_HOST_MISMATCH,  /* host-mismatch: an HTTP request for another authority */
        EGRESS_BAD_REQUEST,    /* bad-request: HTTP that two readers could read differently */
        EGRESS_TOO_LARGE,      /* too-large: a head over its limits */
        EGRESS_TIMEOUT,        /* timeout: a head or a connection took too long */
        EGRESS_RESOLVE_FAILED, /* resolve-failed */
        EGRESS_CONNECT_FAILED, /* connect-failed */
        EGRESS_PROXY_FAILED,   /* proxy-failed */
        EGRESS_LIMIT,          /* limit: Connections=, or the warden's own bounds */
        EGRESS_BYTES_LIMIT,    /* bytes-limit: EgressBytes= */
        EGRESS_NO_JOURNAL,     /* no-journal: it could not have been recorded */
        EGRESS_MALFORMED,      /* malformed: a DNS message that is none */
        EGRESS_DNS_TYPE,       /* dns-type: TXT and other records that carry data, of a name that has a rule */
        _EGRESS_REASON_MAX,
} EgressReason;
const char *egress_reason_to_string(EgressReason reason); /* "no-rule"; EGRESS_OK: "" */

/* The metadata services, as egress.md lists them. metadata_address also looks into IPv4 that is embedded (mapped,
 * compatible, NAT64 of either prefix, 6to4, Teredo, ISATAP). Names: lower case, no final dot; "*.internal" of the kind. */
bool metadata_address(const EgressAddress *a, const WardenSpec *spec);
bool metadata_host_name(const char *name);

/* address-gate.c. EGRESS_OK, EGRESS_METADATA or EGRESS_ADDR_BLOCKED. private_allowed: the rule names the address itself
 * or says private=allow: then private and shared ranges (10/8, 172.16/12, 192.168/16, 100.64/10, fc00::/7, and
 * benchmarking, documentation and the like) pass; loopback, link-local, multicast, broadcast, unspecified and metadata
 * never do, nor does an IPv4-mapped one. Whether it is one of this host's own addresses the caller asks of the kernel
 * (EGRESS_HOST_LOCAL), and of each address that it carries as well. */
EgressReason address_gate(const EgressAddress *a, bool private_allowed, const WardenSpec *spec);
/* The IPv4 addresses that a translator (NAT64), a tunnel or the kernel may make of this one; how many there are. */
#define EGRESS_CARRIED_MAX 6u
size_t address_carried(const EgressAddress *a, const WardenSpec *spec, EgressAddress ret[static EGRESS_CARRIED_MAX]);

typedef struct Decider Decider;
/* spec stays the caller's and must outlive it. */
int decider_new(const WardenSpec *spec, Decider **ret);
Decider *decider_free(Decider *d);
DEFINE_CLEANUP(Decider *, decider_free)

/* A name that was asked for: lower case, no final dot, labels of letters, digits, hyphens (not at either end) and, under a
 * wildcard, underscores: the DNS reader has seen to it. EGRESS_OK: a rule names it, and it has these two synthetic addresses
 * for as long as the run lives. EGRESS_NO_RULE, EGRESS_METADATA; EGRESS_LIMIT: the pool of wildcard names is used up. With
 * both ret NULL it is only looked up, nothing is given out. */
EgressReason decider_name(Decider *d, const char *name, EgressAddress *ret_ipv4, EgressAddress *ret_ipv6);

/* What a connection may become. Rules of several kinds may name one destination: tcp then wins (bytes as they come); of
 * tls and http the first byte decides. Where several rules of one kind fit, it is the one with the most options, so that
 * taking a rule away never allows more than all of them say; then the most specific one. */
typedef struct EgressDecision {
        EgressReason reason;    /* EGRESS_OK: one of the rules below is there */
        const char *name;       /* NULL: the destination is a literal address */
        const EgressRule *tls, *http, *tcp; /* tcp: of either kind; NULL: none */
} EgressDecision;
void decider_connection(Decider *d, const EgressAddress *dest, uint16_t port, EgressDecision *ret);

/* Text forms for records: "192.0.2.1", "2001:db8::1". */
#define EGRESS_ADDRESS_TEXT_MAX 46u
void egress_address_format(const EgressAddress *a, char ret[static EGRESS_ADDRESS_TEXT_MAX]);
