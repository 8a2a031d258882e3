/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <time.h>

#include "wire/tree-send.h"

#define NAMES_SIZE 8192u
#define OPEN_FLAGS (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

/* A directory that is being read. */
typedef struct TreeLevel {
        int fd, beside; /* beside: the same in the merge that this is a layer of; -1: none */
        size_t at, n; /* in names */
        _Alignas(struct dirent64) char names[NAMES_SIZE];
} TreeLevel;

int tree_sender_init(TreeSender *s)
{
        s->levels = malloc(TREE_DEPTH_MAX * sizeof(TreeLevel));
        return s->levels ? tree_encoder_init(&s->encoder) : -ENOMEM;
}

static void close_level(TreeLevel *l)
{
        close(l->fd);
        closep(&l->beside);
}

void tree_sender_done(TreeSender *s)
{
        while (s->n_levels > 0)
                close_level(s->levels + --s->n_levels);
        free(s->levels);
        tree_encoder_done(&s->encoder);
        *s = TREE_SENDER_NONE;
}

/* ---- the pipe */

/* 0: something may be written. */
static int wait_writable(const TreeSender *s)
{
        struct pollfd p[] = {
                { .fd = s->fd, .events = POLLOUT },
                { .fd = s->cancel_fd, .events = POLLIN },
        };
        int n = poll(p, ELEMENTSOF(p), s->timeout_msec);

        if (n < 0)
                return errno == EINTR ? 0 : -errno;
        if (n == 0)
                return -ETIMEDOUT;
        return p[1].revents ? -ECANCELED : 0;
}

static int flush(TreeSender *s)
{
        const uint8_t *p = s->encoder.data;
        int r;

        for (size_t left = s->encoder.size; left > 0;) {
                ssize_t n = write(s->fd, p, left);

                if (n >= 0) {
                        p += n;
                        left -= (size_t) n;
                } else if (errno == EAGAIN) {
                        r = wait_writable(s);
                        if (r < 0)
                                return r;
                } else if (errno != EINTR)
                        return -errno;
        }
        s->encoder.size = 0;
        return 0;
}

/* Room for one frame of any size. */
static int make_room(TreeSender *s)
{
        return s->encoder.size > TREE_FRAME_MAX ? flush(s) : 0;
}

/* s->item, filled by the caller. */
static int send_item(TreeSender *s)
{
        int r = make_room(s);

        if (r >= 0)
                r = tree_encode(&s->encoder, &s->item);
        if (r >= 0 && s->observer.item)
                s->observer.item(s->observer.userdata, &s->encoder.state, &s->item);
        return r;
}

static void set_name(TreeItem *i, const char *name)
{
        memcpy(i->name, name, strlen(name) + 1);
}

/* Of the entry of this name ("": the top itself) in the directory that is being read. */
static int give_up(TreeSender *s, const char *name, TreeFail reason, int error)
{
        const TreeState *state = &s->encoder.state;
        size_t n = state->in_file || state->wants_entry ? strlen(state->path) : state->length;
        int r;

        /* The path is for a person: where it would be too long, its beginning has to do. */
        memcpy(s->item.name, state->path, n);
        if (*name && n + 1 + strlen(name) < sizeof(s->item.name)) {
                if (n > 0)
                        s->item.name[n++] = '/';
                memcpy(s->item.name + n, name, strlen(name));
                n += strlen(name);
        }
        s->item.name[n] = 0;
        s->item.type = TREE_FAIL;
        s->item.reason = reason;
        s->item.error = reason == TREE_FAIL_ERROR ? (uint32_t) error : 0;
        r = send_item(s);
        if (r >= 0)
                r = flush(s);
        return r < 0 ? r : -E2BIG;
}

/* Whether one more may be sent. Those that are left out count: they cost the reader as much. */
static int check_entry(TreeSender *s, const char *name, bool is_directory)
{
        const TreeState *state = &s->encoder.state;

        if (state->entries + state->left >= s->max_entries)
                return give_up(s, name, TREE_FAIL_FILES, 0);
        if (!tree_state_fits(state, name, is_directory))
                return give_up(s, name, TREE_FAIL_DEPTH, 0);
        atomic_fetch_add_explicit(&s->n_entries, 1, memory_order_relaxed);
        return 0;
}

static int send_left(TreeSender *s, const char *name, TreeLeft reason)
{
        int r = check_entry(s, name, false);

        if (r < 0)
                return r;
        s->item.type = TREE_LEFT;
        set_name(&s->item, name);
        s->item.reason = reason;
        return send_item(s);
}

