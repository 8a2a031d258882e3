/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <linux/audit.h>

/* The number of a call here by name, from a table that the build makes of the kernel's own headers and not
 * of libseccomp. -1: there is no such call on this architecture, or the headers are older than it. */
long syscall_number(const char *call);
/* NULL: none in those headers. */
const char *syscall_name(long number);

#ifdef __x86_64__
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#endif
