/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "broker/exit-status.h"

/* As <linux/pidfd.h> of Linux 6.15 has it; headers are older than kernels. */
typedef struct PidfdInfo {
        uint64_t mask, cgroup_id;
        uint32_t pid, tgid, ppid, ids[8];
        int32_t exit_code; /* as waitpid(2) gives it */
} PidfdInfo;
_Static_assert(sizeof(PidfdInfo) == 64, "struct pidfd_info, first version");

#define INFO_EXIT (UINT64_C(1) << 3) /* PIDFD_INFO_EXIT */
#define GET_INFO _IOWR(0xff, 11, PidfdInfo)

int exit_status_of(int pidfd, int *ret_code, int *ret_status)
{
        PidfdInfo info = { .mask = INFO_EXIT };
        int status;

        if (ioctl(pidfd, GET_INFO, &info) < 0 || !(info.mask & INFO_EXIT))
                return -ESRCH;
        status = info.exit_code;
        if (WIFEXITED(status)) {
                *ret_code = CLD_EXITED;
                *ret_status = WEXITSTATUS(status);
        } else {
                *ret_code = WCOREDUMP(status) ? CLD_DUMPED : CLD_KILLED;
                *ret_status = WTERMSIG(status);
        }
        return 0;
}
