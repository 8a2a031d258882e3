/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/macro.h"
#include "broker/wall-code.h"

/* Packets that leave a socket of the run: what is tried.
 *
 * Asked before fragmentation and segmentation: every packet has its transport header, and what one call
 * sends as many (UDP_SEGMENT) is one attempt. A SYN that is sent again is one more CONNECT, with the
 * same stamp. A packet with IP options or IPv6 extension headers may be on its way to elsewhere than
 * it says (source routes, which the namespace drops), so it is a denial wherever it goes; on TCP the run's
 * system-call filter lets nobody set them. */

enum {
        L_V6 = 1,
        L_V6_SANDBOX,
        L_V6_MAPPED,
        L_V6_OTHER,
        L_LOCAL,
        L_TRANSPORT,
        L_TCP,
        L_UDP,
        L_DNS_QUERY,
        L_DENY,
        L_EMIT,
        L_NOBODY,
        L_NOT_COUNTED_WHO,
        L_LET,
};
#define CTX(f) (int16_t) offsetof(struct __sk_buff, f)
#define HEADER (-112) /* 40 bytes */
#define PORTS (-128)  /* 14 bytes, TCP's up to its flags */
#define TCP_FLAGS (PORTS + 13)
#define TCP_SYN_ACK 0x12
#define TCP_SYN 0x02

/* What register 9 knows of the destination. */
#define D_LOCAL 1 /* the sandbox's own */
#define D_ASTRAY \
        2 /* extended, or multicast and broadcast, which pass the sk_lookup program by: not the warden's */
#define D_RECORDED 4 /* link-local: TCP is on record by connect6 */

#define LOAD_BYTES(from, to, n) \
        MOVE(1, 6), from, STACK(3, to), SET(4, n), CALL(skb_load_bytes), IF_NOT_ZERO(0, L_LET)
#define COPY_WORD(to, from) LOAD(W, 2, 10, from), STORE(W, 10, to, 2)

