/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>

#include "base/escape.h"
#include "base/parse.h"
#include "broker/bus-props.h"
#include "broker/verify.h"

/* The unit's settings as PID 1 has them: drop-ins of the host are parsed for transient units too. One that
 * tightens is the administrator's right; one that loosens breaks the promise. */

typedef enum Comparison {
        COMPARE_EQUAL,    /* exactly, or as a set */
        COMPARE_LESS,     /* a number, not greater; zero only where it was sent */
        COMPARE_GREATER,  /* a number, not smaller */
        COMPARE_BITS,     /* all bits and perhaps more */
        COMPARE_SUBSET,   /* items may be missing */
        COMPARE_SUPERSET, /* items may be added */
        COMPARE_SYSCALLS, /* a subset, and what systemd always allows */
        COMPARE_PREFIX,   /* one item that begins like this */
} Comparison;

static const struct {
        const char *name;
        Comparison comparison;
} comparisons[] = {
        { "RuntimeMaxUSec", COMPARE_LESS },
        { "TimeoutStopUSec", COMPARE_LESS },
        { "TimeoutStartUSec", COMPARE_LESS },
        { "CPUQuotaPerSecUSec", COMPARE_LESS },
        { "MemoryMax", COMPARE_LESS },
        { "TasksMax", COMPARE_LESS },
        { "IOWeight", COMPARE_LESS },
        { "LimitNOFILE", COMPARE_LESS },
        { "LimitNOFILESoft", COMPARE_LESS },
        { "LimitFSIZE", COMPARE_LESS },
        { "LimitFSIZESoft", COMPARE_LESS },
        { "LimitMEMLOCK", COMPARE_LESS },
        { "LimitMEMLOCKSoft", COMPARE_LESS },
        { "LimitMSGQUEUE", COMPARE_LESS },
        { "LimitMSGQUEUESoft", COMPARE_LESS },
        { "LimitSIGPENDING", COMPARE_LESS },
        { "LimitSIGPENDINGSoft", COMPARE_LESS },
        { "WatchdogUSec", COMPARE_LESS },
        { "OOMScoreAdjust", COMPARE_GREATER },
        { "UMask", COMPARE_BITS },
        { "SecureBits", COMPARE_BITS },
        { "IPAddressAllow", COMPARE_SUBSET },
        { "RestrictAddressFamilies", COMPARE_SUBSET },
        { "IPAddressDeny", COMPARE_SUPERSET },
        { "InaccessiblePaths", COMPARE_SUPERSET },
        { "After", COMPARE_SUPERSET },
        { "BindsTo", COMPARE_SUPERSET },
        { "SystemCallFilter", COMPARE_SYSCALLS },
        { "ExecStart", COMPARE_PREFIX },
};

/* What systemd puts into every allow-list: its group @default, of all versions. None of them opens anything.
 */
static const char *const syscalls_always[] = { "arch_prctl", "brk", "cacheflush", "clock_getres",
        "clock_getres_time64", "clock_gettime", "clock_gettime64", "clock_nanosleep",
        "clock_nanosleep_time64", "execve", "exit", "exit_group", "futex", "futex_time64", "futex_waitv",
        "futex_wake", "futex_wait", "futex_requeue", "get_robust_list", "get_thread_area", "getegid",
        "getegid32", "geteuid", "geteuid32", "getgid", "getgid32", "getgroups", "getgroups32", "getpgid",
        "getpgrp", "getpid", "getppid", "getrandom", "getresgid", "getresgid32", "getresuid", "getresuid32",
        "getrlimit", "getsid", "gettid", "gettimeofday", "getuid", "getuid32", "lsm_get_self_attr",
        "lsm_list_modules", "map_shadow_stack", "membarrier", "mmap", "mmap2", "mprotect", "mseal", "munmap",
        "nanosleep", "pause", "prlimit64", "restart_syscall", "riscv_flush_icache", "riscv_hwprobe", "rseq",
        "rt_sigreturn", "sched_getaffinity", "sched_yield", "set_robust_list", "set_thread_area",
        "set_tid_address", "set_tls", "sigreturn", "time", "ugetrlimit", "uretprobe" };

static bool always_allowed(const char *name)
{
        for (size_t i = 0; i < ELEMENTSOF(syscalls_always); i++)
                if (streq(syscalls_always[i], name))
                        return true;
        return false;
}

static Comparison comparison_of(const char *name)
{
        for (size_t i = 0; i < ELEMENTSOF(comparisons); i++)
                if (streq(comparisons[i].name, name))
                        return comparisons[i].comparison;
        return COMPARE_EQUAL;
}

