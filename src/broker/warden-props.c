/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <signal.h>

#include "broker/warden-unit.h"

/* What holds for every warden: it is on the host's network, so everything else is taken from it. */

/* The warden, its buffers (HELD_TOTAL_MAX of them), the resolver; and for each connection what the kernel keeps of its two
 * sockets. A flood ends the run, not the host. */
#define MEMORY_BASE (UINT64_C(192) << 20)
#define MEMORY_CONNECTION (UINT64_C(64) << 10)
#define TASKS_MAX 16u
/* Longer than a start may take (broker-run.c): it cannot answer before it is told what to do, and then asks for less
 * (EGRESS_WATCHDOG_USEC). */
#define WATCHDOG_USEC UINT64_C(90000000)
#define TIMEOUT_STOP_USEC UINT64_C(3000000) /* to put on record what it has counted */
#define OPEN_FILES_EXTRA 64u
#define FILE_SIZE_MAX \
        4096u      /* its tally is the one file that it can write, and must not grow: /run is the host's */
#define LOG_BURST 1000000u /* in a microsecond; journald multiplies it, in 32 bits */
#define NO_CORE 1u /* a crash handler that takes dumps from a pipe heeds no other value */
#define UMASK 0077

static const char *const families[] = { "AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", NULL };
static const char *const native[] = { "native", NULL };

/* "+": inside the root. What systemd puts there and nobody here needs: with them gone there is no place to
 * write. */
static const char *const inaccessible[] = { "+/sys", "+/tmp", "+/var/tmp", "-+/dev/shm", "-+/dev/mqueue",
        "-+/dev/hugepages", "-+/run/host", NULL };

/* The warden, which then makes its own list much shorter, and the resolver: what the C library needs to look
 * up names, with threads and plug-ins (nss). */
static const char *const calls[] = { "accept", "accept4", "access", "bind", "brk", "capget", "clock_getres",
        "clock_gettime", "clock_nanosleep", "clone", "clone3", "close", "close_range", "connect", "dup",
        "dup2", "dup3", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2",
        "epoll_wait", "eventfd2", "execve", "exit", "exit_group", "faccessat", "faccessat2", "fadvise64",
        "fcntl", "fstat", "fstatfs", "futex", "getcwd", "getdents64", "getegid", "geteuid", "getgid",
        "getgroups", "getpeername", "getpgrp", "getpid", "getppid", "getrandom", "getresgid", "getresuid",
        "getrlimit", "getrusage", "getsockname", "getsockopt", "gettid", "gettimeofday", "getuid", "ioctl",
        "kill", "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self", "listen", "lseek",
        "lstat", "madvise", "membarrier", "memfd_create", "mmap", "mprotect", "mremap", "munmap",
        "nanosleep", "newfstatat", "open", "openat", "pause", "pidfd_open", "pidfd_send_signal", "pipe",
        "pipe2", "poll", "ppoll", "prctl", "pread64", "preadv", "prlimit64", "pselect6", "pwrite64",
        "pwritev", "read", "readlink", "readlinkat", "readv", "recvfrom", "recvmmsg", "recvmsg",
        "restart_syscall", "rseq", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigreturn",
        "rt_sigsuspend", "rt_sigtimedwait", "sched_getaffinity", "sched_yield", "seccomp", "select",
        "sendfile", "sendmmsg", "sendmsg", "sendto", "set_robust_list", "set_tid_address", "setsockopt",
        "shutdown", "sigaltstack", "signalfd4", "socket", "socketpair", "splice", "stat", "statfs", "statx",
        "sysinfo", "tgkill", "timerfd_create", "timerfd_gettime", "timerfd_settime", "uname", "vfork",
        "wait4", "waitid", "write", "writev", "arch_prctl", NULL };

static int fill_text(const char *s, UnitProp *q)
{
        q->s = strdup(s);
        return q->s ? 1 : -ENOMEM;
}

static int fill_list(char *const *l, UnitProp *q)
{
        int r = strv_copy(l, &q->l);

        return r < 0 ? r : strv_length(q->l) > 0;
}

static int fill_description(const WardenUnit *w, UnitProp *q)
{
        return fill_text(w->description, q);
}

static int fill_exec(const WardenUnit *w, UnitProp *q)
{
        int r = strv_extend(&q->l, WARDEN_PATH);

        return r < 0 ? r : fill_text(WARDEN_PATH, q);
}

static int fill_root(const WardenUnit *w, UnitProp *q)
{
        return fill_text(w->root_directory, q);
}

