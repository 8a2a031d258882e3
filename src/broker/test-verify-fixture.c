/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/io.h"
#include "base/parse.h"
#include "broker/broker-root.h"
#include "broker/test-verify-fixture.h"

#define GROUP "/agentbox.slice/agentbox-test.service"
#define WARDEN_GROUP "/agentbox.slice/agentbox-warden.slice/agentbox-warden-test.service"
#define UID 61200u
#define PID 4711

int fixture_programs = 1, fixture_is_marked = 1;
uint64_t fixture_home_bytes;

static int count_programs(int cgroup_fd, unsigned attach_type)
{
        return fixture_programs;
}

const char *const fixture_filtered[] = { "Limits.IOWeight=50", NULL };

void fixture_replace(char **s, const char *with)
{
        free(*s);
        *s = strdup(with);
        assert_non_null(*s);
}

void fixture_extra(Fixture *f, const char *line)
{
        size_t n = strcspn(line, "=") + 1;

        STRV_FOREACH(i, f->extra)
                if (strncmp(*i, line, n) == 0) {
                        fixture_replace((char **) i, line);
                        return;
                }
        assert_int_equal(strv_extend(&f->extra, line), 0);
}

void fixture_path(const Fixture *f, const char *path, char full[static 512])
{
        static const struct {
                const char *word, *group;
        } groups[] = { { "GROUP", GROUP }, { "WARDEN", WARDEN_GROUP } };

        for (size_t i = 0; i < ELEMENTSOF(groups); i++) {
                const char *at = strstr(path, groups[i].word);

                if (!at)
                        continue;
                snprintf(full, 512, "%s/%.*s%s%s", f->directory, (int) (at - path - 1), path, groups[i].group,
                                at + strlen(groups[i].word));
                return;
        }
        snprintf(full, 512, "%s/%s", f->directory, path);
}

void fixture_write(Fixture *f, const char *path, const char *text)
{
        char full[512];
        int fd;

        fixture_path(f, path, full);
        for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = 0;
                mkdir(full, 0755);
                *slash = '/';
        }
        fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        assert_true(fd >= 0);
        assert_int_equal(write_full(fd, text, strlen(text)), 0);
        close(fd);
}

void fixture_unlink(Fixture *f, const char *path)
{
        char full[512];

        fixture_path(f, path, full);
        assert_int_equal(unlink(full), 0);
}

/* ---- the host */

/* What the process sees of its cgroup, and what is seen of it from outside. */
static void fixture_cgroup(Fixture *f, const char *lines)
{
        fixture_replace(&f->attest.cgroup, lines);
        fixture_write(f, "proc/4711/cgroup", lines);
}

static void v2_files(Fixture *f)
{
        fixture_write(f, "unified/GROUP/memory.max", "268435456\n");
        fixture_write(f, "unified/agentbox.slice/memory.max", "max\n");
        fixture_write(f, "unified/GROUP/memory.swap.max", "0\n");
        fixture_write(f, "unified/GROUP/memory.oom.group", "1\n");
        fixture_write(f, "unified/GROUP/pids.max", "64\n");
        fixture_write(f, "unified/agentbox.slice/pids.max", "max\n");
        fixture_write(f, "unified/GROUP/cpu.max", "100000 100000\n");
        fixture_write(f, "unified/GROUP/../io.weight", "default 50\n");
        fixture_cgroup(f, "0::" GROUP "\n");
}

static void v1_root(Fixture *f, char **root, const char *name)
{
        assert_true(asprintf(root, "%s/%s", f->directory, name) > 0);
}

