/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/strv.h"
#include "policy/filter-tables.h"
#include "tests/filter/simulate.h"
#include "tests/filter/syscall-number.h"

static const FilterSpec plain = {
        .profile = FILTER_PROFILE_DEFAULT, .unix_sockets = true, .inet_sockets = true
};

/* The verdict on a call with the given first argument. */
static int verdict(const FilterSpec *spec, const char *call, uint64_t arg)
{
        struct seccomp_data d = {
                .nr = (int) syscall_number(call), .arch = NATIVE_ARCH, .args = { arg, 1 }
        };
        _cleanup_free_ struct sock_filter *code = NULL;
        size_t n;

        assert_int_equal(filter_compile(spec, &code, &n, NULL), 0);
        assert_in_range(n, 1, BPF_MAXINSNS);
        return simulate_verdict(code, n, &d, NULL);
}

static void assert_refused(const FilterSpec *spec, const char *word)
{
        _cleanup_error_ Error *e = NULL;
        struct sock_filter *code = (void *) 1;
        size_t n = 7;
        char **list = (void *) 1;

        assert_int_equal(filter_compile(spec, &code, &n, &e), -EINVAL);
        assert_non_null(strstr(e->message, word));
        assert_ptr_equal(code, (void *) 1);
        assert_int_equal(n, 7);
        assert_int_equal(filter_systemd_allow_list(spec, &list, NULL), -EINVAL);
        assert_ptr_equal(list, (void *) 1);
}

static void test_names(void **state)
{
        static const char *const never[] = { "mount", "@mount", "fsopen", "unshare", "setns", "clone3",
                "openat2", "bpf", "io_uring_setup", "@io-uring", "seccomp", "landlock_restrict_self",
                "init_module", "kexec_load", "reboot", "swapon", "iopl", "open_by_handle_at",
                "clock_settime", "chroot", "pivot_root", "uselib" };
        static const char *const allowable[] = { "ptrace", "splice", "@splice", "perf_event_open",
                "userfaultfd", "process_vm_readv", "keyctl", "inotify_init1", "read", "cachestat", "@chown",
                "@set-uid", "@resources", "@numa", "capset", "setrlimit" };
        static const char *const unknown[] = { "", "@", "open_", "OPEN", "@system-service", "read ",
                "@mounts", "umount", "recv" };

        for (size_t i = 0; i < ELEMENTSOF(never); i++) {
                assert_true(filter_name_known(never[i]));
                assert_false(filter_name_allowable(never[i]));
        }
        for (size_t i = 0; i < ELEMENTSOF(allowable); i++) {
                assert_true(filter_name_known(allowable[i]));
                assert_true(filter_name_allowable(allowable[i]));
        }
        for (size_t i = 0; i < ELEMENTSOF(unknown); i++) {
                assert_false(filter_name_known(unknown[i]));
                assert_false(filter_name_allowable(unknown[i]));
        }
}

/* Every group has a row, calls, and no call stands twice; every call that this kernel's headers name is in a
 * group. */
static void test_tables_whole(void **state)
{
        size_t calls = 0, grouped = 0;

        for (const char *const *a = filter_known_names(); *a; a++) {
                for (const char *const *b = a + 1; *b; b++)
                        assert_string_not_equal(*a, *b);
                if (**a == '@')
                        assert_non_null(filter_group_find(*a));
                else
                        calls++;
        }
        for (size_t i = 0; i < filter_n_groups; i++) {
                assert_non_null(filter_group_next(&filter_groups[i], NULL));
                FILTER_GROUP_FOREACH(call, &filter_groups[i])
                {
                        assert_ptr_equal(filter_group_of(*call), &filter_groups[i]);
                        grouped++;
                }
        }
        assert_int_equal(calls, grouped);
        for (size_t i = 0; i < filter_n_grants; i++)
                assert_true(filter_name_known(filter_grants[i].call));
        for (size_t i = 0; i < filter_n_refusals; i++)
                assert_true(filter_name_known(filter_refusals[i].call));
        for (long nr = 0; nr <= (long) FILTER_NUMBER_MAX; nr++) {
                const char *name = syscall_name(nr);

                if (name && !filter_name_known(name))
                        fail_msg("%s is in no group", name);
        }
}

