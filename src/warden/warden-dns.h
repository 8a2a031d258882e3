/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "warden/decide.h"

/* PURE. The resolver that the sandbox sees: answers from the rules alone and never asks anybody (RFC 1035, 6891, 8914).
 * Addresses of names that have a rule, NXDOMAIN with extended error 15 (Blocked) for all others, NODATA for other types. */

#define DNS_MESSAGE_MAX 65535u
#define DNS_NAME_TEXT_MAX 256u

typedef struct DnsAnswer {
        size_t size;         /* bytes in the answer; 0: nothing is sent (QR=1, shorter than a header) */
        EgressReason reason; /* of the record to write; EGRESS_OK: none is to be written */
        char name[DNS_NAME_TEXT_MAX]; /* what was asked, as text, lower case; escaped (\DDD) where a byte is no LDH */
        uint16_t type;
} DnsAnswer;

/* udp_size: the answer's bound besides what the question's EDNS allows (512 where it says nothing); 0: TCP. answer has
 * room for DNS_MESSAGE_MAX bytes. Never fails: what cannot be understood is answered with FORMERR or NOTIMP. */
void dns_answer(Decider *d, const uint8_t *question, size_t n, bool udp, uint8_t *answer, DnsAnswer *ret);
