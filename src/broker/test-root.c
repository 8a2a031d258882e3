/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/io.h"
#include "broker/broker-root.h"
#include "policy/unit-props.h"

typedef struct Place {
        char directory[64];
        int parent_fd, fd;
        RunRoot root;
} Place;

static void place_init(Place *p)
{
        *p = (Place){ .directory = "/tmp/test-root.XXXXXX" };
        assert_non_null(mkdtemp(p->directory));
        p->parent_fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        p->fd = open(p->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(p->parent_fd >= 0 && p->fd >= 0);
}

static void place_done(Place *p)
{
        struct stat st;

        run_root_done(&p->root);
        assert_int_equal(run_root_remove(p->parent_fd, p->directory + strlen("/tmp/"), NULL), 0);
        assert_int_equal(stat(p->directory, &st), -1);
        close(p->fd);
        close(p->parent_fd);
}

static Policy *policy_of(const char *const *settings)
{
        Policy *p = policy_new("test");

        assert_non_null(p);
        for (; settings && *settings; settings++)
                assert_int_equal(policy_tighten(p, *settings, true, NULL), 0);
        return p;
}

static void create(Place *place, const Policy *p)
{
        Error *e = NULL;

        if (run_root_create(place->fd, place->directory, p, &place->root, &e) < 0)
                fail_msg("%s", error_message(e, 0));
}

static void check_mode(const Place *p, const char *path, mode_t type, mode_t mode)
{
        struct stat st;

        if (fstatat(p->fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
                fail_msg("%s is missing", path);
        assert_int_equal(st.st_mode & S_IFMT, type);
        if (type != S_IFLNK)
                assert_int_equal(st.st_mode & 07777, mode);
        assert_int_equal(st.st_uid, geteuid());
}

static void check_text(const Place *p, const char *path, const char *wanted)
{
        _cleanup_free_ char *text = NULL;

        assert_int_equal(read_file_at(p->fd, path, 1 << 20, &text, NULL), 0);
        assert_string_equal(text, wanted);
}

static void test_skeleton(void **state)
{
        static const char *const settings[] = { "Files.Workspace=/srv/work", NULL };
        static const char *const never[] = { "etc/shadow", "etc/gshadow", "etc/ssh", "etc/ssl/private",
                "etc/machine-id", "etc/fstab", "etc/pip.conf", "etc/npmrc", "home" };
        _cleanup_policy_ Policy *p = policy_of(settings);
        struct stat st;
        mode_t mask = umask(0077);
        Place place;

        place_init(&place);
        create(&place, p);
        umask(mask);
        check_mode(&place, "root", S_IFDIR, 0755);
        check_mode(&place, "root/usr", S_IFDIR, 0755);
        check_mode(&place, "root/etc", S_IFDIR, 0755);
        check_mode(&place, "root/tmp", S_IFDIR, 01777);
        check_mode(&place, "root/var/tmp", S_IFDIR, 01777);
        check_mode(&place, "root/srv/work", S_IFDIR, 0755);
        check_mode(&place, "root" UNIT_TMP_LINK, S_IFLNK, 0);
        check_mode(&place, "root" UNIT_VAR_TMP_LINK, S_IFLNK, 0);
        check_mode(&place, "root/etc/hosts", S_IFREG, 0644);
        check_mode(&place, "root/etc/nsswitch.conf", S_IFREG, 0644);
        check_text(&place, "root/etc/hostname", "sandbox\n");
        check_text(&place, "root/etc/resolv.conf", "nameserver 192.0.2.1\n");
        for (size_t i = 0; i < ELEMENTSOF(never); i++) {
                char path[64];

                snprintf(path, sizeof(path), "root/%s", never[i]);
                assert_int_equal(fstatat(place.fd, path, &st, AT_SYMLINK_NOFOLLOW), -1);
        }
        assert_true(strncmp(place.root.directory, place.directory, strlen(place.directory)) == 0);
        STRV_FOREACH(i, place.root.binds)
                assert_non_null(strchr(*i, ':'));
        place_done(&place);
}

static int create_fails(Place *place, const char *const *settings, const char *wanted)
{
        _cleanup_policy_ Policy *p = policy_of(settings);
        _cleanup_error_ Error *e = NULL;
        int r = run_root_create(place->fd, place->directory, p, &place->root, &e);

        if (r >= 0 || !strstr(error_message(e, r), wanted))
                fail_msg("expected \"%s\", got %i: %s", wanted, r, r < 0 ? error_message(e, r) : "success");
        (void) run_root_remove(place->fd, "root", NULL);
        return r;
}

static const RootBind *shown_at(const Place *p, const char *destination)
{
        for (size_t i = 0; i < p->root.n_shown; i++)
                if (streq(p->root.shown[i].destination, destination))
                        return p->root.shown + i;
        return NULL;
}

/* A tree that somebody else could change, is a file, or is no tree. */
static void test_other_root_refused(void **state)
{
        char setting[128];
        const char *const settings[] = { setting, NULL };
        Place place, tree;

        place_init(&place);
        place_init(&tree);
        /* /tmp is everybody's, and where the tests are root, the first part that is wrong. */
        snprintf(setting, sizeof(setting), "Files.Root=%s", tree.directory);
        assert_int_equal(create_fails(&place, settings, "/tmp can be written by others than root"), -EPERM);
        snprintf(setting, sizeof(setting), "Files.Root=/nonexistent/tree");
        assert_int_equal(create_fails(&place, settings, "/nonexistent: No such file"), -ENOENT);
        snprintf(setting, sizeof(setting), "Files.Root=/etc/passwd");
        assert_int_equal(create_fails(&place, settings, "disk images are not supported"), -EOPNOTSUPP);
        snprintf(setting, sizeof(setting), "Files.Root=/proc/self/root");
        assert_int_equal(create_fails(&place, settings, "is a symbolic link"), -ELOOP);
        place_done(&tree);
        place_done(&place);
}

/* What is no secret of root's alone is refused by name. That one is taken, and its size known, only root can
 * arrange: a live test. */
static void test_credentials_refused(void **state)
{
        static const struct {
                const char *setting, *says;
                int r;
        } rows[] = {
                { "Files.Credential=a:/nonexistent/a",
                                "Credential=a:/nonexistent/a: /nonexistent: No such file", -ENOENT },
                { "Files.Credential=a:/etc/nonexistent", "/etc/nonexistent: No such file", -ENOENT },
                { "Files.Credential=a:/etc/passwd", "/etc/passwd is open to others than root (mode 0644)",
                                -EPERM },
                { "Files.Credential=a:/usr/bin", "/usr/bin is not a regular file", -EINVAL },
                { "Files.Credential=a:/etc/mtab", "/etc/mtab is a symbolic link", -ELOOP },
        };
        Place place;

        place_init(&place);
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                const char *const settings[] = { rows[i].setting, NULL };

                assert_int_equal(create_fails(&place, settings, rows[i].says), rows[i].r);
        }
        place_done(&place);
}

/* Where a link leads is a matter for the live tests: a policy cannot name what a test may write. */
static void test_expose(void **state)
{
        static const char *const good[] = { "Files.Expose=/usr/share", NULL }, *const absent[] = {
                "Files.Expose=/opt/agentbox-test-absent", NULL
        };
        _cleanup_policy_ Policy *p = policy_of(good);
        Place place;

        place_init(&place);
        assert_int_equal(create_fails(&place, absent, "Expose=/opt/agentbox-test-absent: No such file"),
                        -ENOENT);
        create(&place, p);
        assert_string_equal(shown_at(&place, "/usr/share")->source, "/usr/share");
        assert_string_equal(shown_at(&place, "/usr")->source, "/usr");
        place_done(&place);
}

/* The names that the trick with the links rests on: behind the path that they lead to. */
static void test_links_sort_behind(void **state)
{
        assert_true(strcmp(UNIT_TMP_LINK, "/var/tmp") > 0);
        assert_true(strcmp(UNIT_VAR_TMP_LINK, "/var/tmp") > 0);
        assert_true(strcmp(UNIT_TMP_LINK, "/tmp") > 0);
}

static void test_identity(void **state)
{
        _cleanup_policy_ Policy *p = policy_of(NULL);
        Place place;

        place_init(&place);
        create(&place, p);
        assert_int_equal(run_root_write_identity(&place.root, 61200, 61201, p, NULL), 0);
        check_text(&place, "root/etc/passwd",
                        "root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:61200:61201:agent:/workspace:/bin/"
                        "sh\n"
                        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
        check_text(&place, "root/etc/group", "root:x:0:\ntty:x:5:\nagent:x:61201:\nnogroup:x:65534:\n");
        check_mode(&place, "root/etc/passwd", S_IFREG, 0644);
        assert_int_equal(run_root_write_identity(&place.root, 1, 1, p, NULL), -EEXIST);
        place_done(&place);
}

static void test_no_network(void **state)
{
        static const char *const settings[] = { "Network.Egress=none", NULL };
        _cleanup_policy_ Policy *p = policy_of(settings);
        Place place;

        place_init(&place);
        create(&place, p);
        check_text(&place, "root/etc/resolv.conf", "");
        place_done(&place);
}

/* Links, directories and deep trees go; what a link leads to stays. */
static void test_remove(void **state)
{
        Place place, other;
        struct stat st;
        Error *e = NULL;
        int fd;

        place_init(&place);
        place_init(&other);
        assert_int_equal(write_new_file_at(other.fd, "keep", "x", 1, 0644), 0);
        assert_int_equal(symlinkat(other.directory, place.fd, "link"), 0);
        assert_int_equal(mkdirat(place.fd, "a", 0700), 0);
        assert_int_equal(mkdirat(place.fd, "a/b", 0700), 0);
        assert_int_equal(mkfifoat(place.fd, "a/b/fifo", 0600), 0);
        place_done(&place);
        assert_int_equal(fstatat(other.fd, "keep", &st, 0), 0);

        assert_int_equal(symlinkat(other.directory, other.fd, "self"), 0);
        assert_true(run_root_remove(other.fd, "self", &e) < 0);
        assert_non_null(e);
        error_free(e);
        assert_true(run_root_remove(other.fd, "..", NULL) < 0);
        assert_true(run_root_remove(other.fd, "/", NULL) < 0);
        assert_int_equal(run_root_remove(other.fd, "absent", NULL), -ENOENT);

        /* Deeper than anything that is made here: refused, not followed until the stack ends. */
        fd = dup(other.fd);
        for (int i = 0; i < 80; i++) {
                int next;

                assert_int_equal(mkdirat(fd, "d", 0700), 0);
                next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                assert_true(next >= 0);
                close(fd);
                fd = next;
        }
        assert_int_equal(run_root_remove(other.fd, "d", NULL), -ELOOP);
        /* By hand, from the bottom. */
        for (int i = 0; i < 80; i++) {
                int up = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

                assert_int_equal(unlinkat(up, "d", AT_REMOVEDIR), 0);
                close(fd);
                fd = up;
        }
        close(fd);
        place_done(&other);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_skeleton),
                cmocka_unit_test(test_other_root_refused),
                cmocka_unit_test(test_expose),
                cmocka_unit_test(test_credentials_refused),
                cmocka_unit_test(test_links_sort_behind),
                cmocka_unit_test(test_identity),
                cmocka_unit_test(test_no_network),
                cmocka_unit_test(test_remove),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
