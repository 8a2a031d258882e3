/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "broker/bus-props.h"
#include "broker/verify.h"
#include "policy/filter-compile.h"

int broken(Buf *why, const char *format, ...)
{
        _cleanup_free_ char *s = NULL;
        va_list ap;

        va_start(ap, format);
        if (vasprintf(&s, format, ap) < 0)
                s = NULL;
        va_end(ap);
        buf_printf(why, "%s%s", why->size > 0 ? "; " : "", s ? s : "out of memory");
        return 1;
}

int sent_number(const VerifyInput *in, const char *name, uint64_t *ret)
{
        const UnitProp *q = unit_props_find(in->sent, name);

        if (!q)
                return -ENOENT;
        *ret = q->u;
        return 0;
}

bool was_sent(const VerifyInput *in, const char *name)
{
        return unit_props_find(in->sent, name) != NULL;
}

bool egress_is_private(const VerifyInput *in)
{
        uint64_t egress = policy_u64(in->policy, NETWORK_EGRESS);

        return !in->context->scope && (egress == EGRESS_NONE || egress == EGRESS_FILTERED);
}

static bool has_own_pids(const VerifyInput *in)
{
        return was_sent(in, "PrivatePIDs");
}

static bool egress_is_shared(const VerifyInput *in)
{
        return was_sent(in, "IPAddressDeny") && policy_u64(in->policy, NETWORK_EGRESS) != EGRESS_NONE;
}

static bool egress_is_filtered(const VerifyInput *in)
{
        return policy_u64(in->policy, NETWORK_EGRESS) == EGRESS_FILTERED;
}

static bool records_calls(const VerifyInput *in)
{
        return policy_records_denied_calls(in->policy);
}

bool profile_is_strict(const VerifyInput *in)
{
        return policy_u64(in->policy, SYSCALLS_PROFILE) == FILTER_PROFILE_STRICT;
}

static bool is_scope(const VerifyInput *in)
{
        return in->context->scope;
}

static bool has_io_weight(const VerifyInput *in)
{
        return was_sent(in, "IOWeight");
}

/* cgroup v1 has no way to kill a group as a whole: there the broker watches memory.oom_control and ends the
 * run itself. */
static bool has_oom_group(const VerifyInput *in)
{
        return !in->host->cgroup_root_memory;
}

/* What to look for where a promise is not kept; NULL: nothing is known but what the check says. */
#define ADVICE_DECOYS \
        "a kernel without fanotify's permission events (CONFIG_FANOTIFY_ACCESS_PERMISSIONS) cannot tell who opens a file; see " \
        "Decoys= in agentbox.policy(5)"
#define ADVICE_CONTROLLERS                                                                                      \
        "boot with the memory, pids and cpu controllers; a container must get them delegated, and a hierarchy " \
        "that obeys"
#define ADVICE_BPF                                                                                              \
        "the kernel needs CONFIG_CGROUP_BPF, and a container must let bpf() through; a systemd built without " \
        "BPF takes the setting and does nothing"
#define ADVICE_DROP_INS                                                                                 \
        "look for drop-ins of this host that touch every service: /etc/systemd/system/service.d, "      \
        "/etc/systemd/system/agentbox-.service.d, /etc/systemd/system.conf"
#define ADVICE_NAMESPACES                                                                                       \
        "PID 1 must be able to make namespaces and mounts: not so in a container without CAP_SYS_ADMIN; look " \
        "for drop-ins, too (systemctl cat agentbox-.service)"
#define ADVICE_SECCOMP "the kernel needs CONFIG_SECCOMP_FILTER, and systemd must be built with it (systemctl --version)"

#define ROW(n, check_function, text, ...)                                        \
        {                                                                        \
                .name = n, .promise = text, .check = check_function, __VA_ARGS__ \
        }

