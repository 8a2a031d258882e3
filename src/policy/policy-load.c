/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/strv.h"
#include "policy/allow-rule.h"
#include "policy/policy-checks.h"
#include "policy/policy-find.h"
#include "policy/policy-keys.h"
#include "policy/policy-parse.h"
#include "policy/policy-value.h"
#include "policy/policy.h"

/* Puts the layers of a policy on top of one
 * another (what it extends first, then its own file, then its drop-ins) and puts the rules of sets in their
 * place. */

#define EXTENDS_DEPTH_MAX 16

typedef struct Loading {
        const char *const *dirs;
        const char *allow_dir;
        bool keep_missing_sets;
        Policy *policy;
        PolicyProblems problems;
        char **chain; /* the names being loaded, the policy itself first */
} Loading;

static void loading_done(Loading *l)
{
        policy_free(l->policy);
        policy_problems_done(&l->problems);
        strv_free(l->chain);
}

static int load_named(Loading *l, const char *name, const char *path);

/* The last Extends= of a file, before anything of it is applied; NULL where there is none (or an empty one).
 */
static const PolicyLine *find_extends(const PolicyIni *ini)
{
        const PolicyLine *found = NULL;

        for (size_t i = 0; i < ini->n; i++) {
                const PolicyLine *x = ini->lines + i;

                if (x->key && x->section && policy_key_find(x->section, x->key) == POLICY_EXTENDS)
                        found = x;
        }
        return found && *found->value ? found : NULL;
}

static int load_base(Loading *l, const char *file, const PolicyLine *extends)
{
        _cleanup_free_ char *path = NULL, *cycle = NULL;
        const char *base = extends->value;
        unsigned line, column;
        size_t offset;
        int r;

        policy_line_position(extends, 0, &line, &column);
        if (policy_check_policy_name(base, &offset, NULL, NULL) < 0)
                return 0; /* noted when the file's own lines are applied */
        if (strv_contains(l->chain, base)) {
                cycle = strv_join(l->chain, " -> ");
                if (!cycle)
                        return -ENOMEM;
                policy_problem(&l->problems, file, line, column, "Extends= goes in a circle: %s -> %s",
                                cycle, base);
                return 0;
        }
        if (strv_length(l->chain) >= EXTENDS_DEPTH_MAX) {
                policy_problem(&l->problems, file, line, column, "more than %d policies extend one another",
                                EXTENDS_DEPTH_MAX);
                return 0;
        }
        r = policy_find(base, l->dirs, &path);
        if (r < 0)
                return r;
        if (!path) {
                policy_problem(&l->problems, file, line, column,
                                "Extends=%s: there is no policy of that name", base);
                return 0;
        }
        r = load_named(l, base, path);
        /* What speaks of the base alone is not handed down. */
        for (int k = 0; r >= 0 && k < _POLICY_KEY_MAX; k++)
                if (policy_keys[k].merge == POLICY_MERGE_OWN)
                        r = policy_value_reset(l->policy->values + k, k);
        return r;
}

static int apply_text(Loading *l, const char *file, const char *text, size_t size, PolicyFileKind kind)
{
        _cleanup_ini_ PolicyIni ini = {};
        const PolicyLine *extends;
        int r = policy_ini_read(file, text, size, &ini, &l->problems);

        extends = kind == POLICY_FILE_MAIN ? find_extends(&ini) : NULL;
        if (r >= 0 && extends)
                r = load_base(l, file, extends);
        return r < 0 ? r : policy_apply(l->policy, file, &ini, kind, &l->problems);
}

static int apply_file(Loading *l, const char *path, PolicyFileKind kind)
{
        _cleanup_free_ char *text = NULL;
        size_t size = 0;
        int r = read_file(path, POLICY_FILE_SIZE_MAX, &text, &size);

        if (r == -ENOMEM)
                return r;
        if (r == -EFBIG)
                policy_problem(&l->problems, path, 1, 1, "the file is larger than %uK",
                                POLICY_FILE_SIZE_MAX / 1024);
        else if (r < 0)
                policy_problem(&l->problems, path, 1, 1, "cannot be read: %s", strerror(-r));
        return r < 0 ? 0 : apply_text(l, path, text, size, kind);
}

