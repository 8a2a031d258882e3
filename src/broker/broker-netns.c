/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/child.h"
#include "base/detached-mount.h"
#include "base/io.h"
#include "broker/broker-netns.h"
#include "broker/route-netlink.h"
#include "wire/egress.h"

/* A namespace is entered by a child that does nothing else: the broker never leaves its own. The child sends
 * the descriptors, or what failed. */

/* Of TEST-NET-1 and a ULA, which belong to nobody. */
static const struct {
        int family;
        const char *address;
        unsigned char length;
} addresses[] = {
        { AF_INET, EGRESS_SANDBOX_IPV4, 32 },
        { AF_INET6, EGRESS_SANDBOX_IPV6, 128 },
};

static int link_up(int fd, unsigned lo)
{
        RouteRequest q = route_request(RTM_NEWLINK, 0, sizeof(struct ifinfomsg));

        q.body.link = (struct ifinfomsg){ .ifi_index = (int) lo, .ifi_flags = IFF_UP, .ifi_change = IFF_UP };
        return route_change(fd, &q);
}

static int address_add(
                int fd, unsigned lo, int family, unsigned char length, const void *address, size_t size)
{
        RouteRequest q = route_request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, sizeof(struct ifaddrmsg));

        q.body.address = (struct ifaddrmsg){
                .ifa_family = (unsigned char) family,
                .ifa_prefixlen = length,
                .ifa_flags = family == AF_INET6 ? IFA_F_NODAD : 0, /* usable at once */
                .ifa_scope = RT_SCOPE_UNIVERSE,
                .ifa_index = lo,
        };
        route_attribute(&q, IFA_LOCAL, address, size);
        route_attribute(&q, IFA_ADDRESS, address, size);
        return route_change(fd, &q);
}

/* Everything is here: a route of type local without a destination. */
static int route_add(int fd, unsigned lo, int family, const void *source, size_t size)
{
        RouteRequest q = route_request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, sizeof(struct rtmsg));
        uint32_t index = lo;

        q.body.route = (struct rtmsg){
                .rtm_family = (unsigned char) family,
                .rtm_table = RT_TABLE_LOCAL,
                .rtm_protocol = RTPROT_STATIC,
                .rtm_scope = family == AF_INET ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE,
                .rtm_type = RTN_LOCAL,
        };
        route_attribute(&q, RTA_OIF, &index, sizeof(index));
        route_attribute(&q, RTA_PREFSRC, source, size);
        return route_change(fd, &q);
}

/* A proc file system of its own, mounted nowhere: the one at /proc may be read-only
 * (ProtectKernelTunables=), and in this one sys/net is this namespace's as well. */
