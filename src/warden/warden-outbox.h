/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Records that were sent and are not known to be in the journal, by their numbers (AGENTBOX_SEQUENCE), which begin with 1:
 * journald says nothing of what it drops, and what it has dropped is sent again. */

typedef struct OutboxSlot {
        void *record;
        size_t n;
} OutboxSlot;

typedef struct Outbox {
        OutboxSlot *slots; /* of a record: its number modulo how many there are */
        size_t n_slots, n_held, n_bytes; /* n_held: bytes of all, at most n_bytes */
        size_t most;                     /* held at a time, since memory was given back */
        uint64_t sent, arrived;          /* held are those behind arrived, up to sent */
} Outbox;

int outbox_open(Outbox *o, size_t n_bytes, size_t n_slots);
void outbox_close(Outbox *o);
bool outbox_is_empty(const Outbox *o);
/* Holds a copy of the next one, with the number sent + 1. -EBUSY: there is no room; -ENOMEM. */
int outbox_add(Outbox *o, const void *p, size_t n);
/* The newest was not sent after all. */
void outbox_take_back(Outbox *o);
/* This number and all before it are in the journal. One that is not held changes nothing. */
void outbox_forget(Outbox *o, uint64_t arrived);
/* One that is held. */
const void *outbox_get(const Outbox *o, uint64_t number, size_t *ret_n);
