/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/strv.h"

/* Broker → shim, once, after the attestation was found good. Travels as a sealed memfd (argv and environment
 * may be megabytes) whose descriptor comes in ONE SOCK_SEQPACKET message together with the others:
 *
 *   payload     "agentbox-runspec 2" (no NUL)
 *   SCM_RIGHTS  memfd, stdin, stdout, stderr, executed, and copy-in where the RunSpec says so
 *
 * "executed" is the write end of a pipe that nobody else holds: the shim keeps it open (CLOEXEC) and writes
 * nothing to it, so that its closing tells the broker of the execve. (The socket's own end of file tells
 * nothing: PID 1 keeps a copy of the shim's end for as long as the unit lives.) Where anything fails, the
 * shim sends one ExecFailure message over the socket and exits.
 *
 * "copy-in" is the read end of a pipe, whose other end the caller has: a stream of files (wire/tree.h) for the
 * workspace. When they are written, the shim says so with one ExecCopied message. */

/* Where refused calls are put on record (RunSpec: n_recorded > 0), the filter is loaded with a listener, which the shim sends
 * over the socket with one EXEC_LISTENER message, and closes. Then it makes each of these calls with all bits of its
 * arguments set, which nothing would come of. Whoever got the listener answers each with EXEC_CANARY_ERROR, which no filter
 * and no kernel would; so it is known that PID 1's filters let them through to ours, that ours is in force, and that
 * somebody listens. A last one, EXEC_CANARY_END with the number of those before it, says that from here on it is the run's.
 */

/* The shim itself, in the host's /usr, which is the run's. */
#define SHIM_PATH PKGLIBEXECDIR "/agentbox-exec"

#define RUNSPEC_MESSAGE "agentbox-runspec 2"
#define RUNSPEC_MAGIC 0x34534241u /* "ABS4" */
#define RUNSPEC_SIZE_MAX (8u << 20)
#define RUNSPEC_ARGS_MAX 65536u
#define RUNSPEC_FILTER_MAX 4096u /* BPF_MAXINSNS */
#define RUNSPEC_PATHS_MAX 64u
#define RUNSPEC_LIMITS_MAX 16u /* RLIM_NLIMITS */
#define RUNSPEC_RECORDED_MAX 512u
#define RUNSPEC_FDS 5u /* memfd, stdin, stdout, stderr, executed */
#define RUNSPEC_FDS_MAX (RUNSPEC_FDS + 1) /* copy-in */

typedef struct RunLimit {
        uint32_t resource; /* RLIMIT_* */
        uint64_t max;      /* soft and hard; where the hard one is lower already, it stays */
} RunLimit;

typedef struct RunSpec {
        char **argv;                /* at least one; any bytes but NUL */
        char **env;                 /* NAME=VALUE */
        char *cwd;                  /* absolute, inside the root; must resolve beneath it */
        bool tty;                   /* stdin is the slave of a pty: becomes the controlling terminal */
        bool copy_in;               /* one descriptor more came, and files in it */
        struct sock_filter *filter; /* at least one instruction: a run without a filter does not exist */
        uint32_t n_filter;
        uint64_t landlock_fs;  /* LANDLOCK_ACCESS_FS_* wanted handled, as far as landlock_abi knows them; 0:
                                  no layer for files */
        char **landlock_write; /* paths that stay writable: absolute, without "//", "." and ".."; no symbolic
                                  link in them */
        bool landlock_exec_written; /* false: nothing beneath landlock_write may be executed */
        bool landlock_scope;        /* abstract sockets and signals stay inside, where the kernel has it */
        uint32_t landlock_abi; /* what the shim attested (0 where that was an error); it must find exactly
                                  this again or fail */
        RunLimit *limits;      /* what PID 1 has not set: a scope has no resource limits */
        uint32_t n_limits;
        uint32_t *recorded;    /* numbers of calls that the filter leaves to its listener, whatever their arguments */
        uint32_t n_recorded;   /* 0: the filter has none */
} RunSpec;

void runspec_done(RunSpec *s);
/* -EINVAL: breaks a rule above; -E2BIG: over a bound. out then holds nothing of use. */
int runspec_encode(const RunSpec *s, Buf *out);
/* -EBADMSG: not well-formed or over a bound. ret is filled completely or untouched. */
int runspec_decode(const void *p, size_t n, RunSpec *ret);

