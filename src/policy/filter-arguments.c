/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <linux/prctl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "policy/filter-tables.h"

/* Values that headers of this age lack, or that only headers have that do not go together with the ones
 * above. */
enum {
        OP_FUTEX_WAIT_REQUEUE_PI = 11,
        OP_FUTEX_CMP_REQUEUE_PI = 12,
        OP_FUTEX_FLAGS = 128 | 256, /* FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME: not part of the operation */
        OPT_SO_BINDTOIFINDEX = 62,
        OPT_IP_MSFILTER = 41,
        OPT_MCAST_FIRST = 42, /* MCAST_JOIN_GROUP and the five after it */
        OPT_MCAST_MSFILTER = 48,
        OPT_TCP_AO_FIRST = 38,
        OPT_TCP_AO_LAST = 42,
        OPT_IP6T_SET_REPLACE = 64,
        OPT_IP6T_SET_COUNTERS = 65,
        OPT_IPV6_TRANSPARENT = 75,
        LEVEL_TLS = 282,
        OPEN_TMPFILE = O_TMPFILE & ~O_DIRECTORY,
        MEMFD_HUGETLB = 0x4,
        SHMGET_HUGETLB = 04000,
        IOCTL_TYPE = 0xff00,
        IOCTL_TYPE_PIDFS = 0xff00,
};

#define LOW32 UINT64_C(0xffffffff)
#define WHOLE UINT64_MAX

/* clang-format off */
/* For an int: all of it, some bits of it, any of these bits. WORD: a long. */
#define INT(n, v) { .op = COMPARE_EQUAL, .arg = (n), .mask = LOW32, .value = (uint32_t) (v) }
#define BITS(n, m, v) { .op = COMPARE_EQUAL, .arg = (n), .mask = (uint32_t) (m), .value = (uint32_t) (v) }
#define ANY(n, m) { .op = COMPARE_ANY_BIT, .arg = (n), .mask = (uint32_t) (m) }
#define ANY_WORD(n) { .op = COMPARE_ANY_BIT, .arg = (n), .mask = WHOLE }
#define WORD(n, v) { .op = COMPARE_EQUAL, .arg = (n), .mask = WHOLE, .value = (v) }

/* The type of a socket, whatever its two flags. */
#define TYPE(t) BITS(1, ~(SOCK_CLOEXEC | SOCK_NONBLOCK), t)

#define STRICT FILTER_PROFILE_STRICT
#define DEFAULT FILTER_PROFILE_DEFAULT

#define SOCKETPAIR(needs, type, protocol) \
        { "socketpair", STRICT, needs, { INT(0, AF_UNIX), TYPE(type), INT(2, protocol) } }
#define SELF(n) INT(n, FILTER_SELF_PLACEHOLDER)
#define SAME(n) INT(n, -1) /* "leave it" */
#define SETUID(...) { "setuid", { __VA_ARGS__ } }
#define SETREUID(...) { "setreuid", { __VA_ARGS__ } }
#define SETRESUID(...) { "setresuid", { __VA_ARGS__ } }

#define SOCKET(need, family, type, protocol)                                                               \
        { "socket", STRICT, need, { INT(0, family), TYPE(type), INT(2, protocol) } }
#define PRCTL(profile, option) { "prctl", profile, NEED_NOTHING, { INT(0, option) } }
#define IOCTL(request) { "ioctl", STRICT, NEED_NOTHING, { INT(1, request) } }
/* clang-format on */

/* All four ids of a run's process are its uid, without a way to another. setuid() knows no "leave it". The sets
 * that capset() takes stand in memory; all that it could do in a run is to leave five empty sets empty, and tools
 * that drop what they do not need (ip, ping) give up where it fails. Who asks for more is told so by the next call
 * that would need it. */
