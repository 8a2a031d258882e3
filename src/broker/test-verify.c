/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "broker/test-verify-fixture.h"
#include "broker/verify.h"
#include "broker/warden-unit.h"

/* Every promise is broken here at least once, one fact at a time, and its row must say so. */

static const char *const none[] = { "Network.Egress=none", NULL };
static const char *const addresses[] = { "Network.Egress=addresses", "Network.Allow=10.0.0.0/8", NULL };
static const char *const open_net[] = { "Network.Egress=open", NULL };
static const char *const secret[] = { "Files.Credential=token:/etc/credstore/token", NULL };
static const char *const recording[] = { "Audit.DeniedSyscalls=yes", NULL };
static const char *const decoys[] = { "Audit.Decoys=yes", NULL };
static const char *const strict[] = { "Syscalls.Profile=strict", NULL };

/* clang-format off */
ATTEST(uid_root, for (int i = 0; i < 4; i++) a->uid[i] = 0)
ATTEST(uid_static, for (int i = 0; i < 4; i++) a->uid[i] = 65534; f->input.peer.uid = 65534)
ATTEST(uid_saved, a->uid[2] = 0)
DO(uid_other, f->input.peer.uid = 61201)
ATTEST(gid_saved, a->gid[2] = 5)
ATTEST(group_extra, a->groups[0] = 4)
ATTEST(cap_inheritable, a->cap_inheritable = 1)
ATTEST(cap_permitted, a->cap_permitted = 1)
ATTEST(cap_effective, a->cap_effective = 1)
ATTEST(cap_bounding, a->cap_bounding = UINT64_C(1) << 40)
ATTEST(cap_ambient, a->cap_ambient = 1)
ATTEST(nnp, a->no_new_privs = false)
ATTEST(securebits, a->securebits = 0xe)
ATTEST(seccomp_off, a->seccomp_mode = 0)
ATTEST(seccomp_few, a->seccomp_filters = 5)
ATTEST(escalate_user, a->probes[PROBE_UNSHARE_USER] = 0)
ATTEST(escalate_mount, a->probes[PROBE_MOUNT] = 0)
ATTEST(escalate_setuid, a->probes[PROBE_SETUID_0] = 0)
ATTEST(escalate_untried, a->probes[PROBE_SETUID_0] = -1)
ATTEST(write_execute, a->probes[PROBE_MPROTECT_EXEC] = 0)
ATTEST(keyring_user, fixture_replace(&a->keyring, "keyring;61200;65534;1f3f0000;_uid_ses.61200"))
ATTEST(keyring_root, fixture_replace(&a->keyring, "keyring;0;0;3f030000;_ses"))
ATTEST(keyring_garbage, fixture_replace(&a->keyring, "\x1b]0;x"))
ATTEST(keyring_error, a->keyring_error = EKEYREVOKED)
ATTEST(keyring_unfiltered, a->keyring_error = EPERM; a->seccomp_mode = 0)
DO(limit_soft, fixture_limit(f, RLIMIT_NOFILE)->soft = 1025)
DO(limit_hard, fixture_limit(f, RLIMIT_CORE)->hard = RLIM_INFINITY)
DO(limit_core, fixture_limit(f, RLIMIT_CORE)->soft = 0)
DO(limit_absent, fixture_limit(f, RLIMIT_MEMLOCK)->resource = RLIMIT_AS)
ATTEST(umask_open, a->umask = 0)
ATTEST(oom_score, a->oom_score_adj = -900)
ATTEST(environment, strv_extend(&a->environ_, "LD_PRELOAD=/x"))
ATTEST(fd_more, a->fds[2].fd = 9)
ATTEST(fd_missing, free(a->fds[2].target); a->n_fds = 2)
ATTEST(fd_file, fixture_replace(&a->fds[1].target, "/etc/shadow"))
ATTEST(fd_stdin, fixture_replace(&a->fds[0].target, "/dev/pts/0"))
ATTEST(ns_mnt, f->host.ns[ATTEST_NS_MNT] = a->ns[ATTEST_NS_MNT])
ATTEST(ns_user, f->host.ns[ATTEST_NS_USER] = a->ns[ATTEST_NS_USER])
ATTEST(ns_ipc, f->host.ns[ATTEST_NS_IPC] = a->ns[ATTEST_NS_IPC])
ATTEST(ns_uts, f->host.ns[ATTEST_NS_UTS] = a->ns[ATTEST_NS_UTS])
ATTEST(ns_zero, a->ns[ATTEST_NS_IPC] = 0)
ATTEST(net_host, f->host.ns[ATTEST_NS_NET] = a->ns[ATTEST_NS_NET])
DO(net_other, f->input.netns_inode++)
ATTEST(net_interface, fixture_replace(&a->netdev, "head\nhead\n    lo: 0\n  eth0: 1\n"))
ATTEST(net_metadata, a->probes[PROBE_METADATA_SEND] = 0)
ATTEST(net_black_hole, a->probes[PROBE_ELSEWHERE_SEND] = 0)
ATTEST(net_abstract, a->probes[PROBE_ABSTRACT_UNIX] = 0)
ATTEST(net_abstract_untried, a->probes[PROBE_ABSTRACT_UNIX] = -1)
ATTEST(net_no_loopback, a->probes[PROBE_LOOPBACK] = ENETUNREACH)
DO(no_programs, fixture_programs = 0)
static void filter_not_sent(Fixture *f)
{
        for (size_t i = 0; i < f->sent.n; i++)
                if (streq(f->sent.props[i].name, "IPEgressFilterPath"))
                        f->sent.props[i].name = "Slice";
}

