/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stddef.h>

#include "warden/warden-address.h"
#include "warden/warden-http.h"
#include "warden/warden-records.h"
#include "warden/warden-resolve.h"
#include "warden/warden-route.h"
#include "warden/warden-splice.h"
#include "warden/warden-timer.h"
#include "warden/warden-tls.h"

/* The program's state, and what its files know of each other:
 *
 *   agentbox-warden.c   stages, the loop
 *   warden-setup.c      what it sees of itself; what the broker sends
 *   warden-confine.c    what it gives up
 *   warden-accept.c     connections as they come: decided, or read on
 *   warden-dialog.c     the first bytes of a connection: a hello, a request
 *   warden-dial.c       name → addresses → gate → connection, directly or by a proxy
 *   warden-relay.c      bytes, both ways
 *   warden-conn.c       one connection's life: states, time-outs, its records
 *   warden-dnsio.c      questions by UDP and TCP
 *   witness.c           a process of its own: refused system calls
 *   warden-events.c     who it was; what the kernel refused without the warden
 *   warden-records.c, warden-journal.c, warden-resolve.c, warden-route.c, warden-splice.c, warden-timer.c, warden-address.c
 */

typedef struct Warden Warden;
typedef struct Conn Conn;

/* Something that epoll tells about. It must stay where it is until the batch of events it is in has been handled: what is
 * over is freed by warden_bury(). */
typedef struct Source Source;
struct Source {
        void (*ready)(Warden *w, Source *s, uint32_t events);
};

/* ---- one connection */

typedef enum ConnState {
        CONN_HELLO,   /* the rule wants to see its first bytes */
        CONN_RESOLVE, /* waits for addresses */
        CONN_DIAL,    /* waits for one of them to answer */
        CONN_PROXY,   /* waits for the upstream proxy's answer */
        CONN_RECORD,  /* stands; waits for its record to be written */
        CONN_RELAY,   /* bytes move */
        CONN_LINGER,  /* denied: what says so is on its way */
        CONN_CLOSED,  /* both sockets are closed; waits for its last record to be written */
        CONN_DEAD,    /* to be freed */
} ConnState;

/* One of its two sockets. Edge-triggered: what is known of it holds until a call says EAGAIN. */
typedef struct End {
        Source source;
        int fd; /* -1: not there */
        bool readable, writable;
        bool hung_up; /* the peer has sent its last: read until it is seen */
        bool urgent;  /* or something urgent, at which a read ends: read on behind it */
        bool eof;     /* seen */
        bool shut;    /* nothing is sent to it any more */
} End;

#define HELD_MAX ((size_t) 64 << 10)
/* All connections together. Beyond, nothing is taken out of a socket that the other one has not taken already. */
#ifndef HELD_TOTAL_MAX
#define HELD_TOTAL_MAX ((size_t) 64 << 20)
#endif

/* One direction. What was read and could not be written is held, at most HELD_MAX; but for what splicer_size() is mistaken
 * in. */
typedef struct Flow {
        uint8_t *held;  /* NULL: nothing */
        size_t size;    /* of that */
        size_t n_held, n_good; /* good: may be written; the rest waits for more, to be judged (http) */
        size_t at;      /* of held: where the rest begins */
        bool many;      /* came at a time when something came last: worth a splice */
        uint64_t bytes; /* passed on */
} Flow;

typedef struct ConnList {
        Conn *first, *last;
} ConnList;

struct Conn {
        ConnList *list; /* the one it is in */
        Conn *previous, *next;
        Conn *next_ready;      /* of those that have work left; see queued */
        Timer timer, try_timer;
        ConnState state;
        bool queued;
        bool in_head; /* timer is that of a request head, in the middle of a connection */
        uint64_t head_at; /* which begins behind so many bytes that were sent */
        CloseReason close_reason; /* of CONN_CLOSED */
        uint64_t started, moved; /* when it was allowed; when a byte moved last */

        End client, upstream;
        Flow sent, received;

        uint16_t port;
        EgressDecision decision;
        const EgressRule *rule;
        Attempt attempt; /* for its records */
        char asked[ATTEMPT_TEXT_MAX];
        TlsReader tls;
        HttpReader http;
        EgressReason refused; /* why what the client sent behind the good bytes may not go out (http) */
        unsigned refused_status;
        bool refusal_noted; /* on record */

        Waiter waiter;
        EgressAddress *addresses; /* to be tried */
        uint32_t n_addresses, next_address, n_tries;
        EgressReason blocked, failed; /* why addresses were not tried; why those that were did not answer */
};

/* ---- the whole */

typedef struct DnsConn DnsConn;

#define SCRATCH_SIZE HELD_MAX

