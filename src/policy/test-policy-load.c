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
#include "policy/policy.h"

/* Directories of policies in a place of their own: top/etc, top/run, top/usr, top/allow. */
typedef struct Place {
        char top[64], etc[80], run[80], usr[80], allow[80];
        const char *dirs[4];
} Place;

static Place place;

static int set_up(void **state)
{
        char *const subs[] = { place.etc, place.run, place.usr, place.allow };
        static const char *const names[] = { "etc", "run", "usr", "allow" };

        strcpy(place.top, "/tmp/test-policy-load.XXXXXX");
        assert_non_null(mkdtemp(place.top));
        for (size_t i = 0; i < ELEMENTSOF(subs); i++) {
                snprintf(subs[i], sizeof(place.etc), "%s/%s", place.top, names[i]);
                assert_int_equal(mkdir(subs[i], 0755), 0);
        }
        place.dirs[0] = place.etc;
        place.dirs[1] = place.run;
        place.dirs[2] = place.usr;
        return 0;
}

static int tear_down(void **state)
{
        char command[128];

        snprintf(command, sizeof(command), "rm -rf '%s'", place.top);
        return system(command);
}

/* name may lie in one directory below dir, which is made. */
static void put(const char *dir, const char *name, const char *text)
{
        const char *slash = strchr(name, '/');
        char path[256];

        if (slash) {
                snprintf(path, sizeof(path), "%s/%.*s", dir, (int) (slash - name), name);
                assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
        }
        snprintf(path, sizeof(path), "%s/%s", dir, name);
        assert_int_equal(write_new_file_at(AT_FDCWD, path, text, strlen(text), 0644), 0);
}

static Policy *loaded(const char *name)
{
        _cleanup_error_ Error *e = NULL;
        Policy *p = NULL;

        if (policy_load(name, place.dirs, place.allow, &p, &e) < 0)
                fail_msg("%s", error_message(e, -EINVAL));
        assert_string_equal(p->name, name);
        return p;
}

static void refused(const char *name, int error, const char *says)
{
        _cleanup_error_ Error *e = NULL;
        _cleanup_policy_ Policy *p = NULL;

        assert_int_equal(policy_load(name, place.dirs, place.allow, &p, &e), error);
        assert_null(p);
        if (!strstr(e->message, says))
                fail_msg("%s", e->message);
}

static void test_first_wins(void **state)
{
        _cleanup_policy_ Policy *p = NULL;
        _cleanup_strv_ char **names = NULL;
        _cleanup_free_ char *path = NULL;

        put(place.usr, "a.policy", "[Limits]\nTasks=3\nMemory=8M\n");
        put(place.run, "a.policy", "[Limits]\nTasks=2\n");
        put(place.etc, "a.policy", "[Limits]\nTasks=1\n");
        put(place.usr, "b.policy", "");
        put(place.usr, ".hidden.policy", "");
        put(place.usr, "b.conf", "");
        p = loaded("a");
        assert_int_equal(policy_u64(p, LIMITS_TASKS), 1);
        assert_int_equal(policy_u64(p, LIMITS_MEMORY), 256 << 20);
        assert_int_equal(policy_list_names(place.dirs, &names), 0);
        assert_int_equal(strv_length(names), 2);
        assert_string_equal(names[0], "a");
        assert_string_equal(names[1], "b");
        assert_int_equal(policy_find("a", place.dirs, &path), 0);
        assert_true(startswith(path, place.etc) != NULL);
}

static void test_no_such(void **state)
{
        put(place.usr, "a.policy", "");
        refused("c", -ENOENT, "there is no policy \"c\"; there are a");
        refused("../usr/a", -EINVAL, "no name of a policy");
        refused("", -EINVAL, "no name of a policy");
        refused(".a", -EINVAL, "no name of a policy");
        refused("a/../a", -EINVAL, "no name of a policy");
        refused("a\n", -EINVAL, "no name of a policy");
}

