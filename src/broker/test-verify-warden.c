/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/io.h"
#include "broker/test-verify-fixture.h"
#include "broker/warden-unit.h"

/* The warden's half of the fixture, and what can be wrong with it. */

#define WARDEN_ID "agentbox-warden-test"
#define WARDEN_GROUP "/agentbox.slice/agentbox-warden.slice/" WARDEN_ID ".service"
#define WARDEN_PID 4720
#define WARDEN_UID 61300u
#define LIMITS                                                                             \
        "Limit                     Soft Limit           Hard Limit           Units     \n" \
        "Max file size             4096                 4096                 bytes     \n" \
        "Max core file size        1                    1                    bytes     \n" \
        "Max open files            2112                 2112                 files     \n"

static int verify_nothing(const void *wall, int cgroup_fd, Buf *why)
{
        int verdict = *(const int *) wall;

        if (verdict > 0)
                buf_printf(why, "the wall is down");
        return verdict;
}

static void warden_cgroup(Fixture *f, bool v2)
{
        if (v2) {
                fixture_write(f, "unified/WARDEN/memory.max", "268435456\n");
                fixture_write(f, "unified/WARDEN/memory.swap.max", "0\n");
                fixture_write(f, "unified/WARDEN/memory.oom.group", "1\n");
                fixture_write(f, "unified/WARDEN/pids.max", "16\n");
                fixture_write(f, "unified/WARDEN/cpu.max", "100000 100000\n");
                fixture_write(f, "proc/4720/cgroup", "0::" WARDEN_GROUP "\n");
                return;
        }
        fixture_write(f, "unified/WARDEN/cgroup.procs", "");
        fixture_write(f, "memory/WARDEN/memory.limit_in_bytes", "268435456\n");
        fixture_write(f, "memory/WARDEN/memory.memsw.limit_in_bytes", "268435456\n");
        fixture_write(f, "pids/WARDEN/pids.max", "16\n");
        fixture_write(f, "cpu/WARDEN/cpu.cfs_quota_us", "100000\n");
        fixture_write(f, "cpu/WARDEN/cpu.cfs_period_us", "100000\n");
        fixture_write(f, "devices/WARDEN/devices.list", "c 1:3 rwm\n");
        fixture_write(f, "proc/4720/cgroup",
                        "8:pids:" WARDEN_GROUP "\n4:cpu,cpuacct:/\n3:memory:" WARDEN_GROUP
                        "\n0::" WARDEN_GROUP "\n");
}

static uint64_t inode_of(Fixture *f, const char *path)
{
        char full[512];
        struct stat st;

        fixture_path(f, path, full);
        assert_int_equal(stat(full, &st), 0);
        return st.st_ino;
}

static void warden_proc(Fixture *f)
{
        WardenFixture *w = &f->warden;

        fixture_write(f, "proc/4720/status",
                        "Name:\tagentbox-warden\nTracerPid:\t0\nUid:\t61300\t61300\t61300\t61300\n"
                        "Gid:\t61300\t61300\t61300\t61300\nThreads:\t1\nCapInh:\t0000000000000000\n"
                        "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\n"
                        "CapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n");
        fixture_write(f, "proc/4720/limits", LIMITS);
        fixture_write(f, "proc/4720/mountinfo",
                        "204 145 0:49 /agentbox/x/warden / ro,nosuid,nodev,relatime - tmpfs tmpfs "
                        "rw,mode=755\n"
                        "205 204 0:58 / /dev ro,nosuid,noexec - tmpfs tmpfs rw,size=4096k,mode=755\n"
                        "210 204 0:61 / /proc rw,nosuid,nodev,noexec,relatime - proc proc "
                        "rw,hidepid=invisible\n"
                        "212 204 0:62 / /run rw,nosuid,nodev - tmpfs tmpfs rw,size=64k\n");
        fixture_write(f, "proc/4720/ns/net", "");
        fixture_write(f, "proc/4720/ns/user", "");
        fixture_write(f, "proc/4720/ns/mnt", "");
        fixture_write(f, "proc/4720/exe", "program");
        fixture_write(f, "proc/4720/root/usr/x", "");
        w->hello.netns_inode = f->host.ns[ATTEST_NS_NET] = inode_of(f, "proc/4720/ns/net");
        w->hello.userns_inode = f->host.ns[ATTEST_NS_USER] = inode_of(f, "proc/4720/ns/user");
        w->hello.mntns_inode = inode_of(f, "proc/4720/ns/mnt");
        snprintf(w->program, sizeof(w->program), "%s/proc/4720/exe", f->directory);
        snprintf(w->root, sizeof(w->root), "%s/proc/4720/root", f->directory);
}

