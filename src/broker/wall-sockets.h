/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"
#include "broker/wall-programs.h"

/* Makes the sockets that catch what is sent in the namespace of the calling thread: bound to the warden's
 * addresses there, so that nothing inside can share their port. *ret is filled as far as it got; the caller
 * closes. */
int wall_sockets_make(bool ipv6, WallSockets *ret, Error **reterr);

/* Tries from inside what wall_create() promises; nothing else may use the sockets meanwhile. */
int wall_sockets_try(const WallSockets *s, Error **reterr);
