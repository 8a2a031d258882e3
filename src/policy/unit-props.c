/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <linux/securebits.h>
#include <stdio.h>

#include "policy/filter-compile.h"
#include "policy/prefix-set.h"
#include "policy/unit-props.h"

/* Values that no policy sets, with their reason. */
#define TIMEOUT_STOP_USEC UINT64_C(2000000)   /* nothing inside has anything to save: the workspace is read from outside */
#define TIMEOUT_START_USEC UINT64_C(30000000) /* to the execve of the shim, on a host that starts 200 runs at once */
#define OOM_SCORE_ADJUST 500                  /* a host short of memory kills a sandbox before a service */
#define UMASK 0022                            /* what programs are tested with; nobody else is in there */
#define LIMIT_MEMLOCK (UINT64_C(8) << 20)     /* the kernel's own default */
/* The user namespace of a run charges these to root as well, up to the same sum over all runs: so they must be small
 * beside what the host's root has (about 95,000 signals, 800 KiB of message queues). */
#define LIMIT_SIGPENDING UINT64_C(4096)
#define LIMIT_MSGQUEUE (UINT64_C(256) << 10)
#define CAPABILITIES_NONE 0
#define NAMESPACES_NONE 0
/* Not keep-caps-locked: systemd 257 changes the uid with kept capabilities after these are set, and fails (217/USER). */
#define SECUREBITS (SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED)

static int list_add(char ***l, const char *s, Error **reterr)
{
        int r = strv_extend(l, s);

        return r < 0 ? error_set(reterr, r, "out of memory") : 0;
}

static int list_of(const char *const *names, size_t n, UnitProp *q, Error **reterr)
{
        for (size_t i = 0; i < n; i++) {
                int r = list_add(&q->l, names[i], reterr);

                if (r < 0)
                        return r;
        }
        q->u = true;
        return 1;
}

static FilterSpec filter_spec(const Policy *p)
{
        return (FilterSpec){
                .profile = (FilterProfile) policy_u64(p, SYSCALLS_PROFILE),
                .unix_sockets = true, /* the finer layer decides: systemd's filter cannot tell socket() from socketpair() */
                .inet_sockets = true,
                .allow = policy_list(p, SYSCALLS_ALLOW),
                .deny = policy_list(p, SYSCALLS_DENY),
        };
}

static bool root_is_host(const Policy *p)
{
        return streq(policy_string(p, FILES_ROOT), "host-usr");
}

static int fill_description(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        q->s = strdup(c->description);
        return q->s ? 1 : error_set(reterr, -ENOMEM, "out of memory");
}

static int fill_slice(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        q->s = strdup(c->slice ? c->slice : "agentbox.slice");
        return q->s ? 1 : error_set(reterr, -ENOMEM, "out of memory");
}

static int fill_root(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        q->s = strdup(c->root_directory);
        return q->s ? 1 : error_set(reterr, -ENOMEM, "out of memory");
}

static int fill_exec(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        int r;

        q->s = strdup(c->shim_path);
        if (!q->s)
                return error_set(reterr, -ENOMEM, "out of memory");
        r = list_add(&q->l, c->shim_path, reterr);
        if (r < 0)
                return r;
        r = list_add(&q->l, policy_string(p, FILES_WORKSPACE), reterr);
        if (r >= 0 && c->probe_abstract)
                r = list_add(&q->l, c->probe_abstract, reterr);
        return r < 0 ? r : 1;
}

/* A pair, unless the destination is there already: Expose= may name what the root brings along. */
static int binds_add(UnitProp *q, const char *source, const char *destination, Error **reterr)
{
        int r;

        for (size_t i = 0; q->l && q->l[i]; i += 2)
                if (streq(q->l[i + 1], destination))
                        return 0;
        r = list_add(&q->l, source, reterr);
        return r < 0 ? r : list_add(&q->l, destination, reterr);
}

