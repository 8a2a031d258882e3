/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/io.h"
#include "broker/broker-root.h"
#include "policy/unit-props.h"

#define COPY_MAX (1024u * 1024)
#define RESOLV_CONF_MAX (64u * 1024)
#define REMOVE_DEPTH_MAX \
        64u /* the skeleton is the broker's and systemd's work alone: the workload cannot write in it */

static int openat2_beneath(int dir_fd, const char *path, uint64_t flags, uint64_t resolve)
{
        struct open_how how = { .flags = flags | O_CLOEXEC, .resolve = resolve };
        long fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));

        return fd < 0 ? -errno : (int) fd;
}

void run_root_done(RunRoot *r)
{
        free(r->directory);
        strv_free(r->binds);
        *r = (RunRoot){};
}

/* ---- the skeleton */

typedef struct Skeleton {
        int fd;           /* the root */
        int source_fd;    /* what Root= names; host-usr: the host's / */
        const char *from; /* its path, "" for the host's */
        char **binds;
        Error **reterr;
} Skeleton;

static void skeleton_done(Skeleton *s)
{
        closep(&s->fd);
        closep(&s->source_fd);
        strv_free(s->binds);
}

static int make_directory(Skeleton *s, const char *path, mode_t mode)
{
        if (mkdirat(s->fd, path, mode) < 0)
                return errno == EEXIST ? 0 : error_set(s->reterr, -errno, "cannot make /%s: %m", path);
        /* The mode that was asked for, whatever our umask. Nobody else writes here. */
        if (fchmodat(s->fd, path, mode, 0) < 0)
                return error_set(s->reterr, -errno, "cannot set the mode of /%s: %m", path);
        return 0;
}