static void test_allow(void **state)
{
        FilterSpec s = plain;

        assert_int_equal(verdict(&s, "ptrace", 0), EPERM);
        assert_int_equal(verdict(&s, "splice", 0), ENOSYS);
        s.allow = (char *[]){ (char *) "ptrace", (char *) "@splice", NULL };
        assert_int_equal(verdict(&s, "ptrace", 0), 0);
        assert_int_equal(verdict(&s, "splice", 0), 0);
        assert_int_equal(verdict(&s, "vmsplice", 0), 0);
        assert_int_equal(verdict(&s, "process_vm_readv", 0), EPERM);

        /* A call with argument rules keeps them. */
        s.allow = (char *[]){ (char *) "socket", (char *) "@network", (char *) "clone", (char *) "prctl",
                NULL };
        assert_int_equal(verdict(&s, "socket", 17), EPERM);
        assert_int_equal(verdict(&s, "clone", 0x10000000), EPERM);
        assert_int_equal(verdict(&s, "prctl", 35), EPERM);

        s.profile = FILTER_PROFILE_STRICT;
        assert_int_equal(verdict(&s, "shmget", 0), ENOSYS);
        s.allow = (char *[]){ (char *) "@sysv-ipc", (char *) "@sync", NULL };
        assert_int_equal(verdict(&s, "shmget", 0), 0);
        assert_int_equal(verdict(&s, "sync", 0), 0);
}

static void test_deny(void **state)
{
        FilterSpec s = plain;

        s.deny = (char *[]){ (char *) "@network", (char *) "statx", NULL };
        assert_int_equal(verdict(&s, "socket", 1), EPERM);
        assert_int_equal(verdict(&s, "setsockopt", 1), EPERM);
        assert_int_equal(verdict(&s, "statx", 0), EPERM);
        assert_int_equal(verdict(&s, "read", 0), 0);
        /* Denied wins over allowed, for groups and for calls. */
        s.deny = (char *[]){ (char *) "ptrace", NULL };
        s.allow = (char *[]){ (char *) "@debug", NULL };
        assert_int_equal(verdict(&s, "ptrace", 0), EPERM);
        assert_int_equal(verdict(&s, "kcmp", 0), 0);
        s.deny = (char *[]){ (char *) "@debug", NULL };
        s.allow = (char *[]){ (char *) "ptrace", NULL };
        assert_int_equal(verdict(&s, "ptrace", 0), EPERM);
}

static void test_kill(void **state)
{
        FilterSpec s = plain;

        s.kill_on_denied = true;
        assert_int_equal(verdict(&s, "mount", 0), VERDICT_KILL);
        assert_int_equal(verdict(&s, "clone", 0x10000000), VERDICT_KILL);
        assert_int_equal(verdict(&s, "socket", 17), VERDICT_KILL);
        assert_int_equal(verdict(&s, "clone3", 0), ENOSYS);
        assert_int_equal(verdict(&s, "splice", 0), ENOSYS);
        assert_int_equal(verdict(&s, "getpid", 0), 0);
        s.unix_sockets = false;
        assert_int_equal(verdict(&s, "socket", 1), EAFNOSUPPORT);
        assert_int_equal(verdict(&s, "fchown", 0), EPERM);
        s.deny = (char *[]){ (char *) "uname", (char *) "fchown", NULL };
        assert_int_equal(verdict(&s, "uname", 0), VERDICT_KILL);
        assert_int_equal(verdict(&s, "fchown", 0), VERDICT_KILL);
}

