/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/escape.h"
#include "base/io.h"
#include "base/parse.h"
#include "cli/copy-out.h"
#include "cli/copy-spec.h"

#define PIPE_SIZE (1 << 20)

/* ---- words */

static void note(Notes *n, const char *path, const char *why)
{
        _cleanup_free_ char *shown = NULL, *line = NULL;

        if (n->n++ >= NOTES_MAX)
                return;
        shown = escape_for_display(path, strlen(path), PATH_MAX);
        if (asprintf(&line, "%s%s%s", shown ?: "?", why ? ": " : "", why ?: "") < 0)
                line = NULL;
        if (line && strv_push(&n->lines, TAKE_PTR(line)) >= 0)
                n->n_lines++;
}

/* name, or what is beneath it, where the item goes; newly allocated. */
static char *path_beside(const CopyOutItem *i, const char *name, const char *rest)
{
        const char *parent = streq(i->parent, ".") ? "" : i->parent;
        size_t n = strlen(parent);
        char *path;

        if (asprintf(&path, "%s%s%s%s%s", parent, n > 0 && parent[n - 1] != '/' ? "/" : "", name,
                            *rest ? "/" : "", rest) < 0)
                return NULL;
        return path;
}

static int fail(Error **reterr, int r, const CopyOutItem *i, const char *why)
{
        _cleanup_free_ char *path = path_beside(i, i->name, ""), *shown = NULL;

        shown = path ? escape_for_display(path, strlen(path), PATH_MAX) : NULL;
        return error_set(reterr, r, "--out %s: %s", shown ?: "?", why);
}

/* ---- places */

/* Of what this process stands in, or of a directory above that. */
static bool holds_us(const struct stat *wanted)
{
        _cleanup_close_ int fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct stat st, above;

        for (unsigned i = 0; fd >= 0 && i < PATH_MAX && fstat(fd, &st) >= 0; i++) {
                int up;

                if (st.st_dev == wanted->st_dev && st.st_ino == wanted->st_ino)
                        return true;
                up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
                if (up < 0)
                        return false;
                close(fd);
                fd = up;
                if (fstat(fd, &above) >= 0 && above.st_dev == st.st_dev && above.st_ino == st.st_ino)
                        return false; /* the root */
        }
        return false;
}

