/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>

#include "policy/unit-props.h"

static const UnitContext context = {
        .systemd_version = 252,
        .description = "a run",
        .root_directory = "/run/agentbox/x/root",
        .shim_path = "/usr/lib/agentbox/agentbox-exec",
        .netns_path = "/proc/1/fd/9",
        .ip_filter_path = "/sys/fs/bpf/x",
};

static void make(const UnitContext *c, const char *const *settings, UnitProps *ret)
{
        _cleanup_policy_ Policy *p = policy_new("test");
        Error *e = NULL;

        assert_non_null(p);
        for (; settings && *settings; settings++)
                if (policy_tighten(p, *settings, true, &e) < 0)
                        fail_msg("%s", e->message);
        if (unit_props_from_policy(p, c, ret, &e) < 0)
                fail_msg("%s", e->message);
}

static const UnitProp *find(const UnitProps *p, const char *name)
{
        const UnitProp *q = unit_props_find(p, name);

        if (!q)
                fail_msg("%s is not sent", name);
        return q;
}

static void check_line(const UnitProps *p, const char *name, const char *wanted)
{
        _cleanup_free_ char *line = NULL;

        assert_int_equal(unit_prop_to_text(find(p, name), &line), 0);
        assert_string_equal(line, wanted);
}

/* What is in a row must make sense by itself. */
static void test_rows(void **state)
{
        for (size_t i = 0; i < n_unit_prop_rows; i++) {
                const UnitPropRow *row = unit_prop_rows + i;

                assert_true(row->targets != 0);
                assert_true((row->verified_by != NULL) != (row->unverified != NULL));
                assert_ptr_equal(unit_prop_row(row->name), row); /* once */
                if (row->keys != 0 && !row->fill) {
                        assert_int_equal(__builtin_popcountll(row->keys), 1);
                        assert_true(row->scale > 0);
                }
                if (row->type == UNIT_PROP_STRING)
                        assert_true(row->fill || row->s);
        }
        assert_null(unit_prop_row("Nothing"));
}

static void test_default(void **state)
{
        _cleanup_(unit_props_done) UnitProps p = {};

        make(&context, NULL, &p);
        assert_int_equal(find(&p, "MemoryMax")->u, 256u << 20);
        assert_int_equal(find(&p, "MemorySwapMax")->u, 0);
        assert_int_equal(find(&p, "CPUQuotaPerSecUSec")->u, 1000000);
        assert_int_equal(find(&p, "CapabilityBoundingSet")->u, 0);
        assert_true(find(&p, "SystemCallFilter")->u);
        assert_true(strv_contains(find(&p, "SystemCallFilter")->l, "execve"));
        assert_false(strv_contains(find(&p, "SystemCallFilter")->l, "clock_settime"));
        check_line(&p, "ExecStart", "ExecStart=/usr/lib/agentbox/agentbox-exec /workspace");
        check_line(&p, "CPUQuotaPerSecUSec", "CPUQuota=100%");
        check_line(&p, "RuntimeMaxUSec", "RuntimeMaxSec=60s");
        check_line(&p, "CapabilityBoundingSet", "CapabilityBoundingSet=");
        check_line(&p, "SystemCallErrorNumber", "SystemCallErrorNumber=EPERM");
        check_line(&p, "NetworkNamespacePath", "NetworkNamespacePath=/proc/1/fd/9");
        assert_null(unit_props_find(&p, "IPAddressDeny"));
        assert_null(unit_props_find(&p, "IPAddressAllow"));
        check_line(&p, "IPIngressFilterPath", "IPIngressFilterPath=/sys/fs/bpf/x");
        check_line(&p, "IPEgressFilterPath", "IPEgressFilterPath=/sys/fs/bpf/x");
        assert_null(unit_props_find(&p, "LimitFSIZE"));
        assert_null(unit_props_find(&p, "IOWeight"));
        assert_null(unit_props_find(&p, "MemoryDenyWriteExecute"));
        assert_null(unit_props_find(&p, "Environment"));
}

