/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "base/io.h"
#include "view/view.h"

#define MOUNTINFO_MAX (4u << 20)

/* The steps of a view share what they have opened. */
typedef struct View {
        const ViewRequest *request;
        const int *fds;
        int tree_fd;   /* a copy of the mount that the host's directory lies on, attached nowhere at first */
        int proc_fd;   /* /proc of the host: the run's hides processes */
        int ws_fd;     /* the run's workspace, O_PATH */
        int merged_fd; /* the overlay */
        int changes_fd; /* its upper layer */
} View;

/* ---- the host's tree */

/* Of a mount table: whether one lies on the mount id; with only_unbindable, such a one, which no copy of the
 * tree has. */
static int has_mount_on(const View *v, uint64_t id, bool only_unbindable)
{
        _cleanup_free_ char *table = NULL;
        int r = read_file_at(v->proc_fd, "self/mountinfo", MOUNTINFO_MAX, &table, NULL);

        if (r < 0)
                return r;
        for (char *line = table, *next; *line; line = next) {
                unsigned long long own, parent;
                char *end = strchrnul(line, '\n');

                next = end + (*end == '\n');
                *end = 0;
                if (sscanf(line, "%llu %llu ", &own, &parent) != 2)
                        return -EBADMSG;
                if (parent == id && own != id && (!only_unbindable || strstr(line, " unbindable ")))
                        return 1;
        }
        return 0;
}

static int mount_id(int fd, uint64_t *ret)
{
        struct statx st;

        if (statx(fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_MNT_ID, &st) < 0)
                return -errno;
        if (!(st.stx_mask & STATX_MNT_ID))
                return -EOPNOTSUPP;
        *ret = st.stx_mnt_id;
        return 0;
}

/* With all that is mounted beneath it, to see whether there is anything. The kernel copies mounts of this
 * process's own namespace alone, which is the host's: a tree that somebody put together in a namespace of
 * his own is refused. */
