/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Interprets a seccomp program as the kernel does. Every instruction that runs is marked in covered (n of
 * them, may be NULL). Returns the SECCOMP_RET_* value; SIMULATE_INVALID for what the kernel would not have
 * loaded. */
#define SIMULATE_INVALID UINT32_MAX
uint32_t simulate(const struct sock_filter *code, size_t n, const struct seccomp_data *data, bool *covered);

/* 0: let through, positive: errno, VERDICT_KILL: the process dies, VERDICT_NO_OP: success, and the kernel
 * never sees the call, VERDICT_INVALID: anything else. */
enum { VERDICT_KILL = -1, VERDICT_INVALID = -2, VERDICT_NO_OP = -3 };
int simulate_verdict(
                const struct sock_filter *code, size_t n, const struct seccomp_data *data, bool *covered);
