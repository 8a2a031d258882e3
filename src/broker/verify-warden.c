/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>
#include <linux/bpf.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "base/io.h"
#include "base/parse.h"
#include "broker/bus-props.h"
#include "broker/verify.h"
#include "broker/warden-plan.h"

/* The warden before it is told anything: its own word (WardenHello), PID 1's settings of its unit, and the
 * kernel's word for both, in the broker's /proc and in the unit's cgroup. */

#define STATUS_MAX (64u * 1024)
#define MOUNTINFO_MAX (1024u * 1024)

static int path_in_proc(const VerifyInput *in, const char *file, char ret[static PATH_MAX])
{
        return snprintf(ret, PATH_MAX, "%s/%i/%s", in->host->proc ? in->host->proc : "/proc",
                               (int) in->warden->peer.pid, file) < PATH_MAX
                               ? 0
                               : -ENAMETOOLONG;
}

static int read_proc(const VerifyInput *in, const char *file, size_t max, char **ret)
{
        char path[PATH_MAX];
        int r = path_in_proc(in, file, path);

        return r < 0 ? r : read_file(path, max, ret, NULL);
}

/* The checks that a run's unit is put through, put to the warden's. */
static VerifyInput as_unit(const VerifyInput *in)
{
        const VerifyWarden *w = in->warden;

        return (VerifyInput){
                .host = in->host,
                .policy = in->policy,
                .context = in->context,
                .sent = w->sent,
                .peer = w->peer,
                .control_group = w->control_group,
                .properties = w->properties,
                .read = w->read,
        };
}

/* 1, with its reason, where the run has none. */
static int is_absent(const VerifyInput *in, Buf *why)
{
        return in->warden ? 0 : broken(why, "the run has no warden");
}

/* ---- the wall that leads to it */

int verify_wall(const VerifyInput *in, Buf *why)
{
        int r = is_absent(in, why);

        return r != 0 ? r : in->warden->wall_verify(in->warden->wall, in->warden->run_cgroup_fd, why);
}

/* ---- who it is */

static int check_hello(const VerifyInput *in, Buf *why)
{
        const WardenHello *h = in->warden->hello;
        const uint64_t *host = in->host->ns;
        int verdict = 0;

        if (h->uid != in->warden->peer.uid || h->gid != in->warden->peer.gid)
                verdict = broken(why, "uid %u and gid %u reported, the kernel says %u and %u", h->uid,
                                h->gid, in->warden->peer.uid, in->warden->peer.gid);
        if (!id_is_dynamic(h->uid) || !id_is_dynamic(h->gid))
                verdict = broken(why, "uid %u, gid %u is not in the dynamic range", h->uid, h->gid);
        if (h->uid == in->peer.uid)
                verdict = broken(why, "uid %u is the run's, too", h->uid);
        if (h->capabilities != 0)
                verdict = broken(why, "it has capabilities %#llx", (unsigned long long) h->capabilities);
        if (!h->no_new_privileges)
                verdict = broken(why, "it could gain privileges");
        if (h->seccomp_mode != SECCOMP_MODE_FILTER)
                verdict = broken(why, "no system-call filter is loaded");
        if (h->n_fds != 0)
                verdict = broken(why, "it has %u descriptors more than it should", h->n_fds);
        if (h->netns_inode != host[ATTEST_NS_NET])
                verdict = broken(why, "it is not in the host's network");
        if (h->userns_inode != host[ATTEST_NS_USER])
                verdict = broken(why, "it is in a user namespace of its own");
        if (h->mntns_inode == 0 || h->mntns_inode == host[ATTEST_NS_MNT])
                verdict = broken(why, "it sees the host's mounts");
        return verdict;
}

static int status_must_be(const char *status, const char *name, const char *wanted, Buf *why)
{
        _cleanup_free_ char *value = NULL;
        int r = proc_status_field(status, name, &value);

        if (r == -ENOENT)
                return broken(why, "/proc has no %s", name);
        if (r < 0)
                return r;
        return streq(value, wanted) ? 0 : broken(why, "%s is \"%s\" from outside", name, value);
}