struct Warden {
        WardenSpec spec;
        Decider *decider;
        int fds[_WARDEN_FD_MAX]; /* -1: not there */
        int epoll_fd, signal_fd, reserve_fd;
        int witness_fd; /* -1: there is none, or it is done */
        int exit_status;
        Router router;
        Resolver resolver;
        Events events;
        Records records;
        EgressTally *tally;
        const char *resolver_path;
        bool has_proxy_address;
        EgressAddress proxy_address; /* where proxy_host is one */

        uint64_t now; /* CLOCK_MONOTONIC, microseconds; of this turn of the loop */
        Timers timers;
        Timer tick, check, watchdog;
        bool stopping;
        uint64_t stop_deadline;
        bool journal_watched, accept_paused;

        ConnList conns;   /* all that live, but for */
        ConnList waiting; /* those that wait for the journal, in this order */
        Conn *dead;       /* to be freed after this turn */
        Conn *ready, **ready_end;
        unsigned n_conns, n_conns_max;
        size_t n_held; /* by all flows */
        DnsConn *dns_conns, *dns_dead;
        unsigned n_dns_conns;
        uint32_t dns_drops[2]; /* of each DNS socket, recorded already */

        Source listeners[2], dns[2], event_source, journal_source, resolver_source, signal_source, witness_source;
        uint8_t *scratch; /* SPLICE_MAX, though of what is read into it no more than SCRATCH_SIZE is used */
        Splicer splicer;
        struct Datagram *datagram; /* of warden-dnsio.c */
};

#define CONTAINER(type, member, p) ((type *) (void *) ((char *) (p) -offsetof(type, member)))

/* ---- warden-setup.c */

int setup_hello(WardenHello *ret);
/* The one message that the broker sends. Everything is checked. */
int setup_receive(Warden *w, int channel);

/* ---- warden-accept.c */

void accept_ready(Warden *w, Source *s, uint32_t events);
/* Nothing will be accepted any more: what was begun is given up. */
void accept_over(Warden *w);
/* Reads what the kernel has told since. Called before anything that came from inside is judged. */
void warden_read_events(Warden *w);
int warden_watch(Warden *w, int fd, uint32_t events, Source *s);

/* ---- warden-conn.c */

Conn *conn_new(Warden *w, int client_fd);
/* Records the denial, then closes: with a reset, or (conn_deny_with) once the client had its chance to read the answer. */
void conn_deny(Warden *w, Conn *c, EgressReason reason);
void conn_deny_with(Warden *w, Conn *c, EgressReason reason, const void *answer, size_t n);
/* The upstream connection stands: recorded, then relayed. */
void conn_allow(Warden *w, Conn *c);
/* An allowed connection is over. reset: both ends see it. */
void conn_finish(Warden *w, Conn *c, CloseReason reason, bool reset);
/* The same, but the client has its chance to read what was sent to it, and answer. */
void conn_finish_with(Warden *w, Conn *c, CloseReason reason, const void *answer, size_t n);
/* Closes without another word. */
void conn_close(Warden *w, Conn *c, bool reset);
/* One socket alone, not of a connection yet. */
void socket_reset(int fd);
/* Tries again what waits for the journal. */
void conn_retry_records(Warden *w);
/* Not to be called with anything of a connection at hand. */
void conn_bury(Warden *w);
void conn_enqueue(Warden *w, Conn *c);
void conn_run_queue(Warden *w);
/* The run is over: each has its last record. */
void conn_stop_all(Warden *w);
int end_watch(Warden *w, End *e, int fd);
void end_note(End *e, uint32_t events);

/* ---- warden-dialog.c */

void dialog_run(Warden *w, Conn *c);
void dialog_late(Warden *w, Conn *c);

/* ---- warden-dial.c */

void dial_begin(Warden *w, Conn *c);
void dial_run(Warden *w, Conn *c);
void dial_late(Warden *w, Conn *c);
void dial_try_late(Warden *w, Conn *c);
void dial_end(Conn *c);

/* ---- warden-relay.c */

void relay_begin(Warden *w, Conn *c);
void relay_run(Warden *w, Conn *c);
void relay_late(Warden *w, Conn *c);
/* Makes room for n bytes in all; those that are held stay. */
bool flow_reserve(Warden *w, Flow *f, size_t n);
void flow_done(Warden *w, Flow *f);

/* ---- warden-dnsio.c */

struct Datagram *dns_buffer_new(void); /* for free() */
void dns_udp_ready(Warden *w, Source *s, uint32_t events);
/* Takes the descriptor. */
void dns_tcp_accept(Warden *w, int fd, const EgressAddress *server, const Who *who);
void dns_bury(Warden *w);
void dns_stop_all(Warden *w);
