/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "wire/tree-receive.h"

#define PLACE_MODE 0755u

/* A directory that is being filled. Its mode and time are set when nothing more comes into it. */
typedef struct TreeOpen {
        int fd;
        uint32_t mode;
        int64_t mtime;
        uint32_t nsec;
        bool is_ours; /* made here: else its mode and time stay */
} TreeOpen;

int tree_receiver_init(TreeReceiver *r)
{
        r->now = time(NULL);
        r->umask = umask(0);
        umask(r->umask);
        r->levels = malloc(TREE_DEPTH_MAX * sizeof(TreeOpen));
        return r->levels ? tree_decoder_init(&r->decoder) : -ENOMEM;
}

void tree_receiver_done(TreeReceiver *r)
{
        while (r->n_levels > 0)
                close(r->levels[--r->n_levels].fd);
        closep(&r->file);
        closep(&r->at.fd);
        free(r->levels);
        tree_decoder_done(&r->decoder);
        *r = TREE_RECEIVER_NONE;
}

/* ---- names */

static int open_name(const TreeReceiver *r, int dir, const char *name, int flags, mode_t mode)
{
        const struct open_how how = {
                .flags = (uint64_t) (flags | O_NOFOLLOW | O_CLOEXEC),
                .mode = mode,
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
        };
        int fd;

        if (r->beneath)
                fd = (int) syscall(SYS_openat2, dir, name, &how, sizeof(how));
        else
                fd = openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC, mode);
        return fd < 0 ? -errno : fd;
}

/* The directory and the name for the entry that comes now. */
static int locate(const TreeReceiver *r, int *ret_dir, const char **ret_name)
{
        if (r->at.fd >= 0) {
                *ret_dir = r->at.fd;
                *ret_name = r->at.name;
                return 0;
        }
        if (r->n_levels == 0)
                return -EBADMSG;
        *ret_dir = r->levels[r->n_levels - 1].fd;
        *ret_name = r->item.name;
        return 0;
}

static void leave_place(TreeReceiver *r)
{
        closep(&r->at.fd);
        r->at.fd = -1;
}

/* ---- modes and times */

static uint32_t judge_mode(const TreeReceiver *r, uint32_t mode, uint32_t needed)
{
        return r->foreign ? (mode | needed) & 0777 & ~(uint32_t) (r->umask | 0022) : mode;
}

static struct timespec judge_time(const TreeReceiver *r, int64_t sec, uint32_t nsec)
{
        if (r->foreign && (sec < 0 || sec > r->now))
                return (struct timespec){ .tv_sec = r->now };
        return (struct timespec){ .tv_sec = sec, .tv_nsec = nsec };
}

static int set_time(const TreeReceiver *r, int fd, int64_t sec, uint32_t nsec)
{
        struct timespec t[2] = { { .tv_nsec = UTIME_OMIT }, judge_time(r, sec, nsec) };

        return futimens(fd, t) < 0 ? -errno : 0;
}

/* ---- entries */

static int wants(TreeReceiver *r)
{
        const TreeState *s = &r->decoder.state;

        if (r->n_unwanted > 0)
                return 0;
        return r->wants ? r->wants(r->userdata, s, &r->item) : 1;
}

static int open_directory(TreeReceiver *r, int dir, const char *name, bool *ret_is_ours)
{
        *ret_is_ours = false;
        if (!*name)
                return open_name(r, dir, ".", O_RDONLY | O_DIRECTORY, 0);
        if (mkdirat(dir, name, 0700) >= 0)
                *ret_is_ours = true;
        else if (errno != EEXIST || !r->merge)
                return -errno;
        return open_name(r, dir, name, O_RDONLY | O_DIRECTORY, 0);
}

static int on_directory(TreeReceiver *r)
{
        TreeOpen *l = r->levels + r->n_levels;
        const char *name;
        bool is_ours;
        int dir, fd, k = wants(r);

        if (k < 0)
                return k;
        if (k == 0) {
                r->n_unwanted++;
                leave_place(r);
                return 0;
        }
        k = locate(r, &dir, &name);
        if (k < 0)
                return k;
        fd = open_directory(r, dir, name, &is_ours);
        if (fd < 0)
                return fd;
        leave_place(r);
        *l = (TreeOpen){ .fd = fd,
                .mode = r->item.mode,
                .mtime = r->item.mtime,
                .nsec = r->item.nsec,
                .is_ours = is_ours };
        r->n_levels++;
        return 0;
}

