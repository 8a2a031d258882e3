/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <sys/socket.h>
#include <systemd/sd-bus.h>

#include "policy/policy.h"
#include "policy/unit-props.h"
#include "wire/attest.h"

/* Compares what was promised with what holds, for one run, before its first untrusted instruction. Each promise is one row of a
 * table: name, whether the policy asks for it, how it is checked. Pure but for reading /proc/PID, the cgroup's files and the
 * BPF programs attached to the cgroup. */

/* The host's own values, taken once when the broker starts. */
typedef struct HostFacts {
        uint64_t ns[_ATTEST_NS_MAX]; /* PID 1's */
        unsigned systemd_version;
        uint32_t landlock_abi;
        char *cgroup_root_unified; /* mount point of the cgroup2 hierarchy, or NULL */
        char *cgroup_root_memory, *cgroup_root_pids, *cgroup_root_cpu; /* v1 controllers' mount points, NULL where v2 has them */
} HostFacts;
int host_facts_read(HostFacts *ret, Error **reterr);
void host_facts_done(HostFacts *h);

typedef struct VerifyInput {
        const HostFacts *host;
        const Policy *policy;
        const UnitContext *context;
        const UnitProps *sent;          /* the properties of the StartTransientUnit call */
        const Attest *attest;           /* scope: as well, the shim attests there too */
        struct ucred peer;              /* of the attestation's sender, from the kernel (SCM_CREDENTIALS) */
        const char *control_group;      /* the unit's, as PID 1 says: "/agentbox.slice/..." */
        sd_bus_message *properties;     /* reply to org.freedesktop.DBus.Properties.GetAll("") on the unit's object */
        uint64_t netns_inode;           /* of the namespace the broker made; 0 where it made none */
} VerifyInput;

/* 0: every promise holds. 1: at least one is broken (a verdict). Negative: the check itself failed, which counts as
 * broken for the caller. ret_verified: the names of promises that were checked and hold; ret_broken: "NAME: what was expected, what is". */
int broker_verify(const VerifyInput *in, char ***ret_verified, char ***ret_broken);
