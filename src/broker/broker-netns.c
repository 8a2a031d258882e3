/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/io.h"
#include "broker/broker-netns.h"

/* A namespace is entered by a child that does nothing else: the broker never leaves its own. The child sends
 * the descriptor, or the stage and errno of what failed. */

typedef struct NetnsReport {
        int error; /* positive errno, 0: fine */
        char stage[60];
} NetnsReport;

/* The sandbox's own addresses: TEST-NET-1 and a ULA, which belong to nobody. */
static const struct {
        int family;
        const char *address;
        unsigned char length;
} addresses[] = {
        { AF_INET, "192.0.2.2", 32 },
        { AF_INET6, "fd00:ab::2", 128 },
};

typedef struct NetlinkRequest {
        struct nlmsghdr header;
        union {
                struct ifinfomsg link;
                struct ifaddrmsg address;
                struct rtmsg route;
                char space[64];
        } body;
        char attributes[128];
} NetlinkRequest;

static NetlinkRequest request_new(uint16_t type, uint16_t flags, size_t body_size)
{
        return (NetlinkRequest){
                .header = {
                        .nlmsg_len = (uint32_t) NLMSG_LENGTH(body_size),
                        .nlmsg_type = type,
                        .nlmsg_flags = (uint16_t) (NLM_F_REQUEST | NLM_F_ACK | flags),
                        .nlmsg_seq = 1,
                },
        };
}

static void request_attribute(NetlinkRequest *q, uint16_t type, const void *p, size_t n)
{
        struct rtattr *a = (struct rtattr *) (void *) ((char *) q + NLMSG_ALIGN(q->header.nlmsg_len));

        a->rta_type = type;
        a->rta_len = (uint16_t) RTA_LENGTH(n);
        memcpy(RTA_DATA(a), p, n);
        q->header.nlmsg_len = (uint32_t) (NLMSG_ALIGN(q->header.nlmsg_len) + RTA_ALIGN(a->rta_len));
}

/* Sends one request and reads its acknowledgement. */
static int request_send(int fd, const NetlinkRequest *q)
{
        struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
        struct {
                struct nlmsghdr header;
                struct nlmsgerr error;
                char space[512];
        } answer;
        ssize_t n;

        if (sendto(fd, q, q->header.nlmsg_len, 0, (struct sockaddr *) &kernel, sizeof(kernel)) < 0)
                return -errno;
        n = recv(fd, &answer, sizeof(answer), 0);
        if (n < 0)
                return -errno;
        if ((size_t) n < NLMSG_LENGTH(sizeof(struct nlmsgerr)) || answer.header.nlmsg_type != NLMSG_ERROR)
                return -EBADMSG;
        return answer.error.error; /* 0 or negative errno */
}

static int link_up(int fd, unsigned lo)
{
        NetlinkRequest q = request_new(RTM_NEWLINK, 0, sizeof(struct ifinfomsg));

        q.body.link = (struct ifinfomsg){ .ifi_index = (int) lo, .ifi_flags = IFF_UP, .ifi_change = IFF_UP };
        return request_send(fd, &q);
}

static int address_add(
                int fd, unsigned lo, int family, unsigned char length, const void *address, size_t size)
{
        NetlinkRequest q = request_new(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, sizeof(struct ifaddrmsg));

        q.body.address = (struct ifaddrmsg){
                .ifa_family = (unsigned char) family,
                .ifa_prefixlen = length,
                .ifa_flags = family == AF_INET6 ? IFA_F_NODAD : 0, /* usable at once */
                .ifa_scope = RT_SCOPE_UNIVERSE,
                .ifa_index = lo,
        };
        request_attribute(&q, IFA_LOCAL, address, size);
        request_attribute(&q, IFA_ADDRESS, address, size);
        return request_send(fd, &q);
}

/* Everything is here: a route of type local without a destination. */
static int route_add(int fd, unsigned lo, int family, const void *source, size_t size)
{
        NetlinkRequest q = request_new(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, sizeof(struct rtmsg));
        uint32_t index = lo;

        q.body.route = (struct rtmsg){
                .rtm_family = (unsigned char) family,
                .rtm_table = RT_TABLE_LOCAL,
                .rtm_protocol = RTPROT_STATIC,
                .rtm_scope = family == AF_INET ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE,
                .rtm_type = RTN_LOCAL,
        };
        request_attribute(&q, RTA_OIF, &index, sizeof(index));
        request_attribute(&q, RTA_PREFSRC, source, size);
        return request_send(fd, &q);
}

/* A pinged outside must look unreachable, not alive. Where /proc/sys cannot be written (a hardened unit, a
 * container) the answer still comes from this namespace itself and proves nothing to anybody: so that is no
 * failure. */
static void ignore_ping(void)
{
        static const char *const settings[] = { "/proc/sys/net/ipv4/icmp_echo_ignore_all",
                "/proc/sys/net/ipv6/icmp/echo_ignore_all" };

        for (size_t i = 0; i < ELEMENTSOF(settings); i++) {
                _cleanup_close_ int fd = open(settings[i], O_WRONLY | O_CLOEXEC);

                if (fd >= 0)
                        (void) write_full(fd, "1", 1);
        }
}

static int failed(NetnsReport *report, const char *stage, int error)
{
        report->error = error;
        snprintf(report->stage, sizeof(report->stage), "%s", stage);
        return -error;
}

