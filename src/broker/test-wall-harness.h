/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "broker/broker-wall.h"

/* A wall as the broker makes one, with a cgroup for the run, whose processes are children of the test. */
typedef struct Fixture {
        Wall wall;
        char cgroup[256];
        int cgroup_fd;
        void *consumer, *producer; /* pages of the ring buffer */
        size_t page;
        const EgressCounters *counters;
} Fixture;

/* cmocka's: *state is NULL where this is not root or has no cgroup2, and the reason is printed. */
int fixture_set_up(void **state);
int fixture_tear_down(void **state);
/* The same without programs on the cgroup. */
int fixture_set_up_detached(void **state);
#define NEED_FIXTURE(f)      \
        Fixture *f = *state; \
        if (!f)              \
        skip()

/* Where the unified hierarchy is mounted; NULL: nowhere. */
const char *cgroup_root(void);
/* A new cgroup below the caller's own, and a way into it; the caller removes. */
int cgroup_make(const char *suffix, char *ret_path, size_t size);
int cgroup_join(const char *path);

/* What runs inside: 0 is success, anything up to 249 is its own. */
typedef int Inside(const void *argument);
/* Starts it as a process of the run; returns its pid. */
pid_t start_inside(Fixture *f, Inside *inside, const void *argument);
/* Waits for it: what it returned, or 128 and the signal that killed it. */
int wait_inside(pid_t pid);
/* The same, and fails the test where it is not 0. */
void finish_inside(pid_t pid);
/* Both. */
pid_t run_inside(Fixture *f, Inside *inside, const void *argument);
#define INSIDE_COMM "wall-test"

/* Takes the next event out of the ring; false: there is none. */
bool next_event(Fixture *f, EgressEvent *ret);
/* The same, and leaves it there. */
bool peek_event(Fixture *f, EgressEvent *ret);
/* Takes the next event, which must be that; dest as text. */
void expect_event(Fixture *f, EgressEventKind kind, uint8_t protocol, const char *dest, uint16_t port,
                pid_t tgid);
void expect_no_event(Fixture *f);

typedef union Address {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
} Address;
/* "1.2.3.4", "2001:db8::1", "fe80::1%1" (a number after %). */
socklen_t make_address(const char *text, uint16_t port, Address *ret);
/* Where the packet came from. */
Address source_of(const EgressEvent *e);
/* IPv4 within IPv6 counts as IPv4, as the packet is. */
bool same_address(const Address *a, const Address *b);

/* Whether the wall has what that address needs: IPv6, where it is one. */
bool has_address(const Fixture *f, const char *text);

/* What a connect comes to: 0 or positive errno. */
int connect_error(int fd, const Address *a, socklen_t n);
/* The same by a worker of io_uring(7), whose name is not the process's; -1: the kernel lets nobody. */
int uring_connect(int fd, const Address *a, socklen_t n);
int wait_readable(int fd);
