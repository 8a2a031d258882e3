/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <time.h>

#include "base/io.h"
#include "test-tree-harness.h"

#define NOBODY 65534

/* ---- what travels */

static bool was_whole(const Transfer *t, const char *path)
{
        for (size_t i = 0; i < t->n_wholes; i++)
                if (streq(t->whole_paths[i], path))
                        return true;
        return false;
}

static void is_layer(TreeSender *s)
{
        s->is_layer = true;
}

/* Of a layer, deletions are told: each one, or that a directory is all there is. */
static void test_layer(void **state)
{
        static const char *const directories[] = { "src", "src/some", "src/all", "src/all/below", "src/own", "src/closed", "merged",
                "merged/some", "merged/all", "merged/all/below", "merged/own", "merged/closed" };
        Transfer t = { .beside = "merged", .change = is_layer };

        for (size_t i = 0; i < ELEMENTSOF(directories); i++)
                assert_int_equal(mkdirat(from_fd, directories[i], 0755), 0);
        put(from_fd, "src/some/changed", "1");
        put(from_fd, "merged/some/changed", "1");
        put(from_fd, "merged/some/kept", "2"); /* the layer below has it */
        put(from_fd, "merged/kept", "2");
        put(from_fd, "src/all/new", "3");
        put(from_fd, "merged/all/new", "3");
        put(from_fd, "merged/all/below/kept", "4");
        assert_int_equal(mknodat(from_fd, "src/some/gone", S_IFCHR | 0600, 0), 0);
        assert_int_equal(unlinkat(from_fd, "merged/closed", AT_REMOVEDIR), 0); /* nothing is known of it */
        assert_whole(&t);
        assert_true(was_left(&t, "dst/some/gone", TREE_LEFT_WHITEOUT));
        assert_int_equal(t.n_lefts, 1);
        assert_true(was_whole(&t, "dst/all") && was_whole(&t, "dst/own"));
        assert_false(was_whole(&t, "dst") || was_whole(&t, "dst/some") || was_whole(&t, "dst/all/below") ||
                        was_whole(&t, "dst/closed"));
        assert_text(to_fd, "dst/some/changed", "1");
        assert_false(exists(to_fd, "dst/some/kept") || exists(to_fd, "dst/some/gone"));
}

/* Elsewhere it is a device like others, and nothing is whole. */
static void test_no_layer(void **state)
{
        Transfer t = {};

        assert_int_equal(mkdirat(from_fd, "src", 0755), 0);
        assert_int_equal(mknodat(from_fd, "src/gone", S_IFCHR | 0600, 0), 0);
        assert_whole(&t);
        assert_true(was_left(&t, "dst/gone", TREE_LEFT_DEVICE));
        assert_int_equal(t.n_wholes, 0);
}

