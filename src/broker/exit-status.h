/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* How a process ended that somebody else has waited for, from a descriptor of it that was opened while it lived: for an end that PID
 * 1 had nobody to tell of. code: CLD_EXITED, CLD_KILLED or CLD_DUMPED, as waitid(2) has it. -ESRCH: it lives, or the kernel (before
 * 6.15) does not keep it. */
int exit_status_of(int pidfd, int *ret_code, int *ret_status);
