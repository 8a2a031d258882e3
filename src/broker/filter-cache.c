/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>

#include "broker/filter-cache.h"
#include "policy/filter-compile.h"

static void entry_done(FilterCacheEntry *e)
{
        free(e->key);
        free(e->filter);
        *e = (FilterCacheEntry){};
}

void filter_cache_done(FilterCache *c)
{
        for (size_t i = 0; i < FILTER_CACHE_MAX; i++)
                entry_done(c->entries + i);
}

FilterSpec filter_cache_spec(const Policy *p, bool unix_sockets)
{
        return (FilterSpec){
                .profile = (FilterProfile) policy_u64(p, SYSCALLS_PROFILE),
                .unix_sockets = unix_sockets,
                .inet_sockets = true,
                .kill_on_denied = policy_u64(p, SYSCALLS_ON_DENIED) == ON_DENIED_KILL,
                .record_denied = policy_records_denied_calls(p),
                .allow = policy_list(p, SYSCALLS_ALLOW),
                .deny = policy_list(p, SYSCALLS_DENY),
        };
}

static int compile(const Policy *p, bool unix_sockets, FilterCacheEntry *e, Error **reterr)
{
        FilterSpec spec = filter_cache_spec(p, unix_sockets);

        return filter_compile(&spec, &e->filter, &e->n, reterr);
}

int filter_cache_get(FilterCache *c, const Policy *p, const char *digest, bool unix_sockets,
                const struct sock_filter **ret, size_t *ret_n, Error **reterr)
{
        _cleanup_free_ char *key = NULL;
        FilterCacheEntry fresh = {}, *e;
        int r;

        if (asprintf(&key, "%s %s", digest, unix_sockets ? "unix" : "no-unix") < 0)
                return error_set(reterr, -ENOMEM, "out of memory");
        for (size_t i = 0; i < FILTER_CACHE_MAX; i++) {
                e = c->entries + i;
                if (e->key && streq(e->key, key)) {
                        *ret = e->filter;
                        *ret_n = e->n;
                        return 0;
                }
        }
        r = compile(p, unix_sockets, &fresh, reterr);
        if (r < 0)
                return r;
        fresh.key = TAKE_PTR(key);
        e = c->entries + c->n_added++ % FILTER_CACHE_MAX;
        entry_done(e);
        *e = fresh;
        *ret = e->filter;
        *ret_n = e->n;
        return 0;
}