static void test_tree(void **state)
{
        const struct timespec old[2] = { { .tv_sec = 5 }, { .tv_sec = 1234567890, .tv_nsec = 123456789 } };
        struct stat a, b;
        Transfer t = {};

        assert_int_equal(mkdirat(from_fd, "src", 0750), 0);
        assert_int_equal(mkdirat(from_fd, "src/d", 0700), 0);
        assert_int_equal(mkdirat(from_fd, "src/empty", 0711), 0);
        put(from_fd, "src/d/f", "content");
        put(from_fd, "src/none", "");
        put(from_fd, "src/a\nb", "newline");
        put(from_fd, "src/-rf *", "shell");
        put(from_fd, "src/\xff\xfe", "bytes");
        assert_int_equal(symlinkat("d/f", from_fd, "src/l"), 0);
        assert_int_equal(symlinkat("../none", from_fd, "src/d/l"), 0);
        assert_int_equal(symlinkat("nowhere", from_fd, "src/dangling"), 0);
        assert_int_equal(fchmodat(from_fd, "src/d/f", 0755, 0), 0);
        assert_int_equal(fchmodat(from_fd, "src/none", 0400, 0), 0);
        assert_int_equal(utimensat(from_fd, "src/d/f", old, 0), 0);
        assert_int_equal(utimensat(from_fd, "src/d", old, 0), 0);
        assert_whole(&t);
        assert_text(to_fd, "dst/d/f", "content");
        assert_text(to_fd, "dst/none", "");
        assert_text(to_fd, "dst/a\nb", "newline");
        assert_text(to_fd, "dst/-rf *", "shell");
        assert_text(to_fd, "dst/\xff\xfe", "bytes");
        assert_text(to_fd, "dst/l", "content");
        assert_text(to_fd, "dst/d/l", "");
        assert_true(S_ISLNK(stat_of(to_fd, "dst/dangling").st_mode));
        assert_int_equal(stat_of(to_fd, "dst").st_mode & 07777, 0750);
        assert_int_equal(stat_of(to_fd, "dst/empty").st_mode & 07777, 0711);
        assert_int_equal(stat_of(to_fd, "dst/none").st_mode & 07777, 0400);
        for (int i = 0; i < 2; i++) {
                a = stat_of(from_fd, i == 0 ? "src/d/f" : "src/d");
                b = stat_of(to_fd, i == 0 ? "dst/d/f" : "dst/d");
                assert_int_equal(b.st_mode, a.st_mode);
                assert_int_equal(b.st_mtim.tv_sec, 1234567890);
                assert_int_equal(b.st_mtim.tv_nsec, 123456789);
        }
        assert_int_equal(t.entries, 11);
        assert_int_equal(t.bytes, 7 + 7 + 5 + 5);
        assert_int_equal(t.left, 0);
}

static void test_one_file(void **state)
{
        Transfer t = { .path = "x/y/z" };

        put(from_fd, "src", "one");
        assert_whole(&t);
        assert_text(to_fd, "x/y/z", "one");
        assert_int_equal(stat_of(to_fd, "x/y").st_mode & 07777, 0755);
}

static void test_into_the_place_itself(void **state)
{
        Transfer t = { .path = "." }, file = { .path = "." };

        assert_int_equal(mkdirat(from_fd, "src", 0700), 0);
        put(from_fd, "src/f", "x");
        assert_whole(&t);
        assert_text(to_fd, "f", "x");
        assert_int_equal(stat_of(base_fd, "to").st_mode & 07777, 0755); /* it was there before */

        assert_int_equal(tree_remove(from_fd, "src"), 0);
        put(from_fd, "src", "x");
        transfer(&file);
        assert_int_equal(file.received, -EISDIR);
}

static void test_missing(void **state)
{
        Transfer t = {};

        assert_whole(&t);
        assert_true(was_left(&t, "dst", TREE_LEFT_MISSING));
        assert_false(exists(to_fd, "dst"));
}

static void test_large(void **state)
{
        size_t n = 3 * TREE_DATA_MAX + 12345;
        char *text = malloc(n + 1), *got;
        Transfer t = {};

        for (size_t i = 0; i < n; i++)
                text[i] = (char) ('a' + i % 23);
        text[n] = 0;
        put(from_fd, "src", text);
        assert_whole(&t);
        assert_int_equal(read_file_at(to_fd, "dst", n, &got, NULL), 0);
        assert_string_equal(text, got);
        free(text);
        free(got);
}

static void test_many(void **state)
{
        Transfer t = {};
        char name[64];

        assert_int_equal(mkdirat(from_fd, "src", 0755), 0);
        for (int d = 0; d < 20; d++) {
                snprintf(name, sizeof(name), "src/%i", d);
                assert_int_equal(mkdirat(from_fd, name, 0755), 0);
                for (int f = 0; f < 100; f++) {
                        snprintf(name, sizeof(name), "src/%i/%i", d, f);
                        put(from_fd, name, name);
                }
        }
        assert_whole(&t);
        assert_int_equal(t.entries, 1 + 20 + 2000);
        assert_text(to_fd, "dst/19/99", "src/19/99");
}