static int apply_drop_ins(Loading *l, const char *name)
{
        _cleanup_strv_ char **names = NULL;
        _cleanup_free_ char *sub = NULL;

        if (asprintf(&sub, "%s.policy.d", name) < 0) {
                sub = NULL;
                return -ENOMEM;
        }
        for (const char *const *dir = l->dirs; *dir; dir++) {
                _cleanup_free_ char *path = NULL;
                int r = policy_path(&path, *dir, sub, "");

                if (r >= 0)
                        r = policy_dir_names(path, ".conf", &names);
                if (r == -ENOMEM)
                        return r;
                if (r < 0)
                        policy_problem(&l->problems, path, 1, 1, "cannot be read: %s", strerror(-r));
        }
        policy_sort_names(names);
        STRV_FOREACH(i, names)
                for (const char *const *dir = l->dirs; *dir; dir++) {
                        _cleanup_free_ char *path = NULL;
                        int r;

                        if (asprintf(&path, "%s/%s/%s", *dir, sub, *i) < 0) {
                                path = NULL;
                                return -ENOMEM;
                        }
                        if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
                                continue;
                        r = apply_file(l, path, POLICY_FILE_DROP_IN);
                        if (r < 0)
                                return r;
                        break;
                }
        return 0;
}

static int load_named(Loading *l, const char *name, const char *path)
{
        int r = strv_extend(&l->chain, name);

        if (r >= 0)
                r = apply_file(l, path, POLICY_FILE_MAIN);
        if (r >= 0)
                r = apply_drop_ins(l, name);
        if (r >= 0) {
                size_t n = strv_length(l->chain);

                free(l->chain[n - 1]);
                l->chain[n - 1] = NULL;
        }
        return r;
}

/* One rule a line, "#" and ";" start comments; a set cannot name another one. */
static int append_set_line(
                Loading *l, const char *file, unsigned number, char *line, size_t n, PolicyValue *v)
{
        size_t start = strspn(line, " \t"), offset = 0;
        _cleanup_free_ char *from = policy_origin_format(file, number, (unsigned) start + 1);
        _cleanup_error_ Error *e = NULL;
        int r;

        if (!from)
                return -ENOMEM;
        if (strlen(line) != n) {
                policy_problem(&l->problems, file, number, (unsigned) strlen(line) + 1, "NUL byte");
                return 0;
        }
        while (n > start && strchr(" \t", line[n - 1]))
                line[--n] = 0;
        line += start;
        if (!*line || strchr("#;", *line))
                return 0;
        if (*line == '@')
                r = error_set(&e, -EINVAL, "a set cannot contain another set");
        else
                r = policy_value_append(v, NETWORK_ALLOW, line, from, &offset, &e);
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                policy_problem(&l->problems, file, number, (unsigned) (start + offset) + 1, "%s",
                                e ? e->message : "");
        return 0;
}

static int append_set(Loading *l, const char *file, char *text, size_t size, PolicyValue *v)
{
        unsigned number = 1;

        for (char *line = text; line < text + size; number++) {
                char *end = memchr(line, '\n', (size_t) (text + size - line));
                size_t n = end ? (size_t) (end - line) : (size_t) (text + size - line);
                int r;

                line[n] = 0;
                r = append_set_line(l, file, number, line, n, v);
                if (r < 0)
                        return r;
                line += n + 1;
        }
        return 0;
}

