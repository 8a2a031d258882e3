/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <linux/securebits.h>
#include <stdio.h>

#include "policy/filter-compile.h"
#include "policy/policy-checks.h"
#include "policy/prefix-set.h"
#include "policy/unit-props.h"

/* Values that no policy sets, with their reason. */
#define TIMEOUT_STOP_USEC \
        UINT64_C(2000000) /* nothing inside has anything to save: the workspace is read from outside */
#define TIMEOUT_START_USEC \
        UINT64_C(30000000)   /* to the execve of the shim, on a host that starts 200 runs at once */
#define OOM_SCORE_ADJUST 500 /* a host short of memory kills a sandbox before a service */
#define UMASK 0022           /* what programs are tested with; nobody else is in there */
#define LIMIT_MEMLOCK (UINT64_C(8) << 20) /* the kernel's own default */
/* The user namespace of a run charges these to root as well, up to the same sum over all runs: it must leave
 * most of what the host's root has (95,000 queued signals and timers on a large machine, 800 KiB of message
 * queues). The shim lowers the first once the namespace is made, or one run could have all of the sum. */
#define LIMIT_SIGPENDING UINT64_C(16384)
#define LIMIT_MSGQUEUE UINT64_C(0)
/* No core dump, whether a file or piped to a crash handler, which is root's: for a pipe the kernel heeds no other
 * value. See the filter's prlimit64(). */
#define LIMIT_NO_CORE UINT64_C(1)
#define CAPABILITIES_NONE 0
#define PRIVATE_PIDS_SINCE 257
#define INIT_TASKS 1
#define NAMESPACES_NONE 0
/* Not keep-caps-locked: systemd 257 changes the uid with kept capabilities after these are set, and fails
 * (217/USER). */
#define SECUREBITS \
        (SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED)

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
                .unix_sockets = true, /* the finer layer decides: systemd's filter cannot tell socket() from
                                         socketpair() */
                .inet_sockets = true,
                .record_denied = policy_records_denied_calls(p),
                .allow = policy_list(p, SYSCALLS_ALLOW),
                .deny = policy_list(p, SYSCALLS_DENY),
        };
}

static bool root_is_host(const Policy *p)
{
        return streq(policy_string(p, FILES_ROOT), "host-usr");
}

/* A policy's tasks are those of the command: what watches over them comes on top. */
static int fill_tasks(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        q->u = policy_u64(p, LIMITS_TASKS) + (!c->scope && c->systemd_version >= PRIVATE_PIDS_SINCE ? INIT_TASKS : 0);
        return 1;
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
        const char *path = root_is_host(p) ? c->shim_path : UNIT_SHIM_PATH;
        int r;

        q->s = strdup(path);
        if (!q->s)
                return error_set(reterr, -ENOMEM, "out of memory");
        r = list_add(&q->l, path, reterr);
        if (r < 0)
                return r;
        r = list_add(&q->l, policy_string(p, FILES_WORKSPACE), reterr);
        if (r >= 0 && c->probe_abstract)
                r = list_add(&q->l, c->probe_abstract, reterr);
        return r < 0 ? r : 1;
}

/* A pair, unless the destination is there already. */
static int binds_add(UnitProp *q, const char *source, const char *destination, Error **reterr)
{
        int r;

        for (size_t i = 0; q->l && q->l[i]; i += 2)
                if (streq(q->l[i + 1], destination))
                        return 0;
        r = list_add(&q->l, source, reterr);
        return r < 0 ? r : list_add(&q->l, destination, reterr);
}

/* "SRC:DEST" */
static int binds_add_text(UnitProp *q, const char *text, Error **reterr)
{
        const char *colon = strchr(text, ':');
        _cleanup_free_ char *source = NULL;

        if (!colon)
                return error_set(reterr, -EINVAL, "bind without a destination: %s", text);
        source = strndup(text, (size_t) (colon - text));
        if (!source)
                return error_set(reterr, -ENOMEM, "out of memory");
        return binds_add(q, source, colon + 1, reterr);
}

