/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include "resolver/resolve.h"
#include "test-warden-harness.h"
#include "warden/warden-address.h"

/* Speaks to a warden as agentbox-resolver does, and knows what the tests want. */

static const struct {
        const char *name;
        const char *addresses[3];
} names[] = {
        { NAME_WORLD, { WORLD_IPV4 } },
        { "a.wild.example", { WORLD_IPV4 } },
        { NAME_WORLD6, { WORLD_IPV6 } },
        { NAME_BOTH, { BLACK_HOLE_IPV4, WORLD_IPV4 } },
        { NAME_PRIVATE, { WORLD_PRIVATE_IPV4 } },
        { NAME_MIXED, { WORLD_PRIVATE_IPV4, WORLD_IPV4 } },
        { NAME_METADATA, { "169.254.169.254", WORLD_PRIVATE_IPV4 } },
        { NAME_HOST, { HOST_IPV4 } },
        { NAME_BROADCAST, { "93.184.216.255" } },
        { NAME_HOLE, { BLACK_HOLE_IPV4 } },
        { NAME_FAIL, {} },
        { "", {} },
};

static bool find(const char *name, ResolveAnswer *a)
{
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                if (!streq(names[i].name, name))
                        continue;
                for (const char *const *p = names[i].addresses; *p; p++)
                        a->n += address_parse(*p, a->addresses + a->n);
                return true;
        }
        return false;
}

int main(void)
{
        for (;;) {
                uint8_t message[RESOLVE_MESSAGE_MAX];
                ssize_t n = recv(0, message, sizeof(message), 0);
                _cleanup_buf_ Buf out = {};
                ResolveAnswer a = {};
                ResolveRequest q;

                if (n <= 0 || resolve_request_decode(message, (size_t) n, &q) < 0 || streq(q.name, NAME_DEADLY))
                        return 0;
                a.id = q.id;
                if (streq(q.name, NAME_GARBAGE))
                        send(0, "garbage", 7, MSG_NOSIGNAL);
                else if (find(q.name, &a) && resolve_answer_encode(&a, &out) >= 0)
                        send(0, out.data, out.size, MSG_NOSIGNAL);
        }
}
