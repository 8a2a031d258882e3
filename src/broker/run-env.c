/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>

#include "base/strv.h"
#include "broker/run-env.h"

#define N_MINIMUM 9u

typedef struct Entry {
        char *text;
        size_t position;
} Entry;

/* Collected first and sorted then: a caller may send tens of thousands. */
typedef struct EntryList {
        Entry *entries;
        size_t n;
} EntryList;

static void entry_list_done(EntryList *l)
{
        for (size_t i = 0; i < l->n; i++)
                free(l->entries[i].text);
        free(l->entries);
}

static int add(EntryList *l, char *text)
{
        if (!text)
                return -ENOMEM;
        l->entries[l->n] = (Entry){ text, l->n };
        l->n++;
        return 0;
}

static int add_minimum(EntryList *l, const RunHome *home, const char *term)
{
        const struct {
                const char *name, *value;
        } rows[N_MINIMUM] = {
                { "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" },
                { "HOME", home->home },
                { "USER", home->user },
                { "LOGNAME", home->user },
                { "SHELL", "/bin/sh" },
                { "LANG", "C.UTF-8" },
                { "TMPDIR", home->tmp },
                { "TERM", term },
                { "CREDENTIALS_DIRECTORY", home->credentials },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                char *text = NULL;

                if (!rows[i].value)
                        continue;
                if (asprintf(&text, "%s=%s", rows[i].name, rows[i].value) < 0)
                        return -ENOMEM;
                add(l, text);
        }
        return 0;
}

static int add_given(EntryList *l, const Policy *p, char *const *given, Error **reterr)
{
        STRV_FOREACH(i, given) {
                int r;

                if (!strchr(*i, '='))
                        return error_set(reterr, -EINVAL, "environment: not of the form NAME=VALUE");
                r = policy_check_env(p, *i, reterr);
                if (r < 0)
                        return r;
                if (add(l, strdup(*i)) < 0)
                        return error_set(reterr, -ENOMEM, "out of memory");
        }
        return 0;
}

/* By name; of one name the last first. */
static int compare(const void *a, const void *b)
{
        const Entry *x = a, *y = b;
        size_t nx = strcspn(x->text, "="), ny = strcspn(y->text, "=");
        int r = memcmp(x->text, y->text, MIN2(nx, ny));

        if (r != 0)
                return r;
        if (nx != ny)
                return nx < ny ? -1 : 1;
        return x->position > y->position ? -1 : 1;
}

static int entry_list_take(EntryList *l, char ***ret)
{
        char **env = calloc(l->n + 1, sizeof(char *));
        size_t n = 0, name_length = 0;

        if (!env)
                return -ENOMEM;
        if (l->n > 0)
                qsort(l->entries, l->n, sizeof(Entry), compare);
        for (size_t i = 0; i < l->n; i++) {
                const char *text = l->entries[i].text;

                if (n > 0 && strncmp(env[n - 1], text, name_length) == 0)
                        continue;
                name_length = strcspn(text, "=") + 1;
                env[n++] = TAKE_PTR(l->entries[i].text);
        }
        *ret = env;
        return 0;
}

int run_env_compose(const Policy *p, const RunHome *home, char *const *given, const char *term, char ***ret,
                Error **reterr)
{
        char *const *set = policy_list(p, ENVIRONMENT_SET);
        _cleanup_(entry_list_done) EntryList l = {
                .entries = calloc(N_MINIMUM + strv_length(set) + strv_length(given), sizeof(Entry)),
        };
        int r = l.entries ? add_minimum(&l, home, term) : -ENOMEM;

        STRV_FOREACH(i, set)
                if (r >= 0)
                        r = add(&l, strdup(*i));
        if (r < 0)
                return error_set(reterr, r, "out of memory");
        r = add_given(&l, p, given, reterr);
        if (r < 0)
                return r;
        r = entry_list_take(&l, ret);
        return r < 0 ? error_set(reterr, r, "out of memory") : 0;
}
