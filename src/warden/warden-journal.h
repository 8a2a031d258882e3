/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "warden/decide.h"
#include "warden/warden-events.h"
#include "warden/warden-outbox.h"
#include "warden/warden-timer.h"
#include "wire/journal-socket.h"

/* One record as journald's native protocol has it (systemd: JOURNAL_NATIVE_PROTOCOL), sent without waiting. */

typedef enum EgressProto {
        PROTO_TLS,
        PROTO_HTTP,
        PROTO_TCP,
        PROTO_UDP,
        PROTO_DNS,
        PROTO_ICMP,
        PROTO_OTHER,
        _EGRESS_PROTO_MAX,
} EgressProto;
const char *egress_proto_to_string(EgressProto proto);

#define ATTEMPT_TEXT_MAX 256u

/* What somebody inside tried. The strings are the caller's, and escaped: no control byte is in them. */
typedef struct Attempt {
        EgressProto proto;
        const char *name;      /* NULL: the destination is an address, or cannot be told */
        EgressAddress address; /* family 0: none to be told, as of a name that was not resolved */
        uint16_t port;         /* 0: none */
        const char *rule;      /* the one that was consulted; NULL: none */
        const char *asked;     /* the name in the hello or request; NULL: not known */
        Who who;
} Attempt;
/* The destination in short: "NAME:PORT", "ADDRESS:PORT", "[ADDRESS]:PORT", of DNS "NAME"; "*" where nothing is known. */
#define ATTEMPT_DESTINATION_MAX (ATTEMPT_TEXT_MAX + 16u)
void attempt_destination(const Attempt *a, char ret[static ATTEMPT_DESTINATION_MAX]);

/* Why a connection that was allowed has ended: AGENTBOX_REASON of egress-closed. */
typedef enum CloseReason {
        CLOSE_CLOSED,      /* closed: by both sides */
        CLOSE_RESET,       /* reset: by either */
        CLOSE_IDLE,        /* idle: nothing moved for too long */
        CLOSE_BYTES_LIMIT, /* bytes-limit: EgressBytes= */
        CLOSE_REFUSED,     /* refused: a later request was not what the rule allows; it has a record of its own */
        CLOSE_RUN_ENDED,   /* run-ended */
        _CLOSE_REASON_MAX,
} CloseReason;

/* What is sent, and what has become of it. open ──▶ closed, where what journald has dealt with is not in the journal, or where for
 * too long nothing is known of it; while it is closed nothing new is sent, but what did not arrive, again and again ──▶ open, when
 * all of it is in the journal. */
typedef struct Journal {
        int fd; /* connected SOCK_DGRAM */
        const WardenSpec *spec;
        Buf common, record;     /* the fields that all have; the one that is being written */
        uint64_t blocked_since; /* it takes nothing since then; 0: it does */
        bool waits;             /* room in the socket would not help: nobody is there, it is closed, or too much is unproven */
        JournalMark mark;       /* see journal_is_read() */
        _Atomic uint64_t *sent; /* for the broker: the number of the newest one */
        const JournalProof *proof; /* the broker's word */
        Outbox outbox;
        bool closed;
        uint64_t unproven_since; /* or since there was progress */
        uint64_t dealt_with_at;  /* when it was seen that journald has dealt with all that is held; 0: it has not */
        uint64_t lost_to, again_to; /* of what has not arrived: up to where it was dropped; was sent again */
} Journal;
/* sent, proof: of the tally. n_bytes: how much of what has not arrived is held. */
#define JOURNAL_RECORD_BYTES 1024u /* a record comes to about that */
int journal_open(Journal *j, const WardenSpec *spec, int fd, _Atomic uint64_t *sent, const JournalProof *proof, size_t n_bytes);
void journal_close(Journal *j);

/* What has arrived: to be called every JOURNAL_CHECK_USEC as long as it is wanted. */
bool journal_wants_check(const Journal *j);
void journal_check(Journal *j, uint64_t now);

/* -EAGAIN: it has no room at the moment. Any other error: it is not there, or out of memory. */
int journal_denied(Journal *j, const Attempt *a, EgressReason reason, uint64_t count, uint64_t now);
int journal_allowed(Journal *j, const Attempt *a, uint64_t now);
int journal_closed(Journal *j, const Attempt *a, CloseReason reason, uint64_t sent, uint64_t received, uint64_t usec,
                uint64_t now);

/* A refused system call by name; args: as text, "" where several with different ones are told of. */
int journal_call_denied(Journal *j, const char *name, const char *args, const Who *who, uint64_t count, uint64_t now);

/* journald finds out who wrote a record when it reads it, and of a process that is gone by then only the number: such a
 * record is nobody's. So this process may end once its records have been read. Asked again and again, without waiting. */
bool journal_is_read(Journal *j);
