/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "warden/warden-dns.h"
#include "warden/warden.h"

/* Questions of DNS, whatever server was asked. Answers come from the address that was asked. */

#define DATAGRAMS_MAX 64u /* a turn of the loop */
#define DNS_CONNS_MAX 16u
#define MESSAGES_MAX 16u /* a turn of the loop and connection */

/* Recorded before it is answered. */
static void answer(Warden *w, const uint8_t *question, size_t n, const EgressAddress *server, const Who *who,
                uint8_t out[static DNS_ANSWER_MAX], DnsAnswer *ret)
{
        Attempt a = { .proto = PROTO_DNS, .address = *server, .port = 53, .who = *who };

        dns_answer(w->decider, question, n, out, ret);
        if (ret->reason == EGRESS_OK)
                return;
        a.name = ret->name[0] ? ret->name : NULL;
        records_denied(&w->records, &a, ret->reason, 1, w->now);
}

/* ---- UDP */

typedef struct Datagram {
        struct sockaddr_storage peer;
        uint8_t bytes[DNS_MESSAGE_MAX];
        size_t n;
        EgressAddress server;
        _Alignas(struct cmsghdr) uint8_t
                        control[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(struct in_pktinfo))];
        struct msghdr message;
} Datagram;

static bool find_server(Datagram *d)
{
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&d->message); c; c = CMSG_NXTHDR(&d->message, c)) {
                if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
                        const struct in_pktinfo *p = (const void *) CMSG_DATA(c);

                        d->server.family = AF_INET;
                        memcpy(d->server.bytes, &p->ipi_addr, 4);
                        return true;
                }
                if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
                        const struct in6_pktinfo *p = (const void *) CMSG_DATA(c);

                        d->server.family = AF_INET6;
                        memcpy(d->server.bytes, &p->ipi6_addr, 16);
                        return true;
                }
        }
        return false;
}

static ssize_t receive(int fd, Datagram *d)
{
        struct iovec v = { .iov_base = d->bytes, .iov_len = sizeof(d->bytes) };

        d->message = (struct msghdr){ .msg_name = &d->peer,
                .msg_namelen = sizeof(d->peer),
                .msg_iov = &v,
                .msg_iovlen = 1,
                .msg_control = d->control,
                .msg_controllen = sizeof(d->control) };
        d->server = (EgressAddress){};
        return recvmsg(fd, &d->message, MSG_DONTWAIT);
}

/* A datagram that cannot be sent is lost, as datagrams are. */
static void reply(int fd, Datagram *d, const uint8_t *bytes, size_t n)
{
        union {
                struct cmsghdr header;
                uint8_t bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
        } control = {};
        struct iovec v = { .iov_base = (void *) (uintptr_t) bytes, .iov_len = n };
        struct msghdr m = { .msg_name = &d->peer,
                .msg_namelen = d->message.msg_namelen,
                .msg_iov = &v,
                .msg_iovlen = 1,
                .msg_control = &control };

        if (d->server.family == AF_INET) {
                struct in_pktinfo p = {};

                memcpy(&p.ipi_spec_dst, d->server.bytes, 4);
                control.header = (struct cmsghdr){
                        .cmsg_level = IPPROTO_IP, .cmsg_type = IP_PKTINFO, .cmsg_len = CMSG_LEN(sizeof(p))
                };
                memcpy(CMSG_DATA(&control.header), &p, sizeof(p));
                m.msg_controllen = CMSG_SPACE(sizeof(p));
        } else {
                struct in6_pktinfo p = {};

                memcpy(&p.ipi6_addr, d->server.bytes, 16);
                control.header = (struct cmsghdr){
                        .cmsg_level = IPPROTO_IPV6, .cmsg_type = IPV6_PKTINFO, .cmsg_len = CMSG_LEN(sizeof(p))
                };
                memcpy(CMSG_DATA(&control.header), &p, sizeof(p));
                m.msg_controllen = CMSG_SPACE(sizeof(p));
        }
        (void) sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* What the kernel had to drop because it came too fast: never answered, but tried. */
static void read_drops(Warden *w, int fd, uint32_t *seen)
{
        const Attempt a = { .proto = PROTO_DNS, .name = "*", .port = 53 };
        uint32_t info[SK_MEMINFO_VARS] = {};
        socklen_t n = sizeof(info);

        if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &n) < 0)
                return;
        records_denied(&w->records, &a, EGRESS_LIMIT, (uint32_t) (info[SK_MEMINFO_DROPS] - *seen), w->now);
        *seen = info[SK_MEMINFO_DROPS];
}

void dns_udp_ready(Warden *w, Source *s, uint32_t events)
{
        int fd = w->fds[s == w->dns ? WARDEN_FD_DNS4 : WARDEN_FD_DNS6];
        Datagram *d = w->datagram;

        read_drops(w, fd, w->dns_drops + (s - w->dns));
        for (unsigned i = 0; i < DATAGRAMS_MAX; i++) {
                uint8_t out[DNS_ANSWER_MAX];
                EgressAddress source;
                uint16_t port = 0;
                DnsAnswer a;
                Who who;
                ssize_t n = receive(fd, d);

                if (n < 0 && errno == EAGAIN)
                        return;
                if (n < 0 || !find_server(d) || !address_from_sockaddr(&d->peer, &source, &port))
                        continue; /* an error of an earlier answer */
                warden_read_events(w);
                who = who_find(w->events.who, &source, port, &d->server, 53);
                answer(w, d->bytes, (size_t) n, &d->server, &who, out, &a);
                if (a.size > 0)
                        reply(fd, d, out, a.size);
        }
}

