/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/io.h"
#include "base/macro.h"
#include "warden/warden-address.h"
#include "warden/warden-records.h"

/* ---- records */

typedef struct Book {
        Records records;
        EgressTally tally;
        WardenSpec spec;
        int pair[2];
        unsigned n;
        uint64_t sum;
        char last[4096];
} Book;

static void book_open(Book *b)
{
        *b = (Book){ .spec = { .run = (char *) "run",
                                     .policy = (char *) "policy",
                                     .digest = (char *) "digest",
                                     .unit = (char *) "unit",
                                     .invocation_id = (char *) "id",
                                     .record_allowed = true } };
        assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, b->pair), 0);
        assert_int_equal(records_open(&b->records, &b->spec, &b->tally, b->pair[1], 99), 0);
}

static void book_read(Book *b)
{
        ssize_t n;

        while ((n = recv(b->pair[0], b->last, sizeof(b->last) - 1, 0)) > 0) {
                const char *count;

                b->last[n] = 0;
                count = strstr(b->last, "\nAGENTBOX_COUNT=");
                b->n++;
                b->sum += count ? strtoull(count + 16, NULL, 10) : 0;
        }
}

static void book_close(Book *b)
{
        records_close(&b->records);
        close(b->pair[0]);
        close(b->pair[1]);
}

static Attempt attempt(const char *name, uint16_t port)
{
        return (Attempt){ .proto = PROTO_TCP, .name = name, .port = port, .who = { .tgid = 5, .comm = "x\n\x01y" } };
}

static void test_records_one_by_one(void **state)
{
        static Book b;
        Attempt a = attempt("a.example", 443);

        book_open(&b);
        records_denied(&b.records, &a, EGRESS_NO_RULE, 1, 1000);
        book_read(&b);
        assert_int_equal(b.n, 1);
        assert_non_null(strstr(b.last, "\nMESSAGE=Run run: x\\x0a\\x01y[5]: a.example:443 (tcp) denied: no rule names it\n"));
        assert_non_null(strstr(b.last, "\nAGENTBOX_COMM=x\\x0a\\x01y\n"));
        assert_non_null(strstr(b.last, "\nAGENTBOX_COUNT=1\n"));
        assert_false(records_pending(&b.records));
        assert_string_equal(b.tally.top[0], "a.example:443");
        book_close(&b);
}

static void test_records_many(void **state)
{
        static Book b;
        const unsigned many = 5000;
        char name[64];

        book_open(&b);
        for (unsigned i = 0; i < many; i++) {
                Attempt a = attempt(name, (uint16_t) (i % 1000));

                snprintf(name, sizeof(name), "n%u.example", i % 777);
                records_denied(&b.records, &a, i % 2 ? EGRESS_NO_RULE : EGRESS_PORT, 1, 1000);
                book_read(&b);
        }
        assert_int_equal(b.n, 200); /* the burst */
        assert_int_equal(b.tally.denied, many);
        assert_int_equal(b.tally.denied_on_record, 200);
        assert_true(records_pending(&b.records));
        while (records_flush(&b.records, 2000) == -EAGAIN)
                book_read(&b);
        book_read(&b);
        assert_int_equal(b.sum, many);
        assert_int_equal(b.tally.denied_on_record, many);
        /* As many as there is room for, and one a reason for the rest. */
        assert_int_equal(b.n, 200 + COALESCED_MAX + 2);
        assert_false(records_pending(&b.records));
        /* A second later a hundred more have a record each. */
        for (unsigned i = 0; i < 101; i++) {
                Attempt a = attempt("z.example", 1);

                records_denied(&b.records, &a, EGRESS_NO_RULE, 1, 1000 + USEC_PER_SEC);
                book_read(&b);
        }
        assert_int_equal(b.n, 200 + COALESCED_MAX + 2 + 100);
        assert_true(records_pending(&b.records));
        book_close(&b);
}