/* What the root brings along comes first: it knows where the paths of the policy really lead. */
static int fill_binds(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        _cleanup_free_ char *usr = NULL;
        int r = 0;

        STRV_FOREACH(i, c->extra_binds) {
                r = binds_add_text(q, *i, reterr);
                if (r < 0)
                        return r;
        }
        if (asprintf(&usr, "%s/usr", root_is_host(p) ? "" : policy_string(p, FILES_ROOT)) < 0) {
                usr = NULL;
                return error_set(reterr, -ENOMEM, "out of memory");
        }
        r = binds_add(q, usr, "/usr", reterr);
        if (r >= 0 && !root_is_host(p))
                r = binds_add(q, c->shim_path, UNIT_SHIM_PATH, reterr);
        STRV_FOREACH(i, policy_list(p, FILES_EXPOSE)) {
                if (r < 0)
                        return r;
                r = binds_add(q, *i, *i, reterr);
        }
        return r < 0 ? r : 1;
}

/* A scope has no /dev of its own: the caller's terminals are there, which "closed" leaves open. */
static int fill_device_policy(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        q->s = strdup(c->scope ? "strict" : "closed");
        return q->s ? 1 : error_set(reterr, -ENOMEM, "out of memory");
}

static int fill_devices(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        static const char *const devices[] = { "/dev/null", "rw", "/dev/zero", "rw", "/dev/full", "rw",
                "/dev/random", "r", "/dev/urandom", "r", "/dev/tty", "rw" };

        return list_of(devices, ELEMENTSOF(devices), q, reterr);
}

/* The unit that it cannot be without, in the same transaction: a scope's workspace, a service's warden. */
static int fill_companion(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        const char *const *unit = c->scope ? &c->workspace_mount : &c->warden_unit;

        return *unit ? list_of(unit, 1, q, reterr) : 0;
}

static int tmpfs_add(UnitProp *q, const char *path, unsigned mode, uint64_t size, uint64_t inodes, bool exec,
                Error **reterr)
{
        char options[128];
        int r;

        snprintf(options, sizeof(options), "mode=%04o,size=%llu,nr_inodes=%llu,nosuid,nodev%s", mode,
                        (unsigned long long) size, (unsigned long long) inodes, exec ? "" : ",noexec");
        r = list_add(&q->l, path, reterr);
        return r < 0 ? r : list_add(&q->l, options, reterr);
}

const char *unit_home(const Policy *p)
{
        return policy_u64(p, AUDIT_DECOYS) ? UNIT_HOME : policy_string(p, FILES_WORKSPACE);
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
        /* Over what systemd would put there: a /run without limit or that of the host, and the host's
         * pseudo-terminals. */
        static const char *const covered[] = { "/run",
                "mode=0755,size=64k,nr_inodes=16,nosuid,nodev,noexec,ro", "/dev/pts",
                "mode=0755,size=4k,nr_inodes=2,nosuid,nodev,noexec,ro" };
        int r = 0;

        /* One on disk the broker mounts itself; until it has, nothing can be written there. */
        for (size_t i = policy_u64(p, FILES_WORKSPACE_STORE) == STORE_DISK; r >= 0 && i < ELEMENTSOF(writable); i++)
                r = tmpfs_add(q, writable[i].path, writable[i].mode, writable[i].size, inodes, exec, reterr);
        if (r >= 0 && policy_u64(p, AUDIT_DECOYS))
                r = tmpfs_add(q, UNIT_HOME, 0700, tmp, inodes, exec, reterr);
        if (r < 0)
                return r;
        return list_of(covered, ELEMENTSOF(covered), q, reterr);
}

static int fill_inaccessible(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        /* "+": inside the root, not on the host. */
        static const char *const paths[] = { "+/sys", "-+/dev/hugepages" };
        /* Where 255 and later show the host's os-release; what is left of it is a link that leads nowhere. */
        static const char *const os_release[] = { "-+/run/host" };
        /* What ProcSubset=all shows of the machine and of others' work, and no program needs. */
        static const char *const proc[] = { "-+/proc/acpi", "-+/proc/bus", "-+/proc/cmdline", "-+/proc/config.gz",
                "-+/proc/crypto", "-+/proc/diskstats", "-+/proc/driver", "-+/proc/fs", "-+/proc/interrupts",
                "-+/proc/iomem", "-+/proc/ioports", "-+/proc/irq", "-+/proc/kallsyms", "-+/proc/key-users",
                "-+/proc/keys", "-+/proc/locks", "-+/proc/modules", "-+/proc/partitions", "-+/proc/pressure",
                "-+/proc/sched_debug", "-+/proc/scsi", "-+/proc/swaps", "-+/proc/sys/kernel/random/boot_id",
                "-+/proc/timer_list", "-+/proc/tty" };
        /* As ProtectKernelModules= has it. */
        static const char *const modules[] = { "-+/usr/lib/modules" };
        int r = list_of(paths, ELEMENTSOF(paths), q, reterr);

        if (r >= 0 && policy_records_denied_calls(p))
                r = list_of(modules, ELEMENTSOF(modules), q, reterr);
        if (r >= 0 && c->systemd_version >= 255)
                r = list_of(os_release, ELEMENTSOF(os_release), q, reterr);
        if (r < 0 || policy_u64(p, SYSCALLS_PROFILE) != FILTER_PROFILE_JIT)
                return r;
        return list_of(proc, ELEMENTSOF(proc), q, reterr);
}