static int fill_binds(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        _cleanup_free_ char *usr = NULL;
        int r;

        if (asprintf(&usr, "%s/usr", root_is_host(p) ? "" : policy_string(p, FILES_ROOT)) < 0) {
                usr = NULL;
                return error_set(reterr, -ENOMEM, "out of memory");
        }
        r = binds_add(q, usr, "/usr", reterr);
        if (r < 0)
                return r;
        STRV_FOREACH(i, policy_list(p, FILES_EXPOSE)) {
                r = binds_add(q, *i, *i, reterr);
                if (r < 0)
                        return r;
        }
        STRV_FOREACH(i, c->extra_binds) {
                const char *colon = strchr(*i, ':');
                _cleanup_free_ char *source = NULL;

                if (!colon)
                        return error_set(reterr, -EINVAL, "bind without a destination: %s", *i);
                source = strndup(*i, (size_t) (colon - *i));
                if (!source)
                        return error_set(reterr, -ENOMEM, "out of memory");
                r = binds_add(q, source, colon + 1, reterr);
                if (r < 0)
                        return r;
        }
        return 1;
}

static int tmpfs_add(UnitProp *q, const char *path, unsigned mode, uint64_t size, uint64_t inodes, bool exec, Error **reterr)
{
        char options[128];
        int r;

        snprintf(options, sizeof(options), "mode=%04o,size=%llu,nr_inodes=%llu,nosuid,nodev%s", mode,
                (unsigned long long) size, (unsigned long long) inodes, exec ? "" : ",noexec");
        r = list_add(&q->l, path, reterr);
        return r < 0 ? r : list_add(&q->l, options, reterr);
}

static int fill_tmpfs(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        bool exec = policy_u64(p, SYSCALLS_PROFILE) != FILTER_PROFILE_STRICT;
        uint64_t inodes = policy_u64(p, FILES_WORKSPACE_INODES), tmp = policy_u64(p, FILES_TMP_SIZE);
        const struct {
                const char *path;
                unsigned mode;
                uint64_t size;
        } writable[] = {
                /* Root's until the broker has given it to the uid, which nobody knows before the start. */
                { policy_string(p, FILES_WORKSPACE), 0777, policy_u64(p, FILES_WORKSPACE_SIZE) },
                { UNIT_TMP_LINK, 01777, tmp },
                { UNIT_VAR_TMP_LINK, 01777, tmp },
                { "/dev/shm", 01777, policy_u64(p, FILES_SHM_SIZE) },
        };
        /* Over what systemd would put there: a /run without limit or that of the host, and the host's pseudo-terminals. */
        static const char *const covered[] = { "/run", "mode=0755,size=64k,nr_inodes=8,nosuid,nodev,noexec,ro",
                "/dev/pts", "mode=0755,size=4k,nr_inodes=2,nosuid,nodev,noexec,ro" };
        int r;

        for (size_t i = 0; i < ELEMENTSOF(writable); i++) {
                r = tmpfs_add(q, writable[i].path, writable[i].mode, writable[i].size, inodes, exec, reterr);
                if (r < 0)
                        return r;
        }
        return list_of(covered, ELEMENTSOF(covered), q, reterr);
}

static int fill_inaccessible(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        /* "+": inside the root, not on the host. */
        static const char *const paths[] = { "+/sys", "-+/dev/hugepages" };

        return list_of(paths, ELEMENTSOF(paths), q, reterr);
}

static int fill_proc_subset(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        /* Browsers and some virtual machines read /proc/meminfo, stat and cpuinfo and give up without. */
        q->s = strdup(policy_u64(p, SYSCALLS_PROFILE) == FILTER_PROFILE_JIT ? "all" : "pid");
        return q->s ? 1 : error_set(reterr, -ENOMEM, "out of memory");
}

/* With NetworkNamespacePath= as well: that one decides, and this one still says so where only settings are looked at. */
static int fill_private_network(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        q->u = true;
        return policy_u64(p, NETWORK_EGRESS) == EGRESS_NONE || policy_u64(p, NETWORK_EGRESS) == EGRESS_FILTERED;
}

static int fill_netns(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        if (policy_u64(p, NETWORK_EGRESS) != EGRESS_FILTERED)
                return 0;
        if (!c->netns_path)
                return error_set(reterr, -EINVAL, "Egress=filtered needs a network namespace");
        q->s = strdup(c->netns_path);
        return q->s ? 1 : error_set(reterr, -ENOMEM, "out of memory");
}

static int fill_ip_filter(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        if (policy_u64(p, NETWORK_EGRESS) != EGRESS_FILTERED || !c->ip_filter_path)
                return 0;
        return list_of(&c->ip_filter_path, 1, q, reterr);
}

static bool shares_host_network(const Policy *p)
{
        return policy_u64(p, NETWORK_EGRESS) == EGRESS_ADDRESSES || policy_u64(p, NETWORK_EGRESS) == EGRESS_OPEN;
}

