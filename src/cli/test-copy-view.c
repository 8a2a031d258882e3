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
#include "cli/copy-view.h"
#include "wire/tree-receive.h"

static char base[] = "/tmp/agentbox-test-view-XXXXXX";
static View view;

static void put(const char *path, const char *text, mode_t mode)
{
        int fd = openat(view.fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        assert_true(fd >= 0 && write_full(fd, text, strlen(text)) == 0 && fchmod(fd, mode) == 0);
        close(fd);
}

static int set_up(void **state)
{
        strcpy(base + sizeof(base) - 7, "XXXXXX");
        assert_non_null(mkdtemp(base));
        view = VIEW_NONE;
        assert_int_equal(view_open(&view, base, NULL), 0);
        assert_true(mkdirat(view.fd, "d", 0755) == 0 && mkdirat(view.fd, "d/e", 0755) == 0);
        put("d/f", "text", 0644);
        put("d/program", "text", 0755);
        put("d/e/g", "g", 0644);
        assert_true(symlinkat("f", view.fd, "d/l") == 0 && symlinkat("/etc", view.fd, "out") == 0 &&
                        symlinkat("d", view.fd, "in") == 0);
        assert_int_equal(mkfifoat(view.fd, "fifo", 0600), 0);
        return 0;
}

static int tear_down(void **state)
{
        view_done(&view);
        return tree_remove(AT_FDCWD, base);
}

static Change compare(const char *path, TreeType type, uint32_t mode, const char *text)
{
        uint8_t sum[COPY_DIGEST_SIZE];
        CopyDigest d;

        if (type == TREE_LINK)
                copy_digest_text(&view.seen.key, text, sum);
        else {
                copy_digest_begin(&d, &view.seen.key);
                copy_digest_data(&d, 0, (const uint8_t *) text, strlen(text));
                copy_digest_end(&d, strlen(text), sum);
        }
        return view_compare(&view, path, type, mode, strlen(text), sum);
}

static void test_compare(void **state)
{
        static const struct {
                const char *path;
                TreeType type;
                uint32_t mode;
                const char *text;
                Change want;
        } rows[] = {
                { "d/f", TREE_FILE, 0600, "text", CHANGE_NONE },
                { "d/f", TREE_FILE, 0600, "texT", CHANGED },
                { "d/f", TREE_FILE, 0600, "text2", CHANGED },
                { "d/f", TREE_FILE, 0600, "", CHANGED },
                { "d/f", TREE_FILE, 0700, "text", CHANGED },
                { "d/program", TREE_FILE, 0711, "text", CHANGE_NONE },
                { "d/program", TREE_FILE, 0644, "text", CHANGED },
                { "d/l", TREE_LINK, 0, "f", CHANGE_NONE },
                { "d/l", TREE_LINK, 0, "e", CHANGED },
                { "d/l", TREE_FILE, 0644, "text", CHANGED },
                { "d/f", TREE_LINK, 0, "text", CHANGED },
                { "d", TREE_DIR, 0755, "", CHANGE_NONE },
                { "", TREE_DIR, 0755, "", CHANGE_NONE },
                { "d/f", TREE_DIR, 0755, "", CHANGED },
                { "d", TREE_FILE, 0644, "", CHANGED },
                { "new", TREE_FILE, 0644, "", CHANGE_ADDED },
                { "d/f/new", TREE_FILE, 0644, "", CHANGE_ADDED },
                { "fifo", TREE_FILE, 0600, "", CHANGED }, /* nobody waits for it */
                /* A link of the directory is followed nowhere: what would be behind it is not there. */
                { "out/passwd", TREE_FILE, 0644, "", CHANGE_ADDED },
                { "in/f", TREE_FILE, 0644, "text", CHANGE_ADDED },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (compare(rows[i].path, rows[i].type, rows[i].mode, rows[i].text) != rows[i].want)
                        fail_msg("row %zu: %s", i, rows[i].path);
}

static void see(const char *path, TreeType type)
{
        TreeState s = {};
        TreeItem i = { .type = type };

        strcpy(s.path, path);
        view_observe(&view, &s, &i);
}

static int collect(void *userdata, const char *path, bool directory)
{
        char *to = userdata;

        assert_true(strlen(to) + strlen(path) + 3 < 256);
        strcat(to, path);
        strcat(to, directory ? "/ " : " ");
        return 0;
}

static void test_deleted(void **state)
{
        char found[256] = "";

        see("", TREE_DIR);
        see("d", TREE_DIR);
        see("d", TREE_WHOLE);
        see("d/f", TREE_FILE);
        see("d/l", TREE_LEFT);
        see("d/program", TREE_LINK);
        see("d/own", TREE_DIR);
        see("d/own", TREE_WHOLE); /* which was the run's alone */
        see("in", TREE_DIR);
        see("in", TREE_WHOLE); /* where the directory has a link */
        assert_int_equal(view_deleted(&view, found, collect), 0);
        assert_string_equal(found, "d/e/ ");
}

static int refuse(void *userdata, const char *path, bool directory)
{
        return -ENOMEM;
}

static void test_deleted_fails(void **state)
{
        see("d/e", TREE_WHOLE);
        assert_int_equal(view_deleted(&view, NULL, refuse), -ENOMEM);
}

static void test_open(void **state)
{
        static const char *const bad[] = { "/nowhere", "/dev/null", "" };
        View v = VIEW_NONE;

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                _cleanup_error_ Error *e = NULL;

                assert_true(view_open(&v, bad[i], &e) < 0);
                assert_non_null(strstr(error_message(e, 0), "--view"));
                assert_int_equal(v.fd, -1);
        }
}

int main(void)
{
#define WITH_DIRECTORY(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                WITH_DIRECTORY(test_compare),
                WITH_DIRECTORY(test_deleted),
                WITH_DIRECTORY(test_deleted_fails),
                cmocka_unit_test(test_open),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
