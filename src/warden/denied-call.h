/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <linux/seccomp.h>
#include <stddef.h>

/* PURE. What a refused system call was, in words: from the registers that the kernel tells of alone. What a pointer leads to
 * is the sandbox's, which could change it while it is read: it stays a number. */

#define DENIED_CALL_NAME_MAX 32u
#define DENIED_CALL_ARGS_MAX 256u

/* "ptrace"; "syscall_999" where it is not in the table. */
void denied_call_name(int number, char ret[static DENIED_CALL_NAME_MAX]);
/* "PTRACE_ATTACH, 1, 0x0, 0x0". Flags by name, the rest of them as a number. Printable ASCII. */
void denied_call_args(const struct seccomp_data *d, char ret[static DENIED_CALL_ARGS_MAX]);