static int fill_ip_deny(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        static const char *const everything[] = { "0.0.0.0/0", "::/0" };

        if (policy_u64(p, NETWORK_EGRESS) == EGRESS_FILTERED)
                return 0;
        return list_of(everything, ELEMENTSOF(everything), q, reterr);
}

/* Without a network (Egress=none) it is a second lock, which a kernel may lack. Else: Allow wins over Deny, so what stays denied
 * (the metadata service) must be left out of these prefixes. */
static int fill_ip_allow(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        static const char *const loopback[] = { "127.0.0.0/8", "::1/128" };
        int r;

        if (policy_u64(p, NETWORK_EGRESS) == EGRESS_NONE)
                return list_of(loopback, ELEMENTSOF(loopback), q, reterr);
        if (!shares_host_network(p))
                return 0;
        r = policy_ip_allow_list(p, &q->l, reterr);
        return r < 0 ? r : strv_length(q->l) > 0;
}

static int fill_families(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        static const char *const families[] = { "AF_INET", "AF_INET6", "AF_NETLINK", "AF_UNIX" };

        return list_of(families, ELEMENTSOF(families), q, reterr);
}

static int fill_syscalls(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        FilterSpec spec = filter_spec(p);
        int r = filter_systemd_allow_list(&spec, &q->l, reterr);

        q->u = true;
        return r < 0 ? r : 1;
}

static int fill_architectures(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        static const char *const native[] = { "native" };

        return list_of(native, ELEMENTSOF(native), q, reterr);
}

static int fill_mdwe(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        q->u = true;
        return policy_u64(p, SYSCALLS_PROFILE) == FILTER_PROFILE_STRICT;
}

#define BOTH (UNIT_TARGET_SERVICE | UNIT_TARGET_SCOPE)
#define SERVICE UNIT_TARGET_SERVICE
#define K UNIT_PROP_KEY

/* Rows of one shape. */
#define ROW_STRING(n, t, value, ...) { .name = n, .type = UNIT_PROP_STRING, .targets = t, .s = value, __VA_ARGS__ }
#define ROW_BOOL(n, t, value, ...) { .name = n, .type = UNIT_PROP_BOOL, .targets = t, .u = value, __VA_ARGS__ }
#define ROW_SANDBOX(n, promise) ROW_BOOL(n, SERVICE, true, .verified_by = promise)
#define ROW_LIMIT(n, value) \
        { .name = "Limit" n, .type = UNIT_PROP_U64, .targets = SERVICE, .u = value, .verified_by = "resource-limits" }, \
        { .name = "Limit" n "Soft", .file_name = "", .type = UNIT_PROP_U64, .targets = SERVICE, .u = value, \
          .verified_by = "resource-limits" }
#define ROW_LIMIT_KEY(n, key) \
        { .name = "Limit" n, .type = UNIT_PROP_U64, .targets = SERVICE, .keys = K(key), .scale = 1, \
          .verified_by = "resource-limits" }, \
        { .name = "Limit" n "Soft", .file_name = "", .type = UNIT_PROP_U64, .targets = SERVICE, .keys = K(key), .scale = 1, \
          .verified_by = "resource-limits" }

