/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/escape.h"
#include "cli/copy-view.h"

int view_open(View *v, const char *path, Error **reterr)
{
        _cleanup_free_ char *shown = escape_for_display(path, strlen(path), PATH_MAX);
        int r;

        v->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (v->fd < 0)
                return error_set(reterr, -errno, "--view %s: %s", shown ?: "?", strerror(errno));
        r = manifest_init(&v->seen);
        return r < 0 ? error_set(reterr, r, "no random numbers: %s", strerror(-r)) : 0;
}

void view_done(View *v)
{
        closep(&v->fd);
        manifest_done(&v->seen);
        manifest_done(&v->whole);
        *v = VIEW_NONE;
}

/* ---- the directory as it is */

/* The last part of the path may be a link with O_PATH and O_NOFOLLOW alone. */
static int open_in(const View *v, const char *path, uint64_t flags)
{
        struct open_how how = {
                .flags = flags | O_NOFOLLOW | O_CLOEXEC,
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
        };
        int fd = (int) syscall(SYS_openat2, v->fd, *path ? path : ".", &how, sizeof(how));

        return fd < 0 ? -errno : fd;
}

static bool looks_at(const View *v, const char *path, struct stat *ret)
{
        _cleanup_close_ int fd = open_in(v, path, O_PATH);

        return fd >= 0 && fstat(fd, ret) >= 0;
}

bool view_has(const View *v, const char *path, bool *ret_directory)
{
        struct stat st;

        if (!looks_at(v, path, &st))
                return false;
        *ret_directory = S_ISDIR(st.st_mode);
        return true;
}

/* 0: it is of another size, or could not be read to its end. */
static int digest_file(const View *v, const char *path, uint64_t size, uint8_t ret[COPY_DIGEST_SIZE])
{
        _cleanup_close_ int fd = open_in(v, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        uint8_t bytes[16 * DIGEST_PAGE];
        uint64_t at = 0;
        CopyDigest d;
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t) st.st_size != size)
                return 0;
        copy_digest_begin(&d, &v->seen.key);
        while (at <= size) {
                ssize_t n = read(fd, bytes, sizeof(bytes));

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return 0;
                if (n == 0)
                        break;
                copy_digest_data(&d, at, bytes, (size_t) n);
                at += (size_t) n;
        }
        copy_digest_end(&d, at, ret);
        return at == size;
}

static int digest_link(const View *v, const char *path, uint8_t ret[COPY_DIGEST_SIZE])
{
        _cleanup_close_ int fd = open_in(v, path, O_PATH);
        char target[PATH_MAX];
        ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", target, sizeof(target));

        if (n < 0 || (size_t) n >= sizeof(target))
                return 0;
        target[n] = 0;
        copy_digest_text(&v->seen.key, target, ret);
        return 1;
}

Change view_compare(const View *v, const char *path, TreeType type, uint32_t mode, uint64_t size,
                const uint8_t *digest)
{
        static const mode_t formats[_TREE_TYPE_MAX] = {
                [TREE_DIR] = S_IFDIR, [TREE_FILE] = S_IFREG, [TREE_LINK] = S_IFLNK
        };
        uint8_t is[COPY_DIGEST_SIZE];
        struct stat st;
        int k;

        if (!looks_at(v, path, &st))
                return CHANGE_ADDED;
        if ((st.st_mode & S_IFMT) != formats[type])
                return CHANGED;
        if (type == TREE_DIR)
                return CHANGE_NONE;
        if (type == TREE_FILE && ((st.st_mode & 0111) != 0) != ((mode & 0111) != 0))
                return CHANGED;
        k = type == TREE_FILE ? digest_file(v, path, size, is) : digest_link(v, path, is);
        return k > 0 && memcmp(is, digest, sizeof(is)) == 0 ? CHANGE_NONE : CHANGED;
}

/* ---- what is no more */

void view_observe(View *v, const TreeState *s, const TreeItem *i)
{
        switch (i->type) {
        case TREE_DIR:
        case TREE_FILE:
        case TREE_LINK:
        case TREE_LEFT:
                manifest_add(&v->seen, s->path, i->type);
                break;
        case TREE_WHOLE:
                manifest_add(&v->whole, s->path, TREE_DIR);
                break;
        default:
                break;
        }
}

static int deleted_in(View *v, const char *directory, void *userdata,
                int (*deleted)(void *userdata, const char *path, bool directory))
{
        int fd = open_in(v, directory, O_RDONLY | O_DIRECTORY), r = 0;
        DIR *d = fd < 0 ? NULL : fdopendir(fd);

        if (!d) { /* it is the run's alone, or not to be read */
                closep(&fd);
                return 0;
        }
        for (struct dirent *e; r >= 0 && (e = readdir(d));) {
                char path[PATH_MAX];
                bool is_directory;

                if (streq(e->d_name, ".") || streq(e->d_name, "..") ||
                                snprintf(path, sizeof(path), "%s%s%s", directory, *directory ? "/" : "",
                                                e->d_name) >= (int) sizeof(path))
                        continue;
                if (!manifest_has(&v->seen, path) && view_has(v, path, &is_directory))
                        r = deleted(userdata, path, is_directory);
        }
        closedir(d);
        return r;
}

int view_deleted(View *v, void *userdata, int (*deleted)(void *userdata, const char *path, bool directory))
{
        int r = v->seen.error < 0 ? v->seen.error : v->whole.error;

        manifest_sort(&v->seen);
        for (size_t i = 0; i < v->whole.n && r >= 0; i++)
                r = deleted_in(v, v->whole.entries[i].path, userdata, deleted);
        return r;
}
