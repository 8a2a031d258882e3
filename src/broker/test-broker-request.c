/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "broker/broker-authz.h"
#include "broker/broker-request.h"
#include "broker/broker-stdio.h"
#include "broker/broker-unit.h"
#include "wire/bus-iface.h"
#include "wire/copyout.h"

/* ---- Run's message, as a client could write it */

typedef struct Wish {
        const char *policy;
        char **tightenings, **argv, **env;
        const char *option, *option_text; /* one option; text or flag */
        bool scope_fds, detach, tty;
        int n_fds;
        size_t long_argument; /* one more argument, of this many bytes */
        bool nul;             /* a NUL byte in the last argument */
        char **paths;         /* results */
        int copy_in, copy_out; /* 0: none */
        int view;
} Wish;

static sd_bus *bus;
static int bus_peer;

static int setup(void **state)
{
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        bus_peer = pair[1];
        return sd_bus_new(&bus) >= 0 && sd_bus_set_fd(bus, pair[0], pair[0]) >= 0 && sd_bus_start(bus) >= 0
                               ? 0
                               : -1;
}

static int teardown(void **state)
{
        sd_bus_close_unref(bus);
        close(bus_peer);
        return 0;
}

static void append_bytes(sd_bus_message *m, char *const *l, const Wish *w)
{
        assert_true(sd_bus_message_open_container(m, 'a', "ay") >= 0);
        STRV_FOREACH(i, l)
                assert_true(sd_bus_message_append_array(m, 'y', *i, strlen(*i)) >= 0);
        if (w && w->long_argument > 0) {
                void *p;

                assert_true(sd_bus_message_append_array_space(m, 'y', w->long_argument, &p) >= 0);
                memset(p, 'x', w->long_argument);
        }
        if (w && w->nul)
                assert_true(sd_bus_message_append_array(m, 'y', "a\0b", 3) >= 0);
        assert_true(sd_bus_message_close_container(m) >= 0);
}

static void append_copies(sd_bus_message *m, const Wish *w)
{
        if (w->copy_in > 0)
                assert_true(sd_bus_message_append(m, "{sv}", "copy-in", "h", w->copy_in) >= 0);
        if (w->copy_out > 0)
                assert_true(sd_bus_message_append(m, "{sv}", "copy-out", "h", w->copy_out) >= 0);
        if (w->view > 0)
                assert_true(sd_bus_message_append(m, "{sv}", "view", "h", w->view) >= 0);
        if (!w->paths)
                return;
        assert_true(sd_bus_message_open_container(m, 'e', "sv") >= 0 &&
                        sd_bus_message_append(m, "s", "copy-out-paths") >= 0 &&
                        sd_bus_message_open_container(m, 'v', "aay") >= 0);
        append_bytes(m, w->paths, NULL);
        assert_true(sd_bus_message_close_container(m) >= 0 && sd_bus_message_close_container(m) >= 0);
}

static int read_wish(const Wish *w, Request *ret)
{
        _cleanup_message_ sd_bus_message *m = NULL;
        _cleanup_error_ Error *e = NULL;
        int r;

        assert_true(sd_bus_message_new_method_call(bus, &m, AGENTBOX_BUS_NAME, AGENTBOX_OBJECT_PATH,
                                    AGENTBOX_MANAGER_INTERFACE, "Run") >= 0);
        assert_true(sd_bus_message_append(m, "s", w->policy ? w->policy : "default") >= 0);
        assert_true(sd_bus_message_append_strv(m, w->tightenings) >= 0);
        append_bytes(m, w->argv, w);
        append_bytes(m, w->env, NULL);
        assert_true(sd_bus_message_open_container(m, 'a', "{sv}") >= 0);
        if (w->option)
                assert_true(sd_bus_message_append(m, "{sv}", w->option, "s", w->option_text) >= 0);
        if (w->scope_fds)
                assert_true(sd_bus_message_append(m, "{sv}{sv}", "scope-channel", "h", bus_peer,
                                            "scope-pidfd", "h", bus_peer) >= 0);
        if (w->detach)
                assert_true(sd_bus_message_append(m, "{sv}", "detach", "b", 1) >= 0);
        if (w->tty)
                assert_true(sd_bus_message_append(m, "{sv}", "tty", "b", 1) >= 0);
        append_copies(m, w);
        assert_true(sd_bus_message_close_container(m) >= 0 &&
                        sd_bus_message_open_container(m, 'a', "h") >= 0);
        for (int i = 0; i < w->n_fds; i++)
                assert_true(sd_bus_message_append_basic(m, 'h', &bus_peer) >= 0);
        assert_true(sd_bus_message_close_container(m) >= 0 && sd_bus_message_seal(m, 1, 0) >= 0);
        r = request_read(m, ret, &e);
        assert_true((e != NULL) == (r < 0));
        return r;
}

