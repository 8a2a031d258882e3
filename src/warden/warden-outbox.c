/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "warden/warden-outbox.h"

int outbox_open(Outbox *o, size_t n_bytes, size_t n_slots)
{
        *o = (Outbox){ .n_bytes = n_bytes, .n_slots = n_slots };
        o->bytes = malloc(n_bytes); /* whose pages are there once they are used */
        o->slots = calloc(n_slots, sizeof(*o->slots));
        if (o->bytes && o->slots)
                return 0;
        outbox_close(o);
        return -ENOMEM;
}

void outbox_close(Outbox *o)
{
        free(o->bytes);
        free(o->slots);
        *o = (Outbox){};
}

bool outbox_is_empty(const Outbox *o)
{
        return o->sent == o->arrived;
}

static OutboxSlot *slot(const Outbox *o, uint64_t number)
{
        return o->slots + number % o->n_slots;
}

/* Where n bytes go; SIZE_MAX: nowhere. From the beginning where nothing is held, so that a quiet run's few records always lie in
 * the same pages. */
static size_t place(const Outbox *o, size_t n)
{
        size_t begin;

        if (outbox_is_empty(o))
                return n <= o->n_bytes ? 0 : SIZE_MAX;
        if (o->sent - o->arrived >= o->n_slots)
                return SIZE_MAX;
        begin = slot(o, o->arrived + 1)->at;
        if (o->end <= begin) /* it goes round already; equal: it is full */
                return n <= begin - o->end ? o->end : SIZE_MAX;
        if (n <= o->n_bytes - o->end)
                return o->end;
        return n <= begin ? 0 : SIZE_MAX;
}

bool outbox_has_room(const Outbox *o, size_t n)
{
        return n > 0 && place(o, n) != SIZE_MAX;
}

void outbox_add(Outbox *o, const void *p, size_t n)
{
        size_t at = place(o, n);

        memcpy(o->bytes + at, p, n);
        *slot(o, ++o->sent) = (OutboxSlot){ .at = (uint32_t) at, .n = (uint32_t) n };
        o->end = at + n;
}

void outbox_forget(Outbox *o, uint64_t arrived)
{
        if (arrived > o->arrived && arrived <= o->sent)
                o->arrived = arrived;
}

const void *outbox_get(const Outbox *o, uint64_t number, size_t *ret_n)
{
        const OutboxSlot *s = slot(o, number);

        *ret_n = s->n;
        return o->bytes + s->at;
}