static int netns_fill(NetnsReport *report)
{
        _cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
        unsigned lo = if_nametoindex("lo");
        int r;

        if (fd < 0)
                return failed(report, "netlink socket", errno);
        if (lo == 0)
                return failed(report, "finding lo", errno);
        r = link_up(fd, lo);
        if (r < 0)
                return failed(report, "lo up", -r);
        for (size_t i = 0; i < ELEMENTSOF(addresses); i++) {
                unsigned char binary[sizeof(struct in6_addr)];
                size_t size = addresses[i].family == AF_INET ? sizeof(struct in_addr)
                                                             : sizeof(struct in6_addr);

                if (inet_pton(addresses[i].family, addresses[i].address, binary) != 1)
                        return failed(report, "address", EINVAL);
                r = address_add(fd, lo, addresses[i].family, addresses[i].length, binary, size);
                if (r == -EAFNOSUPPORT || r == -EOPNOTSUPP ||
                                (r == -EACCES && addresses[i].family == AF_INET6))
                        continue; /* a kernel without IPv6: nothing can be reached by it */
                if (r < 0)
                        return failed(report, addresses[i].address, -r);
                r = route_add(fd, lo, addresses[i].family, binary, size);
                if (r < 0)
                        return failed(report, "local default route", -r);
        }
        ignore_ping();
        return 0;
}

static int report_send(int fd, const NetnsReport *report, int payload_fd)
{
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = {};
        struct iovec iov = { .iov_base = (void *) report, .iov_len = sizeof(*report) };
        struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

        if (payload_fd >= 0) {
                m.msg_control = &control;
                m.msg_controllen = sizeof(control);
                control.header = (struct cmsghdr){
                        .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS
                };
                memcpy(CMSG_DATA(&control.header), &payload_fd, sizeof(int));
        }
        return sendmsg(fd, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int report_receive(int fd, NetnsReport *report, int *ret_fd)
{
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = {};
        struct iovec iov = { .iov_base = report, .iov_len = sizeof(*report) };
        struct msghdr m = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        struct cmsghdr *c;
        ssize_t n;

        do
                n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        c = CMSG_FIRSTHDR(&m);
        *ret_fd = -1;
        if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
                memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
        return n == sizeof(*report) ? 0 : -EPIPE; /* the child died */
}

_noreturn_ static void netns_child(int fd)
{
        NetnsReport report = {};
        int ns = -1;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (unshare(CLONE_NEWNET) < 0)
                failed(&report, "unshare", errno);
        else if (netns_fill(&report) >= 0) {
                ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
                if (ns < 0)
                        failed(&report, "/proc/self/ns/net", errno);
        }
        _exit(report_send(fd, &report, ns) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

static void reap(pid_t pid)
{
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
}

int netns_create(int *ret_fd, uint64_t *ret_inode, Error **reterr)
{
        _cleanup_close_ int ours = -1, theirs = -1, ns = -1;
        NetnsReport report = {};
        struct stat st, own;
        int pair[2], r;
        pid_t pid;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set(reterr, -errno, "network namespace: %m");
        ours = pair[0];
        theirs = pair[1];
        pid = fork();
        if (pid < 0)
                return error_set(reterr, -errno, "network namespace: fork: %m");
        if (pid == 0)
                netns_child(theirs);
        close(TAKE_FD(theirs));
        r = report_receive(ours, &report, &ns);
        reap(pid);
        if (r < 0)
                return error_set(reterr, r, "network namespace: %s", strerror(-r));
        if (report.error != 0)
                return error_set(reterr, -report.error, "network namespace: %s: %s", report.stage,
                                strerror(report.error));
        if (ns < 0 || fstat(ns, &st) < 0 || stat("/proc/self/ns/net", &own) < 0)
                return error_set(reterr, -EBADMSG, "network namespace: no descriptor");
        if (st.st_ino == own.st_ino)
                return error_set(reterr, -EBADMSG, "network namespace: it is the broker's own");
        *ret_inode = st.st_ino;
        *ret_fd = TAKE_FD(ns);
        return 0;
}

/* The result travels as the exit status. */
_noreturn_ static void hostname_child(int ns, const char *name)
{
        if (setns(ns, CLONE_NEWUTS) < 0 || sethostname(name, strlen(name)) < 0)
                _exit(errno > 0 && errno < 256 ? errno : EIO);
        _exit(0);
}

int uts_set_hostname(pid_t pid, const char *name, Error **reterr)
{
        _cleanup_close_ int ns = -1;
        struct stat st, own;
        char path[64];
        pid_t child;
        int status;

        snprintf(path, sizeof(path), "/proc/%i/ns/uts", (int) pid);
        ns = open(path, O_RDONLY | O_CLOEXEC);
        if (ns < 0 || fstat(ns, &st) < 0 || stat("/proc/self/ns/uts", &own) < 0)
                return error_set(reterr, -errno, "host name of the run: %m");
        if (st.st_ino == own.st_ino)
                return error_set(reterr, -EPERM, "host name of the run: it shares the host's");
        child = fork();
        if (child < 0)
                return error_set(reterr, -errno, "host name of the run: %m");
        if (child == 0)
                hostname_child(ns, name);
        while (waitpid(child, &status, 0) < 0)
                if (errno != EINTR)
                        return error_set(reterr, -errno, "host name of the run: %m");
        if (!WIFEXITED(status))
                return error_set(reterr, -EPIPE, "host name of the run: the helper process died");
        if (WEXITSTATUS(status) != 0)
                return error_set(reterr, -WEXITSTATUS(status), "host name of the run: %s",
                                strerror(WEXITSTATUS(status)));
        return 0;
}