static void test_unreadable_is_not_passed_over(void **state)
{
        char path[256];

        put(place.usr, "a.policy", "");
        snprintf(path, sizeof(path), "%s/a.policy", place.etc);
        assert_int_equal(mkdir(path, 0755), 0);
        refused("a", -EINVAL, "cannot be read");
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(symlink("/nonexistent", path), 0);
        refused("a", -EINVAL, "cannot be read");
}

static void test_drop_ins(void **state)
{
        _cleanup_policy_ Policy *p = NULL;

        put(place.usr, "a.policy", "[Limits]\nTasks=3\n[Environment]\nPass=A\n");
        put(place.usr, "a.policy.d/10-first.conf", "[Limits]\nTasks=10\n[Environment]\nPass=B\n");
        put(place.usr, "a.policy.d/30-masked.conf", "[Limits]\nTasks=30\n[Environment]\nPass=MASKED\n");
        put(place.etc, "a.policy.d/30-masked.conf", "[Limits]\nOpenFiles=31\n");
        put(place.run, "a.policy.d/20-second.conf", "[Limits]\nTasks=20\n[Environment]\nPass=C\n");
        put(place.etc, "a.policy.d/ignored", "[Limits]\nTasks=99\n");
        put(place.etc, "a.policy.d/.hidden.conf", "[Limits]\nTasks=99\n");
        p = loaded("a");
        assert_int_equal(policy_u64(p, LIMITS_TASKS), 20);
        assert_int_equal(policy_u64(p, LIMITS_OPEN_FILES), 31);
        assert_int_equal(strv_length(policy_list(p, ENVIRONMENT_PASS)), 3);
        assert_string_equal(policy_list(p, ENVIRONMENT_PASS)[2], "C");
        assert_non_null(strstr(p->values[LIMITS_TASKS].source.file, "/run/a.policy.d/20-second.conf"));
        put(place.etc, "a.policy.d/90.conf", "[Policy]\nExtends=b\n[Limits]\nTasks=x\n");
        refused("a", -EINVAL, "90.conf:2:1: Extends= can stand in the policy's own file only");
        refused("a", -EINVAL, "90.conf:4:7: \"x\" is not a number");
}

static void test_extends(void **state)
{
        _cleanup_policy_ Policy *p = NULL;

        put(place.usr, "base.policy",
                        "[Policy]\nDescription=the "
                        "base\n[Limits]\nTasks=3\nMemory=8M\n[Environment]\nPass=A\nSet=X=1\n");
        put(place.etc, "base.policy.d/site.conf", "[Limits]\nMemory=16M\nOpenFiles=99\n");
        put(place.usr, "middle.policy",
                        "[Policy]\nExtends=base\n[Limits]\nOpenFiles=77\n[Environment]\nPass=B\n");
        put(place.usr, "top.policy",
                        "[Limits]\nTasks=5\n[Policy]\nExtends=middle\n[Environment]\nSet=X=2\nSet=Y=3\n");
        put(place.usr, "reset.policy", "[Policy]\nExtends=top\n[Environment]\nPass=\n[Limits]\nTasks=\n");
        p = loaded("top");
        assert_null(policy_string(p, POLICY_DESCRIPTION));
        assert_int_equal(policy_u64(p, LIMITS_TASKS), 5);
        assert_int_equal(policy_u64(p, LIMITS_MEMORY), 16 << 20);
        assert_int_equal(policy_u64(p, LIMITS_OPEN_FILES), 77);
        assert_int_equal(strv_length(policy_list(p, ENVIRONMENT_PASS)), 2);
        assert_int_equal(strv_length(policy_list(p, ENVIRONMENT_SET)), 2);
        assert_string_equal(policy_list(p, ENVIRONMENT_SET)[0], "X=2");
        policy_free(p);
        p = loaded("reset");
        assert_null(policy_list(p, ENVIRONMENT_PASS));
        assert_int_equal(policy_u64(p, LIMITS_TASKS), 64);
        assert_int_equal(policy_u64(p, LIMITS_OPEN_FILES), 77);
}

