/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <jansson.h>

/* What a detached run has printed, a record after the other: to the stream of ours that it was on, byte for byte; where that
 * is a terminal, with whatever a terminal would obey shown instead. */
int run_output_print(const json_t *record);
