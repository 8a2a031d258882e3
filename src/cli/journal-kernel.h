/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>
#include <systemd/sd-journal.h>

/* The kernel's records of what a filter has ended (kernel-denial.h), joined to runs. They name no run and no unit, but a uid,
 * which a run has for itself from when it was verified to its end: of the same boot, in that time, with that uid, it was that run.
 *
 * The journal has them by way of journald's own audit socket (_TRANSPORT=audit) or, where nobody listens to the audit
 * subsystem, in the kernel's log; on some machines both. Neither can be written by anybody but the kernel: journald sets
 * _TRANSPORT and takes from its audit socket what the kernel sent, and what is written to /dev/kmsg never has the kernel's own
 * facility. A scope runs as its caller, whose other processes have the same uid: nothing is joined to it. */

typedef struct KernelJoin KernelJoin;

KernelJoin *kernel_join_free(KernelJoin *k);

/* run: of that one alone, or NULL. caller: of runs of that uid's alone, or CALLER_ANY. -EACCES: as journal_log_open(). */
int kernel_join_new(const char *run, uid_t caller, KernelJoin **ret);
/* Lets the kernel's records match, besides what does already. */
int kernel_join_add_matches(sd_journal *j);
/* Whether the entry at which j stands is the kernel's, of whatever it speaks. */
bool kernel_join_is_kernels(sd_journal *j);
/* j stands at such an entry: 1 and the record, where it is of such a run. 0: it is not. */
int kernel_join_take(KernelJoin *k, sd_journal *j, json_t **ret);
