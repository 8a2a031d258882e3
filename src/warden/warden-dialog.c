/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <sys/socket.h>

#include "warden/warden-tls.h"
#include "warden/warden.h"

/* The first bytes of a connection whose rule wants to see them. Nothing is sent anywhere before they are good, and what was
 * read goes out as it came. */

#define TLS_HANDSHAKE 22
#define READ_SIZE ((size_t) 4096)

static void tls_hello(Warden *w, Conn *c)
{
        const EgressRule *rule = c->decision.tls;
        bool complete = false, has_ech = false;
        EgressReason reason;

        c->rule = rule;
        c->attempt.proto = PROTO_TLS;
        reason = tls_hello_check(&c->tls, c->sent.held, c->sent.n_held, c->decision.name, rule->ech_allow, &complete,
                        &has_ech, c->asked);
        if (reason == EGRESS_NOT_TLS)
                conn_deny(w, c, reason);
        else if (reason != EGRESS_OK)
                conn_deny_with(w, c, reason, tls_alert_access_denied, sizeof(tls_alert_access_denied));
        else if (complete) {
                c->sent.n_good = c->sent.n_held;
                dial_begin(w, c);
        } else if (c->client.eof || c->sent.n_held >= HELD_MAX)
                conn_deny(w, c, EGRESS_NOT_TLS);
}

static void http_refuse(Warden *w, Conn *c, unsigned status, EgressReason reason)
{
        char answer[2048];
        size_t n = http_error_response(status, reason, answer, sizeof(answer));

        conn_deny_with(w, c, reason, answer, n);
}

static void http_head(Warden *w, Conn *c)
{
        HttpVerdict v;

        if (!c->rule)
                http_reader_init(&c->http, c->decision.name, c->port);
        c->rule = c->decision.http;
        c->attempt.proto = PROTO_HTTP;
        http_reader_feed(&c->http, c->sent.held, c->sent.n_held, &v);
        memcpy(c->asked, v.host, sizeof(c->asked));
        if (v.pass == 0 && v.reason != EGRESS_OK)
                http_refuse(w, c, v.status, v.reason);
        else if (v.pass > 0) {
                c->sent.n_good = v.pass;
                c->refused = v.reason;
                c->refused_status = v.status;
                dial_begin(w, c);
        } else if (c->client.eof || c->sent.n_held >= HELD_MAX)
                http_refuse(w, c, 400, EGRESS_BAD_REQUEST);
}

/* false: nothing came. */
static bool read_more(Warden *w, Conn *c)
{
        Flow *f = &c->sent;
        ssize_t n;

        if (!flow_reserve(w, f, MIN2(f->n_held + READ_SIZE, HELD_MAX))) {
                c->client.eof = true; /* as far as anybody here will see */
                return true;
        }
        n = recv(c->client.fd, f->held + f->n_held, f->size - f->n_held, 0);
        if (n < 0 && errno == EAGAIN) {
                c->client.readable = false;
                return false;
        }
        if (n <= 0)
                c->client.eof = true;
        else
                f->n_held += (size_t) n;
        return true;
}

void dialog_run(Warden *w, Conn *c)
{
        if (!c->client.readable || !read_more(w, c))
                return;
        if (c->sent.n_held == 0) /* closed without a word */
                conn_deny(w, c, c->decision.tls ? EGRESS_NOT_TLS : EGRESS_BAD_REQUEST);
        else if (c->decision.tls && (!c->decision.http || c->sent.held[0] == TLS_HANDSHAKE))
                tls_hello(w, c);
        else
                http_head(w, c);
        if (c->state == CONN_HELLO && c->client.readable)
                conn_enqueue(w, c);
}

void dialog_late(Warden *w, Conn *c)
{
        if (c->attempt.proto == PROTO_HTTP)
                http_refuse(w, c, 408, EGRESS_TIMEOUT);
        else
                conn_deny(w, c, EGRESS_TIMEOUT);
}
