/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/escape.h"
#include "base/parse.h"
#include "broker/verify.h"

/* systemd's range for DynamicUser=; fixed when systemd is built, and every distribution leaves it. */
#define DYNAMIC_UID_MIN 0xEF00u
#define DYNAMIC_UID_MAX 0xFFEFu

bool id_is_dynamic(uint32_t id)
{
        return id >= DYNAMIC_UID_MIN && id <= DYNAMIC_UID_MAX;
}

static int four_ids(const VerifyInput *in, const char *what, const uint32_t id[static 4], uint32_t peer,
                Buf *why)
{
        for (size_t i = 0; i < 4; i++)
                if (id[i] != id[0])
                        return broken(why, "%ss differ: %u %u %u %u", what, id[0], id[1], id[2], id[3]);
        if (!in->context->scope && !id_is_dynamic(id[0]))
                return broken(why, "%s %u is not in the dynamic range %u-%u", what, id[0], DYNAMIC_UID_MIN,
                                DYNAMIC_UID_MAX);
        if (id[0] != peer)
                return broken(why, "%s %u reported, the kernel says %u", what, id[0], peer);
        return 0;
}

int verify_uid(const VerifyInput *in, Buf *why)
{
        int r = four_ids(in, "uid", in->attest->uid, in->peer.uid, why);

        if (in->context->scope && (in->peer.uid != in->context->uid || in->peer.uid == 0))
                r = broken(why, "uid %u is not the caller's, %u", in->peer.uid, in->context->uid);
        return r;
}

int verify_groups(const VerifyInput *in, Buf *why)
{
        int r = four_ids(in, "gid", in->attest->gid, in->peer.gid, why);

        for (uint32_t i = 0; r == 0 && i < in->attest->n_groups; i++)
                if (in->attest->groups[i] != in->attest->gid[0])
                        r = broken(why, "it is in group %u", in->attest->groups[i]);
        return r;
}

int verify_capabilities(const VerifyInput *in, Buf *why)
{
        const struct {
                const char *name;
                uint64_t set;
        } sets[] = {
                { "inheritable", in->attest->cap_inheritable },
                { "permitted", in->attest->cap_permitted },
                { "effective", in->attest->cap_effective },
                { "bounding", in->attest->cap_bounding },
                { "ambient", in->attest->cap_ambient },
        };
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(sets); i++)
                /* Who is not root cannot empty that one, and under no_new_privs nothing is gained from it.
                 */
                if (in->context->scope && streq(sets[i].name, "bounding"))
                        continue;
                else if (sets[i].set != 0)
                        r = broken(why, "%s set is %#llx instead of empty", sets[i].name,
                                        (unsigned long long) sets[i].set);
        return r;
}

int verify_no_new_privileges(const VerifyInput *in, Buf *why)
{
        return in->attest->no_new_privs ? 0 : broken(why, "no_new_privs is not set");
}

int verify_securebits(const VerifyInput *in, Buf *why)
{
        uint64_t wanted;
        int r = sent_number(in, "SecureBits", &wanted);

        if (r < 0)
                return r;
        return (in->attest->securebits & wanted) == wanted
                               ? 0
                               : broken(why, "%#x instead of %#llx", in->attest->securebits,
                                                 (unsigned long long) wanted);
}

/* Each of these settings loads a filter of its own; a kernel or an architecture that PID 1 skipped shows as
 * a smaller count. */
int verify_seccomp(const VerifyInput *in, Buf *why)
{
        static const char *const settings[] = { "ProtectClock", "ProtectKernelModules", "ProtectKernelLogs",
                "ProtectHostname", "RestrictAddressFamilies", "RestrictNamespaces", "RestrictRealtime",
                "RestrictSUIDSGID", "LockPersonality", "MemoryDenyWriteExecute", "SystemCallArchitectures",
                "SystemCallFilter" };
        uint32_t wanted = 0;

        for (size_t i = 0; i < ELEMENTSOF(settings); i++)
                wanted += was_sent(in, settings[i]);
        if (in->attest->seccomp_mode != SECCOMP_MODE_FILTER)
                return broken(why, "mode %u instead of %u", in->attest->seccomp_mode, SECCOMP_MODE_FILTER);
        if (in->attest->seccomp_filters < wanted)
                return broken(why, "%u filters instead of at least %u", in->attest->seccomp_filters, wanted);
        return 0;
}

