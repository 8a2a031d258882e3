/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "broker/verify.h"

int verify_namespaces(const VerifyInput *in, Buf *why)
{
        static const int own[] = { ATTEST_NS_MNT, ATTEST_NS_USER, ATTEST_NS_IPC, ATTEST_NS_UTS };
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(own); i++) {
                uint64_t inode = in->attest->ns[own[i]];

                if (inode == 0)
                        r = broken(why, "%s is not reported", attest_ns_names[own[i]]);
                else if (inode == in->host->ns[own[i]])
                        r = broken(why, "%s is the host's", attest_ns_names[own[i]]);
        }
        return r;
}

/* /proc/self/net/dev: two lines of head, then "  NAME: figures". */
static int only_loopback(const char *netdev, Buf *why)
{
        const char *line = netdev;

        for (size_t n = 0; line && *line; n++) {
                const char *end = strchr(line, '\n'), *name = line + strspn(line, " ");

                if (n >= 2 && !startswith(name, "lo:"))
                        return broken(why, "there is an interface besides lo");
                line = end ? end + 1 : NULL;
        }
        return 0;
}

int verify_network(const VerifyInput *in, Buf *why)
{
        static const int nowhere[] = { ENETUNREACH, EHOSTUNREACH, ECONNREFUSED, EPERM, EACCES,
                EAFNOSUPPORT };
        static const int refused[] = { ECONNREFUSED, ENOENT, EPERM, EACCES, EAFNOSUPPORT };
        uint64_t inode = in->attest->ns[ATTEST_NS_NET];
        int r = 0;

        if (inode == 0 || inode == in->host->ns[ATTEST_NS_NET])
                r = broken(why, "the network namespace is the host's");
        else if (policy_u64(in->policy, NETWORK_EGRESS) == EGRESS_FILTERED && inode != in->netns_inode)
                r = broken(why, "the network namespace is not the one that was made for it");
        r |= only_loopback(in->attest->netdev, why);
        r |= probe_must_fail(in, PROBE_METADATA_SEND, nowhere, ELEMENTSOF(nowhere), why);
        r |= probe_must_fail(in, PROBE_ELSEWHERE_SEND, nowhere, ELEMENTSOF(nowhere), why);
        if (in->context->probe_abstract)
                r |= probe_must_fail(in, PROBE_ABSTRACT_UNIX, refused, ELEMENTSOF(refused), why);
        return r | probe_must_work(in, PROBE_LOOPBACK, why);
}

int verify_read_only(const VerifyInput *in, Buf *why)
{
        static const int paths[] = { ATTEST_FS_ROOT, ATTEST_FS_USR, ATTEST_FS_ETC };
        static const AttestProbe probes[] = { PROBE_WRITE_ROOT, PROBE_WRITE_USR, PROBE_WRITE_ETC };
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
                const AttestFs *fs = in->attest->fs + paths[i];

                if (fs->error != 0)
                        r = broken(why, "%s: %s", attest_fs_paths[paths[i]], strerror(fs->error));
                else if ((fs->flags & (ST_RDONLY | ST_NOSUID)) != (ST_RDONLY | ST_NOSUID))
                        r = broken(why, "%s is not mounted read-only and nosuid", attest_fs_paths[paths[i]]);
                r |= probe_must_fail(in, probes[i], NULL, 0, why);
        }
        return r;
}

static const char *workspace_path(const VerifyInput *in)
{
        return in->context->workspace ?: policy_string(in->policy, FILES_WORKSPACE);
}

/* Of at most this size, and as many inodes; systemd and the kernel round up to whole pages. */
static int sized(const VerifyInput *in, const AttestFs *fs, const char *path, uint64_t size, Buf *why)
{
        uint64_t page = (uint64_t) sysconf(_SC_PAGESIZE),
                 inodes = policy_u64(in->policy, FILES_WORKSPACE_INODES);
        uint64_t flags = ST_NOSUID | ST_NODEV | (profile_is_strict(in) ? ST_NOEXEC : 0);

        if (fs->bytes == 0 || fs->bytes > (size + page - 1) / page * page)
                return broken(why, "%s holds %llu bytes instead of %llu", path,
                                (unsigned long long) fs->bytes, (unsigned long long) size);
        if (fs->inodes == 0 || fs->inodes > inodes)
                return broken(why, "%s holds %llu files instead of %llu", path,
                                (unsigned long long) fs->inodes, (unsigned long long) inodes);
        if ((fs->flags & flags) != flags)
                return broken(why, "%s lacks a mount flag: %#llx instead of %#llx", path,
                                (unsigned long long) fs->flags, (unsigned long long) flags);
        return 0;
}

int verify_sized_tmpfs(const VerifyInput *in, const char *path, const AttestFs *fs, uint64_t size, Buf *why)
{
        if (fs->error != 0)
                return broken(why, "%s: %s", path, strerror(fs->error));
        return fs->type == TMPFS_MAGIC ? sized(in, fs, path, size, why) : broken(why, "%s is no tmpfs", path);
}

static int sized_tmpfs(const VerifyInput *in, int index, uint64_t size, Buf *why)
{
        const char *path = index == ATTEST_FS_WORKSPACE ? workspace_path(in) : attest_fs_paths[index];

        return verify_sized_tmpfs(in, path, in->attest->fs + index, size, why);
}

