/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

/* Broker ↔ agentbox-output, which keeps the output of one detached run: a SOCK_SEQPACKET connection for each, made by PID 1
 * (agentbox-output.socket). The broker sends one message, an OutputSpec with the read ends of two pipes beside it; the
 * answers are a byte each. What the workload writes goes from the pipes to the journal, past the broker. */

#define OUTPUT_SOCKET "/run/agentbox-output"
#define OUTPUT_UNIT_PREFIX "agentbox-output@"
/* The journal's namespace that it is in, so that no flood of it pushes an audit record out. */
#define OUTPUT_NAMESPACE "agentbox"
#define OUTPUT_PATIENCE_MSEC 10000 /* how long the journal may take a record */

enum {
        OUTPUT_FD_STDOUT,
        OUTPUT_FD_STDERR,
        _OUTPUT_FD_MAX
};

#define OUTPUT_SPEC_MAGIC 0x315a4241u /* "ABZ1" */
#define OUTPUT_SPEC_SIZE_MAX 1024u

typedef struct OutputSpec {
        char *run, *policy; /* as in the fields of the records: printable, without a line break */
        uid_t caller_uid;
        uint64_t max_bytes; /* of both streams together */
} OutputSpec;

void output_spec_done(OutputSpec *s);
/* -EINVAL: a field is empty, or no text of one line; -E2BIG. */
int output_spec_encode(const OutputSpec *s, Buf *out);
/* -EBADMSG: not well-formed or over a bound. ret is filled completely or untouched. */
int output_spec_decode(const void *p, size_t n, OutputSpec *ret);

/* What agentbox-output says. The connection's end without OUTPUT_DONE: some of the output may be on no record. */
typedef enum OutputWord {
        OUTPUT_READY = 'R', /* confined, and connected to the journal */
        OUTPUT_LIMIT = 'L', /* there was more than max_bytes, which nobody reads */
        OUTPUT_DONE = 'D',  /* both streams have ended, and the journal has all that was read of them */
} OutputWord;
