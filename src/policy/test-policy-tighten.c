/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "policy/policy-keys.h"
#include "policy/policy-value.h"
#include "policy/policy.h"

static const char base[] =
                "[Files]\nExpose=/srv/a /srv/b\nCredential=a:/etc/a b:/etc/b\nView=/home/a /srv/v\n[Environment]\nPass=LANG "
                "TZ\nSet=A=b\n[Network]\nAllow=tls *.example.org\n"
                "Allow=tcp 10.0.0.0/8:22\n[Syscalls]\nAllow=ptrace "
                "kcmp\nDeny=@mqueue\n[Limits]\nFileSize=1G\n";

static Policy *parsed(const char *text)
{
        static const char *const nowhere[] = { NULL };
        _cleanup_error_ Error *e = NULL;
        Policy *p = NULL;

        if (policy_load_text("t", text, strlen(text), nowhere, "/nonexistent", &p, &e) < 0)
                fail_msg("%s", error_message(e, -EINVAL));
        return p;
}

typedef struct Row {
        const char *assignment;
        int caller, root; /* what each gets */
        const char *says; /* part of the caller's message */
} Row;

static const Row rows[] = {
        { "Limits.Memory=128M", 0, 0, NULL },
        { "Limits.Memory=256M", 0, 0, NULL },
        { "Limits.Memory= 128M ", 0, 0, NULL },
        { "Limits.Memory=257M", -EPERM, 0,
                        "Limits.Memory=257M is wider than the policy allows, which is at most 256M" },
        { "Limits.Memory=", 0, 0, NULL }, /* the default, which it is */
        { "Limits.FileSize=1G", 0, 0, NULL },
        { "Limits.FileSize=", -EPERM, 0, "at most 1G" }, /* none at all */
        { "Limits.FileSize=2G", -EPERM, 0, "at most 1G" },
        { "Limits.IOWeight=5", 0, 0, NULL }, /* where there was none: then it is 100 */
        { "Limits.IOWeight=100", 0, 0, NULL },
        { "Limits.IOWeight=101", -EPERM, 0, "at most 100" },
        { "Limits.Runtime=30s", 0, 0, NULL },
        { "Limits.Runtime=1h", -EPERM, 0, "at most 60s" },
        { "Limits.Runtime=0", -EINVAL, -EINVAL, "out of range" },
        { "Limits.CPUQuota=50%", 0, 0, NULL },
        { "Limits.CPUQuota=101%", -EPERM, 0, "100%" },
        { "Network.Egress=none", 0, 0, NULL },
        { "Network.Egress=filtered", 0, 0, NULL },
        { "Network.Egress=addresses", -EPERM, 0,
                        "Network.Egress=addresses is wider than the policy allows, which is filtered" },
        { "Network.Egress=open", -EPERM, 0, "filtered" },
        { "Network.Allow=", 0, 0, NULL },
        { "Network.Allow=tls www.example.org", 0, 0, NULL },
        { "Network.Allow=tcp 10.1.2.3:22", 0, 0, NULL },
        { "Network.Allow=tls example.org", -EPERM, 0, "tls *.example.org, tcp 10.0.0.0/8:22" },
        { "Network.Allow=tls www.example.org private=allow", -EPERM, 0, "private=allow" },
        { "Network.Allow=tcp 0.0.0.0/0:22", -EPERM, 0, NULL },
        { "Network.Allow=tls metadata.google.internal", -EINVAL, -EINVAL, "metadata" },
        { "Network.Allow=@package-index", -EINVAL, -EINVAL, "name the rules" },
        { "Files.Credential=b:/etc/b", 0, 0, NULL },
        { "Files.Credential=", 0, 0, NULL },
        { "Files.Credential=c:/etc/c", -EPERM, 0,
                        "Files.Credential=c:/etc/c is more than the policy allows" },
        { "Files.Credential=a:/etc/b", -EPERM, 0, NULL },
        { "Files.Credential=a", -EINVAL, -EINVAL, NULL },
        { "Files.View=/srv/v", 0, 0, NULL },
        { "Files.View=", 0, 0, NULL },
        { "Files.View=/srv/v /etc", -EPERM, 0, "Files.View=/etc is more than the policy allows, which is /home/a, /srv/v" },
        { "Files.View=/home/a/b", -EPERM, 0, NULL },
        { "Files.View=/", -EINVAL, -EINVAL, NULL },
        { "Files.Expose=/srv/a", 0, 0, NULL },
        { "Files.Expose=", 0, 0, NULL },
        { "Files.Expose=/srv/a /srv/c", -EPERM, 0,
                        "Files.Expose=/srv/c is more than the policy allows, which is /srv/a, /srv/b" },
        { "Files.Expose=/srv", -EPERM, 0, NULL },
        { "Files.Expose=/etc", -EINVAL, -EINVAL, "/etc/shadow" },
        { "Environment.Pass=TZ", 0, 0, NULL },
        { "Environment.Pass=HOME", -EPERM, 0, NULL },
        { "Environment.Set=A=c", -EPERM, 0, "policy's alone" },
        { "Files.Root=/srv/image", -EPERM, 0, "policy's alone" },
        { "Files.Workspace=/srv/w", -EPERM, 0, "policy's alone" },
        { "Files.TmpSize=1M", 0, 0, NULL },
        { "Files.WorkspaceStore=memory", 0, 0, NULL },
        { "Files.WorkspaceStore=disk", -EPERM, 0, "memory" },
        { "Files.TmpSize=0", -EINVAL, -EINVAL, NULL },
        { "Policy.Extends=open", -EPERM, 0, NULL },
        { "Policy.Boundary=kernel", -EPERM, 0, NULL },
        { "Syscalls.Profile=strict", 0, 0, NULL },
        { "Syscalls.Profile=jit", -EPERM, 0, "default" },
        { "Syscalls.Profile=build", -EPERM, 0, "default" },
        { "Syscalls.Allow=ptrace", 0, 0, NULL },
        { "Syscalls.Allow=ptrace perf_event_open", -EPERM, 0, NULL },
        { "Syscalls.Allow=mount", -EINVAL, -EINVAL, NULL },
        { "Syscalls.Deny=@network", 0, 0, NULL },
        { "Syscalls.Deny=", -EPERM, 0, "a caller can only add" },
        { "Syscalls.OnDenied=kill", 0, 0, NULL },
        { "Audit.Arguments=all", 0, 0, NULL },
        { "Audit.Arguments=none", -EPERM, 0, "first" },
        { "Audit.DeniedSyscalls=no", -EPERM, 0, NULL },
        { "Audit.DeniedSyscalls=yes", -EPERM, 0, NULL },
        { "Access.Users=mallory", -EPERM, 0, NULL },
        { "Access.Tighten=yes", -EPERM, 0, NULL },
        { "Limits.Memry=1M", -EINVAL, -EINVAL, "did you mean Memory?" },
        { "Limit.Memory=1M", -EINVAL, -EINVAL, "did you mean Limits?" },
        { "limits.memory=1M", -EINVAL, -EINVAL, "did you mean Limits?" },
        { "Memory=1M", -EINVAL, -EINVAL, "SECTION.KEY=VALUE" },
        { "Limits.Memory", -EINVAL, -EINVAL, "SECTION.KEY=VALUE" },
        { "", -EINVAL, -EINVAL, "SECTION.KEY=VALUE" },
        { "=", -EINVAL, -EINVAL, NULL },
        { ".=", -EINVAL, -EINVAL, NULL },
        { "Limits.Memory=128M\nTasks=1", -EINVAL, -EINVAL, NULL },
        { "Policy.Description=x\ny", -EINVAL, -EINVAL, NULL },
        { "Policy.Description=x\\", -EINVAL, -EINVAL, "backslash" },
};