/* The same, and what it would not say itself. */
static int check_status(const VerifyInput *in, Buf *why)
{
        static const char *const sets[] = { "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb" };
        const struct ucred *peer = &in->warden->peer;
        _cleanup_free_ char *status = NULL;
        char uids[64], gids[64];
        int r = read_proc(in, "status", STATUS_MAX, &status), verdict = 0;

        if (r < 0)
                return r == -ENOENT ? broken(why, "process %i is gone", (int) peer->pid) : r;
        snprintf(uids, sizeof(uids), "%u\t%u\t%u\t%u", peer->uid, peer->uid, peer->uid, peer->uid);
        snprintf(gids, sizeof(gids), "%u\t%u\t%u\t%u", peer->gid, peer->gid, peer->gid, peer->gid);
        const struct {
                const char *name, *wanted;
        } rows[] = {
                { "Uid", uids },
                { "Gid", gids },
                { "NoNewPrivs", "1" },
                { "Seccomp", "2" },
                { "TracerPid", "0" }, /* whoever traces it could have it say anything */
                { "Threads", "1" },
        };

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(rows); i++, verdict |= r)
                r = status_must_be(status, rows[i].name, rows[i].wanted, why);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(sets); i++, verdict |= r)
                r = status_must_be(status, sets[i], "0000000000000000", why);
        return r < 0 ? r : verdict;
}

static int check_namespaces(const VerifyInput *in, Buf *why)
{
        const WardenHello *h = in->warden->hello;
        const struct {
                const char *file;
                uint64_t reported;
        } rows[] = {
                { "ns/net", h->netns_inode },
                { "ns/user", h->userns_inode },
                { "ns/mnt", h->mntns_inode },
        };
        int verdict = 0;

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                char path[PATH_MAX];
                struct stat st;
                int r = path_in_proc(in, rows[i].file, path);

                if (r < 0 || stat(path, &st) < 0)
                        return r < 0 ? r : -errno;
                if (st.st_ino != rows[i].reported)
                        verdict = broken(why, "its %s is another one from outside", rows[i].file);
        }
        return verdict;
}

/* That it is our program, in the root that we made for it. */
static int check_files(const VerifyInput *in, Buf *why)
{
        const struct {
                const char *file, *wanted, *text;
        } rows[] = {
                { "exe", in->warden->program, "it is another program than" },
                { "root", in->warden->root_directory, "its root is not" },
        };
        int verdict = 0;

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                struct stat is, wanted;
                char path[PATH_MAX];
                int r = path_in_proc(in, rows[i].file, path);

                if (r < 0 || stat(path, &is) < 0 || stat(rows[i].wanted, &wanted) < 0)
                        return r < 0 ? r : -errno;
                if (is.st_dev != wanted.st_dev || is.st_ino != wanted.st_ino)
                        verdict = broken(why, "%s %s", rows[i].text, rows[i].wanted);
        }
        return verdict;
}

/* Where somebody may write who is nobody. In /proc and /dev no file can be made; what there is,
 * DevicePolicy= and ProcSubset= see to. */
static bool may_be_writable(const char *target, const char *type)
{
        static const char *const harmless[] = { "proc", "devpts", "mqueue" };

        for (size_t i = 0; i < ELEMENTSOF(harmless); i++)
                if (streq(type, harmless[i]))
                        return true;
        return streq(target, "/run") && streq(type, "tmpfs"); /* root's, 0755 */
}

static int check_mounts(const VerifyInput *in, Buf *why)
{
        _cleanup_free_ char *text = NULL;
        const char *line;
        int r = read_proc(in, "mountinfo", MOUNTINFO_MAX, &text), verdict = 0;

        if (r < 0)
                return r;
        line = text;
        for (;;) {
                _cleanup_free_ char *target = NULL, *type = NULL, *super = NULL, *of = NULL, *options = NULL,
                                    *again = NULL;

                r = mountinfo_next(&line, &target, &type, &super);
                if (r <= 0)
                        break;
                /* Of several mounts at one place the last one counts. */
                r = mountinfo_find(text, target, &of, &options, &again);
                if (r < 0)
                        break;
                if (!has_mount_option(options, "ro") && !may_be_writable(target, of))
                        verdict = broken(why, "%s is not mounted read-only", target);
        }
        return r < 0 ? r : verdict;
}

static int check_main_pid(const VerifyInput *in, Buf *why)
{
        const BusProp *main_pid = bus_props_find(in->warden->read, "MainPID");
        char text[16];

        snprintf(text, sizeof(text), "%i", (int) in->warden->peer.pid);
        return main_pid && strv_length(main_pid->items) == 1 && streq(main_pid->items[0], text)
                               ? 0
                               : broken(why, "the report came from %s, which is not the unit's main process",
                                                 text);
}

/* One after the other, as far as they can be made. */
static int all_of(int (*const *steps)(const VerifyInput *in, Buf *why), size_t n, const VerifyInput *in,
                Buf *why)
{
        int verdict = is_absent(in, why);

        for (size_t i = 0; verdict == 0 && i < n; i++) {
                int r = steps[i](in, why);

                if (r < 0)
                        return r;
                verdict |= r;
        }
        return verdict;
}

