/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
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

/* ---- the filter */

/* From linux/seccomp.h, which may be older than the kernel: whoever waits for the listener's answer is disturbed by nothing
 * but its death, so that a call is never asked about twice. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

static int send_listener(int channel, int listener)
{
        union {
                char space[CMSG_SPACE(sizeof(int))];
                struct cmsghdr align;
        } control = {};
        char text[] = EXEC_LISTENER;
        struct iovec v = { .iov_base = text, .iov_len = strlen(text) };
        struct msghdr m = { .msg_iov = &v,
                .msg_iovlen = 1,
                .msg_control = &control,
                .msg_controllen = sizeof(control.space) };
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        ssize_t n;

        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &listener, sizeof(int));
        do
                n = sendmsg(channel, &m, MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : 0;
}

/* 0: the witness has answered. Whatever else answers, the call is not on record. */
static int canary(long number, uint64_t first, uint64_t second)
{
        long r = syscall(number, first, second, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX);

        return r < 0 && errno == EXEC_CANARY_ERROR ? 0 : r < 0 ? -errno : -EPROTO;
}

/* See wire/runspec.h. Without a listener (it was dropped on its way) the kernel answers ENOSYS. */
static int try_recorded(const RunSpec *spec)
{
        for (uint32_t i = 0; i < spec->n_recorded; i++) {
                int r = canary(spec->recorded[i], UINT64_MAX, UINT64_MAX);

                if (r < 0)
                        return r;
        }
        return canary(SYS_bpf, EXEC_CANARY_END, spec->n_recorded);
}

int exec_confine_seccomp(const RunSpec *spec, int channel)
{
        struct sock_fprog program = { .len = (unsigned short) spec->n_filter, .filter = spec->filter };
        unsigned long flags = spec->n_recorded > 0 ? SECCOMP_FILTER_FLAG_NEW_LISTENER |
                                                                     SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
                                                   : 0;
        int listener = (int) syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program), r;

        if (listener < 0)
                return -errno;
        if (spec->n_recorded == 0)
                return 0;
        r = send_listener(channel, listener);
        /* From here on nobody in the run can answer for itself. */
        if (close(listener) < 0)
                return -errno;
        return r < 0 ? r : try_recorded(spec);
}
