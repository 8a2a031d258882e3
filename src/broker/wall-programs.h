/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "broker/broker-wall.h"

/* The programs of the wall and the maps that they share. A wall has its own of each, so that no run can fill
 * another's. */

/* Of the run's cgroup, in the order of Wall.programs. None of them ever refuses: what is refused is refused
 * because nothing is there that would take it. */
uint32_t wall_attach_type(size_t i);

typedef struct WallSockets {
        int tcp[2], dns[2]; /* IPv4, IPv6; -1: none */
} WallSockets;

/* Loads everything and puts the sockets where the sk_lookup program finds them. *ret_lookup: that program,
 * for wall_programs_link(). The program holds the map of the sockets, which holds none of them open. */
int wall_programs_load(const WallSockets *sockets, Wall *w, int *ret_lookup, Error **reterr);
/* Returns the link. */
int wall_programs_link(int lookup_fd, int netns_fd);
