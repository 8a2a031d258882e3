/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/escape.h"
#include "base/io.h"
#include "broker/broker-stdio.h"
#include "broker/loopback-filter.h"
#include "broker/run-env.h"
#include "broker/run.h"
#include "policy/filter-compile.h"
#include "wire/bus-iface.h"


/* ---- what may be run */

/* What the caller gave as text comes back in messages: nothing that could not be shown as it is. (A
 * backslash can, but escaping would double it.) */
static int check_text(const char *what, const char *text, Error **reterr)
{
        _cleanup_free_ char *plain = strdup(text), *shown = NULL;

        for (char *c = plain; c && *c; c++)
                if (*c == '\\')
                        *c = '/';
        shown = plain ? escape_for_display(plain, strlen(plain), SIZE_MAX) : NULL;
        if (!shown)
                return error_set(reterr, -ENOMEM, "out of memory");
        return streq(shown, plain) ? 0
                                   : error_set(reterr, -EINVAL, "%s holds bytes that are no text: %.256s",
                                                     what, shown);
}

static int tighten(Run *r, Error **reterr)
{
        bool is_root = r->caller.uid == 0;

        if (r->request.tightenings && !is_root && !policy_u64(r->policy, ACCESS_TIGHTEN))
                return error_set(reterr, -EPERM, "policy %s has Tighten=no: nothing of it may be changed",
                                r->policy_name);
        STRV_FOREACH(i, r->request.tightenings) {
                int k = check_text("a change to the policy", *i, reterr);

                if (k >= 0)
                        k = policy_tighten(r->policy, *i, is_root, reterr);
                if (k < 0)
                        return k;
        }
        return 0;
}

static int check_environment(Run *r, Error **reterr)
{
        _cleanup_strv_ char **env = NULL;

        const RunHome home = run_home(r);

        return run_env_compose(r->policy, &home, r->request.env, r->request.tty ? r->request.term : NULL,
                        &env, reterr);
}

static int check_stdio(Run *r, Error **reterr)
{
        if (r->request.detach)
                return 0;
        return stdio_check(r->request.stdio, r->request.tty, process_terminal(r->caller.pid), reterr);
}

static int check_scope(Run *r, Error **reterr)
{
        int k = policy_check_enforceable(r->policy, r->scope, reterr);

        if (k < 0 || !r->scope)
                return k;
        if (r->manager->host.systemd_version < PIDFDS_SINCE)
                return error_set(reterr, -EOPNOTSUPP,
                                "--unit=scope needs systemd %u: before, PID 1 takes a process by its number, which "
                                "may be another's by then",
                                PIDFDS_SINCE);
        if (r->caller.uid != 0)
                return 0;
        /* Even without any capability: files, and so everything else. */
        return error_set(reterr, -EOPNOTSUPP,
                        "--unit=scope runs the command as its caller, and uid 0 owns the host's files with "
                        "or "
                        "without capabilities: call it as another user, or leave it out for a service");
}

/* PID 1 says so only when it is asked to. */
static int check_freezer(Run *r, Error **reterr)
{
        if (policy_u64(r->policy, AUDIT_ON_TRIPWIRE) != ON_TRIPWIRE_FREEZE || r->manager->host.can_freeze)
                return 0;
        return error_set(reterr, -EOPNOTSUPP,
                        "Audit.OnTripwire=freeze: PID 1 freezes units only where cgroup2 is the only hierarchy, which it "
                        "is not on this host; OnTripwire=kill works here");
}

static int set_names(Run *r, Error **reterr)
{
        r->digest = policy_digest(r->policy);
        r->command = audit_command(r->request.argv, policy_u64(r->policy, AUDIT_ARGUMENTS));
        r->name = r->request.name ? strdup(r->request.name) : NULL;
        r->detached = r->request.detach;
        r->memory_max = policy_u64(r->policy, LIMITS_MEMORY);
        r->runtime_usec = policy_u64(r->policy, LIMITS_RUNTIME);
        r->output_max = policy_u64(r->policy, LIMITS_OUTPUT);
        if (!r->digest || !r->command || (r->request.name && !r->name))
                return error_set(reterr, -ENOMEM, "out of memory");
        return 0;
}

static int load(Run *r, Error **reterr)
{
        _cleanup_free_ char *shown =
                        escape_for_display(r->request.policy, strlen(r->request.policy), POLICY_NAME_MAX);
        int k;

        if (!shown)
                return error_set(reterr, -ENOMEM, "out of memory");
        r->policy_name = TAKE_PTR(shown);
        k = check_text("the policy's name", r->request.policy, reterr);
        if (k < 0)
                return k;
        if (strlen(r->request.policy) > POLICY_NAME_MAX)
                return error_set(reterr, -ENOENT, "no policy has a name that long");
        return policy_load(r->request.policy, NULL, NULL, &r->policy, reterr);
}

