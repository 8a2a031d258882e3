/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>

#include "broker/broker-request.h"
#include "broker/broker-stdio.h"
#include "wire/bus-iface.h"
#include "wire/copyout.h"
#include "wire/runspec.h"

#define NAME_LENGTH_MAX 32u
#define TERM_LENGTH_MAX 64u
#define TIGHTENINGS_MAX 128u
#define TIGHTENING_LENGTH_MAX 8192u
#define ENV_MAX 65536u

static const char letters_and_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

static bool consists_of(const char *s, size_t max, const char *also)
{
        size_t n = strlen(s);

        if (n == 0 || n > max)
                return false;
        for (; *s; s++)
                if (!strchr(letters_and_digits, *s) && !strchr(also, *s))
                        return false;
        return true;
}

bool run_name_is_valid(const char *s)
{
        /* Never what an option looks like: names come back from "agentbox ps" into command lines. */
        return consists_of(s, NAME_LENGTH_MAX, "_-") && strchr(letters_and_digits, *s);
}

bool term_is_valid(const char *s)
{
        return consists_of(s, TERM_LENGTH_MAX, "._+-");
}

void request_done(Request *q)
{
        free(q->policy);
        strv_free(q->tightenings);
        strv_free(q->argv);
        strv_free(q->env);
        free(q->cwd);
        free(q->name);
        free(q->term);
        for (int i = 0; i < 3; i++)
                closep(q->stdio + i);
        closep(&q->scope_channel);
        closep(&q->scope_pidfd);
        closep(&q->copy_in);
        closep(&q->copy_out);
        closep(&q->view);
        strv_free(q->copy_paths);
        *q = REQUEST_NONE;
}

static int malformed(int r, Error **reterr)
{
        if (r == -ENOMEM)
                return error_set(reterr, r, "out of memory");
        return error_set(reterr, -EINVAL, "the request is malformed: %s", strerror(-r));
}

static int read_text_argument(sd_bus_message *m, char **ret)
{
        const char *s;
        int r = sd_bus_message_read_basic(m, 's', &s);

        if (r < 0)
                return r;
        *ret = strdup(s);
        return *ret ? 0 : -ENOMEM;
}

static int read_tightenings(sd_bus_message *m, char ***ret, Error **reterr)
{
        _cleanup_strv_ char **l = NULL;
        const char *s;
        size_t n = 0;
        int r = sd_bus_message_enter_container(m, 'a', "s");

        while (r >= 0 && (r = sd_bus_message_read_basic(m, 's', &s)) > 0) {
                if (++n > TIGHTENINGS_MAX || strlen(s) > TIGHTENING_LENGTH_MAX)
                        return error_set(reterr, -E2BIG,
                                        "more than %u changes to the policy, or one longer than %u bytes",
                                        TIGHTENINGS_MAX, TIGHTENING_LENGTH_MAX);
                r = strv_extend(&l, s);
        }
        if (r >= 0)
                r = sd_bus_message_exit_container(m);
        if (r < 0)
                return malformed(r, reterr);
        *ret = TAKE_PTR(l);
        return 0;
}

typedef struct ByteStrings {
        char **l;
        size_t n, allocated;
} ByteStrings;

static int add_byte_string(ByteStrings *b, const void *p, size_t n)
{
        char *s;

        if (b->n + 1 >= b->allocated) {
                size_t want = MAX2((size_t) 16, b->allocated * 2);
                char **l = realloc(b->l, want * sizeof(char *));

                if (!l)
                        return -ENOMEM;
                b->l = l;
                b->allocated = want;
        }
        s = malloc(n + 1);
        if (!s)
                return -ENOMEM;
        memcpy(s, p, n);
        s[n] = 0;
        b->l[b->n++] = s;
        b->l[b->n] = NULL;
        return 0;
}

/* left: how many bytes the request may still have, each NUL counted. */
static int read_byte_strings(
                sd_bus_message *m, const char *what, size_t max, size_t *left, char ***ret, Error **reterr)
{
        ByteStrings b = {};
        _cleanup_strv_ char **l = NULL;
        int r = sd_bus_message_enter_container(m, 'a', "ay");

        while (r >= 0) {
                const void *p = NULL;
                size_t n = 0;

                r = sd_bus_message_read_array(m, 'y', &p, &n);
                if (r <= 0)
                        break;
                if (b.n >= max)
                        r = error_set(reterr, -E2BIG, "more than %zu %s", max, what);
                else if (n >= *left)
                        r = error_set(reterr, -E2BIG,
                                        "arguments and environment are larger than %u MiB together",
                                        REQUEST_BYTES_MAX >> 20);
                else if (n > 0 && memchr(p, 0, n))
                        r = error_set(reterr, -EINVAL, "a NUL byte in the %s", what);
                else
                        r = add_byte_string(&b, n > 0 ? p : "", n);
                l = b.l;
                *left -= r >= 0 ? n + 1 : 0;
        }
        l = b.l;
        if (r >= 0)
                r = sd_bus_message_exit_container(m);
        if (r < 0)
                return reterr && *reterr ? r : malformed(r, reterr);
        *ret = TAKE_PTR(l);
        return 0;
}