/* A kept call that sets a uid goes to the kernel, a denied one nowhere. */
static void test_set_uid(void **state)
{
        static const uint32_t bad[] = { 0, UINT32_C(1) << 31, FILTER_SELF_PLACEHOLDER, UINT32_MAX };
        _cleanup_free_ struct sock_filter *code = NULL, *before = NULL;
        FilterSpec s = plain;
        size_t n, places = 0;

        assert_int_equal(filter_compile(&s, &code, &n, NULL), 0);
        before = calloc(n, sizeof(*before));
        assert_non_null(before);
        memcpy(before, code, n * sizeof(*code));
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                assert_int_equal(filter_set_uid(code, n, bad[i]), -EINVAL);
        assert_memory_equal(code, before, n * sizeof(*code));

        for (size_t i = 0; i < n; i++)
                places += before[i].k == FILTER_SELF_PLACEHOLDER;
        assert_in_range(places, 3, n);
        assert_int_equal(filter_set_uid(code, n, 61184), places);
        for (size_t i = 0; i < n; i++) {
                assert_int_not_equal(code[i].k, FILTER_SELF_PLACEHOLDER);
                assert_int_equal(code[i].k, before[i].k == FILTER_SELF_PLACEHOLDER ? 61184 : before[i].k);
                assert_int_equal(code[i].code, before[i].code);
        }
        assert_int_equal(filter_set_uid(code, n, 61184), 0);

        /* As anything but a comparison the placeholder must not stay, nor be replaced. */
        for (size_t i = 0; i < n; i++)
                if (before[i].code != (BPF_JMP | BPF_JEQ | BPF_K)) {
                        struct sock_filter was = before[i];

                        before[i].k = FILTER_SELF_PLACEHOLDER;
                        assert_int_equal(filter_set_uid(before, n, 61184), -EINVAL);
                        before[i] = was;
                }
}

static void test_no_ops_yield(void **state)
{
        FilterSpec s = plain;

        assert_int_equal(verdict(&s, "setuid", FILTER_SELF_PLACEHOLDER), VERDICT_NO_OP);
        s.kill_on_denied = true;
        assert_int_equal(verdict(&s, "setuid", FILTER_SELF_PLACEHOLDER), VERDICT_NO_OP);
        assert_int_equal(verdict(&s, "setuid", 0), VERDICT_KILL);
        s.deny = (char *[]){ (char *) "setuid", NULL };
        assert_int_equal(verdict(&s, "setuid", FILTER_SELF_PLACEHOLDER), VERDICT_KILL);
        s.kill_on_denied = false;
        s.deny = (char *[]){ (char *) "@set-uid", NULL };
        assert_int_equal(verdict(&s, "setuid", FILTER_SELF_PLACEHOLDER), EPERM);
        s.deny = NULL;
        s.allow = (char *[]){ (char *) "@set-uid", NULL };
        assert_int_equal(verdict(&s, "setuid", FILTER_SELF_PLACEHOLDER), 0);
        assert_int_equal(verdict(&s, "setuid", 0), 0);
}

static void test_errors(void **state)
{
        FilterSpec s = plain;

        s.allow = (char *[]){ (char *) "ptrace", (char *) "opennat", NULL };
        assert_refused(&s, "\"opennat\"");
        s.allow = (char *[]){ (char *) "@system-service", NULL };
        assert_refused(&s, "\"@system-service\"");
        s.allow = (char *[]){ (char *) "mount", NULL };
        assert_refused(&s, "\"mount\"");
        s.allow = (char *[]){ (char *) "@io-uring", NULL };
        assert_refused(&s, "\"@io-uring\"");
        s.allow = NULL;
        s.deny = (char *[]){ (char *) "nothing", NULL };
        assert_refused(&s, "\"nothing\"");
        s.deny = (char *[]){ (char *) "execve", NULL };
        assert_refused(&s, "\"execve\"");
        s.deny = (char *[]){ (char *) "@process", NULL };
        assert_refused(&s, "\"execve\"");
        s.deny = (char *[]){ (char *) "write", NULL };
        assert_refused(&s, "\"write\"");
        s.deny = NULL;
        s.profile = _FILTER_PROFILE_MAX;
        assert_refused(&s, "profile");
}