static void warden_files(Fixture *f)
{
        WardenFixture *w = &f->warden;
        struct sockaddr_un a = { .sun_family = AF_UNIX };
        char tally[512];

        snprintf(w->journal_path, sizeof(w->journal_path), "%s/journal", f->directory);
        snprintf(a.sun_path, sizeof(a.sun_path), "%s", w->journal_path);
        w->journal = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        w->input.journal_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        assert_true(w->journal >= 0 && bind(w->journal, (struct sockaddr *) &a, sizeof(a)) == 0);
        assert_int_equal(connect(w->input.journal_fd, (struct sockaddr *) &a, sizeof(a)), 0);
        fixture_path(f, "tally", tally);
        w->input.tally_fd = open(tally, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        assert_true(w->input.tally_fd >= 0 && ftruncate(w->input.tally_fd, sizeof(EgressTally)) == 0);
}

static void warden_unit(Fixture *f)
{
        static const char *const extra[] = { "Id=" WARDEN_ID ".service", "User=" WARDEN_ID,
                "Group=" WARDEN_ID, "Restart=no", "ExitType=main", "BindPaths=", "FailureAction=none",
                "LogLevelMax=-1", "LogFilterPatterns=", "LogExtraFields=" };
        char *binds[] = { (char *) WARDEN_PATH ":" WARDEN_PATH, NULL };
        WardenFixture *w = &f->warden;
        HostConfig config = {};

        assert_int_equal(warden_plan_make(f->policy, &config, NULL, &w->plan, NULL), 0);
        assert_int_equal(warden_props(&(WardenUnit){ .systemd_version = 252,
                                                      .description = "test",
                                                      .root_directory = w->root,
                                                      .binds = binds,
                                                      .plan = &w->plan },
                                         &w->sent),
                        0);
        fixture_copy_props(&w->sent, &w->answer);
        for (size_t i = 0; i < ELEMENTSOF(extra); i++)
                assert_int_equal(strv_extend(&w->extra, extra[i]), 0);
}

void fixture_init_warden(Fixture *f, bool v2)
{
        WardenFixture *w = &f->warden;

        w->hello = (WardenHello){
                .uid = WARDEN_UID,
                .gid = WARDEN_UID,
                .no_new_privileges = true,
                .seccomp_mode = 2,
                .canary_loopback = EPERM,
                .canary_metadata = EPERM,
                .memory_limit = UINT64_MAX,
                .open_files_limit = 2112,
        };
        warden_proc(f);
        warden_cgroup(f, v2);
        warden_files(f);
        warden_unit(f);
        w->input.sent = &w->sent;
        w->input.control_group = WARDEN_GROUP;
        w->input.hello = &w->hello;
        w->input.peer = (struct ucred){ .pid = WARDEN_PID, .uid = WARDEN_UID, .gid = WARDEN_UID };
        w->input.program = w->program;
        w->input.root_directory = w->root;
        w->input.n_slices = w->input.n_slices_told = 3;
        w->input.journal_path = w->journal_path;
        w->input.run_cgroup_fd = -1;
        w->input.wall = &w->wall;
        w->input.wall_verify = verify_nothing;
        f->input.warden = &w->input;
}

void fixture_done_warden(Fixture *f)
{
        WardenFixture *w = &f->warden;

        if (!w->input.sent)
                return;
        warden_plan_done(&w->plan);
        unit_props_done(&w->sent);
        unit_props_done(&w->answer);
        strv_free(w->extra);
        strv_free(w->open_slices);
        closep(&w->journal);
        closep(&w->input.journal_fd);
        closep(&w->input.tally_fd);
}

/* ---- what can be wrong */

static UnitProp *answer(Fixture *f, const char *name)
{
        for (size_t i = 0; i < f->warden.answer.n; i++)
                if (streq(f->warden.answer.props[i].name, name))
                        return f->warden.answer.props + i;
        fail_msg("%s is not sent", name);
        return NULL;
}

static void extra(Fixture *f, const char *line)
{
        size_t n = strcspn(line, "=") + 1;

        STRV_FOREACH(i, f->warden.extra)
                if (strncmp(*i, line, n) == 0) {
                        fixture_replace((char **) i, line);
                        return;
                }
        assert_int_equal(strv_extend(&f->warden.extra, line), 0);
}

/* The same status with another line of that name. */
static void status(Fixture *f, const char *line)
{
        _cleanup_free_ char *text = NULL, *changed = NULL;
        char path[512], *at;

        fixture_path(f, "proc/4720/status", path);
        assert_int_equal(read_file(path, 4096, &text, NULL), 0);
        at = strstr(text, (char[]){ line[0], line[1], line[2], line[3], 0 });
        assert_non_null(at);
        assert_true(asprintf(&changed, "%.*s%s%s", (int) (at - text), text, line, strchr(at, '\n')) > 0);
        fixture_write(f, "proc/4720/status", changed);
}

static void mount_more(Fixture *f, const char *line)
{
        fixture_write(f, "proc/4720/mountinfo", line);
}

static void fill_journal(Fixture *f)
{
        while (send(f->warden.input.journal_fd, "x", 1, 0) > 0)
                ;
}

static void allow_everything(Fixture *f)
{
        assert_int_equal(strv_extend(&f->warden.open_slices, "agentbox.slice"), 0);
        f->warden.input.open_slices = f->warden.open_slices;
}

static void deny_less(Fixture *f)
{
        UnitProp *q = answer(f, "IPAddressDeny");
        size_t n = strv_length(q->l);

        free(q->l[n - 1]);
        q->l[n - 1] = NULL;
}

static const char *const recording[] = { "Audit.DeniedSyscalls=yes", NULL };

/* clang-format off */
#define WARDEN(name, statement)                         \
        static void name(Fixture *f)                    \
        {                                               \
                WardenFixture *w _unused_ = &f->warden; \
                statement;                              \
        }

WARDEN(no_warden, f->input.warden = NULL)
WARDEN(wall_down, w->wall = 1)
WARDEN(wall_unknown, w->wall = -EIO)
WARDEN(uid_root, w->hello.uid = w->input.peer.uid = 0; status(f, "Uid:\t0\t0\t0\t0"))
WARDEN(uid_lie, w->hello.uid = 61301)
WARDEN(gid_lie, w->hello.gid = 61301)
WARDEN(uid_of_run, f->input.peer.uid = 61300)
WARDEN(capability, w->hello.capabilities = 1)
WARDEN(privileges, w->hello.no_new_privileges = false)
WARDEN(no_seccomp, w->hello.seccomp_mode = 0)
WARDEN(descriptors, w->hello.n_fds = 1)
WARDEN(other_net, f->host.ns[ATTEST_NS_NET]++)
WARDEN(other_user, f->host.ns[ATTEST_NS_USER]++)
WARDEN(host_mounts, f->host.ns[ATTEST_NS_MNT] = w->hello.mntns_inode)
WARDEN(net_lie, w->hello.netns_inode++; f->host.ns[ATTEST_NS_NET]++)
WARDEN(status_uid, status(f, "Uid:\t61300\t0\t61300\t61300"))
WARDEN(status_gid, status(f, "Gid:\t0\t61300\t61300\t61300"))
WARDEN(status_traced, status(f, "TracerPid:\t1"))
WARDEN(status_threads, status(f, "Threads:\t2"))
WARDEN(status_capabilities, status(f, "CapBnd:\t0000000000000400"))
WARDEN(status_privileges, status(f, "NoNewPrivs:\t0"))
WARDEN(status_seccomp, status(f, "Seccomp:\t0"))
WARDEN(process_gone, fixture_unlink(f, "proc/4720/status"))
WARDEN(other_program, snprintf(w->program, sizeof(w->program), "/usr/bin/true"))
WARDEN(other_root, w->input.root_directory = "/")
WARDEN(writable_root, mount_more(f, "204 145 0:49 / / rw,nosuid - tmpfs tmpfs rw\n"))
WARDEN(writable_tmp, mount_more(f, "204 145 0:49 / / ro - tmpfs tmpfs rw\n215 204 8:1 /x /tmp rw,nosuid - ext4 /dev/vda rw\n"))
WARDEN(writable_later, mount_more(f, "204 145 0:49 / / ro - tmpfs tmpfs rw\n215 204 8:1 /x /tmp ro - ext4 /dev/vda rw\n"
                "216 204 8:1 /x /tmp rw - ext4 /dev/vda rw\n"))
WARDEN(writable_run, mount_more(f, "204 145 0:49 / / ro - tmpfs tmpfs rw\n215 204 8:1 /x /run rw - ext4 /dev/vda rw\n"))
WARDEN(other_process, w->input.peer.pid = 4711)
WARDEN(cgroup_other, fixture_write(f, "proc/4720/cgroup", "0::/system.slice/x.service\n"))
WARDEN(cgroup_none, w->input.control_group = "")
WARDEN(memory_unlimited, fixture_write(f, "unified/WARDEN/memory.max", "max\n"))
WARDEN(memory_v1, fixture_write(f, "memory/WARDEN/memory.limit_in_bytes", "268435457\n"))
WARDEN(swap, fixture_write(f, "unified/WARDEN/memory.swap.max", "max\n"))
WARDEN(cpu, fixture_write(f, "unified/WARDEN/cpu.max", "max 100000\n"))
WARDEN(cpu_v1, fixture_write(f, "cpu/WARDEN/cpu.cfs_quota_us", "-1\n"))
WARDEN(tasks, fixture_write(f, "unified/WARDEN/pids.max", "17\n"))
WARDEN(oom_single, fixture_write(f, "unified/WARDEN/memory.oom.group", "0\n"))
WARDEN(devices, fixture_write(f, "devices/WARDEN/devices.list", "a *:* rwm\n"))
WARDEN(open_files, fixture_write(f, "proc/4720/limits", "\nMax open files 1 2113 files\nMax file size 1 1 b\nMax core file size 0 0 b\n"))
WARDEN(file_size, fixture_write(f, "proc/4720/limits", "\nMax open files 1 1 files\nMax file size 1 unlimited b\nMax core file size 0 0 b\n"))
WARDEN(core, fixture_write(f, "proc/4720/limits", "\nMax open files 1 1 files\nMax file size 1 1 b\nMax core file size 0 2 b\n"))
WARDEN(no_programs, fixture_programs = 0)
WARDEN(slices_untold, w->input.n_slices_told = 2)
WARDEN(canary_sent, w->hello.canary_loopback = 0)
WARDEN(canary_unroutable, w->hello.canary_loopback = ENETUNREACH)
WARDEN(canary_metadata, w->hello.canary_metadata = 0)
WARDEN(canary_untried, w->hello.canary_metadata = ECANCELED)
WARDEN(loose_memory, answer(f, "MemoryMax")->u++)
WARDEN(loose_tasks, answer(f, "TasksMax")->u = UINT64_MAX)
WARDEN(loose_notify, fixture_replace(&answer(f, "NotifyAccess")->s, "all"))
WARDEN(loose_watchdog, answer(f, "WatchdogUSec")->u = 0)
WARDEN(loose_rate, answer(f, "LogRateLimitBurst")->u = 1000)
WARDEN(loose_stop, answer(f, "StopWhenUnneeded")->u = 0)
WARDEN(loose_calls, strv_extend(&answer(f, "SystemCallFilter")->l, "bpf"))
WARDEN(loose_families, strv_extend(&answer(f, "RestrictAddressFamilies")->l, "AF_PACKET"))
WARDEN(more_binds, strv_extend(&answer(f, "BindReadOnlyPaths")->l, "/root"); strv_extend(&answer(f, "BindReadOnlyPaths")->l, "/root"))
WARDEN(more_allowed, extra(f, "IPAddressAllow=127.0.0.1"))
WARDEN(more_environment, extra(f, "Environment=A=1"))
WARDEN(more_programs, extra(f, "ExecStartPre=/bin/true"))
WARDEN(more_restart, extra(f, "Restart=always"))
WARDEN(records_by_level, extra(f, "LogLevelMax=4"))
WARDEN(records_by_level_zero, extra(f, "LogLevelMax=0"))
WARDEN(records_by_text, extra(f, "LogFilterPatterns=~denied"))
WARDEN(records_with_more, extra(f, "LogExtraFields=AGENTBOX_REASON=x"))
WARDEN(other_user_name, extra(f, "User=root"))
WARDEN(journal_elsewhere, w->input.journal_path = "/run/other")
WARDEN(journal_unconnected, close(w->input.journal_fd); w->input.journal_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0))
WARDEN(tally_short, assert_int_equal(ftruncate(w->input.tally_fd, 8), 0))