/* ---- files */

static int send_node(TreeSender *s, TreeType type, const char *name, const struct stat *st)
{
        s->item.type = type;
        set_name(&s->item, name);
        s->item.mode = st->st_mode & 0777;
        s->item.mtime = st->st_mtim.tv_sec;
        s->item.nsec = (uint32_t) st->st_mtim.tv_nsec;
        return send_item(s);
}

static int send_eof(TreeSender *s, uint64_t size)
{
        s->item.type = TREE_EOF;
        s->item.size = size;
        return send_item(s);
}

/* Some bytes from where fd stands, which is offset. 1; 0: its end. */
static int send_some(TreeSender *s, int fd, uint64_t offset, size_t max, size_t *ret)
{
        uint8_t *p;
        ssize_t n;
        int r = make_room(s);

        if (r < 0)
                return r;
        p = tree_encode_data_begin(&s->encoder);
        do
                n = read(fd, p, MIN2(max, (size_t) TREE_DATA_MAX));
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return give_up(s, "", TREE_FAIL_ERROR, errno);
        if (n == 0)
                return 0;
        r = tree_encode_data_end(&s->encoder, offset, (size_t) n);
        if (r < 0)
                return r;
        if (s->observer.data)
                s->observer.data(s->observer.userdata, offset, p, (size_t) n);
        atomic_fetch_add_explicit(&s->n_bytes, (uint64_t) n, memory_order_relaxed);
        *ret = (size_t) n;
        return 1;
}

/* Bytes from *at up to end, or to where the file ends now. */
static int send_range(TreeSender *s, int fd, uint64_t *at, uint64_t end)
{
        size_t n;

        while (*at < end) {
                int r = send_some(s, fd, *at, MIN2(end - *at, (uint64_t) SIZE_MAX), &n);

                if (r <= 0)
                        return r;
                *at += n;
        }
        return 1;
}

/* Its holes are left out. Where the file system knows none, all of it is one extent. */
static int send_extents(TreeSender *s, int fd, uint64_t *ret_size, uint64_t size)
{
        uint64_t at = 0;

        while (at < size) {
                off_t data = lseek(fd, (off_t) at, SEEK_DATA), hole;
                int r;

                if (data < 0 && errno == ENXIO) /* only a hole is left */
                        break;
                hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
                if (data < 0 || hole < 0 || lseek(fd, data, SEEK_SET) < 0)
                        return give_up(s, "", TREE_FAIL_ERROR, errno);
                if ((uint64_t) data >= size)
                        break;
                at = (uint64_t) data;
                r = send_range(s, fd, &at, MIN2((uint64_t) hole, size));
                if (r < 0)
                        return r;
                if (r == 0) { /* it became shorter */
                        *ret_size = at;
                        return 0;
                }
        }
        *ret_size = size;
        return 0;
}

static bool has_holes(const struct stat *st)
{
        return (uint64_t) st->st_blocks * 512 < (uint64_t) st->st_size;
}

static int send_content(TreeSender *s, int fd, const struct stat *st)
{
        uint64_t size = (uint64_t) st->st_size, at = 0;
        int r;

        if (has_holes(st))
                r = send_extents(s, fd, &at, size);
        else
                r = send_range(s, fd, &at, size);
        return r < 0 ? r : send_eof(s, at);
}

static int send_file(TreeSender *s, const char *name, int fd, const struct stat *st)
{
        int r = check_entry(s, name, false);

        if (r < 0)
                return r;
        if ((uint64_t) st->st_size > s->max_bytes - MIN2(s->max_bytes, s->encoder.state.bytes))
                return give_up(s, name, TREE_FAIL_BYTES, 0);
        r = send_node(s, TREE_FILE, name, st);
        return r < 0 ? r : send_content(s, fd, st);
}

static TreeLeft left_of_mode(mode_t mode)
{
        return S_ISFIFO(mode) ? TREE_LEFT_FIFO : S_ISSOCK(mode) ? TREE_LEFT_SOCKET : TREE_LEFT_DEVICE;
}

/* ---- directories */