const UnitPropRow unit_prop_rows[] = {
        /* The unit. */
        { .name = "Description", .type = UNIT_PROP_STRING, .targets = BOTH, .fill = fill_description,
          .unverified = "text for people" },
        { .name = "Slice", .type = UNIT_PROP_STRING, .targets = BOTH, .fill = fill_slice, .verified_by = "cgroup" },
        ROW_STRING("CollectMode", BOTH, "inactive-or-failed", .unverified = "acts when the unit has ended"),
        ROW_STRING("Type", SERVICE, "exec", .unverified = "how PID 1 waits for the start"),
        ROW_STRING("NotifyAccess", SERVICE, "none", .unverified = "PID 1's own rule: the run may not extend its time"),
        { .name = "ExecStartEx", .file_name = "ExecStart", .type = UNIT_PROP_EXEC, .targets = SERVICE,
          .keys = K(FILES_WORKSPACE), .fill = fill_exec, .verified_by = "process" },
        ROW_STRING("StandardOutput", SERVICE, "null", .verified_by = "descriptors"),
        ROW_STRING("StandardError", SERVICE, "null", .verified_by = "descriptors"),
        ROW_STRING("SyslogIdentifier", SERVICE, "agentbox-exec", .unverified = "nothing of a run is logged under it"),
        ROW_BOOL("IgnoreSIGPIPE", SERVICE, false, .verified_by = "process"),
        { .name = "UMask", .type = UNIT_PROP_U32, .targets = SERVICE, .u = UMASK, .text = "0022", .verified_by = "umask" },

        /* How it ends. */
        { .name = "RuntimeMaxUSec", .file_name = "RuntimeMaxSec", .type = UNIT_PROP_U64, .targets = BOTH,
          .keys = K(LIMITS_RUNTIME), .scale = 1, .unverified = "PID 1's own timer" },
        { .name = "TimeoutStopUSec", .file_name = "TimeoutStopSec", .type = UNIT_PROP_U64, .targets = BOTH,
          .u = TIMEOUT_STOP_USEC, .text = "2s", .unverified = "PID 1's own timer" },
        { .name = "TimeoutStartUSec", .file_name = "TimeoutStartSec", .type = UNIT_PROP_U64, .targets = SERVICE,
          .u = TIMEOUT_START_USEC, .text = "30s", .unverified = "PID 1's own timer" },
        ROW_STRING("KillMode", BOTH, "control-group", .unverified = "PID 1's own rule"),
        ROW_STRING("OOMPolicy", BOTH, "kill", .verified_by = "oom-group"),
        { .name = "OOMScoreAdjust", .type = UNIT_PROP_I32, .targets = SERVICE, .u = OOM_SCORE_ADJUST, .text = "500",
          .verified_by = "oom-score" },

        /* The cgroup. */
        { .name = "CPUQuotaPerSecUSec", .file_name = "CPUQuota", .type = UNIT_PROP_U64, .targets = BOTH,
          .keys = K(LIMITS_CPU_QUOTA), .scale = 10000, .verified_by = "cpu-limit" },
        { .name = "MemoryMax", .type = UNIT_PROP_U64, .targets = BOTH, .keys = K(LIMITS_MEMORY), .scale = 1,
          .verified_by = "memory-limit" },
        { .name = "MemorySwapMax", .type = UNIT_PROP_U64, .targets = BOTH, .u = 0, .text = "0", .verified_by = "swap-limit" },
        { .name = "MemoryZSwapMax", .type = UNIT_PROP_U64, .since = 253, .targets = BOTH, .u = 0, .text = "0",
          .verified_by = "swap-limit" },
        /* Else 254 and later bind a writable file of the cgroup into the root. */
        ROW_STRING("MemoryPressureWatch", SERVICE, "no", .since = 254, .verified_by = "mounts"),
        { .name = "TasksMax", .type = UNIT_PROP_U64, .targets = BOTH, .keys = K(LIMITS_TASKS), .scale = 1,
          .verified_by = "tasks-limit" },
        { .name = "IOWeight", .type = UNIT_PROP_U64, .targets = BOTH, .keys = K(LIMITS_IO_WEIGHT), .scale = 1,
          .verified_by = "io-weight" },
        ROW_STRING("DevicePolicy", BOTH, "closed", .verified_by = "device-filter"),
        { .name = "IPAddressAllow", .type = UNIT_PROP_PREFIXES, .targets = BOTH, .keys = K(NETWORK_EGRESS) | K(NETWORK_ALLOW),
          .fill = fill_ip_allow, .verified_by = "address-filter" },
        { .name = "IPAddressDeny", .type = UNIT_PROP_PREFIXES, .targets = BOTH, .keys = K(NETWORK_EGRESS),
          .fill = fill_ip_deny, .text = "any", .verified_by = "address-filter" },
        { .name = "IPIngressFilterPath", .type = UNIT_PROP_STRV, .targets = SERVICE, .keys = K(NETWORK_EGRESS),
          .fill = fill_ip_filter, .verified_by = "loopback-filter" },
        { .name = "IPEgressFilterPath", .type = UNIT_PROP_STRV, .targets = SERVICE, .keys = K(NETWORK_EGRESS),
          .fill = fill_ip_filter, .verified_by = "loopback-filter" },

        /* Who it is. */
        ROW_SANDBOX("DynamicUser", "uid"),
        ROW_SANDBOX("PrivateUsers", "namespaces"),
        ROW_SANDBOX("NoNewPrivileges", "no-new-privileges"),
        { .name = "CapabilityBoundingSet", .type = UNIT_PROP_U64, .targets = SERVICE, .u = CAPABILITIES_NONE, .text = "",
          .verified_by = "capabilities" },
        { .name = "AmbientCapabilities", .type = UNIT_PROP_U64, .targets = SERVICE, .u = CAPABILITIES_NONE, .text = "",
          .verified_by = "capabilities" },
        { .name = "SecureBits", .type = UNIT_PROP_I32, .targets = SERVICE, .u = SECUREBITS,
          .text = "noroot noroot-locked no-setuid-fixup no-setuid-fixup-locked",
          .verified_by = "securebits" },
        ROW_STRING("KeyringMode", SERVICE, "private", .verified_by = "keyring"),

        /* What it sees of files. */
        { .name = "RootDirectory", .type = UNIT_PROP_STRING, .targets = SERVICE, .keys = K(FILES_ROOT), .fill = fill_root,
          .verified_by = "mounts" },
        { .name = "BindReadOnlyPaths", .type = UNIT_PROP_BINDS, .targets = SERVICE, .keys = K(FILES_ROOT) | K(FILES_EXPOSE),
          .fill = fill_binds, .verified_by = "mounts" },
        { .name = "TemporaryFileSystem", .type = UNIT_PROP_PAIRS, .targets = SERVICE,
          .keys = K(FILES_WORKSPACE) | K(FILES_WORKSPACE_SIZE) | K(FILES_WORKSPACE_INODES) | K(FILES_TMP_SIZE) |
                  K(FILES_SHM_SIZE) | K(SYSCALLS_PROFILE),
          .fill = fill_tmpfs, .verified_by = "workspace" },
        { .name = "InaccessiblePaths", .type = UNIT_PROP_STRV, .targets = SERVICE, .fill = fill_inaccessible,
          .verified_by = "sys" },
        ROW_SANDBOX("MountAPIVFS", "proc"),
        ROW_STRING("ProtectSystem", SERVICE, "strict", .verified_by = "read-only"),
        ROW_STRING("ProtectHome", SERVICE, "yes", .verified_by = "mounts"),
        ROW_STRING("ProtectProc", SERVICE, "invisible", .verified_by = "proc"),
        { .name = "ProcSubset", .type = UNIT_PROP_STRING, .targets = SERVICE, .keys = K(SYSCALLS_PROFILE),
          .fill = fill_proc_subset, .verified_by = "proc" },
        ROW_SANDBOX("ProtectClock", "seccomp"),
        ROW_SANDBOX("ProtectKernelTunables", "proc"),
        ROW_SANDBOX("ProtectKernelModules", "seccomp"),
        ROW_SANDBOX("ProtectKernelLogs", "devices"),
        ROW_SANDBOX("ProtectHostname", "namespaces"),
        ROW_SANDBOX("ProtectControlGroups", "sys"),
        ROW_SANDBOX("PrivateDevices", "devices"),
        ROW_SANDBOX("PrivateIPC", "namespaces"),
        ROW_BOOL("BindLogSockets", SERVICE, false, .since = 257, .verified_by = "host-services"),

        /* The network. */
        { .name = "PrivateNetwork", .type = UNIT_PROP_BOOL, .targets = SERVICE, .keys = K(NETWORK_EGRESS),
          .fill = fill_private_network, .verified_by = "network" },
        { .name = "NetworkNamespacePath", .type = UNIT_PROP_STRING, .targets = SERVICE, .keys = K(NETWORK_EGRESS),
          .fill = fill_netns, .verified_by = "network" },

        /* System calls: the coarse layer. The fine one is the shim's (filter-compile.h). */
        { .name = "RestrictAddressFamilies", .type = UNIT_PROP_BOOL_STRV, .targets = SERVICE, .fill = fill_families,
          .verified_by = "seccomp" },
        { .name = "RestrictNamespaces", .type = UNIT_PROP_U64, .targets = SERVICE, .u = NAMESPACES_NONE, .text = "yes",
          .verified_by = "seccomp" },
        ROW_SANDBOX("RestrictRealtime", "seccomp"),
        ROW_SANDBOX("RestrictSUIDSGID", "seccomp"),
        ROW_SANDBOX("LockPersonality", "seccomp"),
        { .name = "MemoryDenyWriteExecute", .type = UNIT_PROP_BOOL, .targets = SERVICE, .keys = K(SYSCALLS_PROFILE),
          .fill = fill_mdwe, .verified_by = "write-execute" },
        { .name = "SystemCallArchitectures", .type = UNIT_PROP_STRV, .targets = SERVICE, .fill = fill_architectures,
          .verified_by = "seccomp" },
        { .name = "SystemCallErrorNumber", .type = UNIT_PROP_I32, .targets = SERVICE, .u = EPERM, .text = "EPERM",
          .verified_by = "seccomp" },
        { .name = "SystemCallFilter", .type = UNIT_PROP_BOOL_STRV, .targets = SERVICE,
          .keys = K(SYSCALLS_PROFILE) | K(SYSCALLS_ALLOW) | K(SYSCALLS_DENY), .fill = fill_syscalls,
          .verified_by = "seccomp" },

        /* Limits of the process. None on processes (TasksMax does that, and counts in pids.events) nor address space. */
        ROW_LIMIT_KEY("NOFILE", LIMITS_OPEN_FILES),
        ROW_LIMIT_KEY("FSIZE", LIMITS_FILE_SIZE),
        ROW_LIMIT_KEY("CORE", LIMITS_CORE_SIZE),
        ROW_LIMIT("MEMLOCK", LIMIT_MEMLOCK),
        ROW_LIMIT("MSGQUEUE", LIMIT_MSGQUEUE),
        ROW_LIMIT("SIGPENDING", LIMIT_SIGPENDING),
        ROW_LIMIT("RTPRIO", 0),
        ROW_LIMIT("NICE", 0),
};
const size_t n_unit_prop_rows = ELEMENTSOF(unit_prop_rows);

