/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* What the administrator says about this host's own network, for the wardens of all runs:
 * /etc/agentbox/agentbox.conf.
 *
 *   [Network]                                 may be left out
 *   https_proxy=http://HOST:PORT              connections go out by this proxy (CONNECT); HOST: a name or an
 * address nat64_prefix=PREFIX/LEN                   where the network's own NAT64 is, besides 64:ff9b::/96
 *
 * Read anew for each run that needs it. */

typedef struct HostConfig {
        char *proxy_host; /* NULL: none; an IPv6 address is without brackets */
        uint16_t proxy_port;
        bool has_nat64;
        uint8_t nat64[16];
        uint8_t nat64_length;
} HostConfig;
void host_config_done(HostConfig *c);
#define _cleanup_host_config_ _cleanup_(host_config_done)

/* No file: an empty one. -EINVAL: the error names the line; -EPERM: others than root could change it. */
int host_config_read(const char *path, HostConfig *ret, Error **reterr);
/* The same of a text; file is how errors call it. */
int host_config_parse(const char *file, const char *text, size_t size, HostConfig *ret, Error **reterr);