#define L(...) ((char **) (const char *[]){ __VA_ARGS__, NULL })

static void test_request(void **state)
{
        _cleanup_(request_done) Request q = REQUEST_NONE;
        _cleanup_free_ char *directory = NULL;

        assert_int_equal(read_wish(&(Wish){ .policy = "python",
                                                   .tightenings = L("Limits.Memory=1M"),
                                                   .argv = L("a", "", "\xff\x01"),
                                                   .env = L("A=b"),
                                                   .option = "cwd",
                                                   .option_text = "x/y",
                                                   .n_fds = 3 },
                                         &q),
                        0);
        assert_string_equal(q.policy, "python");
        assert_string_equal(q.tightenings[0], "Limits.Memory=1M");
        assert_int_equal(strv_length(q.argv), 3);
        assert_string_equal(q.argv[1], "");
        assert_string_equal(q.argv[2], "\xff\x01");
        assert_string_equal(q.env[0], "A=b");
        assert_true(q.stdio[0] > 2 && q.stdio[1] > 2 && q.stdio[2] > 2 && q.stdio[0] != bus_peer);
        assert_false(q.detach || q.tty || q.scope);
        directory = request_directory(&q, "/workspace");
        assert_string_equal(directory, "/workspace/x/y");
}

static void test_request_bounds(void **state)
{
        const struct {
                Wish wish;
                int r;
        } rows[] = {
                { { .argv = L("true"), .detach = true }, 0 },
                { { .argv = L("true"), .n_fds = 3, .tty = true }, 0 },
                { { .argv = L("true"), .n_fds = 3, .option = "name", .option_text = "a_b-C9" }, 0 },
                { { .argv = L("true"), .n_fds = 3, .long_argument = 5u << 20 }, 0 },
                { { .argv = L("true"),
                                  .n_fds = 3,
                                  .option = "unit",
                                  .option_text = "scope",
                                  .scope_fds = true },
                                0 },
                { { .argv = L("true"), .n_fds = 3, .option = "unit", .option_text = "scope" }, -EINVAL },
                { { .argv = L("true"), .n_fds = 3, .scope_fds = true }, -EINVAL },
                { { .argv = L("true"),
                                  .option = "unit",
                                  .option_text = "scope",
                                  .scope_fds = true,
                                  .detach = true },
                                -EINVAL },
                { { .n_fds = 3 }, -EINVAL }, { { .argv = L("true"), .n_fds = 2 }, -EINVAL },
                { { .argv = L("true"), .n_fds = 4 }, -EINVAL },
                { { .argv = L("true"), .n_fds = 0 }, -EINVAL },
                { { .argv = L("true"), .n_fds = 3, .detach = true }, -EINVAL },
                { { .argv = L("true"), .detach = true, .tty = true }, -EINVAL },
                { { .argv = L("true"), .n_fds = 3, .nul = true }, -EINVAL },
                { { .argv = L("true"), .n_fds = 3, .long_argument = 6u << 20 }, -E2BIG },
                { { .argv = L("true"), .n_fds = 3, .option = "name", .option_text = "" }, -EINVAL },
                { { .argv = L("true"), .n_fds = 3, .option = "name", .option_text = "a b" }, -EINVAL },
                { { .argv = L("true"),
                                  .n_fds = 3,
                                  .option = "name",
                                  .option_text = "012345678901234567890123456789012" },
                                -EINVAL },
                { { .argv = L("true"), .n_fds = 3, .option = "term", .option_text = "x\x1b" }, -EINVAL },
                { { .argv = L("true"), .n_fds = 3, .option = "cwd", .option_text = "" }, -EINVAL },
                { { .argv = L("true"), .n_fds = 3, .option = "unit", .option_text = "slice" }, -EINVAL },
                { { .argv = L("true"), .n_fds = 3, .option = "privileged", .option_text = "yes" }, -EINVAL },
                { { .argv = L("true"), .n_fds = 3, .option = "detach", .option_text = "yes" },
                                -EINVAL }, /* of the wrong type */
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                Request q = REQUEST_NONE;
                int r = read_wish(&rows[i].wish, &q);

                if (r != rows[i].r)
                        fail_msg("row %zu: %i", i, r);
                assert_true((q.argv != NULL) == (r == 0)); /* untouched on failure */
                request_done(&q);
        }
}

