/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/io.h"
#include "broker/verify.h"

/* Decoys that nobody watches, or that the run does not see, would be worse than none: so the kernel is asked for both. */

bool has_decoys(const VerifyInput *in)
{
        return !in->context->scope && policy_u64(in->policy, AUDIT_DECOYS);
}

static int check_home(const VerifyInput *in, int root_fd, Buf *why)
{
        _cleanup_close_ int fd = open_resolved(root_fd, UNIT_HOME, O_RDONLY | O_DIRECTORY,
                        RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
        AttestFs fs = {};
        struct statfs s;
        struct stat st;

        if (fd < 0)
                return broken(why, "%s is not there: %s", UNIT_HOME, strerror(-fd));
        if (in->host->statfs(fd, &s) < 0 || fstat(fd, &st) < 0)
                return -errno;
        if ((st.st_mode & 0777) != 0700)
                return broken(why, "%s is not the run's alone", UNIT_HOME);
        fs.type = (uint64_t) s.f_type;
        fs.flags = (uint64_t) s.f_flags;
        fs.bytes = (uint64_t) s.f_blocks * (uint64_t) s.f_bsize;
        fs.inodes = (uint64_t) s.f_files;
        return verify_sized_tmpfs(in, UNIT_HOME, &fs, policy_u64(in->policy, FILES_TMP_SIZE), why);
}

static int check_decoy(const VerifyInput *in, int root_fd, const Decoy *d, Buf *why)
{
        const char *path = decoy_rows[d->row].path;
        _cleanup_close_ int fd = open_resolved(root_fd, path, O_PATH | O_NOFOLLOW,
                        RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
        struct stat st;
        int r;

        if (fd < 0)
                return broken(why, "%s is not there: %s", path, strerror(-fd));
        if (fstat(fd, &st) < 0)
                return -errno;
        if (st.st_dev != d->device || st.st_ino != d->inode || !S_ISREG(st.st_mode))
                return broken(why, "%s is another file", path);
        r = in->host->is_marked(in->tripwire_fd, d->device, d->inode);
        return r == 0 ? broken(why, "nobody watches %s", path) : MIN2(r, 0);
}

int verify_decoys(const VerifyInput *in, Buf *why)
{
        _cleanup_close_ int root_fd = -1;
        char path[PATH_MAX];
        int verdict = 0, r;

        if (!in->decoys || in->decoys->n != n_decoy_rows)
                return broken(why, "not all of them were put in place");
        snprintf(path, sizeof(path), "%s/%i/root", in->host->proc ? in->host->proc : "/proc", (int) in->peer.pid);
        root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root_fd < 0)
                return -errno;
        r = check_home(in, root_fd, why);
        if (r < 0)
                return r;
        verdict |= r;
        for (size_t i = 0; i < in->decoys->n; i++) {
                r = check_decoy(in, root_fd, in->decoys->l + i, why);
                if (r < 0)
                        return r;
                verdict |= r;
        }
        return verdict;
}