static int fill_credentials(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        STRV_FOREACH(i, policy_list(p, FILES_CREDENTIAL)) {
                const char *path = policy_credential_path(*i);
                _cleanup_free_ char *name = strndup(*i, (size_t) (path - *i) - 1);
                int r = name ? list_add(&q->l, name, reterr) : error_set(reterr, -ENOMEM, "out of memory");

                if (r >= 0)
                        r = list_add(&q->l, path, reterr);
                if (r < 0)
                        return r;
        }
        return q->l != NULL;
}

static int fill_core(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        q->u = MAX2(policy_u64(p, LIMITS_CORE_SIZE), LIMIT_NO_CORE);
        return 1;
}

/* Beneath what "yes" makes inaccessible systemd mounts nothing, and says nothing. In the run's root there is nothing of
 * the host's homes either way. */
static int fill_protect_home(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        q->s = strdup(policy_u64(p, AUDIT_DECOYS) ? "read-only" : "yes");
        return q->s ? 1 : error_set(reterr, -ENOMEM, "out of memory");
}

static int fill_proc_subset(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        /* Browsers and some virtual machines read /proc/meminfo, stat and cpuinfo and give up without. */
        q->s = strdup(policy_u64(p, SYSCALLS_PROFILE) == FILTER_PROFILE_JIT ? "all" : "pid");
        return q->s ? 1 : error_set(reterr, -ENOMEM, "out of memory");
}

/* On version 1 PID 1 accepts it and makes no namespace. */
static int fill_cgroup_namespace(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        if (c->cgroup_v1)
                return 0;
        q->s = strdup("strict");
        return q->s ? 1 : error_set(reterr, -ENOMEM, "out of memory");
}

/* With NetworkNamespacePath= as well: that one decides, and this one still says so where only settings are
 * looked at. */
static int fill_private_network(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        q->u = true;
        return policy_u64(p, NETWORK_EGRESS) == EGRESS_NONE ||
               policy_u64(p, NETWORK_EGRESS) == EGRESS_FILTERED;
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
        return policy_u64(p, NETWORK_EGRESS) == EGRESS_ADDRESSES ||
               policy_u64(p, NETWORK_EGRESS) == EGRESS_OPEN;
}

static int fill_ip_deny(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        static const char *const everything[] = { "0.0.0.0/0", "::/0" };

        if (policy_u64(p, NETWORK_EGRESS) == EGRESS_FILTERED)
                return 0;
        return list_of(everything, ELEMENTSOF(everything), q, reterr);
}

/* Without a network (Egress=none) it is a second lock, which a kernel may lack. Else: Allow wins over Deny,
 * so what stays denied (the metadata service) must be left out of these prefixes. */
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

        if (policy_records_denied_calls(p))
                return 0;
        return list_of(families, ELEMENTSOF(families), q, reterr);
}

/* Of two filters the kernel follows the one that refuses, and asks no listener then: what is to be put on record PID 1 may
 * not refuse before. The finer layer does, with the same calls and families; the shim sees to it that each arrives there
 * before anything else runs. */