static int fill_binds(const WardenUnit *w, UnitProp *q)
{
        STRV_FOREACH(i, w->binds) {
                const char *colon = strchr(*i, ':');
                char *source = colon ? strndup(*i, (size_t) (colon - *i)) : NULL;
                int r = !colon ? -EINVAL : !source ? -ENOMEM : strv_push(&q->l, source);

                if (r >= 0)
                        r = strv_extend(&q->l, colon + 1);
                if (r < 0)
                        return r;
        }
        return 1;
}

static int fill_deny(const WardenUnit *w, UnitProp *q)
{
        return fill_list(w->plan->deny, q);
}

static int fill_allow(const WardenUnit *w, UnitProp *q)
{
        return fill_list(w->plan->allow, q);
}

/* Each connection has a socket on either side. */
static int fill_open_files(const WardenUnit *w, UnitProp *q)
{
        q->u = 2 * (uint64_t) w->plan->connections + OPEN_FILES_EXTRA;
        return 1;
}

static int fill_memory(const WardenUnit *w, UnitProp *q)
{
        q->u = MEMORY_BASE + w->plan->connections * MEMORY_CONNECTION;
        return 1;
}

static int fill_cpu(const WardenUnit *w, UnitProp *q)
{
        q->u = w->plan->cpu_percent * UINT64_C(10000);
        return 1;
}

#define ROW(n, kind, promise, ...)                                                       \
        {                                                                                \
                .name = n, .type = UNIT_PROP_##kind, .verified_by = promise, __VA_ARGS__ \
        }
#define SETTING(n, kind, why, ...)                                                  \
        {                                                                           \
                .name = n, .type = UNIT_PROP_##kind, .unverified = why, __VA_ARGS__ \
        }
#define SANDBOX(n, promise) ROW(n, BOOL, promise, .u = true)
#define LIMIT(n, ...)                                      \
        ROW("Limit" n, U64, "warden-limits", __VA_ARGS__), \
                        ROW("Limit" n "Soft", U64, "warden-limits", __VA_ARGS__)
#define PID_1_TIMER "PID 1's own timer"
#define PID_1_RULE "PID 1's own rule"
#define FILTER "one of several filters; that there are filters, the warden's process shows"

