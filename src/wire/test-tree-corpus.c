/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/test-corpus.h"

#include <errno.h>
#include <sys/mman.h>

#include "wire/test-tree-harness.h"

/* The kept streams of tests/fuzz/corpus/tree, as both read them who must not believe the writer: the shim of a run, and the
 * client whom the results of one are for. */

#define ENTRIES_MAX 200u /* more than directories can be in one another */
#define BYTES_MAX (1u << 20)

static const char *top;

static const char *verdict(int r)
{
        switch (r) {
        case 0:
                return "ok";
        case -EBADMSG:
                return "malformed";
        case -E2BIG:
                return "limit";
        case -EREMOTEIO:
                return "failed";
        case -EEXIST:
                return "exists";
        default:
                return "refused";
        }
}

static int place_in(void *userdata, const char *path, TreePlace *ret)
{
        return tree_place_beneath(*(int *) userdata, path, ret);
}

static const char *receive(const uint8_t *p, size_t n, bool foreign)
{
        TreeReceiver r = TREE_RECEIVER_NONE;
        int fd = memfd_create("stream", MFD_CLOEXEC), dir, k;

        assert_true(fd >= 0);
        assert_int_equal(write_full(fd, p, n), 0);
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        assert_int_equal(mkdirat(to_fd, "top", 0755), 0);
        dir = openat(to_fd, "top", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(dir >= 0);
        assert_int_equal(tree_receiver_init(&r), 0);
        r.userdata = &dir;
        r.place = place_in;
        r.merge = !foreign;
        r.foreign = r.beneath = foreign;
        r.max_entries = ENTRIES_MAX;
        r.max_bytes = BYTES_MAX;
        k = receive_all(&r, fd);
        tree_receiver_done(&r);
        close(dir);
        close(fd);
        assert_int_equal(tree_remove(to_fd, "top"), 0);
        return verdict(k);
}

static bool is_as_kept(const char *file, const char *got, const char *want)
{
        if (!streq(got, want))
                print_error("%s: %s\n", file, got);
        return streq(got, want);
}

static bool all_are;

/* To the shim a directory may be there already, and a second one of the name adds to it; a link in its place is none. */
static const char *shim_want(const char *file, const char *want)
{
        static const struct {
                const char *file, *want;
        } others[] = { { "directory-twice.exists", "ok" }, { "link-then-directory.exists", "refused" } };

        for (size_t i = 0; i < ELEMENTSOF(others); i++)
                if (streq(others[i].file, file))
                        return others[i].want;
        return want;
}

static void check_kept(const char *file, const uint8_t *p, size_t n, const char *want)
{
        all_are &= is_as_kept(file, receive(p, n, true), want);
        all_are &= is_as_kept(file, receive(p, n, false), shim_want(file, want));
        /* Nothing beside the place. */
        assert_int_equal(stat_of(to_fd, ".").st_nlink, 2);
}

static void test_corpus(void **state)
{
        all_are = true;
        assert_true(corpus_each(top, "tree", check_kept) > 80);
        assert_true(all_are);
}

int main(int argc, char *argv[])
{
        static const struct CMUnitTest tests[] = { TREE_TEST(test_corpus) };

        if (argc != 2)
                return 2;
        top = argv[1];
        return cmocka_run_group_tests(tests, NULL, NULL);
}
