/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/macro.h"
#include "warden/warden-address.h"
#include "warden/warden-events.h"
#include "warden/warden-route.h"
#include "warden/warden-timer.h"

/* ---- timers */

typedef struct Clock {
        Timers timers;
        Timer a, b;
        unsigned n_a, n_b;
        bool again;
        uint64_t now;
} Clock;

static void a_expired(void *userdata, Timer *t)
{
        Clock *c = userdata;

        c->n_a++;
        if (c->again)
                timer_set(&c->timers, t, TIMER_TICK, c->now);
}

static void b_expired(void *userdata, Timer *t)
{
        ((Clock *) userdata)->n_b++;
}

static void clock_run(Clock *c, uint64_t now)
{
        c->now = now;
        timers_run(&c->timers, now, c);
}

static void test_timers(void **state)
{
        Clock c = { .a.expired = a_expired, .b.expired = b_expired };

        timers_init(&c.timers);
        assert_true(timers_next(&c.timers) == UINT64_MAX);
        timer_set(&c.timers, &c.a, TIMER_TICK, 0);
        timer_set(&c.timers, &c.b, TIMER_DNS, 0);
        assert_true(timers_next(&c.timers) == USEC_PER_SEC);
        clock_run(&c, USEC_PER_SEC - 1);
        assert_int_equal(c.n_a, 0);
        clock_run(&c, USEC_PER_SEC);
        assert_int_equal(c.n_a, 1);
        assert_int_equal(c.n_b, 0);
        assert_true(timers_next(&c.timers) == 5 * USEC_PER_SEC);
        /* Set anew, it begins anew, in another queue as well. */
        timer_set(&c.timers, &c.b, TIMER_HEAD, USEC_PER_SEC);
        assert_true(timers_next(&c.timers) == 11 * USEC_PER_SEC);
        timer_clear(&c.b);
        timer_clear(&c.b);
        assert_true(timers_next(&c.timers) == UINT64_MAX);
        /* One that sets itself does not hold up the loop. */
        c.again = true;
        timer_set(&c.timers, &c.a, TIMER_TICK, 0);
        clock_run(&c, 100 * USEC_PER_SEC);
        assert_int_equal(c.n_a, 2);
        assert_true(timers_next(&c.timers) == 101 * USEC_PER_SEC);
        /* In a queue the first is the first that is due. */
        timer_clear(&c.a);
        timer_set(&c.timers, &c.b, TIMER_TICK, 1000);
        timer_set(&c.timers, &c.a, TIMER_TICK, 2000);
        assert_true(timers_next(&c.timers) == USEC_PER_SEC + 1000);
        clock_run(&c, USEC_PER_SEC + 1500);
        assert_int_equal(c.n_b, 1);
        assert_int_equal(c.n_a, 2);
        timer_clear(&c.a);
}

/* ---- the ring buffer, without a kernel */

#define RING_SIZE 4096u

typedef struct FakeRing {
        _Atomic uint64_t consumer, producer;
        _Alignas(8) uint8_t data[2 * RING_SIZE];
        Ring ring;
} FakeRing;

static void fake_init(FakeRing *f)
{
        memset(f, 0, sizeof(*f));
        f->ring = (Ring){ .consumer = &f->consumer, .producer = &f->producer, .data = f->data, .size = RING_SIZE };
}

/* Both copies, as the kernel maps them. */
static void fake_put(FakeRing *f, uint32_t flags, const void *p, uint32_t n)
{
        uint8_t record[512] = {};
        size_t at = f->producer % RING_SIZE, size = (n + 8 + 7) & ~(size_t) 7;
        uint32_t header = n | flags;

        memcpy(record, &header, sizeof(header));
        memcpy(record + 8, p, n);
        for (size_t i = 0; i < size; i++)
                f->data[(at + i) % RING_SIZE] = f->data[RING_SIZE + (at + i) % RING_SIZE] = record[i];
        f->producer += size;
}