static void test_deterministic(void **state)
{
        for (unsigned p = 0; p < _FILTER_PROFILE_MAX; p++) {
                _cleanup_free_ struct sock_filter *a = NULL, *b = NULL;
                FilterSpec s = plain;
                size_t n, m;

                s.profile = p;
                assert_int_equal(filter_compile(&s, &a, &n, NULL), 0);
                assert_int_equal(filter_compile(&s, &b, &m, NULL), 0);
                assert_int_equal(n, m);
                assert_memory_equal(a, b, n * sizeof(*a));
        }
}

/* What systemd-analyze security counts against a unit, as far as a table of ours has it: @resources and
 * @privileged of systemd 252 to 257. */
static void test_systemd_groups(void **state)
{
        static const char *const counted[] = { "ioprio_set", "mbind", "migrate_pages", "move_pages",
                "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler",
                "set_mempolicy", "set_mempolicy_home_node", "setpriority", "setrlimit", "_sysctl", "acct",
                "adjtimex", "bpf", "capset", "chown", "chroot", "clock_adjtime", "clock_settime",
                "delete_module", "fanotify_init", "fanotify_mark", "fchown", "fchownat", "finit_module",
                "init_module", "ioperm", "iopl", "kexec_file_load", "kexec_load", "lchown", "nfsservctl",
                "open_by_handle_at", "pivot_root", "quotactl", "quotactl_fd", "reboot", "setdomainname",
                "setfsuid", "setgroups", "sethostname", "setresuid", "setreuid", "settimeofday", "setuid",
                "swapoff", "swapon", "vhangup" };

        for (unsigned p = 0; p < _FILTER_PROFILE_MAX; p++) {
                _cleanup_strv_ char **list = NULL;
                FilterSpec s = plain;

                s.profile = p;
                assert_int_equal(filter_systemd_allow_list(&s, &list, NULL), 0);
                for (size_t i = 0; i < ELEMENTSOF(counted); i++) {
                        assert_true(filter_name_known(counted[i]));
                        if (strv_contains(list, counted[i]))
                                fail_msg("%s: %s", filter_profile_names[p], counted[i]);
                }
        }
}

/* systemd's list has all that our program may let through, what the shim needs, and nothing else that is
 * refused. */
static void test_systemd_list(void **state)
{
        static const char *const shim[] = { "seccomp", "landlock_create_ruleset", "landlock_add_rule",
                "landlock_restrict_self", "keyctl", "openat2", "prctl", "execve" };

        for (unsigned p = 0; p < _FILTER_PROFILE_MAX; p++) {
                _cleanup_strv_ char **list = NULL;
                FilterSpec s = plain;
                size_t extra = 0;

                s.profile = p;
                s.allow = (char *[]){ (char *) "ptrace", NULL };
                s.deny = (char *[]){ (char *) "socket", NULL };
                assert_int_equal(filter_systemd_allow_list(&s, &list, NULL), 0);
                for (size_t i = 0; i < ELEMENTSOF(shim); i++)
                        assert_true(strv_contains(list, shim[i]));
                assert_true(strv_contains(list, "ptrace"));
                assert_true(strv_contains(list, "socket"));
                STRV_FOREACH(name, list) {
                        const FilterGroup *g = filter_group_of(*name);

                        assert_non_null(g);
                        if ((int) p > g->strictest)
                                extra++;
                }
                assert_int_equal(extra, 6 + 1);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_tables_whole),
                cmocka_unit_test(test_allow),
                cmocka_unit_test(test_deny),
                cmocka_unit_test(test_kill),
                cmocka_unit_test(test_set_uid),
                cmocka_unit_test(test_no_ops_yield),
                cmocka_unit_test(test_errors),
                cmocka_unit_test(test_deterministic),
                cmocka_unit_test(test_systemd_list),
                cmocka_unit_test(test_systemd_groups),
        };

        return cmocka_run_group_tests_name("filter-names", tests, NULL, NULL);
}
