/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/escape.h"
#include "cli/copy-spec.h"
#include "wire/tree.h"

#define SHOWN_MAX 256

static int refuse(Error **reterr, const char *text, const char *why)
{
        _cleanup_free_ char *shown = escape_for_display(text, strlen(text), SHOWN_MAX);

        return error_set(reterr, -EINVAL, "%s: %s", shown ?: "?", why);
}

static int out_of_memory(Error **reterr)
{
        return error_set(reterr, -ENOMEM, "out of memory");
}

/* What stands behind a directory of the path. */
static const char *strip_workspace(const char *path, const char *workspace)
{
        const char *rest = startswith(path, workspace);

        return rest && (!*rest || *rest == '/') ? rest : NULL;
}

int copy_workspace_path(const char *path, const char *workspace, char **ret, Error **reterr)
{
        const char *p = path[0] == '/' ? strip_workspace(path, workspace) : path;
        _cleanup_buf_ Buf b = {};
        _cleanup_free_ char *text = NULL;

        if (!p)
                return refuse(reterr, path, "is not beneath the workspace");
        while (*p) {
                size_t n = strcspn(p, "/");

                if (n == 2 && p[0] == '.' && p[1] == '.')
                        return refuse(reterr, path, "\"..\" is not taken in a path of the workspace");
                if (n > 0 && !(n == 1 && p[0] == '.')) {
                        if (b.size > 0)
                                buf_append(&b, "/", 1);
                        buf_append(&b, p, n);
                }
                p += n + (p[n] == '/');
        }
        if (b.size == 0)
                buf_append(&b, ".", 1);
        text = buf_take_string(&b);
        if (!text)
                return out_of_memory(reterr);
        if (!tree_path_is_valid(text))
                return refuse(reterr, path, "a name in it is too long");
        *ret = TAKE_PTR(text);
        return 0;
}

/* ret_second is NULL where there is no colon. */
static int split(const char *text, char **ret_first, char **ret_second, Error **reterr)
{
        const char *colon = strrchr(text, ':');

        *ret_first = colon ? strndup(text, (size_t) (colon - text)) : strdup(text);
        *ret_second = colon ? strdup(colon + 1) : NULL;
        if (!*ret_first || (colon && !*ret_second))
                return out_of_memory(reterr);
        if (!**ret_first || (colon && !**ret_second))
                return refuse(reterr, text, "must be SRC or SRC:DEST, neither of them empty");
        return 0;
}

/* The last name of a path, newly allocated; "" where it has none, or one that names no entry. */
static char *last_name(const char *path)
{
        size_t end = strlen(path), start;

        while (end > 0 && path[end - 1] == '/')
                end--;
        for (start = end; start > 0 && path[start - 1] != '/';)
                start--;
        if ((end - start == 1 && path[start] == '.') ||
                        (end - start == 2 && memcmp(path + start, "..", 2) == 0))
                end = start;
        return strndup(path + start, end - start);
}

/* It names a directory that something goes into, under its own name. */
static bool is_into(const char *path)
{
        size_t n = strlen(path);
        const char *last = strrchr(path, '/');

        last = last ? last + 1 : path;
        return n == 0 || !*last || streq(last, ".") || streq(last, "..");
}

int copy_in_spec(const char *text, const char *workspace, char **ret_source, char **ret_dest, Error **reterr)
{
        _cleanup_free_ char *source = NULL, *dest = NULL, *name = NULL, *joined = NULL, *path = NULL;
        int r = split(text, &source, &dest, reterr);

        if (r < 0)
                return r;
        name = streq(source, "-") ? strdup("stdin") : last_name(source);
        if (!name)
                return out_of_memory(reterr);
        /* "." is all that is in a directory, and goes into the workspace itself; so do "/" and "a/.". */
        if (!dest && !*name && strstr(source, ".."))
                return refuse(reterr, text, "what is it to be called? Give SRC:DEST");
        if (asprintf(&joined, "%s%s", dest ?: "",
                            !dest || (is_into(dest) && dest[strlen(dest) - 1] == '/') ? name : "") < 0)
                return out_of_memory(reterr);
        r = copy_workspace_path(joined, workspace, &path, reterr);
        if (r < 0)
                return r;
        *ret_source = TAKE_PTR(source);
        *ret_dest = TAKE_PTR(path);
        return 0;
}

int copy_out_spec(const char *text, const char *workspace, char **ret_source, char **ret_parent,
                char **ret_name, Error **reterr)
{
        _cleanup_free_ char *source = NULL, *dest = NULL, *path = NULL, *parent = NULL, *name = NULL;
        const char *slash;
        int r = split(text, &source, &dest, reterr);

        if (r >= 0)
                r = copy_workspace_path(source, workspace, &path, reterr);
        if (r < 0)
                return r;
        if (!dest || is_into(dest)) {
                parent = strdup(dest ?: ".");
                name = last_name(path);
        } else {
                slash = strrchr(dest, '/');
                parent = slash ? strndup(dest, (size_t) (slash - dest) + 1) : strdup(".");
                name = strdup(slash ? slash + 1 : dest);
        }
        if (!parent || !name)
                return out_of_memory(reterr);
        if (!*name)
                return refuse(reterr, text, "what is the workspace to be called here? Give .:DEST");
        if (!tree_name_is_valid(name))
                return refuse(reterr, text, "the name is too long");
        *ret_source = TAKE_PTR(path);
        *ret_parent = TAKE_PTR(parent);
        *ret_name = TAKE_PTR(name);
        return 0;
}