/* Holes stay holes, and are what the file says at both of its ends. */
static void test_holes(void **state)
{
        Transfer t = {};
        char byte;
        int fd = openat(from_fd, "src", O_RDWR | O_CREAT | O_CLOEXEC, 0644);

        assert_int_equal(pwrite(fd, "x", 1, 10 << 20), 1);
        assert_int_equal(ftruncate(fd, 20 << 20), 0);
        if (stat_of(from_fd, "src").st_blocks * 512 >= 20 << 20)
                skip(); /* the file system knows no holes */
        assert_whole(&t);
        assert_int_equal(stat_of(to_fd, "dst").st_size, 20 << 20);
        assert_true(stat_of(to_fd, "dst").st_blocks * 512 < 1 << 20);
        close(fd);
        fd = openat(to_fd, "dst", O_RDONLY | O_CLOEXEC);
        assert_int_equal(pread(fd, &byte, 1, 10 << 20), 1);
        assert_int_equal(byte, 'x');
        assert_int_equal(pread(fd, &byte, 1, (20 << 20) - 1), 1);
        assert_int_equal(byte, 0);
        close(fd);
}

/* Each name of a file with several is a file of its own: to change one changes no other. */
static void test_hard_links(void **state)
{
        Transfer t = {};

        assert_int_equal(mkdirat(from_fd, "src", 0755), 0);
        put(from_fd, "src/a", "same");
        assert_int_equal(linkat(from_fd, "src/a", from_fd, "src/b", 0), 0);
        assert_whole(&t);
        assert_text(to_fd, "dst/a", "same");
        assert_text(to_fd, "dst/b", "same");
        assert_int_equal(stat_of(to_fd, "dst/a").st_nlink, 1);
        assert_int_equal(t.bytes, 8);
}

/* ---- what does not */

static void test_special_files(void **state)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool device;
        Transfer t = { .foreign = true };

        assert_int_equal(mkdirat(from_fd, "src", 0755), 0);
        assert_int_equal(mkfifoat(from_fd, "src/fifo", 0644), 0);
        snprintf(address.sun_path, sizeof(address.sun_path), "%s/from/src/socket", base);
        assert_int_equal(bind(s, (struct sockaddr *) &address, sizeof(address)), 0);
        /* This one, an overlay's white-out, anybody may make. */
        device = mknodat(from_fd, "src/device", S_IFCHR | 0644, 0) == 0;
        put(from_fd, "src/file", "x");
        assert_whole(&t);
        assert_true(was_left(&t, "dst/fifo", TREE_LEFT_FIFO));
        assert_true(was_left(&t, "dst/socket", TREE_LEFT_SOCKET));
        assert_int_equal(was_left(&t, "dst/device", TREE_LEFT_DEVICE), device);
        assert_int_equal(t.left, 2 + device);
        assert_text(to_fd, "dst/file", "x");
        assert_false(exists(to_fd, "dst/fifo") || exists(to_fd, "dst/socket") ||
                        exists(to_fd, "dst/device"));
        close(s);
}

static void test_special_tops(void **state)
{
        Transfer fifo = {}, link = {};

        assert_int_equal(mkfifoat(from_fd, "src", 0644), 0);
        assert_whole(&fifo); /* and nobody waits for its other end */
        assert_true(was_left(&fifo, "dst", TREE_LEFT_FIFO));
        assert_int_equal(unlinkat(from_fd, "src", 0), 0);
        assert_int_equal(symlinkat("/etc", from_fd, "src"), 0);
        assert_int_equal(tree_open_beneath(from_fd, "src", &link.lefts[0]), -ELOOP);
        assert_int_equal(tree_open_beneath(from_fd, "src/passwd", &link.lefts[0]), -ELOOP);
}

