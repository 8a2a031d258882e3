/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * probe-entry-points: knocks at the doors that recent kernel vulnerabilities, and the attacks on a sandbox,
 * need.
 *
 * Prints a line for each, NAME, a tab, and what came of really trying it in a child of its own:
 *
 *      reachable        the kernel's code behind it ran
 *      refused:ERRNO    somebody said no
 *      absent:ERRNO     this kernel does not have it: says nothing about the sandbox, see the same line of
 * the control killed           the child died of it (SIGSYS)
 *
 * Run once outside as the control and once inside each policy. It exploits nothing, leaves nothing behind,
 * and where it would change a network or a mount it first moves into ones of its own. Static, so that it
 * runs in any root.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/netlink.h>
#include <linux/perf_event.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ELEMENTSOF(x) (sizeof(x) / sizeof((x)[0]))

/* A probe returns 0 where it got through, else a negative errno. */
static int result(long r)
{
        return r < 0 ? -errno : 0;
}

/* Got through as well where the kernel's own code complained of the arguments. */
static int result_or(long r, int complaint)
{
        return r < 0 && errno != complaint ? -errno : 0;
}

/* Into namespaces of one's own: by privilege, else by a user namespace. Where neither works everything stays
 * as it is, and whatever comes next meets the caller's own lack of privilege. */
static int own_namespaces(int flags)
{
        if (unshare(flags) >= 0)
                return 0;
        return result(unshare(CLONE_NEWUSER | flags));
}

static int own_user_namespace(void)
{
        return result(unshare(CLONE_NEWUSER));
}

static int inet_stream(void)
{
        return socket(AF_INET, SOCK_STREAM, 0);
}

static int try_option(int fd, int level, int option, const void *value, socklen_t size, int complaint)
{
        if (fd < 0)
                return -errno;
        return result_or(setsockopt(fd, level, option, value, size), complaint);
}

static int xt_compat(void)
{
        char none[4] = { 0 };

        own_namespaces(CLONE_NEWNET);
        return try_option(
                        inet_stream(), IPPROTO_IP, 64 /* IPT_SO_SET_REPLACE */, none, sizeof(none), EINVAL);
}

static int traffic_control(void)
{
        struct {
                struct nlmsghdr header;
                struct tcmsg tc;
                struct rtattr kind;
                char name[8];
        } m = {
                .header = { sizeof(m), RTM_NEWQDISC, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE, 1, 0 },
                .tc = { .tcm_family = AF_UNSPEC, .tcm_ifindex = 1, .tcm_parent = TC_H_ROOT },
                .kind = { sizeof(struct rtattr) + sizeof("pfifo"), TCA_KIND },
                .name = "pfifo",
        };
        struct {
                struct nlmsghdr header;
                struct nlmsgerr error;
                char rest[512];
        } answer;
        int fd;

        if (own_namespaces(CLONE_NEWNET) < 0 && geteuid() == 0)
                return -ENOTRECOVERABLE;
        fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
        if (fd < 0 || send(fd, &m, sizeof(m), 0) < 0 || recv(fd, &answer, sizeof(answer), 0) < 0)
                return -errno;
        /* Other complaints than that of lacking privilege come from within. */
        return answer.error.error == -EPERM || answer.error.error == -EACCES ? answer.error.error : 0;
}

static int call_fsopen(void)
{
        return result(syscall(SYS_fsopen, "tmpfs", 0));
}

static int mount_in_namespace(void)
{
        int r = own_namespaces(CLONE_NEWNS);

        if (r < 0)
                return r;
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return -errno;
        return result(mount("none", "/tmp", "tmpfs", 0, NULL));
}

static int call_bpf(void)
{
        union bpf_attr a = {
                .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1
        };

        return result(syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof(a)));
}

static int call_perf(void)
{
        struct perf_event_attr a = { .type = PERF_TYPE_SOFTWARE,
                .size = sizeof(a),
                .config = PERF_COUNT_SW_CPU_CLOCK,
                .exclude_kernel = 1,
                .exclude_hv = 1 };

        return result(syscall(SYS_perf_event_open, &a, 0, -1, -1, 0));
}

