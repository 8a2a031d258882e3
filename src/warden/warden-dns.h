/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "warden/decide.h"

/* PURE. The resolver that the sandbox sees: answers from the rules alone and never asks anybody (RFC 1035, 6891, 8914).
 * Addresses of names that have a rule, NXDOMAIN with extended error 15 (Blocked) for all others, NODATA for other types. */

#define DNS_MESSAGE_MAX 65535u
/* No answer is longer, whatever was asked: 512 bytes may be sent by UDP without being asked for, so none is ever truncated,
 * and UDP and TCP get the same. */
#define DNS_ANSWER_MAX 512u
#define DNS_NAME_TEXT_MAX 256u

typedef struct DnsAnswer {
        size_t size;         /* bytes in the answer; 0: nothing is sent (QR=1, shorter than a header) */
        EgressReason reason; /* of the record to write; EGRESS_OK: none is to be written */
        /* What was asked, as text, lower case; "" where that cannot be known, "." for the root. A byte that no host name has
         * is \DDD; what is too long in that form ends in "...". */
        char name[DNS_NAME_TEXT_MAX];
        uint16_t type; /* 0 where it cannot be known */
} DnsAnswer;

/* Never fails: what cannot be understood is answered with FORMERR or NOTIMP, and is to be recorded (EGRESS_MALFORMED). The
 * buffers must not overlap. Names under a wildcard are given out for as long as the decider has any left. */
void dns_answer(Decider *d, const uint8_t *question, size_t n, uint8_t answer[static DNS_ANSWER_MAX], DnsAnswer *ret);