DO(programs_unknown, fixture_programs = -EPERM)
DO(slice_opens, strv_extend(&f->slice_allow, "169.254.169.254/32"))
DO(slices_unread, f->no_slices = true)
ATTEST(filter_metadata, a->probes[PROBE_METADATA_SEND] = 0)
ATTEST(filter_elsewhere, a->probes[PROBE_ELSEWHERE_SEND] = 0)
ATTEST(filter_refused, a->probes[PROBE_METADATA_SEND] = ECONNREFUSED)
ATTEST(filter_loopback, a->probes[PROBE_LOOPBACK] = 0)
ATTEST(filter_silent, a->probes[PROBE_LOOPBACK] = ETIMEDOUT)

/* clang-format on */
static void mount_add(Fixture *f, const char *line)
{
        char *s;

        assert_true(asprintf(&s, "%s%s\n", f->attest.mountinfo, line) > 0);
        free(f->attest.mountinfo);
        f->attest.mountinfo = s;
}

static void change_mode(Fixture *f, const char *path, mode_t mode)
{
        char full[512];

        fixture_path(f, path, full);
        assert_int_equal(chmod(full, mode), 0);
}

/* clang-format off */
DO(mount_home, mount_add(f, "300 204 0:43 /home /home rw,nosuid,relatime - ext4 /dev/vda rw"))
DO(mount_usr, mount_add(f, "300 204 0:43 /usr /usr rw,nosuid,relatime - ext4 /dev/vda rw"))
DO(mount_suid, mount_add(f, "300 204 0:43 /usr /usr ro,relatime - ext4 /dev/vda rw"))
DO(mount_exposed, mount_add(f, "300 204 0:43 /root /srv ro,nosuid,relatime - ext4 /dev/vda rw"))
DO(mount_tmp_bind, mount_add(f, "300 204 0:43 /tmp/x /tmp rw,nosuid,nodev - tmpfs tmpfs rw"))
DO(mount_broken_line, mount_add(f, "300 204"))
DO(exposed_other, f->root.shown[0].inode++)
DO(exposed_elsewhere, f->root.shown[0].device++)
DO(exposed_gone, fixture_replace(&f->root.shown[0].destination, "/opt"))
DO(exposed_nothing, run_root_done(&f->root))
DO(credential_gone, fixture_unlink(f, FIXTURE_CREDENTIALS "/token"))
DO(credential_longer, fixture_write(f, FIXTURE_CREDENTIALS "/token", "123456"))
DO(credential_more, fixture_write(f, FIXTURE_CREDENTIALS "/host-key", "x"))
DO(credential_directory, fixture_write(f, FIXTURE_CREDENTIALS "/token2/x", ""))
DO(credential_open, change_mode(f, FIXTURE_CREDENTIALS "/token", 0444))
DO(credentials_open, change_mode(f, FIXTURE_CREDENTIALS, 0755))
DO(credentials_elsewhere, f->input.peer.pid = 4712)
DO(credentials_writable, mount_add(f, "300 204 0:71 / /run/credentials/agentbox-test.service rw,nosuid,nodev,noexec - ramfs ramfs rw"))
DO(credentials_exec, mount_add(f, "300 204 0:71 / /run/credentials/agentbox-test.service ro,nosuid,nodev - ramfs ramfs rw"))
DO(credentials_on_disk, mount_add(f, "300 204 0:43 /x /run/credentials/agentbox-test.service ro,nosuid,nodev,noexec - ext4 /dev/vda rw"))
DO(credentials_parent, mount_add(f, "300 204 0:43 /run /run/credentials rw,nosuid,nodev,noexec - tmpfs tmpfs rw"))
DO(credentials_unmounted, fixture_replace(&f->attest.mountinfo, "1 1 0:1 / / ro,nosuid - tmpfs tmpfs rw\n"))
DO(credentials_of_another, mount_add(f, "300 204 0:72 / /run/credentials/agentbox-other.service ro,nosuid,nodev,noexec - ramfs ramfs rw"))
DO(credentials_unasked, mount_add(f, "300 204 0:72 / /run/credentials ro,nosuid,nodev,noexec - tmpfs tmpfs rw"))
ATTEST(credentials_variable, strv_extend(&a->environ_, "CREDENTIALS_DIRECTORY=/workspace"))
ATTEST(credentials_variable_unasked, strv_extend(&a->environ_, "CREDENTIALS_DIRECTORY=/run/credentials/agentbox-test.service"))
DO(decoys_fewer, f->decoys.n--)
DO(decoys_none, f->input.decoys = NULL)
DO(decoy_gone, fixture_unlink(f, FIXTURE_ROOT "/home/agent/.aws/credentials"))
DO(decoy_other, f->decoys.l[0].inode++)
DO(decoy_elsewhere, f->decoys.l[1].device++)
DO(decoys_unwatched, fixture_is_marked = 0)
DO(decoys_unknown, fixture_is_marked = -EIO)
DO(home_open, change_mode(f, FIXTURE_ROOT UNIT_HOME, 0755))
DO(home_large, fixture_home_bytes *= 2)
DO(home_unlimited, fixture_home_bytes = 0)
DO(home_unasked, mount_add(f, "300 204 0:72 / /home/agent rw,nosuid,nodev - tmpfs tmpfs rw"))
DO(credential_loaded, fixture_answer(f, "LoadCredential")->l[1][1]++)
DO(mount_none, fixture_replace(&f->attest.mountinfo, ""))
ATTEST(root_writable, a->fs[ATTEST_FS_ROOT].flags = ST_NOSUID)
ATTEST(usr_suid, a->fs[ATTEST_FS_USR].flags = ST_RDONLY)
ATTEST(etc_absent, a->fs[ATTEST_FS_ETC].error = ENOENT)
ATTEST(root_written, a->probes[PROBE_WRITE_ROOT] = 0)
ATTEST(usr_written, a->probes[PROBE_WRITE_USR] = 0)
ATTEST(etc_written, a->probes[PROBE_WRITE_ETC] = 0)
ATTEST(workspace_big, a->fs[ATTEST_FS_WORKSPACE].bytes += 4096)
ATTEST(workspace_unlimited, a->fs[ATTEST_FS_WORKSPACE].bytes = 0)
ATTEST(workspace_inodes, a->fs[ATTEST_FS_WORKSPACE].inodes++)
ATTEST(workspace_disk, a->fs[ATTEST_FS_WORKSPACE].type = 0xef53)
ATTEST(workspace_dev, a->fs[ATTEST_FS_WORKSPACE].flags = ST_NOSUID)
ATTEST(workspace_exec, a->fs[ATTEST_FS_WORKSPACE].flags = ST_NOSUID | ST_NODEV)
ATTEST(workspace_full, a->probes[PROBE_WRITE_WORKSPACE] = ENOSPC)
ATTEST(workspace_absent, a->fs[ATTEST_FS_WORKSPACE].error = ENOENT)
ATTEST(tmp_big, a->fs[ATTEST_FS_TMP].bytes *= 2)
ATTEST(var_tmp_disk, a->fs[ATTEST_FS_VAR_TMP].type = 0xef53)
ATTEST(tmp_read_only, a->probes[PROBE_WRITE_TMP] = EROFS)
ATTEST(shm_big, a->fs[ATTEST_FS_SHM].bytes *= 2)
ATTEST(shm_read_only, a->probes[PROBE_WRITE_SHM] = EROFS)
ATTEST(dev_host, a->fs[ATTEST_FS_DEV].flags = ST_NOSUID)
ATTEST(dev_absent, a->fs[ATTEST_FS_DEV].error = ENOENT)
ATTEST(dev_kmsg, a->probes[PROBE_OPEN_KMSG] = 0)
ATTEST(dev_ptmx, a->probes[PROBE_OPEN_PTMX] = 0)
ATTEST(proc_1, a->probes[PROBE_OPEN_PROC_1] = 0)
DO(proc_hidepid, mount_add(f, "300 204 0:61 / /proc rw,nosuid - proc proc rw,subset=pid"))
DO(proc_subset, mount_add(f, "300 204 0:61 / /proc rw,nosuid - proc proc rw,hidepid=invisible"))
DO(proc_other, mount_add(f, "300 204 0:61 / /proc ro,nosuid - tmpfs tmpfs rw,hidepid=invisible,subset=pid"))
DO(proc_absent, fixture_replace(&f->attest.mountinfo, "1 1 0:1 / / ro,nosuid - tmpfs tmpfs rw\n"))
ATTEST(sys_open, a->probes[PROBE_OPEN_SYS] = 0)
ATTEST(run_writable, a->fs[ATTEST_FS_RUN].flags = 0)
ATTEST(run_absent, a->fs[ATTEST_FS_RUN].error = ENOENT)
ATTEST(run_socket, a->probes[PROBE_OPEN_RUN_SYSTEMD] = 0)
DO(cgroup_other, fixture_replace(&f->attest.cgroup, "0::/system.slice\n"))
DO(cgroup_host_namespace, f->host.ns[ATTEST_NS_CGROUP] = f->attest.ns[ATTEST_NS_CGROUP])
DO(cgroup_longer, fixture_replace(&f->attest.cgroup, "0::/agentbox.slice/agentbox-test.service/x\n"))
DO(cgroup_v1, fixture_replace(&f->attest.cgroup, "8:pids:/agentbox.slice/agentbox-test.service\n3:memory:/\n"
                "4:cpu:/agentbox.slice/agentbox-test.service\n0::/agentbox.slice/agentbox-test.service\n"))