int verify_warden(const VerifyInput *in, Buf *why)
{
        static int (*const steps[])(const VerifyInput *in, Buf *why) = { check_hello, check_status,
                check_namespaces, check_files, check_mounts, check_main_pid };

        return all_of(steps, ELEMENTSOF(steps), in, why);
}

/* ---- what it may use */

static int check_cgroup(const VerifyInput *in, Buf *why)
{
        _cleanup_free_ char *cgroup = NULL;
        VerifyInput w = as_unit(in);
        int r = read_proc(in, "cgroup", STATUS_MAX, &cgroup);

        if (r < 0)
                return r;
        if (!w.control_group || *w.control_group != '/')
                return broken(why, "PID 1 names no cgroup of its unit");
        return verify_membership(&w, cgroup, false, why);
}

static int check_cgroup_limits(const VerifyInput *in, Buf *why)
{
        static int (*const checks[])(const VerifyInput *in, Buf *why) = { verify_memory_limit,
                verify_swap_limit, verify_tasks_limit, verify_cpu_limit, verify_device_filter, verify_oom_group };
        /* The last one has no counterpart in v1. */
        size_t n = ELEMENTSOF(checks) - (in->host->cgroup_root_memory != NULL);
        VerifyInput w = as_unit(in);
        int verdict = 0;

        for (size_t i = 0; i < n; i++) {
                int r = checks[i](&w, why);

                if (r < 0)
                        return r;
                verdict |= r;
        }
        return verdict;
}

/* "Max open files            1024                 4096                 files" */
static int check_resource_limits(const VerifyInput *in, Buf *why)
{
        static const struct {
                const char *property, *text;
        } rows[] = {
                { "LimitNOFILE", "\nMax open files " },
                { "LimitFSIZE", "\nMax file size " },
                { "LimitCORE", "\nMax core file size " },
        };
        _cleanup_free_ char *limits = NULL;
        VerifyInput w = as_unit(in);
        int r = read_proc(in, "limits", STATUS_MAX, &limits), verdict = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(rows); i++) {
                const char *line = strstr(limits, rows[i].text);
                char soft[32], hard[32];
                uint64_t wanted, v;

                r = sent_number(&w, rows[i].property, &wanted);
                if (r < 0)
                        return r;
                if (!line || sscanf(line + strlen(rows[i].text), "%31s %31s", soft, hard) != 2)
                        return -EBADMSG;
                if (parse_u64(hard, &v) < 0 || v > wanted)
                        verdict = broken(why, "%s is %s instead of %llu", rows[i].property, hard,
                                        (unsigned long long) wanted);
        }
        return r < 0 ? r : verdict;
}

int verify_warden_limits(const VerifyInput *in, Buf *why)
{
        static int (*const steps[])(const VerifyInput *in, Buf *why) = { check_cgroup, check_cgroup_limits,
                check_resource_limits };

        return all_of(steps, ELEMENTSOF(steps), in, why);
}

/* ---- what it may reach */

static int check_filters(const VerifyInput *in, Buf *why)
{
        VerifyInput w = as_unit(in);
        int r = verify_program(&w, BPF_CGROUP_INET_INGRESS, "filter of incoming packets", why), verdict = r;

        if (r >= 0)
                r = verify_program(&w, BPF_CGROUP_INET_EGRESS, "filter of outgoing packets", why);
        return r < 0 ? r : verdict | r;
}

static int check_slices(const VerifyInput *in, Buf *why)
{
        const VerifyWarden *w = in->warden;
        int verdict = 0;

        if (w->n_slices_told != w->n_slices)
                verdict = broken(why, "the settings of its slices were not read");
        STRV_FOREACH(i, w->open_slices)
                verdict = broken(why, "%s has IPAddressAllow=, which opens its units", *i);
        return verdict;
}

/* Whether what it tried was refused by the unit's filter. */
static int check_canary(const VerifyInput *in, const char *address, uint32_t error, const int *refusals,
                size_t n, Buf *why)
{
        const UnitProp *allow = unit_props_find(in->warden->sent, "IPAddressAllow");

        for (size_t i = 0; i < n; i++)
                if (error == (uint32_t) refusals[i])
                        return 0;
        /* A name server there must be reached; what else that opens, "agentbox doctor" says. */
        if (allow && prefixes_hold(allow->l, address))
                return 0;
        return broken(why, "a datagram to %s was not refused: %s", address,
                        error == 0 ? "it was sent" : strerror((int) MIN2(error, 4095u)));
}