const UnitPropRow *unit_prop_row(const char *name)
{
        for (size_t i = 0; i < n_unit_prop_rows; i++)
                if (streq(unit_prop_rows[i].name, name))
                        return unit_prop_rows + i;
        return NULL;
}

static void unit_prop_done(UnitProp *q)
{
        free(q->s);
        strv_free(q->l);
        *q = (UnitProp){};
}

void unit_props_done(UnitProps *p)
{
        for (size_t i = 0; i < p->n; i++)
                unit_prop_done(p->props + i);
        free(p->props);
        *p = (UnitProps){};
}

const UnitProp *unit_props_find(const UnitProps *p, const char *name)
{
        for (size_t i = 0; i < p->n; i++)
                if (streq(p->props[i].name, name))
                        return p->props + i;
        return NULL;
}

/* 1: q is to be sent. 0: not under this policy. */
static int row_fill(const UnitPropRow *row, const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        PolicyKey key;

        if (row->fill)
                return row->fill(p, c, q, reterr);
        if (row->s) {
                q->s = strdup(row->s);
                return q->s ? 1 : error_set(reterr, -ENOMEM, "out of memory");
        }
        if (row->keys == 0) {
                q->u = row->u;
                return 1;
        }
        key = (PolicyKey) __builtin_ctzll(row->keys);
        if (!policy_is_set(p, key))
                return 0;
        if (__builtin_mul_overflow(policy_u64(p, key), row->scale, &q->u))
                return error_set(reterr, -ERANGE, "%s is out of range", row->name);
        return 1;
}

int unit_props_from_policy(const Policy *p, const UnitContext *c, UnitProps *ret, Error **reterr)
{
        _cleanup_(unit_props_done) UnitProps props = {};
        int r = policy_check_enforceable(p, c->scope, reterr);

        if (r < 0)
                return r;
        props.props = calloc(n_unit_prop_rows, sizeof(UnitProp));
        if (!props.props)
                return error_set(reterr, -ENOMEM, "out of memory");
        for (size_t i = 0; i < n_unit_prop_rows; i++) {
                const UnitPropRow *row = unit_prop_rows + i;
                UnitProp *q = props.props + props.n;

                if (!(row->targets & (c->scope ? UNIT_TARGET_SCOPE : UNIT_TARGET_SERVICE)) || row->since > c->systemd_version)
                        continue;
                *q = (UnitProp){ .name = row->name, .type = row->type };
                r = row_fill(row, p, c, q, reterr);
                if (r <= 0)
                        unit_prop_done(q);
                if (r < 0)
                        return error_prefix(reterr, r, "%s", row->name);
                if (r > 0)
                        props.n++;
        }
        *ret = props;
        props = (UnitProps){};
        return 0;
}