/* Whether the merge has nothing in this directory that the layer has not. 1; 0, or not known. */
static int hides_all(TreeLevel *l)
{
        struct stat st;
        ssize_t n;

        while ((n = getdents64(l->beside, l->names, sizeof(l->names))) > 0)
                for (size_t at = 0; at < (size_t) n;) {
                        const struct dirent64 *e = (const struct dirent64 *) (const void *) (l->names + at);

                        if (fstatat(l->fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                                return 0;
                        at += e->d_reclen;
                }
        return n == 0;
}

static int send_whole(TreeSender *s, TreeLevel *l)
{
        if (l->beside < 0 || !hides_all(l))
                return 0;
        s->item.type = TREE_WHOLE;
        return send_item(s);
}

/* fd and beside are taken over. */
static int enter(TreeSender *s, const char *name, int fd, int beside, const struct stat *st)
{
        TreeLevel *l = s->levels + s->n_levels;
        int r = check_entry(s, name, true);

        if (r >= 0)
                r = send_node(s, TREE_DIR, name, st);
        if (r < 0) {
                close(fd);
                closep(&beside);
                return r;
        }
        l->fd = fd;
        l->beside = beside;
        l->at = l->n = 0;
        s->n_levels++;
        return send_whole(s, l);
}

/* The directory of this name in what the innermost one is a layer of. */
static int open_beside(const TreeSender *s, const char *name)
{
        int above = s->levels[s->n_levels - 1].beside;

        return above < 0 ? -1 : openat(above, name, OPEN_FLAGS | O_DIRECTORY);
}

static int leave(TreeSender *s)
{
        close_level(s->levels + --s->n_levels);
        s->item.type = TREE_UP;
        return send_item(s);
}

/* What an open that failed means for the entry: it is left out, or (0) that is beyond one entry. */
static TreeLeft left_of_error(int error)
{
        switch (error) {
        case EACCES:
        case EPERM:
                return TREE_LEFT_UNREADABLE;
        case ENOENT:
        case ENOTDIR:
        case ELOOP:
        case ENXIO:
        case ESTALE:
        case EISDIR:
                return TREE_LEFT_CHANGED;
        default:
                return 0;
        }
}

static int send_link(TreeSender *s, int dir, const char *name)
{
        ssize_t n = readlinkat(dir, name, s->item.target, sizeof(s->item.target));
        int r;

        if (n < 0)
                return send_left(s, name, TREE_LEFT_CHANGED);
        if ((size_t) n >= sizeof(s->item.target))
                return send_left(s, name, TREE_LEFT_LINK);
        s->item.target[n] = 0;
        if (!tree_link_stays(s->encoder.state.depth, s->item.target))
                return send_left(s, name, TREE_LEFT_LINK);
        r = check_entry(s, name, false);
        if (r < 0)
                return r;
        s->item.type = TREE_LINK;
        set_name(&s->item, name);
        return send_item(s);
}

/* A regular file or a directory, as its directory says; what it is, the descriptor tells. */
static int send_opened(TreeSender *s, int dir, const char *name, bool is_directory)
{
        _cleanup_close_ int fd = openat(dir, name, OPEN_FLAGS | (is_directory ? O_DIRECTORY : 0));
        struct stat st;

        if (fd < 0) {
                TreeLeft left = left_of_error(errno);

                return left ? send_left(s, name, left) : give_up(s, name, TREE_FAIL_ERROR, errno);
        }
        if (fstat(fd, &st) < 0)
                return give_up(s, name, TREE_FAIL_ERROR, errno);
        if ((s->one_device && st.st_dev != s->device) ||
                        (is_directory ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode)))
                return send_left(s, name, TREE_LEFT_CHANGED);
        return is_directory ? enter(s, name, TAKE_FD(fd), open_beside(s, name), &st) : send_file(s, name, fd, &st);
}

/* Neither a file nor a directory nor a link. */
static int send_special(TreeSender *s, int dir, const char *name, unsigned char type)
{
        struct stat st;

        if (s->is_layer && type == DT_CHR && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) >= 0 && S_ISCHR(st.st_mode) && st.st_rdev == 0)
                return send_left(s, name, TREE_LEFT_WHITEOUT);
        return send_left(s, name, left_of_mode(DTTOIF(type)));
}

static int send_entry(TreeSender *s, int dir, const char *name, unsigned char type)
{
        struct stat st;

        if (type == DT_UNKNOWN) {
                if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        return send_left(s, name, TREE_LEFT_CHANGED);
                type = (unsigned char) IFTODT(st.st_mode);
        }
        switch (type) {
        case DT_REG:
        case DT_DIR:
                return send_opened(s, dir, name, type == DT_DIR);
        case DT_LNK:
                return send_link(s, dir, name);
        default:
                return send_special(s, dir, name, type);
        }
}