static void v1_files(Fixture *f)
{
        fixture_write(f, "unified/GROUP/cgroup.procs", "");
        fixture_write(f, "memory/GROUP/memory.limit_in_bytes", "268435456\n");
        fixture_write(f, "memory/agentbox.slice/memory.limit_in_bytes", "9223372036854771712\n");
        fixture_write(f, "memory/GROUP/memory.memsw.limit_in_bytes", "268435456\n");
        fixture_write(f, "pids/GROUP/pids.max", "64\n");
        fixture_write(f, "cpu/GROUP/cpu.cfs_quota_us", "100000\n");
        fixture_write(f, "cpu/GROUP/cpu.cfs_period_us", "100000\n");
        fixture_write(f, "devices/GROUP/devices.list", "c 1:3 rwm\nc 1:5 rwm\n");
        fixture_write(f, "blkio/GROUP/../blkio.weight", "250\n");
        v1_root(f, &f->host.cgroup_root_memory, "memory");
        v1_root(f, &f->host.cgroup_root_pids, "pids");
        v1_root(f, &f->host.cgroup_root_cpu, "cpu");
        v1_root(f, &f->host.cgroup_root_devices, "devices");
        v1_root(f, &f->host.cgroup_root_blkio, "blkio");
        fixture_cgroup(f, "9:name=systemd:" GROUP "\n8:pids:" GROUP "\n4:cpu,cpuacct:" GROUP "\n3:memory:" GROUP
                          "\n0::" GROUP "\n");
}

/* ---- the report */

static const AttestFs read_only = { .type = EXT4_SUPER_MAGIC, .flags = ST_RDONLY | ST_NOSUID };

static void good_files(Fixture *f)
{
        AttestFs *fs = f->attest.fs;
        AttestFs tmpfs = { .type = TMPFS_MAGIC, .flags = ST_NOSUID | ST_NODEV | ST_NOEXEC, .inodes = 65536 };

        for (int i = 0; i < _ATTEST_FS_MAX; i++)
                fs[i] = read_only;
        fs[ATTEST_FS_DEV].type = TMPFS_MAGIC;
        tmpfs.bytes = UINT64_C(256) << 20;
        fs[ATTEST_FS_WORKSPACE] = tmpfs;
        tmpfs.bytes = UINT64_C(64) << 20;
        fs[ATTEST_FS_TMP] = fs[ATTEST_FS_VAR_TMP] = fs[ATTEST_FS_SHM] = tmpfs;
        fixture_replace(&f->attest.mountinfo,
                        "204 145 0:49 /agentbox/x/root / ro,nosuid,nodev,relatime shared:3 - tmpfs tmpfs "
                        "rw,mode=755\n"
                        "205 204 0:58 / /dev ro,nosuid,noexec shared:4 - tmpfs tmpfs "
                        "rw,size=4096k,mode=755\n"
                        "208 205 0:57 / /dev/mqueue rw,nosuid,nodev,noexec,relatime shared:6 - mqueue "
                        "mqueue rw\n"
                        "206 205 0:59 / /dev/pts ro,nosuid,nodev shared:7 - tmpfs tmpfs rw,size=4k\n"
                        "207 205 0:60 / /dev/shm rw,nosuid,nodev shared:8 - tmpfs tmpfs rw,size=65536k\n"
                        "210 204 0:61 / /proc rw,nosuid,nodev,noexec,relatime shared:9 - proc proc "
                        "rw,hidepid=invisible,subset=pid\n"
                        "212 204 0:62 / /run ro,nosuid,nodev shared:11 - tmpfs tmpfs rw,size=64k\n"
                        "213 212 0:49 /systemd/propagate/x /run/systemd/incoming ro,nosuid,nodev,relatime - "
                        "tmpfs tmpfs rw\n"
                        "214 204 0:49 /systemd/inaccessible/dir /sys ro,nosuid,nodev,noexec,relatime "
                        "shared:13 - tmpfs tmpfs rw\n"
                        "216 204 0:43 /usr /usr ro,nosuid,relatime shared:14 - overlay overlay "
                        "rw,lowerdir=/\n"
                        "220 216 0:44 / /usr/lo\\040cal ro,nosuid,relatime shared:14 - ext4 /dev/vdb rw\n"
                        "215 204 0:63 / /tmp rw,nosuid,nodev shared:15 - tmpfs tmpfs rw,size=65536k\n"
                        "217 204 0:64 / /var/tmp rw,nosuid,nodev shared:16 - tmpfs tmpfs rw,size=65536k\n"
                        "218 204 0:65 / /workspace rw,nosuid,nodev shared:17 - tmpfs tmpfs "
                        "rw,size=262144k\n");
}

