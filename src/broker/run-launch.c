/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/landlock.h"
#include "broker/run-env.h"
#include "broker/run.h"
#include "policy/filter-compile.h"

/* Of Landlock's rights all that change something, and execution. Reading stays with the mounts. */
#define LANDLOCK_FS_WANTED (UINT64_C(0xffff) & ~(uint64_t) (LANDLOCK_FS_READ_FILE | LANDLOCK_FS_READ_DIR))
/* Before this version, a layer forbids renaming and linking from one directory to another, whatever its
 * rules say. */
#define LANDLOCK_ABI_REFER 2u
/* From here on abstract sockets and signals can be kept inside. */
#define LANDLOCK_ABI_SCOPES 6u

#define SCOPE_MEMLOCK (UINT64_C(8) << 20) /* as in unit-props-rows.c */

bool run_shares_host_network(const Run *r)
{
        uint64_t egress = policy_u64(r->policy, NETWORK_EGRESS);

        return egress == EGRESS_ADDRESSES || egress == EGRESS_OPEN;
}

static int add_landlock(const Run *r, RunSpec *s)
{
        /* The last ones are the host's where the first is all that a scope has of its own. */
        const char *const writable[] = { run_workspace(r), "/tmp", "/var/tmp", "/dev/shm", UNIT_HOME };
        size_t n = r->scope                                 ? 1
                   : policy_u64(r->policy, AUDIT_DECOYS) ? ELEMENTSOF(writable)
                                                         : ELEMENTSOF(writable) - 1;

        s->landlock_abi = r->attest.landlock_abi > 0 ? (uint32_t) r->attest.landlock_abi : 0;
        s->landlock_fs = s->landlock_abi >= LANDLOCK_ABI_REFER ? LANDLOCK_FS_WANTED : 0;
        s->landlock_scope = s->landlock_abi >= LANDLOCK_ABI_SCOPES;
        s->landlock_exec_written = policy_u64(r->policy, SYSCALLS_PROFILE) != FILTER_PROFILE_STRICT;
        for (size_t i = 0; i < n; i++) {
                int k = strv_extend(&s->landlock_write, writable[i]);

                if (k < 0)
                        return k;
        }
        return 0;
}

/* A copy of the cache's program, with the uid of this run. */
static int add_filter(Run *r, RunSpec *s, Error **reterr)
{
        /* In the host's network namespace its abstract names are within reach. Landlock could keep a run from
         * connecting to one, but not from taking one that a service of the host will want or a client trusts. */
        bool unix_sockets = !run_shares_host_network(r);
        const struct sock_filter *filter;
        size_t n;
        int k = filter_cache_get(
                        &r->manager->filters, r->policy, r->digest, unix_sockets, &filter, &n, reterr);

        if (k < 0)
                return k;
        s->filter = calloc(n, sizeof(*filter));
        if (!s->filter)
                return -ENOMEM;
        memcpy(s->filter, filter, n * sizeof(*filter));
        s->n_filter = (uint32_t) n;
        if (run_warden_records_calls(r)) {
                FilterSpec spec = filter_cache_spec(r->policy, unix_sockets);
                size_t n_recorded;

                k = filter_recorded_numbers(&spec, &s->recorded, &n_recorded);
                if (k < 0)
                        return k;
                s->n_recorded = (uint32_t) n_recorded;
        }
        return filter_set_uid(s->filter, n, r->peer.uid);
}

/* A service has them from PID 1; a scope carries none. */
static int add_limits(const Run *r, RunSpec *s)
{
        const RunLimit rows[] = {
                { RLIMIT_NOFILE, policy_u64(r->policy, LIMITS_OPEN_FILES) },
                { RLIMIT_FSIZE, policy_is_set(r->policy, LIMITS_FILE_SIZE)
                                                ? policy_u64(r->policy, LIMITS_FILE_SIZE)
                                                : RLIM_INFINITY },
                /* 1: no dump either, and a crash handler that takes them from a pipe is spared. */
                { RLIMIT_CORE, MAX2(policy_u64(r->policy, LIMITS_CORE_SIZE), UINT64_C(1)) },
                { RLIMIT_MEMLOCK, SCOPE_MEMLOCK },
                { RLIMIT_MSGQUEUE, 0 },
                { RLIMIT_RTPRIO, 0 },
                { RLIMIT_NICE, 0 },
        };

        if (!r->scope)
                return 0;
        s->limits = calloc(ELEMENTSOF(rows), sizeof(rows[0]));
        if (!s->limits)
                return -ENOMEM;
        memcpy(s->limits, rows, sizeof(rows));
        s->n_limits = ELEMENTSOF(rows);
        return 0;
}

int run_spec_encode(Run *r, Buf *out, Error **reterr)
{
        char credentials[sizeof("/run/credentials/") + sizeof(r->unit)];
        RunHome home = run_home(r);
        RunSpec s = { .tty = r->request.tty, .copy_in = run_copy_in_fd(r) >= 0 };
        int k = add_landlock(r, &s);

        if (r->root.n_credentials > 0) {
                snprintf(credentials, sizeof(credentials), "/run/credentials/%s", r->unit);
                home.credentials = credentials;
        }
        if (k >= 0)
                k = add_limits(r, &s);
        if (k >= 0)
                k = add_filter(r, &s, reterr);
        if (k >= 0)
                k = run_env_compose(r->policy, &home, r->request.env,
                                r->request.tty ? r->request.term : NULL, &s.env, reterr);
        if (k >= 0) {
                s.cwd = request_directory(&r->request, run_workspace(r));
                k = s.cwd ? 0 : -ENOMEM;
        }
        if (k >= 0) {
                /* Lent: the request keeps its own. */
                s.argv = r->request.argv;
                k = runspec_encode(&s, out);
                s.argv = NULL;
        }
        runspec_done(&s);
        return k < 0 ? error_set(reterr, k, "cannot write down what is to be run: %s", strerror(-k)) : 0;
}
