/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>

#include "base/io.h"
#include "broker/root-skeleton.h"
#include "broker/root-source.h"
#include "policy/policy-checks.h"

/* What Expose= names: a path was judged by its spelling when the policy was read, and is judged by where it
 * leads now. */

static int judge(const char *path, int fd, Error **reterr)
{
        _cleanup_free_ char *where = NULL, *unused = NULL;
        _cleanup_error_ Error *why = NULL;
        size_t offset;
        int r = fd_get_path(fd, &where);

        if (r < 0)
                return error_set(reterr, r, "Expose=%s: %s", path, strerror(-r));
        if (streq(where, path))
                return 0;
        r = policy_check_expose(where, &offset, &unused, &why);
        return r < 0 ? error_set(reterr, r, "Expose=%s leads to %s: %s", path, where, error_message(why, r))
                     : 0;
}

/* Whether the place to mount it on is in the tree of Root=, where nobody can make one: beneath something
 * that is shown from there. */
static bool lands_in_source(const Skeleton *s, const char *path)
{
        char first[NAME_MAX + 1];
        size_t n = strcspn(path + 1, "/");
        struct stat st;

        for (size_t i = 0; i < s->out.n_shown; i++)
                if (!streq(path, s->out.shown[i].destination) &&
                                policy_path_beneath(path, s->out.shown[i].destination) &&
                                policy_path_beneath(s->out.shown[i].source, s->from))
                        return true;
        if (n >= sizeof(first))
                return true;
        memcpy(first, path + 1, n);
        first[n] = 0;
        return fstatat(s->fd, first, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
}

/* Of the host there is nothing to be seen where the host itself does not have the place. */
static int check_place(const Skeleton *s, const char *path, int fd)
{
        _cleanup_close_ int place = -1;
        struct stat what, where;

        if (!*s->from || !lands_in_source(s, path))
                return 0;
        place = root_source_openat(s->source_fd, path, 0);
        if (place < 0 || fstat(place, &where) < 0 || fstat(fd, &what) < 0 ||
                        S_ISDIR(where.st_mode) != S_ISDIR(what.st_mode))
                return error_set(s->reterr, -ENOENT, "Expose=%s: there is no place for it in Root=%s", path,
                                s->from);
        return 0;
}

int skeleton_expose(Skeleton *s, const Policy *p)
{
        STRV_FOREACH(i, policy_list(p, FILES_EXPOSE)) {
                _cleanup_close_ int fd = open_resolved(AT_FDCWD, *i, O_PATH, RESOLVE_NO_MAGICLINKS);
                int r;

                if (fd < 0)
                        return error_set(s->reterr, fd, "Expose=%s: %s", *i, strerror(-fd));
                r = judge(*i, fd, s->reterr);
                if (r >= 0)
                        r = check_place(s, *i, fd);
                if (r >= 0)
                        r = skeleton_bind(s, fd, *i + 1);
                if (r < 0)
                        return r;
        }
        return 0;
}