/* The broker mounts it when the shim has reported: a directory of the root, to the shim. */
static void good_disk(Fixture *f)
{
        if (policy_u64(f->policy, FILES_WORKSPACE_STORE) != STORE_DISK)
                return;
        f->disk = f->attest.fs[ATTEST_FS_WORKSPACE];
        f->disk.type = EXT4_SUPER_MAGIC;
        f->disk.bytes -= UINT64_C(16) << 20;
        f->attest.fs[ATTEST_FS_WORKSPACE] = read_only;
        f->attest.probes[PROBE_WRITE_WORKSPACE] = EROFS;
}

static void good_probes(Fixture *f)
{
        static const int32_t works[] = { PROBE_LOOPBACK, PROBE_WRITE_WORKSPACE, PROBE_WRITE_TMP,
                PROBE_WRITE_SHM };
        bool shared = policy_u64(f->policy, NETWORK_EGRESS) < EGRESS_FILTERED;

        for (int i = 0; i < _PROBE_MAX; i++)
                f->attest.probes[i] = EPERM;
        for (size_t i = 0; i < ELEMENTSOF(works); i++)
                f->attest.probes[works[i]] = 0;
        if (shared)
                f->attest.probes[PROBE_LOOPBACK] = EPERM;
}

static void good_limits(Fixture *f)
{
        static const struct {
                int resource;
                uint64_t value;
        } rows[] = {
                { RLIMIT_NOFILE, 1024 },
                { RLIMIT_CORE, 1 },
                { RLIMIT_MEMLOCK, 8 << 20 },
                { RLIMIT_MSGQUEUE, 0 },
                { RLIMIT_SIGPENDING, 16384 },
                { RLIMIT_RTPRIO, 0 },
                { RLIMIT_NICE, 0 },
        };

        f->attest.limits = calloc(ELEMENTSOF(rows), sizeof(AttestLimit));
        assert_non_null(f->attest.limits);
        f->attest.n_limits = ELEMENTSOF(rows);
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                f->attest.limits[i] = (AttestLimit){
                        .resource = rows[i].resource, .soft = rows[i].value, .hard = rows[i].value
                };
}

static void good_attest(Fixture *f)
{
        static const char *const targets[] = { "socket:[123]", "/dev/null", "/dev/null" };
        Attest *a = &f->attest;

        a->pid = PID;
        for (int i = 0; i < 4; i++)
                a->uid[i] = a->gid[i] = UID;
        a->groups = calloc(1, sizeof(uint32_t));
        assert_non_null(a->groups);
        a->groups[0] = UID;
        a->n_groups = 1;
        a->no_new_privs = true;
        a->securebits = 0xf;
        a->seccomp_mode = SECCOMP_MODE_FILTER;
        a->seccomp_filters = 31;
        a->umask = 0022;
        a->oom_score_adj = 500;
        fixture_replace(&a->keyring, "keyring;61200;61200;3f030000;_ses");
        fixture_replace(&a->hostname, "sandbox");
        fixture_replace(&a->netdev,
                        "Inter-|   Receive |  Transmit\n face |bytes |bytes\n    lo:       0       0\n");
        assert_int_equal(strv_extend(&a->environ_, "PATH=/usr/bin"), 0);
        a->fds = calloc(ELEMENTSOF(targets), sizeof(AttestFd));
        assert_non_null(a->fds);
        a->n_fds = ELEMENTSOF(targets);
        for (uint32_t i = 0; i < a->n_fds; i++)
                a->fds[i] = (AttestFd){ .fd = (int32_t) i, .target = strdup(targets[i]) };
}

static void good_proc(Fixture *f)
{
        static const char status[] = "Name:\tagentbox-exec\nUid:\t61200\t61200\t61200\t61200\nGid:"
                                     "\t61200\t61200\t61200\t61200\n"
                                     "SigIgn:\t0000000000000000\nCapInh:\t0000000000000000\nCapPrm:"
                                     "\t0000000000000000\nCapEff:\t0000000000000000\n"
                                     "CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:"
                                     "\t1\nSeccomp:\t2\n";
        static const char cmdline[] = "/usr/lib/agentbox/agentbox-exec\0/workspace\0probe-name";
        char path[512];
        int fd;

        fixture_write(f, "proc/4711/status", status);
        fixture_write(f, "proc/4711/cmdline", "");
        fixture_path(f, "proc/4711/cmdline", path);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        assert_true(fd >= 0 && write_full(fd, cmdline, sizeof(cmdline)) == 0);
        close(fd);
        for (int i = 0; i < _ATTEST_NS_MAX; i++) {
                struct stat st;
                char name[64];

                snprintf(name, sizeof(name), "proc/4711/ns/%s", attest_ns_names[i]);
                fixture_write(f, name, "");
                fixture_path(f, name, path);
                assert_int_equal(stat(path, &st), 0);
                f->attest.ns[i] = st.st_ino;
                f->host.ns[i] = st.st_ino + 1000000;
        }
}

