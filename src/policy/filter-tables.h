/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdint.h>

#include "policy/filter-compile.h"

/* What the filter says, as data; filter-compile.c turns it into a program and the tests hold the program
 * against it. */

#define FILTER_NOWHERE (-1)

/* Every call belongs to exactly one group, and all that is decided about a call without looking at its
 * arguments is decided by its group. */
typedef struct FilterGroup {
        const char *name; /* "@..." */
        int strictest;    /* the strictest FilterProfile that has the group; all laxer ones have it too */
        int refusal; /* errno where it is refused: EPERM, or ENOSYS where programs then do without the call
                      */
        bool never;  /* [Syscalls] Allow= may not name it */
        const char *about;
        bool harmless; /* ordinary programs try it and carry on without (cp -a, sed -i, nice): no reason for
                        * OnDenied=kill, but where Deny= names it */
} FilterGroup;

extern const FilterGroup filter_groups[];
extern const size_t filter_n_groups;

/* All names: a group's name, then its calls, then the next group's name; NULL-terminated. */
extern const char *const filter_names[];

/* The group with that name; the group of a call. NULL where it is not known. */
const FilterGroup *filter_group_find(const char *name) _pure_;
const FilterGroup *filter_group_of(const char *call) _pure_;

/* The next call of a group after the one given (NULL: the first), or NULL. */
const char *const *filter_group_next(const FilterGroup *g, const char *const *call) _pure_;
#define FILTER_GROUP_FOREACH(call, group)                                      \
        for (const char *const *call = filter_group_next((group), NULL); call; \
                        call = filter_group_next((group), call))

/* Calls and groups whose refusal is worth a record: an ordinary program never makes them, an exploit begins with them.
 * Not here is what PID 1's own protections refuse before any filter of ours is heard (clocks: ProtectClock=, ports:
 * PrivateDevices=, the host's name and log). NULL-terminated. */
extern const char *const filter_recorded[];

/* Calls that libraries of the years before them do not know. Their numbers are the same on every
 * architecture. -1: not here. */
int filter_late_number(const char *call) _pure_;
/* The highest number that the tables know. What lies beyond it answers ENOSYS, as on a kernel that is not
 * newer. */
#define FILTER_NUMBER_MAX 469u

/* A comparison of one argument. The kernel takes an int argument from the low 32 bits of the register and
 * never looks at the others, so those of the mask must be zero for it; only a long or a pointer is compared
 * whole. */
typedef struct FilterCompare {
        enum { COMPARE_NONE, COMPARE_EQUAL, COMPARE_ANY_BIT } op; /* arg & mask == value; arg & mask != 0 */
        uint8_t arg;
        uint64_t mask, value;
} FilterCompare;

#define FILTER_COMPARES_MAX 3

typedef enum FilterNeed {
        NEED_NOTHING,
        NEED_UNIX,    /* a field of the spec */
        NEED_INET,    /* a field of the spec */
        NEED_NETLINK, /* any profile but strict */
        _NEED_MAX,
} FilterNeed;
bool filter_spec_has(const FilterSpec *s, FilterNeed need) _pure_;

/* A call that has any grant is refused but for its grants, whatever group it is in and whatever Allow= says.
 */
typedef struct FilterGrant {
        const char *call;
        FilterProfile strictest;
        FilterNeed need;
        FilterCompare compares[FILTER_COMPARES_MAX];
} FilterGrant;

/* A refusal holds against every grant. */
typedef struct FilterRefusal {
        const char *call;
        int error;
        FilterNeed unless; /* NEED_NOTHING: always; otherwise only where the spec does not have it */
        FilterCompare compares[FILTER_COMPARES_MAX];
} FilterRefusal;

/* A call with arguments that change nothing, though its group is refused: it answers success, truthfully,
 * and the kernel never sees it. Not where Deny= names the call. GNU make and posix_spawn() set ids that the
 * process has already, and give up where that fails. */
typedef struct FilterNoOp {
        const char *call;
        FilterCompare compares[FILTER_COMPARES_MAX];
        bool always; /* also where the call is not refused */
} FilterNoOp;

/* Stands for the run's own uid, which is not known before the run is: see filter_set_uid(). Neither a uid
 * that anybody has (the kernel's -1 aside, systemd and others stay below 2^31) nor any other constant of the
 * tables. */
#define FILTER_SELF_PLACEHOLDER 0xa9e27b0cu

extern const FilterNoOp filter_no_ops[];
extern const size_t filter_n_no_ops;
extern const FilterGrant filter_grants[];
extern const size_t filter_n_grants;
extern const FilterRefusal filter_refusals[];
extern const size_t filter_n_refusals;

/* As filter_compile(), for the architecture with this AUDIT_ARCH_* value. */
int filter_compile_for(const FilterSpec *spec, uint32_t audit_arch, struct sock_filter **ret, size_t *ret_n,
                Error **reterr);
