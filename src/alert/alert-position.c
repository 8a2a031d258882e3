/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "alert/alert-position.h"
#include "base/io.h"
#include "base/parse.h"
#include "base/strv.h"

int alert_position_read(int dir_fd, const char *name, AlertPosition *ret)
{
        _cleanup_free_ char *text = NULL;
        _cleanup_strv_ char **lines = NULL;
        uint64_t done;
        int r = read_file_at(dir_fd, name, 4 * CURSOR_MAX, &text, NULL);

        if (r >= 0)
                r = strv_split(text, "\n", &lines);
        if (r < 0)
                return r;
        if (strv_length(lines) != 3 || strlen(lines[0]) >= CURSOR_MAX || strlen(lines[1]) >= CURSOR_MAX || parse_u64(lines[2], &done) < 0)
                return -EBADMSG;
        *ret = (AlertPosition){ .done = done };
        memcpy(ret->from, lines[0], strlen(lines[0]));
        memcpy(ret->to, lines[1], strlen(lines[1]));
        return 0;
}

int alert_position_write(int dir_fd, const char *name, const AlertPosition *p)
{
        _cleanup_close_ int fd = -1;
        char text[3 * CURSOR_MAX], other[64];
        int n = snprintf(text, sizeof(text), "%s\n%s\n%llu\n", p->from, p->to, (unsigned long long) p->done), r;

        snprintf(other, sizeof(other), "%s.new", name);
        fd = openat(dir_fd, other, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return -errno;
        r = write_full(fd, text, (size_t) n);
        if (r < 0)
                return r;
        return fsync(fd) < 0 || renameat(dir_fd, other, dir_fd, name) < 0 ? -errno : 0;
}