const VerifyRow verify_rows[] = {
        ROW("uid", verify_uid, "it runs under a user id that nobody else has, a scope under its caller's",
                        .scope = true),
        ROW("groups", verify_groups, "it is in no group but its own"),
        ROW("capabilities", verify_capabilities, "it has no capability in any of the five sets",
                        .scope = true),
        ROW("no-new-privileges", verify_no_new_privileges, "no program that it starts can gain any",
                        .scope = true,
                        .advice = ADVICE_SECCOMP),
        ROW("securebits", verify_securebits, "being root would give it nothing"),
        ROW("seccomp", verify_seccomp, "PID 1's system-call filters are loaded",
                        .advice = ADVICE_SECCOMP),
        ROW("escalation", verify_escalation, "new user namespaces, mounts and uid 0 are refused",
                        .advice = ADVICE_SECCOMP),
        ROW("write-execute", verify_write_execute, "written memory cannot become executable",
                        .applies = profile_is_strict,
                        .advice = ADVICE_SECCOMP),
        ROW("keyring", verify_keyring, "it has no keyring but an empty one of its own"),
        ROW("resource-limits", verify_resource_limits,
                        "descriptors, file sizes, cores and the like are limited",
                        .advice = ADVICE_DROP_INS),
        ROW("umask", verify_umask, "files are made with the expected mask",
                        .advice = ADVICE_DROP_INS),
        ROW("oom-score", verify_oom_score, "a host short of memory kills it before a service",
                        .advice = ADVICE_DROP_INS),
        ROW("environment", verify_environment, "nothing in the environment steers the last trusted program",
                        .scope = true,
                        .advice = ADVICE_DROP_INS),
        ROW("descriptors", verify_descriptors, "no descriptor of the host is open in it", .scope = true),
        ROW("namespaces", verify_namespaces, "mounts, users, IPC objects and host name are its own",
                        .advice = ADVICE_NAMESPACES),
        ROW("processes", verify_processes,
                        "its process ids are its own, and whom they are counted from is trusted and out of its reach",
                        .applies = has_own_pids,
                        .advice = ADVICE_NAMESPACES),
        ROW("network", verify_network, "its network is its own and leads nowhere but to the warden",
                        .applies = egress_is_private,
                        .advice = ADVICE_NAMESPACES),
        ROW("address-filter", verify_address_filter, "packets go to the allowed addresses alone",
                        .applies = egress_is_shared, .scope = true,
                        .advice = ADVICE_BPF),
        ROW("loopback-filter", verify_loopback_filter, "no packet of it passes any interface but loopback",
                        .applies = egress_is_filtered,
                        .advice = ADVICE_BPF),
        ROW("wall", verify_wall, "what it sends leads to its warden, and nowhere else",
                        .applies = egress_is_filtered,
                        .advice = ADVICE_BPF),
        ROW("warden", verify_warden, "its warden has no right that a connection does not need",
                        .applies = egress_is_filtered),
        ROW("warden-limits", verify_warden_limits, "the kernel limits its warden, too",
                        .applies = egress_is_filtered),
        ROW("warden-addresses", verify_warden_addresses,
                        "the kernel refuses this host and metadata services to its warden, too",
                        .applies = egress_is_filtered),
        ROW("warden-settings", verify_warden_settings, "no drop-in of the host loosens its warden",
                        .applies = egress_is_filtered,
                        .advice = ADVICE_DROP_INS),
        ROW("egress-record", verify_egress_record, "what it tries to reach is put on record",
                        .applies = egress_is_filtered),
        ROW("syscall-record", verify_syscall_record, "system calls that point to an attack are put on record",
                        .applies = records_calls,
                        .advice = ADVICE_SECCOMP),
        ROW("mounts", verify_mounts, "nothing is mounted but what the policy names",
                        .advice = ADVICE_NAMESPACES),
        ROW("exposed", verify_exposed, "what it sees of the host's files is what the policy names",
                        .advice = ADVICE_NAMESPACES),
        ROW("credentials", verify_credentials,
                        "the credentials that the policy names are there, for it alone",
                        .applies = has_credentials),
        ROW("decoys", verify_decoys, "decoys stand where thieves look, and who opens one is seen",
                        .applies = has_decoys, .advice = ADVICE_DECOYS),
        ROW("read-only", verify_read_only, "the root, /usr and /etc cannot be written",
                        .advice = ADVICE_NAMESPACES),
        ROW("workspace", verify_workspace, "the workspace has its size and is writable", .scope = true,
                        .advice = ADVICE_NAMESPACES),
        ROW("view", verify_view,
                        "what it sees of the host's directory is behind an overlay that writes to the workspace alone",
                        .applies = has_view,
                        .advice = ADVICE_NAMESPACES),
        ROW("tmp", verify_tmp, "/tmp and /var/tmp are its own and have their size",
                        .advice = ADVICE_NAMESPACES),
        ROW("shared-memory", verify_shared_memory, "/dev/shm is its own and has its size",
                        .advice = ADVICE_NAMESPACES),
        ROW("devices", verify_devices, "no kernel log, no terminals of the host",
                        .advice = ADVICE_NAMESPACES),
        ROW("proc", verify_proc, "no other process is visible in /proc",
                        .advice = ADVICE_NAMESPACES),
        ROW("sys", verify_sys, "/sys is out of reach",
                        .advice = ADVICE_NAMESPACES),
        ROW("host-services", verify_host_services, "no socket of the host's services is visible",
                        .advice = ADVICE_NAMESPACES),
        ROW("cgroup", verify_cgroup, "its processes are in the unit's cgroup", .scope = true,
                        .advice = ADVICE_CONTROLLERS),
        ROW("memory-limit", verify_memory_limit, "the kernel limits its memory", .scope = true,
                        .advice = ADVICE_CONTROLLERS),
        ROW("swap-limit", verify_swap_limit, "it cannot use swap", .scope = true,
                        .advice = ADVICE_CONTROLLERS),
        ROW("tasks-limit", verify_tasks_limit, "the kernel limits its processes", .scope = true,
                        .advice = ADVICE_CONTROLLERS),
        ROW("cpu-limit", verify_cpu_limit, "the kernel limits its processor time", .scope = true,
                        .advice = ADVICE_CONTROLLERS),
        ROW("io-weight", verify_io_weight, "the kernel weighs its disk time", .applies = has_io_weight,
                        .scope = true,
                        .advice = ADVICE_CONTROLLERS),
        ROW("oom-group", verify_oom_group, "out of memory ends the run as a whole", .applies = has_oom_group,
                        .scope = true,
                        .advice = ADVICE_CONTROLLERS),
        ROW("file-wall", verify_landlock, "a scope can write to no file of the host", .applies = is_scope,
                        .scope = true),
        ROW("terminals", verify_device_probes, "a scope has no terminal of the host and not its log",
                        .applies = is_scope, .scope = true),
        ROW("device-filter", verify_device_filter, "the kernel refuses devices", .scope = true,
                        .advice = ADVICE_BPF),
        ROW("process", verify_process, "seen from outside, it is the process that the report is about",
                        .scope = true),
        ROW("properties", verify_properties, "PID 1 has every setting as it was sent, or a tighter one",
                        .scope = true,
                        .advice = ADVICE_DROP_INS),
        ROW("settings", verify_settings, "no drop-in of the host adds anything that loosens the unit",
                        .scope = true,
                        .advice = ADVICE_DROP_INS),
};
const size_t n_verify_rows = ELEMENTSOF(verify_rows);

