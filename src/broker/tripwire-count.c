/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "broker/tripwire-count.h"

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
                c->others[row]++;
                return false;
        }
        c->who[c->n] = (TripwireWho){ .row = row, .pid = pid };
        snprintf(c->who[c->n].comm, TRIPWIRE_COMM_MAX, "%s", comm);
        c->n++;
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
                if (c->others[i] > 0) {
                        *ret = (TripwireWho){ .row = i, .count = c->others[i] };
                        c->others[i] = 0;
                        return true;
                }
        return false;
}
