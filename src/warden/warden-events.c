/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/macro.h"
#include "warden/warden-events.h"

/* ---- who */

static uint64_t mix(uint64_t h, uint64_t v)
{
        h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
        return h ^ h >> 29;
}

static uint64_t mix_address(uint64_t h, const uint8_t address[16])
{
        uint64_t halves[2];

        memcpy(halves, address, sizeof(halves));
        return mix(mix(h, halves[0]), halves[1]);
}

/* The place of an entry that is equal but for who. */
static WhoEntry *who_lookup(WhoTable *t, const WhoEntry *like, unsigned *ret_set)
{
        uint64_t h = mix(t->seed, (uint64_t) like->protocol << 32 | (uint32_t) like->source_port << 16 | like->dest_port);

        *ret_set = (unsigned) (mix_address(mix_address(h, like->source), like->dest) >> 40) % WHO_SETS;
        for (unsigned i = 0; i < WHO_WAYS; i++) {
                WhoEntry *e = &t->entries[*ret_set][i];

                if (e->source_port == like->source_port && e->dest_port == like->dest_port &&
                                e->protocol == like->protocol && e->family == like->family &&
                                memcmp(e->source, like->source, 16) == 0 && memcmp(e->dest, like->dest, 16) == 0)
                        return e;
        }
        return NULL;
}

/* Where the next one may stand: the oldest that nothing is awaited of; NULL: there is none. */
static WhoEntry *who_idle(WhoTable *t, unsigned set)
{
        for (unsigned i = 0; i < WHO_WAYS; i++) {
                unsigned k = (t->next[set] + i) % WHO_WAYS;

                if (t->entries[set][k].ahead <= 0) {
                        t->next[set] = (uint8_t) ((k + 1) % WHO_WAYS);
                        return &t->entries[set][k];
                }
        }
        return NULL;
}

static WhoEntry who_like(uint8_t protocol, const EgressAddress *source, uint16_t source_port, const EgressAddress *dest,
                uint16_t dest_port)
{
        WhoEntry like = {
                .family = dest->family, .protocol = protocol, .source_port = source_port, .dest_port = dest_port
        };

        memcpy(like.source, source->bytes, sizeof(like.source));
        memcpy(like.dest, dest->bytes, sizeof(like.dest));
        return like;
}

WhoEntry *who_add(WhoTable *t, const EgressEvent *e, WhoEntry *ret_gone)
{
        WhoEntry entry = {
                .family = e->family,
                .protocol = e->protocol,
                .source_port = e->source_port,
                .dest_port = e->dest_port,
        }, *place;
        unsigned set;

        *ret_gone = (WhoEntry){};
        if (e->source_port == 0)
                return NULL;
        memcpy(entry.source, e->source, sizeof(entry.source));
        memcpy(entry.dest, e->dest, sizeof(entry.dest));
        place = who_lookup(t, &entry, &set);
        if (!place) {
                place = who_idle(t, set) ?: &t->entries[set][t->next[set]++ % WHO_WAYS];
                *ret_gone = *place;
                *place = entry;
        } else if (place->ahead > 0 && (e->stamp == 0 || e->stamp == place->stamp))
                return NULL; /* a SYN that is sent again */
        place->stamp = e->stamp;
        place->generation = t->generation;
        place->who.tgid = e->tgid;
        memcpy(place->who.comm, e->comm, sizeof(e->comm));
        if (e->protocol != IPPROTO_TCP)
                return NULL;
        place->told = false;
        return place->ahead++ < 0 ? NULL : place;
}

Who who_find(WhoTable *t, const EgressAddress *source, uint16_t source_port, const EgressAddress *dest, uint16_t dest_port)
{
        const WhoEntry like = who_like(IPPROTO_UDP, source, source_port, dest, dest_port), *e;
        unsigned set;

        e = source_port != 0 ? who_lookup(t, &like, &set) : NULL;
        return e && e->generation == t->generation ? e->who : (Who){};
}