/* The run's root has one thing to be seen. */
static void good_root(Fixture *f)
{
        struct stat st;
        char path[512];

        fixture_write(f, "proc/4711/root/usr/bin/true", "");
        fixture_path(f, "proc/4711/root/usr", path);
        assert_int_equal(stat(path, &st), 0);
        f->root.shown = calloc(1, sizeof(RootBind));
        assert_non_null(f->root.shown);
        f->root.n_shown = 1;
        f->root.shown[0] = (RootBind){
                .source = strdup("/usr"), .destination = strdup("/usr"), .device = st.st_dev, .inode = st.st_ino
        };
}

/* One credential: "token", of five bytes. */
static void good_credentials(Fixture *f)
{
        static const char mounts[] =
                        "230 212 0:70 / /run/credentials ro,nosuid,nodev,noexec - tmpfs tmpfs rw\n"
                        "231 230 0:71 / /run/credentials/agentbox-test.service "
                        "ro,nosuid,nodev,noexec,relatime - ramfs ramfs rw,mode=700\n";
        char path[512], *s;

        if (!policy_list(f->policy, FILES_CREDENTIAL))
                return;
        assert_true(asprintf(&s, "%s%s", f->attest.mountinfo, mounts) > 0);
        free(f->attest.mountinfo);
        f->attest.mountinfo = s;
        assert_int_equal(strv_extend(&f->attest.environ_,
                                         "CREDENTIALS_DIRECTORY=/run/credentials/agentbox-test.service"),
                        0);
        fixture_write(f, FIXTURE_CREDENTIALS "/token", "12345");
        fixture_path(f, FIXTURE_CREDENTIALS "/token", path);
        assert_int_equal(chmod(path, 0440), 0);
        fixture_path(f, FIXTURE_CREDENTIALS, path);
        assert_int_equal(chmod(path, 0750), 0);
        f->root.credentials = calloc(1, sizeof(RootCredential));
        assert_non_null(f->root.credentials);
        f->root.n_credentials = 1;
        f->root.credentials[0] = (RootCredential){ .name = strdup("token"), .size = 5 };
}

static int statfs_of_home(int fd, struct statfs *ret)
{
        *ret = (struct statfs){
                .f_type = TMPFS_MAGIC,
                .f_flags = ST_NOSUID | ST_NODEV,
                .f_blocks = (fsblkcnt_t) (fixture_home_bytes / 4096),
                .f_bsize = 4096,
                .f_files = 1000,
        };
        return 0;
}

static int is_marked(int group_fd, dev_t device, ino_t inode)
{
        return fixture_is_marked;
}

static void good_decoys(Fixture *f)
{
        char path[512], name[256];
        struct stat st;

        f->host.statfs = statfs_of_home;
        f->host.is_marked = is_marked;
        fixture_is_marked = 1;
        fixture_home_bytes = policy_u64(f->policy, FILES_TMP_SIZE);
        if (!policy_u64(f->policy, AUDIT_DECOYS))
                return;
        for (size_t i = 0; i < n_decoy_rows; i++) {
                snprintf(name, sizeof(name), FIXTURE_ROOT "%s", decoy_rows[i].path);
                fixture_write(f, name, "x");
                fixture_path(f, name, path);
                assert_int_equal(stat(path, &st), 0);
                f->decoys.l[f->decoys.n++] = (Decoy){ i, st.st_dev, st.st_ino };
        }
        fixture_path(f, FIXTURE_ROOT UNIT_HOME, path);
        assert_int_equal(chmod(path, 0700), 0);
}

/* ---- what PID 1 says */

