/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <linux/netlink.h>
#include <linux/prctl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "rows.h"

#define YES(call, ...)                           \
        {                                        \
                ALL, call, 0, { __VA_ARGS__ }, 0 \
        }
#define NO(call, ...)                                \
        {                                            \
                ALL, call, EPERM, { __VA_ARGS__ }, 0 \
        }
#define ABSENT(call)                        \
        {                                   \
                ALL, call, ENOSYS, { 0 }, 0 \
        }
#define GONE(call)                         \
        {                                  \
                ALL, call, EPERM, { 0 }, 0 \
        }
#define TRIED(call)                              \
        {                                        \
                ALL, call, EPERM, { 0 }, 0, true \
        }
#define ABSENT_WITH(call, ...)                        \
        {                                             \
                ALL, call, ENOSYS, { __VA_ARGS__ }, 0 \
        }
#define PLAIN(call)                    \
        {                              \
                ALL, call, 0, { 0 }, 0 \
        }
#define LAXER(call, error)                    \
        { LAX, call, 0, { 0 }, 0 },           \
        {                                     \
                STRICT, call, error, { 0 }, 0 \
        }

#define NO_OP(call, ...)                                     \
        {                                                    \
                ALL, call, VERDICT_NO_OP, { __VA_ARGS__ }, 0 \
        }
#define SELF ROW_UID
#define OTHER ROW_OTHER_UID
#define SAME ROW_NO_UID

/* clang-format off */
/* A uid that is refused beside any that are not. */
#define NO_REUID(u)                                                                                        \
        NO("setreuid", u, SELF), NO("setreuid", u, SAME), NO("setreuid", SELF, u), NO("setreuid", SAME, u),  \
        NO("setreuid", u, u)
#define NO_RESUID(u)                                                                                       \
        NO("setresuid", u, SELF, SELF), NO("setresuid", u, SELF, SAME), NO("setresuid", u, SAME, SELF),      \
        NO("setresuid", u, SAME, SAME), NO("setresuid", SELF, u, SELF), NO("setresuid", SELF, u, SAME),      \
        NO("setresuid", SAME, u, SELF), NO("setresuid", SAME, u, SAME), NO("setresuid", SELF, SELF, u),      \
        NO("setresuid", SELF, SAME, u), NO("setresuid", SAME, SELF, u), NO("setresuid", SAME, SAME, u),      \
        NO("setresuid", u, u, u)

