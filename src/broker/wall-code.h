/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdint.h>

#include "broker/bpf-assembly.h"
#include "wire/egress.h"

/* What the programs of the wall have in common: among wall-lookup.c, wall-who.c, wall-packets.c and
 * wall-programs.c, which loads them. */

typedef enum WallMap { MAP_SOCKETS, MAP_WHO, MAP_EVENTS, MAP_COUNTERS, _MAP_MAX } WallMap;

/* Keys of MAP_SOCKETS: the first plus one for IPv6, plus two for DNS. */
#define SOCKETS_IPV6 1
#define SOCKETS_DNS 2
#define SOCKETS 4

/* Who connected or sent last, by socket cookie. A flood of sockets drives out the oldest: their packets are
 * nobody's then. */
#define WHO_ENTRIES 4096
typedef struct Who {
        uint32_t tgid, stamp; /* when, in nanoseconds, cut off: tells one connect() from the next */
        char comm[16];
} Who;

extern const BpfProgram wall_lookup_program;
extern const BpfProgram wall_connect4_program, wall_connect6_program, wall_sendmsg4_program,
                wall_sendmsg6_program;
extern const BpfProgram wall_packets_program;

#define WALL_PROGRAM(n, t, a, c)                                                                 \
        {                                                                                        \
                .name = (n), .type = (t), .attach_type = (a), .code = (c), .size = ELEMENTSOF(c) \
        }

/* ---- addresses and ports */

/* Addresses as the programs see them: words of the packet. The sandbox's own: EGRESS_SANDBOX_IPV4, _IPV6. */
#define SANDBOX_IPV4 BE32(0xc0000202u)
#define SANDBOX_IPV6_0 BE32(0xfd0000abu)
#define SANDBOX_IPV6_3 BE32(2u)
#define LOOPBACK_IPV4 BE32(0x7f000000u)
#define LOOPBACK_IPV4_MASK BE32(0xff000000u)
#define LOOPBACK_IPV6_3 BE32(1u)
#define MAPPED_IPV6_2 BE32(0xffffu)
#define BROADCAST_IPV4 0xffffffffu
#define MULTICAST_IPV4 BE32(0xe0000000u)
#define MULTICAST_IPV4_MASK BE32(0xf0000000u)
#define MULTICAST_IPV6 BE32(0xff000000u)
#define MULTICAST_IPV6_MASK BE32(0xff000000u)
#define LINK_LOCAL_IPV6 BE32(0xfe800000u)
#define LINK_LOCAL_IPV6_MASK BE32(0xffc00000u)
#define DNS_PORT 53

/* The programs must agree on what is the sandbox's own, so they share this: 127.0.0.0/8, ::1, IPv4 of these
 * within IPv6, its two addresses. IPv4: register 2 has the address, and is used up; falls through where it
 * is not. */
#define IF_OWN_IPV4(own) \
        IF_EQUAL(2, SANDBOX_IPV4, own), AND(2, LOOPBACK_IPV4_MASK), IF_EQUAL(2, LOOPBACK_IPV4, own)
/* IPv6: registers 2 to 5 have it, 5 is used up; goes to other where it is not. sandbox, mapped: labels of
 * its own. */
#define IF_OWN_IPV6(own, other, sandbox, mapped)                                                  \
        IF_NOT_EQUAL(3, 0, other), IF_EQUAL(4, MAPPED_IPV6_2, mapped), IF_NOT_EQUAL(4, 0, other), \
                        IF_EQUAL(2, SANDBOX_IPV6_0, sandbox), IF_NOT_EQUAL(2, 0, other),          \
                        IF_EQUAL(5, LOOPBACK_IPV6_3, own), GO(other), LABEL(sandbox),             \
                        IF_EQUAL(5, SANDBOX_IPV6_3, own), GO(other), LABEL(mapped),               \
                        IF_NOT_EQUAL(2, 0, other), IF_EQUAL(5, SANDBOX_IPV4, own),                \
                        AND(5, LOOPBACK_IPV4_MASK), IF_EQUAL(5, LOOPBACK_IPV4, own), GO(other)

/* ---- events: where they are on the stack, and how they get into the ring */

#define EVENT (-64)
#define E(f) (int16_t)(EVENT + (int) offsetof(EgressEvent, f))
#define WHO_KEY (-72)
#define WHO (WHO_KEY - (int) sizeof(Who))
#define W_(f) (int16_t)(WHO + (int) offsetof(Who, f))

#define EVENT_CLEAR                                                                             \
        STORE_VALUE(DW, 10, EVENT, 0), STORE_VALUE(DW, 10, EVENT + 8, 0),                       \
                        STORE_VALUE(DW, 10, EVENT + 16, 0), STORE_VALUE(DW, 10, EVENT + 24, 0), \
                        STORE_VALUE(DW, 10, EVENT + 32, 0), STORE_VALUE(DW, 10, EVENT + 40, 0), \
                        STORE_VALUE(DW, 10, EVENT + 48, 0), STORE_VALUE(DW, 10, EVENT + 56, 0)

/* from: address of a Who. Through register 2. */
#define EVENT_WHO(from, offset)                                                                             \
        LOAD(W, 2, from, (offset) + (int) offsetof(Who, tgid)), STORE(W, 10, E(tgid), 2),                   \
                        LOAD(W, 2, from, (offset) + (int) offsetof(Who, stamp)), STORE(W, 10, E(stamp), 2), \
                        LOAD(W, 2, from, (offset) + (int) offsetof(Who, comm)), STORE(W, 10, E(comm), 2),   \
                        LOAD(W, 2, from, (offset) + (int) offsetof(Who, comm) + 4),                         \
                        STORE(W, 10, E(comm) + 4, 2),                                                       \
                        LOAD(W, 2, from, (offset) + (int) offsetof(Who, comm) + 8),                         \
                        STORE(W, 10, E(comm) + 8, 2),                                                       \
                        LOAD(W, 2, from, (offset) + (int) offsetof(Who, comm) + 12),                        \
                        STORE(W, 10, E(comm) + 12, 2)

/* Into the ring; where that is full, counted. */
#define EVENT_EMIT(not_denied, done)                                                                       \
        MAP(1, MAP_EVENTS), STACK(2, EVENT), SET(3, sizeof(EgressEvent)), SET(4, 0), CALL(ringbuf_output), \
                        IF_ZERO(0, done), STORE_VALUE(W, 10, WHO_KEY, 0), MAP(1, MAP_COUNTERS),            \
                        STACK(2, WHO_KEY), CALL(map_lookup_elem), IF_ZERO(0, done), SET(1, 1),             \
                        LOAD(B, 2, 10, E(kind)), IF_NOT_EQUAL(2, EGRESS_EVENT_DENIED, not_denied),         \
                        ATOMIC_ADD(0, offsetof(EgressCounters, lost_denied), 1), GO(done),                 \
                        LABEL(not_denied), ATOMIC_ADD(0, offsetof(EgressCounters, lost_who), 1)

#define PASS_EVERYTHING SET(0, 1), END()
