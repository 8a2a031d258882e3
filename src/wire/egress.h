/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* What crosses the boundaries of the network's warden: from the broker what it is to do, to the broker that it is ready
 * and what it counted, from the kernel's programs (broker-wall.h) who tried what.
 *
 *   broker  ── WardenSpec and descriptors ──▶  warden     SOCK_SEQPACKET, the warden's standard input
 *   warden  ── WardenHello, WardenReady ────▶  broker     the same
 *   warden  ── EgressTally ────────────────▶  broker      shared file
 *   broker  ── JournalProof ───────────────▶  warden      in the same file
 *   kernel  ── EgressEvent ────────────────▶  warden      ring buffer
 *   broker  ── seccomp listener ───────────▶  witness    SOCK_SEQPACKET, WARDEN_FD_CALLS: one descriptor, once
 *   warden  ── names, addresses ◀──────────▶  resolver    SOCK_SEQPACKET (resolver/resolve.h)
 *
 * The warden greets first (WardenHello); the broker checks that and sends the spec; the warden confines itself and says
 * WardenReady; only then is the run's command executed. No other message exists; while the run lives, the warden counts, and
 * the broker tells it, in a file that both have, what of its records is in the journal. The closing of the broker's end means
 * nothing: the broker may restart, the warden goes on. SIGTERM means that the run is over: everything pending is
 * recorded, then it exits. */

/* ---- addresses */

/* In the form that the sandbox or the upstream used: an IPv4-mapped IPv6 address is AF_INET6 here. Bytes in network
 * order; of IPv4 the first four, the rest zero. */
typedef struct EgressAddress {
        uint8_t family; /* AF_INET, AF_INET6 */
        uint8_t bytes[16];
} EgressAddress;

/* The sandbox's own addresses in its namespace; the namespace's other end, where the listeners are bound, so that neither
 * collides with what the workload binds. Everything in that namespace is local, so any address would do. */
#define EGRESS_SANDBOX_IPV4 "192.0.2.2"
#define EGRESS_SANDBOX_IPV6 "fd00:ab::2"
#define EGRESS_WARDEN_IPV4 "192.0.2.1"
#define EGRESS_WARDEN_IPV6 "fd00:ab::1"
/* Of the listeners; the name server that the sandbox's resolv.conf names is EGRESS_WARDEN_IPV4, port 53. */
#define EGRESS_WARDEN_PORT 1u

/* ---- broker → warden */

typedef enum EgressRuleKind { EGRESS_RULE_TLS, EGRESS_RULE_HTTP, EGRESS_RULE_TCP, EGRESS_RULE_TCP_ADDRESS, _EGRESS_RULE_KIND_MAX } EgressRuleKind;

typedef struct EgressRule {
        EgressRuleKind kind;
        char *text;    /* as the policy has it (allow_rule_format), printable ASCII, at most 511: AGENTBOX_RULE of its records */
        char *name;    /* LDH in lower case, the last label no number, no final dot, without the "*." of a wildcard; "" for
                          an address */
        bool wildcard; /* any depth below name, not name itself */
        EgressAddress address; /* EGRESS_RULE_TCP_ADDRESS, no bit set behind its length; else zero */
        uint8_t prefix_length;
        uint16_t port; /* 1 … 65535 */
        bool ech_allow, private_allow, peer_first; /* of tls; of a name; of tcp */
} EgressRule;

#define WARDENSPEC_MESSAGE "agentbox-warden 2"
#define WARDENSPEC_MAGIC 0x32574241u /* "ABW2" */
#define WARDENSPEC_SIZE_MAX (4u << 20)
#define WARDENSPEC_RULES_MAX 8192u
#define WARDENSPEC_SEED_SIZE 16u

typedef struct WardenSpec {
        /* The fields that every record has (interface: Journal): printable ASCII, at most 255 bytes, run not empty. */
        char *run, *policy, *digest, *unit, *invocation_id;
        uint32_t caller_uid;
        EgressRule *rules;
        uint32_t n_rules;
        uint64_t egress_bytes;  /* EgressBytes=: what may be sent in all; UINT64_MAX: no limit */
        uint32_t connections;   /* Connections=: open at a time; at least 1 */
        bool record_allowed;    /* AllowedEgress= */
        bool record_calls;      /* DeniedSyscalls= */
        bool kill_on_denied;    /* OnDenied=kill; only with record_calls */
        char *proxy_host;       /* upstream proxy (CONNECT): a name in lower case or an address, no brackets; "": none */
        uint16_t proxy_port;    /* 0 if and only if there is none */
        bool has_nat64;         /* the operator's own NAT64 prefix, besides the well-known one */
        uint8_t nat64[16];      /* RFC 6052, 2.2: byte 8 is zero, and so is what is behind the length */
        uint8_t nat64_length;   /* 32, 40, 48, 56, 64, 96 */
        uint8_t seed[WARDENSPEC_SEED_SIZE]; /* where this run's synthetic addresses begin; random */
} WardenSpec;