static int clone_tree(View *v)
{
        struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
                .propagation = MS_PRIVATE };
        int fd = v->fds[VIEW_REQUEST_TREE], r;
        uint64_t id;

        v->tree_fd = open_tree(fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
        if (v->tree_fd < 0)
                return -errno;
        r = mount_id(fd, &id);
        if (r >= 0)
                r = has_mount_on(v, id, true);
        if (r != 0)
                return r < 0 ? r : -EXDEV;
        return mount_setattr(v->tree_fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0 ? -errno
                                                                                                    : 0;
}

static int map_owner(View *v)
{
        struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP };
        _cleanup_close_ int map = -1;
        int r = view_map_open(v->request, &map);

        if (r < 0)
                return r;
        attr.userns_fd = (uint64_t) map;
        return mount_setattr(v->tree_fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ? -errno : 0;
}

/* ---- in the run's mounts, in which nothing but the shim has run yet */

static int enter(View *v)
{
        struct open_how how = {
                .flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
        };
        struct statfs fs;
        struct statx st;

        if (setns(v->fds[VIEW_REQUEST_MOUNTS], CLONE_NEWNS) < 0)
                return -errno;
        v->ws_fd = (int) syscall(SYS_openat2, AT_FDCWD, v->request->workspace, &how, sizeof(how));
        if (v->ws_fd < 0)
                return -errno;
        if (fstatfs(v->ws_fd, &fs) < 0 || statx(v->ws_fd, "", AT_EMPTY_PATH, 0, &st) < 0)
                return -errno;
        /* A file system of the run's own, and never what its mounts have only a part of. */
        if ((fs.f_type != TMPFS_MAGIC && fs.f_type != EXT4_SUPER_MAGIC) || !(st.stx_attributes & STATX_ATTR_MOUNT_ROOT))
                return -EMEDIUMTYPE;
        /* From here on names are relative: what the run can read in its mount table says nothing of the
         * host. */
        return fchdir(v->ws_fd) < 0 ? -errno : 0;
}

static int make_layers(View *v)
{
        const ViewRequest *q = v->request;

        if (mkdir(VIEW_CHANGES, 0755) < 0 || mkdir(VIEW_WORK, 0700) < 0 || mkdir(VIEW_TREE, 0700) < 0)
                return -errno;
        v->changes_fd = open(VIEW_CHANGES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (v->changes_fd < 0 || fchmod(v->changes_fd, 0755) < 0 ||
                        fchown(v->changes_fd, q->uid, q->gid) < 0)
                return -errno;
        return move_mount(v->tree_fd, "", AT_FDCWD, VIEW_TREE, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

/* An overlay looks under what is mounted beneath its layers, where the caller could not. */
static int check_beneath(View *v)
{
        uint64_t id;
        int r = mount_id(v->tree_fd, &id);

        if (r >= 0)
                r = has_mount_on(v, id, false);
        return r > 0 ? -EXDEV : r;
}

static int configure_overlay(int fs)
{
        static const struct {
                const char *key, *value;
        } rows[] = {
                { "source", "view" },
                { "lowerdir", VIEW_TREE },
                { "upperdir", VIEW_CHANGES },
                { "workdir", VIEW_WORK },
                /* A changed file is there as a whole, under its own name: that is what is copied out. What
                 * extended attributes of the host's tree say about such things is not believed. */
                { "redirect_dir", "nofollow" },
                { "metacopy", "off" },
                { "index", "off" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (fsconfig(fs, FSCONFIG_SET_STRING, rows[i].key, rows[i].value, 0) < 0)
                        return -errno;
        return fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0 ? -errno : 0;
}

static int make_overlay(View *v)
{
        _cleanup_close_ int fs = fsopen("overlay", FSOPEN_CLOEXEC);
        unsigned flags = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
        struct statvfs st;
        int r;

        if (fs < 0 || fstatvfs(v->changes_fd, &st) < 0)
                return -errno;
        if (st.f_flag & ST_NOEXEC)
                flags |= MOUNT_ATTR_NOEXEC;
        r = configure_overlay(fs);
        if (r < 0)
                return r;
        v->merged_fd = fsmount(fs, FSMOUNT_CLOEXEC, flags);
        if (v->merged_fd < 0)
                return -errno;
        /* It has a copy of its own: nobody can reach the tree but through it. */
        if (umount2(VIEW_TREE, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 || rmdir(VIEW_TREE) < 0)
                return -errno;
        return move_mount(v->merged_fd, "", v->ws_fd, "",
                               MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0
                               ? -errno
                               : 0;
}

/* What fsmount() gives can only be looked up in. */
static int open_merged(View *v)
{
        int fd = openat(v->merged_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        close(v->merged_fd);
        v->merged_fd = fd;
        return 0;
}

int view_make(const ViewRequest *q, const int fds[_VIEW_REQUEST_FDS], int ret_fds[_VIEW_REPLY_FDS],
                ViewStage *ret_stage)
{
        static const struct {
                int (*step)(View *v);
                ViewStage stage;
        } steps[] = {
                { clone_tree, VIEW_CLONE },
                { map_owner, VIEW_OWNER },
                { enter, VIEW_ENTER },
                { make_layers, VIEW_LAYERS },
                { check_beneath, VIEW_BENEATH },
                { make_overlay, VIEW_OVERLAY },
                { open_merged, VIEW_OVERLAY },
        };
        View v = { .request = q, .fds = fds, .tree_fd = -1, .ws_fd = -1, .merged_fd = -1, .changes_fd = -1 };
        int r = 0;

        v.proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
        for (size_t i = 0; i < ELEMENTSOF(steps) && r >= 0; i++) {
                *ret_stage = steps[i].stage;
                r = steps[i].step(&v);
        }
        closep(&v.proc_fd);
        closep(&v.tree_fd);
        closep(&v.ws_fd);
        if (r < 0) {
                closep(&v.merged_fd);
                closep(&v.changes_fd);
                return r;
        }
        ret_fds[VIEW_REPLY_CHANGES] = v.changes_fd;
        ret_fds[VIEW_REPLY_MERGED] = v.merged_fd;
        return 0;
}
