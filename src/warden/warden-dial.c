/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

#include "warden/warden.h"

/* From a name to a connection. Each address is judged, and the very one that was judged is dialled. */

#define TRIES_MAX 4u
#define PROXY_ANSWER_MAX ((size_t) 8 << 10)

static bool has_proxy(const Warden *w)
{
        return w->spec.proxy_host[0] != 0;
}

void dial_end(Conn *c)
{
        resolver_cancel(&c->waiter);
        free(c->addresses);
        c->addresses = NULL;
        c->n_addresses = 0;
}

/* ---- one address after the other */

/* Neither it nor an IPv4 address that it would become on the way is this host's own. */
static EgressReason check_route(Warden *w, const EgressAddress *a)
{
        EgressAddress inner[EGRESS_CARRIED_MAX];
        size_t n = address_carried(a, &w->spec, inner);

        for (size_t i = 0; i < n; i++)
                if (router_check(&w->router, inner + i, w->now) == EGRESS_HOST_LOCAL)
                        return EGRESS_HOST_LOCAL;
        return router_check(&w->router, a, w->now);
}

static EgressReason judge(Warden *w, const Conn *c, const EgressAddress *a)
{
        EgressReason reason;

        /* The operator's proxy may be anywhere, this host included. */
        if (has_proxy(w))
                return metadata_address(a, &w->spec) ? EGRESS_METADATA : EGRESS_OK;
        reason = address_gate(a, !c->decision.name || c->rule->private_allow, &w->spec);
        return reason != EGRESS_OK ? reason : check_route(w, a);
}

/* Of several reasons the one that the operator should hear of. */
static EgressReason worse(EgressReason a, EgressReason b)
{
        static const EgressReason order[] = {
                EGRESS_METADATA, EGRESS_HOST_LOCAL, EGRESS_ADDR_BLOCKED, EGRESS_CONNECT_FAILED
        };

        for (size_t i = 0; i < ELEMENTSOF(order); i++)
                if (a == order[i] || b == order[i])
                        return order[i];
        return a;
}

static void give_up(Warden *w, Conn *c)
{
        EgressReason reason = c->n_tries > 0 ? c->failed : c->blocked;

        if (reason == EGRESS_OK)
                reason = EGRESS_CONNECT_FAILED;
        if (has_proxy(w) && reason != EGRESS_METADATA)
                reason = EGRESS_PROXY_FAILED;
        conn_deny(w, c, reason);
}

static EgressReason reason_of_errno(int error)
{
        switch (error) {
        case EPERM: /* the second lock: the unit's own list of addresses */
        case EACCES:
                return EGRESS_ADDR_BLOCKED;
        case ETIMEDOUT:
                return EGRESS_TIMEOUT;
        default:
                return EGRESS_CONNECT_FAILED;
        }
}

