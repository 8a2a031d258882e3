/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <jansson.h>

#include "base/buf.h"

/* What "agentbox doctor" has found, and how it is told. Pure. */

#define DOCTOR_OK "ok"
#define DOCTOR_WARNING "warning"
#define DOCTOR_FAILED "failed"

/* A line: object with check, status, message, advice, and part: "host", "trial" or "promise". */
int doctor_add(json_t *lines, const char *part, const char *check, const char *status, const char *message, const char *advice);

/* ---- promises, as client_list_promises() gives them; what the trial runs show is noted in them */

int doctor_verified(json_t *promises, char *const *names);
/* "NAME: what was expected, what is" each. */
int doctor_broken(json_t *promises, char *const *broken, const char *policy);
/* The trial run did not come as far as being verified: what it alone would have shown is not kept either. */
int doctor_not_tried(json_t *promises, const char *trial);
/* A line for each that was tried: failed where one run showed it broken, ok where all that did so showed that it holds. */
int doctor_add_promises(json_t *lines, const json_t *promises);

/* 1 where a line says failed, or no promise could be tried. */
int doctor_status(const json_t *lines);
/* For people: parts with headings, lines no longer than width (0: as long as they are), what to do below what is wrong, and
 * the sum of it. */
int doctor_print(const json_t *lines, size_t width, Buf *out);