DO(cgroup_garbage, fixture_replace(&f->attest.cgroup, "x\n:\n::\n\n"))
DO(cgroup_outside, fixture_write(f, "proc/4711/cgroup", "0::/system.slice\n"))
DO(memory_unlimited, fixture_write(f, "unified/GROUP/memory.max", "max\n"))
DO(memory_more, fixture_write(f, "unified/GROUP/memory.max", "268435457\n"))
DO(memory_garbage, fixture_write(f, "unified/GROUP/memory.max", "lots\n"))
DO(memory_absent, fixture_unlink(f, "unified/GROUP/memory.max"))
DO(memory_v1, fixture_write(f, "memory/GROUP/memory.limit_in_bytes", "9223372036854771712\n"))
DO(memory_v1_absent, fixture_unlink(f, "memory/GROUP/memory.limit_in_bytes"))
DO(swap_some, fixture_write(f, "unified/GROUP/memory.swap.max", "4096\n"))
DO(swap_absent, fixture_unlink(f, "unified/GROUP/memory.swap.max"))
DO(swap_v1, fixture_write(f, "memory/GROUP/memory.memsw.limit_in_bytes", "268439552\n"))
DO(swap_v1_absent, fixture_unlink(f, "memory/GROUP/memory.memsw.limit_in_bytes"))
DO(tasks_more, fixture_write(f, "unified/GROUP/pids.max", "65\n"))
DO(tasks_v1, fixture_write(f, "pids/GROUP/pids.max", "max\n"))
DO(cpu_unlimited, fixture_write(f, "unified/GROUP/cpu.max", "max 100000\n"))
DO(cpu_more, fixture_write(f, "unified/GROUP/cpu.max", "200000 100000\n"))
DO(cpu_garbage, fixture_write(f, "unified/GROUP/cpu.max", "200000\n"))
DO(cpu_v1, fixture_write(f, "cpu/GROUP/cpu.cfs_quota_us", "-1\n"))
DO(cpu_v1_absent, fixture_unlink(f, "cpu/GROUP/cpu.cfs_quota_us"))
DO(io_default, fixture_write(f, "unified/GROUP/../io.weight", "default 100\n"))
DO(io_absent, fixture_unlink(f, "unified/GROUP/../io.weight"))
DO(io_v1, fixture_write(f, "blkio/GROUP/../blkio.weight", "500\n"))
DO(oom_single, fixture_write(f, "unified/GROUP/memory.oom.group", "0\n"))
DO(oom_absent, fixture_unlink(f, "unified/GROUP/memory.oom.group"))
DO(devices_all, fixture_write(f, "devices/GROUP/devices.list", "a *:* rwm\n"))
DO(devices_absent, fixture_unlink(f, "devices/GROUP/devices.list"))
ATTEST(process_pid, a->pid++)
DO(process_gone, f->input.peer.pid = f->attest.pid = 4712)
DO(process_uid, fixture_write(f, "proc/4711/status", "Uid:\t0\t0\t0\t0\n"))
ATTEST(process_lies, a->cap_effective = 1)
ATTEST(process_seccomp, a->seccomp_mode = 1)
ATTEST(process_namespace, a->ns[ATTEST_NS_PID]++)
DO(process_command, fixture_write(f, "proc/4711/cmdline", "/bin/sh"))