void wardenspec_done(WardenSpec *s);
/* -EINVAL: breaks a rule above; -E2BIG: over a bound. out then holds nothing of use. */
int wardenspec_encode(const WardenSpec *s, Buf *out);
/* -EBADMSG: not well-formed or over a bound. ret is filled completely or untouched. One form only: what is accepted
 * encodes to the same bytes. */
int wardenspec_decode(const void *p, size_t n, WardenSpec *ret);

/* The descriptors that come with it, in this order, in ONE message (SCM_RIGHTS) whose payload is WARDENSPEC_MESSAGE
 * followed by a u32: bit N is set where descriptor N is there. Left out are the two of IPv6 (a kernel without IPv6) and, without
 * record_calls, the two of the witness; never one of such two alone, and no others. */
typedef enum WardenFd {
        WARDEN_FD_SPEC,     /* sealed memfd: WardenSpec */
        WARDEN_FD_TCP4,     /* listener, non-blocking; getsockname() of what it accepts is where the sandbox wanted to go */
        WARDEN_FD_DNS4,     /* UDP, IP_PKTINFO set, non-blocking */
        WARDEN_FD_EVENTS,   /* BPF_MAP_TYPE_RINGBUF of EGRESS_RING_SIZE bytes: EgressEvent records */
        WARDEN_FD_COUNTERS, /* BPF_MAP_TYPE_ARRAY, BPF_F_MMAPABLE, one page: EgressCounters */
        WARDEN_FD_LINK,     /* the sk_lookup link: held so that it lives as long as the warden, not as the broker */
        WARDEN_FD_JOURNAL,  /* connected SOCK_DGRAM: /run/systemd/journal/socket */
        WARDEN_FD_NOTIFY,   /* connected SOCK_DGRAM: PID 1's notification socket (watchdog) */
        WARDEN_FD_TALLY,    /* EgressTally: a file of exactly this size (root's, in the run's directory: the next broker
                               finds it there), or a memfd sealed in size */
        WARDEN_FD_CALLS,    /* with record_calls, for the warden's witness alone: SOCK_SEQPACKET, over which the listener of the
                               run's filter comes, with WITNESS_LISTENER as payload */
        WARDEN_FD_PROC,     /* the same: a directory, /proc as the broker sees it */
        WARDEN_FD_TCP6,
        WARDEN_FD_DNS6,     /* IPV6_RECVPKTINFO, IPV6_FREEBIND set */
        _WARDEN_FD_MAX,
} WardenFd;
#define WITNESS_LISTENER "agentbox-listener 1"
#define WARDEN_FDS_IPV6 (UINT32_C(1) << WARDEN_FD_TCP6 | UINT32_C(1) << WARDEN_FD_DNS6)
#define WARDEN_FDS_WITNESS (UINT32_C(1) << WARDEN_FD_CALLS | UINT32_C(1) << WARDEN_FD_PROC)
#define WARDEN_FDS_ALL ((UINT32_C(1) << _WARDEN_FD_MAX) - 1)

/* Until it is told what to do the warden cannot answer PID 1's watchdog, whose time is longer then than any start takes.
 * From there on it is this, which the warden tells PID 1 (WATCHDOG_USEC=). */
#define EGRESS_WATCHDOG_USEC UINT64_C(10000000)

/* ---- warden → broker */

/* Loopback, but no address where a host's resolver or proxy would be: those the unit may be allowed to reach. */
#define EGRESS_CANARY_LOOPBACK "127.255.255.253"
#define EGRESS_CANARY_METADATA "169.254.169.254"

/* What it sees of itself before it was told anything. */
#define WARDENHELLO_MAGIC 0x31484241u /* "ABH1" */
typedef struct WardenHello {
        uint32_t uid, gid;
        uint64_t capabilities;     /* all five sets, or'ed */
        bool no_new_privileges;
        uint8_t seccomp_mode;      /* of /proc/self/status; 2: a filter */
        uint64_t netns_inode;      /* must be the broker's own */
        uint64_t userns_inode, mntns_inode;
        uint32_t n_fds;            /* open ones beyond the three */
        /* The canary: errno of sending a datagram to EGRESS_CANARY_LOOPBACK, port 9, and, only where that was refused, to
         * EGRESS_CANARY_METADATA, port 80 (both denied to the unit by IPAddressDeny=, so that none leaves; EPERM expected).
         * 0: it was sent! ECANCELED: not tried. */
        uint32_t canary_loopback, canary_metadata;
        uint64_t memory_limit, open_files_limit; /* RLIMIT_NOFILE; UINT64_MAX where not known */
} WardenHello;
int wardenhello_encode(const WardenHello *h, Buf *out);
int wardenhello_decode(const void *p, size_t n, WardenHello *ret); /* -EBADMSG */

