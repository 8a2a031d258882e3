/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "broker/bpf-call.h"
#include "broker/broker-wall.h"
#include "broker/route-netlink.h"
#include "broker/verify.h"
#include "broker/wall-programs.h"
#include "broker/wall-verify.h"

/* Every check: 0 holds, 1 broken with its reason in why, negative errno. */

/* ---- the link */

static int link_info(int link_fd, struct bpf_link_info *ret)
{
        *ret = (struct bpf_link_info){};
        return bpf_info(link_fd, ret, sizeof(*ret));
}

/* The kernel keeps the link of a namespace that is gone, or of which it was taken off, with the number 0. */
static bool is_lookup_link(const struct bpf_link_info *info)
{
        return info->type == BPF_LINK_TYPE_NETNS && info->netns.attach_type == BPF_SK_LOOKUP &&
               info->netns.netns_ino != 0;
}

int wall_link_program(int link_fd, uint32_t *ret_id)
{
        struct bpf_link_info info;
        int r = link_info(link_fd, &info);

        if (r < 0)
                return r;
        if (!is_lookup_link(&info))
                return -ENOLINK;
        *ret_id = info.prog_id;
        return 0;
}

static int check_link(const Wall *w, Buf *why)
{
        struct bpf_link_info info;
        int r = link_info(w->link_fd, &info);

        if (r < 0)
                return r;
        if (!is_lookup_link(&info))
                return broken(why, "the sk_lookup program is attached to no network namespace");
        if (info.netns.netns_ino != w->netns_inode)
                return broken(why, "the sk_lookup program is attached to another network namespace");
        if (info.prog_id != w->lookup_id)
                return broken(why, "another sk_lookup program is attached");
        return 0;
}

/* ---- the namespace of the sockets */

static int check_socket(int fd, uint64_t inode, Buf *why)
{
        _cleanup_close_ int ns = ioctl(fd, SIOCGSKNS);
        struct stat st;

        if (ns < 0 || fstat(ns, &st) < 0)
                return -errno;
        return st.st_ino == inode ? 0 : broken(why, "a socket of the wall is of another network namespace");
}

static int check_sockets(const Wall *w, Buf *why)
{
        const int fds[] = { w->netlink_fd, w->tcp[0], w->dns[0], w->tcp[1], w->dns[1] };
        size_t n = w->tcp[1] < 0 ? 3 : ELEMENTSOF(fds);
        struct stat st;
        int verdict = 0;

        if (fstat(w->netns_fd, &st) < 0)
                return -errno;
        if (st.st_ino != w->netns_inode)
                return broken(why, "the descriptor is of another network namespace");
        for (size_t i = 0; i < n; i++) {
                int r = check_socket(fds[i], w->netns_inode, why);

                if (r < 0)
                        return r;
                verdict |= r;
        }
        return verdict;
}

/* ---- interfaces and routes */

typedef struct Links {
        bool lo_up, other_up;
        Buf *why;
} Links;

/* Others may be there (a kernel that gives tunnels to every namespace), but none that is up. */
static int take_link(const struct nlmsghdr *m, void *userdata)
{
        const struct ifinfomsg *i = NLMSG_DATA(m);
        Links *l = userdata;

        if (m->nlmsg_len < NLMSG_LENGTH(sizeof(*i)))
                return -EBADMSG;
        if (i->ifi_flags & IFF_LOOPBACK)
                l->lo_up = i->ifi_flags & IFF_UP;
        else if (i->ifi_flags & IFF_UP)
                l->other_up = true;
        return 0;
}

static int check_links(const Wall *w, Buf *why)
{
        RouteRequest q = route_request(RTM_GETLINK, NLM_F_DUMP, sizeof(struct ifinfomsg));
        Links l = {};
        int r = route_ask(w->netlink_fd, &q, RTM_NEWLINK, take_link, &l);

        if (r < 0)
                return r;
        if (l.other_up)
                (void) broken(why, "an interface besides lo is up");
        if (!l.lo_up)
                (void) broken(why, "lo is not up");
        return l.other_up || !l.lo_up;
}

typedef struct Route {
        size_t size; /* of an address */
        bool local, from_sandbox;
        unsigned char source[sizeof(struct in6_addr)];
} Route;

