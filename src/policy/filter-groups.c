/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "policy/filter-tables.h"

/* The errno is EPERM, or ENOSYS for what programs have a way around; EPERM there breaks them (clone3: pools,
 * node, make, git). Two things make a call one that nothing may allow: it changes the machine or the walls
 * around the run, or it takes what the argument rules must see from memory, where no filter looks. */
const FilterGroup filter_groups[] = {
        { "@io", FILTER_PROFILE_STRICT, EPERM, false, "Descriptors, reading, writing" },
        { "@files", FILTER_PROFILE_STRICT, EPERM, false, "Names and modes of files" },
        { "@xattr", FILTER_PROFILE_STRICT, EPERM, false, "Extended attributes" },
        { "@memory", FILTER_PROFILE_STRICT, EPERM, false, "Memory of the process" },
        { "@process", FILTER_PROFILE_STRICT, EPERM, false, "Processes, threads, limits" },
        { "@identity", FILTER_PROFILE_STRICT, EPERM, false,
                        "User and group ids: reading them, and groups, which change nothing" },
        { "@schedule", FILTER_PROFILE_STRICT, EPERM, false, "Reading priorities and processors" },
        { "@signals", FILTER_PROFILE_STRICT, EPERM, false, "Signals" },
        { "@time", FILTER_PROFILE_STRICT, EPERM, false, "Reading clocks, timers" },
        { "@events", FILTER_PROFILE_STRICT, EPERM, false, "Waiting for descriptors" },
        { "@network", FILTER_PROFILE_STRICT, EPERM, false, "Sockets, of the families that the policy has" },
        { "@execveat", FILTER_PROFILE_DEFAULT, ENOSYS, false, "Executing an open file" },
        { "@memfd", FILTER_PROFILE_DEFAULT, ENOSYS, false,
                        "Files without a name: no seal keeps them from being mapped as code" },
        { "@pkey", FILTER_PROFILE_DEFAULT, ENOSYS, false, "Memory protection keys, shadow stacks" },
        { "@sysv-ipc", FILTER_PROFILE_DEFAULT, ENOSYS, false,
                        "System V shared memory, semaphores, messages" },
        /* What is in use by all runs together counts against the host: 65,536 requests that one run takes are
         * gone for its databases, and a run's user namespace charges 128 watchers and 800 KiB of messages to
         * root. */
        { "@file-watch", FILTER_NOWHERE, ENOSYS, false, "inotify: the host's root pays for it" },
        { "@aio", FILTER_NOWHERE, ENOSYS, false,
                        "The older asynchronous input and output: all of the host shares its requests" },
        { "@mqueue", FILTER_NOWHERE, ENOSYS, true, "POSIX message queues: the host's root pays for them" },
        { "@sync", FILTER_NOWHERE, EPERM, false,
                        "Flushing whole file systems, the host's too: but see filter_no_ops" },
        /* Without capabilities these do nothing that a run needs, and systemd-analyze counts them against a
         * unit. */
        { "@chown", FILTER_NOWHERE, EPERM, false, "Owners of files", .harmless = true },
        { "@set-uid", FILTER_NOWHERE, EPERM, false,
                        "User ids, supplementary groups, capabilities: but see filter_no_ops" },
        { "@resources", FILTER_NOWHERE, EPERM, false,
                        "Setting priorities and processors; limits by the older call", .harmless = true },
        { "@numa", FILTER_NOWHERE, ENOSYS, false, "Placing memory on nodes: programs then see just one" },
        { "@splice", FILTER_NOWHERE, ENOSYS, false, "Moving pages between pipes, sockets and files" },
        { "@newer", FILTER_NOWHERE, ENOSYS, false, "Calls that few kernels have and no program needs" },
        { "@debug", FILTER_NOWHERE, EPERM, false, "Looking into other processes" },
        { "@keyring", FILTER_NOWHERE, EPERM, false, "The kernel's key store" },
        { "@perf", FILTER_NOWHERE, EPERM, false, "Performance counters" },
        { "@userfault", FILTER_NOWHERE, EPERM, false, "Handling one's own page faults" },
        { "@ldt", FILTER_NOWHERE, EPERM, false, "Segments for 16-bit programs" },
        { "@hidden-arguments", FILTER_NOWHERE, ENOSYS, true,
                        "Their flags stand in memory, where no filter sees them" },
        { "@sandbox", FILTER_NOWHERE, ENOSYS, true, "Filters and Landlock, in place already" },
        { "@io-uring", FILTER_NOWHERE, EPERM, true, "A second way to make calls, past every filter" },
        { "@namespaces", FILTER_NOWHERE, EPERM, true, "New and other namespaces" },
        { "@mount", FILTER_NOWHERE, EPERM, true, "Mounts, roots" },
        { "@handles", FILTER_NOWHERE, EPERM, true, "Files by handle, past every directory" },
        { "@bpf", FILTER_NOWHERE, EPERM, true, "Programs in the kernel" },
        { "@module", FILTER_NOWHERE, EPERM, true, "Kernel modules" },
        { "@boot", FILTER_NOWHERE, EPERM, true, "Restarting, other kernels" },
        { "@swap", FILTER_NOWHERE, EPERM, true, "Swap" },
        { "@clock-set", FILTER_NOWHERE, EPERM, true, "Setting clocks" },
        { "@raw-io", FILTER_NOWHERE, EPERM, true, "Ports of the machine" },
        { "@admin", FILTER_NOWHERE, EPERM, true, "Names, quotas, logs and accounting of the machine" },
        { "@obsolete", FILTER_NOWHERE, ENOSYS, true, "Never built, removed, or of another age" },
};
const size_t filter_n_groups = ELEMENTSOF(filter_groups);