/* Of two filters the one that refuses is heard, not the one that asks: what is put on record passes PID 1's. */
static void test_records(void **state)
{
        static const char *const no[] = { "Audit.DeniedSyscalls=no", NULL };
        static const char *const walls[] = { "RestrictNamespaces", "RestrictAddressFamilies", "LockPersonality",
                "ProtectKernelModules" };
        static const char *const calls[] = { "mount", "unshare", "ptrace", "io_uring_setup", "init_module" };
        _cleanup_(unit_props_done) UnitProps with = {}, without = {};

        make(&context, NULL, &with);
        make(&context, no, &without);
        for (size_t i = 0; i < ELEMENTSOF(walls); i++) {
                assert_null(unit_props_find(&with, walls[i]));
                find(&without, walls[i]);
        }
        for (size_t i = 0; i < ELEMENTSOF(calls); i++) {
                assert_true(strv_contains(find(&with, "SystemCallFilter")->l, calls[i]));
                assert_false(strv_contains(find(&without, "SystemCallFilter")->l, calls[i]));
        }
        assert_true(strv_contains(find(&with, "InaccessiblePaths")->l, "-+/usr/lib/modules"));
        assert_int_equal(find(&without, "RestrictNamespaces")->u, 0);
        assert_true(find(&without, "LockPersonality")->u);
        assert_false(strv_contains(find(&without, "RestrictAddressFamilies")->l, "AF_PACKET"));
}

static void test_versions(void **state)
{
        static const struct {
                const char *name;
                unsigned since;
        } rows[] = { { "MemoryZSwapMax", 253 }, { "MemoryPressureWatch", 254 }, { "BindLogSockets", 257 } };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                for (unsigned version = 252; version < 263; version++) {
                        _cleanup_(unit_props_done) UnitProps p = {};
                        UnitContext c = context;

                        c.systemd_version = version;
                        make(&c, NULL, &p);
                        assert_int_equal(
                                        unit_props_find(&p, rows[i].name) != NULL, version >= rows[i].since);
                }
}

/* PID 1 makes a cgroup namespace where there is one hierarchy alone. */
static void test_cgroup_version(void **state)
{
        for (unsigned v1 = 0; v1 < 2; v1++) {
                _cleanup_(unit_props_done) UnitProps p = {};
                UnitContext c = context;

                c.systemd_version = 257;
                c.cgroup_v1 = v1;
                make(&c, NULL, &p);
                assert_int_equal(unit_props_find(&p, "ProtectControlGroupsEx") != NULL, !v1);
                find(&p, "ProtectControlGroups");
        }
}

static void test_egress(void **state)
{
        static const char *const none[] = { "Network.Egress=none", NULL };
        static const char *const addresses[] = { "Network.Egress=addresses",
                "Network.Allow=10.0.0.0/8 100.64.0.0/10", NULL };
        static const char *const nothing[] = { "Network.Egress=addresses", NULL };
        _cleanup_(unit_props_done) UnitProps a = {}, b = {}, c = {};

        make(&context, none, &a);
        assert_true(find(&a, "PrivateNetwork")->u);
        assert_null(unit_props_find(&a, "NetworkNamespacePath"));
        check_line(&a, "IPAddressDeny", "IPAddressDeny=any");
        check_line(&a, "IPAddressAllow", "IPAddressAllow=127.0.0.0/8 ::1/128");
        assert_null(unit_props_find(&a, "IPEgressFilterPath"));

        make(&context, addresses, &b);
        assert_null(unit_props_find(&b, "PrivateNetwork"));
        assert_null(unit_props_find(&b, "NetworkNamespacePath"));
        check_line(&b, "IPAddressDeny", "IPAddressDeny=any");
        assert_string_equal(find(&b, "IPAddressAllow")->l[0], "10.0.0.0/8");
        STRV_FOREACH(i, find(&b, "IPAddressAllow")->l)
                assert_false(streq(*i, "100.64.0.0/10"));
        assert_true(strv_length(find(&b, "IPAddressAllow")->l) >
                        2); /* one of them is the metadata service of a cloud */

        make(&context, nothing, &c);
        check_line(&c, "IPAddressDeny", "IPAddressDeny=any");
        assert_null(unit_props_find(&c, "IPAddressAllow"));
}