/* clang-format on */
static const Break breaks[] = {
        B("escalation", escalate_mount, .settings = recording),
        B("uid", uid_root), B("uid", uid_static), B("uid", uid_saved), B("uid", uid_other),
        B("groups", gid_saved), B("groups", group_extra),
        B("capabilities", cap_inheritable), B("capabilities", cap_permitted),
        B("capabilities", cap_effective), B("capabilities", cap_bounding), B("capabilities", cap_ambient),
        B("no-new-privileges", nnp),
        B("securebits", securebits),
        B("seccomp", seccomp_off), B("seccomp", seccomp_few),
        B("escalation", escalate_user), B("escalation", escalate_mount), B("escalation", escalate_setuid),
        B("escalation", escalate_untried),
        B("write-execute", write_execute, strict),
        B("keyring", keyring_user), B("keyring", keyring_root), B("keyring", keyring_garbage),
        B("keyring", keyring_error), B("keyring", keyring_unfiltered),
        B("resource-limits", limit_soft), B("resource-limits", limit_hard),
        B("resource-limits", limit_core),
        B("resource-limits", limit_absent),
        B("umask", umask_open),
        B("oom-score", oom_score),
        B("environment", environment),
        B("descriptors", fd_more), B("descriptors", fd_missing), B("descriptors", fd_file),
        B("descriptors", fd_stdin),
        B("namespaces", ns_mnt), B("namespaces", ns_user), B("namespaces", ns_ipc), B("namespaces", ns_uts),
        B("namespaces", ns_zero),
        B("network", net_host), B("network", net_other), B("network", net_interface),
        B("network", net_metadata), B("network", net_black_hole), B("network", net_abstract),
        B("network", net_abstract_untried), B("network", net_no_loopback), B("network", net_host, none),
        B("network", net_black_hole, none),
        B("address-filter", no_programs, addresses), B("address-filter", programs_unknown, addresses),
        B("address-filter", slice_opens, addresses), B("address-filter", slices_unread, addresses),
        B("address-filter", filter_metadata, addresses), B("address-filter", filter_elsewhere, addresses),
        B("address-filter", filter_refused, addresses), B("address-filter", filter_loopback, addresses),
        B("address-filter", filter_silent, addresses),
        B("address-filter", filter_metadata, open_net), B("address-filter", no_programs, open_net),
        B("loopback-filter", no_programs), B("loopback-filter", programs_unknown),
        B("loopback-filter", filter_not_sent),
        B("mounts", mount_home), B("mounts", mount_usr), B("mounts", mount_suid),
        B("mounts", mount_exposed), B("mounts", mount_tmp_bind), B("mounts", mount_broken_line),
        B("mounts", mount_none),
        B("exposed", exposed_other), B("exposed", exposed_elsewhere), B("exposed", exposed_gone),
        B("exposed", exposed_nothing),
        B("credentials", credential_gone, secret), B("credentials", credential_longer, secret),
        B("credentials", credential_more, secret), B("credentials", credential_directory, secret),
        B("credentials", credential_open, secret), B("credentials", credentials_open, secret),
        B("credentials", credentials_elsewhere, secret), B("credentials", credentials_writable, secret),
        B("credentials", credentials_exec, secret), B("credentials", credentials_on_disk, secret),
        B("credentials", credentials_parent, secret), B("credentials", credentials_unmounted, secret),
        B("mounts", credentials_of_another, secret), B("mounts", credentials_unasked),
        B("environment", credentials_variable, secret), B("environment", credentials_variable_unasked),
        B("properties", credential_loaded, secret),
        B("decoys", decoys_fewer, decoys), B("decoys", decoys_none, decoys), B("decoys", decoy_gone, decoys),
        B("decoys", decoy_other, decoys), B("decoys", decoy_elsewhere, decoys),
        B("decoys", decoys_unwatched, decoys), B("decoys", decoys_unknown, decoys),
        B("decoys", home_open, decoys), B("decoys", home_large, decoys), B("decoys", home_unlimited, decoys),
        B("mounts", home_unasked),
        B("read-only", root_writable), B("read-only", usr_suid), B("read-only", etc_absent),
        B("read-only", root_written), B("read-only", usr_written), B("read-only", etc_written),
        B("workspace", workspace_big), B("workspace", workspace_unlimited),
        B("workspace", workspace_inodes), B("workspace", workspace_disk), B("workspace", workspace_dev),
        B("workspace", workspace_exec, strict), B("workspace", workspace_full),
        B("workspace", workspace_absent),
        B("tmp", tmp_big), B("tmp", var_tmp_disk), B("tmp", tmp_read_only),
        B("shared-memory", shm_big), B("shared-memory", shm_read_only),
        B("devices", dev_host), B("devices", dev_absent), B("devices", dev_kmsg), B("devices", dev_ptmx),
        B("proc", proc_1), B("proc", proc_hidepid), B("proc", proc_subset), B("proc", proc_other),
        B("proc", proc_absent),
        B("sys", sys_open),
        B("host-services", run_writable), B("host-services", run_absent), B("host-services", run_socket),
        B("cgroup", cgroup_other, .v2 = true), B("cgroup", cgroup_longer, .v2 = true),
        B("cgroup", cgroup_outside, .v2 = true), B("cgroup", cgroup_v1), B("cgroup", cgroup_garbage, .v2 = true),
        B("memory-limit", memory_unlimited, .v2 = true), B("memory-limit", memory_more, .v2 = true),
        B("memory-limit", memory_garbage, .v2 = true), B("memory-limit", memory_absent, .v2 = true),
        B("memory-limit", memory_v1), B("memory-limit", memory_v1_absent),
        B("swap-limit", swap_some, .v2 = true), B("swap-limit", swap_absent, .v2 = true),
        B("swap-limit", swap_v1), B("swap-limit", swap_v1_absent),
        B("tasks-limit", tasks_more, .v2 = true), B("tasks-limit", tasks_v1),
        B("cpu-limit", cpu_unlimited, .v2 = true), B("cpu-limit", cpu_more, .v2 = true),
        B("cpu-limit", cpu_garbage, .v2 = true), B("cpu-limit", cpu_v1), B("cpu-limit", cpu_v1_absent),
        B("io-weight", io_default, .v2 = true), B("io-weight", io_absent, .v2 = true),
        B("io-weight", io_v1),
        B("oom-group", oom_single, .v2 = true), B("oom-group", oom_absent, .v2 = true),
        B("device-filter", devices_all), B("device-filter", devices_absent),
        B("device-filter", no_programs, .v2 = true), B("device-filter", programs_unknown, .v2 = true),
        B("process", process_pid), B("process", process_gone), B("process", process_uid),
        B("process", process_lies), B("process", process_seccomp), B("process", process_namespace),
        B("process", process_command),
};
/* clang-format on */
static const size_t n_breaks = ELEMENTSOF(breaks);