/* 0: under way. */
static int dial(Warden *w, Conn *c, const EgressAddress *a)
{
        _cleanup_close_ int fd = socket(a->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        uint16_t port = has_proxy(w) ? w->spec.proxy_port : c->port;
        struct sockaddr_storage sa;
        const int one = 1;
        int r;

        if (fd < 0)
                return -errno;
        (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (connect(fd, (struct sockaddr *) &sa, address_to_sockaddr(a, port, &sa)) < 0 && errno != EINPROGRESS)
                return -errno;
        c->upstream = (End){ .source = c->upstream.source, .fd = -1 };
        r = end_watch(w, &c->upstream, fd);
        if (r < 0)
                return r;
        TAKE_FD(fd);
        return 0;
}

static void dial_next(Warden *w, Conn *c)
{
        while (c->next_address < c->n_addresses && c->n_tries < TRIES_MAX) {
                const EgressAddress *a = c->addresses + c->next_address++;
                EgressReason reason = judge(w, c, a);
                int r;

                if (reason != EGRESS_OK) {
                        reason = worse(reason, c->blocked);
                        if (reason != c->blocked && !has_proxy(w))
                                c->attempt.address = *a;
                        c->blocked = reason;
                        continue;
                }
                if (!has_proxy(w))
                        c->attempt.address = *a;
                c->n_tries++;
                r = dial(w, c, a);
                if (r >= 0) {
                        if (c->next_address < c->n_addresses)
                                timer_set(&w->timers, &c->try_timer, TIMER_TRY, w->now);
                        return;
                }
                c->failed = reason_of_errno(-r);
        }
        give_up(w, c);
}

static void dial_again(Warden *w, Conn *c, EgressReason reason)
{
        timer_clear(&c->try_timer);
        close(TAKE_FD(c->upstream.fd));
        c->failed = reason;
        dial_next(w, c);
}

void dial_try_late(Warden *w, Conn *c)
{
        if (c->state == CONN_DIAL)
                dial_again(w, c, EGRESS_TIMEOUT);
}

void dial_late(Warden *w, Conn *c)
{
        if (c->state == CONN_RESOLVE)
                conn_deny(w, c, has_proxy(w) ? EGRESS_PROXY_FAILED : EGRESS_RESOLVE_FAILED);
        else
                conn_deny(w, c, has_proxy(w) ? EGRESS_PROXY_FAILED : EGRESS_TIMEOUT);
}

/* ---- the upstream proxy: CONNECT (RFC 9110, 9.3.6) */

static void proxy_ask(Warden *w, Conn *c)
{
        char destination[ATTEMPT_DESTINATION_MAX], request[2 * ATTEMPT_DESTINATION_MAX + 64];
        int n;

        attempt_destination(&c->attempt, destination);
        n = snprintf(request, sizeof(request), "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", destination, destination);
        c->state = CONN_PROXY;
        if (send(c->upstream.fd, request, (size_t) n, MSG_NOSIGNAL) != n)
                conn_deny(w, c, EGRESS_PROXY_FAILED);
}

/* "HTTP/1.1 200 ..." */
static bool proxy_agrees(const char *head, size_t n)
{
        return n >= 13 && memcmp(head, "HTTP/1.", 7) == 0 && (head[7] == '0' || head[7] == '1') &&
               memcmp(head + 8, " 200", 4) == 0 && (head[12] == ' ' || head[12] == '\r');
}

/* Looks without taking, so that exactly the head is taken: what stands behind it is the destination's. */
static void proxy_read(Warden *w, Conn *c)
{
        const char *end;
        ssize_t n = recv(c->upstream.fd, w->scratch, PROXY_ANSWER_MAX, MSG_PEEK);
        size_t head;

        if (n < 0 && errno == EAGAIN)
                return;
        end = n > 0 ? memmem(w->scratch, (size_t) n, "\r\n\r\n", 4) : NULL;
        if (!end) {
                if (n <= 0 || (size_t) n >= PROXY_ANSWER_MAX || c->upstream.hung_up)
                        conn_deny(w, c, EGRESS_PROXY_FAILED);
                return;
        }
        head = (size_t) (end + 4 - (const char *) w->scratch);
        if (!proxy_agrees((const char *) w->scratch, head) ||
                        recv(c->upstream.fd, w->scratch, head, 0) != (ssize_t) head)
                conn_deny(w, c, EGRESS_PROXY_FAILED);
        else
                conn_allow(w, c);
}

/* ---- its steps */

void dial_run(Warden *w, Conn *c)
{
        int error = 0;
        socklen_t n = sizeof(error);

        if (c->state == CONN_PROXY) {
                proxy_read(w, c);
                return;
        }
        /* Where it did not work out, or the peer is gone again, an event has said so too. */
        if (c->upstream.hung_up && getsockopt(c->upstream.fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0)
                error = errno;
        if (error != 0)
                dial_again(w, c, reason_of_errno(error));
        else if (!c->upstream.writable)
                return;
        else {
                timer_clear(&c->try_timer);
                if (has_proxy(w))
                        proxy_ask(w, c);
                else
                        conn_allow(w, c);
        }
}

static void dial_addresses(Warden *w, Conn *c, const EgressAddress *addresses, uint32_t n)
{
        c->addresses = calloc(n, sizeof(*addresses));
        if (!c->addresses) {
                conn_deny(w, c, EGRESS_LIMIT);
                return;
        }
        memcpy(c->addresses, addresses, n * sizeof(*addresses));
        c->n_addresses = n;
        c->state = CONN_DIAL;
        timer_set(&w->timers, &c->timer, TIMER_DIAL, w->now);
        dial_next(w, c);
}

static void answered(void *userdata, Waiter *waiter, const ResolveAnswer *a)
{
        Warden *w = userdata;
        Conn *c = CONTAINER(Conn, waiter, waiter);

        if (a->n == 0)
                conn_deny(w, c, has_proxy(w) ? EGRESS_PROXY_FAILED : EGRESS_RESOLVE_FAILED);
        else
                dial_addresses(w, c, a->addresses, a->n);
}

static void dial_name(Warden *w, Conn *c, const char *name)
{
        c->state = CONN_RESOLVE;
        c->waiter.answered = answered;
        timer_set(&w->timers, &c->timer, TIMER_RESOLVE, w->now);
        if (resolver_ask(&w->resolver, &c->waiter, name, c->timer.deadline) < 0)
                conn_deny(w, c, has_proxy(w) ? EGRESS_PROXY_FAILED : EGRESS_RESOLVE_FAILED);
}

void dial_begin(Warden *w, Conn *c)
{
        const EgressAddress dest = c->attempt.address; /* where it is a literal one */
        EgressReason reason;

        if (!c->decision.name && has_proxy(w)) {
                /* The proxy is told an address: it is judged here, for nobody else would. */
                reason = address_gate(&dest, true, &w->spec);
                if (reason == EGRESS_OK)
                        reason = check_route(w, &dest);
                if (reason != EGRESS_OK && reason != EGRESS_CONNECT_FAILED) {
                        conn_deny(w, c, reason);
                        return;
                }
        }
        if (has_proxy(w) && w->has_proxy_address)
                dial_addresses(w, c, &w->proxy_address, 1);
        else if (has_proxy(w))
                dial_name(w, c, w->spec.proxy_host);
        else if (c->decision.name)
                dial_name(w, c, c->decision.name);
        else
                dial_addresses(w, c, &dest, 1);
}
