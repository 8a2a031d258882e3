/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "policy/policy.h"

/* From a policy to the properties of the transient unit: rows of a table {name, D-Bus signature, source key, minimum
 * systemd version, targets, how it is verified}. The list depends on the policy and on UnitContext alone. */

/* Facts of this host and of this run that are no policy. Paths are absolute and chosen by the broker. */
typedef struct UnitContext {
        unsigned systemd_version;
        bool scope;                     /* --unit=scope: only what a scope carries */
        const char *description;
        const char *root_directory;     /* the run's root skeleton (Root=host-usr) */
        const char *shim_path;          /* path inside the root of agentbox-exec */
        const char *netns_path;         /* Egress=filtered: /proc/PID/fd/N of the broker's namespace fd; else NULL */
        char *const *extra_binds;       /* "SRC:DEST" read-only binds that the root needs (ld.so.cache, certificates, ...) */
        const char *const *ip_allow;    /* unused: computed from the policy */
} UnitContext;

typedef enum UnitPropType {
        UNIT_PROP_STRING,      /* "s"       .s */
        UNIT_PROP_BOOL,        /* "b"       .u */
        UNIT_PROP_U64,         /* "t"       .u */
        UNIT_PROP_I32,         /* "i"       .u */
        UNIT_PROP_U32,         /* "u"       .u */
        UNIT_PROP_STRV,        /* "as"      .l */
        UNIT_PROP_BOOL_STRV,   /* "(bas)"   .u, .l */
        UNIT_PROP_PAIRS,       /* "a(ss)"   .l: two strings a pair */
        UNIT_PROP_BINDS,       /* "a(ssbt)" .l: source, destination a pair; ignore-missing false, MS_REC */
        UNIT_PROP_PREFIXES,    /* "a(iayu)" .l: "ADDRESS/LEN" each */
        UNIT_PROP_EXEC,        /* "a(sasas)" ExecStartEx: .s path, .l argv, flag no-env-expand */
        UNIT_PROP_BYTES,       /* "ay" */
} UnitPropType;

typedef struct UnitProp {
        const char *name;      /* D-Bus name; static */
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

/* The properties in the order to send. Errors as policy_check_enforceable(). */
int unit_props_from_policy(const Policy *p, const UnitContext *c, UnitProps *ret, Error **reterr);

/* "NAME=VALUE" per line as systemd's own files write it, for policy explain, golden files and "systemd-run" comparisons. */
char *unit_props_to_text(const UnitProps *p);