/* Broker → shim of a scope, before everything else: it is in its cgroup now and may attest. (In a service it
 * is there from its first instruction.) u32 magic, then the workspace, an absolute path. */
#define SCOPE_START_MAGIC 0x31434241u /* "ABC1" */
#define SCOPE_START_SIZE_MAX 4096u
int scope_start_encode(const char *workspace, Buf *out);
/* -EBADMSG; ret_workspace is newly allocated. */
int scope_start_decode(const void *p, size_t n, char **ret_workspace);

/* What the shim exits with where the workload never ran. The ExecFailure message says why; the status alone
 * says nothing, for a workload may exit with the same. */
#define EXEC_EXIT_ABANDONED 70 /* the broker closed its end before it sent a RunSpec; no message */
#define EXEC_EXIT_FAILED 125   /* any stage but execve */
#define EXEC_EXIT_NOT_RUNNABLE 126
#define EXEC_EXIT_NOT_FOUND 127

typedef enum ExecStage {
        EXEC_STAGE_ATTEST,  /* comes instead of the attestation: the shim could not find out what it should
                               report */
        EXEC_STAGE_RECEIVE, /* the RunSpec itself */
        EXEC_STAGE_STDIO,
        EXEC_STAGE_TTY,
        EXEC_STAGE_LIMITS,
        EXEC_STAGE_CAPABILITIES,
        EXEC_STAGE_LANDLOCK,
        EXEC_STAGE_SECCOMP,
        EXEC_STAGE_UNPACK, /* error EBADMSG: the stream was cut or is none; EREMOTEIO: its sender gave up */
        EXEC_STAGE_CWD,
        EXEC_STAGE_EXECVE, /* error ENOENT: 127, anything else: 126 */
        _EXEC_STAGE_MAX,
} ExecStage;

#define EXEC_FAILURE_MAGIC 0x31464241u /* "ABF1" */
#define EXEC_FAILURE_SIZE 12u

typedef struct ExecFailure {
        ExecStage stage;
        int error; /* positive errno */
} ExecFailure;

int exec_failure_encode(const ExecFailure *f, Buf *out);
int exec_failure_decode(const void *p, size_t n, ExecFailure *ret);
const char *exec_stage_to_string(ExecStage stage); /* "receive", ...; never NULL */

#define EXEC_LISTENER "agentbox-exec-listener 1" /* payload; one descriptor comes with it */
#define EXEC_CANARY_ERROR EHWPOISON
/* bpf(EXEC_CANARY_END, NUMBER): a command that no kernel has. */
#define EXEC_CANARY_END UINT64_C(0x61676e74626f7831)

/* Of every run: it is confined, and only execve is left. The files are in the workspace: so many, of so many bytes; and so many
 * the caller says it left out. */
#define EXEC_COPIED_MAGIC 0x31494241u /* "ABI1" */
#define EXEC_COPIED_SIZE 28u
typedef struct ExecCopied {
        uint64_t files, bytes, left;
} ExecCopied;
int exec_copied_encode(const ExecCopied *c, Buf *out);
int exec_copied_decode(const void *p, size_t n, ExecCopied *ret); /* -EBADMSG */

/* Where the shim is the first process of a PID namespace (PrivatePIDs=), it stays, as that one's init, and a child of it
 * becomes the workload. No init can die of a signal that comes from inside, as the workload may have: so how that ended, it
 * says with this last message. Its own exit status is the nearest that there is. */
#define EXEC_ENDED_MAGIC 0x31454241u /* "ABE1" */
#define EXEC_ENDED_SIZE 12u
typedef struct ExecEnded {
        int code;   /* CLD_EXITED, CLD_KILLED, CLD_DUMPED */
        int status; /* of exit(), or the signal */
} ExecEnded;
int exec_ended_encode(const ExecEnded *e, Buf *out); /* -EINVAL */
int exec_ended_decode(const void *p, size_t n, ExecEnded *ret); /* -EBADMSG */
int exec_ended_exit_status(const ExecEnded *e); /* as a shell has it: 128 and the signal */
int exec_failure_exit_status(const ExecFailure *f);