void fixture_copy_props(const UnitProps *all, UnitProps *copy)
{
        copy->props = calloc(all->n, sizeof(UnitProp));
        assert_non_null(copy->props);
        copy->n = all->n;
        for (size_t i = 0; i < all->n; i++) {
                const UnitProp *from = all->props + i;
                UnitProp *to = copy->props + i;

                *to = (UnitProp){ .name = from->name, .type = from->type, .u = from->u };
                if (from->s)
                        assert_non_null(to->s = strdup(from->s));
                assert_int_equal(strv_copy(from->l, &to->l), 0);
        }
}

static void append_prefix(sd_bus_message *m, const char *text)
{
        char *copy = strdup(text), *slash;
        unsigned char bytes[16];
        int family;

        assert_non_null(copy);
        slash = strchr(copy, '/');
        assert_non_null(slash);
        *slash = 0;
        family = strchr(copy, ':') ? AF_INET6 : AF_INET;
        assert_int_equal(inet_pton(family, copy, bytes), 1);
        assert_true(sd_bus_message_open_container(m, 'r', "iayu") >= 0 &&
                        sd_bus_message_append(m, "i", family) >= 0 &&
                        sd_bus_message_append_array(m, 'y', bytes, family == AF_INET ? 4 : 16) >= 0 &&
                        sd_bus_message_append(m, "u", (uint32_t) strtoul(slash + 1, NULL, 10)) >= 0 &&
                        sd_bus_message_close_container(m) >= 0);
        free(copy);
}

static const char *const signatures[] = {
        [UNIT_PROP_STRING] = "s",
        [UNIT_PROP_BOOL] = "b",
        [UNIT_PROP_U64] = "t",
        [UNIT_PROP_I32] = "i",
        [UNIT_PROP_U32] = "u",
        [UNIT_PROP_STRV] = "as",
        [UNIT_PROP_BOOL_STRV] = "(bas)",
        [UNIT_PROP_PAIRS] = "a(ss)",
        [UNIT_PROP_BINDS] = "a(ssbt)",
        [UNIT_PROP_PREFIXES] = "a(iayu)",
        [UNIT_PROP_EXEC] = "a(sasbttttuii)",
};

static void append_list(sd_bus_message *m, const UnitProp *q)
{
        assert_true(sd_bus_message_open_container(m, 'a', signatures[q->type] + 1) >= 0);
        for (size_t i = 0; q->l && q->l[i]; i += q->type == UNIT_PROP_PREFIXES ? 1 : 2)
                if (q->type == UNIT_PROP_PREFIXES)
                        append_prefix(m, q->l[i]);
                else if (q->type == UNIT_PROP_PAIRS)
                        assert_true(sd_bus_message_append(m, "(ss)", q->l[i], q->l[i + 1]) >= 0);
                else
                        assert_true(sd_bus_message_append(m, "(ssbt)", q->l[i], q->l[i + 1], 0,
                                                    UINT64_C(16384)) >= 0);
        assert_true(sd_bus_message_close_container(m) >= 0);
}

static void append_exec(sd_bus_message *m, const UnitProp *q)
{
        assert_true(sd_bus_message_open_container(m, 'a', "(sasbttttuii)") >= 0 &&
                        sd_bus_message_open_container(m, 'r', "sasbttttuii") >= 0 &&
                        sd_bus_message_append(m, "s", q->s) >= 0 &&
                        sd_bus_message_append_strv(m, q->l) >= 0 &&
                        sd_bus_message_append(m, "bttttuii", 0, UINT64_C(1), UINT64_C(2),
                                        UINT64_C(3), UINT64_C(4), 5, 6, 7) >= 0 &&
                        sd_bus_message_close_container(m) >= 0 && sd_bus_message_close_container(m) >= 0);
}