const FilterNoOp filter_no_ops[] = {
        SETUID(SELF(0)),
        SETREUID(SAME(0), SAME(1)),
        SETREUID(SAME(0), SELF(1)),
        SETREUID(SELF(0), SAME(1)),
        SETREUID(SELF(0), SELF(1)),
        SETRESUID(SAME(0), SAME(1), SAME(2)),
        SETRESUID(SAME(0), SAME(1), SELF(2)),
        SETRESUID(SAME(0), SELF(1), SAME(2)),
        SETRESUID(SAME(0), SELF(1), SELF(2)),
        SETRESUID(SELF(0), SAME(1), SAME(2)),
        SETRESUID(SELF(0), SAME(1), SELF(2)),
        SETRESUID(SELF(0), SELF(1), SAME(2)),
        SETRESUID(SELF(0), SELF(1), SELF(2)),
        { "capset", {} },
        /* All that a run may write is in memory, or on a disk of its own that nobody reads after a crash. */
        { "sync", {} },
        { "syncfs", {} },
        /* A program to which the host's kernel pipes its core dumps gets those of processes whose limit is 0 as
         * well, but not where it is 1: so it stays what it is. */
        { "prlimit64", { INT(1, RLIMIT_CORE), ANY_WORD(2) }, .always = true },
        { "setrlimit", { INT(0, RLIMIT_CORE) }, .always = true },
        /* Those of its init (exec-init.c), which has its uid: it keeps them. */
        { "prlimit64", { INT(0, 1), ANY_WORD(2) }, .always = true },
};
const size_t filter_n_no_ops = ELEMENTSOF(filter_no_ops);