/* Puts the rules of "@SET" (item, named at from) behind those of v. */
static int expand_set(Loading *l, const char *item, const char *from, PolicyValue *v)
{
        _cleanup_free_ char *path = NULL, *text = NULL, *file = NULL;
        unsigned line, column;
        size_t size = 0, offset;
        int r = policy_path(&path, l->allow_dir, item + 1, ".list");

        if (r < 0 || policy_origin_parse(from, &file, &line, &column) < 0)
                return -ENOMEM;
        r = read_file(path, POLICY_FILE_SIZE_MAX, &text, &size);
        if (r >= 0)
                return append_set(l, path, text, size, v);
        if (r == -ENOMEM)
                return r;
        if (r == -ENOENT && l->keep_missing_sets)
                return policy_value_append(v, NETWORK_ALLOW, item, from, &offset, NULL);
        if (r == -ENOENT)
                policy_problem(&l->problems, file, line, column,
                                "the set %s is missing: %s does not exist (one rule a line; \"agentbox "
                                "policy indexes\" prints what this machine's package tools use)",
                                item, path);
        else
                policy_problem(&l->problems, file, line, column, "the set %s: %s cannot be read: %s", item,
                                path, r == -EFBIG ? "it is too large" : strerror(-r));
        return 0;
}

static int expand_sets(Loading *l)
{
        PolicyValue *old = l->policy->values + NETWORK_ALLOW, new = {};
        size_t offset;
        int r = 0;

        for (size_t i = 0; r >= 0 && old->l && old->l[i]; i++)
                if (old->l[i][0] == '@')
                        r = expand_set(l, old->l[i], old->from[i], &new);
                else
                        r = policy_value_append(&new, NETWORK_ALLOW, old->l[i], old->from[i], &offset, NULL);
        if (r < 0) {
                policy_value_done(&new);
                return r;
        }
        new.source = old->source;
        old->source = (PolicySource){};
        policy_value_done(old);
        *old = new;
        return 0;
}

static int loading_start(Loading *l, const char *name, const char *const *dirs, const char *allow_dir)
{
        *l = (Loading){ .dirs = dirs ? dirs : policy_standard_dirs,
                .allow_dir = allow_dir ? allow_dir : policy_standard_allow_dir,
                .policy = policy_new(name) };
        return l->policy ? 0 : -ENOMEM;
}

/* After every layer is in: r is how that went. */
static int loading_finish(Loading *l, int r, Policy **ret, Error **reterr)
{
        if (r >= 0)
                r = expand_sets(l);
        if (r < 0)
                return error_set(reterr, r, "%s", strerror(-r));
        policy_check_consistent(l->policy, &l->problems);
        r = policy_problems_to_error(&l->problems, reterr);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(l->policy);
        return 0;
}

static int load(const char *name, const char *const *dirs, const char *allow_dir, bool display, Policy **ret,
                Error **reterr)
{
        _cleanup_(loading_done) Loading l = {};
        _cleanup_free_ char *path = NULL;
        size_t offset;
        int r = policy_check_policy_name(name, &offset, NULL, reterr);

        if (r < 0)
                return r;
        r = loading_start(&l, name, dirs, allow_dir);
        if (r >= 0)
                r = policy_find(name, l.dirs, &path);
        if (r < 0)
                return error_set(reterr, r, "out of memory");
        if (!path) {
                _cleanup_strv_ char **all = NULL;
                _cleanup_free_ char *joined = NULL;

                joined = policy_list_names(l.dirs, &all) >= 0 && all ? strv_join(all, ", ") : NULL;
                return error_set(reterr, -ENOENT, "there is no policy \"%s\"%s%s", name,
                                joined ? "; there are " : "", joined ? joined : "");
        }
        l.keep_missing_sets = display;
        return loading_finish(&l, load_named(&l, name, path), ret, reterr);
}

int policy_load(const char *name, const char *const *dirs, const char *allow_dir, Policy **ret,
                Error **reterr)
{
        return load(name, dirs, allow_dir, false, ret, reterr);
}

int policy_load_for_display(const char *name, const char *const *dirs, const char *allow_dir, Policy **ret,
                Error **reterr)
{
        return load(name, dirs, allow_dir, true, ret, reterr);
}

