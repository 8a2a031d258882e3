/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "warden/warden.h"

#define ACCEPTS_MAX 64 /* a turn of the loop */

/* ---- what the kernel's programs tell */

static EgressProto proto_of_ip(uint8_t protocol)
{
        switch (protocol) {
        case IPPROTO_TCP:
                return PROTO_TCP;
        case IPPROTO_UDP:
                return PROTO_UDP;
        case IPPROTO_ICMP:
        case IPPROTO_ICMPV6:
                return PROTO_ICMP;
        default:
                return PROTO_OTHER;
        }
}

/* Refused by the kernel whatever the rules say; they only tell whom it was meant for. */
static void record_event(Warden *w, const EgressEvent *e)
{
        Attempt a = { .proto = proto_of_ip(e->protocol), .port = e->dest_port, .who.tgid = e->tgid };
        EgressDecision d = {};

        a.address.family = e->family == AF_INET6 ? AF_INET6 : AF_INET;
        memcpy(a.address.bytes, e->dest, address_size(&a.address));
        memcpy(a.who.comm, e->comm, sizeof(a.who.comm));
        decider_connection(w->decider, &a.address, e->dest_port, &d);
        if (d.reason != EGRESS_METADATA && d.name) {
                a.name = d.name;
                a.address = (EgressAddress){};
        }
        records_denied(&w->records, &a, d.reason == EGRESS_METADATA ? EGRESS_METADATA : EGRESS_NO_RULE, 1, w->now);
}

/* What the ring had no room for. Who it was is then not known of anybody any more: better than the wrong one. */
static void read_counters(Warden *w)
{
        Events *e = &w->events;
        uint64_t lost_denied = __atomic_load_n(&e->counters->lost_denied, __ATOMIC_RELAXED);
        uint64_t lost_who = __atomic_load_n(&e->counters->lost_who, __ATOMIC_RELAXED);
        const Attempt a = { .proto = PROTO_OTHER, .name = "*" };

        if (lost_denied != e->lost_denied)
                records_denied(&w->records, &a, EGRESS_NO_RULE, lost_denied - e->lost_denied, w->now);
        if (lost_who != e->lost_who)
                memset(e->who.entries, 0, sizeof(e->who.entries));
        e->lost_denied = lost_denied;
        e->lost_who = lost_who;
}

void warden_read_events(Warden *w)
{
        uint64_t end = ring_end(&w->events.ring);
        EgressEvent e;

        read_counters(w);
        while (ring_next(&w->events.ring, end, &e)) {
                if (e.kind == EGRESS_EVENT_DENIED)
                        record_event(w, &e);
                else
                        who_add(&w->events.who, &e);
        }
}

/* ---- connections */

static void deny_socket(Warden *w, int fd, const Attempt *a, EgressReason reason)
{
        records_denied(&w->records, a, reason, 1, w->now);
        socket_reset(fd);
}

/* A refusal that somebody may still be reading makes room. */
static void make_room(Warden *w)
{
        const Timer *oldest = w->timers.queues[TIMER_LINGER].next;

        if (w->n_conns >= w->n_conns_max && oldest != w->timers.queues + TIMER_LINGER)
                conn_close(w, CONTAINER(Conn, timer, oldest), true);
}

/* EGRESS_OK: there is a place for one more connection. */
static EgressReason admit(Warden *w)
{
        if (records_unwritable(&w->records, w->now))
                return EGRESS_NO_JOURNAL;
        if (atomic_load_explicit(&w->tally->bytes_sent, memory_order_relaxed) >= w->spec.egress_bytes)
                return EGRESS_BYTES_LIMIT;
        make_room(w);
        return w->n_conns >= w->n_conns_max ? EGRESS_LIMIT : EGRESS_OK;
}

static void begin(Warden *w, int fd, const EgressDecision *d, const Attempt *a)
{
        EgressReason reason = admit(w);
        Conn *c = reason == EGRESS_OK ? conn_new(w, fd) : NULL;

        if (!c) {
                deny_socket(w, fd, a, reason == EGRESS_OK ? EGRESS_LIMIT : reason);
                return;
        }
        c->decision = *d;
        c->attempt = *a;
        c->port = a->port;
        if (d->tcp) {
                c->rule = d->tcp;
                dial_begin(w, c);
        } else {
                c->state = CONN_HELLO;
                timer_set(&w->timers, &c->timer, TIMER_HEAD, w->now);
        }
}

static void judge(Warden *w, int fd, const struct sockaddr_storage *peer)
{
        struct sockaddr_storage local;
        socklen_t n = sizeof(local);
        EgressAddress source, dest;
        Attempt a = { .proto = PROTO_TCP };
        uint16_t source_port = 0;
        EgressDecision d = {};

        if (getsockname(fd, (struct sockaddr *) &local, &n) < 0 || !address_from_sockaddr(&local, &dest, &a.port) ||
                        !address_from_sockaddr(peer, &source, &source_port)) {
                deny_socket(w, fd, &a, EGRESS_NO_RULE);
                return;
        }
        a.who = who_find(&w->events.who, IPPROTO_TCP, &source, source_port, &dest, a.port, true);
        decider_connection(w->decider, &dest, a.port, &d);
        if (d.reason != EGRESS_OK && a.port == 53) {
                dns_tcp_accept(w, fd, &dest, &a.who);
                return;
        }
        a.name = d.name;
        if (!d.name)
                a.address = dest;
        if (d.reason != EGRESS_OK)
                deny_socket(w, fd, &a, d.reason);
        else
                begin(w, fd, &d, &a);
}

/* No descriptor is left: with the one in reserve a connection is taken that would hang otherwise, and refused. */
static bool refuse_one(Warden *w, int listener)
{
        const Attempt a = { .proto = PROTO_TCP, .name = "*" };
        int fd;

        if (w->reserve_fd < 0)
                return false;
        close(TAKE_FD(w->reserve_fd));
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
                deny_socket(w, fd, &a, EGRESS_LIMIT);
        w->reserve_fd = fcntl(w->epoll_fd, F_DUPFD_CLOEXEC, 3);
        return fd >= 0;
}

void accept_ready(Warden *w, Source *s, uint32_t events)
{
        int listener = w->fds[s == w->listeners ? WARDEN_FD_TCP4 : WARDEN_FD_TCP6];

        for (unsigned i = 0; i < ACCEPTS_MAX; i++) {
                struct sockaddr_storage peer = {};
                socklen_t n = sizeof(peer);
                int fd = accept4(listener, (struct sockaddr *) &peer, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);

                if (fd >= 0) {
                        warden_read_events(w);
                        judge(w, fd, &peer);
                        continue;
                }
                if (errno == EAGAIN)
                        return;
                if ((errno == EMFILE || errno == ENFILE) && refuse_one(w, listener))
                        continue;
                if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
                        continue; /* of that one connection; the next may be good */
                /* Not at once again: the loop would do nothing else. */
                w->accept_paused = true;
                return;
        }
}
