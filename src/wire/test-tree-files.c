/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>

#include <cmocka.h>

#include "base/io.h"
#include "wire/tree-receive.h"

/* Files of both sides lie in one directory of their own: from and to. */
static char base[] = "/tmp/agentbox-test-tree-XXXXXX";
#define NOBODY 65534

static int base_fd, from_fd, to_fd;

static int set_up(void **state)
{
        strcpy(base + sizeof(base) - 7, "XXXXXX");
        assert_non_null(mkdtemp(base));
        base_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(mkdirat(base_fd, "from", 0755), 0);
        assert_int_equal(mkdirat(base_fd, "to", 0755), 0);
        from_fd = openat(base_fd, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        to_fd = openat(base_fd, "to", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(from_fd >= 0 && to_fd >= 0);
        return 0;
}

static int tear_down(void **state)
{
        close(from_fd);
        close(to_fd);
        close(base_fd);
        return tree_remove(AT_FDCWD, base);
}

static void put(int dir, const char *path, const char *text)
{
        int fd = openat(dir, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

        assert_true(fd >= 0);
        assert_int_equal(write_full(fd, text, strlen(text)), 0);
        close(fd);
}

static void assert_text(int dir, const char *path, const char *want)
{
        char *got;

        if (read_file_at(dir, path, 1 << 20, &got, NULL) < 0)
                fail_msg("%s: %s", path, strerror(errno));
        assert_string_equal(got, want);
        free(got);
}

static bool exists(int dir, const char *path)
{
        struct stat st;

        return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static struct stat stat_of(int dir, const char *path)
{
        struct stat st;

        if (fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
                fail_msg("%s: %s", path, strerror(errno));
        return st;
}

/* ---- one transfer, from/src → to/dst */

typedef struct Transfer {
        /* In. */
        uint64_t max_entries, max_bytes; /* of the sender; 0: no limit */
        bool foreign, merge;
        const char *path; /* NULL: "dst" */
        void (*change)(TreeSender *s);
        /* Out. */
        int sent, received;
        TreeFail fail;
        char fail_path[PATH_MAX];
        uint64_t entries, bytes, left;
        TreeLeft lefts[32];
        char left_paths[32][256];
        size_t n_lefts;
        TreeSender sender;
} Transfer;

static void note(void *userdata, const TreeState *s, const TreeItem *i)
{
        Transfer *t = userdata;

        if (i->type != TREE_LEFT || t->n_lefts == ELEMENTSOF(t->lefts))
                return;
        t->lefts[t->n_lefts] = i->reason;
        snprintf(t->left_paths[t->n_lefts++], sizeof(t->left_paths[0]), "%.255s", s->path);
}

static int place(void *userdata, const char *path, TreePlace *ret)
{
        return tree_place_beneath(to_fd, path, ret);
}

static void *send_all(void *userdata)
{
        Transfer *t = userdata;
        TreeSender *s = &t->sender;
        TreeLeft left = 0;
        int fd = tree_open_beneath(from_fd, "src", &left);

        if (fd < 0)
                t->sent = tree_send_left(s, t->path ?: "dst", fd == -ENXIO ? left : TREE_LEFT_MISSING);
        else
                t->sent = tree_send_top(s, t->path ?: "dst", fd);
        if (t->sent >= 0)
                t->sent = tree_send_end(s);
        close(s->fd);
        return NULL;
}

static int receive_all(TreeReceiver *r, int fd)
{
        int k;

        while ((k = tree_receive(r, fd)) > 0)
                ;
        return k;
}

static void transfer(Transfer *t)
{
        TreeReceiver r = TREE_RECEIVER_NONE;
        pthread_t thread;
        int fds[2];

        t->sender = TREE_SENDER_NONE;
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        assert_int_equal(fd_set_nonblock(fds[1], true), 0);
        assert_int_equal(tree_sender_init(&t->sender), 0);
        t->sender.fd = fds[1];
        t->sender.max_entries = t->max_entries ?: UINT64_MAX;
        t->sender.max_bytes = t->max_bytes ?: UINT64_MAX;
        if (t->change)
                t->change(&t->sender);
        assert_int_equal(pthread_create(&thread, NULL, send_all, t), 0);

        assert_int_equal(tree_receiver_init(&r), 0);
        r.userdata = t;
        r.place = place;
        r.beneath = r.foreign = t->foreign;
        r.merge = t->merge;
        r.observer = (TreeObserver){ .userdata = t, .item = note };
        t->received = receive_all(&r, fds[0]);
        close(fds[0]);
        pthread_join(thread, NULL);
        if (t->received == -EREMOTEIO) {
                t->fail = r.item.reason;
                strcpy(t->fail_path, r.item.name);
        }
        t->entries = r.decoder.state.entries;
        t->bytes = r.decoder.state.bytes;
        t->left = r.decoder.state.left;
        tree_receiver_done(&r);
        tree_sender_done(&t->sender);
}

static void assert_whole(Transfer *t)
{
        transfer(t);
        assert_int_equal(t->sent, 0);
        assert_int_equal(t->received, 0);
}

static void assert_failed(Transfer *t, TreeFail reason, const char *path)
{
        transfer(t);
        assert_int_equal(t->sent, -E2BIG);
        assert_int_equal(t->received, -EREMOTEIO);
        assert_int_equal(t->fail, reason);
        assert_string_equal(t->fail_path, path);
}

static bool was_left(const Transfer *t, const char *path, TreeLeft reason)
{
        for (size_t i = 0; i < t->n_lefts; i++)
                if (streq(t->left_paths[i], path) && t->lefts[i] == reason)
                        return true;
        return false;
}

/* ---- what travels */

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

/* ---- limits */

static void test_too_many_files(void **state)
{
        Transfer t = { .max_entries = 100 }, fits = { .max_entries = 151 };
        char name[64];

        assert_int_equal(mkdirat(from_fd, "src", 0755), 0);
        for (int i = 0; i < 150; i++) {
                snprintf(name, sizeof(name), "src/%i", i);
                if (i % 2)
                        put(from_fd, name, "");
                else
                        assert_int_equal(mkfifoat(from_fd, name, 0600), 0); /* left out, and still counted */
        }
        transfer(&t);
        assert_int_equal(t.received, -EREMOTEIO);
        assert_int_equal(t.fail, TREE_FAIL_FILES);
        assert_int_equal(t.entries + t.left, 100);
        assert_int_equal(tree_remove(to_fd, "dst"), 0);
        assert_whole(&fits);
}

static void test_too_many_bytes(void **state)
{
        Transfer t = { .max_bytes = 9 }, fits = { .max_bytes = 10 };

        assert_int_equal(mkdirat(from_fd, "src", 0755), 0);
        put(from_fd, "src/a", "12345");
        assert_int_equal(linkat(from_fd, "src/a", from_fd, "src/b", 0), 0);
        transfer(&t);
        assert_int_equal(t.fail, TREE_FAIL_BYTES);
        assert_int_equal(tree_remove(to_fd, "dst"), 0);
        assert_whole(&fits);
}

/* What is all hole costs no time, and counts as what it says it is. */
static void test_sparse_terabyte(void **state)
{
        Transfer t = { .max_bytes = 1 << 30 }, fits = {};
        int fd = openat(from_fd, "src", O_RDWR | O_CREAT | O_CLOEXEC, 0644);

        if (ftruncate(fd, INT64_C(1) << 40) < 0)
                skip(); /* the file system has no such files */
        close(fd);
        assert_failed(&t, TREE_FAIL_BYTES, "dst");
        assert_false(exists(to_fd, "dst"));
        assert_whole(&fits);
        assert_int_equal(stat_of(to_fd, "dst").st_size, INT64_C(1) << 40);
        assert_true(stat_of(to_fd, "dst").st_blocks < 1024);
}

static void make_deep(int dir, unsigned depth)
{
        int fd = dup(dir);

        for (unsigned i = 0; i < depth; i++) {
                int next;

                assert_int_equal(mkdirat(fd, "d", 0755), 0);
                next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                close(fd);
                fd = next;
        }
        close(fd);
}

static void test_too_deep(void **state)
{
        Transfer fits = {}, t = { .path = "x" };

        assert_int_equal(mkdirat(from_fd, "src", 0755), 0);
        make_deep(from_fd, 0);
        assert_int_equal(renameat(from_fd, "src", from_fd, "d"), 0);
        assert_int_equal(unlinkat(from_fd, "d", AT_REMOVEDIR), 0);
        make_deep(from_fd, TREE_DEPTH_MAX);
        assert_int_equal(renameat(from_fd, "d", from_fd, "src"), 0);
        assert_whole(&fits);
        assert_int_equal(fits.entries, TREE_DEPTH_MAX);

        make_deep(from_fd, 2);
        assert_int_equal(renameat(from_fd, "src", from_fd, "d/d/src"), 0);
        assert_int_equal(renameat(from_fd, "d", from_fd, "src"), 0);
        transfer(&t);
        assert_int_equal(t.fail, TREE_FAIL_DEPTH);
}

/* The receiver has limits of its own: a sender may be anything. */
static void test_receiver_limits(void **state)
{
        static const struct {
                uint64_t max_entries, max_bytes;
                int want;
        } rows[] = { { 1, UINT64_MAX, -E2BIG }, { 2, UINT64_MAX, 0 }, { 2, 4, -E2BIG }, { 2, 5, 0 } };

        assert_int_equal(mkdirat(from_fd, "src", 0755), 0);
        put(from_fd, "src/a", "12345");
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                TreeReceiver r = TREE_RECEIVER_NONE;
                Transfer t = { .sender = TREE_SENDER_NONE };
                int fds[2];

                assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
                assert_int_equal(tree_sender_init(&t.sender), 0);
                t.sender.fd = fds[1];
                send_all(&t);
                assert_int_equal(t.sent, 0);
                assert_int_equal(tree_receiver_init(&r), 0);
                r.place = place;
                r.max_entries = rows[i].max_entries;
                r.max_bytes = rows[i].max_bytes;
                assert_int_equal(receive_all(&r, fds[0]), rows[i].want);
                close(fds[0]);
                tree_receiver_done(&r);
                tree_sender_done(&t.sender);
                (void) tree_remove(to_fd, "dst");
        }
}

/* ---- things that move */

static void be_somebody_who_swaps(int dir, pid_t parent)
{
        while (getppid() == parent) {
                /* "d" is now a directory, now a link to what nobody shall have. */
                if (renameat(dir, "d", dir, "real") == 0 && renameat(dir, "link", dir, "d") == 0)
                        (void) (renameat(dir, "d", dir, "link") == 0 &&
                                        renameat(dir, "real", dir, "d") == 0);
                (void) renameat(dir, "f", dir, "f2");
                (void) renameat(dir, "flink", dir, "f");
                (void) renameat(dir, "f", dir, "flink");
                (void) renameat(dir, "f2", dir, "f");
        }
        _exit(0);
}

static bool contains(int dir, const char *text)
{
        DIR *d = fdopendir(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        bool found = false;

        for (struct dirent *e; !found && (e = readdir(d));) {
                _cleanup_free_ char *got = NULL;
                struct stat st = stat_of(dir, e->d_name);

                if (S_ISREG(st.st_mode) && read_file_at(dir, e->d_name, 1 << 20, &got, NULL) >= 0)
                        found = strstr(got, text);
                if (S_ISDIR(st.st_mode) && e->d_name[0] != '.') {
                        int fd = openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

                        found = contains(fd, text);
                        close(fd);
                }
        }
        closedir(d);
        return found;
}

static void test_swapped_while_read(void **state)
{
        int src;
        pid_t pid, parent = getpid();
        size_t n_whole = 0;
        bool secret = false;

        assert_int_equal(mkdirat(base_fd, "outside", 0755), 0);
        put(base_fd, "outside/f", "SECRET");
        assert_int_equal(mkdirat(from_fd, "src", 0755), 0);
        src = openat(from_fd, "src", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(mkdirat(src, "d", 0755), 0);
        put(src, "d/f", "harmless");
        put(src, "f", "harmless");
        assert_int_equal(symlinkat("../../outside", src, "link"), 0);
        assert_int_equal(symlinkat("../../outside/f", src, "flink"), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
                be_somebody_who_swaps(src, parent);
        for (int i = 0; i < 300 && !secret; i++) {
                Transfer t = { .foreign = true };

                transfer(&t);
                n_whole += t.received == 0 && t.entries >= 4;
                secret = contains(to_fd, "SECRET");
                (void) tree_remove(to_fd, "dst");
        }
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        assert_false(secret);
        close(src);
        print_message("# %zu of 300 saw all there was\n", n_whole);
        assert_true(n_whole > 0);
}

static void *grow(void *userdata)
{
        int fd = *(int *) userdata;
        static const char block[4096] = "x";

        for (int i = 0; i < 20000; i++)
                if (write(fd, block, sizeof(block)) < 0)
                        break;
        return NULL;
}

static void test_grows_while_read(void **state)
{
        int fd = openat(from_fd, "src", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        Transfer t = { .max_bytes = 1 << 20 };
        static const char block[65536] = "y";
        pthread_t thread;

        for (int i = 0; i < 8; i++)
                assert_int_equal(write_full(fd, block, sizeof(block)), 0);
        assert_int_equal(pthread_create(&thread, NULL, grow, &fd), 0);
        transfer(&t);
        pthread_join(thread, NULL);
        close(fd);
        /* Either it was sent as long as it was when it was opened, or it was too long by then. */
        if (t.received == 0)
                assert_true(stat_of(to_fd, "dst").st_size <= 1 << 20);
        else
                assert_int_equal(t.fail, TREE_FAIL_BYTES);
        assert_true(t.bytes <= 1 << 20);
}

static void cut(void *userdata, const TreeState *s, const TreeItem *i)
{
        if (i->type == TREE_FILE)
                assert_int_equal(ftruncate(*(int *) userdata, 3), 0);
}

static int cut_fd;

static void cut_at_start(TreeSender *s)
{
        s->observer = (TreeObserver){ .userdata = &cut_fd, .item = cut };
}

static void test_shrinks_while_read(void **state)
{
        Transfer t = { .change = cut_at_start };

        put(from_fd, "src", "0123456789");
        cut_fd = openat(from_fd, "src", O_WRONLY | O_CLOEXEC);
        assert_whole(&t);
        assert_text(to_fd, "dst", "012");
        close(cut_fd);
}

/* ---- what is there already */

static void test_nothing_is_overwritten(void **state)
{
        Transfer file = {}, directory = {}, merged = { .merge = true }, again = { .merge = true };

        put(from_fd, "src", "new");
        put(to_fd, "dst", "old");
        transfer(&file);
        assert_int_equal(file.received, -EEXIST);
        assert_text(to_fd, "dst", "old");
        assert_int_equal(unlinkat(to_fd, "dst", 0), 0);
        assert_int_equal(unlinkat(from_fd, "src", 0), 0);

        assert_int_equal(mkdirat(from_fd, "src", 0700), 0);
        put(from_fd, "src/f", "new");
        assert_int_equal(mkdirat(to_fd, "dst", 0711), 0);
        transfer(&directory);
        assert_int_equal(directory.received, -EEXIST);
        assert_whole(&merged);
        assert_text(to_fd, "dst/f", "new");
        assert_int_equal(stat_of(to_fd, "dst").st_mode & 07777, 0711);
        transfer(&again);
        assert_int_equal(again.received, -EEXIST);
}

/* A link where a directory or a file is to be written is never followed, merge or not. */
static void test_links_in_the_way(void **state)
{
        Transfer directory = { .merge = true }, parent = { .merge = true, .path = "dst/x/y" }, file = {};

        assert_int_equal(mkdirat(base_fd, "outside", 0755), 0);
        assert_int_equal(symlinkat("../outside", to_fd, "dst"), 0);
        assert_int_equal(mkdirat(from_fd, "src", 0755), 0);
        put(from_fd, "src/f", "x");
        transfer(&directory);
        assert_true(directory.received == -ELOOP || directory.received == -ENOTDIR);
        transfer(&parent);
        assert_true(parent.received == -ELOOP || parent.received == -ENOTDIR);
        assert_int_equal(tree_remove(from_fd, "src"), 0);
        put(from_fd, "src", "x");
        assert_int_equal(unlinkat(to_fd, "dst", 0), 0);
        assert_int_equal(symlinkat("../outside/new", to_fd, "dst"), 0);
        transfer(&file);
        assert_int_equal(file.received, -EEXIST);
        assert_int_equal(unlinkat(base_fd, "outside", AT_REMOVEDIR), 0); /* empty still */
}

/* The same name twice, as a hostile sender or a file system without cases would have it. */
static void test_twins(void **state)
{
        TreeEncoder e;
        TreeItem i = { .type = TREE_TOP, .name = "dst" };
        TreeReceiver r = TREE_RECEIVER_NONE;
        int fds[2];

        assert_int_equal(tree_encoder_init(&e), 0);
        assert_int_equal(tree_encode(&e, &i), 0);
        i = (TreeItem){ .type = TREE_DIR, .mode = 0755 };
        assert_int_equal(tree_encode(&e, &i), 0);
        i = (TreeItem){ .type = TREE_LINK, .name = "a", .target = "b" };
        assert_int_equal(tree_encode(&e, &i), 0);
        i = (TreeItem){ .type = TREE_FILE, .name = "a", .mode = 0644 };
        assert_int_equal(tree_encode(&e, &i), 0);
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        assert_int_equal(write_full(fds[1], e.data, e.size), 0);
        close(fds[1]);
        assert_int_equal(tree_receiver_init(&r), 0);
        r.place = place;
        r.beneath = r.foreign = true;
        assert_int_equal(receive_all(&r, fds[0]), -EEXIST);
        assert_false(exists(to_fd, "dst/b"));
        close(fds[0]);
        tree_receiver_done(&r);
        tree_encoder_done(&e);
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

/* ---- the pipe */

static void fill(const char *path)
{
        static const char block[65536] = "y";
        int fd = openat(from_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

        for (int i = 0; i < 64; i++)
                assert_int_equal(write_full(fd, block, sizeof(block)), 0);
        close(fd);
}

static int send_to_nobody(int cancel_fd, int timeout_msec, bool close_reader)
{
        Transfer t = { .sender = TREE_SENDER_NONE };
        int fds[2];

        fill("src");
        assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
        if (close_reader)
                close(fds[0]);
        assert_int_equal(tree_sender_init(&t.sender), 0);
        t.sender.fd = fds[1];
        t.sender.cancel_fd = cancel_fd;
        t.sender.timeout_msec = timeout_msec;
        send_all(&t);
        tree_sender_done(&t.sender);
        if (!close_reader)
                close(fds[0]);
        return t.sent;
}

static void test_nobody_reads(void **state)
{
        int cancel = eventfd(1, EFD_CLOEXEC);

        signal(SIGPIPE, SIG_IGN);
        assert_int_equal(send_to_nobody(-1, -1, true), -EPIPE);
        assert_int_equal(send_to_nobody(-1, 10, false), -ETIMEDOUT);
        assert_int_equal(send_to_nobody(cancel, -1, false), -ECANCELED);
        close(cancel);
}

static void test_stream(void **state)
{
        TreeSender s = TREE_SENDER_NONE;
        TreeReceiver r = TREE_RECEIVER_NONE;
        int fds[2], in[2];

        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        assert_int_equal(pipe2(in, O_CLOEXEC), 0);
        assert_int_equal(write_full(in[1], "from a pipe", 11), 0);
        close(in[1]);
        assert_int_equal(tree_sender_init(&s), 0);
        s.fd = fds[1];
        assert_int_equal(tree_send_stream(&s, "dst", in[0], 0640), 0);
        assert_int_equal(tree_send_end(&s), 0);
        assert_int_equal(tree_receiver_init(&r), 0);
        r.place = place;
        assert_int_equal(receive_all(&r, fds[0]), 0);
        assert_text(to_fd, "dst", "from a pipe");
        assert_int_equal(stat_of(to_fd, "dst").st_mode & 07777, 0640);
        tree_receiver_done(&r);
        tree_sender_done(&s);
        close(fds[0]);
        close(fds[1]);
        close(in[0]);
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
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                T(test_tree),
                T(test_one_file),
                T(test_into_the_place_itself),
                T(test_missing),
                T(test_large),
                T(test_many),
                T(test_holes),
                T(test_hard_links),
                T(test_special_files),
                T(test_special_tops),
                T(test_links_out),
                T(test_unreadable),
                T(test_bits_that_stay),
                T(test_times),
                T(test_too_many_files),
                T(test_too_many_bytes),
                T(test_sparse_terabyte),
                T(test_too_deep),
                T(test_receiver_limits),
                T(test_swapped_while_read),
                T(test_grows_while_read),
                T(test_shrinks_while_read),
                T(test_nothing_is_overwritten),
                T(test_links_in_the_way),
                T(test_twins),
                T(test_unwanted),
                T(test_nobody_reads),
                T(test_stream),
                T(test_remove),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