typedef enum OptionType { OPTION_TEXT, OPTION_FLAG, OPTION_FD, _OPTION_TYPE_MAX } OptionType;

static const struct {
        const char *name;
        OptionType type;
        size_t offset;
} options[] = {
        { "cwd", OPTION_TEXT, offsetof(Request, cwd) },
        { "name", OPTION_TEXT, offsetof(Request, name) },
        { "term", OPTION_TEXT, offsetof(Request, term) },
        { "detach", OPTION_FLAG, offsetof(Request, detach) },
        { "tty", OPTION_FLAG, offsetof(Request, tty) },
        { "scope-channel", OPTION_FD, offsetof(Request, scope_channel) },
        { "scope-pidfd", OPTION_FD, offsetof(Request, scope_pidfd) },
        { "copy-in", OPTION_FD, offsetof(Request, copy_in) },
        { "copy-out", OPTION_FD, offsetof(Request, copy_out) },
        { "view", OPTION_FD, offsetof(Request, view) },
};

#define N_OPTIONS (ELEMENTSOF(options) + 2) /* "unit", "copy-out-paths" */

static int read_flag(sd_bus_message *m, void *field)
{
        bool *ret = field;
        int v, r = sd_bus_message_read(m, "v", "b", &v);

        if (r >= 0)
                *ret = v;
        return r;
}

static int read_text(sd_bus_message *m, void *field)
{
        char **ret = field;
        const char *s;
        char *copy;
        int r = sd_bus_message_read(m, "v", "s", &s);

        if (r < 0)
                return r;
        copy = strdup(s);
        if (!copy)
                return -ENOMEM;
        free(*ret);
        *ret = copy;
        return 0;
}

static int read_fd(sd_bus_message *m, void *field)
{
        int *ret = field, fd, copy, r = sd_bus_message_read(m, "v", "h", &fd);

        if (r < 0)
                return r;
        copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        if (copy < 0)
                return -errno;
        closep(ret);
        *ret = copy;
        return 0;
}

static int (*const option_readers[_OPTION_TYPE_MAX])(sd_bus_message *m, void *field) = {
        [OPTION_TEXT] = read_text,
        [OPTION_FLAG] = read_flag,
        [OPTION_FD] = read_fd,
};

static int read_unit(sd_bus_message *m, Request *q, Error **reterr)
{
        const char *s;
        int r = sd_bus_message_read(m, "v", "s", &s);

        if (r < 0)
                return r;
        if (!streq(s, "service") && !streq(s, "scope"))
                return error_set(reterr, -EINVAL, "the kind of unit must be service or scope");
        q->scope = streq(s, "scope");
        return 0;
}

static int read_copy_paths(sd_bus_message *m, Request *q, Error **reterr)
{
        size_t left = COPYOUT_SPEC_SIZE_MAX / 2;
        char **l = NULL;
        int r = sd_bus_message_enter_container(m, 'v', "aay");

        if (r >= 0)
                r = read_byte_strings(m, "results", COPYOUT_PATHS_MAX, &left, &l, reterr);
        if (r < 0)
                return r;
        strv_free(q->copy_paths);
        q->copy_paths = l;
        STRV_FOREACH(i, l)
                if (!tree_path_is_valid(*i))
                        return error_set(reterr, -EINVAL, "a result's path must lie beneath the workspace");
        return sd_bus_message_exit_container(m);
}

static int read_option(sd_bus_message *m, const char *name, Request *q, Error **reterr)
{
        for (size_t i = 0; i < ELEMENTSOF(options); i++) {
                if (streq(options[i].name, name))
                        return option_readers[options[i].type](m, (char *) q + options[i].offset);
        }
        if (streq(name, "unit"))
                return read_unit(m, q, reterr);
        if (streq(name, "copy-out-paths"))
                return read_copy_paths(m, q, reterr);
        return error_set(reterr, -EINVAL, "unknown option \"%.40s\"", name);
}