static int look_into_others(void)
{
        int fd = (int) syscall(SYS_pidfd_open, getpid(), 0);

        if (fd >= 0 && syscall(SYS_pidfd_getfd, fd, 1, 0) >= 0)
                return 0;
        return result(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

static int call_io_uring(void)
{
        struct io_uring_params p = { 0 };

        return result(syscall(SYS_io_uring_setup, 1, &p));
}

static int kernel_tls(void)
{
        return try_option(inet_stream(), IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls"), ENOTCONN);
}

static int splice_pipe(void)
{
        int p[2], fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

        if (fd < 0 || pipe(p) < 0)
                return -errno;
        return result(splice(fd, NULL, p[1], NULL, 4096, 0));
}

static int splice_udp(void)
{
        struct sockaddr_in6 a = {
                .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT, .sin6_port = htons(9)
        };
        int p[2], fd = socket(AF_INET6, SOCK_DGRAM, 0);

        if (fd < 0 || pipe(p) < 0 || write(p[1], "x", 1) != 1)
                return -errno;
        if (connect(fd, (struct sockaddr *) &a, sizeof(a)) < 0 && errno != EADDRNOTAVAIL &&
                        errno != ENETUNREACH)
                return -errno;
        return result_or(splice(p[0], NULL, fd, NULL, 1, 0), EDESTADDRREQ);
}

static int unix_pair(int fds[2])
{
        return result(socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
}

static int out_of_band(void)
{
        int fds[2], r = unix_pair(fds);

        return r < 0 ? r : result(send(fds[0], "x", 1, MSG_OOB));
}

static int requeue_pi(void)
{
        uint32_t a = 1, b = 0;

        return result_or(syscall(SYS_futex, &a, FUTEX_CMP_REQUEUE_PI, 1, 0, &b, 0), EAGAIN);
}

static int pass_descriptor(void)
{
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = { .header = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
        struct iovec iov = { (void *) "x", 1 };
        struct msghdr m = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        int fds[2], r = unix_pair(fds);

        if (r < 0)
                return r;
        memcpy(CMSG_DATA(&control.header), &fds[0], sizeof(int));
        return result(sendmsg(fds[1], &m, 0));
}

static int cpu_timer(void)
{
        struct sigevent e = { .sigev_notify = SIGEV_NONE };
        timer_t t;

        return result(timer_create(CLOCK_PROCESS_CPUTIME_ID, &e, &t));
}

static int join_group(void)
{
        struct ip_mreq m = { .imr_multiaddr.s_addr = htonl(0xe00000fb),
                .imr_interface.s_addr = htonl(INADDR_LOOPBACK) };

        return try_option(socket(AF_INET, SOCK_DGRAM, 0), IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof(m),
                        ENODEV);
}

static int notification_pipe(void)
{
        int p[2];

        return result(pipe2(p, O_EXCL));
}

static int clone_on_xfs(void)
{
        char from[] = "probe-XXXXXX", to[] = "probe-XXXXXX";
        int a = mkstemp(from), b = mkstemp(to), r;
        struct statfs fs;

        if (a < 0 || b < 0)
                return -errno;
        unlink(from);
        unlink(to);
        if (fstatfs(a, &fs) < 0)
                return -errno;
        fcntl(a, F_SETFL, O_DIRECT);
        r = result(ioctl(b, FICLONE, a));
        return fs.f_type == 0x58465342 /* XFS */ ? r : -EOPNOTSUPP;
}

static int grow_down(void)
{
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_STACK;

        return mmap(NULL, 65536, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED ? -errno : 0;
}

/* One whose bit has force here: found, on a mount that honours it, and without no_new_privs. */
static int setuid_program(void)
{
        static const char *const dirs[] = { "/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin",
                "/usr/lib/openssh" };
        bool found = false;

        for (size_t i = 0; i < ELEMENTSOF(dirs); i++) {
                DIR *d = opendir(dirs[i]);
                struct statvfs fs;
                struct dirent *e;
                struct stat st;

                if (!d || fstatvfs(dirfd(d), &fs) < 0)
                        continue;
                while ((e = readdir(d))) {
                        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
                                        !S_ISREG(st.st_mode) || !(st.st_mode & S_ISUID))
                                continue;
                        found = true;
                        if (!(fs.f_flag & ST_NOSUID) && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0)
                                return 0;
                }
                closedir(d);
        }
        return found ? -EPERM : -ENOENT;
}

static int call_keyctl(void)
{
        return result(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_THREAD_KEYRING, 1));
}

static int call_userfaultfd(void)
{
        return result(syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */));
}

static int read_other_memory(void)
{
        char a = 'x', b = 0;
        struct iovec local = { &b, 1 }, remote = { &a, 1 };

        return result(syscall(SYS_process_vm_readv, getpid(), &local, 1, &remote, 1, 0));
}

static int clone3_user_namespace(void)
{
        uint64_t args[11] = { CLONE_NEWUSER, 0, 0, 0, SIGCHLD };
        long pid = syscall(SYS_clone3, args, sizeof(args));

        if (pid == 0)
                _exit(0);
        return result(pid);
}

static int file_handle(void)
{
        struct {
                struct file_handle h;
                char space[128];
        } handle = { .h.handle_bytes = 128 };
        int id;

        return result(name_to_handle_at(AT_FDCWD, "/", &handle.h, &id, 0));
}

/* On a terminal of one's own, where one is to be had; a pipe's "not a terminal" has been through just the
 * same. */
static int terminal_ioctl(unsigned long request)
{
        int leader, fd, p[2];
        char text[2] = "\n";

        setsid();
        leader = open("/dev/ptmx", O_RDWR | O_NOCTTY);
        fd = leader >= 0 && unlockpt(leader) >= 0 ? open(ptsname(leader), O_RDWR) : -1;
        if (fd < 0 && pipe(p) >= 0)
                fd = p[0];
        /* EIO: the kernel's own switch for TIOCSTI. EINVAL: TIOCLINUX on what is no console. */
        if (syscall(SYS_ioctl, fd, request, text) >= 0 || errno == ENOTTY || errno == EINVAL || errno == EIO)
                return 0;
        return -errno;
}

static int type_into_terminal(void)
{
        return terminal_ioctl(TIOCSTI);
}

static int type_high_half(void)
{
        return terminal_ioctl(TIOCSTI | 0xdeadbeef00000000);
}

static int paste_into_console(void)
{
        return terminal_ioctl(TIOCLINUX);
}

static int line_discipline(void)
{
        return terminal_ioctl(TIOCSETD);
}

static int socket_mark(void)
{
        int mark = 1;

        own_namespaces(CLONE_NEWNET);
        return try_option(inet_stream(), SOL_SOCKET, SO_MARK, &mark, sizeof(mark), 0);
}

static int transparent(void)
{
        int on = 1;

        own_namespaces(CLONE_NEWNET);
        return try_option(inet_stream(), IPPROTO_IP, IP_TRANSPARENT, &on, sizeof(on), 0);
}

static int loose_source_route(void)
{
        /* LSRR, one hop, 192.0.2.1 */
        static const unsigned char route[] = { 131, 7, 4, 192, 0, 2, 1, 0 };

        return try_option(inet_stream(), IPPROTO_IP, IP_OPTIONS, route, sizeof(route), 0);
}

static int call_personality(void)
{
        return result(syscall(SYS_personality, 0x0400000 /* READ_IMPLIES_EXEC */));
}

#ifdef __x86_64__
static int call_x32(void)
{
        return result(syscall(0x40000000 | SYS_getpid));
}

static int call_i386(void)
{
        long r = 20; /* getpid */

        __asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
        return 0;
}

static int i386_socketcall(void)
{
        static uint32_t args[3] = { AF_VSOCK, SOCK_STREAM, 0 };
        long r = 102;

        __asm__ volatile("int $0x80" : "+a"(r) : "b"(1), "c"(args) : "memory", "r8", "r9", "r10", "r11");
        return 0;
}
#endif

/* Either a function, or a socket to open. */
static const struct probe {
        const char *name;
        int (*function)(void);
        int family, type, protocol;
} probes[] = {
        /* The entry points of vulnerabilities. */
        { "netlink-netfilter", NULL, AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER },
        { "xt-compat", xt_compat },
        { "traffic-control", traffic_control },
        { "netlink-xfrm", NULL, AF_NETLINK, SOCK_RAW, NETLINK_XFRM },
        { "af-packet", NULL, AF_PACKET, SOCK_RAW, 0 },
        { "af-vsock", NULL, AF_VSOCK, SOCK_STREAM, 0 },
        { "af-alg", NULL, AF_ALG, SOCK_SEQPACKET, 0 },
        { "af-can", NULL, AF_CAN, SOCK_RAW, 1 },
        { "af-rds", NULL, AF_RDS, SOCK_SEQPACKET, 0 },
        { "af-rxrpc", NULL, AF_RXRPC, SOCK_DGRAM, AF_INET },
        { "fsopen", call_fsopen },
        { "mount-in-namespace", mount_in_namespace },
        { "bpf", call_bpf },
        { "perf-event-open", call_perf },
        { "pidfd-getfd-ptrace", look_into_others },
        { "io-uring", call_io_uring },
        { "tcp-ulp-tls", kernel_tls },
        { "sctp", NULL, AF_INET, SOCK_STREAM, IPPROTO_SCTP },
        { "splice-pipe", splice_pipe },
        { "splice-udp6", splice_udp },
        { "unix-msg-oob", out_of_band },
        { "futex-requeue-pi", requeue_pi },
        { "unix-scm-rights", pass_descriptor },
        { "posix-cpu-timer", cpu_timer },
        { "igmp-membership", join_group },
        { "watch-queue", notification_pipe },
        { "ficlone-xfs", clone_on_xfs },
        { "mmap-growsdown", grow_down },
        { "setuid-program", setuid_program },
        /* Attacks on the sandbox itself. */
        { "user-namespace", own_user_namespace },
        { "clone3-user-namespace", clone3_user_namespace },
        { "keyctl", call_keyctl },
        { "userfaultfd", call_userfaultfd },
        { "process-vm-readv", read_other_memory },
        { "name-to-handle-at", file_handle },
        { "personality-read-implies-exec", call_personality },
        { "tty-tiocsti", type_into_terminal },
        { "tty-tiocsti-high-half", type_high_half },
        { "tty-tioclinux", paste_into_console },
        { "tty-tiocsetd", line_discipline },
        /* Ways out of the network. */
        { "inet-raw", NULL, AF_INET, SOCK_RAW, IPPROTO_ICMP },
        { "inet6-raw", NULL, AF_INET6, SOCK_RAW, IPPROTO_ICMPV6 },
        { "af-key", NULL, AF_KEY, SOCK_RAW, 2 },
        { "af-tipc", NULL, AF_TIPC, SOCK_RDM, 0 },
        { "af-smc", NULL, AF_SMC, SOCK_STREAM, 0 },
        { "af-xdp", NULL, AF_XDP, SOCK_RAW, 0 },
        { "af-bluetooth", NULL, AF_BLUETOOTH, SOCK_RAW, 1 },
        { "dccp", NULL, AF_INET, SOCK_DCCP, IPPROTO_DCCP },
        { "l2tp", NULL, AF_INET, SOCK_DGRAM, 115 },
        { "udplite", NULL, AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE },
        { "so-mark", socket_mark },
        { "ip-transparent", transparent },
        { "loose-source-route", loose_source_route },
#ifdef __x86_64__
        /* Other numbers for the same calls. */
        { "abi-x32", call_x32 },
        { "abi-i386", call_i386 },
        { "abi-i386-socketcall-vsock", i386_socketcall },
#endif
};

static int run(const struct probe *p)
{
        if (p->function)
                return p->function();
        return result(socket(p->family, p->type, p->protocol));
}

static bool means_absent(int error)
{
        static const int absent[] = { EAFNOSUPPORT, EPROTONOSUPPORT, ESOCKTNOSUPPORT, ENOPROTOOPT,
                EOPNOTSUPP, ENOENT, ENOPKG, ENODEV };

        for (size_t i = 0; i < ELEMENTSOF(absent); i++)
                if (absent[i] == error)
                        return true;
        return false;
}

static void report(const char *name, int status)
{
        int error = WIFEXITED(status) ? WEXITSTATUS(status) : 0;

        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
                printf("%s\tkilled\n", name);
        else if (WIFSIGNALED(status))
                /* No such gate in this kernel: int 0x80 without 32-bit calls. */
                printf("%s\tabsent:SIG%s\n", name, sigabbrev_np(WTERMSIG(status)));
        else if (error == 0)
                printf("%s\treachable\n", name);
        else
                printf("%s\t%s:%s\n", name, means_absent(error) ? "absent" : "refused",
                                strerrorname_np(error));
}

int main(void)
{
        const struct rlimit no_core = { 0, 0 };

        setrlimit(RLIMIT_CORE, &no_core);
        setvbuf(stdout, NULL, _IOLBF, 0);
        for (size_t i = 0; i < ELEMENTSOF(probes); i++) {
                pid_t pid = fork();
                int status;

                if (pid < 0)
                        return 1;
                if (pid == 0) {
                        alarm(10);
                        _exit(-run(&probes[i]) & 0xff);
                }
                if (waitpid(pid, &status, 0) != pid)
                        return 1;
                report(probes[i].name, status);
        }
        return 0;
}
