/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/escape.h"
#include "base/io.h"
#include "broker/verify.h"

/* The mount table of the run, line by line, against what may be there. See proc_pid_mountinfo(5). */

typedef struct Mount {
        char *id, *root, *target, *options, *type, *super;
} Mount;

static void mount_done(Mount *m)
{
        free(m->id);
        free(m->root);
        free(m->target);
        free(m->options);
        free(m->type);
        free(m->super);
        *m = (Mount){};
}

/* Space, tab, newline and backslash are written as three octal digits. */
static void unescape(char *s)
{
        char *to = s;

        for (; *s; s++, to++) {
                *to = *s;
                if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
                                s[3] >= '0' && s[3] <= '7') {
                        *to = (char) ((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
                        s += 3;
                }
        }
        *to = 0;
}

/* 1: *line was moved behind one entry. 0: the end. */
static int mount_next(const char **line, Mount *ret)
{
        _cleanup_strv_ char **words = NULL;
        _cleanup_free_ char *text = NULL;
        size_t n, dash = 6, length;
        Mount m;
        int r;

        if (!**line)
                return 0;
        length = strcspn(*line, "\n");
        text = strndup(*line, length);
        if (!text)
                return -ENOMEM;
        *line += length + ((*line)[length] == '\n');
        r = strv_split(text, " ", &words);
        if (r < 0)
                return r;
        n = strv_length(words);
        while (dash < n && !streq(words[dash], "-"))
                dash++;
        if (dash + 3 >= n)
                return -EBADMSG;
        m = (Mount){
                .id = strdup(words[0]),
                .root = strdup(words[3]),
                .target = strdup(words[4]),
                .options = strdup(words[5]),
                .type = strdup(words[dash + 1]),
                .super = strdup(words[dash + 3]),
        };
        if (!m.id || !m.root || !m.target || !m.options || !m.type || !m.super) {
                mount_done(&m);
                return -ENOMEM;
        }
        unescape(m.root);
        unescape(m.target);
        *ret = m;
        return 1;
}

bool has_mount_option(const char *options, const char *option)
{
        size_t n = strlen(option);

        for (const char *p = options; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
                if (strncmp(p, option, n) == 0 && (p[n] == ',' || p[n] == 0))
                        return true;
        return false;
}

int mountinfo_find(const char *mountinfo, const char *path, char **ret_type, char **ret_options,
                char **ret_super)
{
        _cleanup_(mount_done) Mount found = {};
        const char *line = mountinfo;
        Mount m;
        int r;

        while ((r = mount_next(&line, &m)) > 0) {
                if (!streq(m.target, path)) {
                        mount_done(&m);
                        continue;
                }
                mount_done(&found); /* a later line covers an earlier one */
                found = m;
        }
        if (r < 0)
                return r;
        if (!found.target)
                return -ENOENT;
        *ret_type = TAKE_PTR(found.type);
        *ret_options = TAKE_PTR(found.options);
        *ret_super = TAKE_PTR(found.super);
        return 0;
}

int mountinfo_type(const char *mountinfo, const char *id, char **ret_type)
{
        const char *line = mountinfo;
        Mount m;
        int r;

        while ((r = mount_next(&line, &m)) > 0) {
                bool found = streq(m.id, id);

                if (found)
                        *ret_type = TAKE_PTR(m.type);
                mount_done(&m);
                if (found)
                        return 0;
        }
        return r < 0 ? r : -ENOENT;
}

int mountinfo_next(const char **line, char **ret_target, char **ret_type, char **ret_super)
{
        _cleanup_(mount_done) Mount m = {};
        int r = mount_next(line, &m);

        if (r <= 0)
                return r;
        *ret_target = TAKE_PTR(m.target);
        *ret_type = TAKE_PTR(m.type);
        *ret_super = TAKE_PTR(m.super);
        return 1;
}

static bool beneath(const char *path, const char *directory)
{
        const char *rest = startswith(path, directory);

        return rest && (*rest == 0 || *rest == '/');
}

/* Mount points of systemd's making, all read-only but those with a type: these are file systems that hold
 * nothing of the host's, of exactly that type and mounted from their top. */
static const struct {
        const char *path;
        const char *writable_type;
        bool below; /* and what is mounted beneath it, read-only */
} known[] = {
        { "/", NULL, false },
        { "/dev", NULL, false },
        { "/dev/hugepages", NULL, false },
        { "/dev/mqueue", "mqueue", false },
        { "/dev/pts", NULL, false },
        { "/dev/shm", "tmpfs", false },
        { "/proc", "proc", false },
        { "/proc", NULL, true },
        /* Some systemd has it mounted on demand, wherever there is a /proc/sys. Root's alone to write. */
        { "/proc/sys/fs/binfmt_misc", "binfmt_misc", false },
        { "/proc/sys/fs/binfmt_misc", "autofs", false },
        { "/run", NULL, false },
        { "/run/systemd/incoming", NULL, false },
        { "/run/host", NULL, false },
        { "/run/host/.os-release-stage", NULL,
                        false }, /* 255 and later: the host's os-release, which /usr shows anyhow */
        { "/run/user", NULL, false },
        { "/sys", NULL, false },
        { "/root", NULL, false },
        { "/home", NULL, false },
        { "/tmp", "tmpfs", false },
        { "/var/tmp", "tmpfs", false },
};

static bool writable_as_known(const Mount *m, const char *path, const char *type)
{
        return streq(m->target, path) && streq(m->type, type) && streq(m->root, "/");
}

static bool mount_is_expected(const VerifyInput *in, const Mount *m)
{
        const UnitProp *binds = unit_props_find(in->sent, "BindReadOnlyPaths");
        bool read_only = has_mount_option(m->options, "ro");

        if (writable_as_known(m, policy_string(in->policy, FILES_WORKSPACE), "tmpfs") ||
                        (has_decoys(in) && writable_as_known(m, UNIT_HOME, "tmpfs")))
                return true;
        for (size_t i = 0; i < ELEMENTSOF(known); i++) {
                if (known[i].writable_type && writable_as_known(m, known[i].path, known[i].writable_type))
                        return true;
                if (read_only && !known[i].writable_type &&
                                (streq(m->target, known[i].path) ||
                                                (known[i].below && beneath(m->target, known[i].path))))
                        return true;
        }
        if (read_only && is_mount_of_credentials(in, m->target, m->type))
                return true;
        for (size_t i = 0; read_only && binds && binds->l && binds->l[i]; i += 2)
                if (beneath(m->target, binds->l[i + 1]))
                        return true;
        return false;
}

int verify_mounts(const VerifyInput *in, Buf *why)
{
        const char *line = in->attest->mountinfo;
        int r, verdict = 0;
        size_t n = 0;

        for (;; n++) {
                _cleanup_(mount_done) Mount m = {};
                _cleanup_free_ char *shown = NULL;

                r = mount_next(&line, &m);
                if (r <= 0)
                        break;
                shown = escape_for_display(m.target, strlen(m.target), 200);
                if (!shown)
                        return -ENOMEM;
                if (!mount_is_expected(in, &m))
                        verdict = broken(why, "unexpected mount on %s (%s, %s)", shown, m.type, m.options);
                else if (!has_mount_option(m.options, "nosuid"))
                        verdict = broken(why, "%s is not mounted nosuid", shown);
        }
        if (r < 0)
                return r;
        return n > 0 ? verdict : broken(why, "no mounts reported");
}

/* PID 1 follows a path by itself, when it mounts: by then somebody may have put a link there. */
int verify_exposed(const VerifyInput *in, Buf *why)
{
        _cleanup_close_ int root_fd = -1;
        char path[PATH_MAX];
        int r = 0;

        snprintf(path, sizeof(path), "%s/%i/root", in->host->proc ? in->host->proc : "/proc",
                        (int) in->peer.pid);
        root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root_fd < 0)
                return -errno;
        if (in->root->n_shown == 0)
                return broken(why, "nothing was to be exposed, not even programs");
        for (size_t i = 0; i < in->root->n_shown; i++) {
                const RootBind *b = in->root->shown + i;
                _cleanup_close_ int fd = open_resolved(
                                root_fd, b->destination, O_PATH, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
                struct stat st;

                if (fd < 0)
                        r = broken(why, "%s is not there: %s", b->destination, strerror(-fd));
                else if (fstat(fd, &st) < 0)
                        return -errno;
                else if (st.st_dev != b->device || st.st_ino != b->inode)
                        r = broken(why, "%s shows something else than %s", b->destination, b->source);
        }
        return r;
}
