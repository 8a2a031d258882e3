/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "policy/policy.h"

/* From a policy to the properties of the transient unit: rows of a table {name, D-Bus signature, source key,
 * minimum systemd version, targets, how it is verified}. The list depends on the policy and on UnitContext
 * alone. */

/* Facts of this host and of this run that are no policy. Paths are absolute and chosen by the broker. */
typedef struct UnitContext {
        unsigned systemd_version;
        bool cgroup_v1; /* the controllers are on hierarchies of version 1 */
        bool scope; /* --unit=scope: only what a scope carries */
        const char *description;
        const char *slice;          /* the run's own: what it used can be read there when the unit is gone */
        const char *root_directory; /* the run's root skeleton (Root=host-usr) */
        const char *shim_path;      /* of agentbox-exec on the host, and in the root where that is the host's */
        /* Name of an abstract unix socket that the broker listens on while the shim attests (without the
         * leading NUL; [a-z0-9-]): argv[2] of the shim, which must not reach it from a private network.
         * NULL: not tried. */
        const char *probe_abstract;
        const char *netns_path; /* Egress=filtered: /proc/PID/fd/N of the broker's namespace fd; else NULL */
        const char *ip_filter_path;  /* Egress=filtered: a pinned BPF program for its packets
                                        (loopback-filter.h); NULL: none */
        const char *warden_unit;     /* Egress=filtered: the unit of its warden, in the same transaction; NULL: none */
        char *const *extra_binds;    /* "SRC:DEST" read-only binds that the root needs (ld.so.cache,
                                        certificates, ...) */
        const char *const *ip_allow; /* unused: computed from the policy */
        /* A scope's alone: where its workspace is mounted, the name of the mount unit, and whose it is. */
        const char *workspace, *workspace_mount;
        uid_t uid;
        gid_t gid;
} UnitContext;

typedef enum UnitPropType {
        UNIT_PROP_STRING,    /* "s"       .s */
        UNIT_PROP_BOOL,      /* "b"       .u */
        UNIT_PROP_U64,       /* "t"       .u */
        UNIT_PROP_I32,       /* "i"       .u */
        UNIT_PROP_U32,       /* "u"       .u */
        UNIT_PROP_STRV,      /* "as"      .l */
        UNIT_PROP_BOOL_STRV, /* "(bas)"   .u, .l */
        UNIT_PROP_PAIRS,     /* "a(ss)"   .l: two strings a pair */
        UNIT_PROP_BINDS,     /* "a(ssbt)" .l: source, destination a pair; ignore-missing false, MS_REC */
        UNIT_PROP_PREFIXES,  /* "a(iayu)" .l: "ADDRESS/LEN" each */
        UNIT_PROP_EXEC,      /* "a(sasb)" ExecStart: .s path, .l argv, in which no "$" stands */
} UnitPropType;

typedef struct UnitProp {
        const char *name; /* D-Bus name; static */
        UnitPropType type;
        uint64_t u;
        char *s;
        char **l;
} UnitProp;

typedef struct UnitProps {
        UnitProp *props;
        size_t n;
} UnitProps;

void unit_props_done(UnitProps *p);

/* The table behind it, for whoever explains or verifies. Properties that belong to one run and no policy
 * (the standard input descriptor, the reference that keeps the unit) are not here: the broker adds them to
 * its message. */
enum { UNIT_TARGET_SERVICE = 1 << 0, UNIT_TARGET_SCOPE = 1 << 1 };
typedef struct UnitPropRow {
        const char *name;      /* D-Bus name */
        const char *file_name; /* in unit files; NULL: the same; "": said by the row before it */
        UnitPropType type;
        uint64_t keys;  /* UNIT_PROP_KEY() of each policy key that it carries; 0: the same under every policy
                         */
        unsigned since; /* the first systemd version that knows it; 0: every version we support (252) */
        unsigned targets; /* UNIT_TARGET_… */
        /* What is sent. With fill: 1 it was filled in, 0 this policy needs no such property, negative errno.
         * Without: the constants below, or else the number that the one key carries, times scale, left out
         * where the key is not set. */
        int (*fill)(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr);
        uint64_t u, scale;
        const char *s;
        const char *text; /* the value in unit files where it is always the same */
        /* The promise (broker-verify.h) that fails when the kernel does not do it; beside that, promise
         * "properties" reads every one of them back. NULL: why nothing but the read-back can see it. */
        const char *verified_by;
        const char *unverified;
} UnitPropRow;
#define UNIT_PROP_KEY(key) (UINT64_C(1) << (key))

extern const UnitPropRow unit_prop_rows[];
extern const size_t n_unit_prop_rows;
const UnitPropRow *unit_prop_row(const char *name);

/* The properties in the order to send. Errors as policy_check_enforceable(). */
int unit_props_from_policy(const Policy *p, const UnitContext *c, UnitProps *ret, Error **reterr);
/* Those of the mount unit that a scope's workspace is: in one transaction with the scope, and unmounted by
 * PID 1 when the scope is over. */
int unit_props_of_workspace(const Policy *p, const UnitContext *c, UnitProps *ret, Error **reterr);
const UnitProp *unit_props_find(const UnitProps *p, const char *name);

/* "NAME=VALUE" per line as systemd's own files write it, for policy explain, golden files and "systemd-run"
 * comparisons. NULL when out of memory. */
char *unit_props_to_text(const UnitProps *p);
/* One line of it (of LoadCredential, one for each); *ret is NULL for a property that has no line of its own.
 */
int unit_prop_to_text(const UnitProp *q, char **ret);
/* The lines of the properties that carry this key, for policy explain; an empty list where none does. */
int unit_props_text_for_key(const UnitProps *p, PolicyKey key, char ***ret);

/* Links in the run's root (broker-root.h), to /tmp and /var/tmp. Mounting by these names is what gives both
 * a limit: DynamicUser= forces PrivateTmp=, which before 257 is a directory of the host's /tmp without any
 * quota, and an entry for the same path outranks TemporaryFileSystem=. systemd sorts by the path as given,
 * follows links when it comes to them and drops as duplicates only what is not mounted yet; so an entry that
 * sorts behind /var/tmp replaces what PrivateTmp= mounted. Promise "tmp" checks the outcome. */
#define UNIT_TMP_LINK "/var/zz-tmp"
#define UNIT_VAR_TMP_LINK "/var/zz-var-tmp"

/* The home directory of a run that has decoys (Decoys=): a file system of its own, so that none of them is in the
 * workspace. Else the workspace is its home. */
#define UNIT_HOME "/home/agent"
const char *unit_home(const Policy *p);

/* Where the shim is in a root of another tree: not beneath /usr, which is that tree's. An empty file to mount it on
 * is made by whoever makes the root. */
#define UNIT_SHIM_PATH "/.agentbox-exec"