static const struct {
        const Break *breaks;
        const size_t *n;
} tables[] = {
        { breaks, &n_breaks },
        { disk_breaks, &n_disk_breaks },
        { process_breaks, &n_process_breaks },
        { property_breaks, &n_property_breaks },
        { scope_breaks, &n_scope_breaks },
        { view_breaks, &n_view_breaks },
        { warden_breaks, &n_warden_breaks },
};

static bool says(char *const *broken_list, const char *promise)
{
        STRV_FOREACH(i, broken_list) {
                const char *rest = startswith(*i, promise);

                if (rest && startswith(rest, ": ") && strlen(rest) > 4)
                        return true;
        }
        return false;
}

static void check_good(const char *const *settings, bool v2)
{
        _cleanup_strv_ char **verified = NULL, **wrong = NULL;
        Fixture f;
        int r;

        fixture_init(&f, settings, v2);
        r = fixture_verify(&f, &verified, &wrong);
        if (r != 0)
                fail_msg("%s", wrong ? wrong[0] : "error");
        for (size_t i = 0; i < n_verify_rows; i++) {
                bool applies = !verify_rows[i].applies || verify_rows[i].applies(&f.input);

                assert_int_equal(strv_contains(verified, verify_rows[i].name), applies);
        }
        fixture_done(&f);
}

