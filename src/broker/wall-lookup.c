/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <linux/bpf.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/macro.h"
#include "broker/wall-code.h"

/* Where a packet is led. Asked for every TCP SYN, and for every datagram that no connected socket waits for,
 * before the namespace's listeners. */

enum {
        L_IPV6 = 1,
        L_SANDBOX,
        L_MAPPED,
        L_OTHER,
        L_OWN,
        L_FOREIGN,
        L_FOREIGN_UDP,
        L_DNS,
        L_ASSIGN,
        L_PASS,
        L_DROP,
};
#define CTX(f) (int16_t) offsetof(struct bpf_sk_lookup, f)
#define KEY (-4)

static const struct bpf_insn lookup_code[] = {
        MOVE(6, 1),
        LOAD(W, 7, 6, CTX(protocol)),
        LOAD(W, 8, 6, CTX(local_port)), /* host order */
        LOAD(W, 2, 6, CTX(family)),
        IF_EQUAL(2, AF_INET6, L_IPV6),
        IF_NOT_EQUAL(2, AF_INET, L_DROP),
        SET(9, 0),
        LOAD(W, 2, 6, CTX(local_ip4)),
        IF_OWN_IPV4(L_OWN),
        GO(L_FOREIGN),
        LABEL(L_IPV6),
        SET(9, SOCKETS_IPV6),
        LOAD(W, 2, 6, CTX(local_ip6[0])),
        LOAD(W, 3, 6, CTX(local_ip6[1])),
        LOAD(W, 4, 6, CTX(local_ip6[2])),
        LOAD(W, 5, 6, CTX(local_ip6[3])),
        IF_OWN_IPV6(L_OWN, L_OTHER, L_SANDBOX, L_MAPPED),
        /* TCP to a link-local address is refused and on record by connect6 already, which cannot see whether
         * the kernel will let it come as far as here (only with a scope). */
        LABEL(L_OTHER),
        AND(2, LINK_LOCAL_IPV6_MASK),
        IF_NOT_EQUAL(2, LINK_LOCAL_IPV6, L_FOREIGN),
        IF_EQUAL(7, IPPROTO_TCP, L_DROP),

        LABEL(L_FOREIGN),
        IF_EQUAL(7, IPPROTO_TCP, L_ASSIGN),
        IF_EQUAL(7, IPPROTO_UDP, L_FOREIGN_UDP),
        GO(L_DROP),
        LABEL(L_FOREIGN_UDP),
        IF_EQUAL(8, DNS_PORT, L_DNS),
        GO(L_DROP),
        LABEL(L_OWN),
        IF_NOT_EQUAL(7, IPPROTO_UDP, L_PASS),
        IF_NOT_EQUAL(8, DNS_PORT, L_PASS),

        LABEL(L_DNS),
        ADD(9, SOCKETS_DNS),
        LABEL(L_ASSIGN),
        STORE(W, 10, KEY, 9),
        MAP(1, MAP_SOCKETS),
        STACK(2, KEY),
        CALL(map_lookup_elem),
        IF_ZERO(0, L_DROP), /* closed: nobody is there */
        MOVE(7, 0),
        MOVE(1, 6),
        MOVE(2, 7),
        SET(3, 0),
        CALL(sk_assign),
        MOVE(8, 0),
        MOVE(1, 7),
        CALL(sk_release),
        IF_NOT_ZERO(8, L_DROP),
        LABEL(L_PASS),
        SET(0, SK_PASS),
        END(),
        LABEL(L_DROP),
        SET(0, SK_DROP),
        END(),
};

const BpfProgram wall_lookup_program =
                WALL_PROGRAM("agentbox_wall", BPF_PROG_TYPE_SK_LOOKUP, BPF_SK_LOOKUP, lookup_code);