static int read_options(sd_bus_message *m, Request *q, Error **reterr)
{
        int r = sd_bus_message_enter_container(m, 'a', "{sv}");
        size_t n = 0;

        while (r >= 0 && (r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
                const char *name;

                /* Or one could be repeated until the message, which is kept, is as large as the bus allows.
                 */
                if (++n > N_OPTIONS)
                        return error_set(reterr, -E2BIG, "more options than there are");

                r = sd_bus_message_read_basic(m, 's', &name);
                if (r >= 0)
                        r = read_option(m, name, q, reterr);
                if (r >= 0)
                        r = sd_bus_message_exit_container(m);
        }
        if (r >= 0)
                r = sd_bus_message_exit_container(m);
        if (r < 0)
                return reterr && *reterr ? r : malformed(r, reterr);
        return 0;
}

static int read_stdio(sd_bus_message *m, Request *q, Error **reterr)
{
        int fds[3], n = 0, fd, r = sd_bus_message_enter_container(m, 'a', "h");

        while (r >= 0 && (r = sd_bus_message_read_basic(m, 'h', &fd)) > 0) {
                if (n >= 3)
                        return error_set(reterr, -EINVAL, "more than three descriptors");
                fds[n++] = fd;
        }
        if (r >= 0)
                r = sd_bus_message_exit_container(m);
        if (r < 0)
                return malformed(r, reterr);
        if (n != (q->detach ? 0 : 3))
                return error_set(reterr, -EINVAL, "%s",
                                q->detach ? "a detached run takes no descriptors"
                                          : "three descriptors are needed: standard input, output and "
                                            "error");
        for (int i = 0; i < n; i++) {
                q->stdio[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
                if (q->stdio[i] < 0)
                        return error_set(reterr, -errno, "too many open files in the broker");
        }
        return 0;
}

static int check_copies(const Request *q, Error **reterr)
{
        if ((q->copy_out >= 0) != (strv_length(q->copy_paths) > 0))
                return error_set(reterr, -EINVAL, "results need a pipe to go to, and a pipe needs results");
        if (q->copy_out >= 0 && q->detach)
                return error_set(reterr, -EINVAL, "nobody waits for the results of a detached run");
        if (q->view >= 0 && q->scope)
                return error_set(reterr, -EINVAL, "a scope has no view: it sees the host's own files");
        if (q->view >= 0 && q->copy_in >= 0)
                return error_set(reterr, -EINVAL, "a run has either a view or files that are copied in");
        if (q->copy_in >= 0 && pipe_check(q->copy_in, false) < 0)
                return error_set(reterr, -EINVAL, "what is copied in comes from the read end of a pipe");
        if (q->copy_out >= 0 && pipe_check(q->copy_out, true) < 0)
                return error_set(reterr, -EINVAL, "results go to the write end of a pipe");
        return 0;
}

static int check(Request *q, Error **reterr)
{
        if (!q->argv)
                return error_set(reterr, -EINVAL, "no command was given");
        if (q->name && !run_name_is_valid(q->name))
                return error_set(reterr, -EINVAL,
                                "a run's name consists of 1 to %u letters, digits, \"_\" and \"-\", and "
                                "begins with a letter or digit",
                                NAME_LENGTH_MAX);
        if (q->cwd && (!*q->cwd || strlen(q->cwd) >= PATH_MAX - 256))
                return error_set(reterr, -EINVAL, "the directory to start in is empty or too long");
        if (q->tty && q->detach)
                return error_set(reterr, -EINVAL, "a detached run has no terminal");
        if (q->scope && q->detach)
                return error_set(reterr, -EINVAL,
                                "a detached run cannot be a scope: its command is a child of the client, "
                                "and "
                                "nobody else learns how it ends");
        if ((q->scope_channel >= 0) != q->scope || (q->scope_pidfd >= 0) != q->scope)
                return error_set(reterr, -EINVAL, "%s",
                                q->scope ? "a scope needs its process and the channel to it"
                                         : "only a scope has a process of the caller's");
        if (q->term && !term_is_valid(q->term))
                return error_set(reterr, -EINVAL, "TERM consists of 1 to %u letters, digits and \"._+-\"",
                                TERM_LENGTH_MAX);
        if (q->tty && !q->term) {
                q->term = strdup("xterm");
                if (!q->term)
                        return error_set(reterr, -ENOMEM, "out of memory");
        }
        return check_copies(q, reterr);
}

int request_read(sd_bus_message *m, Request *ret, Error **reterr)
{
        _cleanup_(request_done) Request q = REQUEST_NONE;
        size_t left = REQUEST_BYTES_MAX;
        int r = read_text_argument(m, &q.policy);

        if (r < 0)
                return malformed(r, reterr);
        r = read_tightenings(m, &q.tightenings, reterr);
        if (r >= 0)
                r = read_byte_strings(m, "arguments", RUNSPEC_ARGS_MAX, &left, &q.argv, reterr);
        if (r >= 0)
                r = read_byte_strings(m, "environment variables", ENV_MAX, &left, &q.env, reterr);
        if (r >= 0)
                r = read_options(m, &q, reterr);
        if (r >= 0)
                r = read_stdio(m, &q, reterr);
        if (r >= 0)
                r = check(&q, reterr);
        if (r < 0)
                return r;
        *ret = q;
        q = REQUEST_NONE;
        return 0;
}

char *request_directory(const Request *q, const char *workspace)
{
        char *path = NULL;

        if (!q->cwd)
                return strdup(workspace);
        if (q->cwd[0] == '/')
                return strdup(q->cwd);
        return asprintf(&path, "%s/%s", workspace, q->cwd) < 0 ? NULL : path;
}