static int check_place(const CopyOut *c, const CopyOutItem *i, Error **reterr)
{
        struct stat st;

        if (fstatat(i->parent_fd, i->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : fail(reterr, -errno, i, strerror(errno));
        if (!c->force)
                return fail(reterr, -EEXIST, i,
                                "is there already, and stays as it is; --force puts the result in its "
                                "place");
        if (S_ISDIR(st.st_mode) && holds_us(&st))
                return fail(reterr, -EBUSY, i, "is where you are: it cannot be replaced from inside");
        return 0;
}

static bool same_place(const CopyOutItem *a, const CopyOutItem *b)
{
        struct stat x, y;

        return streq(a->name, b->name) && fstat(a->parent_fd, &x) >= 0 && fstat(b->parent_fd, &y) >= 0 &&
               x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int open_item(CopyOut *c, const char *option, const char *workspace, Error **reterr)
{
        CopyOutItem *i = c->items + c->n_items;
        int r;

        *i = (CopyOutItem){ .parent_fd = -1, .temporary_fd = -1 };
        c->n_items++;
        r = copy_out_spec(option, workspace, &i->source, &i->parent, &i->name, reterr);
        if (r < 0)
                return error_prefix(reterr, r, "--out");
        i->parent_fd = open(i->parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (i->parent_fd < 0)
                return fail(reterr, -errno, i,
                                errno == ENOENT ? "the directory that it goes into is not there"
                                                : strerror(errno));
        if (faccessat(i->parent_fd, ".", W_OK | X_OK, AT_EACCESS) < 0)
                return fail(reterr, -errno, i, "nothing can be written into that directory");
        for (const CopyOutItem *k = c->items; k < i; k++)
                if (same_place(k, i))
                        return fail(reterr, -EEXIST, i, "is named by two --out");
        return check_place(c, i, reterr);
}

int copy_out_open(CopyOut *c, char *const *options, const char *workspace, bool force, Error **reterr)
{
        int fds[2], r;

        c->force = force;
        c->items = calloc(strv_length(options) + 1, sizeof(*c->items));
        if (!c->items)
                return error_set(reterr, -ENOMEM, "out of memory");
        STRV_FOREACH(i, options) {
                r = open_item(c, *i, workspace, reterr);
                if (r < 0)
                        return r;
        }
        if (pipe2(fds, O_CLOEXEC) < 0)
                return error_set(reterr, -errno, "cannot make a pipe: %s", strerror(errno));
        c->read_fd = fds[0];
        c->write_fd = fds[1];
        (void) fcntl(c->write_fd, F_SETPIPE_SZ, PIPE_SIZE); /* a wish, as for the other pipes */
        r = fd_set_nonblock(c->read_fd, true);
        return r < 0 ? error_set(reterr, r, "cannot set up a pipe: %s", strerror(-r)) : 0;
}

void copy_out_sent(CopyOut *c)
{
        closep(&c->write_fd);
        c->write_fd = -1;
}

/* ---- what comes */

/* The results come in the order in which they were asked for. */
static int place(void *userdata, const char *path, TreePlace *ret)
{
        CopyOut *c = userdata;
        int fd, r;

        if (c->n_tops >= c->n_items || !streq(path, c->items[c->n_tops].source))
                return -EBADMSG;
        c->item = c->items + c->n_tops++;
        r = copy_temporary_make(c->item->parent_fd, c->item->temporary, &c->item->temporary_fd);
        if (r < 0)
                return r;
        fd = openat(c->item->temporary_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        ret->fd = fd;
        strcpy(ret->name, COPY_TEMPORARY_ENTRY);
        return 0;
}

/* Where the entry is going to stand, as far as the gate and a person want to know. */
static char *host_path(const CopyOut *c, const TreeState *s)
{
        const CopyOutItem *i = c->item;
        const char *rest = streq(i->source, ".") ? s->path : s->path + strlen(i->source);

        return path_beside(i, i->name, rest + (*rest == '/'));
}

/* Names that no honest program makes, and that not every program reads as one name. */
static bool has_control_byte(const char *name)
{
        for (; *name; name++)
                if ((unsigned char) *name < 0x20 || *name == 0x7f)
                        return true;
        return false;
}

/* Whether it matters if the file that comes is what went in. */
static bool is_compared(const CopyOut *c)
{
        return c->view || (c->manifest && (c->summary || c->class != GATE_NONE));
}

static const CopyKey *key_of(const CopyOut *c)
{
        return c->view ? &c->view->seen.key : &c->manifest->key;
}

static Change compare(CopyOut *c, const TreeState *s, TreeType type, uint32_t mode, uint64_t size)
{
        if (c->view)
                return view_compare(c->view, s->path, type, mode, size, c->sum);
        return c->manifest ? manifest_compare(c->manifest, s->path, type, mode, c->sum) : CHANGE_ADDED;
}

static void note_change(CopyOut *c, const TreeState *s, Change change)
{
        switch (change) {
        case CHANGE_NONE:
                c->n_same++;
                break;
        case CHANGE_ADDED:
                note(&c->added, s->path, NULL);
                break;
        case CHANGED:
                note(&c->changed, s->path, NULL);
                break;
        }
}

/* Something new or changed that is to be named. Whether it is kept. */
static int pass_gate(CopyOut *c, const TreeState *s, Change change)
{
        _cleanup_free_ char *path = NULL;

        if (c->class == GATE_NONE || change == CHANGE_NONE)
                return 1;
        path = host_path(c, s);
        if (!path)
                return -ENOMEM;
        note(&c->gate[c->class], path, NULL);
        if (!c->deny_exec)
                return 1;
        c->n_denied++;
        return 0;
}

static int classify(CopyOut *c, const TreeState *s, TreeType type, uint32_t mode)
{
        _cleanup_free_ char *path = host_path(c, s);

        if (!path)
                return -ENOMEM;
        c->class = gate_classify(path, type, mode);
        return 0;
}

/* Of a view, changes alone are copied out; an overlay keeps a copy of what was opened for writing, too. */
static bool is_untouched(CopyOut *c, Change change)
{
        if (!c->view || change != CHANGE_NONE)
                return false;
        c->n_same++;
        return true;
}

static int wants_link(CopyOut *c, const TreeState *s, const TreeItem *i)
{
        Change change;
        int r = classify(c, s, TREE_LINK, 0);

        if (r < 0)
                return r;
        if (c->view || c->manifest)
                copy_digest_text(key_of(c), i->target, c->sum);
        change = compare(c, s, TREE_LINK, 0, 0);
        r = pass_gate(c, s, change);
        if (r > 0 && is_untouched(c, change))
                return 0;
        if (r > 0) {
                c->n_files++;
                note_change(c, s, change);
        }
        return r;
}

static int wants(void *userdata, const TreeState *s, const TreeItem *i)
{
        CopyOut *c = userdata;
        int r;

        if (has_control_byte(i->name)) {
                note(&c->left, s->path, "a control byte in its name");
                if (c->manifest)
                        manifest_mark(c->manifest, s->path);
                return 0;
        }
        c->item->came = true;
        switch (i->type) {
        case TREE_LINK:
                return wants_link(c, s, i);
        case TREE_FILE:
                r = classify(c, s, TREE_FILE, i->mode);
                if (is_compared(c))
                        copy_digest_begin(&c->digest, key_of(c));
                return r < 0 ? r : 1;
        default:
                if ((c->manifest || c->view) && compare(c, s, TREE_DIR, i->mode, 0) == CHANGED)
                        note(&c->changed, s->path, NULL);
                return 1;
        }
}

/* Only now is it known whether it is what went in. */
static int keeps(void *userdata, const TreeState *s, const TreeItem *i, uint32_t mode)
{
        CopyOut *c = userdata;
        Change change;
        int r;

        if (is_compared(c))
                copy_digest_end(&c->digest, i->size, c->sum);
        else if (c->manifest)
                manifest_mark(c->manifest, s->path);
        change = is_compared(c) ? compare(c, s, TREE_FILE, mode, i->size) : CHANGE_ADDED; /* which then nobody is told */
        r = pass_gate(c, s, change);
        if (r <= 0) {
                c->n_denied_bytes += i->size;
                c->item->came = c->item->came && s->depth > 0;
                return r;
        }
        if (is_untouched(c, change)) {
                c->item->came = c->item->came && s->depth > 0;
                return 0;
        }
        c->n_files++;
        c->n_bytes += i->size;
        note_change(c, s, change);
        return 1;
}

static int note_deleted(void *userdata, const char *path, bool directory)
{
        CopyOut *c = userdata;

        note(&c->deleted, path, directory ? "with all that was in it" : NULL);
        return 0;
}

/* What is there no more may never have been there. */
static void note_whiteout(CopyOut *c, const char *path)
{
        bool directory;

        if (view_has(c->view, path, &directory))
                (void) note_deleted(c, path, directory);
}

static void on_left(CopyOut *c, const TreeState *s, TreeLeft reason)
{
        bool is_top = s->depth == 0 && c->n_tops > 0;

        if (c->view && (reason == TREE_LEFT_WHITEOUT || reason == TREE_LEFT_MISSING))
                note_whiteout(c, s->path);
        if (!c->view || is_top || reason != TREE_LEFT_WHITEOUT)
                note(&c->left, s->path, tree_left_text(reason));
        if (c->manifest)
                manifest_mark(c->manifest, s->path);
        if (is_top && reason != TREE_LEFT_UNCHANGED)
                c->items[c->n_tops - 1].left = true;
}

static void on_item(void *userdata, const TreeState *s, const TreeItem *i)
{
        CopyOut *c = userdata;

        if (c->view)
                view_observe(c->view, s, i);
        if (i->type == TREE_LEFT)
                on_left(c, s, i->reason);
}

static void on_data(void *userdata, uint64_t offset, const uint8_t *p, size_t n)
{
        CopyOut *c = userdata;

        if (c->receiver.file >= 0 && is_compared(c))
                copy_digest_data(&c->digest, offset, p, n);
}

int copy_out_begin(CopyOut *c, Manifest *manifest, View *view, uint64_t max_bytes, uint64_t max_files, Error **reterr)
{
        int r = tree_receiver_init(&c->receiver);

        if (r < 0)
                return error_set(reterr, r, "out of memory");
        c->manifest = manifest;
        c->view = view;
        if (manifest)
                manifest_sort(manifest);
        c->receiver.userdata = c;
        c->receiver.place = place;
        c->receiver.wants = wants;
        c->receiver.keeps = keeps;
        c->receiver.observer = (TreeObserver){ .userdata = c, .item = on_item, .data = on_data };
        c->receiver.beneath = c->receiver.foreign = true;
        c->receiver.max_entries = max_files;
        c->receiver.max_bytes = max_bytes;
        return 0;
}

/* What the reader of the workspace says, or what became of its words. */
static int say_why(const CopyOut *c, int r, Error **reterr)
{
        const TreeItem *i = &c->receiver.item;
        const char *path = r == -EREMOTEIO ? i->name : c->receiver.decoder.state.path;
        _cleanup_free_ char *shown = escape_for_display(path, strlen(path), PATH_MAX),
                            *bytes = format_size(c->receiver.max_bytes),
                            *files = format_size(c->receiver.max_entries);

        if (r == -EBADMSG)
                return error_set(reterr, r,
                                "nothing is copied out: what came is no whole result (did the broker end "
                                "meanwhile? "
                                "see 'journalctl -u agentboxd')");
        if (r == -E2BIG || (r == -EREMOTEIO && i->reason != TREE_FAIL_DEPTH && i->reason != TREE_FAIL_ERROR))
                return error_set(reterr, -E2BIG,
                                "nothing is copied out: at %s it is more than CopyOutSize=%s or "
                                "CopyOutFiles=%s allow",
                                shown ?: "?", bytes ?: "?", files ?: "?");
        if (r == -EREMOTEIO && i->reason == TREE_FAIL_DEPTH)
                return error_set(reterr, -E2BIG,
                                "nothing is copied out: directories too deep in one another, or a path too "
                                "long: %s",
                                shown ?: "?");
        return error_set(reterr, r, "nothing is copied out: %s: %s", shown ?: "?",
                        strerror(r == -EREMOTEIO ? (int) i->error : -r));
}

static int note_missing(CopyOut *c)
{
        const ManifestEntry *e;

        if (c->view)
                return view_deleted(c->view, c, note_deleted);
        for (size_t k = 0; c->manifest && k < c->n_tops; k++) {
                size_t at = 0;

                if (c->items[k].left)
                        continue;
                while ((e = manifest_missing(c->manifest,
                                        streq(c->items[k].source, ".") ? "" : c->items[k].source, &at)))
                        if (e->type != TREE_DIR)
                                note(&c->deleted, e->path, NULL);
        }
        return 0;
}

int copy_out_receive(CopyOut *c, Error **reterr)
{
        int r = tree_receive(&c->receiver, c->read_fd);

        if (r == -EAGAIN || r > 0)
                return 1;
        if (r >= 0 && c->n_tops != c->n_items)
                r = -EBADMSG;
        if (r >= 0)
                r = note_missing(c);
        return r < 0 ? say_why(c, r, reterr) : 0;
}

/* ---- taking their places */

static int publish_item(CopyOut *c, CopyOutItem *i, const char *run, Error **reterr)
{
        _cleanup_free_ char *kept = NULL, *path = NULL;
        int r;

        if (!i->came) {
                copy_temporary_remove(i->parent_fd, i->temporary, &i->temporary_fd);
                return 0;
        }
        r = c->force ? place_instead(i->temporary_fd, COPY_TEMPORARY_ENTRY, i->parent_fd, i->name, run, &kept)
                     : place_new(i->temporary_fd, COPY_TEMPORARY_ENTRY, i->parent_fd, i->name);
        copy_temporary_remove(i->parent_fd, i->temporary, &i->temporary_fd);
        if (r == -EEXIST)
                return fail(reterr, r, i,
                                c->force ? "cannot be replaced: what it would be kept as is there already"
                                         : "came to be while the run ran, and stays as it is; the result is "
                                           "dropped");
        if (r < 0)
                return fail(reterr, r, i, strerror(-r));
        path = kept ? path_beside(i, kept, "") : NULL;
        if (path)
                note(&c->kept, path, NULL);
        return 0;
}

int copy_out_publish(CopyOut *c, const char *run, Error **reterr)
{
        int first = 0;

        for (size_t k = 0; k < c->n_items; k++) {
                _cleanup_error_ Error *e = NULL;
                int r = publish_item(c, c->items + k, run, &e);

                if (r < 0 && first == 0) {
                        first = r;
                        *reterr = TAKE_PTR(e);
                }
        }
        return first;
}

static void notes_done(Notes *n)
{
        strv_free(n->lines);
        *n = (Notes){};
}

void copy_out_done(CopyOut *c)
{
        tree_receiver_done(&c->receiver);
        for (size_t k = 0; k < c->n_items; k++) {
                CopyOutItem *i = c->items + k;

                copy_temporary_remove(i->parent_fd, i->temporary, &i->temporary_fd);
                closep(&i->parent_fd);
                free(i->source);
                free(i->parent);
                free(i->name);
        }
        free(c->items);
        closep(&c->read_fd);
        copy_out_sent(c);
        notes_done(&c->left);
        notes_done(&c->kept);
        for (size_t k = 0; k < _GATE_CLASS_MAX; k++)
                notes_done(&c->gate[k]);
        notes_done(&c->added);
        notes_done(&c->changed);
        notes_done(&c->deleted);
        *c = COPY_OUT_NONE;
}