int probe_must_work(const VerifyInput *in, AttestProbe probe, Buf *why)
{
        int32_t result = in->attest->probes[probe];

        if (result == 0)
                return 0;
        if (result < 0)
                return broken(why, "%s was not tried", attest_probe_names[probe]);
        return broken(why, "%s fails: %s", attest_probe_names[probe], strerror(result));
}

int probe_must_fail(const VerifyInput *in, AttestProbe probe, const int *allowed, size_t n_allowed, Buf *why)
{
        int32_t result = in->attest->probes[probe];

        if (result < 0)
                return broken(why, "%s was not tried", attest_probe_names[probe]);
        if (result == 0)
                return broken(why, "%s works", attest_probe_names[probe]);
        for (size_t i = 0; i < n_allowed; i++)
                if (allowed[i] == result)
                        return 0;
        return n_allowed == 0 ? 0
                              : broken(why, "%s fails with the wrong error: %s", attest_probe_names[probe],
                                                strerror(result));
}

/* Where refused calls are put on record, PID 1 lets them through to our filter, which is not loaded yet: then the shim tries
 * them under it, new namespaces among them, before it executes anything, and the run does not start where one is not
 * refused (wire/runspec.h). */
int verify_escalation(const VerifyInput *in, Buf *why)
{
        static const AttestProbe probes[] = { PROBE_MOUNT, PROBE_SETUID_0, PROBE_UNSHARE_USER };
        size_t n = ELEMENTSOF(probes) - policy_records_denied_calls(in->policy);
        int r = 0;

        for (size_t i = 0; i < n; i++)
                r |= probe_must_fail(in, probes[i], NULL, 0, why);
        return r;
}

int verify_write_execute(const VerifyInput *in, Buf *why)
{
        return probe_must_fail(in, PROBE_MPROTECT_EXEC, NULL, 0, why);
}

/* The description is "TYPE;UID;GID;PERM;NAME". Where the filter refuses keyctl() already, it is refused to
 * the workload as well. */
int verify_keyring(const VerifyInput *in, Buf *why)
{
        _cleanup_free_ char *shown = NULL;
        const Attest *a = in->attest;
        unsigned uid;

        if (a->keyring_error == EPERM || a->keyring_error == ENOSYS || a->keyring_error == EACCES)
                return a->seccomp_mode == SECCOMP_MODE_FILTER
                                       ? 0
                                       : broken(why, "it is not described, and not by a filter");
        if (a->keyring_error != 0)
                return broken(why, "it cannot be described: %s", strerror(a->keyring_error));
        shown = escape_for_display(a->keyring, strlen(a->keyring), 200);
        if (!shown)
                return -ENOMEM;
        if (sscanf(a->keyring, "keyring;%u;", &uid) != 1 || uid != a->uid[0])
                return broken(why, "it is not its own: %s", shown);
        if (strstr(a->keyring, ";_uid"))
                return broken(why, "it is shared by all processes of the uid: %s", shown);
        return 0;
}

static const struct {
        const char *name;
        int resource;
} limits[] = {
        { "LimitNOFILE", RLIMIT_NOFILE },
        { "LimitFSIZE", RLIMIT_FSIZE },
        { "LimitCORE", RLIMIT_CORE },
        { "LimitMEMLOCK", RLIMIT_MEMLOCK },
        { "LimitMSGQUEUE", RLIMIT_MSGQUEUE },
        { "LimitSIGPENDING", RLIMIT_SIGPENDING },
        { "LimitRTPRIO", RLIMIT_RTPRIO },
        { "LimitNICE", RLIMIT_NICE },
};

