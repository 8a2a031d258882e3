/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "broker/test-wall-harness.h"

/* Plays the broker, the kernel's wall (a real one), the journal, PID 1 and the world for one agentbox-warden. The test's own
 * network namespace becomes the host's: it has an interface to the world, whose addresses are global ones that exist in
 * there alone. Everything asserts: a harness that does not work is a failed test. */

#define HOST_IPV4 "93.184.216.1"
#define WORLD_IPV4 "93.184.216.34"
#define WORLD_IPV6 "2606:2800:220:1::34"
#define WORLD_PRIVATE_IPV4 "10.1.2.3"
#define BLACK_HOLE_IPV4 "93.184.217.9" /* whatever is sent there is lost */

/* What listens in the world, on every address of it. */
#define PORT_ECHO 443   /* sends back what comes, and closes after the end of it */
#define PORT_ECHO_HTTP 80
#define PORT_SINK 4001  /* reads to the end, then sends how many bytes that were, as a decimal number */
#define PORT_SOURCE 4002 /* reads a decimal number and a line break, then sends so many bytes */
#define PORT_STUCK 4003 /* accepts and reads nothing */
#define PORT_RESET 4004 /* resets as soon as a byte came */
#define PORT_GATED 4005 /* asks (world_gate) once a byte came; when told to, sends one and closes, and tells that */
#define PORT_PROXY 3128 /* CONNECT: to itself as an echo; refuses what has "refused" in its name */
#define PORT_NOBODY 4999

/* Names that the resolver of these tests (test-warden-resolver.c) knows. */
#define NAME_WORLD "one.example"         /* WORLD_IPV4 */
#define NAME_WORLD6 "six.example"        /* WORLD_IPV6 */
#define NAME_BOTH "both.example"         /* BLACK_HOLE_IPV4, then WORLD_IPV4 */
#define NAME_PRIVATE "private.example"   /* WORLD_PRIVATE_IPV4 */
#define NAME_MIXED "mixed.example"       /* WORLD_PRIVATE_IPV4, then WORLD_IPV4 */
#define NAME_METADATA "metadata.example" /* 169.254.169.254, then WORLD_PRIVATE_IPV4 */
#define NAME_HOST "host.example"         /* HOST_IPV4 */
#define NAME_BROADCAST "broadcast.example"
#define NAME_HOLE "hole.example"         /* BLACK_HOLE_IPV4 */
#define NAME_FAIL "fail.example"         /* cannot be resolved */
#define NAME_SILENT "silent.example"     /* no answer ever */
#define NAME_DEADLY "deadly.example"     /* the resolver dies of it */
#define NAME_GARBAGE "garbage.example"   /* it answers with what is no answer */

extern const char *test_warden, *test_resolver; /* paths of the programs under test */
extern int world_gate[2];                       /* a stream: the test's end, the world's */

/* argv: agentbox-warden, the resolver. Makes namespaces and servers, once, and runs the tests in them, each with a wall of its
 * own. What main() returns; where it cannot be had here, that is printed, and nothing has failed. */
int world_run(int argc, char *argv[], const struct CMUnitTest *tests, size_t n);
#define WORLD_TEST(f) cmocka_unit_test_setup_teardown(f, fixture_set_up, fixture_tear_down)

typedef struct Options {
        const char *const *rules; /* "tls NAME:PORT [private=allow] [ech=allow]" and so on */
        uint32_t connections;     /* 0: 64 */
        uint64_t egress_bytes;    /* 0: no limit */
        bool quiet;               /* what is allowed is not recorded */
        const char *proxy_host;
        unsigned watchdog_usec;
        unsigned open_files;      /* 0: as it is */
        bool small_journal;       /* its socket has room for a few records */
        bool full_notify;         /* PID 1's has none */
        const char *resolver;     /* another program */
        bool tcp_only;            /* without IPv6 */
} Options;

typedef struct Box {
        Fixture *wall;
        pid_t pid;
        int channel, journal, notify, tally_fd;
        EgressTally *tally;
        WardenHello hello;
        WardenReady ready;
        char **records; /* all that came so far, each with a line break before and behind it */
        size_t n_records;
        bool journal_drops; /* what comes is lost, and nobody says so */
} Box;

/* Up to WardenReady. */
void box_start(Box *b, Fixture *f, const Options *o);
/* SIGTERM, and everything that was recorded until then; returns its exit status, or 128 + signal. */
int box_stop(Box *b);
void box_done(Box *b);

/* Reads what came; waits for up to 10 s until there are n records of an event in all. */
void box_read_records(Box *b);
void box_expect(Box *b, const char *event, size_t n);
/* The i-th record of an event; NULL where there are fewer. */
const char *box_record(const Box *b, const char *event, size_t i);
size_t box_count(const Box *b, const char *event);
/* Sum of AGENTBOX_COUNT of those of egress-denied that have "\nFIELD=VALUE\n" (NULL: all). */
uint64_t box_denied(const Box *b, const char *field);
void assert_field(const char *record, const char *name, const char *value);
void assert_no_field(const char *record, const char *name);

/* ---- used inside: 0 or errno-like results, no asserting */

#define CHECK(x)                                                                                       \
        do {                                                                                           \
                if (!(x)) {                                                                            \
                        fprintf(stderr, "# inside, line %i: %s (errno %i)\n", __LINE__, #x, errno);    \
                        return 1;                                                                      \
                }                                                                                      \
        } while (0)

/* The address that the warden gives to name; -1: NXDOMAIN; -2: no answer. */
int ask_name(const char *name, char ret[static INET6_ADDRSTRLEN]);
/* Connected, blocking, with a time-out of 20 s; -1 and errno. */
int connect_to(const char *address, uint16_t port);
int connect_name(const char *name, uint16_t port);
/* Reads until n bytes, the end (returns less) or an error (-errno). */
ssize_t read_all(int fd, void *p, size_t n);
/* A ClientHello with this name in it (NULL: without). Returns its size. */
size_t make_hello(const char *name, uint8_t ret[static 1024]);

/* Whole conversations, for run_inside(): a hello to PORT_ECHO and back, argument is the name; a few bytes to PORT_SINK of
 * NAME_WORLD. */
int talk_tls(const void *argument);
int talk_once(const void *argument);