Who who_take(WhoTable *t, const EgressAddress *source, uint16_t source_port, const EgressAddress *dest, uint16_t dest_port,
                bool *ret_told)
{
        const WhoEntry like = who_like(IPPROTO_TCP, source, source_port, dest, dest_port);
        WhoEntry *e;
        unsigned set;

        *ret_told = false;
        if (source_port == 0)
                return (Who){};
        e = who_lookup(t, &like, &set);
        if (!e) {
                e = who_idle(t, set);
                if (!e)
                        return (Who){};
                *e = like;
        }
        if (e->ahead-- <= 0)
                return (Who){};
        *ret_told = e->told;
        return e->generation == t->generation ? e->who : (Who){};
}

void who_forget(WhoTable *t)
{
        t->generation++;
}

/* ---- the ring buffer, as include/uapi/linux/bpf.h and the kernel's documentation of it (bpf/ringbuf) have it */

#define RECORD_HEADER 8u
#define RECORD_BUSY (UINT32_C(1) << 31)    /* being written */
#define RECORD_DISCARD (UINT32_C(1) << 30) /* given up by its writer */

uint64_t ring_end(const Ring *r)
{
        return atomic_load_explicit(r->producer, memory_order_acquire);
}

bool ring_next(Ring *r, uint64_t until, EgressEvent *ret)
{
        uint64_t at = atomic_load_explicit(r->consumer, memory_order_relaxed);
        bool found = false;

        while (!found && at < until) {
                const uint8_t *p = r->data + (at & (r->size - 1));
                uint32_t header = atomic_load_explicit(
                                (const _Atomic uint32_t *) (const void *) p, memory_order_acquire);
                uint64_t n = header & ~(RECORD_BUSY | RECORD_DISCARD);
                uint64_t step = (n + RECORD_HEADER + 7) & ~UINT64_C(7);

                if (header & RECORD_BUSY)
                        break;
                /* The kernel writes no such thing; were it to, what follows could not be found. */
                if (step > until - at || step > r->size)
                        step = until - at, n = 0;
                if (!(header & RECORD_DISCARD) && n == sizeof(*ret)) {
                        memcpy(ret, p + RECORD_HEADER, sizeof(*ret));
                        found = true;
                }
                at += step;
        }
        atomic_store_explicit(r->consumer, at, memory_order_release);
        return found;
}

/* ---- both, mapped */

static void *map(int fd, size_t size, int protection, size_t offset)
{
        void *p = mmap(NULL, size, protection, MAP_SHARED, fd, (off_t) offset);

        return p == MAP_FAILED ? NULL : p;
}

int events_open(Events *e, int ring_fd, int counters_fd, uint64_t seed)
{
        size_t page = (size_t) sysconf(_SC_PAGESIZE);
        uint8_t *fixed;

        *e = (Events){ .ring.size = EGRESS_RING_SIZE };
        e->who = calloc(1, sizeof(*e->who)); /* the kernel's zero pages until they are needed */
        if (!e->who)
                return -ENOMEM;
        e->who->seed = seed;
        e->ring.consumer = map(ring_fd, page, PROT_READ | PROT_WRITE, 0);
        if (!e->ring.consumer)
                return -errno;
        fixed = map(ring_fd, page + 2 * (size_t) EGRESS_RING_SIZE, PROT_READ, page);
        if (!fixed)
                return -errno;
        e->ring.producer = (const _Atomic uint64_t *) (const void *) fixed;
        e->ring.data = fixed + page;
        e->counters = map(counters_fd, page, PROT_READ, 0);
        return e->counters ? 0 : -errno;
}

void events_close(Events *e)
{
        size_t page = (size_t) sysconf(_SC_PAGESIZE);

        if (e->ring.consumer)
                munmap(e->ring.consumer, page);
        if (e->ring.data)
                munmap((void *) (uintptr_t) (e->ring.data - page), page + 2 * e->ring.size);
        if (e->counters)
                munmap((void *) (uintptr_t) e->counters, page);
        free(e->who);
        e->ring = (Ring){};
        e->counters = NULL;
        e->who = NULL;
}