const FilterRow filter_rows[] = {
        /* Entry points of vulnerabilities, as whole calls. */
        GONE("io_uring_setup"), GONE("io_uring_enter"), GONE("io_uring_register"), GONE("keyctl"),
        GONE("add_key"), GONE("request_key"), GONE("userfaultfd"), GONE("process_vm_readv"),
        GONE("process_vm_writev"), GONE("kcmp"), GONE("ptrace"), GONE("bpf"), GONE("perf_event_open"),
        GONE("pidfd_getfd"), GONE("fsopen"), GONE("fsconfig"), GONE("fsmount"), GONE("fspick"),
        GONE("move_mount"), GONE("open_tree"), GONE("mount_setattr"), GONE("mount"), GONE("umount2"),
        GONE("pivot_root"), GONE("chroot"), GONE("setns"), GONE("unshare"), GONE("init_module"),
        GONE("finit_module"), GONE("delete_module"), GONE("kexec_load"), GONE("kexec_file_load"),
        GONE("reboot"), GONE("swapon"), GONE("swapoff"), GONE("settimeofday"), GONE("clock_settime"),
        GONE("clock_adjtime"), GONE("adjtimex"), GONE("name_to_handle_at"), GONE("open_by_handle_at"),
        GONE("fanotify_init"), GONE("fanotify_mark"), GONE("quotactl"), GONE("quotactl_fd"), GONE("acct"),
        GONE("syslog"), GONE("iopl"), GONE("ioperm"), GONE("sethostname"), GONE("setdomainname"),
        GONE("vhangup"), GONE("modify_ldt"), ABSENT("clone3"), ABSENT("openat2"), ABSENT("splice"),
        ABSENT("vmsplice"), ABSENT("tee"), ABSENT("sendfile"), ABSENT("seccomp"),
        ABSENT("landlock_create_ruleset"), ABSENT("landlock_add_rule"), ABSENT("landlock_restrict_self"),
        ABSENT("futex_wait"), ABSENT("futex_wake"), ABSENT("futex_requeue"), ABSENT("memfd_secret"),
        ABSENT("cachestat"), ABSENT("process_madvise"), ABSENT("process_mrelease"), ABSENT("lookup_dcookie"),
        ABSENT("uselib"), ABSENT("ustat"), ABSENT("sysfs"), ABSENT("remap_file_pages"), ABSENT("_sysctl"),
        ABSENT("nfsservctl"), ABSENT("vserver"), ABSENT("get_mempolicy"), ABSENT("mbind"),
        ABSENT("migrate_pages"), ABSENT("move_pages"), ABSENT("set_mempolicy"),
        ABSENT("set_mempolicy_home_node"),

        /* What all of the host shares, whatever the namespace. */
        ABSENT("inotify_init1"), ABSENT("inotify_add_watch"), ABSENT("io_setup"), ABSENT("io_submit"),
        ABSENT("mq_open"), ABSENT("mq_unlink"), NO_OP("sync", 0), NO_OP("syncfs", 0),
        { LAX, "ioctl", ENOTTY, { 0, 0xc040ff0b /* PIDFD_GET_INFO */ }, 0 },
        { LAX, "ioctl", ENOTTY, { 0, 0xff01 }, 0 }, YES("mmap", 0, 4096, 3, 0x22),
        { ALL, "mmap", ENOMEM, { 0, 4096, 3, 0x40022 }, 0 }, { LAX, "shmget", ENOMEM, { 0, 4096, 04600 }, 0 },

        /* What an unprivileged run has no use for. */
        GONE("setgroups"), GONE("setfsuid"), NO_OP("capset", 0), TRIED("chown"), TRIED("fchown"),
        TRIED("fchownat"), TRIED("lchown"), TRIED("ioprio_set"), TRIED("sched_setaffinity"),
        TRIED("sched_setattr"), TRIED("sched_setparam"), TRIED("sched_setscheduler"), TRIED("setpriority"),
        TRIED("setrlimit"),

        /* What ordinary programs live on. */
        PLAIN("read"), PLAIN("write"), PLAIN("close"), PLAIN("mmap"), PLAIN("mprotect"), PLAIN("munmap"),
        PLAIN("brk"), PLAIN("mremap"), PLAIN("madvise"), PLAIN("execve"), PLAIN("exit"), PLAIN("exit_group"),
        PLAIN("wait4"), PLAIN("fork"), PLAIN("vfork"), PLAIN("rt_sigaction"), PLAIN("rt_sigreturn"),
        PLAIN("rt_sigprocmask"), PLAIN("sigaltstack"), PLAIN("kill"), PLAIN("tgkill"), PLAIN("stat"),
        PLAIN("newfstatat"), PLAIN("statx"), PLAIN("getdents64"), PLAIN("rename"), PLAIN("renameat2"),
        PLAIN("unlinkat"), PLAIN("symlinkat"), PLAIN("linkat"), PLAIN("getcwd"), PLAIN("chdir"),
        PLAIN("fchdir"), PLAIN("utimensat"), PLAIN("fcntl"), PLAIN("flock"), PLAIN("dup3"),
        PLAIN("pipe"), PLAIN("poll"), PLAIN("epoll_wait"), PLAIN("epoll_create1"), PLAIN("eventfd2"),
        PLAIN("timerfd_create"), PLAIN("timer_create"), PLAIN("clock_gettime"), PLAIN("clock_nanosleep"),
        PLAIN("nanosleep"), PLAIN("bind"), PLAIN("listen"), PLAIN("accept4"), PLAIN("connect"),
        PLAIN("getsockopt"), PLAIN("shutdown"), PLAIN("capget"), PLAIN("prlimit64"), PLAIN("setresgid"),
        PLAIN("sched_getaffinity"), PLAIN("sched_yield"), PLAIN("set_robust_list"), PLAIN("rseq"),
        PLAIN("getrandom"), PLAIN("membarrier"), PLAIN("arch_prctl"), PLAIN("set_tid_address"),
        PLAIN("restart_syscall"), PLAIN("pidfd_open"), PLAIN("copy_file_range"), PLAIN("fallocate"),
        PLAIN("close_range"), PLAIN("faccessat2"), PLAIN("uname"), PLAIN("getxattr"), PLAIN("mseal"),
        PLAIN("preadv2"), PLAIN("getpriority"), PLAIN("sysinfo"),
        LAXER("shmget", ENOSYS), LAXER("semget", ENOSYS), LAXER("msgget", ENOSYS),
        LAXER("pkey_alloc", ENOSYS), LAXER("map_shadow_stack", ENOSYS),
        LAXER("execveat", ENOSYS),

        /* Uids: the run's own and "leave it" are answered. */
        NO_OP("setuid", SELF), NO("setuid", 0), NO("setuid", OTHER), NO("setuid", SAME),
        NO_OP("setreuid", SELF, SELF), NO_OP("setreuid", SELF, SAME), NO_OP("setreuid", SAME, SELF),
        NO_OP("setreuid", SAME, SAME), NO_REUID(0), NO_REUID(OTHER), NO("setreuid", 0, OTHER),
        NO_OP("setresuid", SELF, SELF, SELF), NO_OP("setresuid", SELF, SELF, SAME),
        NO_OP("setresuid", SELF, SAME, SELF), NO_OP("setresuid", SELF, SAME, SAME),
        NO_OP("setresuid", SAME, SELF, SELF), NO_OP("setresuid", SAME, SELF, SAME),
        NO_OP("setresuid", SAME, SAME, SELF), NO_OP("setresuid", SAME, SAME, SAME), NO_RESUID(0),
        NO_RESUID(OTHER),

        /* Namespaces by clone(), each flag alone and among others; what threads, forks and vforks pass. */
        YES("clone", SIGCHLD), YES("clone", CLONE_VM | CLONE_VFORK | SIGCHLD), YES("clone", 0x3d0f00),
        YES("clone", CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD),
        YES("clone", CLONE_PIDFD | SIGCHLD), NO("clone", CLONE_NEWNS), NO("clone", CLONE_NEWCGROUP),
        NO("clone", CLONE_NEWUTS), NO("clone", CLONE_NEWIPC), NO("clone", CLONE_NEWUSER),
        NO("clone", CLONE_NEWPID), NO("clone", CLONE_NEWNET), NO("clone", CLONE_NEWTIME),
        NO("clone", CLONE_NEWUSER | SIGCHLD), NO("clone", CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS),
        NO("clone", 0xffffffff),

        /* Families. */
        YES("socket", AF_UNIX, SOCK_STREAM), YES("socket", AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC),
        YES("socket", AF_UNIX, SOCK_SEQPACKET, 1), YES("socket", AF_INET, SOCK_STREAM),
        YES("socket", AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP),
        YES("socket", AF_INET, SOCK_STREAM, IPPROTO_MPTCP), YES("socket", AF_INET, SOCK_DGRAM, IPPROTO_UDP),
        YES("socket", AF_INET, SOCK_DGRAM), YES("socket", AF_INET, SOCK_DGRAM, IPPROTO_ICMP),
        YES("socket", AF_INET6, SOCK_STREAM), YES("socket", AF_INET6, SOCK_STREAM, IPPROTO_TCP),
        YES("socket", AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK),
        YES("socket", AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6),
        YES("socket", AF_INET6, SOCK_STREAM, IPPROTO_MPTCP), YES("socket", AF_INET6, SOCK_DGRAM, IPPROTO_UDP),
        YES("socket", AF_UNIX, SOCK_STREAM, PF_UNIX), YES("socket", AF_UNIX, SOCK_DGRAM, PF_UNIX),
        YES("socket", AF_UNIX, SOCK_SEQPACKET), YES("socketpair", AF_UNIX, SOCK_DGRAM, PF_UNIX),
        NO("socket", AF_INET, SOCK_RAW, IPPROTO_RAW), NO("socket", AF_INET, SOCK_RAW, IPPROTO_ICMP),
        NO("socket", AF_INET, SOCK_RAW), NO("socket", AF_INET6, SOCK_RAW, IPPROTO_ICMPV6),
        NO("socket", AF_INET, SOCK_PACKET, 0x0300), NO("socket", AF_INET, SOCK_SEQPACKET),
        NO("socket", AF_INET, SOCK_RDM), NO("socket", AF_INET, SOCK_DCCP, IPPROTO_DCCP),
        NO("socket", AF_INET, SOCK_STREAM, IPPROTO_SCTP), NO("socket", AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP),
        NO("socket", AF_INET6, SOCK_SEQPACKET, IPPROTO_SCTP),
        NO("socket", AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE),
        NO("socket", AF_INET6, SOCK_DGRAM, IPPROTO_UDPLITE),
        NO("socket", AF_INET, SOCK_DGRAM, 115 /* L2TP */), NO("socket", AF_INET6, SOCK_DGRAM, 115),
        NO("socket", AF_INET, SOCK_STREAM, 256 /* SMC */), NO("socket", AF_INET, SOCK_DGRAM, IPPROTO_ICMPV6),
        NO("socket", AF_INET6, SOCK_DGRAM, IPPROTO_ICMP), NO("socket", AF_INET, SOCK_DGRAM, IPPROTO_TCP),
        NO("socket", AF_INET, SOCK_STREAM, IPPROTO_UDP), NO("socket", AF_INET, SOCK_STREAM, 5),
        NO("socket", AF_INET, SOCK_STREAM, 7), NO("socket", AF_INET, SOCK_STREAM, 261),
        NO("socket", AF_INET, SOCK_STREAM, 263), NO("socket", AF_INET, SOCK_DGRAM, 16),
        NO("socket", AF_INET, SOCK_DGRAM, 18), NO("socket", AF_INET, SOCK_STREAM | 0x10),
        NO("socket", AF_INET, 0), NO("socket", AF_UNSPEC, SOCK_STREAM), NO("socket", AF_UNIX, SOCK_STREAM, 2),
        NO("socket", AF_UNIX, SOCK_RAW), NO("socket", 3), NO("socket", 4), NO("socket", 5), NO("socket", 6),
        NO("socket", 7), NO("socket", 8), NO("socket", 9), NO("socket", 11), NO("socket", 12),
        NO("socket", 13), NO("socket", 14), NO("socket", 15, SOCK_RAW, 2 /* KEY */),
        NO("socket", AF_PACKET, SOCK_RAW), NO("socket", AF_PACKET, SOCK_DGRAM), NO("socket", 18),
        NO("socket", 19), NO("socket", 20), NO("socket", AF_RDS, SOCK_SEQPACKET), NO("socket", 22),
        NO("socket", 23), NO("socket", 24), NO("socket", 25), NO("socket", 26), NO("socket", AF_IB),
        NO("socket", AF_MPLS), NO("socket", AF_CAN, SOCK_RAW, 1), NO("socket", AF_TIPC, SOCK_RDM),
        NO("socket", AF_BLUETOOTH, SOCK_RAW, 1), NO("socket", AF_IUCV),
        NO("socket", AF_RXRPC, SOCK_DGRAM, AF_INET), NO("socket", AF_ISDN), NO("socket", AF_PHONET),
        NO("socket", AF_IEEE802154), NO("socket", AF_CAIF), NO("socket", AF_ALG, SOCK_SEQPACKET),
        NO("socket", AF_NFC), NO("socket", AF_VSOCK, SOCK_STREAM), NO("socket", AF_KCM),
        NO("socket", AF_QIPCRTR), NO("socket", AF_SMC, SOCK_STREAM), NO("socket", AF_XDP, SOCK_RAW),
        NO("socket", 45), NO("socket", 46), NO("socket", 0xffffffff, SOCK_STREAM),
        NO("socket", 0x80000002, SOCK_STREAM), NO("socket", 0x10002, SOCK_STREAM),
        { LAX, "socket", 0, { AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE }, 0 },
        { LAX, "socket", 0, { AF_NETLINK, SOCK_DGRAM, NETLINK_ROUTE }, 0 },
        { STRICT, "socket", EAFNOSUPPORT, { AF_NETLINK, SOCK_RAW, NETLINK_ROUTE }, 0 },
        { LAX, "socket", EPERM, { AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER }, 0 },
        { LAX, "socket", EPERM, { AF_NETLINK, SOCK_RAW, NETLINK_XFRM }, 0 },
        { LAX, "socket", EPERM, { AF_NETLINK, SOCK_RAW, NETLINK_AUDIT }, 0 },
        { LAX, "socket", EPERM, { AF_NETLINK, SOCK_DGRAM, NETLINK_GENERIC }, 0 },
        { LAX, "socket", EPERM, { AF_NETLINK, SOCK_DGRAM, NETLINK_KOBJECT_UEVENT }, 0 },
        { LAX, "socket", EPERM, { AF_NETLINK, SOCK_RAW, NETLINK_CRYPTO }, 0 },
        { LAX, "socket", EPERM, { AF_NETLINK, SOCK_DGRAM, NETLINK_SOCK_DIAG }, 0 },
        { LAX, "socket", EPERM, { AF_NETLINK, SOCK_STREAM, NETLINK_ROUTE }, 0 },
        { ALL, "socket", EAFNOSUPPORT, { AF_UNIX, SOCK_STREAM }, NO_UNIX },
        { ALL, "socket", 0, { AF_INET, SOCK_STREAM }, NO_UNIX },
        { ALL, "socketpair", 0, { AF_UNIX, SOCK_STREAM }, NO_UNIX },
        { ALL, "socketpair", 0, { AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, PF_UNIX }, NO_UNIX },
        { ALL, "socketpair", 0, { AF_UNIX, SOCK_SEQPACKET, PF_UNIX }, NO_UNIX },
        { ALL, "socketpair", EPERM, { AF_UNIX, SOCK_DGRAM }, NO_UNIX },
        { ALL, "socketpair", EPERM, { AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, PF_UNIX }, NO_UNIX },
        { ALL, "socketpair", EPERM, { AF_UNIX, SOCK_RAW }, NO_UNIX },
        YES("socketpair", AF_UNIX, SOCK_DGRAM), YES("socketpair", AF_UNIX, SOCK_STREAM, PF_UNIX),
        YES("socketpair", AF_UNIX, SOCK_SEQPACKET, PF_UNIX), NO("socketpair", AF_UNIX, SOCK_RAW),
        { ALL, "socket", EAFNOSUPPORT, { AF_INET, SOCK_STREAM }, NO_INET },
        { ALL, "socket", EAFNOSUPPORT, { AF_INET6, SOCK_DGRAM }, NO_INET },
        { ALL, "socket", EAFNOSUPPORT, { AF_INET, SOCK_RAW }, NO_INET },
        { ALL, "socket", 0, { AF_UNIX, SOCK_STREAM }, NO_INET },
        { ALL, "socket", EPERM, { AF_PACKET, SOCK_RAW }, NO_INET | NO_UNIX },
        YES("socketpair", AF_UNIX, SOCK_STREAM), YES("socketpair", AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC),
        NO("socketpair", AF_INET, SOCK_STREAM), NO("socketpair", AF_TIPC, SOCK_STREAM),
        NO("socketpair", AF_VSOCK, SOCK_STREAM), NO("socketpair", AF_UNIX, SOCK_STREAM, 2),

        /* Options. */
        YES("setsockopt", 0, SOL_SOCKET, SO_REUSEADDR), YES("setsockopt", 0, SOL_SOCKET, SO_REUSEPORT),
        YES("setsockopt", 0, SOL_SOCKET, SO_KEEPALIVE), YES("setsockopt", 0, SOL_SOCKET, SO_RCVBUF),
        YES("setsockopt", 0, SOL_SOCKET, SO_RCVTIMEO), YES("setsockopt", 0, IPPROTO_TCP, TCP_NODELAY),
        YES("setsockopt", 0, IPPROTO_TCP, TCP_KEEPIDLE), YES("setsockopt", 0, IPPROTO_TCP, TCP_CORK),
        YES("setsockopt", 0, IPPROTO_TCP, TCP_FASTOPEN_CONNECT),
        YES("setsockopt", 0, IPPROTO_TCP, TCP_USER_TIMEOUT),
        YES("setsockopt", 0, IPPROTO_TCP, TCP_CONGESTION), YES("setsockopt", 0, IPPROTO_IP, IP_TOS),
        YES("setsockopt", 0, IPPROTO_IP, IP_RECVERR), YES("setsockopt", 0, IPPROTO_IP, IP_MULTICAST_LOOP),
        YES("setsockopt", 0, IPPROTO_IP, IP_MULTICAST_TTL), YES("setsockopt", 0, IPPROTO_IP, IP_MTU_DISCOVER),
        YES("setsockopt", 0, IPPROTO_IP, 49), YES("setsockopt", 0, IPPROTO_IP, 63),
        YES("setsockopt", 0, IPPROTO_IPV6, IPV6_V6ONLY), YES("setsockopt", 0, IPPROTO_IPV6, IPV6_RECVERR),
        YES("setsockopt", 0, IPPROTO_IPV6, IPV6_TCLASS), YES("setsockopt", 0, IPPROTO_IPV6, IPV6_RECVTCLASS),
        YES("setsockopt", 0, IPPROTO_IPV6, IPV6_UNICAST_HOPS), YES("setsockopt", 0, IPPROTO_IPV6, 127),
        YES("setsockopt", 0, IPPROTO_UDP, 103), YES("setsockopt", 0, IPPROTO_TCP, 30),
        YES("setsockopt", 0, IPPROTO_UDP, TCP_ULP), NO("setsockopt", 0, IPPROTO_TCP, TCP_ULP),
        NO("setsockopt", 0, IPPROTO_TCP, TCP_REPAIR), NO("setsockopt", 0, IPPROTO_TCP, TCP_MD5SIG),
        NO("setsockopt", 0, IPPROTO_TCP, TCP_MD5SIG_EXT), NO("setsockopt", 0, IPPROTO_TCP, 38),
        NO("setsockopt", 0, IPPROTO_TCP, 39), NO("setsockopt", 0, IPPROTO_TCP, 40),
        NO("setsockopt", 0, IPPROTO_TCP, 41), NO("setsockopt", 0, IPPROTO_TCP, 42),
        NO("setsockopt", 0, 282, 1), NO("setsockopt", 0, 282, 2), NO("setsockopt", 0, IPPROTO_UDP, 100),
        NO("setsockopt", 0, SOL_SOCKET, SO_MARK), NO("setsockopt", 0, SOL_SOCKET, SO_BINDTODEVICE),
        NO("setsockopt", 0, SOL_SOCKET, SO_BINDTOIFINDEX), NO("setsockopt", 0, SOL_SOCKET, SO_ATTACH_FILTER),
        NO("setsockopt", 0, SOL_SOCKET, SO_ATTACH_BPF),
        NO("setsockopt", 0, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF),
        NO("setsockopt", 0, SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF),
        NO("setsockopt", 0, IPPROTO_IP, IP_TRANSPARENT), NO("setsockopt", 0, IPPROTO_IPV6, 75),
        NO("setsockopt", 0, IPPROTO_IP, IP_OPTIONS), NO("setsockopt", 0, IPPROTO_IP, IP_IPSEC_POLICY),
        NO("setsockopt", 0, IPPROTO_IPV6, IPV6_IPSEC_POLICY),
        NO("setsockopt", 0, IPPROTO_IPV6, IPV6_LEAVE_ANYCAST),
        NO("setsockopt", 0, IPPROTO_IP, IP_XFRM_POLICY), NO("setsockopt", 0, IPPROTO_IPV6, IPV6_XFRM_POLICY),
        NO("setsockopt", 0, IPPROTO_IPV6, IPV6_RTHDR), NO("setsockopt", 0, IPPROTO_IPV6, IPV6_HOPOPTS),
        NO("setsockopt", 0, IPPROTO_IPV6, IPV6_DSTOPTS), NO("setsockopt", 0, IPPROTO_IPV6, IPV6_RTHDRDSTOPTS),
        NO("setsockopt", 0, IPPROTO_IPV6, 6), NO("setsockopt", 0, IPPROTO_IP, 64),
        NO("setsockopt", 0, IPPROTO_IP, 65), NO("setsockopt", 0, IPPROTO_IP, 96),
        NO("setsockopt", 0, IPPROTO_IP, 127), NO("setsockopt", 0, IPPROTO_IP, 128),
        NO("setsockopt", 0, IPPROTO_IP, 200), NO("setsockopt", 0, IPPROTO_IP, 255),
        NO("setsockopt", 0, IPPROTO_IP, 1152), NO("setsockopt", 0, IPPROTO_IPV6, 64),
        NO("setsockopt", 0, IPPROTO_IPV6, 65), NO("setsockopt", 0, IPPROTO_IPV6, 200),
        NO("setsockopt", 0, IPPROTO_IP, IP_ADD_MEMBERSHIP),
        NO("setsockopt", 0, IPPROTO_IP, IP_DROP_MEMBERSHIP),
        NO("setsockopt", 0, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP),
        NO("setsockopt", 0, IPPROTO_IP, IP_DROP_SOURCE_MEMBERSHIP),
        NO("setsockopt", 0, IPPROTO_IP, IP_BLOCK_SOURCE), NO("setsockopt", 0, IPPROTO_IP, IP_UNBLOCK_SOURCE),
        NO("setsockopt", 0, IPPROTO_IP, IP_MSFILTER), NO("setsockopt", 0, IPPROTO_IP, MCAST_JOIN_GROUP),
        NO("setsockopt", 0, IPPROTO_IP, MCAST_BLOCK_SOURCE),
        NO("setsockopt", 0, IPPROTO_IP, MCAST_UNBLOCK_SOURCE),
        NO("setsockopt", 0, IPPROTO_IP, MCAST_LEAVE_GROUP),
        NO("setsockopt", 0, IPPROTO_IP, MCAST_JOIN_SOURCE_GROUP),
        NO("setsockopt", 0, IPPROTO_IP, MCAST_LEAVE_SOURCE_GROUP),
        NO("setsockopt", 0, IPPROTO_IP, MCAST_MSFILTER), NO("setsockopt", 0, IPPROTO_IPV6, IPV6_JOIN_GROUP),
        NO("setsockopt", 0, IPPROTO_IPV6, IPV6_LEAVE_GROUP),
        NO("setsockopt", 0, IPPROTO_IPV6, IPV6_JOIN_ANYCAST),
        NO("setsockopt", 0, IPPROTO_IPV6, MCAST_JOIN_GROUP),
        NO("setsockopt", 0, IPPROTO_IPV6, MCAST_JOIN_SOURCE_GROUP),
        NO("setsockopt", 0, IPPROTO_IPV6, MCAST_MSFILTER),

        /* Out-of-band data. */
        YES("sendto", 0, 0, 0, MSG_NOSIGNAL | MSG_DONTWAIT), YES("sendmsg", 0, 0, MSG_NOSIGNAL),
        YES("sendmmsg", 0, 0, 0, MSG_MORE), YES("recvfrom", 0, 0, 0, MSG_PEEK | MSG_TRUNC),
        YES("recvmsg", 0, 0, MSG_CMSG_CLOEXEC), YES("recvmmsg", 0, 0, 0, MSG_WAITFORONE),
        YES("sendto", 0, 0, 0, MSG_FASTOPEN), NO("sendto", 0, 0, 0, MSG_OOB),
        NO("sendto", 0, 0, 0, MSG_OOB | MSG_NOSIGNAL), NO("sendmsg", 0, 0, MSG_OOB),
        NO("sendmmsg", 0, 0, 0, MSG_OOB | MSG_DONTWAIT), NO("recvfrom", 0, 0, 0, MSG_OOB),
        NO("recvmsg", 0, 0, MSG_OOB | MSG_PEEK), NO("recvmmsg", 0, 0, 0, MSG_OOB),

        /* Futexes: everything but requeue-PI. */
        YES("futex", 0, FUTEX_WAIT), YES("futex", 0, FUTEX_WAKE_PRIVATE),
        YES("futex", 0, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME), YES("futex", 0, FUTEX_LOCK_PI_PRIVATE),
        YES("futex", 0, FUTEX_UNLOCK_PI), YES("futex", 0, FUTEX_CMP_REQUEUE_PRIVATE),
        YES("futex", 0, FUTEX_LOCK_PI2), NO("futex", 0, FUTEX_WAIT_REQUEUE_PI),
        NO("futex", 0, FUTEX_CMP_REQUEUE_PI), NO("futex", 0, FUTEX_WAIT_REQUEUE_PI_PRIVATE),
        NO("futex", 0, FUTEX_CMP_REQUEUE_PI_PRIVATE),
        NO("futex", 0, FUTEX_WAIT_REQUEUE_PI | FUTEX_CLOCK_REALTIME),
        NO("futex", 0, FUTEX_WAIT_REQUEUE_PI_PRIVATE | FUTEX_CLOCK_REALTIME),
        NO("futex", 0, FUTEX_CMP_REQUEUE_PI | FUTEX_CLOCK_REALTIME),

        /* Terminals. */
        YES("ioctl", 0, TCGETS), YES("ioctl", 0, TIOCGWINSZ), YES("ioctl", 0, TIOCSWINSZ),
        YES("ioctl", 0, TIOCSCTTY), YES("ioctl", 0, FIONREAD), YES("ioctl", 0, FIONBIO),
        YES("ioctl", 0, FIOCLEX), YES("ioctl", 0, FICLONE), YES("ioctl", 0, TCSETS), YES("ioctl", 0, TCSETSW),
        YES("ioctl", 0, TCSETSF), YES("ioctl", 0, TCFLSH), YES("ioctl", 0, TCSBRK), YES("ioctl", 0, TCXONC),
        YES("ioctl", 0, TIOCNOTTY), YES("ioctl", 0, TIOCGPGRP), YES("ioctl", 0, TIOCSPGRP),
        YES("ioctl", 0, TIOCGSID), YES("ioctl", 0, TIOCOUTQ), YES("ioctl", 0, FIOASYNC),
        YES("ioctl", 0, FIONCLEX), YES("ioctl", 0, FIOQSIZE), { LAX, "ioctl", 0, { 0, FS_IOC_GETFLAGS }, 0 },
        { STRICT, "ioctl", EPERM, { 0, FS_IOC_SETFLAGS }, 0 }, { STRICT, "ioctl", EPERM, { 0, TIOCGPTN }, 0 },
        { LAX, "ioctl", 0, { 0, TIOCGPTN }, 0 }, NO("ioctl", 0, TIOCSTI), NO("ioctl", 0, TIOCLINUX),
        NO("ioctl", 0, TIOCSETD), NO("ioctl", 0, TIOCCONS),

        YES("pipe2", 0, O_CLOEXEC), YES("pipe2", 0, O_CLOEXEC | O_NONBLOCK | O_DIRECT),
        NO("pipe2", 0, O_EXCL), NO("pipe2", 0, O_EXCL | O_CLOEXEC),

        /* The process itself. */
        YES("prctl", PR_SET_NAME), YES("prctl", PR_SET_PDEATHSIG), YES("prctl", PR_SET_NO_NEW_PRIVS),
        YES("prctl", PR_SET_DUMPABLE), YES("prctl", PR_CAPBSET_READ), YES("prctl", PR_SET_CHILD_SUBREAPER),
        YES("prctl", PR_SET_VMA, PR_SET_VMA_ANON_NAME), YES("prctl", PR_SET_TIMERSLACK),
        YES("prctl", PR_GET_PDEATHSIG), YES("prctl", PR_GET_DUMPABLE), YES("prctl", PR_GET_KEEPCAPS),
        YES("prctl", PR_SET_KEEPCAPS), YES("prctl", PR_GET_NAME), YES("prctl", PR_GET_SECCOMP),
        YES("prctl", PR_CAPBSET_DROP), YES("prctl", PR_GET_SECUREBITS), YES("prctl", PR_SET_SECUREBITS),
        YES("prctl", PR_GET_TIMERSLACK), YES("prctl", PR_GET_CHILD_SUBREAPER),
        YES("prctl", PR_GET_NO_NEW_PRIVS), YES("prctl", PR_GET_TID_ADDRESS), YES("prctl", PR_SET_THP_DISABLE),
        YES("prctl", PR_GET_THP_DISABLE), YES("prctl", PR_GET_SPECULATION_CTRL),
        YES("prctl", PR_SET_SPECULATION_CTRL), YES("prctl", PR_CAP_AMBIENT),
        { LAX, "prctl", 0, { PR_GET_TSC }, 0 }, { LAX, "prctl", 0, { PR_SET_TSC }, 0 },
        { LAX, "prctl", 0, { PR_GET_TIMING }, 0 }, { LAX, "prctl", 0, { PR_MCE_KILL_GET }, 0 },
        { LAX, "prctl", 0, { PR_SET_PTRACER }, 0 }, { LAX, "prctl", 0, { PR_SVE_SET_VL }, 0 },
        { LAX, "prctl", 0, { PR_SVE_GET_VL }, 0 }, { LAX, "prctl", 0, { PR_SME_SET_VL }, 0 },
        { LAX, "prctl", 0, { PR_SME_GET_VL }, 0 }, { LAX, "prctl", 0, { PR_PAC_RESET_KEYS }, 0 },
        { LAX, "prctl", 0, { PR_PAC_GET_ENABLED_KEYS }, 0 },
        { LAX, "prctl", 0, { PR_PAC_SET_ENABLED_KEYS }, 0 },
        { LAX, "prctl", 0, { PR_SET_TAGGED_ADDR_CTRL }, 0 },
        { LAX, "prctl", 0, { PR_GET_TAGGED_ADDR_CTRL }, 0 },
        { STRICT, "prctl", EPERM, { PR_SET_PTRACER }, 0 }, NO("prctl", PR_SET_MM), NO("prctl", PR_SET_VMA, 1),
        NO("prctl", PR_SET_VMA, UINT64_C(1) << 32), NO("prctl", 67 /* PR_SET_MEMORY_MERGE */),
        NO("prctl", PR_SCHED_CORE), NO("prctl", PR_SET_SYSCALL_USER_DISPATCH), NO("prctl", PR_MCE_KILL),
        NO("prctl", PR_SET_IO_FLUSHER), NO("prctl", 0xffffffff), NO("prctl", PR_SET_UNALIGN),
        { ALL, "prctl", EINVAL, { PR_SET_SECCOMP, 2 }, 0 }, YES("personality", 0),
        YES("personality", 0xffffffff), NO("personality", 0x0040000 /* ADDR_NO_RANDOMIZE */),
        NO("personality", 0x0400000 /* READ_IMPLIES_EXEC */), NO("personality", 8),
        NO("personality", 0x0100000 /* MMAP_PAGE_ZERO */), NO("personality", 0x0440000), NO("personality", 1),
        { LAX, "memfd_create", 0, { 0, 0 }, 0 }, { LAX, "memfd_create", 0, { 0, 0x10 }, 0 },
        { LAX, "memfd_create", 0, { 0, 0x9 }, 0 }, ABSENT_WITH("memfd_create", 0, 0x4),
        ABSENT_WITH("memfd_create", 0, 0x5), { STRICT, "memfd_create", ENOSYS, { 0, 0 }, 0 },
        { STRICT, "memfd_create", ENOSYS, { 0, 0x8 }, 0 },

        /* The limit for core dumps stays; reading it, and others, is as it is. */
        NO_OP("prlimit64", 0, RLIMIT_CORE, 4096), NO_OP("prlimit64", 1, RLIMIT_CORE, UINT64_C(1) << 46, 4096),
        YES("prlimit64", 0, RLIMIT_CORE, 0, 4096), YES("prlimit64", 0, RLIMIT_NOFILE, 4096),
        NO_OP("setrlimit", RLIMIT_CORE, 4096),
        /* So do those of the init. */
        NO_OP("prlimit64", 1, RLIMIT_CPU, 4096), NO_OP("prlimit64", 1, RLIMIT_NOFILE, UINT64_C(1) << 46), YES("prlimit64", 1, RLIMIT_CPU, 0, 4096),
        YES("prlimit64", 2, RLIMIT_CPU, 4096), YES("prlimit64", 0x10001, RLIMIT_CPU, 4096),

        /* Set-id bits and device nodes. */
        YES("chmod", 0, 0777), YES("fchmod", 0, 01755), YES("fchmodat", 0, 0, 0644),
        YES("fchmodat2", 0, 0, 0644), YES("mkdir", 0, 0777), YES("mkdirat", 0, 0, 01777),
        YES("creat", 0, 0644), YES("open", 0, O_RDONLY), YES("open", 0, O_CREAT | O_WRONLY, 0666),
        YES("open", 0, O_RDONLY, 04755), YES("openat", 0, 0, O_CREAT, 0755),
        YES("openat", 0, 0, O_RDWR, 06777), YES("openat", 0, 0, O_TMPFILE | O_RDWR, 0600),
        YES("openat", 0, 0, O_DIRECTORY, 04755), NO("chmod", 0, 04755), NO("chmod", 0, 02755),
        NO("chmod", 0, 06000), NO("fchmod", 0, 04000), NO("fchmod", 0, 02000), NO("fchmodat", 0, 0, 04711),
        NO("fchmodat", 0, 0, 02000), NO("fchmodat2", 0, 0, 04000), NO("fchmodat2", 0, 0, 02755),
        NO("mkdir", 0, 02755), NO("mkdirat", 0, 0, 02755), NO("mkdirat", 0, 0, 04755), NO("creat", 0, 04755),
        NO("creat", 0, 02755), NO("open", 0, O_CREAT, 04755),
        NO("open", 0, O_CREAT | O_EXCL | O_WRONLY, 02755), NO("open", 0, O_TMPFILE | O_RDWR, 04700),
        NO("openat", 0, 0, O_CREAT, 04755), NO("openat", 0, 0, O_CREAT | O_RDWR, 02600),
        NO("openat", 0, 0, O_TMPFILE | O_RDWR, 02600),
        YES("mknod", 0, S_IFIFO | 0600), YES("mknodat", 0, 0, S_IFSOCK | 0600),
        YES("mknodat", 0, 0, S_IFREG | 0600), YES("mknod", 0, 0600), NO("mknod", 0, S_IFCHR | 0600),
        NO("mknod", 0, S_IFBLK | 0600), NO("mknodat", 0, 0, S_IFCHR | 0600),
        NO("mknodat", 0, 0, S_IFBLK | 0600), NO("mknodat", 0, 0, S_IFREG | 04755),
        NO("mknod", 0, S_IFIFO | 02600),
};
/* clang-format on */
const size_t filter_n_rows = sizeof(filter_rows) / sizeof(filter_rows[0]);