const FilterGrant filter_grants[] = {
        SOCKET(NEED_INET, AF_INET, SOCK_STREAM, 0),
        SOCKET(NEED_INET, AF_INET, SOCK_STREAM, IPPROTO_TCP),
        SOCKET(NEED_INET, AF_INET, SOCK_STREAM, IPPROTO_MPTCP),
        SOCKET(NEED_INET, AF_INET, SOCK_DGRAM, 0),
        SOCKET(NEED_INET, AF_INET, SOCK_DGRAM, IPPROTO_UDP),
        SOCKET(NEED_INET, AF_INET, SOCK_DGRAM, IPPROTO_ICMP),
        SOCKET(NEED_INET, AF_INET6, SOCK_STREAM, 0),
        SOCKET(NEED_INET, AF_INET6, SOCK_STREAM, IPPROTO_TCP),
        SOCKET(NEED_INET, AF_INET6, SOCK_STREAM, IPPROTO_MPTCP),
        SOCKET(NEED_INET, AF_INET6, SOCK_DGRAM, 0),
        SOCKET(NEED_INET, AF_INET6, SOCK_DGRAM, IPPROTO_UDP),
        SOCKET(NEED_INET, AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6),
        SOCKET(NEED_UNIX, AF_UNIX, SOCK_STREAM, 0),
        SOCKET(NEED_UNIX, AF_UNIX, SOCK_STREAM, PF_UNIX),
        SOCKET(NEED_UNIX, AF_UNIX, SOCK_DGRAM, 0),
        SOCKET(NEED_UNIX, AF_UNIX, SOCK_DGRAM, PF_UNIX),
        SOCKET(NEED_UNIX, AF_UNIX, SOCK_SEQPACKET, 0),
        SOCKET(NEED_UNIX, AF_UNIX, SOCK_SEQPACKET, PF_UNIX),
        /* Reading the interfaces: node does not start without it. Changing anything takes CAP_NET_ADMIN. */
        SOCKET(NEED_NETLINK, AF_NETLINK, SOCK_RAW, NETLINK_ROUTE),
        SOCKET(NEED_NETLINK, AF_NETLINK, SOCK_DGRAM, NETLINK_ROUTE),
        /* A pair of datagram sockets (the kernel takes raw for the same) can send to any name, connected as
         * it is: so it is worth what socket() is. */
        SOCKETPAIR(NEED_NOTHING, SOCK_STREAM, 0),
        SOCKETPAIR(NEED_NOTHING, SOCK_STREAM, PF_UNIX),
        SOCKETPAIR(NEED_NOTHING, SOCK_SEQPACKET, 0),
        SOCKETPAIR(NEED_NOTHING, SOCK_SEQPACKET, PF_UNIX),
        SOCKETPAIR(NEED_UNIX, SOCK_DGRAM, 0),
        SOCKETPAIR(NEED_UNIX, SOCK_DGRAM, PF_UNIX),

        /* The query and the plain Linux personality, as LockPersonality= has it, which is not there where refused calls are put
         * on record. */
        { "personality", STRICT, NEED_NOTHING, { INT(0, PER_LINUX) } },
        { "personality", STRICT, NEED_NOTHING, { INT(0, 0xffffffff) } },

        PRCTL(STRICT, PR_SET_PDEATHSIG),
        PRCTL(STRICT, PR_GET_PDEATHSIG),
        PRCTL(STRICT, PR_GET_DUMPABLE),
        PRCTL(STRICT, PR_SET_DUMPABLE),
        PRCTL(STRICT, PR_GET_KEEPCAPS),
        PRCTL(STRICT, PR_SET_KEEPCAPS),
        PRCTL(STRICT, PR_SET_NAME),
        PRCTL(STRICT, PR_GET_NAME),
        PRCTL(STRICT, PR_GET_SECCOMP),
        PRCTL(STRICT, PR_CAPBSET_READ),
        PRCTL(STRICT, PR_CAPBSET_DROP),
        PRCTL(STRICT, PR_GET_SECUREBITS),
        PRCTL(STRICT, PR_SET_SECUREBITS),
        PRCTL(STRICT, PR_GET_TIMERSLACK),
        PRCTL(STRICT, PR_SET_TIMERSLACK),
        PRCTL(STRICT, PR_SET_CHILD_SUBREAPER),
        PRCTL(STRICT, PR_GET_CHILD_SUBREAPER),
        PRCTL(STRICT, PR_SET_NO_NEW_PRIVS),
        PRCTL(STRICT, PR_GET_NO_NEW_PRIVS),
        PRCTL(STRICT, PR_GET_TID_ADDRESS),
        PRCTL(STRICT, PR_SET_THP_DISABLE),
        PRCTL(STRICT, PR_GET_THP_DISABLE),
        PRCTL(STRICT, PR_GET_SPECULATION_CTRL),
        PRCTL(STRICT, PR_SET_SPECULATION_CTRL),
        PRCTL(STRICT, PR_CAP_AMBIENT),
        /* Names for mappings: allocators and V8 give them. */
        { "prctl", STRICT, NEED_NOTHING, { INT(0, PR_SET_VMA), WORD(1, PR_SET_VMA_ANON_NAME) } },
        PRCTL(DEFAULT, PR_GET_TSC),
        PRCTL(DEFAULT, PR_SET_TSC),
        PRCTL(DEFAULT, PR_GET_TIMING),
        PRCTL(DEFAULT, PR_MCE_KILL_GET),
        PRCTL(DEFAULT, PR_SET_PTRACER),
        /* aarch64: vectors, pointer authentication, tagged addresses. */
        PRCTL(DEFAULT, PR_SVE_SET_VL),
        PRCTL(DEFAULT, PR_SVE_GET_VL),
        PRCTL(DEFAULT, PR_SME_SET_VL),
        PRCTL(DEFAULT, PR_SME_GET_VL),
        PRCTL(DEFAULT, PR_PAC_RESET_KEYS),
        PRCTL(DEFAULT, PR_PAC_GET_ENABLED_KEYS),
        PRCTL(DEFAULT, PR_PAC_SET_ENABLED_KEYS),
        PRCTL(DEFAULT, PR_SET_TAGGED_ADDR_CTRL),
        PRCTL(DEFAULT, PR_GET_TAGGED_ADDR_CTRL),

        /* Under strict the requests of terminals, sockets and copying; otherwise all but the refusals below.
         */
        { "ioctl", DEFAULT, NEED_NOTHING },
        IOCTL(TCGETS),
        IOCTL(TCSETS),
        IOCTL(TCSETSW),
        IOCTL(TCSETSF),
        IOCTL(TCFLSH),
        IOCTL(TCSBRK),
        IOCTL(TCXONC),
        IOCTL(TIOCSCTTY),
        IOCTL(TIOCNOTTY),
        IOCTL(TIOCGPGRP),
        IOCTL(TIOCSPGRP),
        IOCTL(TIOCGSID),
        IOCTL(TIOCOUTQ),
        IOCTL(TIOCGWINSZ),
        IOCTL(TIOCSWINSZ),
        IOCTL(FIONREAD),
        IOCTL(FIONBIO),
        IOCTL(FIOASYNC),
        IOCTL(FIOCLEX),
        IOCTL(FIONCLEX),
        IOCTL(FIOQSIZE),
        IOCTL(FICLONE),
};
const size_t filter_n_grants = ELEMENTSOF(filter_grants);

/* clang-format off */
/* CLONE_NEWTIME lies in the byte that clone() takes as the exit signal; no signal has that bit. */
#define NEW_NAMESPACES                                                                                     \
        ((unsigned) CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |          \
         CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWTIME)
#define SET_ID (S_ISUID | S_ISGID)

#define ALWAYS(call, ...) { call, EPERM, NEED_NOTHING, { __VA_ARGS__ } }
#define OPTION(level, name) ALWAYS("setsockopt", INT(1, level), INT(2, name))
#define OPTIONS(level, first, size) ALWAYS("setsockopt", INT(1, level), BITS(2, ~((size) - 1), first))
/* clang-format on */