/* The name that a file of this path would have once installed. */
static char *name_of_file(const char *path)
{
        const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
        size_t n = strlen(base), m = strlen(".policy"), offset;
        _cleanup_free_ char *name = strndup(base, n > m && streq(base + n - m, ".policy") ? n - m : n);

        if (name && policy_check_policy_name(name, &offset, NULL, NULL) < 0)
                return strdup("unnamed");
        return TAKE_PTR(name);
}

int policy_load_text(const char *file, const char *text, size_t size, const char *const *dirs,
                const char *allow_dir, Policy **ret, Error **reterr)
{
        _cleanup_(loading_done) Loading l = {};
        _cleanup_free_ char *name = name_of_file(file);
        int r = name ? loading_start(&l, name, dirs, allow_dir) : -ENOMEM;

        if (r >= 0)
                r = strv_extend(&l.chain, name);
        if (r >= 0)
                r = apply_text(&l, file, text, size, POLICY_FILE_MAIN);
        return loading_finish(&l, r, ret, reterr);
}

/* What a file extends may lie beside it, not installed yet. */
static int dirs_with_own(const char *path, const char *const *dirs, char **ret_own, const char ***ret)
{
        const char *slash = strrchr(path, '/');
        _cleanup_free_ char *own =
                        slash ? strndup(path, MAX2((size_t) (slash - path), (size_t) 1)) : strdup(".");
        const char **all;
        size_t n = 0;

        while (dirs[n])
                n++;
        all = own ? reallocarray(NULL, n + 2, sizeof(*all)) : NULL;
        if (!all)
                return -ENOMEM;
        all[0] = own;
        memcpy(all + 1, dirs, (n + 1) * sizeof(*all));
        *ret_own = TAKE_PTR(own);
        *ret = all;
        return 0;
}

int policy_load_file(const char *path, const char *const *dirs, const char *allow_dir, Policy **ret,
                Error **reterr)
{
        _cleanup_free_ char *text = NULL, *own = NULL;
        _cleanup_free_ const char **all = NULL;
        size_t size;
        int r = read_file(path, POLICY_FILE_SIZE_MAX, &text, &size);

        if (r == -EFBIG)
                return error_set(reterr, -EINVAL, "%s:1:1: the file is larger than %uK", path,
                                POLICY_FILE_SIZE_MAX / 1024);
        if (r < 0)
                return error_set(reterr, r, "%s:1:1: cannot be read: %s", path, strerror(-r));
        r = dirs_with_own(path, dirs ? dirs : policy_standard_dirs, &own, &all);
        if (r < 0)
                return error_set(reterr, r, "out of memory");
        return policy_load_text(path, text, size, all, allow_dir, ret, reterr);
}

int policy_check_drop_in(const char *path, Error **reterr)
{
        _cleanup_(loading_done) Loading l = {};
        int r = loading_start(&l, "unnamed", NULL, NULL);

        if (r >= 0)
                r = apply_file(&l, path, POLICY_FILE_DROP_IN);
        if (r >= 0)
                r = expand_sets(&l);
        return r < 0 ? error_set(reterr, r, "%s", strerror(-r))
                     : policy_problems_to_error(&l.problems, reterr);
}

int policy_check_set_file(const char *path, Error **reterr)
{
        _cleanup_(loading_done) Loading l = {};
        _cleanup_(policy_value_done) PolicyValue v = {};
        _cleanup_free_ char *text = NULL;
        size_t size;
        int r = read_file(path, POLICY_FILE_SIZE_MAX, &text, &size);

        if (r < 0)
                return error_set(reterr, r, "%s:1:1: cannot be read: %s", path, strerror(-r));
        r = append_set(&l, path, text, size, &v);
        return r < 0 ? error_set(reterr, r, "%s", strerror(-r))
                     : policy_problems_to_error(&l.problems, reterr);
}
