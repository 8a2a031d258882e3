/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/io.h"
#include "broker/view-source.h"
#include "wire/tree-receive.h"

/* The tests' directory may lie on any file system: what passes all else is refused for that, or not at all.
 */

static char base[] = "/tmp/agentbox-test-source-XXXXXX";
static int base_fd;
static char *table; /* of this process's mounts: it plays the host */

static int set_up(void **state)
{
        strcpy(base + sizeof(base) - 7, "XXXXXX");
        assert_non_null(mkdtemp(base));
        base_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(mkdirat(base_fd, "open", 0755) == 0 && mkdirat(base_fd, "open/deep", 0755) == 0 &&
                        mkdirat(base_fd, "opened", 0755) == 0);
        assert_int_equal(symlinkat("open", base_fd, "link"), 0);
        assert_int_equal(read_file("/proc/self/mountinfo", 4 << 20, &table, NULL), 0);
        return 0;
}

static int tear_down(void **state)
{
        close(base_fd);
        free(table);
        return tree_remove(AT_FDCWD, base);
}

static Policy *policy_of(const char *name)
{
        _cleanup_error_ Error *e = NULL;
        Policy *p = policy_new("test");
        char setting[256];

        assert_non_null(p);
        snprintf(setting, sizeof(setting), name ? "Files.View=%s/%s /nowhere/at/all" : "Files.View=", base,
                        name);
        if (policy_tighten(p, setting, true, &e) < 0)
                fail_msg("%s", error_message(e, 0));
        return p;
}

/* What is said of a descriptor, which is closed; NULL: it may be seen, but for its file system. */
static char *check(int fd, Policy *p)
{
        _cleanup_error_ Error *e = NULL;
        _cleanup_free_ char *path = NULL;
        char *said = NULL;
        int r;

        assert_true(fd >= 0);
        r = view_source_check(fd, table, p, &path, &e);
        if (r >= 0)
                assert_non_null(strstr(path, base));
        else if (r != -EOPNOTSUPP)
                said = strdup(error_message(e, r));
        close(fd);
        return said;
}

/* Whether the tests' directory is on a file system that there are views of. */
static bool on_views(void)
{
        Policy *p = policy_of("open");
        _cleanup_free_ char *path = NULL;
        _cleanup_error_ Error *e = NULL;
        int r = view_source_check(base_fd, table, p, &path, &e);

        policy_free(p);
        return r != -EOPNOTSUPP;
}

static void assert_said(int fd, const char *view, const char *words)
{
        Policy *p = policy_of(view);
        _cleanup_free_ char *said = check(fd, p);

        if (words && !on_views() && !strstr(words, "mount namespace") && !strstr(words, "allows no"))
                words = NULL;
        if (words ? !said || !strstr(said, words) : said != NULL)
                fail_msg("%s: %s", words ?: "it may be seen", said ?: "it may be seen");
        policy_free(p);
}

static int opened(const char *path)
{
        return openat(base_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void test_place(void **state)
{
        assert_said(opened("open"), "open", NULL);
        assert_said(opened("open/deep"), "open", NULL);
        assert_said(opened("link"), "open", NULL); /* it is what was opened */
        assert_said(opened("open/deep/.."), "open", NULL);
        assert_said(opened("opened"), "open", "beneath nothing");
        assert_said(opened("."), "open", "beneath nothing");
        assert_said(opened("open/../opened"), "open", "beneath nothing");
        assert_said(opened("/"), "open", "beneath nothing");
        assert_said(opened("open"), "link", "beneath nothing"); /* a policy's path is what it says */
        assert_said(opened("open"), NULL, "allows no views");
}

/* A name says nothing: what a descriptor is open on moves with it. */
static void test_moved(void **state)
{
        int in = opened("open/deep"), out = opened("opened");

        assert_true(renameat(base_fd, "open/deep", base_fd, "deep") == 0 &&
                        renameat(base_fd, "opened", base_fd, "open/in") == 0);
        assert_said(in, "open", "beneath nothing");
        assert_said(out, "open", NULL);
}

static void test_kind(void **state)
{
        int fds[2], file = openat(base_fd, "open/f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        assert_said(fds[0], "open", "mount namespace"); /* no mount of the host has it */
        assert_said(fds[1], "open", "mount namespace");
        assert_said(file, "open", "no directory");
        assert_said(openat(base_fd, "open", O_PATH | O_DIRECTORY | O_CLOEXEC), "open",
                        "not open for reading");
        assert_said(openat(base_fd, "open", O_PATH | O_CLOEXEC), "open", "not open for reading");
}

static void test_file_system(void **state)
{
        _cleanup_error_ Error *e = NULL;
        _cleanup_close_ int fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_free_ char *path = NULL;
        Policy *p = policy_of("open");

        assert_int_equal(view_source_check(fd, table, p, &path, &e), -EOPNOTSUPP);
        e = error_free(e);
        /* Of no mount that the host has. */
        assert_int_equal(view_source_check(base_fd, "1 0 8:1 / / rw - ext4 x rw\n", p, &path, &e), -EXDEV);
        e = error_free(e);
        assert_true(view_source_check(base_fd, "garbage\n", p, &path, &e) < 0);
        policy_free(p);
}

static void test_words_are_escaped(void **state)
{
        assert_int_equal(mkdirat(base_fd, "open/\x1b[2J\n", 0755), 0);
        assert_int_equal(mkdirat(base_fd, "\x1b[2J\n", 0755), 0);
        assert_said(opened("\x1b[2J\n"), "open", "\\x1b[2J\\x0a is beneath nothing");
        assert_said(opened("open/\x1b[2J\n"), "open", NULL);
}

int main(void)
{
#define WITH_DIRECTORY(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                WITH_DIRECTORY(test_place),
                WITH_DIRECTORY(test_moved),
                WITH_DIRECTORY(test_kind),
                WITH_DIRECTORY(test_file_system),
                WITH_DIRECTORY(test_words_are_escaped),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