/* A mode with a set-id bit is refused whether or not the file system would honour it: a file may leave the
 * run. */
const FilterRefusal filter_refusals[] = {
        ALWAYS("clone", ANY(0, NEW_NAMESPACES)),

        /* Families that the policy lacks look absent, so that programs do without them. All others are just
           not granted. */
        { "socket", EAFNOSUPPORT, NEED_UNIX, { INT(0, AF_UNIX) } },
        { "socket", EAFNOSUPPORT, NEED_INET, { INT(0, AF_INET) } },
        { "socket", EAFNOSUPPORT, NEED_INET, { INT(0, AF_INET6) } },
        { "socket", EAFNOSUPPORT, NEED_NETLINK, { INT(0, AF_NETLINK) } },

        /* Kernel TLS and its kin, keys and state of connections. */
        OPTION(IPPROTO_TCP, TCP_ULP),
        OPTION(IPPROTO_TCP, TCP_REPAIR),
        OPTION(IPPROTO_TCP, TCP_MD5SIG),
        OPTION(IPPROTO_TCP, TCP_MD5SIG_EXT),
        OPTION(IPPROTO_TCP, OPT_TCP_AO_FIRST),
        OPTION(IPPROTO_TCP, OPT_TCP_AO_FIRST + 1),
        OPTION(IPPROTO_TCP, OPT_TCP_AO_FIRST + 2),
        OPTION(IPPROTO_TCP, OPT_TCP_AO_FIRST + 3),
        OPTION(IPPROTO_TCP, OPT_TCP_AO_LAST),
        ALWAYS("setsockopt", INT(1, LEVEL_TLS)),
        OPTION(IPPROTO_UDP, UDP_ENCAP),
        /* Another way out than the routes say; programs on packets. */
        OPTION(SOL_SOCKET, SO_MARK),
        OPTION(SOL_SOCKET, SO_BINDTODEVICE),
        OPTION(SOL_SOCKET, OPT_SO_BINDTOIFINDEX),
        OPTION(SOL_SOCKET, SO_ATTACH_FILTER),
        OPTION(SOL_SOCKET, SO_ATTACH_BPF),
        OPTION(SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF),
        OPTION(SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF),
        OPTION(IPPROTO_IP, IP_TRANSPARENT),
        OPTION(IPPROTO_IPV6, OPT_IPV6_TRANSPARENT),
        OPTION(IPPROTO_IP, IP_IPSEC_POLICY),
        OPTION(IPPROTO_IP, IP_XFRM_POLICY),
        OPTION(IPPROTO_IPV6, IPV6_IPSEC_POLICY),
        OPTION(IPPROTO_IPV6, IPV6_XFRM_POLICY),
        /* Source routes and other extension headers. */
        OPTION(IPPROTO_IP, IP_OPTIONS),
        OPTION(IPPROTO_IPV6, IPV6_2292PKTOPTIONS),
        OPTION(IPPROTO_IPV6, IPV6_HOPOPTS),
        OPTION(IPPROTO_IPV6, IPV6_RTHDRDSTOPTS),
        OPTION(IPPROTO_IPV6, IPV6_RTHDR),
        OPTION(IPPROTO_IPV6, IPV6_DSTOPTS),
        /* Tables of packet filters and of virtual servers, multicast routing. Of the IPv6 numbers beyond 64
           only two. */
        OPTIONS(IPPROTO_IP, 64u, 64u),
        OPTIONS(IPPROTO_IP, 128u, 128u),
        OPTIONS(IPPROTO_IP, 1024u, 1024u),
        OPTION(IPPROTO_IPV6, OPT_IP6T_SET_REPLACE),
        OPTION(IPPROTO_IPV6, OPT_IP6T_SET_COUNTERS),
        OPTIONS(IPPROTO_IPV6, 128u, 128u),
        /* Multicast membership. */
        OPTION(IPPROTO_IP, IP_ADD_MEMBERSHIP),
        OPTION(IPPROTO_IP, IP_DROP_MEMBERSHIP),
        OPTION(IPPROTO_IP, IP_UNBLOCK_SOURCE),
        OPTION(IPPROTO_IP, IP_BLOCK_SOURCE),
        OPTION(IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP),
        OPTION(IPPROTO_IP, IP_DROP_SOURCE_MEMBERSHIP),
        OPTION(IPPROTO_IP, OPT_IP_MSFILTER),
        OPTIONS(IPPROTO_IP, OPT_MCAST_FIRST, 2),
        OPTIONS(IPPROTO_IP, OPT_MCAST_FIRST + 2, 4),
        OPTION(IPPROTO_IP, OPT_MCAST_MSFILTER),
        OPTION(IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP),
        OPTION(IPPROTO_IPV6, IPV6_DROP_MEMBERSHIP),
        OPTION(IPPROTO_IPV6, IPV6_JOIN_ANYCAST),
        OPTION(IPPROTO_IPV6, IPV6_LEAVE_ANYCAST),
        OPTIONS(IPPROTO_IPV6, OPT_MCAST_FIRST, 2),
        OPTIONS(IPPROTO_IPV6, OPT_MCAST_FIRST + 2, 4),
        OPTION(IPPROTO_IPV6, OPT_MCAST_MSFILTER),

        /* Out-of-band data on AF_UNIX. The filter does not see the family, so on TCP neither. */
        ALWAYS("sendto", ANY(3, MSG_OOB)),
        ALWAYS("sendmsg", ANY(2, MSG_OOB)),
        ALWAYS("sendmmsg", ANY(3, MSG_OOB)),
        ALWAYS("recvfrom", ANY(3, MSG_OOB)),
        ALWAYS("recvmsg", ANY(2, MSG_OOB)),
        ALWAYS("recvmmsg", ANY(3, MSG_OOB)),

        ALWAYS("futex", BITS(1, ~OP_FUTEX_FLAGS, OP_FUTEX_WAIT_REQUEUE_PI)),
        ALWAYS("futex", BITS(1, ~OP_FUTEX_FLAGS, OP_FUTEX_CMP_REQUEUE_PI)),

        /* Typing into the terminal of somebody else, its console, its line discipline. */
        ALWAYS("ioctl", INT(1, TIOCSTI)),
        ALWAYS("ioctl", INT(1, TIOCLINUX)),
        ALWAYS("ioctl", INT(1, TIOCSETD)),
        ALWAYS("ioctl", INT(1, TIOCCONS)),

        /* A pidfd of any process of the host tells its ids, its cgroup, its parent. As on an older kernel. */
        { "ioctl", ENOTTY, NEED_NOTHING, { BITS(1, IOCTL_TYPE, IOCTL_TYPE_PIDFS) } },

        /* The host's huge pages are set aside for somebody, and no memory limit counts them. */
        { "mmap", ENOMEM, NEED_NOTHING, { ANY(3, MAP_HUGETLB) } },
        { "memfd_create", ENOSYS, NEED_NOTHING, { ANY(1, MEMFD_HUGETLB) } },
        { "shmget", ENOMEM, NEED_NOTHING, { ANY(2, SHMGET_HUGETLB) } },

        /* O_EXCL makes it a notification pipe (watch_queue). */
        ALWAYS("pipe2", ANY(1, O_EXCL)),

        /* As on a kernel that has no filters: programs with a sandbox of their own then run without it. */
        { "prctl", EINVAL, NEED_NOTHING, { INT(0, PR_SET_SECCOMP) } },

        ALWAYS("chmod", ANY(1, SET_ID)),
        ALWAYS("fchmod", ANY(1, SET_ID)),
        ALWAYS("fchmodat", ANY(2, SET_ID)),
        ALWAYS("fchmodat2", ANY(2, SET_ID)),
        ALWAYS("creat", ANY(1, SET_ID)),
        ALWAYS("mkdir", ANY(1, SET_ID)),
        ALWAYS("mkdirat", ANY(2, SET_ID)),
        ALWAYS("mknod", ANY(1, SET_ID)),
        ALWAYS("mknodat", ANY(2, SET_ID)),
        ALWAYS("open", BITS(1, O_CREAT, O_CREAT), ANY(2, SET_ID)),
        ALWAYS("open", BITS(1, OPEN_TMPFILE, OPEN_TMPFILE), ANY(2, SET_ID)),
        ALWAYS("openat", BITS(2, O_CREAT, O_CREAT), ANY(3, SET_ID)),
        ALWAYS("openat", BITS(2, OPEN_TMPFILE, OPEN_TMPFILE), ANY(3, SET_ID)),

        ALWAYS("mknod", BITS(1, S_IFMT, S_IFCHR)),
        ALWAYS("mknod", BITS(1, S_IFMT, S_IFBLK)),
        ALWAYS("mknodat", BITS(2, S_IFMT, S_IFCHR)),
        ALWAYS("mknodat", BITS(2, S_IFMT, S_IFBLK)),
};
const size_t filter_n_refusals = ELEMENTSOF(filter_refusals);
