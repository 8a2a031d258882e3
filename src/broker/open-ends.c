/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdlib.h>

#include "broker/open-ends.h"

#define PLACES_FIRST 256u /* a power of two, as all that follow */
#define MULTIPLIER UINT64_C(0x9e3779b97f4a7c15)

/* Ten letters and digits are less than 52 bits. 0: it is no run's id. */
static uint64_t number_of(const char *run)
{
        uint64_t n = 0;
        size_t length = 0;

        for (; run[length]; length++) {
                char c = run[length];

                if (length >= 10 || !((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')))
                        return 0;
                n = n * 36 + (uint64_t) (c >= 'a' ? c - 'a' : c - '0' + 26);
        }
        return length == 10 ? n + 1 : 0;
}

/* Where it is, or belongs. */
static uint64_t *place_of(uint64_t *places, size_t n, uint64_t number)
{
        size_t i = (size_t) (number * MULTIPLIER >> 32) & (n - 1);

        while (places[i] != 0 && places[i] != number)
                i = (i + 1) & (n - 1);
        return places + i;
}

static int make_room(OpenEnds *o)
{
        size_t n = o->n_places > 0 ? o->n_places * 2 : PLACES_FIRST;
        uint64_t *places;

        if (o->n_met < o->n_places / 2)
                return 0;
        places = calloc(n, sizeof(*places));
        if (!places)
                return -ENOMEM;
        for (size_t i = 0; i < o->n_places; i++)
                if (o->met[i] != 0)
                        *place_of(places, n, o->met[i]) = o->met[i];
        free(o->met);
        o->met = places;
        o->n_places = n;
        return 0;
}

/* 1: for the first time. */
static int meet(OpenEnds *o, uint64_t number)
{
        int r = make_room(o);
        uint64_t *place;

        if (r < 0)
                return r;
        place = place_of(o->met, o->n_places, number);
        if (*place == number)
                return 0;
        *place = number;
        o->n_met++;
        return 1;
}

int open_ends_read(OpenEnds *o, AuditEvent event, sd_id128_t boot, const char *run)
{
        uint64_t number = number_of(run);
        int r;

        if (o->has_settled && !sd_id128_equal(boot, o->settled) && !sd_id128_equal(boot, o->now))
                return OPEN_ENDS_OVER;
        if (event == AUDIT_BOOTS_SETTLED && !o->has_settled && !sd_id128_equal(boot, o->now)) {
                o->settled = boot;
                o->has_settled = true;
        }
        if (number == 0)
                return OPEN_ENDS_NEXT;
        r = meet(o, number);
        if (r < 0)
                return r;
        /* Those of this boot have a state, or a broker. */
        if (r == 0 || sd_id128_equal(boot, o->now))
                return OPEN_ENDS_NEXT;
        return event == AUDIT_RUN_STARTED || event == AUDIT_RUN_REQUESTED ? OPEN_ENDS_LOST : OPEN_ENDS_NEXT;
}

void open_ends_done(OpenEnds *o)
{
        free(o->met);
        *o = (OpenEnds){};
}