static int check_canaries(const VerifyInput *in, Buf *why)
{
        /* A host without a route answers before the filter does. To loopback there is one always. */
        static const int refusals[] = { EPERM, EACCES, ENETUNREACH, EHOSTUNREACH };
        const WardenHello *h = in->warden->hello;

        return check_canary(in, EGRESS_CANARY_LOOPBACK, h->canary_loopback, refusals, 2, why) |
               check_canary(in, EGRESS_CANARY_METADATA, h->canary_metadata, refusals, ELEMENTSOF(refusals),
                               why);
}

int verify_warden_addresses(const VerifyInput *in, Buf *why)
{
        static int (*const steps[])(
                        const VerifyInput *in, Buf *why) = { check_filters, check_slices, check_canaries };

        return all_of(steps, ELEMENTSOF(steps), in, why);
}

/* ---- its unit, as PID 1 has it */

static int check_properties(const VerifyInput *in, Buf *why)
{
        VerifyInput w = as_unit(in);
        int r = verify_properties(&w, why), verdict = r;

        if (r >= 0)
                r = verify_settings(&w, why);
        return r < 0 ? r : verdict | r;
}

/* What the journal does by the unit's settings with records that it was handed: leaves out those that are of
 * less weight or of some text, puts fields of its own into them. */
static int check_records(const VerifyInput *in, Buf *why)
{
        static const struct {
                const char *name, *unset;
        } rows[] = {
                { "LogLevelMax", "-1" }, /* 0: "emerg" */
                { "LogFilterPatterns", NULL },
                { "LogExtraFields", NULL },
        };
        int verdict = 0;

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                const BusProp *is = bus_props_find(in->warden->read, rows[i].name);
                bool unset = !is || (rows[i].unset ? strv_length(is->items) == 1 && streq(is->items[0], rows[i].unset)
                                                   : bus_prop_is_empty(is));

                if (!unset)
                        verdict = broken(why, "%s is set, which changes what is on record", rows[i].name);
        }
        return verdict;
}

int verify_warden_settings(const VerifyInput *in, Buf *why)
{
        static int (*const steps[])(const VerifyInput *in, Buf *why) = { check_properties, check_records };

        return all_of(steps, ELEMENTSOF(steps), in, why);
}

/* ---- where it writes what it saw */

static int check_journal(const VerifyInput *in, Buf *why)
{
        struct pollfd p = { .fd = in->warden->journal_fd, .events = POLLOUT };
        struct sockaddr_un to = {};
        socklen_t n = sizeof(to);

        if (getpeername(p.fd, (struct sockaddr *) &to, &n) < 0)
                return errno == ENOTCONN ? broken(why, "the journal's socket is gone") : -errno;
        if (to.sun_family != AF_UNIX ||
                        strncmp(to.sun_path, in->warden->journal_path, sizeof(to.sun_path)) != 0)
                return broken(why, "its records would not go to %s", in->warden->journal_path);
        if (poll(&p, 1, 0) < 0)
                return -errno;
        return p.revents == POLLOUT ? 0 : broken(why, "the journal takes no records");
}

static int check_tally(const VerifyInput *in, Buf *why)
{
        struct stat st;

        if (fstat(in->warden->tally_fd, &st) < 0)
                return -errno;
        return S_ISREG(st.st_mode) && st.st_size == (off_t) sizeof(EgressTally)
                               ? 0
                               : broken(why, "the file that it counts in has another size");
}

int verify_egress_record(const VerifyInput *in, Buf *why)
{
        static int (*const steps[])(const VerifyInput *in, Buf *why) = { check_journal, check_tally };

        return all_of(steps, ELEMENTSOF(steps), in, why);
}

/* What is left to see before the run has a filter of its own: that the kernel can ask somebody about a call. That it does, and
 * that PID 1's filters let each of these calls through to ours, the shim finds out by making them (wire/runspec.h). */
static int check_listener(const VerifyInput *in, Buf *why)
{
        uint32_t action = SECCOMP_RET_USER_NOTIF;

        return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0
                               ? 0
                               : broken(why, "this kernel asks nobody about a refused call: %s", strerror(errno));
}

int verify_syscall_record(const VerifyInput *in, Buf *why)
{
        static int (*const steps[])(const VerifyInput *in, Buf *why) = { check_journal, check_tally, check_listener };

        return all_of(steps, ELEMENTSOF(steps), in, why);
}