/* clang-format off */
const char *const filter_names[] = {
        "@io",
        "close", "close_range", "copy_file_range", "dup", "dup2", "dup3", "fadvise64", "fallocate", "fcntl",
        "fdatasync", "flock", "fsync", "ftruncate", "ioctl", "lseek", "pipe", "pipe2", "pread64", "preadv",
        "preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readahead", "readv", "sync_file_range",
        "truncate", "write", "writev",

        "@files",
        "access", "chdir", "chmod", "creat", "faccessat", "faccessat2", "fchdir", "fchmod", "fchmodat",
        "fchmodat2", "fstat", "fstatfs", "futimesat", "getcwd", "getdents", "getdents64", "link", "linkat",
        "lstat", "mkdir", "mkdirat", "mknod", "mknodat", "newfstatat", "open", "openat", "readlink",
        "readlinkat", "rename", "renameat", "renameat2", "rmdir", "stat", "statfs", "statx", "symlink",
        "symlinkat", "umask", "unlink", "unlinkat", "utime", "utimensat", "utimes",

        "@xattr",
        "fgetxattr", "flistxattr", "fremovexattr", "fsetxattr", "getxattr", "lgetxattr", "listxattr",
        "llistxattr", "lremovexattr", "lsetxattr", "removexattr", "setxattr",

        "@memory",
        "brk", "madvise", "membarrier", "mincore", "mlock", "mlock2", "mlockall", "mmap",
        "mprotect", "mremap", "mseal", "msync", "munlock", "munlockall", "munmap",

        "@process",
        "arch_prctl", "clone", "execve", "exit", "exit_group", "fork", "futex", "futex_waitv",
        "get_robust_list", "getcpu", "getpgid", "getpgrp", "getpid", "getppid", "getrandom", "getrlimit",
        "getrusage", "getsid", "gettid", "kill", "personality", "pidfd_open", "pidfd_send_signal", "prctl",
        "prlimit64", "restart_syscall", "rseq", "set_robust_list", "set_tid_address", "setpgid", "setsid",
        "sysinfo", "tgkill", "times", "tkill", "uname", "vfork", "wait4", "waitid",

        "@identity",
        "capget", "getegid", "geteuid", "getgid", "getgroups", "getresgid", "getresuid", "getuid",
        "setfsgid", "setgid", "setregid", "setresgid",

        "@schedule",
        "getpriority", "ioprio_get", "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity",
        "sched_getattr", "sched_getparam", "sched_getscheduler", "sched_rr_get_interval", "sched_yield",

        "@signals",
        "pause", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn",
        "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo", "sigaltstack", "signalfd", "signalfd4",

        "@time",
        "alarm", "clock_getres", "clock_gettime", "clock_nanosleep", "getitimer", "gettimeofday", "nanosleep",
        "setitimer", "time", "timer_create", "timer_delete", "timer_getoverrun", "timer_gettime",
        "timer_settime", "timerfd_create", "timerfd_gettime", "timerfd_settime",

        "@events",
        "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd",
        "eventfd2", "poll", "ppoll", "pselect6", "select",

        "@network",
        "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen",
        "recvfrom", "recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown",
        "socket", "socketpair",

        "@execveat", "execveat",
        "@memfd", "memfd_create",
        "@sync", "sync", "syncfs",
        "@file-watch", "inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch",
        "@pkey", "map_shadow_stack", "pkey_alloc", "pkey_free", "pkey_mprotect",
        "@sysv-ipc", "msgctl", "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop", "semtimedop",
        "shmat", "shmctl", "shmdt", "shmget",
        "@mqueue", "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink",
        "@aio", "io_cancel", "io_destroy", "io_getevents", "io_pgetevents", "io_setup", "io_submit",
        "@chown", "chown", "fchown", "fchownat", "lchown",
        "@set-uid", "capset", "setfsuid", "setgroups", "setresuid", "setreuid", "setuid",
        "@resources",
        "ioprio_set", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler",
        "setpriority", "setrlimit",
        "@numa", "get_mempolicy", "mbind", "migrate_pages", "move_pages", "set_mempolicy",
        "set_mempolicy_home_node",
        "@splice", "sendfile", "splice", "tee", "vmsplice",
        "@newer",
        "cachestat", "file_getattr", "file_setattr", "futex_requeue", "futex_wait", "futex_wake",
        "getxattrat", "listmount", "listxattrat", "lsm_get_self_attr", "lsm_list_modules",
        "lsm_set_self_attr", "memfd_secret", "process_madvise", "process_mrelease", "removexattrat",
        "setxattrat", "statmount",

        "@debug", "kcmp", "pidfd_getfd", "process_vm_readv", "process_vm_writev", "ptrace",
        "@keyring", "add_key", "keyctl", "request_key",
        "@perf", "perf_event_open",
        "@userfault", "userfaultfd",
        "@ldt", "modify_ldt",

        "@hidden-arguments", "clone3", "openat2",
        "@sandbox", "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self", "seccomp",
        "@io-uring", "io_uring_enter", "io_uring_register", "io_uring_setup",
        "@namespaces", "setns", "unshare",
        "@mount",
        "chroot", "fsconfig", "fsmount", "fsopen", "fspick", "mount", "mount_setattr", "move_mount",
        "open_tree", "open_tree_attr", "pivot_root", "umount2",
        "@handles", "name_to_handle_at", "open_by_handle_at",
        "@bpf", "bpf",
        "@module", "delete_module", "finit_module", "init_module",
        "@boot", "kexec_file_load", "kexec_load", "reboot",
        "@swap", "swapoff", "swapon",
        "@clock-set", "adjtimex", "clock_adjtime", "clock_settime", "settimeofday",
        "@raw-io", "ioperm", "iopl",
        "@admin",
        "acct", "fanotify_init", "fanotify_mark", "quotactl", "quotactl_fd", "setdomainname", "sethostname",
        "syslog", "vhangup",
        "@obsolete",
        "_sysctl", "afs_syscall", "create_module", "epoll_ctl_old", "epoll_wait_old", "get_kernel_syms",
        "get_thread_area", "getpmsg", "lookup_dcookie", "nfsservctl", "putpmsg", "query_module",
        "remap_file_pages", "security", "set_thread_area", "sysfs", "tuxcall", "uselib", "ustat", "vserver",
        NULL,
};

