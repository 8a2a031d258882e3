/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <linux/bpf.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/macro.h"
#include "broker/wall-code.h"

/* connect and sendmsg: who it is, in the context of the process that calls.
 *
 * A connection to some addresses fails before there is a packet (multicast and broadcast: ENETUNREACH;
 * link-local without a scope: EINVAL): those are denials here. Of a datagram there always is a packet;
 * connecting a datagram socket is no attempt at all (the C library does so to find its own address). */

enum { L_REFUSED = 1, L_LOST_WHO, L_DONE };
#define CTX(f) (int16_t) offsetof(struct bpf_sock_addr, f)

/* Leaves the context in register 6. */
#define REMEMBER_WHO                                                                                   \
        MOVE(6, 1), CALL(get_socket_cookie), STORE(DW, 10, WHO_KEY, 0), CALL(get_current_pid_tgid),    \
                        SHIFT_RIGHT(0, 32), STORE(W, 10, W_(tgid), 0), CALL(ktime_get_ns),             \
                        STORE(W, 10, W_(stamp), 0), STACK(1, W_(comm)),                                \
                        SET(2, sizeof(((Who *) NULL)->comm)), CALL(get_current_comm), MAP(1, MAP_WHO), \
                        STACK(2, WHO_KEY), STACK(3, WHO), SET(4, BPF_ANY), CALL(map_update_elem)

#define EVENT_DENIED_HERE                                                                          \
        LOAD(W, 2, 6, CTX(protocol)), STORE(B, 10, E(protocol), 2), LOAD(W, 2, 6, CTX(user_port)), \
                        BIG_ENDIAN_16(2), STORE(H, 10, E(dest_port), 2),                           \
                        STORE_VALUE(B, 10, E(kind), EGRESS_EVENT_DENIED), EVENT_WHO(10, WHO),      \
                        EVENT_EMIT(L_LOST_WHO, L_DONE)

/* Register 7 has the address. */
#define IF_REFUSED_IPV4(refused)                                                       \
        IF_EQUAL(7, BROADCAST_IPV4, refused), MOVE(2, 7), AND(2, MULTICAST_IPV4_MASK), \
                        IF_EQUAL(2, MULTICAST_IPV4, refused)

static const struct bpf_insn connect4_code[] = {
        REMEMBER_WHO,
        EVENT_CLEAR,
        LOAD(W, 7, 6, CTX(user_ip4)),
        STORE_VALUE(B, 10, E(family), AF_INET),
        STORE(W, 10, E(dest), 7),
        IF_REFUSED_IPV4(L_REFUSED),
        GO(L_DONE),
        LABEL(L_REFUSED),
        LOAD(W, 2, 6, CTX(type)),
        IF_NOT_EQUAL(2, SOCK_STREAM, L_DONE),
        EVENT_DENIED_HERE,
        LABEL(L_DONE),
        PASS_EVERYTHING,
};

static const struct bpf_insn connect6_code[] = {
        REMEMBER_WHO,
        EVENT_CLEAR,
        LOAD(W, 2, 6, CTX(user_ip6[0])),
        LOAD(W, 3, 6, CTX(user_ip6[1])),
        LOAD(W, 4, 6, CTX(user_ip6[2])),
        LOAD(W, 7, 6, CTX(user_ip6[3])),
        STORE_VALUE(B, 10, E(family), AF_INET6),
        STORE(W, 10, E(dest), 2),
        STORE(W, 10, E(dest) + 4, 3),
        STORE(W, 10, E(dest) + 8, 4),
        STORE(W, 10, E(dest) + 12, 7),
        MOVE(1, 2),
        AND(1, MULTICAST_IPV6_MASK),
        IF_EQUAL(1, MULTICAST_IPV6, L_REFUSED),
        MOVE(1, 2),
        AND(1, LINK_LOCAL_IPV6_MASK),
        IF_EQUAL(1, LINK_LOCAL_IPV6, L_REFUSED),
        IF_NOT_EQUAL(2, 0, L_DONE),
        IF_NOT_EQUAL(3, 0, L_DONE),
        IF_NOT_EQUAL(4, MAPPED_IPV6_2, L_DONE),
        STORE_VALUE(B, 10, E(family), AF_INET), /* as its packet would be */
        STORE(W, 10, E(dest), 7),
        STORE_VALUE(DW, 10, E(dest) + 8, 0),
        IF_REFUSED_IPV4(L_REFUSED),
        GO(L_DONE),
        LABEL(L_REFUSED),
        LOAD(W, 2, 6, CTX(type)),
        IF_NOT_EQUAL(2, SOCK_STREAM, L_DONE),
        EVENT_DENIED_HERE,
        LABEL(L_DONE),
        PASS_EVERYTHING,
};

static const struct bpf_insn sendmsg_code[] = {
        REMEMBER_WHO,
        PASS_EVERYTHING,
};

#define ADDRESS_PROGRAM(n, a, c) WALL_PROGRAM(n, BPF_PROG_TYPE_CGROUP_SOCK_ADDR, a, c)
const BpfProgram wall_connect4_program =
                ADDRESS_PROGRAM("agentbox_conn4", BPF_CGROUP_INET4_CONNECT, connect4_code);
const BpfProgram wall_connect6_program =
                ADDRESS_PROGRAM("agentbox_conn6", BPF_CGROUP_INET6_CONNECT, connect6_code);
const BpfProgram wall_sendmsg4_program =
                ADDRESS_PROGRAM("agentbox_send4", BPF_CGROUP_UDP4_SENDMSG, sendmsg_code);
const BpfProgram wall_sendmsg6_program =
                ADDRESS_PROGRAM("agentbox_send6", BPF_CGROUP_UDP6_SENDMSG, sendmsg_code);
