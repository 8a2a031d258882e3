/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/io.h"
#include "policy/policy-explain.h"
#include "policy/policy.h"

/* The shipped policies as they come out of the printer, and the messages of broken ones, against
 * tests/golden. argv[1] is the top of the source tree; with --update behind it the expected files are
 * written anew, to be looked at with git diff. */

static const char *top;
static bool update;

static char *format(const char *format, ...) _printf_(1, 2);
static char *format(const char *fmt, ...)
{
        va_list ap;
        char *s;
        int n;

        va_start(ap, fmt);
        n = vasprintf(&s, fmt, ap);
        va_end(ap);
        assert_true(n >= 0);
        return s;
}

static void compare(const char *path, const char *got)
{
        _cleanup_free_ char *want = NULL;

        if (update) {
                FILE *f = fopen(path, "we");

                assert_non_null(f);
                assert_true(fputs(got, f) >= 0);
                assert_int_equal(fclose(f), 0);
                return;
        }
        if (read_file(path, 1 << 20, &want, NULL) < 0)
                fail_msg("%s is missing: tests/golden/update writes it", path);
        assert_string_equal(got, want);
}

static Policy *load_shipped(const char *name)
{
        _cleanup_free_ char *dir = format("%s/policy.d", top),
                            *allow = format("%s/tests/golden/allow.d", top);
        const char *const dirs[] = { dir, NULL };
        _cleanup_error_ Error *e = NULL;
        Policy *p = NULL;

        if (policy_load(name, dirs, allow, &p, &e) < 0)
                fail_msg("%s: %s", name, error_message(e, -EINVAL));
        return p;
}

static char **shipped_names(void)
{
        _cleanup_free_ char *dir = format("%s/policy.d", top);
        const char *const dirs[] = { dir, NULL };
        char **names = NULL;

        assert_int_equal(policy_list_names(dirs, &names), 0);
        assert_int_equal(strv_length(names), 6);
        return names;
}

static void test_shipped_text(void **state)
{
        _cleanup_strv_ char **names = shipped_names();

        STRV_FOREACH(i, names) {
                _cleanup_policy_ Policy *p = load_shipped(*i);
                _cleanup_free_ char *text = policy_to_text(p),
                                    *path = format("%s/tests/golden/policy/%s.txt", top, *i);

                assert_non_null(text);
                compare(path, text);
        }
}

static void test_print_parse_print(void **state)
{
        _cleanup_strv_ char **names = shipped_names();

        STRV_FOREACH(i, names) {
                _cleanup_policy_ Policy *p = load_shipped(*i), *again = NULL;
                _cleanup_free_ char *text = policy_to_text(p), *second = NULL, *digest = policy_digest(p),
                                    *digest2 = NULL;
                _cleanup_error_ Error *e = NULL;
                static const char *const nowhere[] = { NULL };

                if (policy_load_text(*i, text, strlen(text), nowhere, "/nonexistent", &again, &e) < 0)
                        fail_msg("%s", error_message(e, -EINVAL));
                second = policy_to_text(again);
                digest2 = policy_digest(again);
                assert_string_equal(text, second);
                assert_string_equal(digest, digest2);
                assert_int_equal(strlen(digest), 64);
        }
}

static void test_shipped_can_run(void **state)
{
        _cleanup_strv_ char **names = shipped_names();

        STRV_FOREACH(i, names) {
                _cleanup_policy_ Policy *p = load_shipped(*i);
                _cleanup_error_ Error *e = NULL;

                if (policy_check_enforceable(p, false, &e) < 0)
                        fail_msg("%s: %s", *i, error_message(e, -EINVAL));
        }
}

static void test_missing_set(void **state)
{
        _cleanup_free_ char *dir = format("%s/policy.d", top);
        const char *const dirs[] = { dir, NULL };
        _cleanup_policy_ Policy *p = NULL;
        _cleanup_error_ Error *e = NULL, *e2 = NULL;

        assert_int_equal(policy_load("python", dirs, "/nonexistent", &p, &e), -EINVAL);
        assert_non_null(strstr(e->message, "@package-index"));
        assert_non_null(strstr(e->message, "/nonexistent/package-index.list"));
        assert_null(p);
        assert_int_equal(policy_load_for_display("python", dirs, "/nonexistent", &p, &e2), 0);
        assert_string_equal(policy_list(p, NETWORK_ALLOW)[0], "@package-index");
        assert_int_equal(policy_check_enforceable(p, false, &e2), -EOPNOTSUPP);
}

static void test_explain_everything(void **state)
{
        _cleanup_strv_ char **names = shipped_names();

        STRV_FOREACH(i, names) {
                _cleanup_policy_ Policy *p = load_shipped(*i);
                _cleanup_(unit_props_done) UnitProps props = {};
                bool runs = policy_explain_props(p, &props, NULL) >= 0;

                for (int k = 0; k < _POLICY_KEY_MAX; k++) {
                        _cleanup_explanation_ PolicyExplanation x = {};

                        assert_int_equal(policy_explain_key(p, k, runs ? &props : NULL, &x), 0);
                        assert_int_equal(strv_length(x.values), strv_length(x.sources));
                        if (k != POLICY_EXTENDS && k != POLICY_DESCRIPTION && policy_is_set(p, k))
                                assert_true(strv_length(x.enforced) > 0);
                }
        }
}

/* Every message of every broken file, in full. */
static void test_errors(void **state)
{
        static const char *const names[] = { "addresses", "cycle-a", "many", "not-together", "rules" };
        _cleanup_free_ char *dir = format("%s/tests/golden/errors", top);

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                _cleanup_free_ char *path = format("%s/%s.policy", dir, names[i]),
                                    *want = format("%s/%s.txt", dir, names[i]);
                _cleanup_free_ char *text = NULL, *got = NULL, *file = format("%s.policy", names[i]);
                const char *const dirs[] = { dir, NULL };
                _cleanup_policy_ Policy *p = NULL;
                _cleanup_error_ Error *e = NULL;
                size_t size, cut = strlen(dir) + 1, n = 0;

                assert_int_equal(read_file(path, 1 << 20, &text, &size), 0);
                assert_int_equal(policy_load_text(file, text, size, dirs, "allow.d", &p, &e), -EINVAL);
                /* Without the place of this source tree. */
                got = format("%s\n", e->message);
                for (char *c = got; *c; c++) {
                        if (strncmp(c, dir, cut - 1) == 0)
                                c += cut;
                        got[n++] = *c;
                }
                got[n] = 0;
                compare(want, got);
        }
}

int main(int argc, char **argv)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_shipped_text),
                cmocka_unit_test(test_errors),
                cmocka_unit_test(test_print_parse_print),
                cmocka_unit_test(test_shipped_can_run),
                cmocka_unit_test(test_missing_set),
                cmocka_unit_test(test_explain_everything),
        };

        if (argc < 2)
                return 2;
        top = argv[1];
        update = argc > 2 && streq(argv[2], "--update");
        return cmocka_run_group_tests(tests, NULL, NULL);
}