static void test_network_namespace_is_needed(void **state)
{
        _cleanup_policy_ Policy *p = policy_new("test");
        _cleanup_(unit_props_done) UnitProps props = {};
        _cleanup_error_ Error *e = NULL;
        UnitContext c = context;

        c.netns_path = NULL;
        assert_int_equal(unit_props_from_policy(p, &c, &props, &e), -EINVAL);
        assert_non_null(strstr(e->message, "NetworkNamespacePath"));
        assert_null(props.props);
}

static void test_strict(void **state)
{
        static const char *const strict[] = { "Syscalls.Profile=strict", NULL };
        static const char *const jit[] = { "Syscalls.Profile=jit", NULL };
        _cleanup_(unit_props_done) UnitProps a = {}, b = {};
        const UnitProp *tmpfs;

        make(&context, strict, &a);
        assert_true(find(&a, "MemoryDenyWriteExecute")->u);
        assert_string_equal(find(&a, "ProcSubset")->s, "pid");
        tmpfs = find(&a, "TemporaryFileSystem");
        for (size_t i = 0; tmpfs->l[i]; i += 2)
                assert_non_null(strstr(tmpfs->l[i + 1], "noexec"));
        make(&context, jit, &b);
        assert_string_equal(find(&b, "ProcSubset")->s, "all");
        assert_null(unit_props_find(&b, "MemoryDenyWriteExecute"));
        assert_null(strstr(find(&b, "TemporaryFileSystem")->l[1], "noexec"));
}

static void test_files(void **state)
{
        static const char *const settings[] = { "Files.Workspace=/srv/w", "Files.WorkspaceSize=1M",
                "Files.WorkspaceInodes=100", "Files.TmpSize=2M", "Files.ShmSize=4M",
                "Files.Expose=/opt/a /usr", "Files.Credential=a:/etc/credstore/a b.c:/srv/b", NULL };
        char *binds[] = { (char *) "/etc/ssl/certs:/etc/ssl/certs", (char *) "/x:/opt/a", NULL };
        _cleanup_(unit_props_done) UnitProps p = {}, none = {};
        UnitContext c = context;

        c.extra_binds = binds;
        c.probe_abstract = "probe";
        make(&c, settings, &p);
        check_line(&p, "ExecStart", "ExecStart=/usr/lib/agentbox/agentbox-exec /srv/w probe");
        check_line(&p, "BindReadOnlyPaths",
                        "BindReadOnlyPaths=/etc/ssl/certs:/etc/ssl/certs /x:/opt/a /usr:/usr");
        check_line(&p, "TemporaryFileSystem",
                        "TemporaryFileSystem=/srv/w:mode=0777,size=1048576,nr_inodes=100,nosuid,nodev "
                        "/var/zz-tmp:mode=1777,size=2097152,nr_inodes=100,nosuid,nodev "
                        "/var/zz-var-tmp:mode=1777,size=2097152,nr_inodes=100,nosuid,nodev "
                        "/dev/shm:mode=1777,size=4194304,nr_inodes=100,nosuid,nodev "
                        "/run:mode=0755,size=64k,nr_inodes=16,nosuid,nodev,noexec,ro "
                        "/dev/pts:mode=0755,size=4k,nr_inodes=2,nosuid,nodev,noexec,ro");
        check_line(&p, "LoadCredential", "LoadCredential=a:/etc/credstore/a\nLoadCredential=b.c:/srv/b");
        make(&c, NULL, &none);
        assert_null(unit_props_find(&none, "LoadCredential"));
}

/* A workspace on disk is the broker's to mount; all else stays in memory. */
static void test_disk(void **state)
{
        static const char *const settings[] = { "Files.WorkspaceStore=disk", NULL };
        _cleanup_(unit_props_done) UnitProps p = {}, memory = {};
        char *const *l, *const *all;

        make(&context, settings, &p);
        make(&context, NULL, &memory);
        l = find(&p, "TemporaryFileSystem")->l;
        all = find(&memory, "TemporaryFileSystem")->l;
        assert_string_equal(all[0], "/workspace");
        assert_int_equal(strv_length(l), strv_length(all) - 2);
        for (size_t i = 0; l[i]; i++)
                assert_string_equal(l[i], all[i + 2]);
}