static void append_value(sd_bus_message *m, const UnitProp *q)
{
        switch (q->type) {
        case UNIT_PROP_STRING:
                assert_true(sd_bus_message_append(m, "s", q->s) >= 0);
                break;
        case UNIT_PROP_U64:
                assert_true(sd_bus_message_append(m, "t", q->u) >= 0);
                break;
        case UNIT_PROP_BOOL:
        case UNIT_PROP_I32:
        case UNIT_PROP_U32:
                assert_true(sd_bus_message_append(m, signatures[q->type], (uint32_t) q->u) >= 0);
                break;
        case UNIT_PROP_STRV:
                assert_true(sd_bus_message_append_strv(m, q->l) >= 0);
                break;
        case UNIT_PROP_BOOL_STRV:
                assert_true(sd_bus_message_open_container(m, 'r', "bas") >= 0 &&
                                sd_bus_message_append(m, "b", (int) q->u) >= 0 &&
                                sd_bus_message_append_strv(m, q->l) >= 0 &&
                                sd_bus_message_close_container(m) >= 0);
                break;
        case UNIT_PROP_EXEC:
                append_exec(m, q);
                break;
        default:
                append_list(m, q);
        }
}

static sd_bus_message *new_reply(Fixture *f)
{
        sd_bus_message *m = NULL;

        assert_true(sd_bus_message_new_method_call(f->bus, &m, "a.b", "/a", "a.b", "C") >= 0);
        assert_true(sd_bus_message_open_container(m, 'a', "{sv}") >= 0);
        return m;
}

static void seal(sd_bus_message *m)
{
        assert_true(sd_bus_message_close_container(m) >= 0 && sd_bus_message_seal(m, 1, 0) >= 0);
}

static void append_prop(sd_bus_message *m, const UnitProp *q)
{
        assert_true(sd_bus_message_open_container(m, 'e', "sv") >= 0 &&
                        sd_bus_message_append(m, "s", q->name) >= 0 &&
                        sd_bus_message_open_container(m, 'v', signatures[q->type]) >= 0);
        append_value(m, q);
        assert_true(sd_bus_message_close_container(m) >= 0 && sd_bus_message_close_container(m) >= 0);
}

sd_bus_message *fixture_reply(Fixture *f, const UnitProps *answer, char *const *extra, uint32_t main_pid)
{
        sd_bus_message *m = new_reply(f);

        for (size_t i = 0; i < answer->n; i++)
                append_prop(m, answer->props + i);
        assert_true(sd_bus_message_append(m, "{sv}", "MainPID", "u", main_pid) >= 0);
        STRV_FOREACH(i, extra) {
                char *name = strndup(*i, strcspn(*i, "="));

                assert_true(name && sd_bus_message_append(m, "{sv}", name, "s", *i + strlen(name) + 1) >= 0);
                free(name);
        }
        seal(m);
        return m;
}

static sd_bus_message *slice_reply(Fixture *f)
{
        UnitProp allow = { .name = "IPAddressAllow", .type = UNIT_PROP_PREFIXES, .l = f->slice_allow };
        sd_bus_message *m = new_reply(f);

        append_prop(m, &allow);
        seal(m);
        return m;
}

/* ---- all of it */

