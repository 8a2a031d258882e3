/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/error.h"
#include "cli/run-request.h"
#include "wire/record.h"

/* One run, attended from the request to its end: signals and the terminal's size go in, bytes go both ways,
 * a broker that dies meanwhile is waited for.
 *
 * 0: the run has ended, and ret is its record. 1: it was detached, ret->run is its id. Negative: there was
 * no run, or nothing is known of it any more; ret->reason then says refused, killed (a signal came before it
 * had begun; ret->signal) or lost. ret_relay_error: what kept bytes from their way from or to the caller (a
 * full disk), or 0. */
int session_run(RunRequest *request, RunResult *ret, int *ret_relay_error, Error **reterr);
