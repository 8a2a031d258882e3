/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "wire/egress.h"

/* PURE. An address in the forms that records, rules and the kernel have. */

/* false: neither IPv4 nor IPv6. */
bool address_from_sockaddr(const struct sockaddr_storage *sa, EgressAddress *ret, uint16_t *ret_port);
socklen_t address_to_sockaddr(const EgressAddress *a, uint16_t port, struct sockaddr_storage *ret);
/* The usual text of either family, nothing else ("1.2.3" is none). */
bool address_parse(const char *s, EgressAddress *ret);
size_t address_size(const EgressAddress *a); /* 4 or 16 */