/* Where the root is another system's tree, the shim is not in it. */
static void test_other_root(void **state)
{
        static const char *const settings[] = { "Files.Root=/srv/tree", "Files.Expose=/opt/a", NULL };
        _cleanup_(unit_props_done) UnitProps p = {};

        make(&context, settings, &p);
        check_line(&p, "ExecStart", "ExecStart=/.agentbox-exec /workspace");
        check_line(&p, "BindReadOnlyPaths",
                        "BindReadOnlyPaths=/srv/tree/usr:/usr "
                        "/usr/lib/agentbox/agentbox-exec:/.agentbox-exec /opt/a:/opt/a");
}

static void test_scope(void **state)
{
        static const char *const settings[] = { "Files.Root=/", "Network.Egress=open", NULL };
        _cleanup_(unit_props_done) UnitProps p = {};
        UnitContext c = context;

        c.scope = true;
        c.workspace = "/run/agentbox/x/work";
        c.workspace_mount = "run-agentbox-x-work.mount";
        c.uid = c.gid = 1000;
        make(&c, settings, &p);
        assert_string_equal(find(&p, "BindsTo")->l[0], "run-agentbox-x-work.mount");
        assert_string_equal(find(&p, "DevicePolicy")->s, "strict");
        assert_null(unit_props_find(&p, "DynamicUser"));
        assert_null(unit_props_find(&p, "ExecStart"));
        assert_null(unit_props_find(&p, "SystemCallFilter"));
        find(&p, "MemoryMax");
        find(&p, "TasksMax");
        find(&p, "RuntimeMaxUSec");
        find(&p, "IPAddressDeny");
}

/* Names with blanks, quotes and percent signs stay one word of a unit file. */
static void test_quoting(void **state)
{
        char *values[] = { (char *) "/a b", (char *) "/c\"d\\e%f", NULL };
        UnitProp q = { .name = "InaccessiblePaths", .type = UNIT_PROP_STRV, .l = values };
        _cleanup_free_ char *line = NULL;

        assert_int_equal(unit_prop_to_text(&q, &line), 0);
        assert_string_equal(line, "InaccessiblePaths=\"/a b\" \"/c\\\"d\\\\e%%f\"");
        q.name = "Unknown";
        free(line);
        line = NULL;
        assert_int_equal(unit_prop_to_text(&q, &line), -ENOENT);
}

static void test_text(void **state)
{
        _cleanup_(unit_props_done) UnitProps p = {};
        _cleanup_free_ char *text = NULL;
        _cleanup_strv_ char **lines = NULL;

        make(&context, NULL, &p);
        text = unit_props_to_text(&p);
        assert_non_null(text);
        assert_non_null(strstr(text, "\nLimitNOFILE=1024\n"));
        assert_null(strstr(text, "Soft="));
        assert_int_equal(unit_props_text_for_key(&p, LIMITS_OPEN_FILES, &lines), 0);
        assert_int_equal(strv_length(lines), 1);
        assert_string_equal(lines[0], "LimitNOFILE=1024");
        lines = strv_free(lines);
        assert_int_equal(unit_props_text_for_key(&p, AUDIT_ARGUMENTS, &lines), 0);
        assert_int_equal(strv_length(lines), 0);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_default),
                cmocka_unit_test(test_records),
                cmocka_unit_test(test_versions),
                cmocka_unit_test(test_cgroup_version),
                cmocka_unit_test(test_egress),
                cmocka_unit_test(test_network_namespace_is_needed),
                cmocka_unit_test(test_strict),
                cmocka_unit_test(test_files),
                cmocka_unit_test(test_disk),
                cmocka_unit_test(test_other_root),
                cmocka_unit_test(test_scope),
                cmocka_unit_test(test_quoting),
                cmocka_unit_test(test_text),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
