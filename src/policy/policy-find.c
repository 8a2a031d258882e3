/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/strv.h"
#include "policy/policy-checks.h"
#include "policy/policy-find.h"
#include "policy/policy.h"

/* Where policies, their drop-ins and the sets lie. */

const char *const policy_standard_dirs[] = { POLICY_DIR_ETC, POLICY_DIR_RUN, POLICY_DIR_USR, NULL };
const char policy_standard_allow_dir[] = ALLOW_SET_DIR;

int policy_path(char **ret, const char *dir, const char *a, const char *b)
{
        char *path;

        if (asprintf(&path, "%s/%s%s", dir, a, b) < 0)
                return -ENOMEM;
        *ret = path;
        return 0;
}

int policy_find(const char *name, const char *const *dirs, char **ret)
{
        size_t offset;

        *ret = NULL;
        if (policy_check_policy_name(name, &offset, NULL, NULL) < 0)
                return 0;
        for (dirs = dirs ? dirs : policy_standard_dirs; *dirs; dirs++) {
                _cleanup_free_ char *path = NULL;

                if (policy_path(&path, *dirs, name, ".policy") < 0)
                        return -ENOMEM;
                /* What is there but cannot be read must not be passed over for a laxer one. */
                if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) >= 0 ||
                                (errno != ENOENT && errno != ENOTDIR)) {
                        *ret = TAKE_PTR(path);
                        return 0;
                }
        }
        return 0;
}

static int by_name(const void *a, const void *b)
{
        return strcmp(*(char *const *) a, *(char *const *) b);
}

void policy_sort_names(char **names)
{
        if (names)
                qsort(names, strv_length(names), sizeof(char *), by_name);
}

int policy_dir_names(const char *dir, const char *suffix, char ***names)
{
        DIR *d = opendir(dir);
        struct dirent *e;
        int r = 0;

        if (!d)
                return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
        while (r >= 0 && (errno = 0, e = readdir(d))) {
                size_t n = strlen(e->d_name), m = strlen(suffix);

                if (e->d_name[0] != '.' && n > m && streq(e->d_name + n - m, suffix) &&
                                !strv_contains(*names, e->d_name))
                        r = strv_extend(names, e->d_name);
        }
        if (r >= 0 && errno != 0)
                r = -errno;
        closedir(d);
        return r;
}

int policy_list_names(const char *const *dirs, char ***ret)
{
        _cleanup_strv_ char **files = NULL, **names = NULL;

        for (dirs = dirs ? dirs : policy_standard_dirs; *dirs; dirs++) {
                int r = policy_dir_names(*dirs, ".policy", &files);

                if (r < 0)
                        return r;
        }
        STRV_FOREACH(i, files) {
                size_t offset;

                (*i)[strlen(*i) - strlen(".policy")] = 0;
                if (policy_check_policy_name(*i, &offset, NULL, NULL) >= 0 && strv_extend(&names, *i) < 0)
                        return -ENOMEM;
        }
        policy_sort_names(names);
        *ret = TAKE_PTR(names);
        return 0;
}
