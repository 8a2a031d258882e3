/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "policy/filter-compile.h"
#include "policy/policy.h"

/* Compiled filters by the policy's digest: compiling takes longer than everything else that the broker does
 * for a run. */

#define FILTER_CACHE_MAX 32u

typedef struct FilterCacheEntry {
        char *key;
        struct sock_filter *filter;
        size_t n;
} FilterCacheEntry;

typedef struct FilterCache {
        FilterCacheEntry entries[FILTER_CACHE_MAX];
        size_t n_added; /* the oldest entry is replaced */
} FilterCache;

/* What the policy asks the filter for; its lists are the policy's. */
FilterSpec filter_cache_spec(const Policy *p, bool unix_sockets);
/* ret belongs to the cache and is good until the next call. It serves runs of any uid: see filter_set_uid().
 */
int filter_cache_get(FilterCache *c, const Policy *p, const char *digest, bool unix_sockets,
                const struct sock_filter **ret, size_t *ret_n, Error **reterr);
void filter_cache_done(FilterCache *c);