/* The first row that fails says what the caller is told. */
static const struct {
        int (*step)(Run *r, Error **reterr);
        const char *error_name, *error_name_not_found;
} checks[] = {
        { load, AGENTBOX_ERROR_POLICY_INVALID, AGENTBOX_ERROR_NO_SUCH_POLICY },
        { tighten, AGENTBOX_ERROR_NOT_TIGHTENING, NULL },
        { set_names, AGENTBOX_ERROR_START_FAILED, NULL },
        { check_scope, AGENTBOX_ERROR_NOT_ENFORCEABLE, NULL },
        { check_freezer, AGENTBOX_ERROR_NOT_ENFORCEABLE, NULL },
        { check_environment, AGENTBOX_ERROR_INVALID_REQUEST, NULL },
        { check_stdio, AGENTBOX_ERROR_INVALID_REQUEST, NULL },
        { run_view_take, AGENTBOX_ERROR_NOT_AUTHORIZED, NULL },
};

int run_load_policy(Run *r, const char **ret_error_name, Error **reterr)
{
        for (size_t i = 0; i < ELEMENTSOF(checks); i++) {
                int k = checks[i].step(r, reterr);

                if (k >= 0)
                        continue;
                *ret_error_name = k == -ENOENT && checks[i].error_name_not_found
                                                  ? checks[i].error_name_not_found
                                                  : checks[i].error_name;
                return k;
        }
        return 0;
}

/* ---- what its unit needs */

int run_make_directory(Run *r, Error **reterr)
{
        int fd = r->manager->runtime_fd, k;

        if (mkdirat(fd, r->id, 0700) < 0)
                return error_set(reterr, -errno, "cannot make %s/%s: %s", RUNTIME_DIR, r->id,
                                strerror(errno));
        r->dir_fd = openat(fd, r->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (r->dir_fd < 0) {
                k = -errno;
                (void) unlinkat(fd, r->id, AT_REMOVEDIR);
                return error_set(reterr, k, "cannot open %s/%s: %s", RUNTIME_DIR, r->id, strerror(-k));
        }
        k = run_write_state(r, STATE_STARTING);
        if (k < 0)
                return error_set(reterr, k, "cannot write the run's state: %s", strerror(-k));
        return 0;
}

static int make_root(Run *r, Error **reterr)
{
        _cleanup_free_ char *path = NULL;

        if (r->scope)
                return run_scope_make_workspace(r, reterr);
        if (asprintf(&path, "%s/%s", RUNTIME_DIR, r->id) < 0) {
                path = NULL;
                return error_set(reterr, -ENOMEM, "out of memory");
        }
        return run_root_create(r->dir_fd, path, r->policy, &r->root, reterr);
}

static int path_of_fd(int fd, char **ret, Error **reterr)
{
        char *path;

        if (asprintf(&path, "/proc/%i/fd/%i", (int) getpid(), fd) < 0)
                return error_set(reterr, -ENOMEM, "out of memory");
        *ret = path;
        return 0;
}

static int make_network(Run *r, Error **reterr)
{
        int k;

        if (policy_u64(r->policy, NETWORK_EGRESS) != EGRESS_FILTERED)
                return 0;
        /* Where the kernel has none to give, the run is prepared all the same: verification then names this
         * with all else that this host does not enforce, and refuses. */
        if (r->manager->loopback_filter_fd < 0)
                (void) loopback_filter_open(&r->manager->loopback_filter_fd, NULL);
        k = run_warden_prepare(r, reterr);
        if (k < 0)
                return k;
        r->netns_inode = r->warden->wall.netns_inode;
        k = path_of_fd(r->warden->wall.netns_fd, &r->netns_path, reterr);
        if (k < 0 || r->manager->loopback_filter_fd < 0)
                return k;
        return path_of_fd(r->manager->loopback_filter_fd, &r->ip_filter_path, reterr);
}

static int make_properties(Run *r, Error **reterr)
{
        int k;

        if (asprintf(&r->description, "agentbox run %s under policy %s", r->id, r->policy_name) < 0) {
                r->description = NULL;
                return error_set(reterr, -ENOMEM, "out of memory");
        }
        r->context = (UnitContext){
                .systemd_version = r->manager->host.systemd_version,
                .cgroup_v1 = r->manager->host.cgroup_root_memory != NULL,
                .scope = r->scope,
                .description = r->description,
                .slice = r->slice,
                .root_directory = r->root.directory,
                .shim_path = SHIM_PATH,
                .probe_abstract = r->manager->probe_name,
                .netns_path = r->netns_path,
                .ip_filter_path = r->ip_filter_path,
                .warden_unit = r->warden ? r->warden->unit : NULL,
                .extra_binds = r->root.binds,
                .workspace = r->workspace,
                .workspace_mount = r->scope ? r->mount : NULL,
                .uid = r->caller.uid,
                .gid = r->gid,
        };
        k = unit_props_from_policy(r->policy, &r->context, &r->props, reterr);
        return k < 0 || !r->scope ? k
                                  : unit_props_of_workspace(r->policy, &r->context, &r->mount_props, reterr);
}

static int take_copies(Run *r, Error **reterr)
{
        return run_copy_take(r) < 0 ? error_set(reterr, -ENOMEM, "out of memory") : 0;
}

int run_prepare(Run *r, Error **reterr)
{
        static int (*const steps[])(Run * r, Error * *reterr) = { take_copies, run_scope_check, make_root,
                run_disk_prepare, make_network, make_properties, run_output_prepare };

        for (size_t i = 0; i < ELEMENTSOF(steps); i++) {
                int k = steps[i](r, reterr);

                if (k < 0)
                        return k;
        }
        return 0;
}