static void test_request_many_arguments(void **state)
{
        char **argv = calloc(70001, sizeof(char *));
        Request q = REQUEST_NONE;

        for (int i = 0; i < 70000; i++)
                argv[i] = (char *) "x";
        assert_int_equal(read_wish(&(Wish){ .argv = argv, .n_fds = 3 }, &q), -E2BIG);
        argv[10000] = NULL;
        assert_int_equal(read_wish(&(Wish){ .argv = argv, .n_fds = 3 }, &q), 0);
        assert_int_equal(strv_length(q.argv), 10000);
        request_done(&q);
        free(argv);
}

static void test_directory(void **state)
{
        const struct {
                const char *given, *expected;
        } rows[] = { { NULL, "/w" }, { "a", "/w/a" }, { "/usr", "/usr" }, { "..", "/w/.." } };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                Request q = { .cwd = (char *) rows[i].given };
                _cleanup_free_ char *d = request_directory(&q, "/w");

                assert_string_equal(d, rows[i].expected);
        }
}

/* ---- descriptors */

typedef enum Kind {
        PIPE_R,
        PIPE_W,
        NULL_RW,
        NULL_PATH,
        FILE_RW,
        DIRECTORY,
        SOCKET,
        PTS,
        PTS_OTHER,
        PTS_READ,
        CLOSED
} Kind;

static int pty_slave(int flags)
{
        int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave;

        assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
        slave = open(ptsname(master), flags | O_NOCTTY | O_CLOEXEC);
        assert_true(slave >= 0);
        return slave; /* the master stays open: else its number would be given out again */
}

static int open_kind(Kind kind, int pts)
{
        int fds[2];

        switch (kind) {
        case PIPE_R:
        case PIPE_W:
                assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
                close(fds[kind == PIPE_R]);
                return fds[kind == PIPE_W];
        case NULL_RW:
                return open("/dev/null", O_RDWR | O_CLOEXEC);
        case NULL_PATH:
                return open("/dev/null", O_PATH | O_CLOEXEC);
        case FILE_RW:
                return open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        case DIRECTORY:
                return open("/", O_RDONLY | O_CLOEXEC);
        case SOCKET:
                return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        case PTS:
                return fcntl(pts, F_DUPFD_CLOEXEC, 3);
        case PTS_OTHER:
                return pty_slave(O_RDWR);
        case PTS_READ:
                return pty_slave(O_RDONLY);
        case CLOSED:
                return -1;
        }
        return -1;
}

