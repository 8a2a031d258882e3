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

/* A connection that is refused for where it leads to is on record as soon as it is tried: it need not come as far as to be
 * accepted. Of questions to a name server the record is about the question. */
static void connect_begun(Warden *w, WhoEntry *e)
{
        Attempt a = { .proto = PROTO_TCP, .port = e->dest_port, .who = e->who };
        EgressAddress dest = { .family = e->family };
        EgressDecision d = {};

        memcpy(dest.bytes, e->dest, address_size(&dest));
        decider_connection(w->decider, &dest, e->dest_port, &d);
        if (d.reason == EGRESS_OK || e->dest_port == 53)
                return;
        e->told = true;
        a.name = d.name;
        if (!d.name)
                a.address = dest;
        records_denied(&w->records, &a, d.reason, 1, w->now);
}

/* Of these nothing was accepted, nor will be. */
static void connect_given_up(Warden *w, const WhoEntry *e)
{
        bool dns = e->dest_port == 53;
        Attempt a = { .proto = dns ? PROTO_DNS : PROTO_TCP, .port = e->dest_port, .who = e->who };
        EgressDecision d = {};

        if (e->ahead <= 0 || e->told)
                return;
        a.address.family = e->family;
        memcpy(a.address.bytes, e->dest, address_size(&a.address));
        decider_connection(w->decider, &a.address, e->dest_port, &d);
        if (d.name) {
                a.name = d.name;
                a.address = (EgressAddress){};
        }
        records_denied(&w->records, &a, dns && d.reason != EGRESS_OK ? EGRESS_MALFORMED : EGRESS_CONNECT_FAILED,
                        (uint64_t) e->ahead, w->now);
}

void accept_over(Warden *w)
{
        for (size_t i = 0; i < WHO_SETS; i++)
                for (size_t k = 0; k < WHO_WAYS; k++)
                        connect_given_up(w, &w->events.who->entries[i][k]);
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
                who_forget(e->who);
        e->lost_denied = lost_denied;
        e->lost_who = lost_who;
}

void warden_read_events(Warden *w)
{
        uint64_t end = ring_end(&w->events.ring);
        WhoEntry *new, gone;
        EgressEvent e;

        read_counters(w);
        while (ring_next(&w->events.ring, end, &e)) {
                if (e.kind == EGRESS_EVENT_DENIED) {
                        record_event(w, &e);
                        continue;
                }
                new = who_add(w->events.who, &e, &gone);
                connect_given_up(w, &gone);
                if (new)
                        connect_begun(w, new);
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

/* Whose it is, and where it leads. true: it goes on; false: it is on record, and over. */
static bool identify(Warden *w, int fd, const struct sockaddr_storage *peer, EgressAddress *ret_dest, Attempt *a)
{
        struct sockaddr_storage local;
        socklen_t n = sizeof(local);
        EgressAddress source;
        uint16_t source_port = 0;
        bool told = false;

        *a = (Attempt){ .proto = PROTO_TCP };
        if (getsockname(fd, (struct sockaddr *) &local, &n) < 0 || !address_from_sockaddr(&local, ret_dest, &a->port) ||
                        !address_from_sockaddr(peer, &source, &source_port)) {
                deny_socket(w, fd, a, EGRESS_NO_RULE);
                return false;
        }
        a->who = who_take(w->events.who, &source, source_port, ret_dest, a->port, &told);
        if (told)
                socket_reset(fd);
        return !told;
}

static void judge(Warden *w, int fd, const struct sockaddr_storage *peer)
{
        EgressAddress dest;
        EgressDecision d = {};
        Attempt a;

        if (!identify(w, fd, peer, &dest, &a))
                return;
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
        struct sockaddr_storage peer = {};
        socklen_t n = sizeof(peer);
        EgressAddress dest;
        Attempt seen;
        int fd;

        if (w->reserve_fd < 0)
                return false;
        close(TAKE_FD(w->reserve_fd));
        fd = accept4(listener, (struct sockaddr *) &peer, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
                warden_read_events(w);
                if (identify(w, fd, &peer, &dest, &seen))
                        deny_socket(w, fd, &a, EGRESS_LIMIT);
        }
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
