/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/child.h"
#include "base/parse.h"
#include "disk/disk-image.h"

#define MKE2FS "/sbin/mke2fs"
#define MKE2FS_FAILS MKE2FS " (package e2fsprogs) cannot be executed, or fails"
#define MKE2FS_SECONDS 10u
/* Of the numbers that systemd's list of users and groups gives to nobody: no other process has it, so none can reach into
 * mke2fs, or into its file, which is this user's meanwhile. */
#define MKE2FS_UID 2000000007u
#define IMAGE_FD 3
#define IMAGE_PATH "/proc/self/fd/3"
#define BLOCK 4096u
#define BLOCKS_PER_GROUP 32768u
/* What lasts in each group, by whole blocks of inodes. */
#define INODES_PER_BLOCK 16u
/* As much of the host's disk stays free. */
#define MIB (UINT64_C(1) << 20)
#define KEEP_PART 10u
#define KEEP_MAX (UINT64_C(4) << 30)

static int check_room(int fd, const char *path, uint64_t size, Error **reterr)
{
        _cleanup_free_ char *wanted = format_size(size), *kept = NULL, *there = NULL;
        uint64_t room, keep;
        struct statvfs st;

        if (fstatvfs(fd, &st) < 0)
                return error_set(reterr, -errno, "%s: %m", path);
        room = (uint64_t) st.f_bavail * st.f_frsize;
        keep = MIN2((uint64_t) st.f_blocks * st.f_frsize / KEEP_PART, KEEP_MAX);
        if (room >= keep && room - keep >= size)
                return 0;
        kept = format_size(keep - keep % MIB);
        there = format_size(room - room % MIB);
        return error_set(reterr, -ENOSPC,
                        "the disk of %s has no room for WorkspaceSize=%s: %s are free, of which %s stay so", path,
                        wanted ?: "?", there ?: "?", kept ?: "?");
}

static int take_room(int fd, const char *path, uint64_t size, Error **reterr)
{
        if (fallocate(fd, 0, 0, (off_t) size) >= 0)
                return 0;
        return errno == EOPNOTSUPP ? error_set(reterr, -EOPNOTSUPP,
                                                     "the file system of %s cannot take room for a file beforehand", path)
                                   : error_set(reterr, -errno, "cannot take room in %s: %m", path);
}

/* Not even root can give it a name (O_EXCL). */
static int make_file(int dir_fd, const char *path, uint64_t size, int *ret, Error **reterr)
{
        _cleanup_close_ int fd = openat(dir_fd, ".", O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
        int r;

        if (fd < 0)
                return error_set(reterr, -errno, "cannot make a file in %s: %m", path);
        /* Nobody takes, between the look and the taking, what is to stay free. */
        if (flock(dir_fd, LOCK_EX) < 0)
                return error_set(reterr, -errno, "cannot lock %s: %m", path);
        r = check_room(fd, path, size, reterr);
        if (r >= 0)
                r = take_room(fd, path, size, reterr);
        (void) flock(dir_fd, LOCK_UN);
        if (r >= 0)
                *ret = TAKE_FD(fd);
        return r;
}

/* ---- mke2fs, of which nothing is expected but a file that the kernel mounts, and which is given nothing but that file */

typedef struct Mke2fs {
        int image, null;
        char **argv;
} Mke2fs;

/* Returns only where it fails. */
static int become_mke2fs(const void *argument)
{
        static char *const environment[] = { (char *) "MKE2FS_CONFIG=/dev/null", NULL };
        const Mke2fs *m = argument;
        int image = fcntl(m->image, F_DUPFD_CLOEXEC, IMAGE_FD + 1), null = fcntl(m->null, F_DUPFD_CLOEXEC, IMAGE_FD + 1);
        sigset_t none;

        sigemptyset(&none);
        if (image < 0 || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ||
                        dup2(image, IMAGE_FD) < 0 || close_range(IMAGE_FD + 1, ~0u, 0) < 0 ||
                        sigprocmask(SIG_SETMASK, &none, NULL) < 0)
                return -errno;
        if (setgroups(0, NULL) < 0 || setresgid(MKE2FS_UID, MKE2FS_UID, MKE2FS_UID) < 0 ||
                        setresuid(MKE2FS_UID, MKE2FS_UID, MKE2FS_UID) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
                        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        alarm(MKE2FS_SECONDS); /* which execve() keeps */
        execve(MKE2FS, m->argv, environment);
        return -errno;
}

/* mke2fs gives each group as many inodes, in whole blocks, and rounds up. */
static uint64_t whole_inodes(uint64_t size, uint64_t inodes)
{
        uint64_t groups = (size / BLOCK + BLOCKS_PER_GROUP - 1) / BLOCKS_PER_GROUP, step = groups * INODES_PER_BLOCK;

        return inodes / step * step;
}

/* No journal, for there is no next mount; no table of inodes written before it is used, for a new file reads as zeroes. */
static int fill(int image, uint64_t size, uint64_t inodes, int wanted_fd, Error **reterr)
{
        _cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        char n[32];
        char *argv[] = { (char *) "mke2fs", (char *) "-q", (char *) "-F", (char *) "-t", (char *) "ext2", (char *) "-O",
                (char *) "none,dir_index,dir_nlink,ext_attr,extent,extra_isize,filetype,flex_bg,huge_file,large_file,"
                         "sparse_super,uninit_bg,64bit",
                (char *) "-E", (char *) "lazy_itable_init=1,nodiscard,root_owner=0:0", (char *) "-b", (char *) "4096",
                (char *) "-I", (char *) "256", (char *) "-m", (char *) "0", (char *) "-N", n, (char *) IMAGE_PATH, NULL };
        int r;

        snprintf(n, sizeof(n), "%" PRIu64, whole_inodes(size, inodes));
        if (null < 0)
                return error_set(reterr, -errno, "/dev/null: %m");
        if (fchown(image, MKE2FS_UID, MKE2FS_UID) < 0)
                return error_set(reterr, -errno, "cannot give a file to mke2fs: %m");
        r = child_work(become_mke2fs, &(Mke2fs){ .image = image, .null = null, .argv = argv }, wanted_fd, MKE2FS_FAILS, reterr);
        if (r >= 0 && fchown(image, 0, 0) < 0)
                return error_set(reterr, -errno, "cannot take a file back from mke2fs: %m");
        return r;
}

int disk_image_make(int dir_fd, const char *path, uint64_t size, uint64_t inodes, int wanted_fd, int *ret_fd, Error **reterr)
{
        _cleanup_close_ int fd = -1;
        int r;

        size -= size % BLOCK;
        r = make_file(dir_fd, path, size, &fd, reterr);
        if (r >= 0)
                r = fill(fd, size, inodes, wanted_fd, reterr);
        /* Where mke2fs wants zeroes, it may have given room back. */
        if (r >= 0)
                r = take_room(fd, path, size, reterr);
        if (r < 0)
                return r;
        *ret_fd = TAKE_FD(fd);
        return 0;
}