static int fill_unrecorded(const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        q->u = q->type == UNIT_PROP_BOOL ? true : NAMESPACES_NONE;
        return !policy_records_denied_calls(p);
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
#define SCOPE UNIT_TARGET_SCOPE
#define K UNIT_PROP_KEY

/* A row whose effect a promise sees, and one that nothing but the read-back can see. */
#define ROW(n, kind, where, promise, ...)                                                                  \
        {                                                                                                  \
                .name = n, .type = UNIT_PROP_##kind, .targets = where, .verified_by = promise, __VA_ARGS__ \
        }
#define SETTING(n, kind, where, why, ...)                                                             \
        {                                                                                             \
                .name = n, .type = UNIT_PROP_##kind, .targets = where, .unverified = why, __VA_ARGS__ \
        }
#define SANDBOX(n, promise) ROW(n, BOOL, SERVICE, promise, .u = true)
#define LIMIT(n, ...)                                                                           \
        ROW("Limit" n, U64, SERVICE, "resource-limits", __VA_ARGS__),                           \
                        ROW("Limit" n "Soft", U64, SERVICE, "resource-limits", .file_name = "", \
                                        __VA_ARGS__)
#define FROM(key, factor) .keys = K(key), .scale = (factor)
/* Where such calls are put on record, it is the finer layer's alone. */
#define UNRECORDED .fill = fill_unrecorded
#define PID_1_TIMER "PID 1's own timer"
#define PID_1_RULE "PID 1's own rule"

/* What else later versions offer to such a unit, and why it is not asked for:
 *
 *   253  OpenFile=                     nothing is handed in but the shim's channel; verified to be unset
 *   254  MemoryKSM=                    off where it is not set; shared pages tell of others' memory
 *   254  ImportCredential=, DelegateSubgroup=, RootEphemeral=
 *                                      for what no run has: credentials by pattern, cgroups and images of its own; verified to be unset
 *   255  MemoryPeak (to be read)       the slice's memory.peak counts the same, has it on every version, and is read to the end
 *   255  SetLoginEnvironment=          the shim heeds no environment, and the command gets none of it
 *   255  NFTSet=                       sets in tables that a host would have to make; the wall is BPF, attached to the cgroup
 *   256  MemoryZSwapWriteback=         there is no swap to write back to
 *   257  PrivateTmp=disconnected       what DynamicUser= comes to there, and covered by tmpfs of the policy's size on every version
 *   257  PrivateUsers=identity, 258 full
 *                                      wider: "yes" maps the run's uid and root alone
 *   257  ExtraFileDescriptors=         as OpenFile=
 *   258  ProtectHostname=private       would let the run set its name; the name that it has the broker sets on every version
 *   258  DelegateNamespaces=           would make it the owner of its own; verified to be unset
 *   258  PrivateBPF=, BPFDelegate*=    a run may not call bpf(); verified to be unset
 *   258  StateDirectoryQuota= and the like
 *                                      it has no such directory
 *   258  ConcurrencyHardMax= of a slice
 *                                      the broker refuses the run above its own limit with words, on every version
 *
 * MountImagePolicy= and its kin are for images: there are none. (A warden gets no PrivatePIDs=: its witness is told by the kernel
 * who made a call, by the number that it has in the witness' own namespace.) */
/* clang-format off */
const UnitPropRow unit_prop_rows[] = {
        /* The unit. */
        SETTING("Description", STRING, BOTH, "text for people", .fill = fill_description),
        ROW("Slice", STRING, BOTH, "cgroup", .fill = fill_slice),
        /* Where it ends, so does the run, whoever is left to see it. */
        SETTING("BindsTo", STRV, BOTH, PID_1_RULE, .fill = fill_companion),
        SETTING("After", STRV, BOTH, PID_1_RULE, .fill = fill_companion),
        SETTING("CollectMode", STRING, BOTH, "acts when the unit has ended", .s = "inactive-or-failed"),
        SETTING("Type", STRING, SERVICE, "how PID 1 waits for the start", .s = "exec"),
        /* Else the run could ask for more time. */
        SETTING("NotifyAccess", STRING, SERVICE, PID_1_RULE, .s = "none"),
        /* Not ExecStartEx: 252 writes that name into the unit's file, which it cannot read when it reloads;
         * and a unit with a bad setting has no controllers, so its processes leave their limits behind. */
        ROW("ExecStart", EXEC, SERVICE, "process", .keys = K(FILES_WORKSPACE), .fill = fill_exec),
        ROW("StandardOutput", STRING, SERVICE, "descriptors", .s = "null"),
        ROW("StandardError", STRING, SERVICE, "descriptors", .s = "null"),
        SETTING("SyslogIdentifier", STRING, SERVICE, "nothing of a run is logged under it",
                .s = "agentbox-exec"),
        ROW("IgnoreSIGPIPE", BOOL, SERVICE, "process", .u = false),
        ROW("UMask", U32, SERVICE, "umask", .u = UMASK, .text = "0022"),

        /* How it ends. */
        SETTING("RuntimeMaxUSec", U64, BOTH, PID_1_TIMER, .file_name = "RuntimeMaxSec",
                FROM(LIMITS_RUNTIME, 1)),
        SETTING("TimeoutStopUSec", U64, BOTH, PID_1_TIMER, .file_name = "TimeoutStopSec",
                .u = TIMEOUT_STOP_USEC, .text = "2s"),
        SETTING("TimeoutStartUSec", U64, SERVICE, PID_1_TIMER, .file_name = "TimeoutStartSec",
                .u = TIMEOUT_START_USEC, .text = "30s"),
        SETTING("KillMode", STRING, BOTH, PID_1_RULE, .s = "control-group"),
        ROW("OOMPolicy", STRING, BOTH, "oom-group", .s = "kill"),
        ROW("OOMScoreAdjust", I32, SERVICE, "oom-score", .u = OOM_SCORE_ADJUST, .text = "500"),

        /* The cgroup. */
        ROW("CPUQuotaPerSecUSec", U64, BOTH, "cpu-limit", .file_name = "CPUQuota",
            FROM(LIMITS_CPU_QUOTA, 10000)),
        ROW("MemoryMax", U64, BOTH, "memory-limit", FROM(LIMITS_MEMORY, 1)),
        ROW("MemorySwapMax", U64, BOTH, "swap-limit", .u = 0, .text = "0"),
        ROW("MemoryZSwapMax", U64, BOTH, "swap-limit", .since = 253, .u = 0, .text = "0"),
        /* Else 254 and later bind a writable file of the cgroup into the root. */
        ROW("MemoryPressureWatch", STRING, SERVICE, "mounts", .since = 254, .s = "no"),
        ROW("TasksMax", U64, BOTH, "tasks-limit", .keys = K(LIMITS_TASKS), .fill = fill_tasks),
        ROW("IOWeight", U64, BOTH, "io-weight", FROM(LIMITS_IO_WEIGHT, 1)),
        ROW("DevicePolicy", STRING, BOTH, "device-filter", .fill = fill_device_policy),
        ROW("DeviceAllow", PAIRS, SCOPE, "device-filter", .fill = fill_devices),
        ROW("IPAddressAllow", PREFIXES, BOTH, "address-filter", .keys = K(NETWORK_EGRESS) | K(NETWORK_ALLOW),
            .fill = fill_ip_allow),
        ROW("IPAddressDeny", PREFIXES, BOTH, "address-filter", .keys = K(NETWORK_EGRESS),
            .fill = fill_ip_deny, .text = "any"),
        ROW("IPIngressFilterPath", STRV, SERVICE, "loopback-filter", .keys = K(NETWORK_EGRESS),
            .fill = fill_ip_filter),
        ROW("IPEgressFilterPath", STRV, SERVICE, "loopback-filter", .keys = K(NETWORK_EGRESS),
            .fill = fill_ip_filter),

        /* Who it is. */
        SANDBOX("DynamicUser", "uid"),
        SANDBOX("PrivateUsers", "namespaces"),
        SANDBOX("NoNewPrivileges", "no-new-privileges"),
        ROW("CapabilityBoundingSet", U64, SERVICE, "capabilities", .u = CAPABILITIES_NONE, .text = ""),
        ROW("AmbientCapabilities", U64, SERVICE, "capabilities", .u = CAPABILITIES_NONE, .text = ""),
        ROW("SecureBits", I32, SERVICE, "securebits", .u = SECUREBITS,
            .text = "noroot noroot-locked no-setuid-fixup no-setuid-fixup-locked"),
        ROW("KeyringMode", STRING, SERVICE, "keyring", .s = "private"),

        /* What it sees of files. */
        ROW("RootDirectory", STRING, SERVICE, "mounts", .keys = K(FILES_ROOT), .fill = fill_root),
        ROW("BindReadOnlyPaths", BINDS, SERVICE, "mounts", .keys = K(FILES_ROOT) | K(FILES_EXPOSE),
            .fill = fill_binds),
        ROW("TemporaryFileSystem", PAIRS, SERVICE, "workspace",
            .keys = K(FILES_WORKSPACE) | K(FILES_WORKSPACE_STORE) | K(FILES_WORKSPACE_SIZE) | K(FILES_WORKSPACE_INODES) |
                    K(FILES_TMP_SIZE) | K(FILES_SHM_SIZE) | K(SYSCALLS_PROFILE) | K(AUDIT_DECOYS),
            .fill = fill_tmpfs),
        ROW("LoadCredential", PAIRS, SERVICE, "credentials", .keys = K(FILES_CREDENTIAL), .fill = fill_credentials),
        ROW("InaccessiblePaths", STRV, SERVICE, "sys", .keys = K(SYSCALLS_PROFILE), .fill = fill_inaccessible),
        SANDBOX("MountAPIVFS", "proc"),
        ROW("ProtectSystem", STRING, SERVICE, "read-only", .s = "strict"),
        ROW("ProtectHome", STRING, SERVICE, "mounts", .keys = K(AUDIT_DECOYS), .fill = fill_protect_home),
        ROW("ProtectProc", STRING, SERVICE, "proc", .s = "invisible"),
        ROW("ProcSubset", STRING, SERVICE, "proc", .keys = K(SYSCALLS_PROFILE), .fill = fill_proc_subset),
        SANDBOX("ProtectClock", "seccomp"),
        SANDBOX("ProtectKernelTunables", "proc"),
        ROW("ProtectKernelModules", BOOL, SERVICE, "seccomp", UNRECORDED),
        SANDBOX("ProtectKernelLogs", "devices"),
        SANDBOX("ProtectHostname", "namespaces"),
        SANDBOX("ProtectControlGroups", "sys"),
        /* A cgroup namespace of its own as well: /proc/self/cgroup tells nothing about the host. */
        ROW("ProtectControlGroupsEx", STRING, SERVICE, "cgroup", .file_name = "ProtectControlGroups", .since = 257,
            .fill = fill_cgroup_namespace),
        SANDBOX("PrivateDevices", "devices"),
        SANDBOX("PrivateIPC", "namespaces"),
        /* The shim stays in it as its init (exec/exec-init.c). */
        ROW("PrivatePIDs", STRING, SERVICE, "processes", .since = PRIVATE_PIDS_SINCE, .s = "yes"),
        ROW("BindLogSockets", BOOL, SERVICE, "host-services", .since = 257, .u = false),

        /* The network. */
        ROW("PrivateNetwork", BOOL, SERVICE, "network", .keys = K(NETWORK_EGRESS),
            .fill = fill_private_network),
        ROW("NetworkNamespacePath", STRING, SERVICE, "network", .keys = K(NETWORK_EGRESS),
            .fill = fill_netns),

        /* System calls: the coarse layer. The fine one is the shim's (filter-compile.h). */
        ROW("RestrictAddressFamilies", BOOL_STRV, SERVICE, "seccomp", .fill = fill_families),
        ROW("RestrictNamespaces", U64, SERVICE, "seccomp", UNRECORDED, .text = "yes"),
        SANDBOX("RestrictRealtime", "seccomp"),
        SANDBOX("RestrictSUIDSGID", "seccomp"),
        ROW("LockPersonality", BOOL, SERVICE, "seccomp", UNRECORDED),
        ROW("MemoryDenyWriteExecute", BOOL, SERVICE, "write-execute", .keys = K(SYSCALLS_PROFILE),
            .fill = fill_mdwe),
        ROW("SystemCallArchitectures", STRV, SERVICE, "seccomp", .fill = fill_architectures),
        ROW("SystemCallErrorNumber", I32, SERVICE, "seccomp", .u = EPERM, .text = "EPERM"),
        ROW("SystemCallFilter", BOOL_STRV, SERVICE, "seccomp",
            .keys = K(SYSCALLS_PROFILE) | K(SYSCALLS_ALLOW) | K(SYSCALLS_DENY), .fill = fill_syscalls),

        /* Limits of the process. None on processes (TasksMax does that, and counts in pids.events) and none
         * on address space, which runtimes reserve without use. */
        LIMIT("NOFILE", FROM(LIMITS_OPEN_FILES, 1)),
        LIMIT("FSIZE", FROM(LIMITS_FILE_SIZE, 1)),
        LIMIT("CORE", FROM(LIMITS_CORE_SIZE, 1), .fill = fill_core),
        LIMIT("MEMLOCK", .u = LIMIT_MEMLOCK),
        LIMIT("MSGQUEUE", .u = LIMIT_MSGQUEUE),
        LIMIT("SIGPENDING", .u = LIMIT_SIGPENDING),
        LIMIT("RTPRIO", .u = 0),
        LIMIT("NICE", .u = 0),
};
/* clang-format on */
const size_t n_unit_prop_rows = ELEMENTSOF(unit_prop_rows);