/* clang-format off */
const WardenPropRow warden_prop_rows[] = {
        /* The unit. */
        SETTING("Description", STRING, "text for people", .fill = fill_description),
        /* Not the run's: what a run uses is read there. */
        ROW("Slice", STRING, "warden-limits", .s = WARDEN_SLICE),
        SETTING("CollectMode", STRING, "acts when the unit has ended", .s = "inactive-or-failed"),
        /* So that the run's unit, which starts after it, need not wait for its exec. That it has come up, it says itself. */
        SETTING("Type", STRING, "how PID 1 waits for the start", .s = "simple"),
        /* The run is bound to it, nobody else; so it goes when the run does, broker or no broker. */
        SETTING("StopWhenUnneeded", BOOL, PID_1_RULE, .u = true),
        ROW("ExecStart", EXEC, "warden", .fill = fill_exec),
        SETTING("StandardOutput", STRING, "the warden closes it", .s = "null"),
        SETTING("StandardError", STRING, "the warden closes it", .s = "null"),
        SETTING("UMask", U32, "it makes no file", .u = UMASK),
        SETTING("NotifyAccess", STRING, PID_1_RULE, .s = "main"), /* for the watchdog */

        /* How it ends. */
        SETTING("WatchdogUSec", U64, PID_1_TIMER, .u = WATCHDOG_USEC),
        SETTING("WatchdogSignal", I32, PID_1_RULE, .u = SIGKILL),
        SETTING("TimeoutStopUSec", U64, PID_1_TIMER, .u = TIMEOUT_STOP_USEC),
        SETTING("KillMode", STRING, PID_1_RULE, .s = "mixed"),
        ROW("OOMPolicy", STRING, "warden-limits", .s = "kill"),
        /* A denial that is not recorded would be one that nobody learns of. Nought would not do: PID 1 tells journald nothing
         * then, and journald's own limit holds. */
        SETTING("LogRateLimitIntervalUSec", U64, "the journal's own rule", .u = 1),
        SETTING("LogRateLimitBurst", U32, "the journal's own rule", .u = LOG_BURST),

        /* The cgroup. */
        ROW("MemoryMax", U64, "warden-limits", .fill = fill_memory),
        ROW("MemorySwapMax", U64, "warden-limits", .u = 0),
        ROW("MemoryZSwapMax", U64, "warden-limits", .since = 253, .u = 0),
        SETTING("MemoryPressureWatch", STRING, "else a file of the cgroup is shown in the root", .since = 254, .s = "no"),
        /* What a run can make it do, refused calls without end for example, costs the host no more than the run itself may. */
        ROW("CPUQuotaPerSecUSec", U64, "warden-limits", .fill = fill_cpu),
        ROW("TasksMax", U64, "warden-limits", .u = TASKS_MAX),
        ROW("DevicePolicy", STRING, "warden-limits", .s = "closed"),
        ROW("IPAddressAllow", PREFIXES, "warden-addresses", .fill = fill_allow),
        ROW("IPAddressDeny", PREFIXES, "warden-addresses", .fill = fill_deny),

        /* Who it is. */
        SANDBOX("DynamicUser", "warden"),
        SANDBOX("NoNewPrivileges", "warden"),
        ROW("CapabilityBoundingSet", U64, "warden", .u = 0),
        ROW("AmbientCapabilities", U64, "warden", .u = 0),
        SETTING("KeyringMode", STRING, "it may make no call for keys", .s = "private"),

        /* What it sees of files: nothing but its own program and, with a resolver, what that needs. */
        ROW("RootDirectory", STRING, "warden", .fill = fill_root),
        ROW("BindReadOnlyPaths", BINDS, "warden", .fill = fill_binds),
        ROW("InaccessiblePaths", STRV, "warden", .l = inaccessible),
        SANDBOX("MountAPIVFS", "warden"),
        ROW("ProtectSystem", STRING, "warden", .s = "strict"),
        ROW("ProtectHome", STRING, "warden", .s = "yes"),
        ROW("ProtectProc", STRING, "warden", .s = "invisible"),
        /* Without /proc/sys; so ProtectKernelTunables=, a sixth of the time that the unit's start takes, has nothing to do. */
        ROW("ProcSubset", STRING, "warden", .s = "pid"),
        SANDBOX("ProtectClock", "warden"),
        SANDBOX("ProtectKernelModules", "warden"),
        SANDBOX("ProtectKernelLogs", "warden"),
        SANDBOX("ProtectHostname", "warden"),
        SANDBOX("ProtectControlGroups", "warden"),
        SANDBOX("PrivateDevices", "warden"),
        ROW("BindLogSockets", BOOL, "warden", .since = 257, .u = false),

        /* System calls. */
        SETTING("RestrictAddressFamilies", BOOL_STRV, FILTER, .u = true, .l = families),
        SETTING("RestrictNamespaces", U64, FILTER, .u = 0),
        SETTING("RestrictRealtime", BOOL, FILTER, .u = true),
        SETTING("RestrictSUIDSGID", BOOL, FILTER, .u = true),
        SETTING("LockPersonality", BOOL, FILTER, .u = true),
        SETTING("MemoryDenyWriteExecute", BOOL, FILTER, .u = true),
        SETTING("SystemCallArchitectures", STRV, FILTER, .l = native),
        SETTING("SystemCallErrorNumber", I32, FILTER, .u = EPERM),
        ROW("SystemCallFilter", BOOL_STRV, "warden", .u = true, .l = calls),

        LIMIT("NOFILE", .fill = fill_open_files),
        LIMIT("FSIZE", .u = FILE_SIZE_MAX),
        LIMIT("CORE", .u = NO_CORE),
};
/* clang-format on */
const size_t n_warden_prop_rows = ELEMENTSOF(warden_prop_rows);

static int row_fill(const WardenPropRow *row, const WardenUnit *w, UnitProp *q)
{
        if (row->fill)
                return row->fill(w, q);
        q->u = row->u;
        if (row->s)
                return fill_text(row->s, q);
        return row->l ? fill_list((char *const *) row->l, q) : 1;
}

int warden_props(const WardenUnit *w, UnitProps *ret)
{
        _cleanup_(unit_props_done)
                        UnitProps props = { .props = calloc(n_warden_prop_rows, sizeof(UnitProp)) };

        if (!props.props)
                return -ENOMEM;
        for (size_t i = 0; i < n_warden_prop_rows; i++) {
                const WardenPropRow *row = warden_prop_rows + i;
                UnitProp *q = props.props + props.n;
                int r;

                if (row->since > w->systemd_version)
                        continue;
                *q = (UnitProp){ .name = row->name, .type = row->type };
                props.n++;
                r = row_fill(row, w, q);
                if (r < 0)
                        return r;
                if (r == 0)
                        props.n--; /* nothing was filled in */
        }
        *ret = props;
        props = (UnitProps){};
        return 0;
}
