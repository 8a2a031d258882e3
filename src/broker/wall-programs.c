/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "broker/bpf-assembly.h"
#include "broker/bpf-call.h"
#include "broker/wall-programs.h"

/* Addresses as the programs see them: words of the packet. The sandbox's own: EGRESS_SANDBOX_IPV4, _IPV6. */
#define SANDBOX_IPV4 BE32(0xc0000202u)
#define SANDBOX_IPV6_0 BE32(0xfd0000abu)
#define SANDBOX_IPV6_3 BE32(2u)
#define LOOPBACK_IPV4 BE32(0x7f000000u)
#define LOOPBACK_IPV4_MASK BE32(0xff000000u)
#define LOOPBACK_IPV6_3 BE32(1u)
#define MAPPED_IPV6_2 BE32(0xffffu)
#define BROADCAST_IPV4 0xffffffffu
#define MULTICAST_IPV4 BE32(0xe0000000u)
#define MULTICAST_IPV4_MASK BE32(0xf0000000u)
#define MULTICAST_IPV6 BE32(0xff000000u)
#define MULTICAST_IPV6_MASK BE32(0xff000000u)
#define LINK_LOCAL_IPV6 BE32(0xfe800000u)
#define LINK_LOCAL_IPV6_MASK BE32(0xffc00000u)
#define DNS_PORT 53

typedef enum WallMap { MAP_SOCKETS, MAP_WHO, MAP_EVENTS, MAP_COUNTERS, _MAP_MAX } WallMap;

/* Keys of MAP_SOCKETS: the first plus one for IPv6, plus two for DNS. */
#define SOCKETS_IPV6 1
#define SOCKETS_DNS 2
#define SOCKETS 4

/* Who connected or sent last, by socket cookie. A flood of sockets drives out the oldest: their packets are nobody's then. */
#define WHO_ENTRIES 4096
typedef struct Who {
        uint32_t tgid, pad;
        char comm[16];
} Who;

/* The programs must agree on what is the sandbox's own, so they share this: 127.0.0.0/8, ::1, IPv4 of these within IPv6,
 * its two addresses. IPv4: register 2 has the address, and is used up; falls through where it is not. */
#define IF_OWN_IPV4(own)                                                                                            \
        IF_EQUAL(2, SANDBOX_IPV4, own), AND(2, LOOPBACK_IPV4_MASK), IF_EQUAL(2, LOOPBACK_IPV4, own)
/* IPv6: registers 2 to 5 have it, 5 is used up; goes to other where it is not. sandbox, mapped: labels of its own. */
#define IF_OWN_IPV6(own, other, sandbox, mapped)                                                                    \
        IF_NOT_EQUAL(3, 0, other), IF_EQUAL(4, MAPPED_IPV6_2, mapped), IF_NOT_EQUAL(4, 0, other),                    \
                        IF_EQUAL(2, SANDBOX_IPV6_0, sandbox), IF_NOT_EQUAL(2, 0, other),                             \
                        IF_EQUAL(5, LOOPBACK_IPV6_3, own), GO(other), LABEL(sandbox),                                \
                        IF_EQUAL(5, SANDBOX_IPV6_3, own), GO(other), LABEL(mapped), IF_NOT_EQUAL(2, 0, other),       \
                        IF_EQUAL(5, SANDBOX_IPV4, own), AND(5, LOOPBACK_IPV4_MASK), IF_EQUAL(5, LOOPBACK_IPV4, own), \
                        GO(other)

/* ---- where a packet is led
 *
 * Asked for every TCP SYN, and for every datagram that no connected socket waits for, before the namespace's listeners. */

enum { L_IPV6 = 1, L_SANDBOX, L_MAPPED, L_OTHER, L_OWN, L_FOREIGN, L_FOREIGN_UDP, L_DNS, L_ASSIGN, L_PASS, L_DROP };
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
        /* TCP to a link-local address is refused and on record by connect6 already, which cannot see whether the kernel
         * will let it come as far as here (only with a scope). */
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
#undef CTX
#undef KEY

/* ---- events: what the programs of the cgroup have in common */

#define EVENT (-64)
#define E(f) (int16_t) (EVENT + (int) offsetof(EgressEvent, f))
#define WHO_KEY (-72)
#define WHO (WHO_KEY - (int) sizeof(Who))
#define W_(f) (int16_t) (WHO + (int) offsetof(Who, f))

