/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/error.h"
#include "wire/record.h"

/* The file of --result: whole or not there. A regular file (or a new one) is replaced by rename; anything
 * else, such as /dev/stderr or a fifo, is written to. */

/* Refuses early what could not be written at the end. */
int result_file_check(const char *path, Error **reterr);
int result_file_write(const char *path, const RunResult *result, Error **reterr);