/* What differs between those in one record is not said of all of them. */
static void test_records_merged(void **state)
{
        static Book b;
        Attempt a = attempt("a.example", 443), other = a;

        book_open(&b);
        b.records.bucket.tokens = 0;
        other.who.tgid = 6;
        for (unsigned i = 0; i < 3; i++)
                records_denied(&b.records, &a, EGRESS_NO_RULE, 1, 0);
        assert_int_equal(records_flush(&b.records, 0), 0);
        book_read(&b);
        assert_int_equal(b.n, 1);
        assert_non_null(strstr(b.last, "\nAGENTBOX_PID=5\n"));
        assert_non_null(strstr(b.last, "denied 3 times: "));
        records_denied(&b.records, &a, EGRESS_NO_RULE, 1, 0);
        records_denied(&b.records, &other, EGRESS_NO_RULE, 1, 0);
        assert_int_equal(records_flush(&b.records, 0), 0);
        book_read(&b);
        assert_int_equal(b.n, 2);
        assert_null(strstr(b.last, "AGENTBOX_PID="));
        /* Other things are not merged. */
        other = a;
        other.port = 444;
        records_denied(&b.records, &a, EGRESS_NO_RULE, 1, 0);
        records_denied(&b.records, &other, EGRESS_NO_RULE, 1, 0);
        records_denied(&b.records, &a, EGRESS_PORT, 1, 0);
        other = a;
        other.proto = PROTO_UDP;
        records_denied(&b.records, &other, EGRESS_NO_RULE, 1, 0);
        assert_int_equal(records_flush(&b.records, 0), 0);
        book_read(&b);
        assert_int_equal(b.n, 6);
        assert_int_equal(b.sum, b.tally.denied);
        /* Nor is what a record that is written already said, while others of the same flush still wait. */
        records_denied(&b.records, &a, EGRESS_NO_RULE, 1, 0);
        b.records.coalesced[0].count = 0;
        other = a;
        other.rule = "tls *.example";
        assert_true(address_parse("1.2.3.4", &other.address));
        records_denied(&b.records, &other, EGRESS_NO_RULE, 1, 0);
        assert_int_equal(records_flush(&b.records, 0), 0);
        book_read(&b);
        assert_int_equal(b.n, 7);
        assert_non_null(strstr(b.last, "\nAGENTBOX_DEST_ADDR=1.2.3.4\n"));
        assert_non_null(strstr(b.last, "\nAGENTBOX_RULE=tls *.example\n"));
        book_close(&b);
}

/* A journal that fills up in the middle of being written to: nothing is written twice, nothing is left out. */
static void test_records_blocked(void **state)
{
        static Book b;
        Attempt a = attempt("a.example", 1);
        unsigned n = 0;

        book_open(&b);
        while (records_allowed(&b.records, &a, 1000) == 0)
                n++;
        assert_true(n > 0);
        assert_int_equal(b.tally.allowed, n);
        assert_false(records_unwritable(&b.records, 1000));
        assert_true(records_unwritable(&b.records, 1000 + 2 * USEC_PER_SEC));
        for (unsigned i = 0; i < 600; i++) {
                Attempt d = attempt("a.example", (uint16_t) (i % 300));

                records_denied(&b.records, &d, EGRESS_NO_RULE, 1, 2000);
        }
        assert_int_equal(b.tally.denied_on_record, 0);
        for (unsigned i = 0; records_flush(&b.records, 3000) < 0; i++) {
                records_denied(&b.records, &a, EGRESS_NO_RULE, 1, 3000); /* while it is under way */
                book_read(&b);
                assert_true(i < 1000);
        }
        book_read(&b);
        assert_false(records_unwritable(&b.records, 1000 + 2 * USEC_PER_SEC));
        assert_int_equal(b.sum, b.tally.denied);
        assert_int_equal(b.tally.denied_on_record, b.tally.denied);
        book_close(&b);
}

/* ---- what has arrived */

/* Whatever is held is there, byte for byte, however often it goes round. */
static void test_outbox(void **state)
{
        uint32_t random = 1;
        unsigned n_full = 0;
        uint8_t record[1001];
        Outbox o;
        size_t n;

        assert_int_equal(outbox_open(&o, 1000, 16), 0);
        assert_int_equal(outbox_add(&o, record, 1001), -EBUSY);
        assert_int_equal(outbox_add(&o, record, 1000), 0);
        assert_int_equal(outbox_add(&o, record, 1), -EBUSY);
        outbox_take_back(&o);
        for (unsigned i = 0; i < 20000; i++) {
                random = random * 1664525u + 1013904223u;
                n = 1 + (random >> 8) % 200;
                memset(record, (int) (uint8_t) (o.sent + 1), n);
                n_full += outbox_add(&o, record, n) == -EBUSY;
                for (uint64_t k = o.arrived + 1; k <= o.sent; k++) {
                        const uint8_t *p = outbox_get(&o, k, &n);

                        assert_in_range(n, 1, 200);
                        for (size_t j = 0; j < n; j++)
                                assert_int_equal(p[j], (uint8_t) k);
                }
                if ((random >> 28) == 0)
                        outbox_forget(&o, o.sent);
                else if ((random >> 28) < 7)
                        outbox_forget(&o, o.arrived + 1);
                outbox_forget(&o, o.sent + 1); /* not sent yet: nobody's word makes it so */
        }
        assert_true(n_full > 1000);
        outbox_close(&o);
}

