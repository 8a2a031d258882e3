/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Compiles the agentbox seccomp layer: an allow-list of calls by profile, some of them with certain
 * arguments only, and refusals of arguments that hold whatever is allowed. Chosen by the entry points of
 * real vulnerabilities. The second, coarser layer is systemd's SystemCallFilter= allow-list
 * (filter_systemd_allow_list).
 *
 * A refused call answers EPERM, or what a kernel without it would answer (ENOSYS, EAFNOSUPPORT, EINVAL)
 * where programs then do without. A few that would change nothing answer success without being made. Calls
 * of foreign architectures (i386, x32) kill the process. */

typedef enum FilterProfile {
        FILTER_PROFILE_JIT, /* what runtimes with their own compilers need */
        FILTER_PROFILE_BUILD,
        FILTER_PROFILE_DEFAULT,
        FILTER_PROFILE_STRICT, /* the smallest set */
        _FILTER_PROFILE_MAX,
} FilterProfile;

extern const char *const filter_profile_names[_FILTER_PROFILE_MAX]; /* "jit", "build", "default", "strict" */

typedef struct FilterSpec {
        FilterProfile profile;
        bool unix_sockets;   /* socket(AF_UNIX) allowed; socketpair(AF_UNIX) for streams always is */
        bool inet_sockets;   /* AF_INET and AF_INET6: TCP, UDP, ICMP echo */
        bool kill_on_denied; /* OnDenied=kill: EPERM becomes the end of the process; "not here" stays an
                              * error, as do owners of files and priorities */
        bool record_denied;  /* a refusal of one of filter_recorded (filter-tables.h) is left to whoever listens, who
                              * answers EPERM or ends the run, and puts it on record */
        char *const *allow; /* [Syscalls] Allow=, names or @groups; NULL-terminated, may be NULL. Rules about
                             * the arguments of a call stay in force where it is named here. */
        char *const *deny;  /* [Syscalls] Deny=; wins over Allow= */
} FilterSpec;

/* The program for seccomp(SECCOMP_SET_MODE_FILTER) but for the uid: see filter_set_uid(). Newly allocated,
 * with its instruction count (at most BPF_MAXINSNS). Deterministic: the same spec gives the same bytes.
 * -EINVAL with an error that names an unknown call or group, one that nothing may allow, or one that no
 * program does without (execve, exit). -EOPNOTSUPP: neither x86-64 nor aarch64. */
int filter_compile(const FilterSpec *spec, struct sock_filter **ret, size_t *ret_n, Error **reterr);

/* Puts the uid of the run into its copy of the program, which is not to be loaded without: setting just this
 * uid answers success. Returns the number of places, 0 only where Allow= or Deny= names the calls that set a
 * uid. -EINVAL: no uid of a run (0, or beyond 2^31), or the program has the placeholder where it is not a
 * uid; then it is as it was. */
int filter_set_uid(struct sock_filter *program, size_t n, uint32_t uid);

/* The numbers of the calls that a program with record_denied leaves to its listener whatever their arguments are: each may
 * be tried with arguments that nothing would come of (all bits set), to see that somebody listens. Newly allocated. */
int filter_recorded_numbers(const FilterSpec *spec, uint32_t **ret, size_t *ret_n);

/* The name of one of those calls, newly allocated; NULL: it is none. */
char *filter_recorded_name(uint32_t number);

/* The name of the call of this number as the kernel's records have both (AUDIT_ARCH_…), "NUMBER" where it has none; newly
 * allocated, NULL when out of memory. The name of its architecture, static: "x86-64", "i386", "x32", "aarch64", "arm", "other". */
char *filter_call_name(uint32_t audit_arch, uint32_t number, const char **ret_arch);
/* Whether that is the name of the architecture that this program was built for. */
bool filter_arch_is_native(const char *name) _pure_;

/* The names for systemd's SystemCallFilter= allow-list: what the profile and Allow= have, with no regard to
 * Deny=, and the calls that the shim itself needs before its own filter is in place (seccomp, landlock_*,
 * keyctl); with record_denied those that are put on record, too: the kernel asks no listener about a call that another
 * filter refuses. Where both layers refuse with an errno ours counts, as the later one. Names that this host's libseccomp,
 * and so its systemd, does not know are left out: such a call is refused there. Allocated strv. */
int filter_systemd_allow_list(const FilterSpec *spec, char ***ret, Error **reterr);

/* Whether a name or @group is known, and whether [Syscalls] Allow= may name it (never-to-be-allowed calls
 * may not be). */
bool filter_name_known(const char *name);
bool filter_name_allowable(const char *name);
/* Of a call: whether rules about its arguments hold whatever Allow= says, so that naming it there may change nothing; and
 * what its group is about, in words that start a sentence. */
bool filter_call_has_rules(const char *call);
const char *filter_call_about(const char *call);
/* All known names and groups, for did-you-mean; NULL-terminated, static. */
const char *const *filter_known_names(void);