static void test_extends_goes_wrong(void **state)
{
        put(place.usr, "a.policy", "[Policy]\nExtends=b\n");
        put(place.usr, "b.policy", "[Policy]\nExtends=c\n[Limits]\nTasks=x\n");
        put(place.usr, "c.policy", "[Policy]\nExtends=a\n");
        put(place.usr, "d.policy", "[Policy]\nExtends=missing\n");
        refused("a", -EINVAL, "c.policy:2:9: Extends= goes in a circle: a -> b -> c -> a");
        refused("a", -EINVAL, "b.policy:4:7: \"x\" is not a number");
        refused("d", -EINVAL, "d.policy:2:9: Extends=missing: there is no policy of that name");
        for (int i = 0; i < 20; i++) {
                char name[32], text[64];

                snprintf(name, sizeof(name), "n%d.policy", i);
                snprintf(text, sizeof(text), "[Policy]\nExtends=n%d\n", i + 1);
                put(place.usr, name, text);
        }
        refused("n0", -EINVAL, "more than 16 policies");
}

static void test_sets(void **state)
{
        _cleanup_policy_ Policy *p = NULL;

        put(place.usr, "a.policy",
                        "[Network]\nAllow=tls first.example\nAllow=@mine\nAllow=tls last.example\n");
        put(place.allow, "mine.list",
                        "# ours\n\n  tls a.example ech=allow  \ntcp 10.0.0.0/8:22\ntls first.example\n");
        p = loaded("a");
        assert_int_equal(strv_length(policy_list(p, NETWORK_ALLOW)), 4);
        assert_string_equal(policy_list(p, NETWORK_ALLOW)[1], "tls a.example ech=allow");
        assert_string_equal(policy_list(p, NETWORK_ALLOW)[3], "tls last.example");
        assert_non_null(strstr(p->values[NETWORK_ALLOW].from[1], "/allow/mine.list:3:3"));
        put(place.usr, "b.policy", "[Network]\nAllow=@broken @missing\n");
        put(place.allow, "broken.list", "tls 1.2.3.4\n@mine\n192.0.2.1\n");
        refused("b", -EINVAL, "broken.list:1:5: a tls rule takes a name");
        refused("b", -EINVAL, "broken.list:2:1: a set cannot contain another set");
        refused("b", -EINVAL, "broken.list:3:1: Allow=192.0.2.1: with Egress=filtered");
        refused("b", -EINVAL, "b.policy:2:15: the set @missing is missing");
}

static void test_file(void **state)
{
        _cleanup_policy_ Policy *p = NULL;
        _cleanup_error_ Error *e = NULL, *e2 = NULL, *e3 = NULL;
        char path[256];

        put(place.top, "mine.policy", "[Policy]\nExtends=other\n");
        put(place.top, "other.policy", "[Limits]\nTasks=9\n");
        put(place.top, "drop.conf", "[Limits]\nTasks=0\n");
        put(place.top, "set.list", "tls a.example\nnonsense\n");
        snprintf(path, sizeof(path), "%s/mine.policy", place.top);
        assert_int_equal(policy_load_file(path, place.dirs, place.allow, &p, &e), 0);
        assert_string_equal(p->name, "mine");
        assert_int_equal(policy_u64(p, LIMITS_TASKS), 9);
        snprintf(path, sizeof(path), "%s/drop.conf", place.top);
        assert_int_equal(policy_check_drop_in(path, &e2), -EINVAL);
        assert_non_null(strstr(e2->message, "drop.conf:2:7: Tasks=0 is out of range"));
        snprintf(path, sizeof(path), "%s/set.list", place.top);
        assert_int_equal(policy_check_set_file(path, &e3), -EINVAL);
        assert_non_null(strstr(e3->message, "set.list:2:1: a rule starts with"));
        snprintf(path, sizeof(path), "%s/nothing.policy", place.top);
        policy_free(TAKE_PTR(p));
        assert_int_equal(policy_load_file(path, place.dirs, place.allow, &p, NULL), -ENOENT);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        static const struct CMUnitTest tests[] = {
                TEST(test_first_wins),
                TEST(test_no_such),
                TEST(test_unreadable_is_not_passed_over),
                TEST(test_drop_ins),
                TEST(test_extends),
                TEST(test_extends_goes_wrong),
                TEST(test_sets),
                TEST(test_file),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