#ifndef __SANITIZE_ADDRESS__ /* which keeps what was freed */
static size_t resident(void)
{
        _cleanup_free_ char *text = NULL;
        unsigned long size, pages;

        assert_int_equal(read_file("/proc/self/statm", 4096, &text, NULL), 0);
        assert_int_equal(sscanf(text, "%lu %lu", &size, &pages), 2);
        return pages * (size_t) sysconf(_SC_PAGESIZE);
}

/* After a burst the memory is the kernel's again, though something that was allocated meanwhile is still there. */
static void test_outbox_gives_back(void **state)
{
        static uint8_t record[700];
        size_t before, during;
        void *kept[100];
        Outbox o;

        assert_int_equal(outbox_open(&o, 8 << 20, 16384), 0);
        (void) malloc_trim(0);
        before = resident();
        for (size_t i = 0; i < ELEMENTSOF(kept); i++) {
                for (size_t k = 0; k < 100; k++)
                        assert_int_equal(outbox_add(&o, record, sizeof(record)), 0);
                kept[i] = malloc(100);
        }
        during = resident();
        assert_in_range(during, before + (6 << 20), SIZE_MAX);
        outbox_forget(&o, o.sent);
        assert_in_range(resident(), 0, before + (2 << 20));
        for (size_t i = 0; i < ELEMENTSOF(kept); i++)
                free(kept[i]);
        outbox_close(&o);
}
#endif

static void prove(Book *b, uint64_t arrived, uint64_t missing_to, uint64_t looked_at)
{
        b->tally.egress_proof = (JournalProof){ .arrived = arrived, .missing_to = missing_to, .looked_at = looked_at };
        b->tally.egress_proof.check = journal_proof_check(&b->tally.egress_proof);
}

/* So many records, all of which journald has dealt with. */
static void book_send(Book *b, unsigned n, uint64_t now)
{
        Attempt a = attempt("a.example", 1);

        for (unsigned i = 0; i < n; i++)
                assert_int_equal(records_allowed(&b->records, &a, now), 0);
        book_read(b);
}

/* To journald, whose read leaves nothing in the socket; the mark comes with the first call. */
static void book_check(Book *b, uint64_t now)
{
        char byte;

        journal_check(&b->records.journal, now);
        while (recv(b->pair[0], &byte, 1, MSG_PEEK) == 0)
                (void) recv(b->pair[0], &byte, 1, 0);
        journal_check(&b->records.journal, now);
}

#define SEC(x) ((x) * USEC_PER_SEC)

static void test_records_arrive(void **state)
{
        static Book b;

        book_open(&b);
        book_send(&b, 3, SEC(10));
        assert_int_equal(b.tally.egress_sent, 3);
        assert_non_null(strstr(b.last, "\nAGENTBOX_SEQUENCE=3\n"));
        assert_true(journal_wants_check(&b.records.journal));
        /* A word that is being written, or that nobody can know, is none. */
        prove(&b, 3, 0, SEC(10));
        b.tally.egress_proof.check++;
        book_check(&b, SEC(10));
        prove(&b, 4, 0, SEC(10));
        book_check(&b, SEC(10));
        assert_true(journal_wants_check(&b.records.journal));
        prove(&b, 3, 0, SEC(10));
        book_check(&b, SEC(10));
        assert_false(journal_wants_check(&b.records.journal));
        assert_int_equal(b.n, 3);
        book_close(&b);
}

