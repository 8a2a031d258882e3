/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/escape.h"
#include "base/io.h"
#include "broker/verify.h"

/* The credentials of a run: PID 1 puts them into a file system of their own, in memory, and binds that into
 * the run's /run. Where it could not make one it would use a plain directory of the host's /run, and say
 * nothing. Names, sizes and modes are looked at, never the content. */

#define CREDENTIALS "/run/credentials"

bool has_credentials(const VerifyInput *in)
{
        return was_sent(in, "LoadCredential");
}

int credentials_directory(const VerifyInput *in, char **ret)
{
        const char *unit = strrchr(in->control_group, '/') + 1;

        return asprintf(ret, CREDENTIALS "/%s", unit) < 0 ? -ENOMEM : 0;
}

bool is_mount_of_credentials(const VerifyInput *in, const char *target, const char *type)
{
        _cleanup_free_ char *directory = NULL;

        if (!has_credentials(in) || credentials_directory(in, &directory) < 0)
                return false;
        return streq(target, CREDENTIALS)
                               ? streq(type, "tmpfs")
                               : streq(target, directory) && (streq(type, "ramfs") || streq(type, "tmpfs"));
}

static int check_mount(const VerifyInput *in, const char *path, Buf *why)
{
        static const char *const wanted[] = { "ro", "nosuid", "nodev", "noexec" };
        _cleanup_free_ char *type = NULL, *options = NULL, *super = NULL;
        int verdict = 0, r = mountinfo_find(in->attest->mountinfo, path, &type, &options, &super);

        if (r == -ENOENT)
                return broken(why, "nothing is mounted on %s", path);
        if (r < 0)
                return r;
        if (!is_mount_of_credentials(in, path, type))
                verdict = broken(why, "%s is a file system of another kind", path);
        for (size_t i = 0; i < ELEMENTSOF(wanted); i++)
                if (!has_mount_option(options, wanted[i]))
                        verdict = broken(why, "%s is not mounted %s", path, wanted[i]);
        return verdict;
}

/* The run's, or root's with an access list for the run (whose mask then stands in the group's bits). */
static bool is_closed(const VerifyInput *in, const struct stat *st)
{
        return st->st_uid == in->peer.uid
                               ? (st->st_mode & (S_IRWXG | S_IRWXO)) == 0
                               : st->st_uid == geteuid() && (st->st_mode & (S_IWGRP | S_IRWXO)) == 0;
}

static int check_entry(const VerifyInput *in, int fd, const char *name, Buf *why)
{
        _cleanup_free_ char *shown = escape_for_display(name, strlen(name), 80);
        const RootCredential *c = NULL;
        struct stat st;

        if (!shown)
                return -ENOMEM;
        for (size_t i = 0; i < in->root->n_credentials && !c; i++)
                if (streq(in->root->credentials[i].name, name))
                        c = in->root->credentials + i;
        if (!c)
                return broken(why, "there is %s, which the policy does not name", shown);
        if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode) || !is_closed(in, &st))
                return broken(why, "%s is not a file for the run alone", shown);
        if ((uint64_t) st.st_size != c->size)
                return broken(why, "%s holds %lli bytes, and the file of the host %llu", shown,
                                (long long) st.st_size, (unsigned long long) c->size);
        return 0;
}

static int check_entries(const VerifyInput *in, int fd, Buf *why)
{
        DIR *d = fdopendir(fd);
        int r = 0, verdict = 0;
        size_t n = 0;

        if (!d) {
                r = -errno;
                close(fd);
                return r;
        }
        for (struct dirent *e; r >= 0 && (e = readdir(d));) {
                if (streq(e->d_name, ".") || streq(e->d_name, ".."))
                        continue;
                n++;
                r = check_entry(in, dirfd(d), e->d_name, why);
                verdict |= r;
        }
        closedir(d);
        if (r < 0)
                return r;
        return n == in->root->n_credentials ? verdict
                                            : broken(why, "there are %zu credentials instead of %zu", n,
                                                              in->root->n_credentials);
}

static int open_directory(const VerifyInput *in, const char *directory)
{
        _cleanup_close_ int root_fd = -1;
        char path[PATH_MAX];

        snprintf(path, sizeof(path), "%s/%i/root", in->host->proc ? in->host->proc : "/proc",
                        (int) in->peer.pid);
        root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root_fd < 0)
                return -errno;
        return open_resolved(root_fd, directory, O_RDONLY | O_DIRECTORY,
                        RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

int verify_credentials(const VerifyInput *in, Buf *why)
{
        _cleanup_free_ char *directory = NULL;
        struct stat st;
        int r = credentials_directory(in, &directory), verdict, fd;

        if (r < 0)
                return r;
        verdict = check_mount(in, CREDENTIALS, why);
        if (verdict < 0)
                return verdict;
        r = check_mount(in, directory, why);
        if (r < 0)
                return r;
        verdict |= r;
        fd = open_directory(in, directory);
        if (fd < 0)
                return broken(why, "%s cannot be looked into: %s", directory, strerror(-fd));
        if (fstat(fd, &st) < 0) {
                r = -errno;
                close(fd);
                return r;
        }
        if (!is_closed(in, &st))
                verdict = broken(why, "%s is open to others than the run", directory);
        r = check_entries(in, fd, why);
        return r < 0 ? r : r | verdict;
}
