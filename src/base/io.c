/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/io.h"

#define ATTEMPTS_MAX 32

int read_file_at(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_size)
{
        _cleanup_close_ int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        _cleanup_free_ char *data = NULL;
        size_t size = 0, allocated = 0;

        if (fd < 0)
                return -errno;
        for (;;) {
                ssize_t n;

                if (allocated - size < 4096) {
                        char *d = realloc(data, allocated = MAX2((size_t) 8192, allocated * 2));

                        if (!d)
                                return -ENOMEM;
                        data = d;
                }
                n = read(fd, data + size, allocated - size - 1);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                size += (size_t) n;
                if (size > max)
                        return -EFBIG;
        }
        data[size] = 0;
        *ret = TAKE_PTR(data);
        if (ret_size)
                *ret_size = size;
        return 0;
}

int read_file(const char *path, size_t max, char **ret, size_t *ret_size)
{
        return read_file_at(AT_FDCWD, path, max, ret, ret_size);
}

int write_full(int fd, const void *p, size_t n)
{
        const char *c = p;

        while (n > 0) {
                ssize_t k = write(fd, c, n);

                if (k < 0 && errno == EINTR)
                        continue;
                if (k < 0)
                        return -errno;
                c += k;
                n -= (size_t) k;
        }
        return 0;
}

int write_new_file_at(int dir_fd, const char *name, const void *p, size_t n, mode_t mode)
{
        _cleanup_close_ int fd =
                        openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
        int r;

        if (fd < 0)
                return -errno;
        r = write_full(fd, p, n);
        if (r >= 0 && fchmod(fd, mode) < 0)
                r = -errno;
        if (r < 0)
                unlinkat(dir_fd, name, 0);
        return r;
}

#define ALL_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

int memfd_sealed(const char *name, const void *p, size_t n)
{
        _cleanup_close_ int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
        int r;

        if (fd < 0)
                return -errno;
        r = write_full(fd, p, n);
        if (r < 0)
                return r;
        if (fcntl(fd, F_ADD_SEALS, ALL_SEALS) < 0)
                return -errno;
        return TAKE_FD(fd);
}

int memfd_read_sealed(int fd, size_t max, void **ret, size_t *ret_size)
{
        _cleanup_free_ char *data = NULL;
        struct stat st;
        size_t done = 0;
        int seals = fcntl(fd, F_GET_SEALS);

        if (seals < 0)
                return -errno;
        if ((seals & ALL_SEALS) != ALL_SEALS)
                return -EPERM;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (st.st_size < 0 || (uint64_t) st.st_size > max)
                return -EFBIG;
        data = malloc((size_t) st.st_size + 1);
        if (!data)
                return -ENOMEM;
        while (done < (size_t) st.st_size) {
                ssize_t k = pread(fd, data + done, (size_t) st.st_size - done, (off_t) done);

                if (k < 0 && errno == EINTR)
                        continue;
                if (k <= 0)
                        return k < 0 ? -errno : -EIO;
                done += (size_t) k;
        }
        data[done] = 0;
        *ret = TAKE_PTR(data);
        *ret_size = done;
        return 0;
}

int fd_set_nonblock(int fd, bool nonblock)
{
        int flags = fcntl(fd, F_GETFL);

        if (flags < 0)
                return -errno;
        if (fcntl(fd, F_SETFL, nonblock ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) < 0)
                return -errno;
        return 0;
}

int open_resolved(int dir_fd, const char *path, uint64_t flags, uint64_t resolve)
{
        struct open_how how = { .flags = flags | O_CLOEXEC, .resolve = resolve };

        /* EAGAIN: somebody renamed something, anywhere, while ".." was followed. */
        for (unsigned i = 0;; i++) {
                long fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));

                if (fd >= 0)
                        return (int) fd;
                if (errno != EAGAIN || i >= ATTEMPTS_MAX)
                        return -errno;
        }
}