static void test_records_dropped(void **state)
{
        static Book b;
        Attempt a = attempt("a.example", 1);

        book_open(&b);
        book_send(&b, 5, SEC(10));
        prove(&b, 2, 0, SEC(10) + 1);
        book_check(&b, SEC(10) + 2); /* here they are seen to have been dealt with */
        prove(&b, 2, 0, SEC(11) + 1);
        book_check(&b, SEC(11) + 1);
        assert_false(records_unwritable(&b.records, SEC(11) + 1)); /* it looked a moment too early */
        prove(&b, 2, 0, SEC(11) + 2);
        journal_check(&b.records.journal, SEC(11) + 3);
        assert_true(records_unwritable(&b.records, SEC(11) + 3));
        /* Nothing new, and the first of those that are missing. */
        assert_int_equal(records_allowed(&b.records, &a, SEC(11) + 4), -EAGAIN);
        b.n = 0;
        book_read(&b);
        assert_int_equal(b.n, 1);
        assert_non_null(strstr(b.last, "\nAGENTBOX_SEQUENCE=3\n"));
        /* It has arrived: the rest. */
        prove(&b, 3, 0, SEC(12));
        book_check(&b, SEC(12));
        book_read(&b);
        assert_int_equal(b.n, 3);
        assert_non_null(strstr(b.last, "\nAGENTBOX_SEQUENCE=5\n"));
        assert_true(records_unwritable(&b.records, SEC(12)));
        prove(&b, 5, 0, SEC(12) + 5);
        book_check(&b, SEC(12) + 6);
        assert_false(journal_wants_check(&b.records.journal));
        assert_int_equal(records_allowed(&b.records, &a, SEC(12) + 7), 0);
        assert_false(records_unwritable(&b.records, SEC(12) + 7));
        assert_int_equal(b.tally.egress_sent, 6);
        book_close(&b);
}

/* Of several, some in the middle: those alone are sent again. */
static void test_records_dropped_in_between(void **state)
{
        static Book b;

        book_open(&b);
        book_send(&b, 9, SEC(10));
        prove(&b, 2, 4, SEC(10) + 1);
        book_check(&b, SEC(10) + 2);
        prove(&b, 2, 4, SEC(11) + 2);
        b.n = 0;
        journal_check(&b.records.journal, SEC(11) + 3);
        book_read(&b);
        assert_int_equal(b.n, 1);
        prove(&b, 3, 4, SEC(11) + 4);
        book_check(&b, SEC(11) + 5);
        book_read(&b);
        assert_int_equal(b.n, 2);
        assert_non_null(strstr(b.last, "\nAGENTBOX_SEQUENCE=4\n"));
        prove(&b, 9, 0, SEC(11) + 6);
        book_check(&b, SEC(11) + 7);
        assert_false(records_unwritable(&b.records, SEC(11) + 7));
        book_close(&b);
}

/* Nobody reads them, or nobody looks: two seconds of the one, half a minute of the other. Then nothing is sent again. */
static void test_records_unproven(void **state)
{
        static Book b;
        Attempt a = attempt("a.example", 1);

        book_open(&b);
        assert_int_equal(records_allowed(&b.records, &a, SEC(10)), 0);
        prove(&b, 0, 0, SEC(12) - 1);
        journal_check(&b.records.journal, SEC(12));
        assert_false(records_unwritable(&b.records, SEC(12)));
        prove(&b, 0, 0, SEC(12));
        journal_check(&b.records.journal, SEC(12));
        assert_true(records_unwritable(&b.records, SEC(12)));
        prove(&b, 1, 0, SEC(13));
        journal_check(&b.records.journal, SEC(13));
        assert_false(records_unwritable(&b.records, SEC(13)));
        book_read(&b);
        assert_int_equal(b.n, 1);

        assert_int_equal(records_allowed(&b.records, &a, SEC(20)), 0);
        book_check(&b, SEC(49));
        assert_false(records_unwritable(&b.records, SEC(49)));
        book_check(&b, SEC(50));
        assert_true(records_unwritable(&b.records, SEC(50)));
        book_close(&b);
}

static void test_destinations(void **state)
{
        char text[ATTEMPT_DESTINATION_MAX];
        Attempt a = attempt("a.example", 443);

        attempt_destination(&a, text);
        assert_string_equal(text, "a.example:443");
        a.proto = PROTO_DNS;
        attempt_destination(&a, text);
        assert_string_equal(text, "a.example");
        a = (Attempt){ .port = 80 };
        attempt_destination(&a, text);
        assert_string_equal(text, "*");
        assert_true(address_parse("2001:db8::1", &a.address));
        attempt_destination(&a, text);
        assert_string_equal(text, "[2001:db8::1]:80");
        a.port = 0;
        attempt_destination(&a, text);
        assert_string_equal(text, "2001:db8::1");
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_records_one_by_one),
                cmocka_unit_test(test_records_many),
                cmocka_unit_test(test_records_merged),
                cmocka_unit_test(test_records_blocked),
                cmocka_unit_test(test_outbox),
#ifndef __SANITIZE_ADDRESS__
                cmocka_unit_test(test_outbox_gives_back),
#endif
                cmocka_unit_test(test_records_arrive),
                cmocka_unit_test(test_records_dropped),
                cmocka_unit_test(test_records_dropped_in_between),
                cmocka_unit_test(test_records_unproven),
                cmocka_unit_test(test_destinations),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