static int compare_strings(const void *a, const void *b)
{
        return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Whether each item of inner is in outer, or fine in itself. Lists of hundreds: sorted first. -ENOMEM. */
static int is_subset(char *const *inner, char *const *outer, bool (*fine)(const char *item))
{
        size_t n = strv_length(outer);
        _cleanup_free_ char **sorted = calloc(n + 1, sizeof(char *));

        if (!sorted)
                return -ENOMEM;
        if (n > 0) {
                memcpy(sorted, outer, n * sizeof(char *));
                qsort(sorted, n, sizeof(char *), compare_strings);
        }
        STRV_FOREACH(i, inner)
                if (!bsearch(i, sorted, n, sizeof(char *), compare_strings) && !(fine && fine(*i)))
                        return false;
        return true;
}

/* The first item says that it is an allow-list; it is the same in both. */
static int is_call_list(char *const *is, char *const *sent)
{
        return is && sent && streq(is[0], sent[0]) ? is_subset(is + 1, sent + 1, always_allowed) : false;
}

static int is_same_set(char *const *is, char *const *sent)
{
        int r = strv_length(is) == strv_length(sent);

        if (r > 0)
                r = is_subset(is, sent, NULL);
        return r > 0 ? is_subset(sent, is, NULL) : r;
}

static bool numbers_compare(Comparison comparison, const char *is, const char *sent)
{
        long long signed_is = strtoll(is, NULL, 10), signed_sent = strtoll(sent, NULL, 10);
        uint64_t a, b;

        if (comparison == COMPARE_GREATER)
                return signed_is >= signed_sent;
        if (parse_u64(is, &a) < 0 || parse_u64(sent, &b) < 0)
                return false;
        /* Zero means "no limit" to some settings. */
        return comparison == COMPARE_BITS ? (a & b) == b : a <= b && (a != 0 || b == 0);
}

/* 1 it holds, 0 it does not, -ENOMEM. */
static int holds(Comparison comparison, char *const *is, char *const *sent)
{
        bool single = strv_length(is) == 1 && strv_length(sent) == 1;

        switch (comparison) {
        case COMPARE_EQUAL:
                return is_same_set(is, sent);
        case COMPARE_LESS:
        case COMPARE_GREATER:
        case COMPARE_BITS:
                return single && numbers_compare(comparison, is[0], sent[0]);
        case COMPARE_SUBSET:
                return is_subset(is, sent, NULL);
        case COMPARE_SUPERSET:
                return is_subset(sent, is, NULL);
        case COMPARE_SYSCALLS:
                return is_call_list(is, sent);
        case COMPARE_PREFIX:
                return single && startswith(is[0], sent[0]);
        }
        return false;
}

static int shown(char *const *items, char **ret)
{
        _cleanup_free_ char *text = strv_join(items, " ");

        for (char *p = text; p && *p; p++)
                if (*p == BUS_PROP_SEPARATOR)
                        *p = ':';
        *ret = text ? escape_for_display(text, strlen(text), 120) : NULL;
        return *ret ? 0 : -ENOMEM;
}

/* What is there and was not sent; with nothing of that kind, all that is there. */
static int shown_difference(char *const *is, char *const *sent, char **ret)
{
        _cleanup_strv_ char **more = NULL;

        STRV_FOREACH(i, is)
                if (!strv_contains(sent, *i) && !always_allowed(*i) && strv_extend(&more, *i) < 0)
                        return -ENOMEM;
        return shown(more ? more : is, ret);
}

int verify_properties(const VerifyInput *in, Buf *why)
{
        int r = 0, verdict = 0;

        for (size_t i = 0; r >= 0 && i < in->sent->n; i++) {
                const UnitProp *q = in->sent->props + i;
                const BusProp *is = bus_props_find(in->read, q->name);
                _cleanup_strv_ char **sent = NULL;
                _cleanup_free_ char *text = NULL;

                if (!is) {
                        verdict = broken(why, "PID 1 does not know %s", q->name);
                        continue;
                }
                r = bus_prop_from_unit_prop(q, &sent);
                if (r >= 0)
                        r = holds(comparison_of(q->name), is->items, sent);
                if (r != 0)
                        continue;
                r = shown_difference(is->items, sent, &text);
                if (r >= 0)
                        verdict = broken(why, "%s is now \"%s\"", q->name, text);
        }
        return r < 0 ? r : verdict;
}

/* ---- what was not sent */

/* Settings that must be empty (zero, no) where we did not set them ourselves. A version of systemd that does
 * not have one cannot be given it. */
static const char *const empty[] = {
        /* Other programs, before, beside or after ours; some of them outside the sandbox. */
        "ExecCondition", "ExecConditionEx", "ExecStartPre", "ExecStartPreEx", "ExecStartPost",
        "ExecStartPostEx", "ExecReload", "ExecReloadEx", "ExecReloadPost", "ExecReloadPostEx", "ExecStop",
        "ExecStopEx", "ExecStopPost", "ExecStopPostEx", "OnFailure", "OnSuccess", "Upholds",
        "ExecSearchPath", "RootDirectoryStartOnly", "PIDFile", "BusName", "USBFunctionDescriptors",
        "USBFunctionStrings", "PAMName",
        /* Data that is handed in. */
        "Environment", "EnvironmentFiles", "PassEnvironment", "LoadCredential", "LoadCredentialEncrypted",
        "SetCredential", "SetCredentialEncrypted", "ImportCredential", "ImportCredentialEx", "OpenFile",
        "StandardInputData", "FileDescriptorStoreMax", "ExtraFileDescriptorNames", "TTYPath",
        /* Files. */
        "BindPaths", "ReadWritePaths", "ExecPaths", "MountImages", "ExtensionImages", "ExtensionDirectories",
        "RootImage", "RootHash", "RootHashPath", "RootVerity", "RootMStack", "RootEphemeral",
        "WorkingDirectory", "MountFlags", "RuntimeDirectory", "StateDirectory", "CacheDirectory",
        "LogsDirectory", "ConfigurationDirectory",
        /* Who it is. */
        "SupplementaryGroups", "SELinuxContext", "AppArmorProfile", "SmackProcessLabel", "Personality",
        /* Namespaces and network. */
        "JoinsNamespaceOf", "NetworkNamespacePath", "IPCNamespacePath", "UserNamespacePath", "LogNamespace",
        "DelegateNamespaces", "IPAddressAllow", "BPFProgram",
        /* cgroup, scheduling. */
        "Delegate", "DelegateControllers", "DelegateSubgroup", "CPUSchedulingPolicy",
        "CPUSchedulingPriority", "CoredumpReceive", "MemoryMin", "MemoryLow",
        /* How it lives and ends. */
        "RemainAfterExit", "WatchdogUSec", "RuntimeRandomizedExtraUSec", "SurviveFinalKillSignal",
        "RefuseManualStop"
};

/* The same for those that must have this one value. */
static const struct {
        const char *name, *value;
} exact[] = {
        { "PrivatePIDs", "no" },
        { "PrivateBPF", "no" },
        { "Restart", "no" },
        { "ExitType", "main" },
        { "SendSIGKILL", "1" },
        { "FinalKillSignal", "9" },
        { "FailureAction", "none" },
        { "SuccessAction", "none" },
        { "JobTimeoutAction", "none" },
        { "StartLimitAction", "none" },
        { "RemoveIPC", "1" },
        { "Transient", "1" },
};

/* Not set in a scope, or not for it to set. */
static const char *const not_in_scope[] = { "RemoveIPC", "ExitType", "Restart" };

static bool is_exempt(const VerifyInput *in, const char *name)
{
        for (size_t i = 0; in->context->scope && i < ELEMENTSOF(not_in_scope); i++)
                if (streq(not_in_scope[i], name))
                        return true;
        return was_sent(in, name);
}

static int verify_setting(const BusProps *props, const char *name, const char *value, Buf *why)
{
        const BusProp *is = bus_props_find(props, name);
        _cleanup_free_ char *text = NULL;
        int r;

        if (!is || (value ? strv_length(is->items) == 1 && streq(is->items[0], value)
                          : bus_prop_is_empty(is)))
                return 0;
        r = shown(is->items, &text);
        return r < 0 ? r : broken(why, "%s is \"%s\"", name, text);
}

/* DynamicUser= names the user after the unit. Any other name would be another's account. */
static int verify_user(const VerifyInput *in, const BusProps *props, Buf *why)
{
        static const char *const names[] = { "User", "Group" };
        const BusProp *id = bus_props_find(props, "Id");
        _cleanup_free_ char *unit = NULL;
        int verdict = 0;

        if (!id || strv_length(id->items) != 1)
                return broken(why, "PID 1 does not name the unit");
        unit = strndup(id->items[0], strlen(id->items[0]) - MIN2(strlen(id->items[0]), strlen(".service")));
        if (!unit)
                return -ENOMEM;
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                /* To a scope it is who may change its cgroup: nobody. */
                int r = verify_setting(props, names[i], in->context->scope ? NULL : unit, why);

                if (r < 0)
                        return r;
                verdict |= r;
        }
        return verdict;
}