static void test_good(void **state)
{
        static const char *const *const all[] = { fixture_filtered, none, addresses, open_net, strict, secret, disk_settings, strict_disk_settings, recording, decoys };

        for (size_t i = 0; i < ELEMENTSOF(all); i++) {
                check_good(all[i], false);
                check_good(all[i], true);
        }
}

static void test_own_pids(void **state)
{
        _cleanup_strv_ char **verified = NULL, **wrong = NULL;
        Fixture f;

        fixture_init(&f, fixture_filtered, true);
        fixture_become_257(&f);
        if (fixture_verify(&f, &verified, &wrong) != 0)
                fail_msg("%s", wrong ? wrong[0] : "error");
        assert_true(strv_contains(verified, "processes"));
        fixture_done(&f);
}

/* Where refused calls are put on record PID 1 has to let them through, and the shim tries them later. */
static void test_new_namespaces(void **state)
{
        _cleanup_strv_ char **verified = NULL, **wrong = NULL;
        Fixture f;

        fixture_init(&f, recording, true);
        escalate_user(&f);
        assert_int_equal(fixture_verify(&f, &verified, &wrong), 0);
        assert_true(strv_contains(verified, "syscall-record"));
        fixture_done(&f);
}

static void check_break(const Break *b)
{
        _cleanup_strv_ char **verified = NULL, **wrong = NULL;
        Fixture f;

        fixture_init(&f, b->settings ? b->settings : fixture_filtered, b->v2);
        b->apply(&f);
        if (fixture_verify(&f, &verified, &wrong) != 1)
                fail_msg("%s went unnoticed", b->what);
        if (!says(wrong, b->promise))
                fail_msg("%s was noticed by \"%s\", not by %s", b->what, wrong[0], b->promise);
        assert_false(strv_contains(verified, b->promise));
        closep(&f.input.view_fd);
        fixture_done(&f);
}