static void test_links_out(void **state)
{
        static const char *const out[] = { "/etc/passwd", "/proc/self/root", "/proc/self/fd/0", "..",
                "../to", "../../x", "d/../../..", "d/..", "./../x", "/" };
        Transfer t = { .foreign = true };
        char name[32];

        assert_int_equal(mkdirat(from_fd, "src", 0755), 0);
        for (size_t i = 0; i < ELEMENTSOF(out); i++) {
                snprintf(name, sizeof(name), "src/l%zu", i);
                assert_int_equal(symlinkat(out[i], from_fd, name), 0);
        }
        assert_whole(&t);
        assert_int_equal(t.left, ELEMENTSOF(out));
        for (size_t i = 0; i < ELEMENTSOF(out); i++) {
                snprintf(name, sizeof(name), "dst/l%zu", i);
                assert_true(was_left(&t, name, TREE_LEFT_LINK));
                assert_false(exists(to_fd, name));
        }
}

static void test_unreadable(void **state)
{
        Transfer t = {};
        bool root = geteuid() == 0; /* which reads everything */

        if (root) {
                assert_int_equal(fchown(from_fd, NOBODY, NOBODY), 0);
                assert_int_equal(fchown(to_fd, NOBODY, NOBODY), 0);
                assert_int_equal(seteuid(NOBODY), 0);
        }
        assert_int_equal(mkdirat(from_fd, "src", 0755), 0);
        put(from_fd, "src/secret", "x");
        assert_int_equal(mkdirat(from_fd, "src/closed", 0), 0);
        assert_int_equal(fchmodat(from_fd, "src/secret", 0, 0), 0);
        assert_whole(&t);
        assert_true(was_left(&t, "dst/secret", TREE_LEFT_UNREADABLE));
        assert_true(was_left(&t, "dst/closed", TREE_LEFT_UNREADABLE));
        if (root)
                assert_int_equal(seteuid(0), 0);
}

static void test_bits_that_stay(void **state)
{
        Transfer t = { .foreign = true };
        static const char capability[] = "\1\0\0\2\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0";
        mode_t old = umask(0002);
        bool has_xattr, has_capability;

        assert_int_equal(mkdirat(from_fd, "src", 0777), 0);
        assert_int_equal(fchmodat(from_fd, "src", 03777, 0), 0);
        put(from_fd, "src/suid", "x");
        has_xattr = fsetxattr(openat(from_fd, "src/suid", O_RDONLY | O_CLOEXEC), "user.x", "y", 1, 0) == 0;
        has_capability = fsetxattr(openat(from_fd, "src/suid", O_RDONLY | O_CLOEXEC), "security.capability",
                                         capability, 20, 0) == 0;
        print_message("# xattr: %i, capability: %i\n", has_xattr, has_capability);
        assert_int_equal(fchmodat(from_fd, "src/suid", 06777, 0), 0);
        put(from_fd, "src/none", "x");
        assert_int_equal(fchmodat(from_fd, "src/none", 0040, 0), 0);
        assert_whole(&t);
        umask(old);
        assert_int_equal(stat_of(to_fd, "dst").st_mode & 07777, 0755);
        assert_int_equal(stat_of(to_fd, "dst/suid").st_mode & 07777, 0755);
        if (geteuid() == 0)
                assert_int_equal(stat_of(to_fd, "dst/none").st_mode & 07777, 0440);
        if (exists(to_fd, "dst/suid")) {
                char list[256];
                int fd = openat(to_fd, "dst/suid", O_RDONLY | O_CLOEXEC);
                ssize_t n = flistxattr(fd, list, sizeof(list));

                for (ssize_t i = 0; i < n; i += (ssize_t) strlen(list + i) + 1)
                        assert_false(streq(list + i, "user.x") || streq(list + i, "security.capability"));
                close(fd);
        }
}

static void test_times(void **state)
{
        static const int64_t years[] = { -1, INT64_C(1) << 40, INT64_C(1) << 62 };
        time_t before = time(NULL);

        for (size_t i = 0; i < ELEMENTSOF(years); i++) {
                const struct timespec times[2] = { { .tv_sec = years[i] },
                        { .tv_sec = years[i], .tv_nsec = 7 } };
                Transfer t = { .foreign = true };
                time_t got;

                put(from_fd, "src", "x");
                assert_int_equal(utimensat(from_fd, "src", times, 0), 0);
                assert_whole(&t);
                got = stat_of(to_fd, "dst").st_mtim.tv_sec;
                assert_true(got >= before && got <= time(NULL));
                assert_int_equal(unlinkat(to_fd, "dst", 0), 0);
        }
}