static void test_ring(void **state)
{
        static FakeRing f;
        EgressEvent e = { .kind = EGRESS_EVENT_DENIED }, got;
        char odd[100] = "";

        fake_init(&f);
        assert_false(ring_next(&f.ring, ring_end(&f.ring), &got));
        /* Round and round, records of another size and given-up ones among them. */
        for (uint32_t i = 0; i < 1000; i++) {
                e.tgid = i;
                if (i % 3 == 0)
                        fake_put(&f, 0, odd, 1 + i % 63);
                if (i % 5 == 0)
                        fake_put(&f, UINT32_C(1) << 30, &e, sizeof(e));
                fake_put(&f, 0, &e, sizeof(e));
                assert_true(ring_next(&f.ring, ring_end(&f.ring), &got));
                assert_int_equal(got.tgid, i);
                assert_false(ring_next(&f.ring, ring_end(&f.ring), &got));
                assert_true(f.consumer == f.producer);
        }
        /* One that is being written holds up those behind it, until it is. */
        fake_put(&f, UINT32_C(1) << 31, &e, sizeof(e));
        e.tgid = 7;
        fake_put(&f, 0, &e, sizeof(e));
        assert_false(ring_next(&f.ring, ring_end(&f.ring), &got));
        assert_true(f.consumer == f.producer - 144);
        memcpy(f.data + f.consumer % RING_SIZE, &(uint32_t){ sizeof(e) }, 4);
        assert_true(ring_next(&f.ring, ring_end(&f.ring), &got));
        assert_true(ring_next(&f.ring, ring_end(&f.ring), &got));
        assert_int_equal(got.tgid, 7);
        /* Reading ends where it was to end. */
        fake_put(&f, 0, &e, sizeof(e));
        assert_false(ring_next(&f.ring, f.consumer, &got));
        assert_true(ring_next(&f.ring, ring_end(&f.ring), &got));
        /* A length that cannot be is not followed. */
        memcpy(f.data + f.producer % RING_SIZE, &(uint32_t){ 0x3fffffff }, 4);
        f.producer += 72;
        assert_false(ring_next(&f.ring, ring_end(&f.ring), &got));
        assert_true(f.consumer == f.producer);
}

/* ---- who */

static EgressEvent event(uint16_t source_port, const char *dest, uint16_t dest_port, uint32_t tgid)
{
        EgressEvent e = { .kind = EGRESS_EVENT_CONNECT,
                .protocol = IPPROTO_TCP,
                .source_port = source_port,
                .dest_port = dest_port,
                .source = { 10 },
                .tgid = tgid,
                .comm = "abcdefghijklmnop" };
        EgressAddress a;

        assert_true(address_parse(dest, &a));
        e.family = a.family;
        memcpy(e.dest, a.bytes, 16);
        return e;
}

static void test_who(void **state)
{
        WhoTable *t = calloc(1, sizeof(*t));
        EgressAddress a, b, source = { .bytes = { 10 } };
        EgressEvent e = event(1000, "1.2.3.4", 53, 42);
        WhoEntry gone;

        assert_non_null(t);
        e.protocol = IPPROTO_UDP;
        assert_true(address_parse("1.2.3.4", &a) && address_parse("1.2.3.5", &b));
        assert_null(who_add(t, &e, &gone));
        assert_int_equal(who_find(t, &source, 1001, &a, 53).tgid, 0);
        assert_int_equal(who_find(t, &source, 1000, &a, 54).tgid, 0);
        assert_int_equal(who_find(t, &source, 1000, &b, 53).tgid, 0);
        source.bytes[0] = 11;
        assert_int_equal(who_find(t, &source, 1000, &a, 53).tgid, 0);
        source.bytes[0] = 10;
        assert_int_equal(who_find(t, &source, 1000, &a, 53).tgid, 42);
        /* The same again, by another. */
        e.tgid = 43;
        assert_null(who_add(t, &e, &gone));
        assert_int_equal(who_find(t, &source, 1000, &a, 53).tgid, 43);
        /* Once events were lost nobody knows. */
        who_forget(t);
        assert_int_equal(who_find(t, &source, 1000, &a, 53).tgid, 0);
        assert_null(who_add(t, &e, &gone));
        assert_int_equal(who_find(t, &source, 1000, &a, 53).tgid, 43);
        /* However many there are, a new one is found, and never another's. */
        assert_true(address_parse("2001:db8::1", &a));
        for (uint32_t i = 1; i < 60000; i++) {
                Who w;

                e = event((uint16_t) i, "2001:db8::1", 53, i);
                e.protocol = IPPROTO_UDP;
                assert_null(who_add(t, &e, &gone));
                assert_int_equal(who_find(t, &source, (uint16_t) i, &a, 53).tgid, i);
                w = who_find(t, &source, (uint16_t) (i / 2), &a, 53);
                assert_true(w.tgid == 0 || w.tgid == i / 2);
        }
        free(t);
}