const char *verify_row_trial(const VerifyRow *row)
{
        static const struct {
                bool (*applies)(const VerifyInput *in);
                const char *trial;
        } trials[] = {
                { NULL, "every" },
                { egress_is_private, "offline" },
                { egress_is_filtered, "default" },
                { profile_is_strict, "strict" },
                { egress_is_shared, "addresses" },
        };

        for (size_t i = 0; i < ELEMENTSOF(trials); i++)
                if (trials[i].applies == row->applies)
                        return trials[i].trial;
        return "";
}

static bool row_applies(const VerifyRow *row, const VerifyInput *in)
{
        return (row->scope || !in->context->scope) && (!row->applies || row->applies(in));
}

int broker_verify(const VerifyInput *input, char ***ret_verified, char ***ret_broken)
{
        _cleanup_(bus_props_done) BusProps props = {}, warden_props = {};
        _cleanup_strv_ char **verified = NULL, **wrong = NULL;
        VerifyInput with_props = *input;
        const VerifyInput *in = &with_props;
        VerifyWarden warden;
        int k;

        if (!in->control_group || *in->control_group != '/' || !in->properties || in->peer.pid <= 0)
                return -EINVAL;
        k = bus_props_read(in->properties, &props);
        if (k >= 0 && in->warden)
                k = bus_props_read(in->warden->properties, &warden_props);
        if (k < 0)
                return k;
        with_props.read = &props;
        if (in->warden) {
                warden = *in->warden;
                warden.read = &warden_props;
                with_props.warden = &warden;
        }
        for (size_t i = 0; i < n_verify_rows; i++) {
                const VerifyRow *row = verify_rows + i;
                _cleanup_buf_ Buf why = {};
                char *text;
                int r;

                if (!row_applies(row, in))
                        continue;
                r = row->check(in, &why);
                if (r == 0) {
                        if (strv_extend(&verified, row->name) < 0)
                                return -ENOMEM;
                        continue;
                }
                if (r < 0)
                        broken(&why, "cannot be checked: %s", strerror(-r));
                if (why.error < 0 || asprintf(&text, "%s: %s", row->name, (const char *) why.data) < 0)
                        return -ENOMEM;
                if (strv_push(&wrong, text) < 0)
                        return -ENOMEM;
        }
        *ret_verified = TAKE_PTR(verified);
        *ret_broken = TAKE_PTR(wrong);
        return *ret_broken ? 1 : 0;
}