void fixture_init(Fixture *f, const char *const *settings, bool v2)
{
        static const char *const extra[] = { "Id=agentbox-test.service", "User=agentbox-test",
                "Group=agentbox-test", "Restart=no", "ExitType=main", "BindPaths=", "FailureAction=none",
                "PrivatePIDs=no", "SELinuxContext=" };
        Error *e = NULL;
        int pair[2];

        *f = (Fixture){ .directory = "/tmp/test-verify.XXXXXX", .bus_peer = -1 };
        assert_non_null(mkdtemp(f->directory));
        fixture_programs = 1;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        f->bus_peer = pair[1];
        assert_true(sd_bus_new(&f->bus) >= 0 && sd_bus_set_fd(f->bus, pair[0], pair[0]) >= 0 &&
                        sd_bus_start(f->bus) >= 0);
        f->policy = policy_new("test");
        assert_non_null(f->policy);
        /* With all settings of PID 1's; those who want fewer say so. */
        assert_int_equal(policy_tighten(f->policy, "Audit.DeniedSyscalls=no", true, &e), 0);
        for (; settings && *settings; settings++)
                assert_int_equal(policy_tighten(f->policy, *settings, true, &e), 0);
        f->context = (UnitContext){
                .systemd_version = 252,
                .description = "test",
                .root_directory = "/run/agentbox/x/root",
                .shim_path = "/usr/lib/agentbox/agentbox-exec",
                .netns_path = "/proc/1/fd/9",
                .ip_filter_path = "/sys/fs/bpf/x",
                .probe_abstract = "probe-name",
                .warden_unit = "agentbox-warden-test.service",
        };
        assert_int_equal(unit_props_from_policy(f->policy, &f->context, &f->sent, &e), 0);
        f->host = (HostFacts){ .systemd_version = 252, .has_swap = true, .bpf_count = count_programs };
        assert_true(asprintf(&f->host.cgroup_root_unified, "%s/unified", f->directory) > 0);
        assert_true(asprintf((char **) &f->host.proc, "%s/proc", f->directory) > 0);
        fixture_copy_props(&f->sent, &f->answer);
        for (size_t i = 0; i < ELEMENTSOF(extra); i++)
                assert_int_equal(strv_extend(&f->extra, extra[i]), 0);
        good_attest(f);
        good_files(f);
        good_probes(f);
        good_disk(f);
        good_limits(f);
        good_proc(f);
        good_root(f);
        good_credentials(f);
        good_decoys(f);
        if (v2)
                v2_files(f);
        else
                v1_files(f);
        f->input = (VerifyInput){
                .host = &f->host,
                .policy = f->policy,
                .context = &f->context,
                .root = &f->root,
                .sent = &f->sent,
                .attest = &f->attest,
                .disk = policy_u64(f->policy, FILES_WORKSPACE_STORE) == STORE_DISK ? &f->disk : NULL,
                .peer = { .pid = PID, .uid = UID, .gid = UID },
                .control_group = GROUP,
                .decoys = &f->decoys,
                .tripwire_fd = -1,
                .netns_inode = policy_u64(f->policy, NETWORK_EGRESS) == EGRESS_FILTERED
                                               ? f->attest.ns[ATTEST_NS_NET]
                                               : 0,
                .view_fd = -1,
        };
        if (policy_u64(f->policy, NETWORK_EGRESS) == EGRESS_FILTERED)
                fixture_init_warden(f, v2);
}

void fixture_done(Fixture *f)
{
        _cleanup_close_ int fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        assert_int_equal(run_root_remove(fd, f->directory + strlen("/tmp/"), NULL), 0);
        fixture_done_warden(f);
        free((char *) f->host.proc);
        host_facts_done(&f->host);
        attest_done(&f->attest);
        run_root_done(&f->root);
        unit_props_done(&f->sent);
        unit_props_done(&f->answer);
        strv_free(f->extra);
        strv_free(f->slice_allow);
        policy_free(f->policy);
        sd_bus_close_unref(f->bus);
        close(f->bus_peer);
}

int fixture_verify(Fixture *f, char ***ret_verified, char ***ret_broken)
{
        int r;

        f->input.properties = fixture_reply(f, &f->answer, f->extra, PID);
        f->warden.input.properties =
                        f->input.warden ? fixture_reply(f, &f->warden.answer, f->warden.extra,
                                                          (uint32_t) f->warden.input.peer.pid)
                                        : NULL;
        f->input.run_slice_properties = f->no_slices ? NULL : slice_reply(f);
        f->input.slice_properties = f->no_slices ? NULL : slice_reply(f);
        f->input.root_slice_properties = f->no_slices ? NULL : slice_reply(f);
        r = broker_verify(&f->input, ret_verified, ret_broken);
        sd_bus_message_unref(f->input.properties);
        sd_bus_message_unref(f->warden.input.properties);
        sd_bus_message_unref(f->input.run_slice_properties);
        sd_bus_message_unref(f->input.slice_properties);
        sd_bus_message_unref(f->input.root_slice_properties);
        return r;
}

UnitProp *fixture_answer(Fixture *f, const char *name)
{
        for (size_t i = 0; i < f->answer.n; i++)
                if (streq(f->answer.props[i].name, name))
                        return f->answer.props + i;
        fail_msg("%s is not sent", name);
        return NULL;
}

AttestLimit *fixture_limit(Fixture *f, int resource)
{
        for (uint32_t i = 0; i < f->attest.n_limits; i++)
                if (f->attest.limits[i].resource == resource)
                        return f->attest.limits + i;
        fail_msg("limit %i is not reported", resource);
        return NULL;
}
