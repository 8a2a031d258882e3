/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/bpf.h>
#include <stdio.h>

#include "base/io.h"
#include "base/parse.h"
#include "broker/bus-props.h"
#include "broker/verify.h"

/* What the kernel was really told about the unit's cgroup, in the hierarchy that has the controller. A limit
 * of a parent counts as well: the tightest one is in force. */

#define FILE_MAX 4096u
#define UNLIMITED UINT64_MAX

static const char *hierarchy(const VerifyInput *in, const char *v1)
{
        return v1 ? v1 : in->host->cgroup_root_unified;
}

/* The file of the group, as text without the newline. */
static int cgroup_read(const char *root, const char *group, const char *file, char **ret)
{
        char path[PATH_MAX];
        int r;

        if (!root)
                return -ENODEV;
        if (snprintf(path, sizeof(path), "%s%s/%s", root, group, file) >= (int) sizeof(path))
                return -ENAMETOOLONG;
        r = read_file(path, FILE_MAX, ret, NULL);
        if (r >= 0)
                (*ret)[strcspn(*ret, "\n")] = 0;
        return r;
}

static int parse_limit(const char *text, uint64_t *ret)
{
        if (streq(text, "max") || streq(text, "-1")) {
                *ret = UNLIMITED;
                return 0;
        }
        return parse_u64(text, ret);
}

/* The smallest value of a file on the way from the group up; the group itself must have the file. */
static int tightest(const char *root, const char *control_group, const char *file, uint64_t *ret)
{
        _cleanup_free_ char *group = strdup(control_group);
        uint64_t v, best = UNLIMITED;
        int r;

        if (!group)
                return -ENOMEM;
        for (bool first = true; *group; first = false) {
                _cleanup_free_ char *text = NULL;

                r = cgroup_read(root, group, file, &text);
                if (r < 0 && (first || r != -ENOENT))
                        return r;
                if (r >= 0)
                        r = parse_limit(text, &v);
                if (r < 0 && r != -ENOENT)
                        return r;
                if (r >= 0)
                        best = MIN2(best, v);
                *strrchr(group, '/') = 0;
        }
        *ret = best;
        return 0;
}

static int at_most(const VerifyInput *in, const char *v1_root, const char *v1_file, const char *file,
                uint64_t wanted, Buf *why)
{
        const char *name = v1_root ? v1_file : file;
        uint64_t v;
        int r = tightest(hierarchy(in, v1_root), in->control_group, name, &v);

        if (r == -ENOENT || r == -ENODEV)
                return broken(why, "the unit's cgroup has no %s: the controller is not in force", name);
        if (r < 0)
                return r;
        if (v == UNLIMITED)
                return broken(why, "%s is unlimited instead of %llu", name, (unsigned long long) wanted);
        return v <= wanted ? 0
                           : broken(why, "%s is %llu instead of %llu", name, (unsigned long long) v,
                                             (unsigned long long) wanted);
}

int verify_memory_limit(const VerifyInput *in, Buf *why)
{
        uint64_t wanted;
        int r = sent_number(in, "MemoryMax", &wanted);

        return r < 0 ? r
                     : at_most(in, in->host->cgroup_root_memory, "memory.limit_in_bytes", "memory.max",
                                       wanted, why);
}

int verify_swap_limit(const VerifyInput *in, Buf *why)
{
        const char *v1 = in->host->cgroup_root_memory;
        uint64_t memory = 0, v;
        int r;

        if (!in->host->has_swap)
                return 0;
        if (!v1)
                return at_most(in, NULL, NULL, "memory.swap.max", 0, why);
        /* v1 counts memory and swap together. */
        r = sent_number(in, "MemoryMax", &memory);
        if (r < 0)
                return r;
        r = tightest(v1, in->control_group, "memory.memsw.limit_in_bytes", &v);
        if (r < 0)
                return broken(why, "this host has swap, and its cgroup v1 does not count it");
        return v <= memory ? 0
                           : broken(why, "memory.memsw.limit_in_bytes does not hold memory and swap to the "
                                         "memory limit");
}

int verify_tasks_limit(const VerifyInput *in, Buf *why)
{
        uint64_t wanted;
        int r = sent_number(in, "TasksMax", &wanted);

        return r < 0 ? r : at_most(in, in->host->cgroup_root_pids, "pids.max", "pids.max", wanted, why);
}

