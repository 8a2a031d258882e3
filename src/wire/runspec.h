/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/strv.h"

/* Broker → shim, once, after the attestation was found good. Travels as a sealed memfd (argv and environment may be megabytes)
 * whose descriptor comes in ONE SOCK_SEQPACKET message together with stdin, stdout, stderr, in this order:
 *   payload: "agentbox-runspec 1" (no NUL); SCM_RIGHTS: memfd, stdin, stdout, stderr.
 * The shim answers nothing when execve succeeds (its end closes: CLOEXEC), else one ExecFailure message and exits. */

#define RUNSPEC_MESSAGE "agentbox-runspec 1"
#define RUNSPEC_MAGIC 0x31534241u /* "ABS1" */
#define RUNSPEC_SIZE_MAX (8u * 1024 * 1024)
#define RUNSPEC_ARGS_MAX 65536u
#define RUNSPEC_FILTER_MAX 4096u /* BPF_MAXINSNS */

typedef struct RunSpec {
        char **argv;      /* at least one; any bytes but NUL */
        char **env;       /* NAME=VALUE */
        char *cwd;        /* absolute, inside the root; must resolve beneath it */
        bool tty;         /* stdin is the slave of a pty: becomes the controlling terminal */
        struct sock_filter *filter;
        uint32_t n_filter;
        uint64_t landlock_fs;     /* LANDLOCK_ACCESS_FS_* wanted handled; 0: no Landlock layer for files */
        char **landlock_write;    /* paths that stay writable */
        bool landlock_exec_written; /* false: nothing beneath landlock_write may be executed */
        bool landlock_scope;      /* abstract sockets and signals stay inside, where the kernel has it */
        uint32_t landlock_abi;    /* what the shim attested; it must load with exactly this or fail */
} RunSpec;

void runspec_done(RunSpec *s);
int runspec_encode(const RunSpec *s, Buf *out);
/* -EBADMSG: not well-formed or over a bound. ret is filled completely or untouched. */
int runspec_decode(const void *p, size_t n, RunSpec *ret);

typedef enum ExecStage {
        EXEC_STAGE_RECEIVE, /* the RunSpec itself */
        EXEC_STAGE_STDIO,
        EXEC_STAGE_TTY,
        EXEC_STAGE_CWD,
        EXEC_STAGE_CAPABILITIES,
        EXEC_STAGE_LANDLOCK,
        EXEC_STAGE_SECCOMP,
        EXEC_STAGE_EXECVE,  /* error ENOENT: 127, anything else: 126 */
        _EXEC_STAGE_MAX,
} ExecStage;

typedef struct ExecFailure {
        ExecStage stage;
        int error; /* positive errno */
} ExecFailure;

int exec_failure_encode(const ExecFailure *f, Buf *out);
int exec_failure_decode(const void *p, size_t n, ExecFailure *ret);
const char *exec_stage_to_string(ExecStage stage);
