/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "warden/decide.h"

/* Asks the kernel where a packet to an address would go: whether it is one of this host's own addresses no list can tell. */

typedef struct Router {
        int fd; /* rtnetlink */
        uint32_t sequence;
        EgressAddress asked; /* the last one that was asked for, when, and what the kernel said */
        uint64_t asked_at;
        EgressReason answer;
} Router;

int router_open(Router *ret);
/* now: of this turn of the loop; in one turn the kernel is asked for an address once, however many want to connect to it.
 * EGRESS_OK: to somebody else. EGRESS_HOST_LOCAL; EGRESS_ADDR_BLOCKED: broadcast and the like; EGRESS_CONNECT_FAILED: there is
 * no route, or the kernel did not say. */
EgressReason router_check(Router *r, const EgressAddress *a, uint64_t now);