static int take_route(const struct nlmsghdr *m, void *userdata)
{
        const struct rtmsg *rt = NLMSG_DATA(m);
        Route *route = userdata;
        const void *source;

        if (m->nlmsg_len < NLMSG_LENGTH(sizeof(*rt)))
                return -EBADMSG;
        source = route_answer_attribute(m, sizeof(*rt), RTA_PREFSRC, route->size);
        route->local = rt->rtm_type == RTN_LOCAL;
        route->from_sandbox = source && memcmp(source, route->source, route->size) == 0;
        return 0;
}

/* Asks what the kernel would do, not what its tables say. */
static int check_route(const Wall *w, int family, const char *sandbox, const char *text, Buf *why)
{
        RouteRequest q = route_request(RTM_GETROUTE, 0, sizeof(struct rtmsg));
        Route route = { .size = family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr) };
        unsigned char address[sizeof(struct in6_addr)];
        int r;

        if (inet_pton(family, text, address) != 1 || inet_pton(family, sandbox, route.source) != 1)
                return -EINVAL;
        q.body.route = (struct rtmsg){ .rtm_family = (unsigned char) family,
                .rtm_dst_len = (unsigned char) (route.size * 8) };
        route_attribute(&q, RTA_DST, address, route.size);
        r = route_ask(w->netlink_fd, &q, RTM_NEWROUTE, take_route, &route);
        if (r == -ENETUNREACH || r == -EHOSTUNREACH)
                return broken(why, "there is no route to %s", text);
        if (r < 0)
                return r;
        if (!route.local)
                return broken(why, "the route to %s does not end in the namespace", text);
        return route.from_sandbox ? 0 : broken(why, "the route to %s is not from %s", text, sandbox);
}

static int check_routes(const Wall *w, Buf *why)
{
        static const struct {
                int family;
                const char *sandbox, *destination;
        } rows[] = {
                { AF_INET, EGRESS_SANDBOX_IPV4, "203.0.113.9" },
                { AF_INET, EGRESS_SANDBOX_IPV4, "169.254.169.254" },
                { AF_INET6, EGRESS_SANDBOX_IPV6, "2001:db8::9" },
                { AF_INET6, EGRESS_SANDBOX_IPV6, "fd00:ec2::254" },
        };
        int verdict = 0;

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                int r;

                if (rows[i].family == AF_INET6 && w->tcp[1] < 0)
                        continue;
                r = check_route(w, rows[i].family, rows[i].sandbox, rows[i].destination, why);
                if (r < 0)
                        return r;
                verdict |= r;
        }
        return verdict;
}

/* ---- the programs of the cgroup */

static int check_program(int cgroup_fd, uint32_t attach_type, int program_fd, Buf *why)
{
        uint32_t ids[BPF_CGROUP_PROGRAMS_MAX], n;
        BpfProgramId ours;
        int r = bpf_program_id(program_fd, &ours);

        if (r >= 0)
                r = bpf_cgroup_query(cgroup_fd, attach_type, ids, &n);
        if (r < 0)
                return r;
        for (uint32_t i = 0; i < n; i++)
                if (ids[i] == ours.id)
                        return 0;
        return broken(why, "the wall's program is not attached to the run's cgroup (attach type %u)",
                        attach_type);
}

static int check_programs(const Wall *w, int cgroup_fd, Buf *why)
{
        int verdict = 0;

        for (size_t i = 0; i < WALL_PROGRAMS; i++) {
                int r = check_program(cgroup_fd, wall_attach_type(i), w->programs[i], why);

                if (r < 0)
                        return r;
                verdict |= r;
        }
        return verdict;
}

int wall_verify(const Wall *w, int cgroup_fd, Buf *why)
{
        static int (*const checks[])(
                        const Wall *w, Buf *why) = { check_link, check_sockets, check_links, check_routes };
        int verdict = check_programs(w, cgroup_fd, why);

        for (size_t i = 0; verdict >= 0 && i < ELEMENTSOF(checks); i++) {
                int r = checks[i](w, why);

                verdict = r < 0 ? r : verdict | r;
        }
        return verdict;
}
