/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/io.h"
#include "base/landlock.h"
#include "broker/tripwire.h"
#include "broker/verify.h"

#define MOUNTINFO_MAX (4u * 1024 * 1024)

static int bpf_count(int cgroup_fd, unsigned attach_type)
{
        union bpf_attr attr = {};

        attr.query.target_fd = (uint32_t) cgroup_fd;
        attr.query.attach_type = attach_type;
        if (syscall(SYS_bpf, BPF_PROG_QUERY, &attr, sizeof(attr)) < 0)
                return -errno;
        return (int) attr.query.prog_cnt;
}

static int read_namespaces(HostFacts *h, Error **reterr)
{
        for (int i = 0; i < _ATTEST_NS_MAX; i++) {
                char path[64];
                struct stat st;

                snprintf(path, sizeof(path), "/proc/1/ns/%s", attest_ns_names[i]);
                if (stat(path, &st) < 0)
                        return error_set(reterr, -errno, "%s: %m", path);
                h->ns[i] = st.st_ino;
        }
        return 0;
}

static int read_cgroups(HostFacts *h, const char *mountinfo)
{
        const struct {
                const char *controller;
                char **root;
        } rows[] = {
                { "memory", &h->cgroup_root_memory },
                { "pids", &h->cgroup_root_pids },
                { "cpu", &h->cgroup_root_cpu },
                { "devices", &h->cgroup_root_devices },
                { "blkio", &h->cgroup_root_blkio },
        };
        const char *line = mountinfo;
        int r;

        for (;;) {
                _cleanup_free_ char *target = NULL, *type = NULL, *super = NULL;

                r = mountinfo_next(&line, &target, &type, &super);
                if (r <= 0)
                        return r;
                if (streq(type, "cgroup2") && !h->cgroup_root_unified)
                        h->cgroup_root_unified = TAKE_PTR(target);
                for (size_t i = 0; i < ELEMENTSOF(rows) && streq(type, "cgroup"); i++)
                        if (has_mount_option(super, rows[i].controller) && !*rows[i].root) {
                                *rows[i].root = strdup(target);
                                if (!*rows[i].root)
                                        return -ENOMEM;
                        }
        }
}

static int read_swap(bool *ret)
{
        _cleanup_free_ char *text = NULL;
        const char *newline;
        int r = read_file("/proc/swaps", 64u * 1024, &text, NULL);

        /* A head line, then one for each device or file. No such file: a kernel without swap. */
        if (r == -ENOENT) {
                *ret = false;
                return 0;
        }
        if (r < 0)
                return r;
        newline = strchr(text, '\n');
        *ret = newline && newline[1] != 0;
        return 0;
}

/* As systemd decides it. */
static bool can_freeze(const HostFacts *h)
{
        return h->cgroup_root_unified && streq(h->cgroup_root_unified, "/sys/fs/cgroup") &&
               access("/sys/fs/cgroup/init.scope/cgroup.freeze", F_OK) == 0;
}

int host_facts_read(HostFacts *ret, Error **reterr)
{
        _cleanup_(host_facts_done) HostFacts h = { .bpf_count = bpf_count, .statfs = fstatfs, .is_marked = tripwire_is_marked };
        _cleanup_free_ char *mountinfo = NULL;
        int abi = landlock_abi(), r = read_namespaces(&h, reterr);

        if (r < 0)
                return r;
        h.landlock_abi = abi > 0 ? (uint32_t) abi : 0;
        r = read_file("/proc/self/mountinfo", MOUNTINFO_MAX, &mountinfo, NULL);
        if (r >= 0)
                r = read_cgroups(&h, mountinfo);
        if (r >= 0)
                r = read_swap(&h.has_swap);
        h.can_freeze = can_freeze(&h);
        if (r < 0)
                return error_set(reterr, r, "cannot read this host's mounts: %s", strerror(-r));
        *ret = h;
        h = (HostFacts){};
        return 0;
}

void host_facts_done(HostFacts *h)
{
        free(h->cgroup_root_unified);
        free(h->cgroup_root_memory);
        free(h->cgroup_root_pids);
        free(h->cgroup_root_cpu);
        free(h->cgroup_root_devices);
        free(h->cgroup_root_blkio);
        *h = (HostFacts){};
}
