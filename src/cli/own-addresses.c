/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include "cli/own-addresses.h"

static const void *address_of(const struct sockaddr *a)
{
        if (!a)
                return NULL;
        if (a->sa_family == AF_INET)
                return &((const struct sockaddr_in *) (const void *) a)->sin_addr;
        return a->sa_family == AF_INET6 ? &((const struct sockaddr_in6 *) (const void *) a)->sin6_addr
                                        : NULL;
}

int own_addresses(char ***ret)
{
        _cleanup_strv_ char **l = NULL;
        struct ifaddrs *all = NULL;
        int r = 0;

        if (getifaddrs(&all) < 0)
                return errno == ENOMEM ? -ENOMEM : 0;
        for (const struct ifaddrs *i = all; r >= 0 && i; i = i->ifa_next) {
                const void *address = address_of(i->ifa_addr);
                char text[INET6_ADDRSTRLEN];

                if (address && inet_ntop(i->ifa_addr->sa_family, address, text, sizeof(text)))
                        r = strv_extend(&l, text);
        }
        freeifaddrs(all);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(l);
        return 0;
}