/* ProtectClock= adds this one, reading the clock, which the closed /dev does not have. */
static int verify_device_allow(const BusProps *props, Buf *why)
{
        const BusProp *is = bus_props_find(props, "DeviceAllow");
        _cleanup_free_ char *text = NULL;
        int r;

        if (!is || strv_length(is->items) == 0 ||
                        (strv_length(is->items) == 1 && streq(is->items[0], "char-rtc\x1fr")))
                return 0;
        r = shown(is->items, &text);
        return r < 0 ? r : broken(why, "DeviceAllow is \"%s\"", text);
}

int verify_settings(const VerifyInput *in, Buf *why)
{
        int r = 0, verdict = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(empty); i++) {
                r = is_exempt(in, empty[i]) ? 0 : verify_setting(in->read, empty[i], NULL, why);
                verdict |= r;
        }
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(exact); i++) {
                r = is_exempt(in, exact[i].name)
                                    ? 0
                                    : verify_setting(in->read, exact[i].name, exact[i].value, why);
                verdict |= r;
        }
        if (r >= 0 && !was_sent(in, "DeviceAllow")) {
                r = verify_device_allow(in->read, why);
                verdict |= r;
        }
        if (r >= 0) {
                r = verify_user(in, in->read, why);
                verdict |= r;
        }
        return r < 0 ? r : verdict;
}
