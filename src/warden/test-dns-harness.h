/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/buf.h"
#include "warden/warden-dns.h"

/* Questions put together byte by byte, and answers read by rules of their own: what is tested shares no reader with its test. */

enum { A = 1, NS = 2, CNAME = 5, SOA = 6, NULL_ = 10, PTR = 12, MX = 15, TXT = 16, AAAA = 28, SRV = 33, OPT = 41, DS = 43,
        DNSKEY = 48, TLSA = 52, SVCB = 64, HTTPS = 65, TSIG = 250, IXFR = 251, AXFR = 252, ANY = 255, CAA = 257 };
enum { NOERROR = 0, FORMERR = 1, NXDOMAIN = 3, NOTIMP = 4, BADVERS = 16, IN = 1, CH = 3 };

/* Rules for github.com and *.example.org (tls), example.net (http), *.internal. */
extern const WardenSpec dns_spec;

/* Each test with a decider of these rules as its state. */
#define DNS_TEST(f) cmocka_unit_test_setup_teardown(f, dns_set_up, dns_tear_down)
int dns_set_up(void **state);
int dns_tear_down(void **state);

/* ---- questions; the id is always the same */

void put_header(Buf *b, unsigned flags, unsigned questions, unsigned answers, unsigned authorities, unsigned additional);
void put_question(Buf *b, const char *name, unsigned type, unsigned class);
void put_opt(Buf *b, unsigned size, unsigned version, unsigned flags, const char *data, size_t n);

/* ---- answers */

typedef struct Parsed {
        unsigned flags, rcode, type, class;
        bool question, opt, soa, dnssec_ok;
        size_t question_size;
        unsigned address_size; /* 0: no answer */
        uint8_t address[16];
        int error; /* of the extended one; -1 */
        char error_text[64];
} Parsed;

/* Asks as the warden would, and reads the answer: each byte of it is where it must be. */
Parsed ask(Decider *d, const Buf *b, DnsAnswer *ret);
/* Once without EDNS and once with: apart from that the two answers must be the same. */
Parsed ask_name(Decider *d, const char *name, unsigned type, DnsAnswer *ret);
/* A question for a name, and an answer without an address. */
void expect(Decider *d, const char *name, unsigned type, unsigned rcode, EgressReason reason);
