/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "wire/copyout.h"

/* agentbox-copyout as a child of this process: what it is given, and what it says. */

/* spec: encoded here. stream, workspace, view (where the spec has one): borrowed. Nothing blocks. */
int copy_reader_start(const char *program, const CopyoutSpec *spec, int stream, int workspace, int view,
                pid_t *ret_pid, int *ret_report_fd, Error **reterr);
/* It has said something, or is gone: ends it for good, and what it said. -EBADMSG: it died without a word
 * that counts. Closes report_fd. uid: whom it became. */
int copy_reader_finish(pid_t pid, uid_t uid, int report_fd, CopyoutReport *ret);
/* In words: why nothing whole was sent; newly allocated. NULL for COPYOUT_SENT. */
char *copy_reader_why(const CopyoutReport *r, uint64_t max_bytes, uint64_t max_files);
