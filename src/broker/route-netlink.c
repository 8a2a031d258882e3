/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/macro.h"
#include "broker/route-netlink.h"

#define SEQUENCE 1

int route_netlink_open(void)
{
        int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

        return fd < 0 ? -errno : fd;
}

RouteRequest route_request(uint16_t type, uint16_t flags, size_t body_size)
{
        return (RouteRequest){
                .header = {
                        .nlmsg_len = (uint32_t) NLMSG_LENGTH(body_size),
                        .nlmsg_type = type,
                        .nlmsg_flags = (uint16_t) (NLM_F_REQUEST | flags),
                        .nlmsg_seq = SEQUENCE,
                },
        };
}

void route_attribute(RouteRequest *q, uint16_t type, const void *p, size_t n)
{
        struct rtattr *a = (struct rtattr *) (void *) ((char *) q + NLMSG_ALIGN(q->header.nlmsg_len));

        a->rta_type = type;
        a->rta_len = (uint16_t) RTA_LENGTH(n);
        memcpy(RTA_DATA(a), p, n);
        q->header.nlmsg_len = (uint32_t) (NLMSG_ALIGN(q->header.nlmsg_len) + RTA_ALIGN(a->rta_len));
}

static int send_request(int fd, const RouteRequest *q)
{
        struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };

        return sendto(fd, q, q->header.nlmsg_len, MSG_DONTWAIT, (struct sockaddr *) &kernel,
                               sizeof(kernel)) < 0
                               ? -errno
                               : 0;
}

static int error_of(const struct nlmsghdr *m)
{
        const struct nlmsgerr *e = NLMSG_DATA(m);

        return m->nlmsg_len < NLMSG_LENGTH(sizeof(*e)) || e->error > 0 ? -EBADMSG : e->error;
}

typedef struct Question {
        uint16_t type;
        RouteAnswer *answer;
        void *userdata;
        int result;
        bool complete; /* nothing more will come */
} Question;

/* 0, or negative errno. */
static int take_message(Question *q, const struct nlmsghdr *m)
{
        if (m->nlmsg_seq != SEQUENCE)
                return -EBADMSG;
        if (m->nlmsg_type == NLMSG_ERROR || m->nlmsg_type == NLMSG_DONE)
                q->complete = true;
        if (m->nlmsg_type == NLMSG_ERROR)
                return error_of(m);
        if (m->nlmsg_type == q->type && q->result == 0)
                q->result = q->answer(m, q->userdata);
        if (!(m->nlmsg_flags & NLM_F_MULTI))
                q->complete = true;
        return 0;
}

static int take_datagram(Question *q, int fd)
{
        _Alignas(struct nlmsghdr) char space[32768]; /* the kernel's own limit for a part of a dump */
        ssize_t n = recv(fd, space, sizeof(space), MSG_DONTWAIT | MSG_TRUNC);
        size_t step, left;
        int r = 0;

        if (n < 0)
                return -errno;
        if ((size_t) n > sizeof(space))
                return -EBADMSG;
        for (left = (size_t) n; r >= 0 && left > 0; left -= step) {
                const struct nlmsghdr *m = (const void *) (space + n - left);

                if (left < sizeof(*m) || m->nlmsg_len < sizeof(*m) || m->nlmsg_len > left)
                        return -EBADMSG;
                step = MIN2((size_t) NLMSG_ALIGN(m->nlmsg_len), left);
                r = take_message(q, m);
        }
        return r;
}

int route_ask(int fd, const RouteRequest *q, uint16_t type, RouteAnswer *answer, void *userdata)
{
        Question question = { .type = type, .answer = answer, .userdata = userdata };
        int r = send_request(fd, q);

        while (r >= 0 && !question.complete)
                r = take_datagram(&question, fd);
        return r < 0 ? r : question.result;
}

int route_change(int fd, const RouteRequest *q)
{
        RouteRequest acknowledged = *q;

        acknowledged.header.nlmsg_flags |= NLM_F_ACK;
        return route_ask(fd, &acknowledged, NLMSG_NOOP, NULL, NULL);
}

const void *route_answer_attribute(const struct nlmsghdr *m, size_t body_size, uint16_t type, size_t size)
{
        const struct rtattr *a;
        int left = (int) m->nlmsg_len - (int) NLMSG_SPACE(body_size);

        for (a = (const void *) ((const char *) m + NLMSG_SPACE(body_size)); RTA_OK(a, left);
                        a = RTA_NEXT(a, left))
                if (a->rta_type == type && RTA_PAYLOAD(a) >= size)
                        return RTA_DATA(a);
        return NULL;
}
