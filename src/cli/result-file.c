/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/io.h"
#include "cli/facts.h"
#include "cli/output.h"
#include "cli/result-file.h"

/* What a record can be written to as it is: nothing that holds data already, as a disk does. */
static bool can_take(const struct stat *st)
{
        return S_ISFIFO(st->st_mode) || S_ISCHR(st->st_mode);
}

static bool is_special(const char *path)
{
        struct stat st;

        return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

static char *directory_of(const char *path)
{
        const char *slash = strrchr(path, '/');

        if (!slash)
                return strdup(".");
        return slash == path ? strdup("/") : strndup(path, (size_t) (slash - path));
}

int result_file_check(const char *path, Error **reterr)
{
        _cleanup_free_ char *directory = directory_of(path);
        const char *name = strrchr(path, '/');
        bool special = is_special(path);
        struct stat st;
        int r = 0;

        if (!directory)
                return error_set(reterr, -ENOMEM, "out of memory");
        if (special && stat(path, &st) == 0 && !can_take(&st))
                r = S_ISDIR(st.st_mode) ? -EISDIR : -EEXIST;
        else if (!*path || (name && !name[1]))
                r = -ENOENT;
        else if (access(special ? path : directory, special ? W_OK : W_OK | X_OK) < 0)
                r = -errno;
        return r < 0 ? error_set(reterr, r, "--result: cannot write %s: %s", path, strerror(-r)) : 0;
}

static int write_special(const char *path, const Buf *text)
{
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        /* Meanwhile the name may lead elsewhere. What is written over stays as it was. */
        return can_take(&st) ? write_full(fd, text->data, text->size) : -EEXIST;
}

/* The new name is beside the old one, so that the rename stays inside one file system. */
static int write_and_rename(const char *path, const Buf *text)
{
        _cleanup_free_ char *temporary = NULL;
        _cleanup_close_ int fd = -1;
        mode_t mask = umask(0);
        int r;

        umask(mask);
        if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
                return -ENOMEM;
        fd = mkostemp(temporary, O_CLOEXEC);
        if (fd < 0)
                return -errno;
        r = write_full(fd, text->data, text->size);
        if (r >= 0 && fchmod(fd, 0666 & ~mask) < 0)
                r = -errno;
        if (r >= 0 && rename(temporary, path) < 0)
                r = -errno;
        if (r < 0)
                unlink(temporary);
        return r;
}

int result_file_write(const char *path, const RunResult *result, Error **reterr)
{
        _cleanup_json_ json_t *object = result_to_json(result);
        _cleanup_free_ char *json = object ? json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
        _cleanup_buf_ Buf text = {};
        int r = json ? buf_printf(&text, "%s\n", json) : -ENOMEM;

        if (r >= 0)
                r = is_special(path) ? write_special(path, &text) : write_and_rename(path, &text);
        return r < 0 ? error_set(reterr, r, "--result: cannot write %s: %s", path, strerror(-r)) : 0;
}
