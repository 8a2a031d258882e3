/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "base/macro.h"

/* An error that a person will read: what is wrong, where, and what to do. The return value of a function says that
 * something failed (negative errno); the Error says it in words. Every function that takes "Error **reterr" (always last)
 * sets it if and only if it returns a negative value; callers that do not care pass NULL. Freed with error_free(). */
typedef struct Error {
        int code;      /* negative errno */
        char *message; /* one or several lines, no newline at the end; never NULL */
} Error;

/* Sets *reterr (if wanted and not set yet) and returns r, so that "return error_set(...)" reads well. Out of memory
 * while formatting leaves a message of fixed text. r must be negative. */
int error_set(Error **reterr, int r, const char *format, ...) _printf_(3, 4);

/* Puts "prefix: " before the message of *reterr, if there is one. Returns r. */
int error_prefix(Error **reterr, int r, const char *format, ...) _printf_(3, 4);

Error *error_free(Error *e);
DEFINE_CLEANUP(Error *, error_free)
#define _cleanup_error_ _cleanup_(error_freep)

/* The message, or the text of errno r where no Error was set. Never NULL. */
const char *error_message(const Error *e, int r);
