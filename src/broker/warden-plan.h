/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/strv.h"
#include "broker/host-config.h"
#include "policy/policy.h"
#include "policy/prefix-set.h"
#include "wire/egress.h"

/* What the warden of one filtered run is to do, from the run's policy and what the administrator says of
 * this host's network; and what its unit must therefore be able to reach. Pure. */

#define WARDEN_CONNECTIONS_DEFAULT 1024u
/* As much processor time as its run may have, but so much that it can begin at all, and no more than its two processes can use. */
#define WARDEN_CPU_MIN 50u
#define WARDEN_CPU_MAX 200u

typedef struct WardenPlan {
        EgressRule *rules;
        uint32_t n_rules;
        uint64_t egress_bytes; /* UINT64_MAX: no limit */
        uint32_t connections;
        uint32_t cpu_percent;
        bool record_allowed;
        HostConfig host; /* without its proxy where there is no rule: nothing goes out then */
        bool resolves; /* a rule or the proxy is a name: it starts a resolver, which needs libraries and /etc
                        */
        char **deny, **allow; /* IPAddressDeny=, IPAddressAllow= of its unit */
        bool names_metadata;  /* a name server lies in a metadata range: its address is in allow, for all
                                 ports */
} WardenPlan;
void warden_plan_done(WardenPlan *p);

/* host changes hands. resolv_conf: the host's, as text; NULL where there is none. */
int warden_plan_make(
                const Policy *p, HostConfig *host, const char *resolv_conf, WardenPlan *ret, Error **reterr);

/* What of it is said in the WardenSpec; the rest is the caller's to fill in. All of it is lent. */
void warden_plan_to_spec(const WardenPlan *p, WardenSpec *ret);

/* ---- warden-lock.c: the second lock, addresses that the kernel refuses to the warden's unit whatever it
 * decides */

/* Private and special-purpose ranges, less what rules name; loopback, link-local, metadata, multicast and
 * the like, of which nothing is ever taken out; and all of them as a translator (NAT64, 6to4) would take
 * them. */
int warden_lock_deny(const WardenPlan *p, char ***ret);
/* What must be let through all the same, for in systemd an allowed address wins: the name servers, if it
 * resolves, and a proxy given by address, as far as they are denied. */
int warden_lock_allow(const WardenPlan *p, const char *resolv_conf, char ***ret, bool *ret_names_metadata);
/* The name servers that the C library would ask: the first three, or 127.0.0.1 where none is named. */
int resolv_conf_servers(const char *text, char ***ret);
/* Whether one of the prefixes "ADDRESS/LEN" holds the address. */
bool prefixes_hold(char *const *prefixes, const char *address);
