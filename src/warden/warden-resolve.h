/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "resolver/resolve.h"

/* The warden's side of its resolver (resolver/resolve.h): a process that is started before the warden confines itself. Those
 * who want the same name at the same time wait for one answer. */

/* Different names at a time; there is no more work for it than that. */
#define LOOKUPS_MAX 64u

typedef struct Waiter Waiter;
struct Waiter {
        Waiter *next;
        struct Lookup *lookup; /* NULL: waits for nothing */
        void (*answered)(void *userdata, Waiter *w, const ResolveAnswer *a);
};

typedef struct Lookup {
        uint32_t id; /* 0: free */
        Waiter *waiters;
        char name[RESOLVE_NAME_MAX + 1];
} Lookup;

typedef struct Resolver {
        int fd; /* -1: there is none, or it is dead */
        uint32_t last_id;
        Lookup *lookups;
} Resolver;

#define RESOLVER_NONE ((Resolver){ .fd = -1 })
/* Starts the program at path and asks whether it is there. */
int resolver_start(Resolver *r, const char *path);
/* Waits for the answer to that, at most so long. */
int resolver_wait(Resolver *r, int timeout_msec);
void resolver_close(Resolver *r);

/* w->answered is called once, later, unless resolver_cancel(). deadline: CLOCK_MONOTONIC, microseconds. -EAGAIN: too many at a
 * time; other errors: there is no resolver. */
int resolver_ask(Resolver *r, Waiter *w, const char *name, uint64_t deadline);
void resolver_cancel(Waiter *w);
/* To be called when the descriptor can be read. Negative errno: it is dead; everybody who waited has an empty answer. */
int resolver_dispatch(Resolver *r, void *userdata);