int verify_resource_limits(const VerifyInput *in, Buf *why)
{
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(limits); i++) {
                const AttestLimit *found = NULL;
                uint64_t wanted;

                if (sent_number(in, limits[i].name, &wanted) < 0)
                        continue;
                for (uint32_t k = 0; k < in->attest->n_limits; k++)
                        if (in->attest->limits[k].resource == limits[i].resource)
                                found = in->attest->limits + k;
                if (!found)
                        r = broken(why, "%s is not reported", limits[i].name);
                else if (found->soft > wanted || found->hard > wanted ||
                                /* 0 is more than 1 to a crash handler. */
                                (limits[i].resource == RLIMIT_CORE && found->soft == 0))
                        r = broken(why, "%s is %llu:%llu instead of %llu", limits[i].name,
                                        (unsigned long long) found->soft, (unsigned long long) found->hard,
                                        (unsigned long long) wanted);
        }
        return r;
}

int verify_umask(const VerifyInput *in, Buf *why)
{
        uint64_t wanted;
        int r = sent_number(in, "UMask", &wanted);

        if (r < 0)
                return r;
        return (in->attest->umask & wanted) == wanted
                               ? 0
                               : broken(why, "%04o instead of %04llo", in->attest->umask,
                                                 (unsigned long long) wanted);
}

int verify_oom_score(const VerifyInput *in, Buf *why)
{
        uint64_t wanted;
        int r = sent_number(in, "OOMScoreAdjust", &wanted);

        if (r < 0)
                return r;
        return in->attest->oom_score_adj >= (int32_t) wanted
                               ? 0
                               : broken(why, "%i instead of %i", in->attest->oom_score_adj,
                                                 (int32_t) wanted);
}

/* The workload never sees this environment: the shim replaces it. What could make a static program misbehave
 * is a broken promise; what the unit itself sets is seen in promise "settings". */
int verify_environment(const VerifyInput *in, Buf *why)
{
        static const char *const prefixes[] = { "LD_", "GLIBC_", "MALLOC_", "GCONV_",
                "LOCPATH=", "NLSPATH=", "RES_OPTIONS=", "LISTEN_",
                "NOTIFY_SOCKET=", "CREDENTIALS_DIRECTORY=", "FDSTORE=" };
        _cleanup_free_ char *credentials = NULL;
        int r = 0;

        if (has_credentials(in) && credentials_directory(in, &credentials) < 0)
                return -ENOMEM;
        STRV_FOREACH(i, in->attest->environ_)
                for (size_t k = 0; k < ELEMENTSOF(prefixes); k++) {
                        _cleanup_free_ char *shown = NULL;

                        if (!startswith(*i, prefixes[k]))
                                continue;
                        if (credentials && streq(prefixes[k], "CREDENTIALS_DIRECTORY=") &&
                                        streq(*i + strlen(prefixes[k]), credentials))
                                continue;
                        shown = escape_for_display(*i, strcspn(*i, "="), 64);
                        if (!shown)
                                return -ENOMEM;
                        r = broken(why, "it has %s", shown);
                }
        return r;
}

/* The channel to the broker, and nothing to write to. */
int verify_descriptors(const VerifyInput *in, Buf *why)
{
        static const char *const wanted[] = { "socket:[", "/dev/null", "/dev/null" };
        bool seen[ELEMENTSOF(wanted)] = {};
        int r = 0;

        for (uint32_t i = 0; i < in->attest->n_fds; i++) {
                const AttestFd *f = in->attest->fds + i;
                _cleanup_free_ char *shown = escape_for_display(f->target, strlen(f->target), 200);

                if (!shown)
                        return -ENOMEM;
                if (f->fd < 0 || (size_t) f->fd >= ELEMENTSOF(wanted))
                        r = broken(why, "descriptor %i is open: %s", f->fd, shown);
                else if (f->fd == 0 ? !startswith(f->target, wanted[0]) : !streq(f->target, wanted[f->fd]))
                        r = broken(why, "descriptor %i is %s instead of %s", f->fd, shown, wanted[f->fd]);
                else
                        seen[f->fd] = true;
        }
        for (size_t i = 0; r == 0 && i < ELEMENTSOF(wanted); i++)
                if (!seen[i])
                        r = broken(why, "descriptor %zu is not open", i);
        return r;
}