const Break warden_breaks[] = {
        B("wall", no_warden), B("wall", wall_down), B("wall", wall_unknown),
        B("warden", no_warden), B("warden", uid_root), B("warden", uid_lie), B("warden", gid_lie), B("warden", uid_of_run),
        B("warden", capability), B("warden", privileges), B("warden", no_seccomp), B("warden", descriptors),
        B("warden", other_net), B("warden", other_user), B("warden", host_mounts), B("warden", net_lie),
        B("warden", status_uid), B("warden", status_gid), B("warden", status_traced), B("warden", status_threads),
        B("warden", status_capabilities), B("warden", status_privileges), B("warden", status_seccomp),
        B("warden", process_gone), B("warden", other_program), B("warden", other_root), B("warden", other_process),
        B("warden", writable_root), B("warden", writable_tmp), B("warden", writable_later), B("warden", writable_run),
        B("warden-limits", no_warden), B("warden-limits", cgroup_other, .v2 = true), B("warden-limits", cgroup_none),
        B("warden-limits", memory_unlimited, .v2 = true), B("warden-limits", memory_v1),
        B("warden-limits", swap, .v2 = true), B("warden-limits", tasks, .v2 = true),
        B("warden-limits", cpu, .v2 = true), B("warden-limits", cpu_v1),
        B("warden-limits", oom_single, .v2 = true), B("warden-limits", devices),
        B("warden-limits", open_files), B("warden-limits", file_size), B("warden-limits", core),
        B("warden-addresses", no_warden), B("warden-addresses", no_programs), B("warden-addresses", allow_everything),
        B("warden-addresses", slices_untold), B("warden-addresses", canary_sent),
        B("warden-addresses", canary_unroutable), B("warden-addresses", canary_metadata),
        B("warden-addresses", canary_untried),
        B("warden-settings", no_warden), B("warden-settings", deny_less), B("warden-settings", loose_memory),
        B("warden-settings", loose_tasks), B("warden-settings", loose_notify), B("warden-settings", loose_watchdog),
        B("warden-settings", loose_rate), B("warden-settings", loose_stop), B("warden-settings", loose_calls),
        B("warden-settings", loose_families), B("warden-settings", more_binds), B("warden-settings", more_allowed),
        B("warden-settings", more_environment), B("warden-settings", more_programs), B("warden-settings", more_restart),
        B("warden-settings", other_user_name), B("warden-settings", records_by_level),
        B("warden-settings", records_by_level_zero), B("warden-settings", records_by_text),
        B("warden-settings", records_with_more),
        B("egress-record", no_warden), B("egress-record", fill_journal), B("egress-record", journal_elsewhere),
        B("egress-record", journal_unconnected), B("egress-record", tally_short),
        B("syscall-record", tally_short, .settings = recording), B("syscall-record", journal_elsewhere, .settings = recording),
};
/* clang-format on */
const size_t n_warden_breaks = ELEMENTSOF(warden_breaks);