static void test_each_break(void **state)
{
        for (size_t t = 0; t < ELEMENTSOF(tables); t++)
                for (size_t i = 0; i < *tables[t].n; i++)
                        check_break(tables[t].breaks + i);
}

static bool is_broken_somewhere(const char *promise)
{
        for (size_t t = 0; t < ELEMENTSOF(tables); t++)
                for (size_t i = 0; i < *tables[t].n; i++)
                        if (streq(tables[t].breaks[i].promise, promise))
                                return true;
        return false;
}

static void test_each_row_can_fail(void **state)
{
        for (size_t i = 0; i < n_verify_rows; i++)
                if (!is_broken_somewhere(verify_rows[i].name))
                        fail_msg("nothing here breaks promise %s", verify_rows[i].name);
}

static void check_verified_by(const char *property, const char *promise, const char *unverified)
{
        bool found = false;

        if (!promise) {
                assert_true(unverified && *unverified);
                return;
        }
        for (size_t k = 0; k < n_verify_rows; k++)
                found |= streq(verify_rows[k].name, promise);
        if (!found)
                fail_msg("%s: no promise is called %s", property, promise);
}

/* Each property that is sent names the promise that sees it in force, or says why none can. */
static void test_each_property_is_verified(void **state)
{
        for (size_t i = 0; i < n_unit_prop_rows; i++)
                check_verified_by(unit_prop_rows[i].name, unit_prop_rows[i].verified_by, unit_prop_rows[i].unverified);
        for (size_t i = 0; i < n_warden_prop_rows; i++)
                check_verified_by(warden_prop_rows[i].name, warden_prop_rows[i].verified_by,
                                warden_prop_rows[i].unverified);
}

