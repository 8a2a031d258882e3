/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>

#include "base/error.h"

/* Compiles the agentbox seccomp layer. Source of its rules: the design's filter.md, by entry points of real
 * vulnerabilities; the second, coarser layer is systemd's SystemCallFilter= allow-list (filter_systemd_allow_list). */

typedef enum FilterProfile {
        FILTER_PROFILE_JIT,     /* what runtimes with their own compilers need */
        FILTER_PROFILE_BUILD,
        FILTER_PROFILE_DEFAULT,
        FILTER_PROFILE_STRICT,  /* the smallest set */
        _FILTER_PROFILE_MAX,
} FilterProfile;

extern const char *const filter_profile_names[_FILTER_PROFILE_MAX]; /* "jit", "build", "default", "strict" */

typedef struct FilterSpec {
        FilterProfile profile;
        bool unix_sockets;         /* socket(AF_UNIX) allowed; socketpair(AF_UNIX) always is */
        bool inet_sockets;         /* AF_INET and AF_INET6: TCP, UDP, ICMP echo */
        bool kill_on_denied;       /* OnDenied=kill: a refused call kills the process instead of failing */
        char *const *allow;        /* [Syscalls] Allow=, names or @groups; NULL-terminated, may be NULL */
        char *const *deny;         /* [Syscalls] Deny= */
} FilterSpec;

/* The program for seccomp(SECCOMP_SET_MODE_FILTER), newly allocated, and its instruction count (≤ BPF_MAXINSNS).
 * Deterministic: the same spec gives the same bytes. -EINVAL with an error that names an unknown call or group, or one that
 * nothing may allow. */
int filter_compile(const FilterSpec *spec, struct sock_filter **ret, size_t *ret_n, Error **reterr);

/* The names for systemd's SystemCallFilter= allow-list: everything that the compiled filter may let through and the calls
 * that the shim itself needs before its own filter is in place (seccomp, landlock_*, capset, prctl, execve, ...). Allocated strv. */
int filter_systemd_allow_list(const FilterSpec *spec, char ***ret, Error **reterr);

/* Whether a name or @group is known, and whether [Syscalls] Allow= may name it (deny-always calls may not be). */
bool filter_name_known(const char *name);
bool filter_name_allowable(const char *name);
/* All known names and groups, for did-you-mean; NULL-terminated, static. */
const char *const *filter_known_names(void);
