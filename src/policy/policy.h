/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strv.h"

/* A policy: what one kind of run may do. This library is pure: text in, values out; no clock, bus,
 * environment. Only policy-find.c and policy-load.c read files. Every key is one row of the table in
 * policy-keys.c; all else (parser, printer, explain, tightening, did-you-mean, the manual's key section,
 * golden files) derives from that row. */

typedef enum PolicyKey {
        POLICY_DESCRIPTION,
        POLICY_EXTENDS,
        POLICY_BOUNDARY,

        FILES_ROOT,
        FILES_EXPOSE,
        FILES_CREDENTIAL,
        FILES_VIEW,
        FILES_WORKSPACE,
        FILES_WORKSPACE_STORE,
        FILES_WORKSPACE_SIZE,
        FILES_WORKSPACE_INODES,
        FILES_TMP_SIZE,
        FILES_SHM_SIZE,
        FILES_COPY_OUT_SIZE,
        FILES_COPY_OUT_FILES,

        ENVIRONMENT_SET,
        ENVIRONMENT_PASS,

        NETWORK_EGRESS,
        NETWORK_ALLOW,
        NETWORK_EGRESS_BYTES,
        NETWORK_CONNECTIONS,

        LIMITS_CPU_QUOTA,
        LIMITS_MEMORY,
        LIMITS_TASKS,
        LIMITS_RUNTIME,
        LIMITS_OPEN_FILES,
        LIMITS_FILE_SIZE,
        LIMITS_OUTPUT,
        LIMITS_IO_WEIGHT,
        LIMITS_CORE_SIZE,

        SYSCALLS_PROFILE,
        SYSCALLS_ALLOW,
        SYSCALLS_DENY,
        SYSCALLS_ON_DENIED,

        AUDIT_ARGUMENTS,
        AUDIT_ALLOWED_EGRESS,
        AUDIT_DENIED_SYSCALLS,
        AUDIT_DECOYS,
        AUDIT_ON_TRIPWIRE,

        ACCESS_USERS,
        ACCESS_GROUPS,
        ACCESS_TIGHTEN,

        _POLICY_KEY_MAX,
} PolicyKey;

typedef enum PolicyType {
        POLICY_TYPE_STRING,  /* .s */
        POLICY_TYPE_LIST,    /* .l */
        POLICY_TYPE_SIZE,    /* .u, bytes or a count */
        POLICY_TYPE_TIME,    /* .u, microseconds */
        POLICY_TYPE_PERCENT, /* .u, whole percent */
        POLICY_TYPE_NUMBER,  /* .u */
        POLICY_TYPE_BOOL,    /* .u */
        POLICY_TYPE_ENUM, /* .u, index into the row's names; a higher index is never laxer than a lower one
                             where the key tightens */
} PolicyType;

/* Where a value came from, for "policy explain" and for errors. */
typedef struct PolicySource {
        char *file; /* NULL: built in (line 0), or a tightening given by the caller ("--set", line 1) */
        unsigned line;
} PolicySource;

typedef struct PolicyValue {
        uint64_t u;
        char *s;
        char **l;
        char **from;  /* of a list: for each item its source, "FILE:LINE:COLUMN" or "--set" */
        char **bound; /* of a list that --set has made smaller: the list before, which the next --set may
                         draw from too */
        bool set;     /* false: nothing given and no default; the key has no effect (EgressBytes=, FileSize=,
                         IOWeight=) */
        PolicySource source;
} PolicyValue;

typedef struct Policy {
        char *name;
        PolicyValue values[_POLICY_KEY_MAX];
} Policy;

enum { EGRESS_OPEN, EGRESS_ADDRESSES, EGRESS_FILTERED, EGRESS_NONE };
enum { BOUNDARY_KERNEL };
enum { STORE_DISK, STORE_MEMORY };
enum { ON_DENIED_ERRNO, ON_DENIED_KILL };
/* A caller may make the audit record more, never less. */
enum { ARGUMENTS_NONE, ARGUMENTS_FIRST, ARGUMENTS_ALL };
enum { ON_TRIPWIRE_LOG, ON_TRIPWIRE_FREEZE, ON_TRIPWIRE_KILL, _ON_TRIPWIRE_MAX };
extern const char *const policy_on_tripwire_names[_ON_TRIPWIRE_MAX];
/* SYSCALLS_PROFILE: enum FilterProfile of filter-compile.h */

Policy *policy_free(Policy *p);
DEFINE_CLEANUP(Policy *, policy_free)
#define _cleanup_policy_ _cleanup_(policy_freep)

