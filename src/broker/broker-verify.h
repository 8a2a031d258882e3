/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <systemd/sd-bus.h>

#include "base/buf.h"
#include "broker/broker-root.h"
#include "broker/decoys.h"
#include "policy/policy.h"
#include "policy/unit-props.h"
#include "wire/attest.h"
#include "wire/egress.h"

/* Compares what was promised with what holds, for one run, before its first untrusted instruction. Each
 * promise is one row of a table: name, whether the policy asks for it, how it is checked. Pure but for
 * reading /proc/PID, the cgroup's files and the BPF programs attached to the cgroup.
 *
 * Three witnesses, none of whom is believed alone: the shim (what the kernel tells the process that becomes
 * the workload), PID 1 (the unit's settings as it has them, drop-ins included), and the kernel as the broker
 * sees it from outside. */

/* The host's own values, taken once when the broker starts. systemd_version is the caller's to set: PID 1
 * knows it. */
typedef struct HostFacts {
        uint64_t ns[_ATTEST_NS_MAX]; /* PID 1's */
        unsigned systemd_version;
        uint32_t landlock_abi;
        char *cgroup_root_unified; /* mount point of the cgroup2 hierarchy, or NULL */
        /* v1 controllers' mount points, NULL where v2 has them */
        char *cgroup_root_memory, *cgroup_root_pids, *cgroup_root_cpu, *cgroup_root_devices,
                        *cgroup_root_blkio;
        bool has_swap;
        bool can_freeze; /* PID 1 can freeze a unit */
        /* For tests; NULL: /proc, bpf(2), statfs(2) and fanotify(7). */
        const char *proc;
        int (*statfs)(int fd, struct statfs *ret);
        int (*is_marked)(int group_fd, dev_t device, ino_t inode); /* tripwire_is_marked() */
        int (*bpf_count)(int cgroup_fd, unsigned attach_type); /* programs attached to that cgroup itself, or
                                                                  negative errno */
} HostFacts;
/* Needs CAP_SYS_PTRACE: it looks at PID 1's namespaces. */
int host_facts_read(HostFacts *ret, Error **reterr);
void host_facts_done(HostFacts *h);

/* The warden of a filtered run, and its wall. */
typedef struct VerifyWarden {
        const UnitProps *sent;
        sd_bus_message *properties; /* as of the run's unit */
        const char *control_group;
        const WardenHello *hello;
        struct ucred peer;           /* of the hello's sender, from the kernel */
        const char *program;         /* its path on the host */
        const char *root_directory;  /* likewise */
        unsigned n_slices, n_slices_told; /* which the unit is in; of them, those that have told what they allow */
        char *const *open_slices;    /* the names of those that allow addresses */
        int journal_fd, tally_fd;    /* as they will be handed to it */
        const char *journal_path;    /* where the first of them must lead */
        int run_cgroup_fd;           /* of the run's cgroup2 group */
        /* wall_verify(), on its wall */
        const void *wall;
        int (*wall_verify)(const void *wall, int cgroup_fd, Buf *why);
        const struct BusProps *read; /* as VerifyInput.read */
} VerifyWarden;

typedef struct VerifyInput {
        const HostFacts *host;
        const Policy *policy;
        const UnitContext *context;
        const RunRoot *root;        /* scope: NULL */
        const UnitProps *sent;      /* the properties of the StartTransientUnit call */
        const Attest *attest;       /* scope: as well, the shim attests there too */
        struct ucred peer;          /* of the attestation's sender, from the kernel (SCM_CREDENTIALS) */
        pid_t main_pid;             /* PID 1's main process by now; where it makes a PID namespace, it names another at first */
        const char *control_group;  /* the unit's, as PID 1 says: "/agentbox.slice/..." */
        sd_bus_message *properties; /* reply to org.freedesktop.DBus.Properties.GetAll("") on the unit's
                                       object */
        /* The same of the run's own slice, "agentbox.slice" and "-.slice": what they allow, the unit may.
         * NULL only where the network is the run's own. */
        sd_bus_message *run_slice_properties, *slice_properties, *root_slice_properties;
        const AttestFs *disk;        /* the workspace on disk, as the broker sees it in the run's root; NULL: in memory */
        uint64_t netns_inode;        /* of the namespace the broker made; 0 where it made none */
        const VerifyWarden *warden;  /* NULL: it has none */
        bool has_view;               /* --view */
        int view_fd;                 /* with it: its top, as agentbox-view has mounted it */
        const Decoys *decoys;        /* as they were put in place; NULL: there are none */
        int tripwire_fd;             /* the group in which they are marked (tripwire.h) */
        const struct BusProps *read; /* the properties, as broker_verify() has read them; not for callers */
} VerifyInput;

/* 0: every promise holds. 1: at least one is broken (a verdict). Negative: the check itself failed, which
 * counts as broken for the caller. ret_verified: the names of promises that were checked and hold;
 * ret_broken: "NAME: what was expected, what is". */
int broker_verify(const VerifyInput *in, char ***ret_verified, char ***ret_broken);

/* The table, in the order of the audit record. */
typedef struct VerifyRow {
        const char *name;
        const char *promise;                    /* for people: "agentbox doctor", the manual */
        const char *advice;                     /* for them, where it is broken; NULL: what check says is all */
        bool scope;                             /* can be kept by a scope, too */
        bool (*applies)(const VerifyInput *in); /* NULL: always */
        /* 0: holds. 1: broken, why says what was expected and what is. Negative errno: cannot be checked. */
        int (*check)(const VerifyInput *in, Buf *why);
} VerifyRow;
extern const VerifyRow verify_rows[];
extern const size_t n_verify_rows;
/* Which run would prove it: "every", one under the policy "offline", "default" or "strict", one with Egress=addresses
 * ("addresses"); "": none that is made for that. */
const char *verify_row_trial(const VerifyRow *row);
