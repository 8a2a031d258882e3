/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/io.h"
#include "broker/root-skeleton.h"
#include "broker/root-source.h"
#include "broker/warden-unit.h"

#define RESOLVED_DIRECTORY "run/systemd/resolve"
#define COPY_MAX (16u << 20) /* the loader's cache */

static int make_directories(Skeleton *s)
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
                { "var/tmp", 0755 },
                { "tmp", 0755 },
        };
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(directories); i++)
                r = skeleton_directory(s, directories[i].path, directories[i].mode);
        return r;
}

/* It is static: nothing else is needed to execute it. */
static int show_program(Skeleton *s)
{
        _cleanup_close_ int fd = root_source_openat(s->source_fd, WARDEN_PATH, 0);
        int r;

        if (fd < 0)
                return error_set(s->reterr, fd, "%s: %s", WARDEN_PATH, strerror(-fd));
        r = skeleton_parents(s, &WARDEN_PATH[1]);
        if (r >= 0)
                r = skeleton_file(s, &WARDEN_PATH[1], "", 0);
        return r < 0 ? r : skeleton_bind(s, fd, &WARDEN_PATH[1]);
}

/* What the file, or what a link leads to, holds; left out where there is none. */
static int copy_file(Skeleton *s, const char *from, const char *to)
{
        _cleanup_close_ int fd = root_source_openat(s->source_fd, from, 0);
        _cleanup_free_ char *text = NULL;
        char self[32];
        struct stat st;
        size_t n;

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH))
                return 0;
        snprintf(self, sizeof(self), "/proc/self/fd/%i", fd);
        return read_file(self, COPY_MAX, &text, &n) < 0 ? 0 : skeleton_file(s, to, text, n);
}

/* What the C library reads to look up a name. As it is when the run starts: where a host changes its network
 * in the middle of a run, others than the present name servers are out of the unit's reach anyway
 * (warden-lock.c). But for systemd's own, which stays at its place and asks whom it likes: that place is
 * shown as it is. */
static int show_etc(Skeleton *s)
{
        static const char *const files[] = { "etc/hosts", "etc/nsswitch.conf", "etc/gai.conf",
                "etc/host.conf", "etc/ld.so.cache" };
        _cleanup_close_ int conf = root_source_openat(s->source_fd, "etc/resolv.conf", 0);
        _cleanup_free_ char *path = NULL;
        int r = skeleton_bind_directory(s, RESOLVED_DIRECTORY);

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(files); i++)
                r = copy_file(s, files[i], files[i]);
        if (r < 0 || conf < 0)
                return r;
        r = fd_get_path(conf, &path);
        if (r < 0)
                return error_set(s->reterr, r, "/etc/resolv.conf: %s", strerror(-r));
        if (startswith(path, "/" RESOLVED_DIRECTORY "/"))
                return skeleton_link(s, path, "etc/resolv.conf");
        return copy_file(s, "etc/resolv.conf", "etc/resolv.conf");
}

static int show_resolver(Skeleton *s)
{
        int r = skeleton_bind_directory(s, "usr");

        if (r == 0)
                return error_set(s->reterr, -ENOENT, "there is no /usr that everybody may enter");
        if (r >= 0)
                r = skeleton_programs(s, NULL);
        return r < 0 ? r : show_etc(s);
}

int warden_root_create(
                int dir_fd, const char *dir_path, const WardenPlan *plan, RunRoot *ret, Error **reterr)
{
        _cleanup_(skeleton_done) Skeleton s = { .fd = -1, .source_fd = -1, .reterr = reterr };
        int r = skeleton_open(&s, dir_fd, "warden", "host-usr");

        if (r >= 0)
                r = make_directories(&s);
        if (r >= 0)
                r = plan->resolves ? show_resolver(&s) : show_program(&s);
        if (r >= 0)
                r = skeleton_finish(&s, dir_path, "warden");
        if (r < 0)
                return r;
        *ret = s.out;
        s.out = (RunRoot){};
        return 0;
}