/* ---- TCP (RFC 7766): each message with its length before it */

struct DnsConn {
        DnsConn *next;
        Timer timer;
        Source source;
        Warden *w;
        int fd;
        EgressAddress server;
        Who who;
        uint8_t *question; /* NULL: not even its length came */
        uint8_t length[2];
        size_t n_length, n; /* so much of them */
        bool asked;
};

static void dns_close(DnsConn *c, bool reset)
{
        Warden *w = c->w;

        for (DnsConn **i = &w->dns_conns; *i; i = &(*i)->next)
                if (*i == c) {
                        *i = c->next;
                        break;
                }
        timer_clear(&c->timer);
        free(c->question);
        c->question = NULL;
        if (reset)
                socket_reset(c->fd);
        else
                close(c->fd);
        c->fd = -1;
        w->n_dns_conns--;
        c->next = w->dns_dead;
        w->dns_dead = c;
}

static void dns_refuse(DnsConn *c, EgressReason reason)
{
        const Attempt a = { .proto = PROTO_DNS, .address = c->server, .port = 53, .who = c->who };

        records_denied(&c->w->records, &a, reason, 1, c->w->now);
        dns_close(c, true);
}

/* Not a word, or not the whole of one: that is on record too. */
static void dns_over(DnsConn *c, EgressReason reason)
{
        if (!c->asked || c->n_length > 0)
                dns_refuse(c, reason);
        else
                dns_close(c, false);
}

/* Takes what there is of the part that is awaited. 1: it is whole. 0: more is to come. Negative errno: nothing will. */
static int dns_read(DnsConn *c, uint8_t *p, size_t size, size_t *n)
{
        while (*n < size) {
                ssize_t k = recv(c->fd, p + *n, size - *n, MSG_DONTWAIT);

                if (k < 0 && errno == EAGAIN)
                        return 0;
                if (k <= 0)
                        return k < 0 ? -errno : -EPIPE;
                *n += (size_t) k;
        }
        return 1;
}

static int dns_read_message(DnsConn *c, size_t *ret_size)
{
        int r = dns_read(c, c->length, sizeof(c->length), &c->n_length);
        size_t size = (size_t) c->length[0] << 8 | c->length[1];

        if (r <= 0)
                return r;
        if (size == 0)
                return -EBADMSG;
        if (!c->question)
                c->question = malloc(size);
        if (!c->question)
                return -ENOMEM;
        *ret_size = size;
        return dns_read(c, c->question, size, &c->n);
}

/* false: it is not there any more. An answer that does not fit in finds nobody who reads. */
static bool dns_reply(DnsConn *c, size_t size)
{
        uint8_t out[2 + DNS_ANSWER_MAX];
        DnsAnswer a;
        ssize_t n;

        answer(c->w, c->question, size, &c->server, &c->who, out + 2, &a);
        c->asked = true;
        free(TAKE_PTR(c->question));
        c->n = c->n_length = 0;
        if (a.size == 0) {
                dns_close(c, true);
                return false;
        }
        out[0] = (uint8_t) (a.size >> 8);
        out[1] = (uint8_t) a.size;
        n = send(c->fd, out, a.size + 2, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n != (ssize_t) a.size + 2) {
                dns_close(c, true);
                return false;
        }
        timer_set(&c->w->timers, &c->timer, TIMER_DNS, c->w->now);
        return true;
}

static void dns_tcp_ready(Warden *w, Source *s, uint32_t events)
{
        DnsConn *c = CONTAINER(DnsConn, source, s);

        for (unsigned i = 0; c->fd >= 0 && i < MESSAGES_MAX; i++) {
                size_t size = 0;
                int r = dns_read_message(c, &size);

                if (r == 0)
                        return;
                if (r < 0) {
                        dns_over(c, EGRESS_MALFORMED);
                        return;
                }
                if (!dns_reply(c, size))
                        return;
        }
}

static void dns_late(void *userdata, Timer *t)
{
        dns_over(CONTAINER(DnsConn, timer, t), EGRESS_TIMEOUT);
}

void dns_tcp_accept(Warden *w, int fd, const EgressAddress *server, const Who *who)
{
        const Attempt a = { .proto = PROTO_DNS, .address = *server, .port = 53, .who = *who };
        DnsConn *c = w->n_dns_conns < DNS_CONNS_MAX ? calloc(1, sizeof(*c)) : NULL;

        if (!c || warden_watch(w, fd, EPOLLIN, &c->source) < 0) {
                free(c);
                records_denied(&w->records, &a, EGRESS_LIMIT, 1, w->now);
                socket_reset(fd);
                return;
        }
        c->w = w;
        c->fd = fd;
        c->server = *server;
        c->who = *who;
        c->source.ready = dns_tcp_ready;
        c->timer.expired = dns_late;
        c->next = w->dns_conns;
        w->dns_conns = c;
        w->n_dns_conns++;
        timer_set(&w->timers, &c->timer, TIMER_DNS, w->now);
}

void dns_bury(Warden *w)
{
        DnsConn *c;

        while ((c = w->dns_dead)) {
                w->dns_dead = c->next;
                free(c);
        }
}

void dns_stop_all(Warden *w)
{
        while (w->dns_conns)
                dns_over(w->dns_conns, EGRESS_TIMEOUT);
}

Datagram *dns_buffer_new(void)
{
        return calloc(1, sizeof(Datagram));
}
