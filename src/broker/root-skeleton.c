/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

#include "base/io.h"
#include "broker/root-skeleton.h"
#include "broker/root-source.h"

void skeleton_done(Skeleton *s)
{
        closep(&s->fd);
        closep(&s->source_fd);
        run_root_done(&s->out);
}

int skeleton_directory(Skeleton *s, const char *path, mode_t mode)
{
        if (mkdirat(s->fd, path, mode) < 0)
                return errno == EEXIST ? 0 : error_set(s->reterr, -errno, "cannot make /%s: %m", path);
        /* The mode that was asked for, whatever our umask. Nobody else writes here. */
        if (fchmodat(s->fd, path, mode, 0) < 0)
                return error_set(s->reterr, -errno, "cannot set the mode of /%s: %m", path);
        return 0;
}

int skeleton_parents(Skeleton *s, const char *path)
{
        char part[PATH_MAX];
        int r;

        if (strlen(path) >= sizeof(part))
                return error_set(s->reterr, -ENAMETOOLONG, "path too long: /%s", path);
        strcpy(part, path);
        for (char *slash = strchr(part, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = 0;
                r = skeleton_directory(s, part, 0755);
                if (r < 0)
                        return r;
                *slash = '/';
        }
        return 0;
}

int skeleton_link(Skeleton *s, const char *target, const char *path)
{
        if (symlinkat(target, s->fd, path) < 0)
                return error_set(s->reterr, -errno, "cannot make the link /%s: %m", path);
        return 0;
}

int skeleton_file(Skeleton *s, const char *path, const void *p, size_t n)
{
        int r = write_new_file_at(s->fd, path, p, n, 0644);

        return r < 0 ? error_set(s->reterr, r, "cannot write /%s: %s", path, strerror(-r)) : 0;
}

int skeleton_copy_link(Skeleton *s, const char *path)
{
        _cleanup_close_ int fd = root_source_openat(s->source_fd, path, O_NOFOLLOW);
        char target[PATH_MAX];
        ssize_t n;
        int r;

        if (fd < 0)
                return fd == -ENOENT ? 0
                                     : error_set(s->reterr, fd, "cannot open %s/%s: %s", s->from, path,
                                                       strerror(-fd));
        n = readlinkat(fd, "", target, sizeof(target) - 1);
        if (n < 0) /* ENOENT: what an O_PATH descriptor of no link says */
                return errno == EINVAL || errno == ENOENT
                                       ? 0
                                       : error_set(s->reterr, -errno, "cannot read %s/%s: %m", s->from,
                                                         path);
        target[n] = 0;
        r = skeleton_link(s, target, path);
        return r < 0 ? r : 1;
}

static RootBind *bind_at(RunRoot *r, const char *destination)
{
        for (size_t i = 0; i < r->n_shown; i++)
                if (streq(r->shown[i].destination, destination))
                        return r->shown + i;
        return NULL;
}

static int bind_new(RunRoot *r, const char *destination, RootBind **ret)
{
        RootBind *larger = realloc(r->shown, (r->n_shown + 1) * sizeof(*larger));

        if (!larger)
                return -ENOMEM;
        r->shown = larger;
        larger[r->n_shown] = (RootBind){ .destination = strdup(destination) };
        if (!larger[r->n_shown].destination)
                return -ENOMEM;
        *ret = larger + r->n_shown++;
        return 0;
}

int skeleton_bind(Skeleton *s, int fd, const char *path)
{
        _cleanup_free_ char *source = NULL;
        char destination[PATH_MAX];
        struct stat st;
        RootBind *b;
        int r;

        if (snprintf(destination, sizeof(destination), "/%s", path) >= (int) sizeof(destination))
                return error_set(s->reterr, -ENAMETOOLONG, "path too long: /%s", path);
        r = fd_get_path(fd, &source);
        if (r < 0 || fstat(fd, &st) < 0)
                return error_set(s->reterr, r < 0 ? r : -errno, "cannot look at what is shown at %s: %s",
                                destination, strerror(r < 0 ? -r : errno));
        if (strchr(source, ':'))
                return error_set(s->reterr, -EOPNOTSUPP, "a path with \":\" in it cannot be shown: %s",
                                source);
        b = bind_at(&s->out, destination);
        if (!b) {
                r = bind_new(&s->out, destination, &b);
                if (r < 0)
                        return error_set(s->reterr, r, "out of memory");
        }
        free(b->source);
        b->source = TAKE_PTR(source);
        b->device = st.st_dev;
        b->inode = st.st_ino;
        return 1;
}

/* What the tree's own links lead to is still in the tree, but maybe in somebody else's hands. */
static int check_trusted(const Skeleton *s, int fd)
{
        _cleanup_close_ int again = -1;
        _cleanup_free_ char *path = NULL;
        _cleanup_error_ Error *why = NULL;
        int r;

        if (!*s->from)
                return 0;
        r = fd_get_path(fd, &path);
        if (r >= 0)
                r = root_source_open(path, &again, &why);
        return r < 0 ? error_set(s->reterr, r, "Root=%s: %s", s->from, error_message(why, r)) : 0;
}

int skeleton_bind_directory(Skeleton *s, const char *path)
{
        _cleanup_close_ int fd = root_source_openat(s->source_fd, path, O_DIRECTORY);
        struct stat st;
        int r;

        if (fd < 0 || fstat(fd, &st) < 0 || !(st.st_mode & S_IXOTH))
                return 0;
        r = check_trusted(s, fd);
        if (r >= 0)
                r = skeleton_parents(s, path);
        if (r >= 0)
                r = skeleton_directory(s, path, 0755);
        return r < 0 ? r : skeleton_bind(s, fd, path);
}
