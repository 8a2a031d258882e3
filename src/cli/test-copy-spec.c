/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/macro.h"
#include "cli/copy-spec.h"

#define WORKSPACE "/workspace"

static void test_in(void **state)
{
        static const struct {
                const char *text, *source, *dest; /* source NULL: refused */
        } rows[] = {
                { "src", "src", "src" },
                { "src/", "src/", "src" },
                { "/a/b/src", "/a/b/src", "src" },
                { ".", ".", "." },
                { "./", "./", "." },
                { "/", "/", "." },
                { "src/.", "src/.", "." },
                { "src:.", "src", "." },
                { "src:/workspace", "src", "." },
                { "src:/workspace/", "src", "src" },
                { "src:lib", "src", "lib" },
                { "src:a/b/c", "src", "a/b/c" },
                { "src:lib/", "src", "lib/src" },
                { "src:./lib//x/.", "src", "lib/x" },
                { "src:/workspace/lib", "src", "lib" },
                { "-", "-", "stdin" },
                { "-:a/b", "-", "a/b" },
                { "-:a/", "-", "a/stdin" },
                { "a:b:c", "a:b", "c" },
                { "..:up", "..", "up" },
                { "-rf", "-rf", "-rf" },
                { "", NULL, NULL },
                { ":", NULL, NULL },
                { "a:", NULL, NULL },
                { ":a", NULL, NULL },
                { "..", NULL, NULL },
                { "../..", NULL, NULL },
                { "a:..", NULL, NULL },
                { "a:../b", NULL, NULL },
                { "a:b/../c", NULL, NULL },
                { "a:/etc", NULL, NULL },
                { "a:/workspace2", NULL, NULL },
                { "a:/workspace/../etc", NULL, NULL },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_free_ char *source = NULL, *dest = NULL;
                _cleanup_error_ Error *e = NULL;
                int r = copy_in_spec(rows[i].text, WORKSPACE, &source, &dest, &e);

                if (!rows[i].source) {
                        if (r != -EINVAL || !e || source || dest)
                                fail_msg("%s is taken", rows[i].text);
                        continue;
                }
                if (r < 0)
                        fail_msg("%s: %s", rows[i].text, error_message(e, r));
                assert_string_equal(source, rows[i].source);
                assert_string_equal(dest, rows[i].dest);
        }
}

static void test_out(void **state)
{
        static const struct {
                const char *text, *source, *parent, *name;
        } rows[] = {
                { "out", "out", ".", "out" },
                { "a/b/out/", "a/b/out", ".", "out" },
                { "/workspace/out", "out", ".", "out" },
                { "out:new", "out", ".", "new" },
                { "out:/tmp/new", "out", "/tmp/", "new" },
                { "out:a/new", "out", "a/", "new" },
                { "out:/new", "out", "/", "new" },
                { "out:../new", "out", "../", "new" },
                { "a/out:dir/", "a/out", "dir/", "out" },
                { "out:.", "out", ".", "out" },
                { "out:..", "out", "..", "out" },
                { ".:all", ".", ".", "all" },
                { "/workspace:all", ".", ".", "all" },
                { "a:b:c", "a:b", ".", "c" },
                { "", NULL, NULL, NULL },
                { ".", NULL, NULL, NULL },
                { ".:dir/", NULL, NULL, NULL },
                { "..", NULL, NULL, NULL },
                { "out:", NULL, NULL, NULL },
                { ":x", NULL, NULL, NULL },
                { "../x:y", NULL, NULL, NULL },
                { "/etc/passwd", NULL, NULL, NULL },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_free_ char *source = NULL, *parent = NULL, *name = NULL;
                _cleanup_error_ Error *e = NULL;
                int r = copy_out_spec(rows[i].text, WORKSPACE, &source, &parent, &name, &e);

                if (!rows[i].source) {
                        if (r != -EINVAL || !e || source || parent || name)
                                fail_msg("%s is taken", rows[i].text);
                        continue;
                }
                if (r < 0)
                        fail_msg("%s: %s", rows[i].text, error_message(e, r));
                assert_string_equal(source, rows[i].source);
                assert_string_equal(parent, rows[i].parent);
                assert_string_equal(name, rows[i].name);
        }
}

static void test_long_names(void **state)
{
        char text[400] = "src:";
        _cleanup_free_ char *source = NULL, *dest = NULL, *parent = NULL, *name = NULL;

        memset(text + 4, 'a', 300);
        assert_int_equal(copy_in_spec(text, WORKSPACE, &source, &dest, NULL), -EINVAL);
        assert_int_equal(copy_out_spec(text, WORKSPACE, &source, &parent, &name, NULL), -EINVAL);
        text[4 + 255] = 0;
        assert_int_equal(copy_in_spec(text, WORKSPACE, &source, &dest, NULL), 0);
        free(TAKE_PTR(source));
        assert_int_equal(copy_out_spec(text, WORKSPACE, &source, &parent, &name, NULL), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_in),
                cmocka_unit_test(test_out),
                cmocka_unit_test(test_long_names),
        };

        return cmocka_run_group_tests_name("copy-spec", tests, NULL, NULL);
}
