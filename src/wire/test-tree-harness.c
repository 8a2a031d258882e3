/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>

#include "base/io.h"
#include "test-tree-harness.h"

/* Files of both sides lie in one directory of their own: from and to. */
char base[] = "/tmp/agentbox-test-tree-XXXXXX";
int base_fd, from_fd, to_fd;

int set_up(void **state)
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

int tear_down(void **state)
{
        close(from_fd);
        close(to_fd);
        close(base_fd);
        return tree_remove(AT_FDCWD, base);
}

void put(int dir, const char *path, const char *text)
{
        int fd = openat(dir, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

        assert_true(fd >= 0);
        assert_int_equal(write_full(fd, text, strlen(text)), 0);
        close(fd);
}

void assert_text(int dir, const char *path, const char *want)
{
        char *got;

        if (read_file_at(dir, path, 1 << 20, &got, NULL) < 0)
                fail_msg("%s: %s", path, strerror(errno));
        assert_string_equal(got, want);
        free(got);
}

bool exists(int dir, const char *path)
{
        struct stat st;

        return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

struct stat stat_of(int dir, const char *path)
{
        struct stat st;

        if (fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
                fail_msg("%s: %s", path, strerror(errno));
        return st;
}

/* ---- one transfer, from/src → to/dst */

void note(void *userdata, const TreeState *s, const TreeItem *i)
{
        Transfer *t = userdata;

        if (i->type == TREE_WHOLE && t->n_wholes < ELEMENTSOF(t->whole_paths))
                snprintf(t->whole_paths[t->n_wholes++], sizeof(t->whole_paths[0]), "%.255s", s->path);
        if (i->type != TREE_LEFT || t->n_lefts == ELEMENTSOF(t->lefts))
                return;
        t->lefts[t->n_lefts] = i->reason;
        snprintf(t->left_paths[t->n_lefts++], sizeof(t->left_paths[0]), "%.255s", s->path);
}

int place(void *userdata, const char *path, TreePlace *ret)
{
        return tree_place_beneath(to_fd, path, ret);
}

void *send_all(void *userdata)
{
        Transfer *t = userdata;
        TreeSender *s = &t->sender;
        TreeLeft left = 0;
        int fd = tree_open_beneath(from_fd, "src", &left);

        if (fd < 0)
                t->sent = tree_send_left(s, t->path ?: "dst", fd == -ENXIO ? left : TREE_LEFT_MISSING);
        else
                t->sent = tree_send_layer(s, t->path ?: "dst", fd, t->beside ? tree_open_beneath(from_fd, t->beside, &left) : -1);
        if (t->sent >= 0)
                t->sent = tree_send_end(s);
        close(s->fd);
        return NULL;
}

int receive_all(TreeReceiver *r, int fd)
{
        int k;

        while ((k = tree_receive(r, fd)) > 0)
                ;
        return k;
}

void transfer(Transfer *t)
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

void assert_whole(Transfer *t)
{
        transfer(t);
        assert_int_equal(t->sent, 0);
        assert_int_equal(t->received, 0);
}

void assert_failed(Transfer *t, TreeFail reason, const char *path)
{
        transfer(t);
        assert_int_equal(t->sent, -E2BIG);
        assert_int_equal(t->received, -EREMOTEIO);
        assert_int_equal(t->fail, reason);
        assert_string_equal(t->fail_path, path);
}

bool was_left(const Transfer *t, const char *path, TreeLeft reason)
{
        for (size_t i = 0; i < t->n_lefts; i++)
                if (streq(t->left_paths[i], path) && t->lefts[i] == reason)
                        return true;
        return false;
}
