/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdint.h>

/* The id of the program of that link; -ENOLINK where it is none of sk_lookup on a living namespace. */
int wall_link_program(int link_fd, uint32_t *ret_id);
