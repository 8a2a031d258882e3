/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/macro.h"
#include "base/seccomp-filter.h"
#include "output/output.h"

/* Nothing that gives it a descriptor or memory. */
static const struct sock_filter program[] = {
        OUR_CALLS_ONLY,
        CALL(__NR_read),
        CALL(__NR_sendto),
#ifdef __NR_poll
        CALL(__NR_poll),
#endif
        CALL(__NR_ppoll),
        CALL(__NR_clock_gettime), /* where the vDSO has no clock that works */
        CALL(__NR_getsockopt),
        CALL(__NR_close),
        CALL(__NR_restart_syscall),
        CALL(__NR_rt_sigreturn),
        CALL(__NR_exit_group),
        KILL,
};

int output_confine(void)
{
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return -errno;
        return seccomp_filter_load(program, ELEMENTSOF(program));
}
