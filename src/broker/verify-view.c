/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/io.h"
#include "broker/verify.h"
#include "wire/view.h"

/* A view is mounted when the shim has attested already: it is looked at from outside, in the mount table
 * that the run has now and through its root. */

#define MOUNTINFO_MAX (4u << 20)

bool has_view(const VerifyInput *in)
{
        return in->has_view;
}

static const char *proc_of(const VerifyInput *in)
{
        return in->host->proc ?: "/proc";
}

/* The host's tree is a layer that nothing is ever written to, and the only one; the other is in the
 * workspace. */
static int check_overlay(
                const VerifyInput *in, const char *type, const char *options, const char *super, Buf *why)
{
        static const char *const wanted[] = { "nosuid", "nodev" }, *const layers[] = { "lowerdir=" VIEW_TREE,
                "upperdir=" VIEW_CHANGES, "workdir=" VIEW_WORK };
        int r = 0;

        if (!streq(type, "overlay"))
                return broken(why, "a file system of type %s covers the workspace", type);
        for (size_t i = 0; i < ELEMENTSOF(wanted); i++)
                if (!has_mount_option(options, wanted[i]))
                        r = broken(why, "the view is not mounted %s", wanted[i]);
        if (profile_is_strict(in) && !has_mount_option(options, "noexec"))
                r = broken(why, "the view is not mounted noexec");
        for (size_t i = 0; i < ELEMENTSOF(layers); i++)
                if (!has_mount_option(super, layers[i]))
                        r = broken(why, "the view is not made of %s", layers[i]);
        return r;
}

/* On the workspace: its own file system, the view, and nothing else there or beneath, where the tree itself might be.
 */
static int check_table(const VerifyInput *in, const char *table, Buf *why)
{
        const char *store = policy_u64(in->policy, FILES_WORKSPACE_STORE) == STORE_DISK ? "ext4" : "tmpfs";
        const char *workspace = policy_string(in->policy, FILES_WORKSPACE), *line = table;
        size_t n = 0, length = strlen(workspace);
        int r, verdict = 0;

        for (;;) {
                _cleanup_free_ char *target = NULL, *type = NULL, *super = NULL;

                r = mountinfo_next(&line, &target, &type, &super);
                if (r <= 0)
                        break;
                if (strncmp(target, workspace, length) != 0 || (target[length] && target[length] != '/'))
                        continue;
                if (target[length])
                        verdict = broken(why, "something is mounted in the workspace");
                else if (n++ == 0 && !streq(type, store))
                        verdict = broken(why, "what the view writes to is %s instead of %s", type, store);
        }
        if (r < 0)
                return r;
        return n == 2 ? verdict : broken(why, "there are %zu mounts on the workspace instead of 2", n);
}

/* What was made is what the run sees. */
static int check_place(const VerifyInput *in, Buf *why)
{
        _cleanup_close_ int root_fd = -1, fd = -1;
        struct stat seen, made;
        char path[PATH_MAX];

        snprintf(path, sizeof(path), "%s/%i/root", proc_of(in), (int) in->peer.pid);
        root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root_fd < 0)
                return -errno;
        fd = open_resolved(root_fd, policy_string(in->policy, FILES_WORKSPACE), O_PATH | O_DIRECTORY,
                        RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
        if (fd < 0)
                return fd;
        if (fstat(fd, &seen) < 0 || fstat(in->view_fd, &made) < 0)
                return -errno;
        return seen.st_dev == made.st_dev && seen.st_ino == made.st_ino
                               ? 0
                               : broken(why, "the workspace is something else than the view");
}

int verify_view(const VerifyInput *in, Buf *why)
{
        _cleanup_free_ char *table = NULL, *type = NULL, *options = NULL, *super = NULL;
        char path[PATH_MAX];
        int r, verdict;

        snprintf(path, sizeof(path), "%s/%i/mountinfo", proc_of(in), (int) in->peer.pid);
        r = read_file(path, MOUNTINFO_MAX, &table, NULL);
        if (r >= 0)
                r = mountinfo_find(
                                table, policy_string(in->policy, FILES_WORKSPACE), &type, &options, &super);
        if (r < 0)
                return r;
        verdict = check_overlay(in, type, options, super, why);
        r = check_table(in, table, why);
        if (r >= 0) {
                verdict |= r;
                r = check_place(in, why);
        }
        return r < 0 ? r : verdict | r;
}