/* The broker's own mount, which the shim has not seen yet. Whose it is, is settled with its descriptor in hand
 * (run_root_take_workspace()). */
static int verify_disk(const VerifyInput *in, Buf *why)
{
        const AttestFs *fs = in->disk;
        const char *path = workspace_path(in);

        if (!fs)
                return broken(why, "%s is not on disk", path);
        if (fs->error != 0)
                return broken(why, "%s is something else than what was mounted there: %s", path, strerror(fs->error));
        if (fs->type != EXT4_SUPER_MAGIC)
                return broken(why, "%s is no ext4", path);
        if (fs->flags & ST_RDONLY)
                return broken(why, "%s cannot be written", path);
        return sized(in, fs, path, policy_u64(in->policy, FILES_WORKSPACE_SIZE), why);
}

int verify_workspace(const VerifyInput *in, Buf *why)
{
        int r;

        if (policy_u64(in->policy, FILES_WORKSPACE_STORE) == STORE_DISK)
                return verify_disk(in, why);
        r = sized_tmpfs(in, ATTEST_FS_WORKSPACE, policy_u64(in->policy, FILES_WORKSPACE_SIZE), why);
        return r | probe_must_work(in, PROBE_WRITE_WORKSPACE, why);
}

/* The version from which on Landlock keeps files from being cut short, too. */
#define LANDLOCK_ABI_TRUNCATE 3

/* A scope's only wall around files, and around the caller's other processes: without it, /proc/PID/mem of
 * any of them is a way out. Loading it, the shim succeeds or fails. */
int verify_landlock(const VerifyInput *in, Buf *why)
{
        if (in->attest->landlock_abi < LANDLOCK_ABI_TRUNCATE)
                return broken(why, "this kernel has Landlock version %i, and %i is needed",
                                MAX2(in->attest->landlock_abi, 0), LANDLOCK_ABI_TRUNCATE);
        return (uint32_t) in->attest->landlock_abi == in->host->landlock_abi
                               ? 0
                               : broken(why, "version %i is reported, and this kernel has %u",
                                                 in->attest->landlock_abi, in->host->landlock_abi);
}

int verify_device_probes(const VerifyInput *in, Buf *why)
{
        return probe_must_fail(in, PROBE_OPEN_KMSG, NULL, 0, why) |
               probe_must_fail(in, PROBE_OPEN_PTMX, NULL, 0, why);
}

int verify_tmp(const VerifyInput *in, Buf *why)
{
        uint64_t size = policy_u64(in->policy, FILES_TMP_SIZE);
        int r = sized_tmpfs(in, ATTEST_FS_TMP, size, why);

        r |= sized_tmpfs(in, ATTEST_FS_VAR_TMP, size, why);
        return r | probe_must_work(in, PROBE_WRITE_TMP, why);
}

int verify_shared_memory(const VerifyInput *in, Buf *why)
{
        int r = sized_tmpfs(in, ATTEST_FS_SHM, policy_u64(in->policy, FILES_SHM_SIZE), why);

        return r | probe_must_work(in, PROBE_WRITE_SHM, why);
}

int verify_devices(const VerifyInput *in, Buf *why)
{
        const AttestFs *fs = in->attest->fs + ATTEST_FS_DEV;
        int r = 0;

        if (fs->error != 0)
                r = broken(why, "/dev: %s", strerror(fs->error));
        else if (fs->type != TMPFS_MAGIC || !(fs->flags & ST_RDONLY))
                r = broken(why, "/dev is not a read-only tmpfs");
        r |= probe_must_fail(in, PROBE_OPEN_KMSG, NULL, 0, why);
        return r | probe_must_fail(in, PROBE_OPEN_PTMX, NULL, 0, why);
}

int verify_proc(const VerifyInput *in, Buf *why)
{
        _cleanup_free_ char *type = NULL, *options = NULL, *super = NULL;
        const UnitProp *subset = unit_props_find(in->sent, "ProcSubset");
        int r = mountinfo_find(in->attest->mountinfo, "/proc", &type, &options, &super);

        if (r == -ENOENT)
                return broken(why, "/proc is not mounted");
        if (r < 0)
                return r;
        if (!streq(type, "proc"))
                r = broken(why, "/proc is a file system of another kind");
        if (!has_mount_option(super, "hidepid=invisible") && !has_mount_option(super, "hidepid=2"))
                r = broken(why, "/proc shows other processes (no hidepid=)");
        if (subset && streq(subset->s, "pid") && !has_mount_option(super, "subset=pid"))
                r = broken(why, "/proc shows more than processes (no subset=pid)");
        return r | probe_must_fail(in, PROBE_OPEN_PROC_1, NULL, 0, why);
}

int verify_sys(const VerifyInput *in, Buf *why)
{
        return probe_must_fail(in, PROBE_OPEN_SYS, NULL, 0, why);
}

int verify_host_services(const VerifyInput *in, Buf *why)
{
        const AttestFs *fs = in->attest->fs + ATTEST_FS_RUN;
        int r = 0;

        if (fs->error != 0)
                r = broken(why, "/run: %s", strerror(fs->error));
        else if (!(fs->flags & ST_RDONLY))
                r = broken(why, "/run can be written");
        return r | probe_must_fail(in, PROBE_OPEN_RUN_SYSTEMD, NULL, 0, why);
}
