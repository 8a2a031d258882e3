/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <systemd/sd-bus.h>

#include "base/strv.h"
#include "policy/unit-props.h"

/* The a{sv} of a GetAll() reply in a form that can be compared with what was sent: each value as a list of
 * texts. a scalar: one text; numbers in decimal, booleans 0 or 1 an array: one text per element; an element
 * that is a structure or an array has its parts joined by BUS_PROP_SEPARATOR, with "#COUNT" in front of each
 * array inside it a structure: its fields one after the other, an array among them opened So (bas) is the
 * truth value and then the strings. */

#define BUS_PROP_SEPARATOR '\x1f'

typedef struct BusProp {
        char *name;
        char **items; /* NULL for an empty array */
} BusProp;

typedef struct BusProps {
        BusProp *props;
        size_t n;
} BusProps;

/* Reads the message from its beginning and leaves it there. */
int bus_props_read(sd_bus_message *m, BusProps *ret);
void bus_props_done(BusProps *p);
const BusProp *bus_props_find(const BusProps *p, const char *name);
/* Nothing set: no elements, or nothing but empty strings and zeros. */
bool bus_prop_is_empty(const BusProp *p);
/* The same form of what is to be sent. An ExecStart's line ends where PID 1 adds its own figures. */
int bus_prop_from_unit_prop(const UnitProp *q, char ***ret);
