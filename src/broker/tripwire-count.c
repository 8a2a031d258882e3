/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "broker/tripwire-count.h"

static void name(TripwireWho *w, size_t row, pid_t pid, const char *comm)
{
        w->row = row;
        w->pid = pid;
        snprintf(w->comm, TRIPWIRE_COMM_MAX, "%s", comm);
}

bool tripwire_count(TripwireCounts *c, size_t row, pid_t pid, const char *comm)
{
        c->total++;
        for (unsigned i = 0; i < c->n; i++) {
                TripwireWho *w = c->who + i;

                if (w->row != row || w->pid != pid || !streq(w->comm, comm))
                        continue;
                w->count++;
                return false;
        }
        if (c->n >= TRIPWIRE_WHO_MAX) {
                name(c->others + row, row, pid, comm);
                c->others[row].count++;
                return false;
        }
        c->who[c->n] = (TripwireWho){};
        name(c->who + c->n++, row, pid, comm);
        return true;
}

bool tripwire_take(TripwireCounts *c, TripwireWho *ret)
{
        while (c->n > 0)
                if (c->who[--c->n].count > 0) {
                        *ret = c->who[c->n];
                        return true;
                }
        for (size_t i = 0; i < DECOYS_MAX; i++)
                if (c->others[i].count > 0) {
                        *ret = c->others[i].count == 1 ? c->others[i] : (TripwireWho){ .row = i, .count = c->others[i].count };
                        c->others[i].count = 0;
                        return true;
                }
        return false;
}
