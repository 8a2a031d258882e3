/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

#include "base/io.h"
#include "base/landlock.h"
#include "base/parse.h"
#include "exec/exec.h"

/* What /proc/self/status tells. Every line must be there: a kernel that does not tell cannot be trusted to
 * have done it. */
static const struct StatusLine {
        const char *key;
        unsigned base;
        unsigned count; /* numbers behind the key */
        unsigned width; /* bytes of each in Attest */
        size_t offset;
} status_lines[] = {
        { "Uid:", 10, 4, 4, offsetof(Attest, uid) },
        { "Gid:", 10, 4, 4, offsetof(Attest, gid) },
        { "Umask:", 8, 1, 4, offsetof(Attest, umask) },
        { "CapInh:", 16, 1, 8, offsetof(Attest, cap_inheritable) },
        { "CapPrm:", 16, 1, 8, offsetof(Attest, cap_permitted) },
        { "CapEff:", 16, 1, 8, offsetof(Attest, cap_effective) },
        { "CapBnd:", 16, 1, 8, offsetof(Attest, cap_bounding) },
        { "CapAmb:", 16, 1, 8, offsetof(Attest, cap_ambient) },
        { "NoNewPrivs:", 10, 1, 1, offsetof(Attest, no_new_privs) },
        { "Seccomp:", 10, 1, 4, offsetof(Attest, seccomp_mode) },
        { "Seccomp_filters:", 10, 1, 4, offsetof(Attest, seccomp_filters) },
};

/* Reads count numbers from a line's rest. strtoull() would take signs and leading space of its own. */
static int parse_line(const struct StatusLine *l, const char *s, Attest *a)
{
        for (unsigned i = 0; i < l->count; i++) {
                char *to = (char *) a + l->offset + (size_t) i * l->width;
                uint64_t v;
                char *end;

                s += strspn(s, "\t ");
                if (!isxdigit((unsigned char) *s))
                        return -EBADMSG;
                errno = 0;
                v = strtoull(s, &end, (int) l->base);
                if (errno != 0 || end == s || (l->width == 4 && v > UINT32_MAX) || (l->width == 1 && v > 1))
                        return -EBADMSG;
                if (l->width == 8)
                        memcpy(to, &v, sizeof(v));
                else if (l->width == 4)
                        memcpy(to, &(uint32_t){ (uint32_t) v }, sizeof(uint32_t));
                else
                        *(bool *) to = v == 1;
                s = end;
        }
        return *s == 0 || *s == '\t' || *s == ' ' ? 0 : -EBADMSG;
}

static int attest_status(Attest *a)
{
        _cleanup_free_ char *text = NULL;
        char *rest, *line;
        uint32_t seen = 0;
        int r = read_file("/proc/self/status", 65536, &text, NULL);

        if (r < 0)
                return r;
        rest = text;
        while ((line = strsep(&rest, "\n")))
                for (size_t i = 0; i < ELEMENTSOF(status_lines); i++) {
                        const char *values = startswith(line, status_lines[i].key);

                        if (!values)
                                continue;
                        r = parse_line(&status_lines[i], values, a);
                        if (r < 0)
                                return r;
                        seen |= 1u << i;
                }
        return seen == (1u << ELEMENTSOF(status_lines)) - 1 ? 0 : -EBADMSG;
}

static int attest_namespaces(Attest *a)
{
        for (size_t i = 0; i < _ATTEST_NS_MAX; i++) {
                char path[64];
                struct stat st;

                snprintf(path, sizeof(path), "/proc/self/ns/%s", attest_ns_names[i]);
                if (stat(path, &st) < 0)
                        return -errno;
                a->ns[i] = st.st_ino;
        }
        return 0;
}

static void attest_filesystems(const char *workspace, Attest *a)
{
        for (size_t i = 0; i < _ATTEST_FS_MAX; i++) {
                const char *path = i == ATTEST_FS_WORKSPACE ? workspace : attest_fs_paths[i];
                struct statfs s;

                if (statfs(path, &s) < 0) {
                        a->fs[i].error = errno;
                        continue;
                }
                a->fs[i] = (AttestFs){
                        .type = (uint64_t) s.f_type,
                        .flags = (uint64_t) s.f_flags,
                        .bytes = (uint64_t) s.f_blocks * (uint64_t) s.f_bsize,
                        .inodes = (uint64_t) s.f_files,
                };
        }
}