static void tighter(Fixture *f)
{
        fixture_answer(f, "MemoryMax")->u = 1 << 20;
        fixture_answer(f, "TasksMax")->u = 5;
        fixture_answer(f, "RuntimeMaxUSec")->u = 1;
        fixture_answer(f, "LimitNOFILE")->u = 16;
        fixture_answer(f, "UMask")->u = 0077;
        fixture_answer(f, "OOMScoreAdjust")->u = 1000;
        assert_int_equal(strv_extend(&fixture_answer(f, "InaccessiblePaths")->l, "/usr/games"), 0);
        fixture_limit(f, RLIMIT_NOFILE)->soft = 16;
        fixture_limit(f, RLIMIT_NOFILE)->hard = 16;
        f->attest.umask = 0077;
        f->attest.oom_score_adj = 1000;
        fixture_write(f, "unified/GROUP/memory.max", "max\n");
        fixture_write(f, "unified/agentbox.slice/memory.max", "1048576\n");
        fixture_write(f, "unified/GROUP/pids.max", "5\n");
        fixture_extra(f, "Nice=19");
}

/* What a host tightens is its right; a limit of the slice counts as well. */
static void test_tighter_passes(void **state)
{
        _cleanup_strv_ char **verified = NULL, **wrong = NULL;
        Fixture f;

        fixture_init(&f, fixture_filtered, true);
        tighter(&f);
        if (fixture_verify(&f, &verified, &wrong) != 0)
                fail_msg("%s", wrong ? wrong[0] : "error");
        fixture_done(&f);
}

static void test_no_swap(void **state)
{
        _cleanup_strv_ char **verified = NULL, **wrong = NULL;
        Fixture f;

        fixture_init(&f, fixture_filtered, true);
        swap_absent(&f);
        f.host.has_swap = false;
        assert_int_equal(fixture_verify(&f, &verified, &wrong), 0);
        fixture_done(&f);
}

static void test_cgroup_namespace(void **state)
{
        static void (*const breaks_it[])(Fixture *f) = { cgroup_host_namespace, cgroup_other, cgroup_outside };

        for (size_t i = 0; i <= ELEMENTSOF(breaks_it); i++) {
                _cleanup_strv_ char **verified = NULL, **wrong = NULL;
                Fixture f;

                fixture_init(&f, fixture_filtered, true);
                fixture_become_257(&f);
                if (i < ELEMENTSOF(breaks_it))
                        breaks_it[i](&f);
                assert_int_equal(fixture_verify(&f, &verified, &wrong), i < ELEMENTSOF(breaks_it));
                assert_int_equal(strv_contains(verified, "cgroup"), i == ELEMENTSOF(breaks_it));
                fixture_done(&f);
        }
}

/* Bytes from inside reach the journal and terminals escaped. */
static void test_escaped(void **state)
{
        _cleanup_strv_ char **verified = NULL, **wrong = NULL;
        Fixture f;

        fixture_init(&f, fixture_filtered, true);
        fixture_replace(&f.attest.fds[1].target, "/x\x1b]52;evil\n");
        mount_add(&f, "300 204 0:43 / /\x1b[2J rw,nosuid - ext4 x rw");
        assert_int_equal(fixture_verify(&f, &verified, &wrong), 1);
        STRV_FOREACH(i, wrong)
                for (const char *c = *i; *c; c++)
                        assert_true((unsigned char) *c >= 0x20);
        fixture_done(&f);
}

static void test_input_is_checked(void **state)
{
        _cleanup_strv_ char **verified = NULL, **wrong = NULL;
        Fixture f;

        fixture_init(&f, fixture_filtered, true);
        f.input.control_group = "";
        assert_int_equal(fixture_verify(&f, &verified, &wrong), -EINVAL);
        f.input.control_group = NULL;
        assert_int_equal(fixture_verify(&f, &verified, &wrong), -EINVAL);
        fixture_done(&f);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_good),
                cmocka_unit_test(test_own_pids),
                cmocka_unit_test(test_new_namespaces),
                cmocka_unit_test(test_each_break),
                cmocka_unit_test(test_each_row_can_fail),
                cmocka_unit_test(test_each_property_is_verified),
                cmocka_unit_test(test_view),
                cmocka_unit_test(test_tighter_passes),
                cmocka_unit_test(test_no_swap),
                cmocka_unit_test(test_cgroup_namespace),
                cmocka_unit_test(test_escaped),
                cmocka_unit_test(test_input_is_checked),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
