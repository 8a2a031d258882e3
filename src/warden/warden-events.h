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

/* One sender, and of TCP how far what the kernel told is ahead of what was accepted: whoever connects may see to it that
 * nothing is ever accepted (the last acknowledgement is held back, then there is a reset), and has tried all the same. An
 * accept may come first: where the record of another processor's event, which stands before it, is not complete. */
typedef struct WhoEntry {
        uint8_t family, protocol;
        uint16_t source_port, dest_port; /* source_port 0: free */
        bool told;                       /* TCP: denied and on record since its event came */
        uint8_t source[16], dest[16];
        uint32_t stamp, generation;
        int32_t ahead;
        Who who;
} WhoEntry;

/* The last senders that were seen, in sets of a few: an event that has no place takes the oldest one's, and rather one that
 * nothing is awaited of. Room for several times as many connections as the kernel lets wait. */
#define WHO_SETS 4096u
#define WHO_WAYS 8u
typedef struct WhoTable {
        WhoEntry entries[WHO_SETS][WHO_WAYS];
        uint8_t next[WHO_SETS];
        uint64_t seed;
        uint32_t generation; /* entries of an earlier one do not say who it was any more */
} WhoTable;
/* TCP: the entry where this is an attempt that nothing is known of yet; NULL where it is known. UDP: NULL. ret_gone: the one
 * that had to make room. */
WhoEntry *who_add(WhoTable *t, const EgressEvent *e, WhoEntry *ret_gone);
/* Of a datagram. */
Who who_find(WhoTable *t, const EgressAddress *source, uint16_t source_port, const EgressAddress *dest, uint16_t dest_port);
/* Of a connection that was accepted. ret_told: see WhoEntry. */
Who who_take(WhoTable *t, const EgressAddress *source, uint16_t source_port, const EgressAddress *dest, uint16_t dest_port,
                bool *ret_told);
/* Events were lost: whoever was seen before may have been followed by another. */
void who_forget(WhoTable *t);

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
        WhoTable *who;
} Events;
/* Maps both; the descriptors stay the caller's. */
int events_open(Events *e, int ring_fd, int counters_fd, uint64_t seed);
void events_close(Events *e);