/* ---- hooks */

static int no_x(void *userdata, const TreeState *s, const TreeItem *i)
{
        return !strstr(i->name, "x");
}

static int short_ones(void *userdata, const TreeState *s, const TreeItem *i, uint32_t mode)
{
        return i->size < 5;
}

static void test_unwanted(void **state)
{
        TreeReceiver r = TREE_RECEIVER_NONE;
        Transfer t = { .sender = TREE_SENDER_NONE };
        int fds[2];

        assert_int_equal(mkdirat(from_fd, "src", 0755), 0);
        assert_int_equal(mkdirat(from_fd, "src/x", 0755), 0);
        assert_int_equal(mkdirat(from_fd, "src/x/d", 0755), 0);
        put(from_fd, "src/x/d/f", "1");
        put(from_fd, "src/x/f", "1");
        put(from_fd, "src/fx", "1");
        put(from_fd, "src/long", "12345");
        put(from_fd, "src/short", "1234");
        assert_int_equal(symlinkat("y", from_fd, "src/lx"), 0);
        assert_int_equal(symlinkat("y", from_fd, "src/l"), 0);
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        assert_int_equal(tree_sender_init(&t.sender), 0);
        t.sender.fd = fds[1];
        send_all(&t);
        assert_int_equal(tree_receiver_init(&r), 0);
        r.place = place;
        r.wants = no_x;
        r.keeps = short_ones;
        assert_int_equal(receive_all(&r, fds[0]), 0);
        close(fds[0]);
        tree_receiver_done(&r);
        tree_sender_done(&t.sender);
        assert_true(exists(to_fd, "dst/short") && exists(to_fd, "dst/l"));
        assert_false(exists(to_fd, "dst/x") || exists(to_fd, "dst/fx") || exists(to_fd, "dst/lx") ||
                        exists(to_fd, "dst/long"));
}

static void test_remove(void **state)
{
        assert_int_equal(mkdirat(base_fd, "outside", 0755), 0);
        put(base_fd, "outside/f", "stays");
        assert_int_equal(mkdirat(to_fd, "d", 0755), 0);
        assert_int_equal(mkdirat(to_fd, "d/locked", 0755), 0);
        put(to_fd, "d/locked/f", "x");
        assert_int_equal(symlinkat("../../outside", to_fd, "d/l"), 0);
        assert_int_equal(fchmodat(to_fd, "d/locked", 0, 0), 0);
        if (geteuid() != 0) /* whose directory cannot be opened */
                assert_int_equal(fchmodat(to_fd, "d/locked", 0500, 0), 0);
        assert_int_equal(tree_remove(to_fd, "d"), 0);
        assert_false(exists(to_fd, "d"));
        assert_text(base_fd, "outside/f", "stays");
        assert_int_equal(symlinkat("../outside", to_fd, "l"), 0);
        assert_int_equal(tree_remove(to_fd, "l"), 0);
        assert_text(base_fd, "outside/f", "stays");
        assert_int_equal(tree_remove(to_fd, "nothing"), -ENOENT);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TREE_TEST(test_tree),
                TREE_TEST(test_layer),
                TREE_TEST(test_no_layer),
                TREE_TEST(test_one_file),
                TREE_TEST(test_into_the_place_itself),
                TREE_TEST(test_missing),
                TREE_TEST(test_large),
                TREE_TEST(test_many),
                TREE_TEST(test_holes),
                TREE_TEST(test_hard_links),
                TREE_TEST(test_special_files),
                TREE_TEST(test_special_tops),
                TREE_TEST(test_links_out),
                TREE_TEST(test_unreadable),
                TREE_TEST(test_bits_that_stay),
                TREE_TEST(test_times),
                TREE_TEST(test_unwanted),
                TREE_TEST(test_remove),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