static int attest_fds(Attest *a)
{
        DIR *d = opendir("/proc/self/fd");
        struct dirent *e;
        int r = 0;

        if (!d)
                return -errno;
        a->fds = calloc(ATTEST_LIST_MAX, sizeof(*a->fds));
        if (!a->fds)
                r = -ENOMEM;
        while (r == 0 && a->n_fds < ATTEST_LIST_MAX && (e = readdir(d))) {
                char target[ATTEST_NAME_MAX + 1];
                uint64_t fd;
                ssize_t n;

                if (parse_u64(e->d_name, &fd) < 0 || fd == (uint64_t) dirfd(d))
                        continue;
                n = readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);
                if (n < 0) {
                        r = -errno;
                        break;
                }
                target[n] = 0;
                a->fds[a->n_fds].target = strdup(target);
                if (!a->fds[a->n_fds].target)
                        r = -ENOMEM;
                else
                        a->fds[a->n_fds++].fd = (int32_t) fd;
        }
        closedir(d);
        return r;
}

static int attest_limits(Attest *a)
{
        a->limits = calloc(RLIM_NLIMITS, sizeof(*a->limits));
        if (!a->limits)
                return -ENOMEM;
        for (int i = 0; i < RLIM_NLIMITS; i++) {
                struct rlimit l;

                if (prlimit(0, i, NULL, &l) < 0)
                        return -errno;
                a->limits[a->n_limits++] =
                                (AttestLimit){ .resource = i, .soft = l.rlim_cur, .hard = l.rlim_max };
        }
        return 0;
}

static int attest_groups(Attest *a)
{
        int n = getgroups(0, NULL);
        _cleanup_free_ gid_t *groups = NULL;

        if (n < 0)
                return -errno;
        if (n == 0)
                return 0;
        groups = calloc((size_t) n, sizeof(*groups));
        if (!groups)
                return -ENOMEM;
        n = getgroups(n, groups);
        if (n < 0)
                return -errno;
        a->groups = TAKE_PTR(groups);
        a->n_groups = MIN2((uint32_t) n, ATTEST_LIST_MAX);
        return 0;
}

static int attest_environment(Attest *a)
{
        size_t n = 0;

        STRV_FOREACH(i, environ)
        {
                if (n++ >= ATTEST_LIST_MAX)
                        break;
                if (strv_extend(&a->environ_, *i) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int attest_texts(Attest *a)
{
        const struct {
                const char *path;
                char **to;
                bool optional; /* without a /proc/net there is no such file */
        } texts[] = {
                { "/proc/self/mountinfo", &a->mountinfo, false },
                { "/proc/self/cgroup", &a->cgroup, false },
                { "/proc/self/net/dev", &a->netdev, true },
        };
        _cleanup_free_ char *score = NULL;
        struct utsname u;
        int r;

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                r = read_file(texts[i].path, ATTEST_TEXT_MAX, texts[i].to, NULL);
                if (r < 0 && !texts[i].optional)
                        return r;
        }
        r = read_file("/proc/self/oom_score_adj", 64, &score, NULL);
        if (r < 0)
                return r;
        a->oom_score_adj = (int32_t) strtol(score, NULL, 10);
        if (uname(&u) < 0)
                return -errno;
        a->hostname = strdup(u.nodename);
        return a->hostname ? 0 : -ENOMEM;
}

static int attest_flags(Attest *a)
{
        int bits = prctl(PR_GET_SECUREBITS), dumpable = prctl(PR_GET_DUMPABLE);

        if (bits < 0 || dumpable < 0)
                return -errno;
        a->securebits = (uint32_t) bits;
        a->dumpable = (uint32_t) dumpable;
        a->landlock_abi = landlock_abi();
        a->pid = getpid();
        return 0;
}

int exec_attest(const char *workspace, const char *abstract_name, Attest *ret)
{
        static int (*const steps[])(Attest *) = {
                attest_status,
                attest_namespaces,
                attest_limits,
                attest_groups,
                attest_environment,
                attest_texts,
                attest_flags,
        };
        _cleanup_(attest_done) Attest a = {};
        int r;

        r = attest_fds(&a);
        if (r < 0)
                return r;
        if (close_range(3, ~0u, 0) < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(steps); i++) {
                r = steps[i](&a);
                if (r < 0)
                        return r;
        }
        attest_filesystems(workspace, &a);
        r = exec_probe(workspace, abstract_name, &a);
        if (r < 0)
                return r;
        *ret = a;
        a = (Attest){};
        return 0;
}