/* The next entry of the innermost directory. */
static int step(TreeSender *s)
{
        TreeLevel *l = s->levels + s->n_levels - 1;
        const struct dirent64 *e;

        if (l->at == l->n) {
                ssize_t n = getdents64(l->fd, l->names, sizeof(l->names));

                if (n < 0 && errno != ENOENT) /* that: it was removed */
                        return give_up(s, "", TREE_FAIL_ERROR, errno);
                if (n <= 0)
                        return leave(s);
                l->at = 0;
                l->n = (size_t) n;
        }
        e = (const struct dirent64 *) (const void *) (l->names + l->at);
        l->at += e->d_reclen;
        if (streq(e->d_name, ".") || streq(e->d_name, ".."))
                return 0;
        return send_entry(s, l->fd, e->d_name, e->d_type);
}

/* ---- tops */

static int begin_top(TreeSender *s, const char *path)
{
        if (!tree_path_is_valid(path))
                return -EINVAL;
        s->item.type = TREE_TOP;
        set_name(&s->item, path);
        return send_item(s);
}

int tree_send_top(TreeSender *s, const char *path, int fd)
{
        return tree_send_layer(s, path, fd, -1);
}

int tree_send_layer(TreeSender *s, const char *path, int fd, int beside)
{
        _cleanup_close_ int owned = fd, owned_beside = beside;
        struct stat st;
        int r = begin_top(s, path);

        if (r < 0)
                return r;
        if (fstat(fd, &st) < 0)
                return give_up(s, "", TREE_FAIL_ERROR, errno);
        s->device = st.st_dev;
        if (S_ISREG(st.st_mode))
                return send_file(s, "", fd, &st);
        if (!S_ISDIR(st.st_mode))
                return send_left(s, "", left_of_mode(st.st_mode));
        r = enter(s, "", TAKE_FD(owned), TAKE_FD(owned_beside), &st);
        while (r >= 0 && s->n_levels > 0)
                r = step(s);
        return r;
}

/* Somebody may be typing. */
static int wait_readable(const TreeSender *s, int fd)
{
        struct pollfd p[] = { { .fd = fd, .events = POLLIN }, { .fd = s->cancel_fd, .events = POLLIN } };

        if (poll(p, ELEMENTSOF(p), -1) < 0)
                return errno == EINTR ? 0 : -errno;
        return p[1].revents ? -ECANCELED : 0;
}

int tree_send_stream(TreeSender *s, const char *path, int fd, uint32_t mode)
{
        struct stat st = { .st_mode = mode };
        uint64_t at = 0;
        size_t n = 0;
        int r = begin_top(s, path);

        if (r >= 0)
                r = check_entry(s, "", false);
        if (r < 0)
                return r;
        (void) clock_gettime(CLOCK_REALTIME, &st.st_mtim);
        r = send_node(s, TREE_FILE, "", &st);
        while (r >= 0) {
                r = wait_readable(s, fd);
                if (r >= 0)
                        r = send_some(s, fd, at, TREE_DATA_MAX, &n);
                if (r == 0)
                        return send_eof(s, at);
                at += r > 0 ? n : 0;
                if (r > 0 && at > s->max_bytes - MIN2(s->max_bytes, s->encoder.state.bytes))
                        r = give_up(s, "", TREE_FAIL_BYTES, 0);
        }
        return r;
}

int tree_send_left(TreeSender *s, const char *path, TreeLeft reason)
{
        int r = begin_top(s, path);

        return r < 0 ? r : send_left(s, "", reason);
}

int tree_send_end(TreeSender *s)
{
        const TreeState *state = &s->encoder.state;
        int r;

        s->item.type = TREE_END;
        s->item.entries = state->entries;
        s->item.bytes = state->bytes;
        s->item.left = state->left;
        r = send_item(s);
        return r < 0 ? r : flush(s);
}

static int open_component(int dir, const char *name, bool last, TreeLeft *ret_left)
{
        struct stat st;
        int fd;

        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (S_ISLNK(st.st_mode))
                return -ELOOP;
        if (last && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
                *ret_left = left_of_mode(st.st_mode);
                return -ENXIO;
        }
        fd = openat(dir, name, OPEN_FLAGS | (last ? 0 : O_DIRECTORY));
        return fd < 0 ? -errno : fd;
}

int tree_open_beneath(int dir_fd, const char *path, TreeLeft *ret_left)
{
        _cleanup_close_ int fd = openat(dir_fd, ".", OPEN_FLAGS | O_DIRECTORY);
        char name[TREE_NAME_MAX + 1];

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
                next = open_component(fd, name, !*path, ret_left);
                if (next < 0)
                        return next;
                close(fd);
                fd = next;
        }
        return TAKE_FD(fd);
}