/* v2: "QUOTA PERIOD" or "max PERIOD"; v1: one file each. Both in microseconds. */
static int cpu_quota(const VerifyInput *in, uint64_t *ret_quota, uint64_t *ret_period)
{
        _cleanup_free_ char *quota = NULL, *period = NULL;
        const char *root = hierarchy(in, in->host->cgroup_root_cpu);
        uint64_t q, p;
        int r;

        if (in->host->cgroup_root_cpu) {
                r = cgroup_read(root, in->control_group, "cpu.cfs_quota_us", &quota);
                if (r >= 0)
                        r = cgroup_read(root, in->control_group, "cpu.cfs_period_us", &period);
        } else {
                char *space;

                r = cgroup_read(root, in->control_group, "cpu.max", &quota);
                if (r < 0)
                        return r;
                space = strchr(quota, ' ');
                if (!space)
                        return -EBADMSG;
                *space = 0;
                period = strdup(space + 1);
                if (!period)
                        return -ENOMEM;
        }
        if (r >= 0)
                r = parse_limit(quota, &q);
        if (r >= 0)
                r = parse_limit(period, &p);
        if (r < 0)
                return r;
        *ret_quota = q;
        *ret_period = p;
        return 0;
}

int verify_cpu_limit(const VerifyInput *in, Buf *why)
{
        uint64_t wanted, quota, period, per_second;
        int r = sent_number(in, "CPUQuotaPerSecUSec", &wanted);

        if (r < 0)
                return r;
        r = cpu_quota(in, &quota, &period);
        if (r == -ENOENT || r == -ENODEV)
                return broken(why,
                                "the unit's cgroup has no processor limit: the controller is not in force");
        if (r < 0)
                return r;
        if (quota == UNLIMITED || period == 0 ||
                        __builtin_mul_overflow(quota, UINT64_C(1000000), &per_second))
                return broken(why, "processor time is not limited");
        per_second /= period;
        /* The kernel takes no quota below a millisecond, and systemd rounds. */
        return per_second <= wanted + wanted / 100 + 10000 ? 0
                                                           : broken(why, "%llu µs a second instead of %llu",
                                                                             (unsigned long long) per_second,
                                                                             (unsigned long long) wanted);
}

int verify_io_weight(const VerifyInput *in, Buf *why)
{
        static const char *const v1_files[] = { "blkio.bfq.weight", "blkio.weight" };
        static const char *const v2_files[] = { "io.weight", "io.bfq.weight" };
        const char *v1 = in->host->cgroup_root_blkio, *const *files = v1 ? v1_files : v2_files;
        _cleanup_free_ char *slice = NULL;
        uint64_t wanted, v;
        int r = sent_number(in, "IOWeight", &wanted);

        if (r < 0)
                return r;
        /* The unit is alone in its slice: what counts is the slice's weight beside those of other runs. */
        slice = in->control_group ? strdup(in->control_group) : NULL;
        if (!slice)
                return in->control_group ? -ENOMEM : -ENODEV;
        if (strrchr(slice, '/'))
                *strrchr(slice, '/') = 0;
        for (size_t i = 0; i < 2; i++) {
                _cleanup_free_ char *text = NULL;

                if (cgroup_read(hierarchy(in, v1), slice, files[i], &text) < 0)
                        continue;
                if (parse_u64(startswith(text, "default ") ? text + strlen("default ") : text, &v) < 0)
                        return -EBADMSG;
                /* The older scales have other ends, but the same middle: 100, or 500 in v1, is the default.
                 */
                return v <= (v1 ? MAX2(wanted * 5, (uint64_t) 10) : MAX2(wanted, (uint64_t) 1))
                                       ? 0
                                       : broken(why, "%s is %llu", files[i], (unsigned long long) v);
        }
        return broken(why, "the run's slice has no weight for disk time: the controller is not in force");
}

int verify_oom_group(const VerifyInput *in, Buf *why)
{
        _cleanup_free_ char *text = NULL;
        int r = cgroup_read(in->host->cgroup_root_unified, in->control_group, "memory.oom.group", &text);

        if (r == -ENOENT || r == -ENODEV)
                return broken(why, "the unit's cgroup has no memory.oom.group");
        if (r < 0)
                return r;
        return streq(text, "1") ? 0 : broken(why, "memory.oom.group is %s", text);
}