static EgressEvent connect_event(uint16_t source_port, uint32_t stamp)
{
        EgressEvent e = event(source_port, "1.2.3.4", 443, 42);

        e.stamp = stamp;
        return e;
}

/* Each connect() is one attempt, however often its SYN is sent, and whether or not anything is accepted. */
static void test_who_is_awaited(void **state)
{
        WhoTable *t = calloc(1, sizeof(*t));
        EgressAddress a, source = { .bytes = { 10 } };
        EgressEvent first = connect_event(1000, 7), second = connect_event(1000, 8), unknown = connect_event(1000, 0);
        WhoEntry *e, gone;
        bool told = true;

        assert_non_null(t);
        assert_true(address_parse("1.2.3.4", &a));
        e = who_add(t, &first, &gone);
        assert_non_null(e);
        assert_null(who_add(t, &first, &gone));
        assert_null(who_add(t, &unknown, &gone));
        e->told = true;
        assert_int_equal(who_take(t, &source, 1001, &a, 443, &told).tgid, 0);
        assert_false(told);
        assert_int_equal(who_take(t, &source, 1000, &a, 443, &told).tgid, 42);
        assert_true(told);
        /* Nothing is awaited of it any more. */
        assert_int_equal(who_take(t, &source, 1000, &a, 443, &told).tgid, 0);
        assert_false(told);
        /* That one came before its event, which then tells nothing new. */
        assert_null(who_add(t, &second, &gone));
        /* The first was given up, and from the same port there is another one. */
        assert_non_null(who_add(t, &first, &gone));
        e = who_add(t, &second, &gone);
        assert_non_null(e);
        assert_int_equal(e->ahead, 2);
        /* Lost events take the name, not the count. */
        e->told = true;
        who_forget(t);
        assert_int_equal(who_take(t, &source, 1000, &a, 443, &told).tgid, 0);
        assert_true(told);
        free(t);
}

/* As many as the kernel lets wait all have a place; what has to go is handed out. */
static void test_who_has_room(void **state)
{
        WhoTable *t = calloc(1, sizeof(*t));
        EgressAddress a, source = { .bytes = { 10 } };
        unsigned gone_awaited = 0, found = 0;
        WhoEntry gone;
        bool told;

        assert_non_null(t);
        assert_true(address_parse("1.2.3.4", &a));
        t->seed = 4711;
        for (unsigned i = 1; i <= 4097; i++) {
                EgressEvent e = connect_event((uint16_t) (i + 20000), i), other = event((uint16_t) (i + 20000), "9.9.9.9", 53, i);

                assert_non_null(who_add(t, &e, &gone));
                assert_true(gone.ahead <= 0);
                other.protocol = IPPROTO_UDP;
                for (unsigned k = 0; k < 20; k++, other.source[1]++) {
                        who_add(t, &other, &gone);
                        assert_true(gone.ahead <= 0);
                }
        }
        for (unsigned i = 1; i <= 4097; i++)
                found += who_take(t, &source, (uint16_t) (i + 20000), &a, 443, &told).tgid == 42;
        assert_int_equal(found, 4097);
        for (unsigned i = 1; i < 65536; i++) {
                EgressEvent e = connect_event((uint16_t) i, i);

                assert_non_null(who_add(t, &e, &gone));
                gone_awaited += gone.ahead > 0;
        }
        found = 0;
        for (unsigned i = 0; i < WHO_SETS; i++)
                for (unsigned k = 0; k < WHO_WAYS; k++)
                        found += t->entries[i][k].ahead > 0;
        assert_int_equal(found + gone_awaited, 65535);
        free(t);
}