static int make_parents(Skeleton *s, const char *path)
{
        char part[PATH_MAX];
        int r;

        if (strlen(path) >= sizeof(part))
                return error_set(s->reterr, -ENAMETOOLONG, "path too long: /%s", path);
        strcpy(part, path);
        for (char *slash = strchr(part, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = 0;
                r = make_directory(s, part, 0755);
                if (r < 0)
                        return r;
                *slash = '/';
        }
        return 0;
}

static int make_link(Skeleton *s, const char *target, const char *path)
{
        if (symlinkat(target, s->fd, path) < 0)
                return error_set(s->reterr, -errno, "cannot make the link /%s: %m", path);
        return 0;
}

static int make_file(Skeleton *s, const char *path, const void *p, size_t n)
{
        int r = write_new_file_at(s->fd, path, p, n, 0644);

        return r < 0 ? error_set(s->reterr, r, "cannot write /%s: %s", path, strerror(-r)) : 0;
}

static int add_bind(Skeleton *s, const char *path)
{
        char *bind;
        int r;

        if (asprintf(&bind, "%s/%s:/%s", s->from, path, path) < 0)
                return error_set(s->reterr, -ENOMEM, "out of memory");
        r = strv_push(&s->binds, bind);
        return r < 0 ? error_set(s->reterr, r, "out of memory") : 0;
}

/* A link of the source as the same link. 0: it is none. */
static int copy_link(Skeleton *s, const char *path)
{
        char target[PATH_MAX];
        ssize_t n = readlinkat(s->source_fd, path, target, sizeof(target) - 1);
        int r;

        if (n < 0)
                return errno == EINVAL || errno == ENOENT
                                       ? 0
                                       : error_set(s->reterr, -errno, "cannot read /%s: %m", path);
        target[n] = 0;
        r = make_link(s, target, path);
        return r < 0 ? r : 1;
}

/* The directories outside /usr that programs start from: links into it on a merged system, else directories
 * to bind. */
static int skeleton_programs(Skeleton *s)
{
        static const char *const names[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                struct stat st;
                int r = copy_link(s, names[i]);

                if (r < 0)
                        return r;
                if (r > 0 || fstatat(s->source_fd, names[i], &st, AT_SYMLINK_NOFOLLOW) < 0 ||
                                !S_ISDIR(st.st_mode))
                        continue;
                r = make_directory(s, names[i], 0755);
                if (r >= 0)
                        r = add_bind(s, names[i]);
                if (r < 0)
                        return r;
        }
        return 0;
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
        const char *workspace = policy_string(p, FILES_WORKSPACE) + 1;
        int r;

        for (size_t i = 0; i < ELEMENTSOF(directories); i++) {
                r = make_directory(s, directories[i].path, directories[i].mode);
                if (r < 0)
                        return r;
        }
        r = make_link(s, "/tmp", &UNIT_TMP_LINK[1]);
        if (r >= 0)
                r = make_link(s, "/var/tmp", &UNIT_VAR_TMP_LINK[1]);
        if (r >= 0)
                r = make_parents(s, workspace);
        return r < 0 ? r : make_directory(s, workspace, 0755);
}

/* ---- /etc */

typedef enum EtcKind {
        ETC_TEXT, /* our own words */
        ETC_COPY, /* a regular file of at most COPY_MAX bytes, or a link as it is; left out where the source
                     has neither */
        ETC_BIND, /* a directory; left out where the source has none */
} EtcKind;

/* What may be seen of a system's /etc: never a secret, nothing about its users, network or machine. Small
 * files are copied, which is cheaper than a mount. */
static const struct {
        const char *path;
        EtcKind kind;
        const char *text;
} etc[] = {
        { "etc/hosts", ETC_TEXT, "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost ip6-loopback\n" },
        { "etc/hostname", ETC_TEXT, "sandbox\n" },
        { "etc/host.conf", ETC_TEXT, "multi on\n" },
        { "etc/nsswitch.conf", ETC_TEXT,
                        "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: "
                        "files\nprotocols: files\n"
                        "services: files\nethers: files\nrpc: files\nnetgroup: files\n" },
        { "etc/shells", ETC_TEXT, "/bin/sh\n/bin/bash\n" },
        { "etc/os-release", ETC_COPY, NULL },
        { "etc/debian_version", ETC_COPY, NULL },
        { "etc/lsb-release", ETC_COPY, NULL },
        { "etc/ld.so.cache", ETC_COPY, NULL },
        { "etc/ld.so.conf", ETC_COPY, NULL },
        { "etc/localtime", ETC_COPY, NULL },
        { "etc/timezone", ETC_COPY, NULL },
        { "etc/locale.alias", ETC_COPY, NULL },
        { "etc/mime.types", ETC_COPY, NULL },
        { "etc/services", ETC_COPY, NULL },
        { "etc/protocols", ETC_COPY, NULL },
        { "etc/rpc", ETC_COPY, NULL },
        { "etc/magic", ETC_COPY, NULL },
        { "etc/ssl/openssl.cnf", ETC_COPY, NULL },
        { "etc/ssl/cert.pem", ETC_COPY, NULL },
        { "etc/ssl/certs", ETC_BIND, NULL },
        { "etc/pki/tls/certs", ETC_BIND, NULL },
        { "etc/pki/ca-trust/extracted", ETC_BIND, NULL },
        { "etc/alternatives", ETC_BIND, NULL },
};

/* The source is the administrator's; a link in its middle leads where the administrator wants. The last part
 * is copied as a link, so nothing is ever read through it. */
static int etc_copy(Skeleton *s, const char *path)
{
        _cleanup_close_ int fd = -1;
        _cleanup_free_ char *data = NULL;
        struct stat st;
        size_t n;
        int r;

        if (fstatat(s->source_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return 0;
        if (!S_ISLNK(st.st_mode) &&
                        (!S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH) || st.st_size > (off_t) COPY_MAX))
                return 0;
        r = make_parents(s, path);
        if (r < 0)
                return r;
        if (S_ISLNK(st.st_mode))
                return copy_link(s, path);
        fd = openat(s->source_fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
                return 0;
        data = malloc((size_t) st.st_size + 1);
        if (!data)
                return error_set(s->reterr, -ENOMEM, "out of memory");
        for (n = 0; n < (size_t) st.st_size;) {
                ssize_t k = read(fd, data + n, (size_t) st.st_size - n);

                if (k < 0)
                        return error_set(s->reterr, -errno, "cannot read %s/%s: %m", s->from, path);
                if (k == 0)
                        break;
                n += (size_t) k;
        }
        return make_file(s, path, data, n);
}

static int etc_bind(Skeleton *s, const char *path)
{
        struct stat st;
        int r;

        /* Followed: on some systems these are links themselves. */
        if (fstatat(s->source_fd, path, &st, 0) < 0 || !S_ISDIR(st.st_mode) || !(st.st_mode & S_IXOTH))
                return 0;
        r = make_parents(s, path);
        if (r >= 0)
                r = make_directory(s, path, 0755);
        return r < 0 ? r : add_bind(s, path);
}

/* The configuration of Java runtimes is linked to from /usr/lib/jvm; they do not start without. */
static int etc_java(Skeleton *s)
{
        int fd = openat(s->source_fd, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        int r = 0;

        if (!d) {
                closep(&fd);
                return 0;
        }
        for (struct dirent *e; r >= 0 && (e = readdir(d));) {
                char path[sizeof("etc/") + NAME_MAX];

                if (!startswith(e->d_name, "java-") || strpbrk(e->d_name, ":"))
                        continue;
                snprintf(path, sizeof(path), "etc/%s", e->d_name);
                r = etc_bind(s, path);
        }
        closedir(d);
        return r;
}

static int etc_resolv_conf(Skeleton *s, const Policy *p)
{
        /* Any address will do: the namespace sends what goes to port 53 to the warden. */
        static const char filtered[] = "nameserver 192.0.2.53\n";
        _cleanup_free_ char *host = NULL;
        size_t n = 0;
        int r;

        switch (policy_u64(p, NETWORK_EGRESS)) {
        case EGRESS_FILTERED:
                return make_file(s, "etc/resolv.conf", filtered, sizeof(filtered) - 1);
        case EGRESS_NONE:
                return make_file(s, "etc/resolv.conf", "", 0);
        default:
                r = read_file("/etc/resolv.conf", RESOLV_CONF_MAX, &host, &n);
                if (r < 0 && r != -ENOENT)
                        return error_set(s->reterr, r, "cannot read /etc/resolv.conf: %s", strerror(-r));
                return make_file(s, "etc/resolv.conf", host ? host : "", n);
        }
}

static int skeleton_etc(Skeleton *s, const Policy *p)
{
        int r = make_link(s, "../proc/self/mounts", "etc/mtab");

        for (size_t i = 0; i < ELEMENTSOF(etc) && r >= 0; i++)
                switch (etc[i].kind) {
                case ETC_TEXT:
                        r = make_file(s, etc[i].path, etc[i].text, strlen(etc[i].text));
                        break;
                case ETC_COPY:
                        r = etc_copy(s, etc[i].path);
                        break;
                case ETC_BIND:
                        r = etc_bind(s, etc[i].path);
                        break;
                }
        if (r >= 0)
                r = etc_java(s);
        return r < 0 ? r : etc_resolv_conf(s, p);
}

/* ---- the whole */

static int skeleton_open(int dir_fd, const Policy *p, Skeleton *s)
{
        const char *root = policy_string(p, FILES_ROOT);
        struct stat st;

        s->from = streq(root, "host-usr") ? "" : root;
        if (strchr(root, ':'))
                return error_set(s->reterr, -EOPNOTSUPP, "Root=%s: a colon is not supported", root);
        s->source_fd = open(*s->from ? s->from : "/", O_PATH | O_CLOEXEC);
        if (s->source_fd < 0)
                return error_set(s->reterr, -errno, "Root=%s: %m", root);
        if (fstat(s->source_fd, &st) < 0)
                return error_set(s->reterr, -errno, "Root=%s: %m", root);
        if (!S_ISDIR(st.st_mode))
                return error_set(s->reterr, -EOPNOTSUPP,
                                "Root=%s is not a directory; disk images are not supported yet", root);
        if (mkdirat(dir_fd, "root", 0755) < 0)
                return error_set(s->reterr, -errno, "cannot make the run's root: %m");
        s->fd = openat(dir_fd, "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (s->fd < 0 || fchmod(s->fd, 0755) < 0)
                return error_set(s->reterr, -errno, "cannot open the run's root: %m");
        return 0;
}

int run_root_create(int dir_fd, const char *dir_path, const Policy *p, RunRoot *ret, Error **reterr)
{
        _cleanup_(skeleton_done) Skeleton s = { .fd = -1, .source_fd = -1, .reterr = reterr };
        char *directory;
        int r = skeleton_open(dir_fd, p, &s);

        if (r >= 0)
                r = skeleton_directories(&s, p);
        if (r >= 0)
                r = skeleton_programs(&s);
        if (r >= 0)
                r = skeleton_etc(&s, p);
        if (r < 0)
                return r;
        if (asprintf(&directory, "%s/root", dir_path) < 0)
                return error_set(reterr, -ENOMEM, "out of memory");
        *ret = (RunRoot){ .directory = directory, .binds = TAKE_PTR(s.binds) };
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
                        uid, gid, policy_string(p, FILES_WORKSPACE));
        buf_printf(&group, "root:x:0:\ntty:x:5:\nagent:x:%u:\nnogroup:x:65534:\n", gid);
        if (passwd.error < 0 || group.error < 0)
                return error_set(reterr, -ENOMEM, "out of memory");
        s.fd = open(root->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (s.fd < 0)
                return error_set(reterr, -errno, "cannot open %s: %m", root->directory);
        r = make_file(&s, "etc/passwd", passwd.data, passwd.size);
        return r < 0 ? r : make_file(&s, "etc/group", group.data, group.size);
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
        fd = openat2_beneath(root_fd, workspace, O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
                        RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
        if (fd < 0)
                return error_set(reterr, fd, "cannot open the run's workspace: %s", strerror(-fd));
        if (fstatfs(fd, &fs) < 0)
                return error_set(reterr, -errno, "cannot look at the run's workspace: %m");
        if (fs.f_type != TMPFS_MAGIC)
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
                child = openat2_beneath(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
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
        int fd = openat2_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
                        RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
        int r = fd < 0 ? fd : remove_contents(fd, 0);

        if (r >= 0 && unlinkat(dir_fd, name, AT_REMOVEDIR) < 0)
                r = -errno;
        return r < 0 ? error_set(reterr, r, "cannot remove %s: %s", name, strerror(-r)) : 0;
}