#define EVENT_CLEAR                                                                                                 \
        STORE_VALUE(DW, 10, EVENT, 0), STORE_VALUE(DW, 10, EVENT + 8, 0), STORE_VALUE(DW, 10, EVENT + 16, 0),       \
                        STORE_VALUE(DW, 10, EVENT + 24, 0), STORE_VALUE(DW, 10, EVENT + 32, 0),                     \
                        STORE_VALUE(DW, 10, EVENT + 40, 0), STORE_VALUE(DW, 10, EVENT + 48, 0),                     \
                        STORE_VALUE(DW, 10, EVENT + 56, 0)

/* from: address of a Who. Through register 2. */
#define EVENT_WHO(from, offset)                                                                                     \
        LOAD(W, 2, from, (offset) + (int) offsetof(Who, tgid)), STORE(W, 10, E(tgid), 2),                           \
                        LOAD(W, 2, from, (offset) + (int) offsetof(Who, comm)), STORE(W, 10, E(comm), 2),           \
                        LOAD(W, 2, from, (offset) + (int) offsetof(Who, comm) + 4), STORE(W, 10, E(comm) + 4, 2),   \
                        LOAD(W, 2, from, (offset) + (int) offsetof(Who, comm) + 8), STORE(W, 10, E(comm) + 8, 2),   \
                        LOAD(W, 2, from, (offset) + (int) offsetof(Who, comm) + 12), STORE(W, 10, E(comm) + 12, 2)

/* Into the ring; where that is full, counted. */
#define EVENT_EMIT(not_denied, done)                                                                                  \
        MAP(1, MAP_EVENTS), STACK(2, EVENT), SET(3, sizeof(EgressEvent)), SET(4, 0), CALL(ringbuf_output),          \
                        IF_ZERO(0, done), STORE_VALUE(W, 10, WHO_KEY, 0), MAP(1, MAP_COUNTERS), STACK(2, WHO_KEY),  \
                        CALL(map_lookup_elem), IF_ZERO(0, done), SET(1, 1), LOAD(B, 2, 10, E(kind)),                \
                        IF_NOT_EQUAL(2, EGRESS_EVENT_DENIED, not_denied),                                             \
                        ATOMIC_ADD(0, offsetof(EgressCounters, lost_denied), 1), GO(done), LABEL(not_denied),         \
                        ATOMIC_ADD(0, offsetof(EgressCounters, lost_who), 1)

#define PASS_EVERYTHING SET(0, 1), END()

/* ---- connect and sendmsg: who it is, in the context of the process that calls
 *
 * A connection to some addresses fails before there is a packet (multicast and broadcast: ENETUNREACH; link-local without a
 * scope: EINVAL): those are denials here. Of a datagram there always is a packet; connecting a datagram socket is no attempt
 * at all (the C library does so to find its own address). */

enum { L_REFUSED = 1, L_LOST_WHO, L_DONE };
#define CTX(f) (int16_t) offsetof(struct bpf_sock_addr, f)

/* Leaves the context in register 6. */
#define REMEMBER_WHO                                                                                                \
        MOVE(6, 1), CALL(get_socket_cookie), STORE(DW, 10, WHO_KEY, 0), CALL(get_current_pid_tgid),                 \
                        SHIFT_RIGHT(0, 32), STORE(W, 10, W_(tgid), 0), STORE_VALUE(W, 10, W_(pad), 0),              \
                        STACK(1, W_(comm)), SET(2, sizeof(((Who *) NULL)->comm)), CALL(get_current_comm),           \
                        MAP(1, MAP_WHO), STACK(2, WHO_KEY), STACK(3, WHO), SET(4, BPF_ANY), CALL(map_update_elem)

#define EVENT_DENIED_HERE                                                                                           \
        LOAD(W, 2, 6, CTX(protocol)), STORE(B, 10, E(protocol), 2), LOAD(W, 2, 6, CTX(user_port)), BIG_ENDIAN_16(2), \
                        STORE(H, 10, E(dest_port), 2), STORE_VALUE(B, 10, E(kind), EGRESS_EVENT_DENIED),            \
                        EVENT_WHO(10, WHO), EVENT_EMIT(L_LOST_WHO, L_DONE)

