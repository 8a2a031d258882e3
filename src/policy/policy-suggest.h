/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stddef.h>

/* The candidate that a person who typed word most likely meant, or NULL where none is near enough. Only for
 * messages. */
const char *policy_suggest(const char *word, const char *const *candidates, size_t n);
