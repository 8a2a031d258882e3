/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include "base/escape.h"
#include "base/io.h"
#include "cli/copy-in.h"
#include "cli/copy-spec.h"

#define PIPE_SIZE (1 << 20)
#define STREAM_MODE 0644u

/* ---- opening */

static int fail(Error **reterr, int r, const char *what, const char *path, const char *why)
{
        _cleanup_free_ char *shown = escape_for_display(path, strlen(path), PATH_MAX);

        return error_set(reterr, r, "%s %s: %s", what, shown ?: "?", why);
}

/* Looked at first: to open a device can do something already. */
static int open_source(CopyInItem *i, Error **reterr)
{
        struct stat st;

        if (stat(i->source, &st) < 0)
                return fail(reterr, -errno, "--in", i->source, strerror(errno));
        if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
                return fail(reterr, -EINVAL, "--in", i->source,
                                "not a file or directory; for what a pipe or device gives, use --in -:DEST "
                                "with "
                                "it as standard input");
        i->fd = open(i->source, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (i->fd < 0)
                return fail(reterr, -errno, "--in", i->source, strerror(errno));
        if (streq(i->dest, ".") && !S_ISDIR(st.st_mode))
                return fail(reterr, -EINVAL, "--in", i->source,
                                "a file cannot be the workspace: give its name there");
        return 0;
}

static int open_item(CopyIn *c, const char *option, const char *workspace, Error **reterr)
{
        CopyInItem *i = c->items + c->n_items;
        int r;

        *i = (CopyInItem){ .fd = -1 };
        c->n_items++;
        r = copy_in_spec(option, workspace, &i->source, &i->dest, reterr);
        if (r < 0)
                return error_prefix(reterr, r, "--in");
        if (!streq(i->source, "-"))
                return open_source(i, reterr);
        if (c->takes_stdin)
                return error_set(reterr, -EINVAL, "--in -: standard input can be copied only once");
        if (streq(i->dest, "."))
                return error_set(reterr, -EINVAL,
                                "--in -: a file cannot be the workspace: give its name there");
        i->is_stdin = c->takes_stdin = true;
        i->fd = STDIN_FILENO;
        return 0;
}

int copy_in_open(CopyIn *c, char *const *options, const char *workspace, Error **reterr)
{
        size_t n = strv_length(options);
        int fds[2], r;

        c->items = calloc(n + 1, sizeof(*c->items));
        if (!c->items)
                return error_set(reterr, -ENOMEM, "out of memory");
        STRV_FOREACH(i, options) {
                r = open_item(c, *i, workspace, reterr);
                if (r < 0)
                        return r;
        }
        c->cancel_fd = eventfd(0, EFD_CLOEXEC);
        if (c->cancel_fd < 0 || pipe2(fds, O_CLOEXEC) < 0)
                return error_set(reterr, -errno, "cannot make a pipe: %s", strerror(errno));
        c->read_fd = fds[0];
        c->write_fd = fds[1];
        /* A wish, as for the other pipes. */
        (void) fcntl(c->write_fd, F_SETPIPE_SZ, PIPE_SIZE);
        r = fd_set_nonblock(c->write_fd, true);
        return r < 0 ? error_set(reterr, r, "cannot set up a pipe: %s", strerror(-r)) : 0;
}

/* ---- the thread */

static void note_left(CopyIn *c, const char *path, TreeLeft reason)
{
        _cleanup_free_ char *shown = NULL, *line = NULL;

        if (c->n_left++ >= LEFT_SHOWN_MAX)
                return;
        shown = escape_for_display(path, strlen(path), PATH_MAX);
        if (asprintf(&line, "%s: %s", shown ?: "?", tree_left_text(reason)) < 0)
                line = NULL;
        if (line)
                (void) strv_push(&c->left, TAKE_PTR(line));
}

static void on_item(void *userdata, const TreeState *s, const TreeItem *i)
{
        CopyIn *c = userdata;

        if (i->type == TREE_LEFT)
                note_left(c, s->path, i->reason);
        else if (c->manifest)
                manifest_observe_item(c->manifest, s, i);
}

static void on_data(void *userdata, uint64_t offset, const uint8_t *p, size_t n)
{
        CopyIn *c = userdata;

        manifest_observe_data(c->manifest, offset, p, n);
}

static int send_items(CopyIn *c)
{
        for (size_t i = 0; i < c->n_items; i++) {
                CopyInItem *item = c->items + i;
                int r;

                if (item->is_stdin)
                        r = tree_send_stream(&c->sender, item->dest, item->fd, STREAM_MODE);
                else
                        r = tree_send_top(&c->sender, item->dest, TAKE_FD(item->fd));
                if (r < 0)
                        return r;
        }
        return tree_send_end(&c->sender);
}

/* Whatever comes of it, the closing of the pipe tells the other side that nothing more comes. */
static void *copy(void *userdata)
{
        CopyIn *c = userdata;

        c->result = send_items(c);
        close(TAKE_FD(c->write_fd));
        atomic_store(&c->finished, true);
        return NULL;
}

int copy_in_start(CopyIn *c, Manifest *manifest, Error **reterr)
{
        int r = tree_sender_init(&c->sender);

        if (r < 0)
                return error_set(reterr, r, "out of memory");
        c->manifest = manifest;
        c->sender.fd = c->write_fd;
        c->sender.cancel_fd = c->cancel_fd;
        c->sender.observer = (TreeObserver){
                .userdata = c,
                .item = on_item,
                .data = manifest ? on_data : NULL,
        };
        r = -pthread_create(&c->thread, NULL, copy, c);
        if (r < 0)
                return error_set(reterr, r, "cannot start a thread: %s", strerror(-r));
        c->started = true;
        return 0;
}

void copy_in_sent(CopyIn *c)
{
        closep(&c->read_fd);
        c->read_fd = -1;
}

static int say_fail(const CopyIn *c, Error **reterr)
{
        const TreeItem *i = &c->sender.item;
        _cleanup_free_ char *shown = escape_for_display(i->name, strlen(i->name), PATH_MAX);
        const char *why = i->reason == TREE_FAIL_DEPTH
                                          ? "directories too deep in one another, or a path too long"
                                          : strerror((int) i->error);

        return error_set(reterr, -E2BIG, "cannot copy in %s: %s", shown ?: "?", why);
}

int copy_in_finish(CopyIn *c, Error **reterr)
{
        if (!c->started)
                return 0;
        pthread_join(c->thread, NULL);
        c->started = false;
        if (c->result >= 0 && c->manifest && c->manifest->error < 0)
                return error_set(reterr, c->manifest->error, "out of memory");
        if (c->result == -E2BIG)
                return say_fail(c, reterr);
        if (c->result < 0 && c->result != -EPIPE && c->result != -ECANCELED)
                return error_set(reterr, c->result, "cannot copy in: %s", strerror(-c->result));
        return c->result;
}

void copy_in_cancel(CopyIn *c)
{
        const uint64_t one = 1;

        if (c->started && !atomic_load(&c->finished))
                (void) write_full(c->cancel_fd, &one, sizeof(one));
}

void copy_in_done(CopyIn *c)
{
        copy_in_sent(c);
        copy_in_cancel(c);
        if (c->started)
                pthread_join(c->thread, NULL);
        closep(&c->write_fd);
        closep(&c->cancel_fd);
        for (size_t i = 0; i < c->n_items; i++) {
                if (!c->items[i].is_stdin)
                        closep(&c->items[i].fd);
                free(c->items[i].source);
                free(c->items[i].dest);
        }
        free(c->items);
        strv_free(c->left);
        tree_sender_done(&c->sender);
        *c = COPY_IN_NONE;
}
