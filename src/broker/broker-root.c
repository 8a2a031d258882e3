/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/buf.h"
#include "base/io.h"
#include "broker/broker-root.h"
#include "broker/root-skeleton.h"
#include "broker/root-source.h"
#include "policy/unit-props.h"

#define REMOVE_DEPTH_MAX \
        64u /* the skeleton is the broker's and systemd's work alone: the workload cannot write in it */

void run_root_done(RunRoot *r)
{
        for (size_t i = 0; i < r->n_shown; i++) {
                free(r->shown[i].source);
                free(r->shown[i].destination);
        }
        for (size_t i = 0; i < r->n_credentials; i++)
                free(r->credentials[i].name);
        free(r->credentials);
        free(r->shown);
        free(r->directory);
        strv_free(r->binds);
        *r = (RunRoot){};
}

/* ---- the skeleton */

/* The directories outside /usr that programs start from: links into it on a merged system, else directories
 * to bind. */
int skeleton_programs(Skeleton *s, const Policy *p)
{
        static const char *const names[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                int r = skeleton_copy_link(s, names[i]);

                if (r == 0)
                        r = skeleton_bind_directory(s, names[i]);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Of another tree too: the shim is static, and needs nothing but a place that is not in that tree. */
static int skeleton_usr(Skeleton *s, const Policy *p)
{
        int r = skeleton_bind_directory(s, "usr");

        if (r == 0)
                return error_set(s->reterr, -ENOENT,
                                "Root=%s has no directory usr that everybody may enter: it is no file tree "
                                "of "
                                "a system",
                                *s->from ? s->from : "/");
        if (r < 0 || !*s->from)
                return r;
        return skeleton_file(s, &UNIT_SHIM_PATH[1], "", 0);
}

static int skeleton_directories(Skeleton *s, const Policy *p)
{
        static const struct {
                const char *path;
                mode_t mode;
        } directories[] = {
                { "usr", 0755 },
                { "etc", 0755 },
                { "dev", 0755 },
                { "proc", 0555 },
                { "sys", 0555 },
                { "run", 0755 },
                { "var", 0755 },
                { "var/tmp", 01777 },
                { "tmp", 01777 },
                { "root", 0700 },
        };
        const char *const places[] = { policy_string(p, FILES_WORKSPACE), unit_home(p) };
        int r;

        for (size_t i = 0; i < ELEMENTSOF(directories); i++) {
                r = skeleton_directory(s, directories[i].path, directories[i].mode);
                if (r < 0)
                        return r;
        }
        r = skeleton_link(s, "/tmp", &UNIT_TMP_LINK[1]);
        if (r >= 0)
                r = skeleton_link(s, "/var/tmp", &UNIT_VAR_TMP_LINK[1]);
        for (size_t i = 0; i < ELEMENTSOF(places) && r >= 0; i++) {
                r = skeleton_parents(s, places[i] + 1);
                if (r >= 0)
                        r = skeleton_directory(s, places[i] + 1, 0755);
        }
        return r;
}

/* ---- the whole */

static int skeleton_source(Skeleton *s, const char *root)
{
        _cleanup_error_ Error *why = NULL;
        int r;

        if (streq(root, "host-usr")) {
                s->from = "";
                s->source_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
                return s->source_fd < 0 ? error_set(s->reterr, -errno, "cannot open /: %m") : 0;
        }
        s->from = root;
        r = root_source_open(root, &s->source_fd, &why);
        return r < 0 ? error_set(s->reterr, r, "Root=%s: %s", root, error_message(why, r)) : 0;
}

int skeleton_open(Skeleton *s, int dir_fd, const char *name, const char *source)
{
        int r = skeleton_source(s, source);

        if (r < 0)
                return r;
        if (mkdirat(dir_fd, name, 0755) < 0)
                return error_set(s->reterr, -errno, "cannot make the %s directory of the run: %m", name);
        s->fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (s->fd < 0 || fchmod(s->fd, 0755) < 0)
                return error_set(s->reterr, -errno, "cannot open the %s directory of the run: %m", name);
        return 0;
}

int skeleton_finish(Skeleton *s, const char *dir_path, const char *name)
{
        RunRoot *r = &s->out;

        if (asprintf(&r->directory, "%s/%s", dir_path, name) < 0) {
                r->directory = NULL;
                return error_set(s->reterr, -ENOMEM, "out of memory");
        }
        for (size_t i = 0; i < r->n_shown; i++) {
                char *bind;
                int k;

                if (asprintf(&bind, "%s:%s", r->shown[i].source, r->shown[i].destination) < 0)
                        return error_set(s->reterr, -ENOMEM, "out of memory");
                k = strv_push(&r->binds, bind);
                if (k < 0)
                        return error_set(s->reterr, k, "out of memory");
        }
        return 0;
}

int run_root_create(int dir_fd, const char *dir_path, const Policy *p, RunRoot *ret, Error **reterr)
{
        static int (*const steps[])(Skeleton * s, const Policy *p) = { skeleton_directories, skeleton_usr,
                skeleton_programs, skeleton_etc, skeleton_expose, skeleton_credentials };
        _cleanup_(skeleton_done) Skeleton s = { .fd = -1, .source_fd = -1, .reterr = reterr };
        int r = skeleton_open(&s, dir_fd, "root", policy_string(p, FILES_ROOT));

        for (size_t i = 0; i < ELEMENTSOF(steps) && r >= 0; i++)
                r = steps[i](&s, p);
        if (r >= 0)
                r = skeleton_finish(&s, dir_path, "root");
        if (r < 0)
                return r;
        *ret = s.out;
        s.out = (RunRoot){};
        return 0;
}

int run_root_write_identity(const RunRoot *root, uid_t uid, gid_t gid, const Policy *p, Error **reterr)
{
        _cleanup_(skeleton_done) Skeleton s = { .fd = -1, .source_fd = -1, .reterr = reterr };
        _cleanup_buf_ Buf passwd = {}, group = {};
        int r;

        buf_printf(&passwd,
                        "root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:%u:%u:agent:%s:/bin/sh\n"
                        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
                        uid, gid, unit_home(p));
        buf_printf(&group, "root:x:0:\ntty:x:5:\nagent:x:%u:\nnogroup:x:65534:\n", gid);
        if (passwd.error < 0 || group.error < 0)
                return error_set(reterr, -ENOMEM, "out of memory");
        s.fd = open(root->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (s.fd < 0)
                return error_set(reterr, -errno, "cannot open %s: %m", root->directory);
        r = skeleton_file(&s, "etc/passwd", passwd.data, passwd.size);
        return r < 0 ? r : skeleton_file(&s, "etc/group", group.data, group.size);
}

int run_root_take_workspace(pid_t pid, uid_t uid, gid_t gid, const Policy *p, int *ret_fd, Error **reterr)
{
        const char *workspace = policy_string(p, FILES_WORKSPACE);
        _cleanup_close_ int root_fd = -1, fd = -1;
        char path[64];
        struct statfs fs;

        snprintf(path, sizeof(path), "/proc/%i/root", (int) pid);
        root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root_fd < 0)
                return error_set(reterr, -errno, "cannot open the run's root: %m");
        fd = open_resolved(root_fd, workspace, O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
                        RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
        if (fd < 0)
                return error_set(reterr, fd, "cannot open the run's workspace: %s", strerror(-fd));
        if (fstatfs(fd, &fs) < 0)
                return error_set(reterr, -errno, "cannot look at the run's workspace: %m");
        if (fs.f_type != (policy_u64(p, FILES_WORKSPACE_STORE) == STORE_DISK ? EXT4_SUPER_MAGIC : TMPFS_MAGIC))
                return error_set(reterr, -EMEDIUMTYPE, "the run's workspace is no file system of its own");
        if (fchown(fd, uid, gid) < 0 || fchmod(fd, 0755) < 0)
                return error_set(reterr, -errno, "cannot give the workspace to the run: %m");
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* ---- the end */

static int remove_contents(int fd, unsigned depth)
{
        DIR *d;
        int r = 0;

        if (depth > REMOVE_DEPTH_MAX) {
                close(fd);
                return -ELOOP;
        }
        d = fdopendir(fd);
        if (!d) {
                r = -errno;
                close(fd);
                return r;
        }
        for (struct dirent *e; r >= 0 && (e = readdir(d));) {
                int child;

                if (streq(e->d_name, ".") || streq(e->d_name, ".."))
                        continue;
                if (unlinkat(dirfd(d), e->d_name, 0) >= 0)
                        continue;
                if (errno != EISDIR) {
                        r = -errno;
                        break;
                }
                child = open_resolved(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
                                RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS |
                                                RESOLVE_NO_MAGICLINKS);
                r = child < 0 ? child : remove_contents(child, depth + 1);
                if (r >= 0 && unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR) < 0)
                        r = -errno;
        }
        closedir(d);
        return r;
}

int run_root_remove(int dir_fd, const char *name, Error **reterr)
{
        int fd = open_resolved(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
                        RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
        int r = fd < 0 ? fd : remove_contents(fd, 0);

        if (r >= 0 && unlinkat(dir_fd, name, AT_REMOVEDIR) < 0)
                r = -errno;
        return r < 0 ? error_set(reterr, r, "cannot remove %s: %s", name, strerror(-r)) : 0;
}