static void test_stdio(void **state)
{
        const struct {
                Kind kinds[3];
                bool tty, forbidden;
                int r;
        } rows[] = {
                { { PIPE_R, PIPE_W, PIPE_W }, false, false, 0 },
                { { NULL_RW, PIPE_W, NULL_RW }, false, false, 0 },
                { { PTS, PTS, PTS }, true, false, 0 },
                { { PIPE_W, PIPE_W, PIPE_W }, false, false, -EBADF },
                { { PIPE_R, PIPE_R, PIPE_W }, false, false, -EBADF },
                { { NULL_PATH, PIPE_W, PIPE_W }, false, false, -EBADF },
                { { FILE_RW, PIPE_W, PIPE_W }, false, false, -EINVAL },
                { { PIPE_R, FILE_RW, PIPE_W }, false, false, -EINVAL },
                { { DIRECTORY, PIPE_W, PIPE_W }, false, false, -EINVAL },
                { { SOCKET, SOCKET, SOCKET }, false, false, -EINVAL },
                { { PTS, PTS, PTS }, false, false, -EINVAL },
                { { PIPE_R, PIPE_W, PTS }, false, false, -EINVAL },
                { { PIPE_R, PIPE_W, PIPE_W }, true, false, -EINVAL },
                { { NULL_RW, NULL_RW, NULL_RW }, true, false, -EINVAL },
                { { PTS, PTS, PTS_OTHER }, true, false, -EINVAL },
                { { PTS_READ, PTS, PTS }, true, false, -EBADF },
                { { PTS, PTS, PTS }, true, true, -EPERM },
                { { CLOSED, PIPE_W, PIPE_W }, false, false, -EBADF },
        };
        int pts = pty_slave(O_RDWR);
        struct stat st;

        assert_int_equal(fstat(pts, &st), 0);
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                int fds[3], r;
                _cleanup_error_ Error *e = NULL;

                for (int k = 0; k < 3; k++)
                        fds[k] = open_kind(rows[i].kinds[k], pts);
                r = stdio_check(fds, rows[i].tty, rows[i].forbidden ? st.st_rdev : 0, &e);
                if (r != rows[i].r)
                        fail_msg("row %zu: %i %s", i, r, error_message(e, r));
                for (int k = 0; k < 3; k++)
                        closep(fds + k);
        }
        close(pts);
}

static void test_pipes(void **state)
{
        static const struct {
                Kind kind;
                int reading, writing;
        } rows[] = {
                { PIPE_R, 0, -EBADF },
                { PIPE_W, -EBADF, 0 },
                { NULL_RW, -EINVAL, -EINVAL },
                { NULL_PATH, -EINVAL, -EINVAL },
                { FILE_RW, -EINVAL, -EINVAL },
                { DIRECTORY, -EINVAL, -EINVAL },
                { SOCKET, -EINVAL, -EINVAL },
                { CLOSED, -EINVAL, -EINVAL },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_close_ int fd = open_kind(rows[i].kind, -1);

                assert_int_equal(pipe_check(fd, false), rows[i].reading);
                assert_int_equal(pipe_check(fd, true), rows[i].writing);
        }
}