static int on_up(TreeReceiver *r)
{
        TreeOpen *l;
        int k = 0;

        if (r->n_unwanted > 0) {
                r->n_unwanted--;
                return 0;
        }
        if (r->n_levels == 0)
                return -EBADMSG;
        l = r->levels + --r->n_levels;
        if (l->is_ours) {
                k = set_time(r, l->fd, l->mtime, l->nsec);
                if (k >= 0 && fchmod(l->fd, judge_mode(r, l->mode, 0700)) < 0)
                        k = -errno;
        }
        close(l->fd);
        return k;
}

static int on_file(TreeReceiver *r)
{
        const char *name;
        int dir, k = wants(r);

        if (k > 0)
                k = locate(r, &dir, &name) < 0 ? -EBADMSG : 1;
        if (k > 0 && !*name)
                k = -EISDIR;
        if (k > 0) {
                k = open_name(r, dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOCTTY, 0600);
                if (k < 0)
                        return k;
                r->file = k;
                memcpy(r->file_name, name, strlen(name) + 1);
        }
        if (k < 0)
                return k;
        r->position = 0;
        r->mode = r->item.mode;
        r->mtime = r->item.mtime;
        r->nsec = r->item.nsec;
        /* Its place is needed once more where it does not stay. */
        if (r->file < 0)
                leave_place(r);
        return 0;
}

static int on_data(TreeReceiver *r)
{
        const uint8_t *p = r->item.data;
        size_t left = r->item.n_data;

        r->position = r->item.offset + r->item.n_data;
        if (r->position > r->max_bytes - MIN2(r->max_bytes, r->decoder.state.bytes))
                return -E2BIG;
        if (r->file < 0)
                return 0;
        for (uint64_t at = r->item.offset; left > 0;) {
                ssize_t n = pwrite(r->file, p, left, (off_t) at);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                p += n;
                at += (uint64_t) n;
                left -= (size_t) n;
        }
        return 0;
}

static int discard_file(TreeReceiver *r)
{
        const char *name = r->file_name;
        int dir = r->at.fd >= 0 ? r->at.fd : r->levels[r->n_levels - 1].fd;

        return unlinkat(dir, name, 0) < 0 ? -errno : 0;
}

static int on_eof(TreeReceiver *r)
{
        int k = 1;

        /* The state has added the size by now. */
        if (r->decoder.state.bytes > r->max_bytes)
                return -E2BIG;
        if (r->file < 0)
                return 0;
        if (r->item.size > r->position && ftruncate(r->file, (off_t) r->item.size) < 0)
                return -errno;
        if (r->keeps)
                k = r->keeps(r->userdata, &r->decoder.state, &r->item, r->mode);
        if (k > 0) {
                k = set_time(r, r->file, r->mtime, r->nsec);
                if (k >= 0 && fchmod(r->file, judge_mode(r, r->mode, 0400)) < 0)
                        k = -errno;
        } else if (k == 0)
                k = discard_file(r);
        close(r->file);
        r->file = -1;
        leave_place(r);
        return k;
}

static int on_link(TreeReceiver *r)
{
        const char *name;
        int dir, k = wants(r);

        if (k <= 0)
                return k;
        k = locate(r, &dir, &name);
        if (k < 0)
                return k;
        return symlinkat(r->item.target, dir, name) < 0 ? -errno : 0;
}

static int on_top(TreeReceiver *r)
{
        return r->place(r->userdata, r->item.name, &r->at);
}

static int on_left(TreeReceiver *r)
{
        leave_place(r);
        return 0;
}

static int on_end(TreeReceiver *r)
{
        return 0;
}

static int on_fail(TreeReceiver *r)
{
        return -EREMOTEIO;
}

