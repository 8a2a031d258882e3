/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/macro.h"

/* What a run was refused of the network, out of its egress-denied records: equal ones together, with their
 * sums. Bounded, whatever the run did: what goes beyond is counted, and its destinations are forgotten. */

enum { EGRESS_GROUPS_MAX = 2048 };

/* Attempts of a run with the same destination, protocol and reason. Strings are the records' own, not safe
 * to show; NULL where a record has none. */
typedef struct EgressGroup {
        char *run;
        char *name; /* the host's name */
        char *address;
        char *proto;                    /* "tls", "http", "tcp", "udp", "dns", "icmp", "other" */
        char *reason;                   /* egress_reason_to_string() of the warden */
        char *rule;                     /* the one that was consulted */
        char *asked;                    /* the name in a hello or head, where it is another one than name */
        uint16_t port;                  /* 0: none */
        char *comm;                     /* what the process called itself, where it was the same in all */
        uint64_t count, last;           /* attempts; the place of the last record among all */
        uint64_t first_usec, last_usec; /* when; 0: not known */
        bool warns;                     /* of a priority that asks to be looked at */
        size_t n_names; /* different names below name that were folded into this group; 0: name is one itself
                         */
} EgressGroup;

typedef struct EgressDenials {
        EgressGroup *groups;
        size_t n;
        json_t *places; /* key → index */
        uint64_t n_records, count;
        uint64_t forgotten; /* attempts of count that no group has */
} EgressDenials;

void egress_denials_done(EgressDenials *d);
#define _cleanup_denials_ _cleanup_(egress_denials_done)

/* 1: taken. 0: the record is none of this kind. -ENOMEM. */
int egress_denials_take(EgressDenials *d, const json_t *record);
/* Names that were looked up below one domain, very many of them, become one group. To be called once, when
 * all records are taken. */
int egress_denials_fold(EgressDenials *d);

/* The group's destination for people: "evil.example", "evil.example:443", "[2001:db8::1]:22", "8 names below
 * x.example"; "" where it is not known. Newly allocated and safe to show; NULL when out of memory. */
char *egress_destination(const EgressGroup *g);
/* Of a record that speaks of one destination: the same. */
char *egress_record_destination(const json_t *record);
/* AGENTBOX_COUNT of a record; 1 where it has none. */
uint64_t egress_record_count(const json_t *record);