static void test_rows(void **state)
{
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                for (int root = 0; root <= 1; root++) {
                        _cleanup_policy_ Policy *p = parsed(base);
                        _cleanup_free_ char *before = policy_to_text(p), *after = NULL;
                        _cleanup_error_ Error *e = NULL;
                        int r = policy_tighten(p, rows[i].assignment, root, &e),
                            want = root ? rows[i].root : rows[i].caller;

                        if (r != want)
                                fail_msg("%s as %s: %d (%s)", rows[i].assignment, root ? "root" : "caller",
                                                r, e ? e->message : "");
                        after = policy_to_text(p);
                        if (r < 0) {
                                assert_non_null(e);
                                assert_string_equal(before, after);
                                if (!root && rows[i].says && !strstr(e->message, rows[i].says))
                                        fail_msg("%s: %s", rows[i].assignment, e->message);
                        }
                }
}

static void test_lists_over_several_assignments(void **state)
{
        _cleanup_policy_ Policy *p = parsed(base), *q = parsed(base);

        /* The first replaces, the next add, and all are held against what the policy says. */
        assert_int_equal(policy_tighten(p, "Network.Allow=tls a.example.org", false, NULL), 0);
        assert_int_equal(policy_tighten(p, "Network.Allow=tls b.example.org", false, NULL), 0);
        assert_int_equal(strv_length(policy_list(p, NETWORK_ALLOW)), 2);
        assert_int_equal(policy_tighten(p, "Network.Allow=tls evil.example", false, NULL), -EPERM);
        assert_int_equal(strv_length(policy_list(p, NETWORK_ALLOW)), 2);
        assert_int_equal(policy_tighten(p, "Network.Allow=", false, NULL), 0);
        assert_null(policy_list(p, NETWORK_ALLOW));
        assert_int_equal(policy_tighten(p, "Network.Allow=tls evil.example", false, NULL), -EPERM);
        assert_int_equal(policy_tighten(p, "Network.Allow=tls c.example.org", false, NULL), 0);
        /* Denials add up. */
        assert_int_equal(policy_tighten(q, "Syscalls.Deny=@network", false, NULL), 0);
        assert_int_equal(policy_tighten(q, "Syscalls.Deny=ptrace", false, NULL), 0);
        assert_int_equal(strv_length(policy_list(q, SYSCALLS_DENY)), 3);
        assert_int_equal(policy_tighten(q, "Syscalls.Deny=", false, NULL), -EPERM);
        /* A limit made smaller cannot be made larger again. */
        assert_int_equal(policy_tighten(q, "Limits.Tasks=8", false, NULL), 0);
        assert_int_equal(policy_tighten(q, "Limits.Tasks=9", false, NULL), -EPERM);
        assert_int_equal(policy_u64(q, LIMITS_TASKS), 8);
}