/* "HIERARCHY:CONTROLLERS:PATH" lines; every hierarchy that limits something must have the process in the
 * unit's group. */
int verify_membership(const VerifyInput *in, const char *lines, bool limits_cpu, Buf *why)
{
        const HostFacts *h = in->host;
        const struct {
                const char *controller;
                bool wanted;
        } rows[] = {
                { "", h->cgroup_root_unified != NULL },
                { "memory", h->cgroup_root_memory != NULL },
                { "pids", h->cgroup_root_pids != NULL },
                { "cpu", h->cgroup_root_cpu != NULL && limits_cpu },
        };
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                bool found = false;

                for (const char *line = lines; rows[i].wanted && *line;
                                line += strcspn(line, "\n"), line += *line == '\n') {
                        const char *controllers = strchr(line, ':'),
                                   *path = controllers ? strchr(controllers + 1, ':') : NULL;
                        _cleanup_free_ char *list = NULL;
                        size_t n = strcspn(line, "\n"), length = strlen(in->control_group);

                        if (!path || path >= line + n)
                                continue;
                        list = strndup(controllers + 1, (size_t) (path - controllers - 1));
                        if (!list)
                                return -ENOMEM;
                        if (!*rows[i].controller ? *list != 0 : !has_mount_option(list, rows[i].controller))
                                continue;
                        found = (size_t) (line + n - path - 1) == length &&
                                memcmp(path + 1, in->control_group, length) == 0;
                }
                if (rows[i].wanted && !found)
                        r = broken(why, "it is not in %s of the %s hierarchy", in->control_group,
                                        *rows[i].controller ? rows[i].controller : "unified");
        }
        return r;
}

/* In a cgroup namespace of its own a process finds itself at the top of every hierarchy. */
static int namespace_shows_nothing(const VerifyInput *in, Buf *why)
{
        uint64_t inode = in->attest->ns[ATTEST_NS_CGROUP];

        if (inode == 0 || inode == in->host->ns[ATTEST_NS_CGROUP])
                return broken(why, "the cgroup namespace is the host's");
        for (const char *line = in->attest->cgroup; *line; line += strcspn(line, "\n"), line += *line == '\n') {
                size_t n = strcspn(line, "\n");

                if (n < strlen(":/") || memcmp(line + n - strlen(":/"), ":/", strlen(":/")) != 0)
                        return broken(why, "it sees a cgroup of the host");
        }
        return 0;
}

int verify_cgroup(const VerifyInput *in, Buf *why)
{
        _cleanup_free_ char *outside = NULL;
        int r = verify_read_proc(in, "cgroup", FILE_MAX, &outside, NULL), inside;

        if (r < 0)
                return r;
        r = verify_membership(in, outside, true, why);
        if (r < 0)
                return r;
        inside = was_sent(in, "ProtectControlGroupsEx") ? namespace_shows_nothing(in, why)
                                                        : verify_membership(in, in->attest->cgroup, true, why);
        return inside < 0 ? inside : r | inside;
}

/* ---- BPF programs */

static int programs_on_unit(const VerifyInput *in, unsigned attach_type)
{
        _cleanup_close_ int fd = -1;
        char path[PATH_MAX];

        if (!in->host->cgroup_root_unified)
                return -ENODEV;
        if (snprintf(path, sizeof(path), "%s%s", in->host->cgroup_root_unified, in->control_group) >=
                        (int) sizeof(path))
                return -ENAMETOOLONG;
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        return in->host->bpf_count(fd, attach_type);
}

int verify_program(const VerifyInput *in, unsigned attach_type, const char *what, Buf *why)
{
        int n = programs_on_unit(in, attach_type);

        if (n == -ENODEV || n == -ENOENT)
                return broken(why, "no %s: the unit has no cgroup2 group", what);
        if (n < 0)
                return n;
        return n > 0 ? 0 : broken(why, "no %s is attached to the unit's cgroup", what);
}

int verify_device_filter(const VerifyInput *in, Buf *why)
{
        _cleanup_free_ char *text = NULL;
        int r;

        if (!in->host->cgroup_root_devices)
                return verify_program(in, BPF_CGROUP_DEVICE, "device filter", why);
        r = cgroup_read(in->host->cgroup_root_devices, in->control_group, "devices.list", &text);
        if (r == -ENOENT)
                return broken(why, "the unit's cgroup has no devices.list");
        if (r < 0)
                return r;
        /* The one entry of a group that may use everything. */
        return startswith(text, "a ") ? broken(why, "every device is allowed") : 0;
}

