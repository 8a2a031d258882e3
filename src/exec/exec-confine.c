/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "exec/exec.h"

#define CAPABILITIES_MAX 64 /* the width of a set in the kernel's interface */
#define SECUREBITS_WANTED                                                                                \
        (SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED | \
                        SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |                          \
                        SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

/* Of queued signals and POSIX timers, for the run as a whole. What the unit gave is what all runs share: a
 * user namespace takes the limit of its maker as that of all namespaces beside it. */
#define SIGPENDING_MAX 256

static void cap_freep(cap_t *c)
{
        if (*c)
                cap_free(*c);
}

/* In force only where the process may still change them. Where it may not, it has no capability that they
 * could limit either, and no_new_privs keeps it so. */
static int lock_securebits(cap_t now)
{
        cap_flag_value_t may;

        if (cap_get_flag(now, CAP_SETPCAP, CAP_EFFECTIVE, &may) < 0)
                return -errno;
        if (may != CAP_SET)
                return 0;
        return cap_set_secbits(SECUREBITS_WANTED) < 0 ? -errno : 0;
}

/* Dropping says EPERM for a set that somebody else emptied before, so the result is judged, not the call. */
static int verify_empty(bool bounding)
{
        _cleanup_(cap_freep) cap_t now = cap_get_proc(), empty = cap_init();

        if (!now || !empty)
                return -errno;
        if (cap_compare(now, empty) != 0)
                return -EPERM;
        for (cap_value_t c = 0; c < CAPABILITIES_MAX; c++) {
                int bound = cap_get_bound(c);

                if (bound < 0) /* the kernel knows no such capability, nor any above it */
                        return c > CAP_AUDIT_READ ? 0 : -EIO;
                if ((bounding && bound != 0) || cap_get_ambient(c) != 0)
                        return -EPERM;
        }
        return 0;
}

int exec_confine_capabilities(bool bounding)
{
        _cleanup_(cap_freep) cap_t now = cap_get_proc(), empty = cap_init();
        int r;

        if (!now || !empty)
                return -errno;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
                return -EPERM;
        if (cap_reset_ambient() < 0)
                return -errno;
        r = lock_securebits(now);
        if (r < 0)
                return r;
        for (cap_value_t c = 0; c < CAPABILITIES_MAX && cap_get_bound(c) >= 0; c++)
                (void) cap_drop_bound(c);
        /* Under systemd's list there is no capset(), but then nothing is left to drop either. */
        if (cap_compare(now, empty) != 0 && cap_set_proc(empty) < 0)
                return -errno;
        return verify_empty(bounding);
}

static int lower_limit(int resource, rlim_t max)
{
        struct rlimit l;

        if (prlimit(0, resource, NULL, &l) < 0)
                return -errno;
        l.rlim_max = MIN2(l.rlim_max, max);
        l.rlim_cur = MIN2(l.rlim_cur, l.rlim_max);
        if (prlimit(0, resource, &l, NULL) < 0 || prlimit(0, resource, NULL, &l) < 0)
                return -errno;
        return l.rlim_max <= max ? 0 : -EPERM;
}

int exec_confine_limits(const RunSpec *spec)
{
        int r = lower_limit(RLIMIT_SIGPENDING, SIGPENDING_MAX);

        for (uint32_t i = 0; r >= 0 && i < spec->n_limits; i++)
                r = lower_limit((int) spec->limits[i].resource, spec->limits[i].max);
        return r;
}

int exec_confine_seccomp(const RunSpec *spec)
{
        struct sock_fprog program = { .len = (unsigned short) spec->n_filter, .filter = spec->filter };

        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}