/* ---- addresses and routes */

static void test_addresses(void **state)
{
        static const char *const good[] = { "1.2.3.4", "::", "2001:db8::1", "::ffff:1.2.3.4", "255.255.255.255" };
        static const char *const bad[] = { "", "1.2.3", "1.2.3.4.5", "0x7f.1", "fe80::1%lo", "1.2.3.4 ", "host" };

        for (size_t i = 0; i < ELEMENTSOF(good); i++) {
                struct sockaddr_storage sa;
                EgressAddress a, b;
                uint16_t port;

                assert_true(address_parse(good[i], &a));
                assert_int_equal(address_to_sockaddr(&a, 4711, &sa),
                                a.family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
                assert_true(address_from_sockaddr(&sa, &b, &port));
                assert_int_equal(port, 4711);
                assert_memory_equal(&a, &b, sizeof(a));
        }
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                EgressAddress a;

                assert_false(address_parse(bad[i], &a));
        }
        assert_false(address_from_sockaddr(&(struct sockaddr_storage){ .ss_family = AF_UNIX }, &(EgressAddress){}, &(uint16_t){ 0 }));
}

static void test_routes(void **state)
{
        static const struct {
                const char *address;
                EgressReason reason;
        } cases[] = {
                { "127.0.0.1", EGRESS_HOST_LOCAL },
                { "127.9.9.9", EGRESS_HOST_LOCAL },
                { "224.0.0.1", EGRESS_ADDR_BLOCKED },
                { "255.255.255.255", EGRESS_ADDR_BLOCKED },
        };
        Router r;

        assert_int_equal(router_open(&r), 0);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                EgressReason reason;
                EgressAddress a;

                assert_true(address_parse(cases[i].address, &a));
                reason = router_check(&r, &a, i + 1);
                /* Multicast and broadcast have no route where no interface is up. */
                assert_true(reason == cases[i].reason ||
                                (cases[i].reason == EGRESS_ADDR_BLOCKED && reason == EGRESS_CONNECT_FAILED));
        }
        close(r.fd);
}

/* The kernel is asked once a turn and address; an answer is never another turn's or another address's. */
static void test_router_asks(void **state)
{
        EgressAddress a, b;
        Router r;
        uint32_t n;

        assert_true(address_parse("127.0.0.1", &a) && address_parse("127.0.0.2", &b));
        assert_int_equal(router_open(&r), 0);
        assert_int_equal(router_check(&r, &a, 5), EGRESS_HOST_LOCAL);
        n = r.sequence;
        r.answer = EGRESS_OK; /* so that it shows where an answer comes from */
        assert_int_equal(router_check(&r, &a, 5), EGRESS_OK);
        assert_int_equal(r.sequence, n);
        assert_int_equal(router_check(&r, &b, 5), EGRESS_HOST_LOCAL);
        assert_int_equal(router_check(&r, &a, 5), EGRESS_HOST_LOCAL);
        r.answer = EGRESS_OK;
        assert_int_equal(router_check(&r, &a, 6), EGRESS_HOST_LOCAL);
        assert_int_equal(r.sequence, n + 3);
        close(r.fd);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_timers),
                cmocka_unit_test(test_ring),
                cmocka_unit_test(test_who),
                cmocka_unit_test(test_who_is_awaited),
                cmocka_unit_test(test_who_has_room),
                cmocka_unit_test(test_addresses),
                cmocka_unit_test(test_routes),
                cmocka_unit_test(test_router_asks),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
