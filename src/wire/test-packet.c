/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

#include "wire/packet.h"

#define MAX 64u

static int fds_open(void)
{
        char path[32];
        int n = 0;

        for (int i = 0; i < 100; i++) {
                snprintf(path, sizeof(path), "/proc/self/fd/%i", i);
                n += access(path, F_OK) == 0;
        }
        return n;
}

static void send_bytes(int fd, const char *text, const int *fds, size_t n_fds)
{
        Buf b = { .data = (uint8_t *) text, .size = strlen(text) };

        assert_int_equal(packet_send(fd, &b, fds, n_fds), 0);
}

static void test_descriptors(void **state)
{
        uint8_t p[MAX];
        int pair[2], got[2], before;
        char large[MAX + 2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        before = fds_open();
        /* As many as came, and closed at the next execve(). */
        send_bytes(pair[0], "two", (int[]){ 0, pair[0] }, 2);
        assert_int_equal(packet_receive(pair[1], 0, p, sizeof(p), got, 2), 3);
        assert_true(got[0] >= 0 && got[1] >= 0 && (fcntl(got[0], F_GETFD) & FD_CLOEXEC));
        close(got[0]);
        close(got[1]);
        send_bytes(pair[0], "one", (int[]){ 0 }, 1);
        assert_int_equal(packet_receive(pair[1], 0, p, sizeof(p), got, 2), 3);
        assert_true(got[0] >= 0 && got[1] == -1);
        close(got[0]);
        send_bytes(pair[0], "none", NULL, 0);
        assert_int_equal(packet_receive(pair[1], 0, p, sizeof(p), got, 2), 4);
        assert_true(got[0] == -1 && got[1] == -1);
        /* More than are wanted, or more bytes: nothing stays open. */
        send_bytes(pair[0], "more", (int[]){ 0, 0 }, 2);
        assert_int_equal(packet_receive(pair[1], 0, p, sizeof(p), got, 1), -EBADMSG);
        memset(large, 'x', sizeof(large) - 1);
        large[sizeof(large) - 1] = 0;
        send_bytes(pair[0], large, (int[]){ 0, 0 }, 2);
        assert_int_equal(packet_receive(pair[1], 0, p, sizeof(p), got, 2), -EBADMSG);
        assert_int_equal(fds_open(), before);
        assert_int_equal(packet_receive(pair[1], MSG_DONTWAIT, p, sizeof(p), got, 2), -EAGAIN);
        close(pair[0]);
        assert_int_equal(packet_receive(pair[1], 0, p, sizeof(p), got, 2), 0);
        close(pair[1]);
}

/* Whoever has answered and gone, with something unread, has answered. */
static void test_unread(void **state)
{
        uint8_t p[MAX];
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        send_bytes(pair[0], "unread", NULL, 0);
        send_bytes(pair[1], "answer", NULL, 0);
        close(pair[1]);
        assert_int_equal(packet_receive(pair[0], 0, p, sizeof(p), NULL, 0), 6);
        assert_memory_equal(p, "answer", 6);
        assert_int_equal(packet_receive(pair[0], 0, p, sizeof(p), NULL, 0), 0);
        close(pair[0]);
}

static int listener(const char *path)
{
        struct sockaddr_un a = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        strcpy(a.sun_path, path);
        assert_int_equal(bind(fd, (const struct sockaddr *) &a, sizeof(a)), 0);
        assert_int_equal(listen(fd, 0), 0);
        return fd;
}

/* Whoever has too much to do is not waited for. */
static void test_connect(void **state)
{
        char directory[] = "/tmp/test-packet-XXXXXX", path[64], long_path[200];
        int fds[2], server;

        assert_non_null(mkdtemp(directory));
        snprintf(path, sizeof(path), "%s/s", directory);
        assert_int_equal(packet_connect(path), -ENOENT);
        memset(long_path, 'x', sizeof(long_path) - 1);
        long_path[sizeof(long_path) - 1] = 0;
        assert_int_equal(packet_connect(long_path), -ENAMETOOLONG);
        server = listener(path);
        fds[0] = packet_connect(path);
        assert_true(fds[0] >= 0 && (fcntl(fds[0], F_GETFL) & O_NONBLOCK));
        assert_int_equal(packet_check_root(fds[0]), geteuid() == 0 ? 0 : -EPERM);
        assert_int_equal(packet_connect(path), -EAGAIN);
        close(fds[0]);
        close(server);
        assert_int_equal(packet_connect(path), -ECONNREFUSED);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(rmdir(directory), 0);
        assert_int_equal(pipe(fds), 0);
        assert_int_equal(packet_check_root(fds[0]), -ENOTSOCK);
        close(fds[0]);
        close(fds[1]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_descriptors),
                cmocka_unit_test(test_unread),
                cmocka_unit_test(test_connect),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