/* The effective values; the key must be of that type. A key that is not set gives 0, NULL. Lists belong to
 * the policy. */
uint64_t policy_u64(const Policy *p, PolicyKey key);
const char *policy_string(const Policy *p, PolicyKey key);
char *const *policy_list(const Policy *p, PolicyKey key);
bool policy_is_set(const Policy *p, PolicyKey key);
/* Whether refused system calls are put on record: DeniedSyscalls=yes, and it can be: there is a warden, which keeps it, and
 * sendmsg(), by which the shim hands it out. */
bool policy_records_denied_calls(const Policy *p);
bool policy_can_record_denied_calls(const Policy *p);

/* Loads the named policy from dirs (first directory that has NAME.policy wins), with its Extends= chain and
 * the drop-ins NAME.policy.d/<any>.conf of all dirs (systemd's rule: same file name in an earlier dir masks
 * the later one; sorted by name). dirs == NULL: the three standard directories. The set files of Allow=@SET
 * are read from allow_dir (NULL: the standard one). Errors: all of them at once, each a line
 * FILE:LINE:COLUMN: message. -ENOENT: no such policy, -EINVAL: it is not valid. */
int policy_load(const char *name, const char *const *dirs, const char *allow_dir, Policy **ret,
                Error **reterr);

/* The same for a file of any name and place; its drop-ins are not looked for. What the file extends is
 * looked up beside it first, then in dirs. */
int policy_load_file(const char *path, const char *const *dirs, const char *allow_dir, Policy **ret,
                Error **reterr);
/* The same for a text; file is how errors call it. */
int policy_load_text(const char *file, const char *text, size_t size, const char *const *dirs,
                const char *allow_dir, Policy **ret, Error **reterr);
/* Everything that is wrong with a drop-in, or with a file of a set, taken by itself. */
int policy_check_drop_in(const char *path, Error **reterr);
int policy_check_set_file(const char *path, Error **reterr);
/* All names that policy_load() would find, sorted; and the file that it would read first for one of them
 * (NULL: none). */
int policy_list_names(const char *const *dirs, char ***ret);
int policy_find(const char *name, const char *const *dirs, char **ret);
/* The standard directories and the standard directory of sets. */
extern const char *const policy_standard_dirs[];
extern const char policy_standard_allow_dir[];
/* As policy_load(), but a missing set leaves "@SET" in the list instead of being an error: to show a policy,
 * never to run it (policy_check_enforceable() refuses it). */
int policy_load_for_display(const char *name, const char *const *dirs, const char *allow_dir, Policy **ret,
                Error **reterr);
/* The defaults alone, named name. NULL when out of memory. */
Policy *policy_new(const char *name);

/* One tightening "SECTION.KEY=VALUE" applied on top. may_widen (root only): any valid value is taken.
 * Otherwise a value that is not at least as strict as the present one is refused with -EPERM and a message
 * that names the key, the asked and the allowed value. -EINVAL: no such key, or not a valid value. For
 * lists, the first assignment replaces the policy's (Syscalls.Deny: adds to it), further ones for the same
 * key add to that. On failure p is as it was. */
int policy_tighten(Policy *p, const char *assignment, bool may_widen, Error **reterr);

/* The effective policy as text that parses back to the same one: every key that is set, in table order, with
 * comments left out. The sha256 of exactly this text is the policy's digest. Newly allocated; NULL when out
 * of memory. */
char *policy_to_text(const Policy *p);
/* Lower-case hex, 64 digits; newly allocated. */
char *policy_digest(const Policy *p);

/* Keys that parse but that this version cannot enforce with these values: refused before anything starts,
 * each by name
 * (-EOPNOTSUPP), never ignored. scope: for --unit=scope, which can carry fewer keys. */
int policy_check_enforceable(const Policy *p, bool scope, Error **reterr);

/* The addresses that Egress=addresses (the Allow= list) or Egress=open (everything) lets the run reach, less
 * the metadata services: the fewest prefixes "ADDRESS/LEN" that say exactly that. NULL list: nothing.
 * -EINVAL under any other Egress=. */
int policy_ip_allow_list(const Policy *p, char ***ret, Error **reterr);

/* Whether the caller may add this variable ("NAME" or "NAME=VALUE") to the run's environment (-e): -EPERM
 * for those that make a loader or an interpreter run other code, unless the policy names them (Set=, Pass=);
 * -EINVAL for what is no name. */
int policy_check_env(const Policy *p, const char *variable, Error **reterr);