const char *const filter_recorded[] = {
        "@namespaces", "@mount", "@debug", "@io-uring", "@keyring", "@bpf", "@perf", "@userfault", "@handles", "@module",
        "@boot", "@swap", "@ldt", "acct", "fanotify_init", "fanotify_mark", "quotactl", "quotactl_fd", "vhangup",
        /* With certain arguments only. */
        "clone", "personality", "socket",
        NULL,
};

static const struct {
        const char *call;
        int number;
} late_numbers[] = {
        { "set_mempolicy_home_node", 450 }, { "cachestat", 451 }, { "fchmodat2", 452 },
        { "map_shadow_stack", 453 }, { "futex_wake", 454 }, { "futex_wait", 455 },
        { "futex_requeue", 456 }, { "statmount", 457 }, { "listmount", 458 },
        { "lsm_get_self_attr", 459 }, { "lsm_set_self_attr", 460 }, { "lsm_list_modules", 461 },
        { "mseal", 462 }, { "setxattrat", 463 }, { "getxattrat", 464 }, { "listxattrat", 465 },
        { "removexattrat", 466 }, { "open_tree_attr", 467 }, { "file_getattr", 468 },
        { "file_setattr", 469 },
};
/* clang-format on */

const FilterGroup *filter_group_find(const char *name)
{
        for (size_t i = 0; i < filter_n_groups; i++)
                if (streq(filter_groups[i].name, name))
                        return &filter_groups[i];
        return NULL;
}

const FilterGroup *filter_group_of(const char *call)
{
        const char *group = NULL;

        for (const char *const *n = filter_names; *n; n++)
                if (**n == '@')
                        group = *n;
                else if (streq(*n, call))
                        return filter_group_find(group);
        return NULL;
}

const char *const *filter_group_next(const FilterGroup *g, const char *const *call)
{
        if (!call)
                for (call = filter_names; *call && !streq(*call, g->name);)
                        call++;
        if (!*call || !call[1] || *call[1] == '@')
                return NULL;
        return call + 1;
}

int filter_late_number(const char *call)
{
        for (size_t i = 0; i < ELEMENTSOF(late_numbers); i++)
                if (streq(late_numbers[i].call, call))
                        return late_numbers[i].number;
        return -1;
}

bool filter_name_known(const char *name)
{
        for (const char *const *n = filter_names; *n; n++)
                if (streq(*n, name))
                        return true;
        return false;
}

bool filter_name_allowable(const char *name)
{
        const FilterGroup *g = *name == '@' ? filter_group_find(name) : filter_group_of(name);

        return g && !g->never;
}

const char *const *filter_known_names(void)
{
        return filter_names;
}

bool filter_call_has_rules(const char *call)
{
        for (size_t i = 0; i < filter_n_grants; i++)
                if (streq(filter_grants[i].call, call))
                        return true;
        for (size_t i = 0; i < filter_n_refusals; i++)
                if (streq(filter_refusals[i].call, call))
                        return true;
        return false;
}

const char *filter_call_about(const char *call)
{
        return filter_group_of(call)->about;
}
