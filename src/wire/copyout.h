/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/strv.h"
#include "wire/tree.h"

/* Broker → agentbox-copyout, as a sealed memfd; and its answer, one message on a pipe. What it read goes to
 * the caller by another pipe (wire/tree.h), past the broker. */

#define COPYOUT_PATH PKGLIBEXECDIR "/agentbox-copyout"

/* Descriptors that it is started with. */
enum {
        COPYOUT_FD_SPEC,      /* sealed memfd: CopyoutSpec */
        COPYOUT_FD_STREAM,    /* write end of the caller's pipe */
        COPYOUT_FD_REPORT,    /* write end of a pipe to the broker */
        COPYOUT_FD_WORKSPACE, /* the directory; with a view: its changes, which are what is copied */
        COPYOUT_FD_VIEW,      /* the top of the view; without one, the workspace once more */
        _COPYOUT_FD_MAX
};

#define COPYOUT_SPEC_MAGIC 0x31584241u /* "ABX1" */
#define COPYOUT_SPEC_SIZE_MAX (512u * 1024)
#define COPYOUT_PATHS_MAX 64u
#define COPYOUT_STALL_MSEC 60000 /* how long the caller may take nothing */

typedef struct CopyoutSpec {
        uid_t uid; /* whom it becomes: the run's own, who may read what it wrote; never root */
        gid_t gid;
        uint64_t max_entries, max_bytes;
        bool has_view;
        char **paths; /* 1 … COPYOUT_PATHS_MAX, beneath the workspace (tree_path_is_valid()) */
} CopyoutSpec;

void copyout_spec_done(CopyoutSpec *s);
/* -EINVAL: breaks a rule above; -E2BIG: over a bound. */
int copyout_spec_encode(const CopyoutSpec *s, Buf *out);
/* -EBADMSG: not well-formed or over a bound. ret is filled completely or untouched. */
int copyout_spec_decode(const void *p, size_t n, CopyoutSpec *ret);

typedef enum CopyoutOutcome {
        COPYOUT_SENT,     /* all of it, and the stream's end */
        COPYOUT_FILES,    /* more than max_entries */
        COPYOUT_BYTES,    /* more than max_bytes */
        COPYOUT_DEPTH,    /* directories too deep in one another, or a path too long */
        COPYOUT_UNREAD,   /* the caller went away, or took nothing for too long */
        COPYOUT_BROKEN,   /* error: it could not be read */
        COPYOUT_CONFINED, /* error: it could not be confined, and read nothing */
        _COPYOUT_OUTCOME_MAX,
} CopyoutOutcome;

/* Numbers, from a process that has read what a hostile workload wrote: no more than that. */
#define COPYOUT_REPORT_MAGIC 0x31594241u /* "ABY1" */
#define COPYOUT_REPORT_SIZE 36u
typedef struct CopyoutReport {
        CopyoutOutcome outcome;
        int error; /* positive errno with BROKEN and CONFINED, else 0 */
        uint64_t entries, bytes, left;
} CopyoutReport;

int copyout_report_encode(const CopyoutReport *r, Buf *out);
int copyout_report_decode(const void *p, size_t n, CopyoutReport *ret); /* -EBADMSG */