static void test_tighten_no(void **state)
{
        _cleanup_policy_ Policy *p = parsed("[Access]\nTighten=no\n");
        _cleanup_error_ Error *e = NULL;

        assert_int_equal(policy_tighten(p, "Limits.Memory=128M", false, &e), -EPERM);
        assert_non_null(strstr(e->message, "Tighten=no"));
        assert_int_equal(policy_tighten(p, "Limits.Memory=128M", true, NULL), 0);
        assert_int_equal(policy_u64(p, LIMITS_MEMORY), 128 << 20);
}

/* Values that only go together are judged when all are in. */
static void test_root_changes_egress(void **state)
{
        _cleanup_policy_ Policy *p = parsed(base);
        _cleanup_strv_ char **l = NULL;
        _cleanup_error_ Error *e = NULL;

        assert_int_equal(policy_tighten(p, "Network.Egress=addresses", true, NULL), 0);
        assert_int_equal(policy_check_enforceable(p, false, &e), -EINVAL);
        assert_non_null(strstr(e->message, "tls *.example.org"));
        assert_int_equal(policy_tighten(p, "Network.Allow=192.0.2.1 192.0.2.2", true, NULL), 0);
        assert_int_equal(policy_tighten(p, "Network.Allow=192.0.2.3", true, NULL), 0);
        assert_int_equal(policy_check_enforceable(p, false, NULL), 0);
        assert_int_equal(policy_ip_allow_list(p, &l, NULL), 0);
        assert_int_equal(strv_length(l), 2);
}

/* Whatever a caller gets through is no wider: for every key that tightens, every value that can be printed.
 */
static void test_never_wider(void **state)
{
        static const uint64_t scale[] = { 0, 1, 16, 100, 4096, 65536, 1000000, 60000000, 268435456,
                UINT64_C(1) << 40 };

        for (int k = 0; k < _POLICY_KEY_MAX; k++) {
                const PolicyKeyInfo *i = policy_keys + k;

                for (size_t n = 0; i->order != POLICY_ORDER_FIXED && i->type != POLICY_TYPE_LIST &&
                                   n < ELEMENTSOF(scale);
                                n++) {
                        uint64_t u = i->type == POLICY_TYPE_ENUM   ? n % i->n_names
                                     : i->type == POLICY_TYPE_BOOL ? n % 2
                                                                   : scale[n];
                        _cleanup_policy_ Policy *p = parsed(base), *root = parsed(base);
                        _cleanup_free_ char *value = policy_value_format_u64(k, u), *assignment = NULL;
                        uint64_t before = policy_u64(p, k);
                        bool was_set = policy_is_set(p, k);
                        int r;

                        assert_true(asprintf(&assignment, "%s.%s=%s", i->section, i->name, value) > 0);
                        r = policy_tighten(p, assignment, false, NULL);
                        if (policy_tighten(root, assignment, true, NULL) < 0)
                                assert_int_equal(r, -EINVAL);
                        if (r < 0)
                                assert_int_equal(policy_u64(p, k), before);
                        else if (was_set && i->order == POLICY_ORDER_LOWER)
                                assert_true(policy_u64(p, k) <= before);
                        else if (was_set)
                                assert_true(policy_u64(p, k) >= before);
                }
        }
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_lists_over_several_assignments),
                cmocka_unit_test(test_tighten_no),
                cmocka_unit_test(test_root_changes_egress),
                cmocka_unit_test(test_never_wider),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