static void test_copies(void **state)
{
        char *many[COPYOUT_PATHS_MAX + 2] = {};
        int r = open_kind(PIPE_R, -1), w = open_kind(PIPE_W, -1), file = open_kind(FILE_RW, -1);
        const struct {
                Wish wish;
                int r;
        } rows[] = {
                { { .copy_in = r, .copy_out = w, .paths = L("a/b", ".", "\xff") }, 0 },
                { { .copy_in = r }, 0 },
                { { .copy_in = r, .detach = true }, 0 },
                { { .copy_out = w, .paths = L("a") }, 0 },
                { { .copy_out = w, .paths = L("a"), .detach = true }, -EINVAL },
                { { .copy_in = w }, -EINVAL },
                { { .view = file }, 0 }, /* what it is open on is judged by the policy's reader */
                { { .view = file, .copy_out = w, .paths = L(".") }, 0 },
                { { .view = file, .detach = true }, 0 },
                { { .view = file, .copy_in = r }, -EINVAL },
                { { .copy_in = file }, -EINVAL },
                { { .copy_out = r, .paths = L("a") }, -EINVAL },
                { { .copy_out = file, .paths = L("a") }, -EINVAL },
                { { .copy_out = w }, -EINVAL },
                { { .paths = L("a") }, -EINVAL },
                { { .copy_out = w, .paths = many + 1 }, 0 },
                { { .copy_out = w, .paths = many }, -E2BIG },
                { { .copy_out = w, .paths = L("") }, -EINVAL },
                { { .copy_out = w, .paths = L("a", "..") }, -EINVAL },
                { { .copy_out = w, .paths = L("../a") }, -EINVAL },
                { { .copy_out = w, .paths = L("a/../b") }, -EINVAL },
                { { .copy_out = w, .paths = L("/etc/shadow") }, -EINVAL },
                { { .copy_out = w, .paths = L("a//b") }, -EINVAL },
        };

        for (size_t i = 0; i <= COPYOUT_PATHS_MAX; i++)
                many[i] = (char *) "a";
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                Wish wish = rows[i].wish;
                Request q = REQUEST_NONE;
                int k;

                wish.argv = L("true");
                wish.n_fds = wish.detach ? 0 : 3;
                k = read_wish(&wish, &q);
                if (k != rows[i].r)
                        fail_msg("row %zu: %i", i, k);
                if (k == 0) {
                        assert_int_equal(q.copy_in >= 0, wish.copy_in > 0);
                        assert_int_equal(q.copy_out >= 0, wish.copy_out > 0);
                        assert_int_equal(q.view >= 0, wish.view > 0);
                        assert_int_equal(strv_length(q.copy_paths), strv_length(wish.paths));
                        assert_true(q.copy_in != wish.copy_in && q.copy_out != wish.copy_out);
                }
                request_done(&q);
        }
        close(r);
        close(w);
        close(file);
}

/* ---- who may */

static void test_access(void **state)
{
        static const char *const no_dirs[] = { NULL };
        const struct {
                const char *access;
                Caller caller;
                bool open;
        } rows[] = {
                { "", { .uid = 0 }, true },
                { "", { .uid = 1000, .user = (char *) "a", .groups = L("users", "agentbox") }, true },
                { "", { .uid = 1000, .user = (char *) "a", .groups = L("users") }, false },
                { "", { .uid = 1000, .user = (char *) "agentbox", .groups = L("users") }, false },
                { "", { .uid = 1000 }, false }, /* nobody knows this uid */
                { "[Access]\nUsers=a\n", { .uid = 1000, .user = (char *) "a" }, true },
                { "[Access]\nUsers=a\n", { .uid = 1001, .user = (char *) "b", .groups = L("a") }, false },
                { "[Access]\nUsers=a\n", { .uid = 1001, .user = (char *) "b", .groups = L("agentbox") },
                                false },
                { "[Access]\nUsers=a\n", { .uid = 0 }, true },
                { "[Access]\nGroups=dev\n", { .uid = 1001, .user = (char *) "b", .groups = L("x", "dev") },
                                true },
                { "[Access]\nGroups=dev\n", { .uid = 1001, .user = (char *) "dev", .groups = L("agentbox") },
                                false },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_policy_ Policy *p = NULL;

                assert_int_equal(policy_load_text("t.policy", rows[i].access, strlen(rows[i].access),
                                                 no_dirs, NULL, &p, NULL),
                                0);
                if (authz_policy_is_open(p, &rows[i].caller) != rows[i].open)
                        fail_msg("row %zu", i);
        }
        assert_true(authz_owns(&(Caller){ .uid = 5 }, 5));
        assert_true(authz_owns(&(Caller){ .uid = 0 }, 5));
        assert_false(authz_owns(&(Caller){ .uid = 6 }, 5));
        assert_false(authz_owns(&(Caller){ .uid = 6 }, 0));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_request),
                cmocka_unit_test(test_request_bounds),
                cmocka_unit_test(test_request_many_arguments),
                cmocka_unit_test(test_directory),
                cmocka_unit_test(test_stdio),
                cmocka_unit_test(test_pipes),
                cmocka_unit_test(test_copies),
                cmocka_unit_test(test_access),
        };

        return cmocka_run_group_tests_name("broker-request", tests, setup, teardown);
}
