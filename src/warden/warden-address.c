/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>

#include "base/macro.h"
#include "warden/warden-address.h"

size_t address_size(const EgressAddress *a)
{
        return a->family == AF_INET ? 4 : 16;
}

bool address_from_sockaddr(const struct sockaddr_storage *sa, EgressAddress *ret, uint16_t *ret_port)
{
        const struct sockaddr_in *in = (const void *) sa;
        const struct sockaddr_in6 *in6 = (const void *) sa;

        *ret = (EgressAddress){ .family = (uint8_t) sa->ss_family };
        switch (sa->ss_family) {
        case AF_INET:
                memcpy(ret->bytes, &in->sin_addr, 4);
                *ret_port = ntohs(in->sin_port);
                return true;
        case AF_INET6:
                memcpy(ret->bytes, &in6->sin6_addr, 16);
                *ret_port = ntohs(in6->sin6_port);
                return true;
        default:
                return false;
        }
}

socklen_t address_to_sockaddr(const EgressAddress *a, uint16_t port, struct sockaddr_storage *ret)
{
        struct sockaddr_in *in = (void *) ret;
        struct sockaddr_in6 *in6 = (void *) ret;

        *ret = (struct sockaddr_storage){ .ss_family = a->family };
        if (a->family == AF_INET) {
                memcpy(&in->sin_addr, a->bytes, 4);
                in->sin_port = htons(port);
                return sizeof(*in);
        }
        memcpy(&in6->sin6_addr, a->bytes, 16);
        in6->sin6_port = htons(port);
        return sizeof(*in6);
}

bool address_parse(const char *s, EgressAddress *ret)
{
        EgressAddress a = { .family = strchr(s, ':') ? AF_INET6 : AF_INET };

        if (inet_pton(a.family, s, a.bytes) != 1)
                return false;
        *ret = a;
        return true;
}