int filter_row_verdict(const FilterRow *row, bool kill)
{
        return kill && row->verdict == EPERM && !row->harmless ? VERDICT_KILL : row->verdict;
}

unsigned filter_row_int_args(const char *call)
{
        static const struct {
                const char *call;
                unsigned args;
        } ints[] = {
                { "clone", 1 << 0 },
                { "setuid", 1 << 0 },
                { "setreuid", 1 << 0 | 1 << 1 },
                { "setresuid", 1 << 0 | 1 << 1 | 1 << 2 },
                { "socket", 1 << 0 | 1 << 1 | 1 << 2 },
                { "socketpair", 1 << 0 | 1 << 1 | 1 << 2 },
                { "setsockopt", 1 << 1 | 1 << 2 },
                { "sendto", 1 << 3 },
                { "sendmsg", 1 << 2 },
                { "sendmmsg", 1 << 3 },
                { "recvfrom", 1 << 3 },
                { "recvmsg", 1 << 2 },
                { "recvmmsg", 1 << 3 },
                { "futex", 1 << 1 },
                { "ioctl", 1 << 1 },
                { "pipe2", 1 << 1 },
                { "prctl", 1 << 0 },
                { "personality", 1 << 0 },
                { "memfd_create", 1 << 1 },
                { "chmod", 1 << 1 },
                { "fchmod", 1 << 1 },
                { "fchmodat", 1 << 2 },
                { "fchmodat2", 1 << 2 },
                { "mkdir", 1 << 1 },
                { "mkdirat", 1 << 2 },
                { "creat", 1 << 1 },
                { "open", 1 << 1 | 1 << 2 },
                { "openat", 1 << 2 | 1 << 3 },
                { "mmap", 1 << 3 },
                { "shmget", 1 << 2 },
                { "prlimit64", 1 << 0 | 1 << 1 },
                { "setrlimit", 1 << 0 },
                { "mknod", 1 << 1 },
                { "mknodat", 1 << 2 },
        };

        for (size_t i = 0; i < sizeof(ints) / sizeof(ints[0]); i++)
                if (strcmp(ints[i].call, call) == 0)
                        return ints[i].args;
        return 0;
}
