/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "base/io.h"
#include "test-tree-harness.h"

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

int main(void)
{
        const struct CMUnitTest tests[] = {
                TREE_TEST(test_too_many_files),
                TREE_TEST(test_too_many_bytes),
                TREE_TEST(test_sparse_terabyte),
                TREE_TEST(test_too_deep),
                TREE_TEST(test_receiver_limits),
                TREE_TEST(test_swapped_while_read),
                TREE_TEST(test_grows_while_read),
                TREE_TEST(test_shrinks_while_read),
                TREE_TEST(test_nothing_is_overwritten),
                TREE_TEST(test_links_in_the_way),
                TREE_TEST(test_twins),
                TREE_TEST(test_nobody_reads),
                TREE_TEST(test_stream),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
