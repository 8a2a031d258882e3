/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/strv.h"

/* Growth in powers of two: no length may write past what was allocated, which the sanitizer sees. */
static void test_growth(void **state)
{
        _cleanup_strv_ char **l = NULL, **copy = NULL;

        for (unsigned i = 0; i < 100; i++) {
                char text[16];

                snprintf(text, sizeof(text), "%u", i);
                assert_int_equal(strv_extend(&l, text), 0);
                assert_int_equal(strv_length(l), i + 1);
                assert_string_equal(l[i], text);
                assert_null(l[i + 1]);
        }
        assert_int_equal(strv_copy(l, &copy), 0);
        assert_int_equal(strv_length(copy), 100);
        assert_ptr_not_equal(copy[99], l[99]);
        assert_string_equal(copy[99], "99");
        /* Cut short and grown again. */
        for (unsigned cut = 0; cut < 20; cut++) {
                _cleanup_strv_ char **c = NULL;

                assert_int_equal(strv_copy(l, &c), 0);
                for (unsigned i = cut; i < 100; i++) {
                        free(c[i]);
                        c[i] = NULL;
                }
                for (unsigned i = 0; i < 40; i++)
                        assert_int_equal(strv_extend(&c, "again"), 0);
                assert_int_equal(strv_length(c), cut + 40);
        }
}

static void test_null_is_empty(void **state)
{
        _cleanup_strv_ char **copy = NULL;
        _cleanup_free_ char *joined = strv_join(NULL, ", ");
        unsigned n = 0;

        assert_int_equal(strv_length(NULL), 0);
        assert_false(strv_contains(NULL, "x"));
        assert_string_equal(joined, "");
        assert_int_equal(strv_copy(NULL, &copy), 0);
        assert_null(copy);
        assert_null(strv_free(NULL));
        STRV_FOREACH(i, (char **) NULL)
                n++;
        assert_int_equal(n, 0);
}

static void test_split_join(void **state)
{
        static const struct {
                const char *text, *seps, *joined;
                size_t n;
        } rows[] = {
                { "a b c", " ", "a|b|c", 3 },
                { "  a \t b ", " \t", "a|b", 2 },
                { "", " ", "", 0 },
                { "   ", " ", "", 0 },
                { "one", " ", "one", 1 },
                { "a,b;c", ",;", "a|b|c", 3 },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_strv_ char **l = NULL;
                _cleanup_free_ char *joined = NULL;

                assert_int_equal(strv_split(rows[i].text, rows[i].seps, &l), 0);
                assert_int_equal(strv_length(l), rows[i].n);
                joined = strv_join(l, "|");
                assert_string_equal(joined, rows[i].joined);
        }
}

static void test_contains(void **state)
{
        char *l[] = { (char *) "a", (char *) "", (char *) "abc", NULL };

        assert_true(strv_contains(l, "abc"));
        assert_true(strv_contains(l, ""));
        assert_false(strv_contains(l, "ab"));
}

static void test_error(void **state)
{
        _cleanup_error_ Error *e = NULL;

        assert_int_equal(error_set(NULL, -EINVAL, "x"), -EINVAL);
        assert_int_equal(error_set(&e, -EINVAL, "first %d", 1), -EINVAL);
        assert_int_equal(error_set(&e, -EPERM, "second"), -EPERM); /* the first, which is the cause, stays */
        assert_string_equal(e->message, "first 1");
        assert_int_equal(e->code, -EINVAL);
        assert_int_equal(error_prefix(&e, -EINVAL, "in %s", "file"), -EINVAL);
        assert_string_equal(error_message(e, 0), "in file: first 1");
        assert_string_equal(error_message(NULL, -ENOENT), "No such file or directory");
        assert_int_equal(error_prefix(NULL, -EINVAL, "x"), -EINVAL);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_growth),
                cmocka_unit_test(test_null_is_empty),
                cmocka_unit_test(test_split_join),
                cmocka_unit_test(test_contains),
                cmocka_unit_test(test_error),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