/* It listens, its own filter is loaded, the resolver (if any rule has a name) answers. */
#define WARDENREADY_MAGIC 0x31594241u /* "ABY1" */
typedef struct WardenReady {
        int32_t error; /* 0, or the positive errno of what failed */
        char stage[32]; /* of what failed, "" else; printable ASCII, NUL-padded */
} WardenReady;
int wardenready_encode(const WardenReady *r, Buf *out);
int wardenready_decode(const void *p, size_t n, WardenReady *ret); /* -EBADMSG */

/* journald says nothing of a record that it drops, as it does where its disk is full. So every record of a run's warden is
 * numbered (AGENTBOX_SEQUENCE, from 1 on; those of its witness by themselves), the broker looks which numbers are in the journal,
 * and the warden keeps each record until it knows of it. */
typedef struct JournalProof {
        uint64_t arrived;    /* this and all before it are in the journal */
        uint64_t missing_to; /* from the one behind arrived up to this they are not, but a later one is; 0: none is later */
        uint64_t looked_at;  /* CLOCK_MONOTONIC, microseconds: when the broker began to look */
        uint64_t check;      /* of the three before: they are written while they are read */
} JournalProof;
uint64_t journal_proof_check(const JournalProof *p);
/* Records that were sent and not seen to arrive: a warden holds so many at the most, and sends no more before. */
#define EGRESS_UNPROVEN_MAX 8192u
#define CALLS_UNPROVEN_MAX 256u /* its witness */

/* The rest is counted by the warden before the sandbox learns of a verdict, so that the broker knows the totals of a warden that was
 * killed. It is the warden's word: numbers are taken as numbers, texts escaped again. */
#define EGRESS_TALLY_TOP 4u
#define EGRESS_TALLY_TEXT 272u
typedef struct EgressTally {
        _Atomic uint64_t allowed, denied;
        _Atomic uint64_t metadata; /* of those denied, attempts on a metadata service */
        _Atomic uint64_t denied_on_record; /* sum of AGENTBOX_COUNT of the egress-denied records that were written */
        _Atomic uint64_t bytes_sent, bytes_received; /* relayed, seen from the sandbox */
        _Atomic uint32_t n_top; /* the first different destinations that were denied, "NAME:PORT" or "ADDRESS:PORT" */
        char top[EGRESS_TALLY_TOP][EGRESS_TALLY_TEXT];
        _Atomic uint64_t calls_denied, calls_on_record; /* of the syscall-denied records, as the two of egress-denied */
        _Atomic uint32_t counts_calls; /* 1: the two before are figures */
        _Atomic uint32_t fatal; /* the number of the call that the run is ended for, plus one; 0: none */
        _Atomic uint64_t egress_sent, calls_sent; /* the number of the newest record of the warden; of its witness */
        JournalProof egress_proof, calls_proof;   /* the broker's */
} EgressTally;

/* What the warden exits with where the run is to be ended for a system call (OnDenied=kill). */
#define WARDEN_EXIT_FATAL_CALL 71

/* ---- kernel → warden */

#define EGRESS_RING_SIZE (256u << 10)

typedef enum EgressEventKind {
        EGRESS_EVENT_CONNECT = 1, /* a TCP SYN to where the warden listens: an attempt, says who */
        EGRESS_EVENT_DNS = 2,     /* a datagram to port 53, which the warden will read: says who */
        EGRESS_EVENT_DENIED = 3,  /* anything else that was refused without the warden: one attempt, to be recorded */
} EgressEventKind;
/* An event of the first two kinds is in the ring before what it is about arrives; it comes once more for a SYN that is sent
 * again, with the same stamp. What is never accepted has an event all the same. A denial comes once for each datagram (what one call sends by UDP_SEGMENT is one), and once for each TCP connect
 * that no packet comes of: to a multicast or broadcast address, and any to a link-local one. Its source is then zero. */

/* 64 bytes, native byte order but for the addresses. */
typedef struct EgressEvent {
        uint8_t kind, family, protocol, pad; /* AF_*, IPPROTO_* */
        uint16_t source_port, dest_port;     /* host order; 0 where there is none */
        uint8_t source[16], dest[16];
        uint32_t tgid;                       /* as the host's first PID namespace counts; 0: not known */
        char comm[16];                       /* the attacker's choice */
        uint32_t stamp;                      /* of the connect() or sendmsg() it came of: the same for a SYN that is sent again; 0: not known */
} EgressEvent;
_Static_assert(sizeof(EgressEvent) == 64, "the programs write 64 bytes");

typedef struct EgressCounters {
        uint64_t lost_denied; /* EGRESS_EVENT_DENIED that the ring had no room for; they count as attempts */
        uint64_t lost_who;    /* the other two kinds */
} EgressCounters;
