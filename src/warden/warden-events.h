/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stddef.h>

#include "wire/egress.h"

/* What the kernel's programs say (wire/egress.h: EgressEvent): who sent what the warden is about to read, and what was
 * refused without it. The programs write the ring buffer; the warden maps it and reads it before each decision. */

/* Who tried. A hint: comm is the attacker's choice. */
typedef struct Who {
        uint32_t tgid; /* 0: not known */
        char comm[16]; /* as it is; not necessarily terminated */
} Who;

/* The last senders that were seen, in sets of a few: an event that has no place takes the oldest one's. */
#define WHO_SETS 512u
#define WHO_WAYS 4u
typedef struct WhoTable {
        struct WhoEntry {
                uint8_t family, protocol;
                uint16_t source_port, dest_port; /* source_port 0: free */
                uint8_t source[16], dest[16];
                Who who;
        } entries[WHO_SETS][WHO_WAYS];
        uint8_t next[WHO_SETS];
        uint64_t seed;
} WhoTable;
void who_add(WhoTable *t, const EgressEvent *e);
/* forget: a connection has one owner; of datagrams there may be more. */
Who who_find(WhoTable *t, uint8_t protocol, const EgressAddress *source, uint16_t source_port, const EgressAddress *dest,
                uint16_t dest_port, bool forget);

/* BPF_MAP_TYPE_RINGBUF as it is mapped: a page with the consumer's position, one with the producer's, then the data, twice
 * in a row, so that no record is ever cut. */
typedef struct Ring {
        _Atomic uint64_t *consumer;
        const _Atomic uint64_t *producer;
        const uint8_t *data;
        size_t size; /* a power of two */
} Ring;
/* Takes the next record that is complete into ret: true. Records of another size are passed by. until: the producer's
 * position where reading ends (ring_end() of when it began), so that a flood does not hold the reader for ever. */
uint64_t ring_end(const Ring *r);
bool ring_next(Ring *r, uint64_t until, EgressEvent *ret);

typedef struct Events {
        Ring ring;
        const EgressCounters *counters;
        uint64_t lost_denied, lost_who; /* seen so far */
        WhoTable who;
} Events;
/* Maps both; the descriptors stay the caller's. */
int events_open(Events *e, int ring_fd, int counters_fd, uint64_t seed);
void events_close(Events *e);