/* Register 7 has the address. */
#define IF_REFUSED_IPV4(refused)                                                                                    \
        IF_EQUAL(7, BROADCAST_IPV4, refused), MOVE(2, 7), AND(2, MULTICAST_IPV4_MASK), IF_EQUAL(2, MULTICAST_IPV4, refused)

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
        STORE_VALUE(DW, 10, E(dest), 0),
        STORE_VALUE(DW, 10, E(dest) + 8, 0),
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

static const struct bpf_insn sendmsg_code[] = {
        REMEMBER_WHO,
        PASS_EVERYTHING,
};
#undef CTX

/* ---- packets that leave a socket of the run: what is tried
 *
 * Before fragmentation, so every packet has its transport header. A SYN that is sent again is one more CONNECT: events of
 * that kind only say who. A packet with IP options or IPv6 extension headers may be on its way to elsewhere than its
 * destination (source routes), and is dropped by the namespace: a denial wherever it goes. */

enum {
        L_V6 = 1,
        L_V6_SANDBOX,
        L_V6_MAPPED,
        L_V6_OTHER,
        L_LOCAL,
        L_NO_DATAGRAM,
        L_TRANSPORT,
        L_EXTENDED,
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
#define D_LOCAL 1       /* the sandbox's own */
#define D_NO_DATAGRAM 2 /* multicast, broadcast: past the sk_lookup program, so the warden gets none */
#define D_EXTENDED 4
#define D_RECORDED 8 /* link-local: TCP is on record by connect6 */

#define LOAD_BYTES(from, to, n) MOVE(1, 6), from, STACK(3, to), SET(4, n), CALL(skb_load_bytes), IF_NOT_ZERO(0, L_LET)
#define COPY_WORD(to, from) LOAD(W, 2, 10, from), STORE(W, 10, to, 2)

static const struct bpf_insn egress_code[] = {
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
        SET(9, D_EXTENDED),
        IF_ABOVE(7, 20, L_TRANSPORT),
        SET(9, D_NO_DATAGRAM),
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
        SET(9, D_EXTENDED),
        IF_EQUAL(8, IPPROTO_HOPOPTS, L_TRANSPORT),
        IF_EQUAL(8, IPPROTO_ROUTING, L_TRANSPORT),
        IF_EQUAL(8, IPPROTO_FRAGMENT, L_TRANSPORT),
        IF_EQUAL(8, IPPROTO_DSTOPTS, L_TRANSPORT),
        IF_OWN_IPV6(L_LOCAL, L_V6_OTHER, L_V6_SANDBOX, L_V6_MAPPED),
        LABEL(L_V6_OTHER),
        SET(9, D_NO_DATAGRAM),
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
        IF_BITS(9, D_EXTENDED, L_DENY),
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
        IF_BITS(9, D_EXTENDED | D_NO_DATAGRAM, L_DENY),
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
#undef CTX

/* ---- loading */

#define PROGRAM(n, t, a, c) { .name = (n), .type = (t), .attach_type = (a), .code = (c), .size = ELEMENTSOF(c) }

static const BpfProgram lookup_program =
                PROGRAM("agentbox_wall", BPF_PROG_TYPE_SK_LOOKUP, BPF_SK_LOOKUP, lookup_code);

#define ADDRESS_PROGRAM(n, a, c) PROGRAM(n, BPF_PROG_TYPE_CGROUP_SOCK_ADDR, a, c)
static const BpfProgram programs[] = {
        ADDRESS_PROGRAM("agentbox_conn4", BPF_CGROUP_INET4_CONNECT, connect4_code),
        ADDRESS_PROGRAM("agentbox_conn6", BPF_CGROUP_INET6_CONNECT, connect6_code),
        ADDRESS_PROGRAM("agentbox_send4", BPF_CGROUP_UDP4_SENDMSG, sendmsg_code),
        ADDRESS_PROGRAM("agentbox_send6", BPF_CGROUP_UDP6_SENDMSG, sendmsg_code),
        PROGRAM("agentbox_out", BPF_PROG_TYPE_CGROUP_SKB, BPF_CGROUP_INET_EGRESS, egress_code),
};
_Static_assert(ELEMENTSOF(programs) == WALL_PROGRAMS, "one descriptor each");

uint32_t wall_attach_type(size_t i)
{
        return programs[i].attach_type;
}

/* The kernel maps no map that was opened to be read only, so the counters are as writable as the ring: the warden's word. */
static const struct {
        const char *name;
        uint32_t type, key_size, value_size, entries, flags;
} map_rows[_MAP_MAX] = {
        [MAP_SOCKETS] = { "map of sockets", BPF_MAP_TYPE_SOCKMAP, 4, 8, SOCKETS, 0 },
        [MAP_WHO] = { "map of processes", BPF_MAP_TYPE_LRU_HASH, 8, sizeof(Who), WHO_ENTRIES, 0 },
        [MAP_EVENTS] = { "ring buffer", BPF_MAP_TYPE_RINGBUF, 0, 0, EGRESS_RING_SIZE, 0 },
        [MAP_COUNTERS] = { "counters", BPF_MAP_TYPE_ARRAY, 4, sizeof(EgressCounters), 1, BPF_F_MMAPABLE },
};

static int make_maps(int maps[static _MAP_MAX], Error **reterr)
{
        for (size_t i = 0; i < _MAP_MAX; i++) {
                union bpf_attr attr = {};

                attr.map_type = map_rows[i].type;
                attr.key_size = map_rows[i].key_size;
                attr.value_size = map_rows[i].value_size;
                attr.max_entries = map_rows[i].entries;
                attr.map_flags = map_rows[i].flags;
                maps[i] = bpf_call(BPF_MAP_CREATE, &attr);
                if (maps[i] < 0)
                        return error_set(reterr, maps[i], "the kernel refuses the BPF %s: %s", map_rows[i].name,
                                        strerror(-maps[i]));
        }
        return 0;
}

static int put_socket(int map, uint32_t key, int fd)
{
        uint64_t value = (uint64_t) fd;
        union bpf_attr attr = {};

        attr.map_fd = (uint32_t) map;
        attr.key = bpf_pointer(&key);
        attr.value = bpf_pointer(&value);
        return fd < 0 ? 0 : bpf_call(BPF_MAP_UPDATE_ELEM, &attr);
}

static int put_sockets(int map, const WallSockets *s, Error **reterr)
{
        for (uint32_t i = 0; i < 2; i++) {
                int r = put_socket(map, i, s->tcp[i]);

                if (r >= 0)
                        r = put_socket(map, i + SOCKETS_DNS, s->dns[i]);
                if (r < 0)
                        return error_set(reterr, r, "the kernel refuses the sockets of the wall: %s", strerror(-r));
        }
        return 0;
}

static int load_all(const int maps[static _MAP_MAX], Wall *w, int *ret_lookup, Error **reterr)
{
        _cleanup_close_ int lookup = bpf_load(&lookup_program, maps, _MAP_MAX);

        if (lookup < 0)
                return error_set(reterr, lookup, "the kernel refuses the sk_lookup program: %s", strerror(-lookup));
        for (size_t i = 0; i < WALL_PROGRAMS; i++) {
                w->programs[i] = bpf_load(programs + i, maps, _MAP_MAX);
                if (w->programs[i] < 0)
                        return error_set(reterr, w->programs[i], "the kernel refuses the cgroup program %s: %s",
                                        programs[i].name, strerror(-w->programs[i]));
        }
        *ret_lookup = TAKE_FD(lookup);
        return 0;
}

int wall_programs_load(const WallSockets *sockets, Wall *w, int *ret_lookup, Error **reterr)
{
        int maps[_MAP_MAX] = { -1, -1, -1, -1 }, r;

        r = make_maps(maps, reterr);
        if (r >= 0)
                r = put_sockets(maps[MAP_SOCKETS], sockets, reterr);
        if (r >= 0)
                r = load_all(maps, w, ret_lookup, reterr);
        if (r >= 0) {
                w->events_fd = TAKE_FD(maps[MAP_EVENTS]);
                w->counters_fd = TAKE_FD(maps[MAP_COUNTERS]);
        }
        for (size_t i = 0; i < _MAP_MAX; i++)
                closep(maps + i);
        return r;
}

int wall_programs_link(int lookup_fd, int netns_fd)
{
        union bpf_attr attr = {};

        attr.link_create.prog_fd = (uint32_t) lookup_fd;
        attr.link_create.target_fd = (uint32_t) netns_fd;
        attr.link_create.attach_type = BPF_SK_LOOKUP;
        return bpf_call(BPF_LINK_CREATE, &attr);
}