static int (*const handlers[_TREE_TYPE_MAX])(TreeReceiver *r) = {
        [TREE_TOP] = on_top,
        [TREE_DIR] = on_directory,
        [TREE_UP] = on_up,
        [TREE_FILE] = on_file,
        [TREE_DATA] = on_data,
        [TREE_EOF] = on_eof,
        [TREE_LINK] = on_link,
        [TREE_LEFT] = on_left,
        [TREE_END] = on_end,
        [TREE_FAIL] = on_fail,
        [TREE_WHOLE] = on_end, /* of interest to the observer alone */
};

/* ---- the stream */

static void observe(const TreeReceiver *r)
{
        const TreeObserver *o = &r->observer;

        if (r->item.type == TREE_DATA && o->data)
                o->data(o->userdata, r->item.offset, r->item.data, r->item.n_data);
        else if (r->item.type != TREE_DATA && o->item)
                o->item(o->userdata, &r->decoder.state, &r->item);
}

int tree_receive(TreeReceiver *r, int fd)
{
        const TreeState *s = &r->decoder.state;
        size_t space;
        uint8_t *p = tree_decoder_space(&r->decoder, &space);
        ssize_t n;
        int k;

        do
                n = read(fd, p, space);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        if (n == 0)
                return tree_decoder_finish(&r->decoder);
        tree_decoder_filled(&r->decoder, (size_t) n);
        while ((k = tree_decode(&r->decoder, &r->item)) > 0) {
                observe(r);
                if (s->entries + s->left > r->max_entries)
                        return -E2BIG;
                k = handlers[r->item.type](r);
                if (k < 0)
                        return k;
        }
        if (k < 0)
                return k;
        return s->ended ? tree_decoder_finish(&r->decoder) : 1;
}

/* ---- for owners */

static int enter_or_make(int dir, const char *name)
{
        int fd;

        if (mkdirat(dir, name, PLACE_MODE) < 0 && errno != EEXIST)
                return -errno;
        fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

int tree_place_beneath(int dir_fd, const char *path, TreePlace *ret)
{
        _cleanup_close_ int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        char name[TREE_NAME_MAX + 1] = "";

        if (fd < 0)
                return -errno;
        if (!tree_path_is_valid(path))
                return -EINVAL;
        while (*path && !streq(path, ".")) {
                size_t n = strcspn(path, "/");
                int next;

                memcpy(name, path, n);
                name[n] = 0;
                path += n + (path[n] == '/');
                if (!*path)
                        break;
                next = enter_or_make(fd, name);
                if (next < 0)
                        return next;
                close(fd);
                fd = next;
        }
        ret->fd = TAKE_FD(fd);
        memcpy(ret->name, name, sizeof(name));
        return 0;
}

static int empty_directory(int dir_fd, const char *name, unsigned depth)
{
        int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r = 0;
        DIR *d = fd < 0 ? NULL : fdopendir(fd);

        if (!d) {
                r = -errno;
                closep(&fd);
                return r;
        }
        /* A directory whose mode forbids to empty it. */
        (void) fchmod(fd, 0700);
        for (struct dirent *e; r >= 0 && (e = readdir(d));) {
                if (streq(e->d_name, ".") || streq(e->d_name, "..") || unlinkat(fd, e->d_name, 0) >= 0)
                        continue;
                if (errno != EISDIR)
                        r = -errno;
                else if (unlinkat(fd, e->d_name, AT_REMOVEDIR) >= 0)
                        continue;
                else if (depth >= 2 * TREE_DEPTH_MAX)
                        r = -ELOOP;
                else
                        r = empty_directory(fd, e->d_name, depth + 1);
                if (r >= 0 && unlinkat(fd, e->d_name, AT_REMOVEDIR) < 0)
                        r = -errno;
        }
        closedir(d);
        return r;
}

int tree_remove(int dir_fd, const char *name)
{
        int r;

        if (unlinkat(dir_fd, name, 0) >= 0)
                return 0;
        if (errno != EISDIR)
                return -errno;
        r = empty_directory(dir_fd, name, 0);
        if (r >= 0 && unlinkat(dir_fd, name, AT_REMOVEDIR) < 0)
                r = -errno;
        return r;
}
