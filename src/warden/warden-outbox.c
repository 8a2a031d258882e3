/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "warden/warden-outbox.h"

int outbox_open(Outbox *o, size_t n_bytes, size_t n_slots)
{
        *o = (Outbox){ .n_bytes = n_bytes, .n_slots = n_slots, .slots = calloc(n_slots, sizeof(*o->slots)) };
        return o->slots ? 0 : -ENOMEM;
}

bool outbox_is_empty(const Outbox *o)
{
        return o->sent == o->arrived;
}

static OutboxSlot *slot(const Outbox *o, uint64_t number)
{
        return o->slots + number % o->n_slots;
}

static void drop(Outbox *o, uint64_t number)
{
        OutboxSlot *s = slot(o, number);

        o->n_held -= s->n;
        free(s->record);
        *s = (OutboxSlot){};
}

void outbox_close(Outbox *o)
{
        outbox_forget(o, o->sent);
        free(o->slots);
        *o = (Outbox){};
}

int outbox_add(Outbox *o, const void *p, size_t n)
{
        void *copy;

        if (o->sent - o->arrived >= o->n_slots || n > o->n_bytes - o->n_held)
                return -EBUSY;
        copy = malloc(n);
        if (!copy)
                return -ENOMEM;
        memcpy(copy, p, n);
        *slot(o, ++o->sent) = (OutboxSlot){ .record = copy, .n = n };
        o->n_held += n;
        o->most = MAX2(o->most, o->n_held);
        return 0;
}

void outbox_take_back(Outbox *o)
{
        drop(o, o->sent--);
}

/* What a burst took goes back to the kernel when it has arrived: what else was allocated meanwhile stands between. */
#define MUCH ((size_t) 256 << 10)

static void give_back(Outbox *o)
{
        if (o->n_held > 0 || o->most < MUCH)
                return;
        (void) malloc_trim(0);
        o->most = 0;
}

void outbox_forget(Outbox *o, uint64_t arrived)
{
        while (arrived <= o->sent && o->arrived < arrived)
                drop(o, ++o->arrived);
        give_back(o);
}

const void *outbox_get(const Outbox *o, uint64_t number, size_t *ret_n)
{
        const OutboxSlot *s = slot(o, number);

        *ret_n = s->n;
        return s->record;
}