static int detached_proc(void)
{
        return detached_mount("proc", NULL, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

static int set_sysctl(int proc, const char *name, const char *value, Error **reterr)
{
        _cleanup_close_ int fd = openat(proc, name, O_WRONLY | O_CLOEXEC);
        int r = fd < 0 ? -errno : write_full(fd, value, strlen(value));

        return r < 0 ? error_set(reterr, r, "%s: %s", name, strerror(-r)) : 0;
}

/* A pinged outside must look unreachable, not alive. */
static int ignore_ping(int proc, bool ipv6, Error **reterr)
{
        int r = set_sysctl(proc, "sys/net/ipv4/icmp_echo_ignore_all", "1", reterr);

        return r < 0 || !ipv6 ? r : set_sysctl(proc, "sys/net/ipv6/icmp/echo_ignore_all", "1", reterr);
}

/* Between a run and its warden nothing is lost and nothing is far: what paces (bbr, where it is the host's
 * default, which a new namespace has as well) costs them twice the processor time for each byte, in timers.
 * Reno is in every kernel. Where it cannot be set, it is only slower. */
static void set_plain_congestion_control(int proc)
{
        (void) set_sysctl(proc, "sys/net/ipv4/tcp_congestion_control", "reno", NULL);
}

/* Work may bind any port; the broker lacks the capability for that, and whoever comes later gets what is
 * usual. */
static int work_with_low_ports(NetnsWork *work, int proc, int netns_fd, bool ipv6,
                int fds[static NETNS_FDS_MAX], Error **reterr)
{
        static const char name[] = "sys/net/ipv4/ip_unprivileged_port_start";
        int r = set_sysctl(proc, name, "0", reterr);

        if (r >= 0)
                r = work(netns_fd, ipv6, fds, reterr);
        return r < 0 ? r : set_sysctl(proc, name, "1024", reterr);
}

/* Whether the kernel says that it has no IPv6 (none at all, or switched off). */
static bool lacks_ipv6(int family, int error)
{
        return family == AF_INET6 && (error == -EAFNOSUPPORT || error == -EOPNOTSUPP || error == -EACCES);
}

static int netns_fill(bool *ret_ipv6, Error **reterr)
{
        _cleanup_close_ int fd = route_netlink_open();
        unsigned lo = if_nametoindex("lo");
        bool ipv6 = false;
        int r;

        if (fd < 0)
                return error_set(reterr, fd, "netlink socket: %s", strerror(-fd));
        if (lo == 0)
                return error_set(reterr, -ENODEV, "no lo");
        r = link_up(fd, lo);
        if (r < 0)
                return error_set(reterr, r, "lo up: %s", strerror(-r));
        for (size_t i = 0; i < ELEMENTSOF(addresses); i++) {
                unsigned char binary[sizeof(struct in6_addr)];
                size_t size = addresses[i].family == AF_INET ? sizeof(struct in_addr)
                                                             : sizeof(struct in6_addr);

                if (inet_pton(addresses[i].family, addresses[i].address, binary) != 1)
                        return error_set(reterr, -EINVAL, "address");
                r = address_add(fd, lo, addresses[i].family, addresses[i].length, binary, size);
                if (lacks_ipv6(addresses[i].family, r))
                        continue;
                if (r < 0)
                        return error_set(reterr, r, "%s: %s", addresses[i].address, strerror(-r));
                r = route_add(fd, lo, addresses[i].family, binary, size);
                if (r < 0)
                        return error_set(reterr, r, "local default route: %s", strerror(-r));
                ipv6 = addresses[i].family == AF_INET6;
        }
        *ret_ipv6 = ipv6;
        return 0;
}

/* ---- the child and its report */

#define REPORT_FDS (NETNS_FDS_MAX + 1) /* the namespace comes first */

/* Descriptors that are -1 do not travel. */
typedef struct NetnsReport {
        int error;     /* negative errno, 0: fine */
        uint32_t sent; /* bit i: descriptor i is in the message */
        char text[200];
} NetnsReport;

typedef union ReportControl {
        struct cmsghdr header;
        char space[CMSG_SPACE(REPORT_FDS * sizeof(int))];
} ReportControl;

static int report_send(int fd, NetnsReport *report, const int fds[static REPORT_FDS])
{
        ReportControl control = {};
        struct iovec iov = { .iov_base = report, .iov_len = sizeof(*report) };
        struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
        size_t n = 0;

        for (size_t i = 0; report->error == 0 && i < REPORT_FDS; i++)
                if (fds[i] >= 0) {
                        memcpy(CMSG_DATA(&control.header) + n++ * sizeof(int), fds + i, sizeof(int));
                        report->sent |= 1u << i;
                }
        if (n > 0) {
                control.header.cmsg_len = CMSG_LEN(n * sizeof(int));
                control.header.cmsg_level = SOL_SOCKET;
                control.header.cmsg_type = SCM_RIGHTS;
                m.msg_control = &control;
                m.msg_controllen = CMSG_SPACE(n * sizeof(int));
        }
        return sendmsg(fd, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int report_receive(int fd, NetnsReport *report, int ret_fds[static REPORT_FDS])
{
        ReportControl control = {};
        struct iovec iov = { .iov_base = report, .iov_len = sizeof(*report) };
        struct msghdr m = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        size_t n_fds = 0, k = 0;
        struct cmsghdr *c;
        ssize_t n;

        do
                n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        c = CMSG_FIRSTHDR(&m);
        if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
                n_fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < REPORT_FDS; i++) {
                ret_fds[i] = -1;
                if (n == sizeof(*report) && (report->sent & 1u << i) && k < n_fds)
                        memcpy(ret_fds + i, CMSG_DATA(c) + k++ * sizeof(int), sizeof(int));
        }
        for (; k < n_fds; k++) {
                int stray;

                memcpy(&stray, CMSG_DATA(c) + k * sizeof(int), sizeof(int));
                close(stray);
        }
        if (n != sizeof(*report))
                return -EPIPE; /* the child died */
        return m.msg_flags & MSG_CTRUNC ? -EMFILE : 0;
}

static int netns_enter_and_work(NetnsWork *work, int fds[static REPORT_FDS], Error **reterr)
{
        _cleanup_close_ int proc = -1;
        bool ipv6 = false;
        int r;

        if (unshare(CLONE_NEWNET) < 0)
                return error_set(reterr, -errno, "unshare: %s", strerror(errno));
        r = netns_fill(&ipv6, reterr);
        if (r < 0)
                return r;
        proc = detached_proc();
        if (proc < 0)
                return error_set(reterr, proc, "a proc file system: %s", strerror(-proc));
        r = ignore_ping(proc, ipv6, reterr);
        if (r < 0)
                return r;
        set_plain_congestion_control(proc);
        fds[0] = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
        if (fds[0] < 0)
                return error_set(reterr, -errno, "/proc/thread-self/ns/net: %s", strerror(errno));
        return work ? work_with_low_ports(work, proc, fds[0], ipv6, fds + 1, reterr) : 0;
}

_noreturn_ static void netns_child(int fd, NetnsWork *work)
{
        NetnsReport report = {};
        int fds[REPORT_FDS];
        Error *e = NULL;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (size_t i = 0; i < REPORT_FDS; i++)
                fds[i] = -1;
        report.error = netns_enter_and_work(work, fds, &e);
        if (report.error < 0)
                snprintf(report.text, sizeof(report.text), "%s", error_message(e, report.error));
        _exit(report_send(fd, &report, fds) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

static void reap(pid_t pid)
{
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
}

static int run_child(NetnsWork *work, int fds[static REPORT_FDS], Error **reterr)
{
        _cleanup_close_ int ours = -1, theirs = -1;
        NetnsReport report = {};
        int pair[2], r;
        pid_t pid;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set(reterr, -errno, "network namespace: %s", strerror(errno));
        ours = pair[0];
        theirs = pair[1];
        pid = fork();
        if (pid < 0)
                return error_set(reterr, -errno, "network namespace: fork: %s", strerror(errno));
        if (pid == 0)
                netns_child(theirs, work);
        close(TAKE_FD(theirs));
        r = report_receive(ours, &report, fds);
        reap(pid);
        if (r < 0)
                return error_set(reterr, r, "network namespace: %s", strerror(-r));
        report.text[sizeof(report.text) - 1] = 0;
        return report.error < 0 ? error_set(reterr, report.error, "network namespace: %s", report.text) : 0;
}

static int check_is_another(int ns, uint64_t *ret_inode, Error **reterr)
{
        struct stat st, own;

        if (ns < 0 || fstat(ns, &st) < 0 || stat("/proc/thread-self/ns/net", &own) < 0)
                return error_set(reterr, -EBADMSG, "network namespace: no descriptor");
        if (st.st_ino == own.st_ino)
                return error_set(reterr, -EBADMSG, "network namespace: it is the broker's own");
        *ret_inode = st.st_ino;
        return 0;
}

int netns_create_with(NetnsWork *work, int *ret_fd, uint64_t *ret_inode, int ret_fds[static NETNS_FDS_MAX],
                Error **reterr)
{
        int fds[REPORT_FDS], r;

        for (size_t i = 0; i < REPORT_FDS; i++)
                fds[i] = -1;
        r = run_child(work, fds, reterr);
        if (r >= 0)
                r = check_is_another(fds[0], ret_inode, reterr);
        if (r < 0) {
                for (size_t i = 0; i < REPORT_FDS; i++)
                        closep(fds + i);
                return r;
        }
        *ret_fd = fds[0];
        memcpy(ret_fds, fds + 1, NETNS_FDS_MAX * sizeof(int));
        return 0;
}

int netns_create(int *ret_fd, uint64_t *ret_inode, Error **reterr)
{
        int none[NETNS_FDS_MAX];

        return netns_create_with(NULL, ret_fd, ret_inode, none, reterr);
}

typedef struct Hostname {
        int uts_fd;
        const char *name;
} Hostname;

static int set_hostname(const void *argument)
{
        const Hostname *h = argument;

        return setns(h->uts_fd, CLONE_NEWUTS) < 0 || sethostname(h->name, strlen(h->name)) < 0 ? -errno : 0;
}

int uts_set_hostname(pid_t pid, const char *name, Error **reterr)
{
        static const char what[] = "host name of the run";
        _cleanup_close_ int fd = -1;
        struct stat own, run;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%i/ns/uts", (int) pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &run) < 0 || stat("/proc/self/ns/uts", &own) < 0)
                return error_set(reterr, -errno, "%s: %m", what);
        if (own.st_ino == run.st_ino)
                return error_set(reterr, -EPERM, "%s: it shares the host's", what);
        return child_work(set_hostname, &(Hostname){ .uts_fd = fd, .name = name }, -1, what, reterr);
}
