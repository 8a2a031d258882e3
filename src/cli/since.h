/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdint.h>

/* A moment, in µs since the epoch, as people give it; now is the present one:
 *   90s, 5min, "1h 30min" (ago; with or without "-" in front or " ago" behind)
 *   now, today, yesterday, 14:30, 14:30:15 (local time)
 *   2025-01-31, "2025-01-31 14:30", "2025-01-31 14:30:15", with T for the blank too
 *   @1735689600 (seconds since the epoch)
 * 0, or -EINVAL. */
int since_parse(const char *s, uint64_t now, uint64_t *ret);
