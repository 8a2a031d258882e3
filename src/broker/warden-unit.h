/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "broker/broker-root.h"
#include "broker/warden-plan.h"
#include "policy/unit-props.h"

/* The warden's unit: its properties, each a row of a table, and its root. */

#define WARDEN_PATH PKGLIBEXECDIR "/agentbox-warden"
#define WARDEN_SLICE "agentbox-warden.slice"

typedef struct WardenUnit {
        unsigned systemd_version;
        const char *description;
        const char *root_directory;
        char *const *binds; /* "SRC:DEST", read-only; the program itself is among them */
        const WardenPlan *plan;
} WardenUnit;

/* As UnitPropRow, for a unit that no policy but the plan shapes. */
typedef struct WardenPropRow {
        const char *name;
        UnitPropType type;
        unsigned since; /* systemd version */
        /* 1: filled in, 0: this warden needs no such property, negative errno. NULL: the constants below. */
        int (*fill)(const WardenUnit *w, UnitProp *q);
        uint64_t u;
        const char *s;
        const char *const *l;    /* ends with NULL */
        const char *verified_by; /* promise of broker-verify.h that sees it in force; "warden-settings" reads
                                    all back */
        const char *unverified;  /* where verified_by is NULL: why nothing but the read-back can see it */
} WardenPropRow;
extern const WardenPropRow warden_prop_rows[];
extern const size_t n_warden_prop_rows;

int warden_props(const WardenUnit *w, UnitProps *ret);

/* RUNTIME_DIR/ID/warden: an empty root with the program in it, and what the resolver needs where it has one.
 * dir_fd: RUNTIME_DIR/ID. shown says what is bound where, as of the run's own root. */
int warden_root_create(
                int dir_fd, const char *dir_path, const WardenPlan *plan, RunRoot *ret, Error **reterr);