static const struct bpf_insn packets_code[] = {
        MOVE(6, 1),
        EVENT_CLEAR,
        LOAD(W, 2, 6, CTX(protocol)),
        IF_EQUAL(2, BE16(ETH_P_IPV6), L_V6),
        IF_NOT_EQUAL(2, BE16(ETH_P_IP), L_LET), /* no cgroup is asked about anything else */

        LOAD_BYTES(SET(2, 0), HEADER, 20),
        STORE_VALUE(B, 10, E(family), AF_INET),
        COPY_WORD(E(source), HEADER + 12),
        COPY_WORD(E(dest), HEADER + 16),
        LOAD(B, 8, 10, HEADER + 9),
        LOAD(B, 7, 10, HEADER),
        AND(7, 15),
        SHIFT_LEFT(7, 2),
        SET(9, D_ASTRAY),
        IF_ABOVE(7, 20, L_TRANSPORT),
        IF_EQUAL(2, BROADCAST_IPV4, L_TRANSPORT),
        MOVE(3, 2),
        AND(3, MULTICAST_IPV4_MASK),
        IF_EQUAL(3, MULTICAST_IPV4, L_TRANSPORT),
        IF_OWN_IPV4(L_LOCAL),
        SET(9, 0),
        GO(L_TRANSPORT),

        LABEL(L_V6),
        LOAD_BYTES(SET(2, 0), HEADER, 40),
        STORE_VALUE(B, 10, E(family), AF_INET6),
        COPY_WORD(E(source), HEADER + 8),
        COPY_WORD(E(source) + 4, HEADER + 12),
        COPY_WORD(E(source) + 8, HEADER + 16),
        COPY_WORD(E(source) + 12, HEADER + 20),
        LOAD(W, 2, 10, HEADER + 24),
        LOAD(W, 3, 10, HEADER + 28),
        LOAD(W, 4, 10, HEADER + 32),
        LOAD(W, 5, 10, HEADER + 36),
        STORE(W, 10, E(dest), 2),
        STORE(W, 10, E(dest) + 4, 3),
        STORE(W, 10, E(dest) + 8, 4),
        STORE(W, 10, E(dest) + 12, 5),
        LOAD(B, 8, 10, HEADER + 6),
        SET(7, 40),
        SET(9, D_ASTRAY),
        IF_EQUAL(8, IPPROTO_HOPOPTS, L_TRANSPORT),
        IF_EQUAL(8, IPPROTO_ROUTING, L_TRANSPORT),
        IF_EQUAL(8, IPPROTO_FRAGMENT, L_TRANSPORT),
        IF_EQUAL(8, IPPROTO_DSTOPTS, L_TRANSPORT),
        IF_OWN_IPV6(L_LOCAL, L_V6_OTHER, L_V6_SANDBOX, L_V6_MAPPED),
        LABEL(L_V6_OTHER),
        MOVE(3, 2),
        AND(3, MULTICAST_IPV6_MASK),
        IF_EQUAL(3, MULTICAST_IPV6, L_TRANSPORT),
        SET(9, D_RECORDED),
        AND(2, LINK_LOCAL_IPV6_MASK),
        IF_EQUAL(2, LINK_LOCAL_IPV6, L_TRANSPORT),
        SET(9, 0),
        GO(L_TRANSPORT),
        LABEL(L_LOCAL),
        SET(9, D_LOCAL),

        LABEL(L_TRANSPORT),
        STORE(B, 10, E(protocol), 8),
        IF_EQUAL(8, IPPROTO_TCP, L_TCP),
        IF_EQUAL(8, IPPROTO_UDP, L_UDP),
        IF_BITS(9, D_LOCAL, L_LET),
        GO(L_DENY),

        LABEL(L_TCP),
        LOAD_BYTES(MOVE(2, 7), PORTS, 14),
        LOAD(B, 2, 10, TCP_FLAGS),
        AND(2, TCP_SYN_ACK),
        IF_NOT_EQUAL(2, TCP_SYN, L_LET),
        IF_BITS(9, D_LOCAL | D_RECORDED, L_LET),
        LOAD(H, 2, 10, PORTS),
        BIG_ENDIAN_16(2),
        STORE(H, 10, E(source_port), 2),
        LOAD(H, 2, 10, PORTS + 2),
        BIG_ENDIAN_16(2),
        STORE(H, 10, E(dest_port), 2),
        IF_BITS(9, D_ASTRAY, L_DENY),
        STORE_VALUE(B, 10, E(kind), EGRESS_EVENT_CONNECT),
        GO(L_EMIT),

        LABEL(L_UDP),
        LOAD_BYTES(MOVE(2, 7), PORTS, 4),
        LOAD(H, 2, 10, PORTS),
        BIG_ENDIAN_16(2),
        STORE(H, 10, E(source_port), 2),
        LOAD(H, 2, 10, PORTS + 2),
        BIG_ENDIAN_16(2),
        STORE(H, 10, E(dest_port), 2),
        IF_BITS(9, D_ASTRAY, L_DENY),
        IF_EQUAL(2, DNS_PORT, L_DNS_QUERY),
        IF_BITS(9, D_LOCAL, L_LET),
        GO(L_DENY),
        LABEL(L_DNS_QUERY),
        STORE_VALUE(B, 10, E(kind), EGRESS_EVENT_DNS),
        GO(L_EMIT),

        LABEL(L_DENY),
        STORE_VALUE(B, 10, E(kind), EGRESS_EVENT_DENIED),
        LABEL(L_EMIT),
        MOVE(1, 6),
        CALL(get_socket_cookie),
        STORE(DW, 10, WHO_KEY, 0),
        MAP(1, MAP_WHO),
        STACK(2, WHO_KEY),
        CALL(map_lookup_elem),
        IF_ZERO(0, L_NOBODY),
        EVENT_WHO(0, 0),
        LABEL(L_NOBODY),
        EVENT_EMIT(L_NOT_COUNTED_WHO, L_LET),
        LABEL(L_LET),
        PASS_EVERYTHING,
};

const BpfProgram wall_packets_program =
                WALL_PROGRAM("agentbox_out", BPF_PROG_TYPE_CGROUP_SKB, BPF_CGROUP_INET_EGRESS, packets_code);
