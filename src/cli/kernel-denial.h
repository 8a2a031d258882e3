/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the kernel itself puts on record of a system-call filter, ours or PID 1's: an audit record of type SECCOMP for each
 * process that a filter has ended. It names the process and its uid, and of the text only what a process calls itself is the
 * process's choice; it cannot hold a space, a quote or a control byte without being written as hexadecimal digits. Pure. */

#define KERNEL_DENIAL_EVENT "kernel-denied"
#define KERNEL_DENIAL_TYPE "1326" /* AUDIT_SECCOMP */

typedef struct KernelDenial {
        uint64_t usec, serial; /* when, µs since the epoch, in whole milliseconds; with the serial it is one event's name */
        uint32_t uid, pid;
        uint32_t arch, number; /* of the system call: AUDIT_ARCH_…, in that architecture's numbers */
        uint32_t action;       /* SECCOMP_RET_…, without its data */
        uint32_t signal;       /* 0: none */
        char comm[64];         /* any byte but NUL */
} KernelDenial;

/* The words behind "audit(SECONDS.MILLISECONDS:SERIAL):", which fill all but usec and serial. false: not such a record, or one
 * of a call that was let through. ret is filled completely or untouched. */
bool kernel_denial_parse(const char *text, KernelDenial *ret);
/* A line of the kernel's log, where nobody listens to the audit subsystem: "audit: type=1326 audit(…): …". */
bool kernel_denial_parse_line(const char *line, KernelDenial *ret);

/* Whether a run did that: verified is the record of its being verified, in this boot, start and end are when that and its end
 * were written (UINT64_MAX: it has no end on record). Before the first its uid was not yet, after the second no more its own. */
bool kernel_denial_is_within(const KernelDenial *d, const json_t *verified, const char *boot, uint64_t start, uint64_t end);

/* As a record of the run whose record verified is, in the form of journal_log_next(), with numbers for names. NULL when out of
 * memory. */
json_t *kernel_denial_record(const KernelDenial *d, const json_t *verified);
/* Puts the call's name, its architecture's and MESSAGE into such a record; others stay as they are. 0 or -ENOMEM. */
int kernel_denial_describe(json_t *record);

/* What became of the process: "killed". */
const char *kernel_denial_outcome(const json_t *record);
/* Of a described record: whether the call was one of another architecture than this machine's programs have. */
bool kernel_denial_is_foreign(const json_t *record);