/* Whether ADDRESS/LEN, one of the sent prefixes, holds this IPv4 address. */
static bool prefix_holds(const char *prefix, uint32_t address)
{
        const char *slash = strchr(prefix, '/');
        char text[INET_ADDRSTRLEN];
        struct in_addr a;
        uint64_t length;

        if (!slash || (size_t) (slash - prefix) >= sizeof(text) || parse_u64(slash + 1, &length) < 0 ||
                        length > 32)
                return false;
        memcpy(text, prefix, (size_t) (slash - prefix));
        text[slash - prefix] = 0;
        if (inet_pton(AF_INET, text, &a) != 1)
                return false;
        return length == 0 || (ntohl(a.s_addr) ^ address) >> (32 - length) == 0;
}

static int slice_allows_nothing(sd_bus_message *properties, const char *slice, Buf *why)
{
        _cleanup_(bus_props_done) BusProps props = {};
        const BusProp *allow;
        int r;

        if (!properties)
                return broken(why, "the settings of %s were not read", slice);
        r = bus_props_read(properties, &props);
        if (r < 0)
                return r;
        allow = bus_props_find(&props, "IPAddressAllow");
        if (!allow)
                return broken(why, "%s says nothing about IPAddressAllow=", slice);
        return strv_length(allow->items) == 0
                               ? 0
                               : broken(why, "%s has IPAddressAllow=, which opens its units", slice);
}

/* PID 1 attaches it, and says nothing where it cannot. That it is ours is what "properties" reads back. */
int verify_loopback_filter(const VerifyInput *in, Buf *why)
{
        int r, verdict;

        if (!was_sent(in, "IPIngressFilterPath") || !was_sent(in, "IPEgressFilterPath"))
                return broken(why, "this host does not let us load a BPF packet filter");
        r = verdict = verify_program(in, BPF_CGROUP_INET_INGRESS, "filter of incoming packets", why);
        if (r < 0)
                return r;
        r = verify_program(in, BPF_CGROUP_INET_EGRESS, "filter of outgoing packets", why);
        return r < 0 ? r : verdict | r;
}

/* Beside the programs that are attached: what they do, on a way that every host has (loopback), and to the
 * metadata service, which a host without routes cannot show. */
int verify_address_filter(const VerifyInput *in, Buf *why)
{
        /* A host without a route answers before the filter does. To loopback there is one always. */
        static const int denied[] = { EPERM, EACCES, ENETUNREACH, EHOSTUNREACH, EAFNOSUPPORT };
        const UnitProp *allow = unit_props_find(in->sent, "IPAddressAllow");
        const struct {
                AttestProbe probe;
                uint32_t address;
                size_t n_denied; /* how many of the errors above prove it */
        } probes[] = {
                { PROBE_METADATA_SEND, 0xa9fea9fe, ELEMENTSOF(denied) },
                { PROBE_ELSEWHERE_SEND, 0xc0000201, ELEMENTSOF(denied) },
                { PROBE_LOOPBACK, 0x7f000001, 2 },
        };
        const struct {
                sd_bus_message *properties;
                const char *name;
        } slices[] = {
                { in->run_slice_properties, "the run's slice" },
                { in->slice_properties, "agentbox.slice" },
                { in->root_slice_properties, "-.slice" },
        };
        int r = verify_program(in, BPF_CGROUP_INET_INGRESS, "filter of incoming packets", why), verdict;

        if (r < 0)
                return r;
        verdict = r;
        r = verify_program(in, BPF_CGROUP_INET_EGRESS, "filter of outgoing packets", why);
        if (r < 0)
                return r;
        verdict |= r;
        for (size_t i = 0; i < ELEMENTSOF(slices); i++) {
                r = slice_allows_nothing(slices[i].properties, slices[i].name, why);
                if (r < 0)
                        return r;
                verdict |= r;
        }
        for (size_t i = 0; i < ELEMENTSOF(probes); i++) {
                bool allowed = false;

                STRV_FOREACH(k, allow ? allow->l : NULL)
                        allowed |= prefix_holds(*k, probes[i].address);
                if (!allowed)
                        verdict |= probe_must_fail(in, probes[i].probe, denied, probes[i].n_denied, why);
        }
        return verdict;
}
