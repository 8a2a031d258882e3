/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>

#include "base/io.h"
#include "broker/root-skeleton.h"
#include "broker/root-source.h"
#include "wire/egress.h"

/* /etc of a run's root. */

#define COPY_MAX (1024u * 1024)
#define RESOLV_CONF_MAX (64u * 1024)

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

/* The last part is copied as a link, so nothing is ever read through it. */
static int etc_copy(Skeleton *s, const char *path)
{
        _cleanup_close_ int at = root_source_openat(s->source_fd, path, O_NOFOLLOW), fd = -1;
        _cleanup_free_ char *data = NULL;
        char self[64];
        struct stat st;
        size_t n;
        int r;

        if (at < 0 || fstat(at, &st) < 0)
                return 0;
        if (!S_ISLNK(st.st_mode) &&
                        (!S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH) || st.st_size > (off_t) COPY_MAX))
                return 0;
        r = skeleton_parents(s, path);
        if (r < 0)
                return r;
        if (S_ISLNK(st.st_mode))
                return skeleton_copy_link(s, path);
        snprintf(self, sizeof(self), "/proc/self/fd/%i", at);
        fd = open(self, O_RDONLY | O_CLOEXEC);
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
        return skeleton_file(s, path, data, n);
}

/* The configuration of Java runtimes is linked to from /usr/lib/jvm; they do not start without. */
static int etc_java(Skeleton *s)
{
        int fd = open_resolved(s->source_fd, "etc", O_RDONLY | O_DIRECTORY,
                        RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
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
                r = skeleton_bind_directory(s, path);
        }
        closedir(d);
        return r;
}

static int etc_resolv_conf(Skeleton *s, const Policy *p)
{
        /* Any address will do: the namespace sends what goes to port 53 to the warden. */
        static const char filtered[] = "nameserver " EGRESS_WARDEN_IPV4 "\n";
        _cleanup_free_ char *host = NULL;
        size_t n = 0;
        int r;

        switch (policy_u64(p, NETWORK_EGRESS)) {
        case EGRESS_FILTERED:
                return skeleton_file(s, "etc/resolv.conf", filtered, sizeof(filtered) - 1);
        case EGRESS_NONE:
                return skeleton_file(s, "etc/resolv.conf", "", 0);
        default:
                r = read_file("/etc/resolv.conf", RESOLV_CONF_MAX, &host, &n);
                if (r < 0 && r != -ENOENT)
                        return error_set(s->reterr, r, "cannot read /etc/resolv.conf: %s", strerror(-r));
                return skeleton_file(s, "etc/resolv.conf", host ? host : "", n);
        }
}

int skeleton_etc(Skeleton *s, const Policy *p)
{
        int r = skeleton_link(s, "../proc/self/mounts", "etc/mtab");

        for (size_t i = 0; i < ELEMENTSOF(etc) && r >= 0; i++)
                switch (etc[i].kind) {
                case ETC_TEXT:
                        r = skeleton_file(s, etc[i].path, etc[i].text, strlen(etc[i].text));
                        break;
                case ETC_COPY:
                        r = etc_copy(s, etc[i].path);
                        break;
                case ETC_BIND:
                        r = skeleton_bind_directory(s, etc[i].path);
                        break;
                }
        if (r >= 0)
                r = etc_java(s);
        return r < 0 ? r : etc_resolv_conf(s, p);
}
