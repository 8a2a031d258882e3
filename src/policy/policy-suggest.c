/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/macro.h"
#include "policy/policy-suggest.h"

#define WORD_MAX 63

/* How many letters have to be put in, left out, exchanged or swapped with their neighbour, whatever their
 * case. */
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
        size_t rows[3][WORD_MAX + 1];
        size_t *before = rows[0], *last = rows[1], *now = rows[2];

        for (size_t j = 0; j <= m; j++)
                last[j] = j;
        for (size_t i = 1; i <= n; i++) {
                size_t *oldest = before;

                now[0] = i;
                for (size_t j = 1; j <= m; j++) {
                        int x = tolower((unsigned char) a[i - 1]), y = tolower((unsigned char) b[j - 1]);
                        size_t best = last[j - 1] + (x != y);

                        best = MIN2(best, MIN2(last[j], now[j - 1]) + 1);
                        if (i > 1 && j > 1 && x == tolower((unsigned char) b[j - 2]) &&
                                        y == tolower((unsigned char) a[i - 2]))
                                best = MIN2(best, before[j - 2] + 1);
                        now[j] = best;
                }
                before = last;
                last = now;
                now = oldest;
        }
        return last[m];
}

const char *policy_suggest(const char *word, const char *const *candidates, size_t n)
{
        size_t length = strlen(word), best_distance = SIZE_MAX;
        const char *best = NULL;

        if (length == 0 || length > WORD_MAX)
                return NULL;
        for (size_t i = 0; i < n; i++) {
                size_t m = strlen(candidates[i]), d;

                if (m > WORD_MAX)
                        continue;
                d = distance(word, length, candidates[i], m);
                /* A third of the letters wrong is the most that still is a slip; of short words, one. */
                if (d <= MAX2((size_t) 1, MIN2(length, m) / 3) && d < MAX2(length, m) && d < best_distance) {
                        best_distance = d;
                        best = candidates[i];
                }
        }
        return best;
}
