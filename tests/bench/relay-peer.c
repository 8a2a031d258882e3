/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Both ends of tests/bench/relay.
 *
 *     relay-peer serve ADDRESS PORT
 *     relay-peer get|put ADDRESS PORT SECONDS STREAMS [CONNECT-TARGET]       prints bytes and seconds
 *     relay-peer connect ADDRESS PORT SECONDS STREAMS [CONNECT-TARGET]       prints connections and seconds
 *
 * A connection's first byte says what it is for: 'g' the server sends until it is closed, 'p' it reads, 'c' it answers with one byte
 * and closes (first, so that it is not the client who runs out of ports). With CONNECT-TARGET, ADDRESS is
 * an HTTP proxy. Each stream is a process, so no stream waits for another. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCK ((size_t) 256 << 10)

static char block[BLOCK];

static double now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

static void die(const char *what)
{
        perror(what);
        exit(1);
}

static struct sockaddr_in address_of(char **argv)
{
        struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t) atoi(argv[1])) };

        if (inet_pton(AF_INET, argv[0], &a.sin_addr) != 1)
                die(argv[0]);
        return a;
}

/* ---- the server */

static void *serve_one(void *p)
{
        int fd = (int) (intptr_t) p;
        char buf[1 << 16], what = 0;

        if (recv(fd, &what, 1, 0) == 1) {
                if (what == 'g')
                        while (send(fd, block, BLOCK, MSG_NOSIGNAL) > 0)
                                ;
                else if (what == 'c')
                        (void) send(fd, &what, 1, MSG_NOSIGNAL);
                while (what == 'p' && recv(fd, buf, sizeof(buf), 0) > 0)
                        ;
        }
        close(fd);
        return NULL;
}

static _Noreturn void serve(char **argv)
{
        struct sockaddr_in a = address_of(argv);
        int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
        pthread_attr_t detached;

        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (bind(fd, (struct sockaddr *) &a, sizeof(a)) < 0 || listen(fd, 4096) < 0)
                die("listen");
        pthread_attr_init(&detached);
        pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize(&detached, (size_t) 256 << 10);
        for (;;) {
                pthread_t thread;
                int c = accept(fd, NULL, NULL);

                if (c >= 0 && pthread_create(&thread, &detached, serve_one, (void *) (intptr_t) c) != 0)
                        close(c);
        }
}

/* ---- the client */

static int dial(const struct sockaddr_in *a, const char *target)
{
        int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
        char head[512];
        size_t used = 0;

        if (fd < 0 || connect(fd, (const struct sockaddr *) a, sizeof(*a)) < 0)
                die("connect");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (!target)
                return fd;
        dprintf(fd, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target);
        while (used < 4 || memcmp(head + used - 4, "\r\n\r\n", 4) != 0)
                if (used >= sizeof(head) - 1 || recv(fd, head + used, 1, 0) != 1 || ++used == 0)
                        die("proxy");
        if (!strstr((head[used] = '\0', head), " 200"))
                die(head);
        return fd;
}

static void reset(int fd)
{
        struct linger now_ = { .l_onoff = 1 };

        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now_, sizeof(now_));
        close(fd);
}

static uint64_t stream(char what, const struct sockaddr_in *a, double end, const char *target)
{
        uint64_t n = 0;
        int fd;

        if (what == 'c') {
                for (; now() < end; n++) {
                        char answer;

                        fd = dial(a, target);
                        if (send(fd, &what, 1, MSG_NOSIGNAL) != 1 || recv(fd, &answer, 1, 0) != 1 || recv(fd, &answer, 1, 0) != 0)
                                die("answer");
                        close(fd);
                }
                return n;
        }
        fd = dial(a, target);
        if (send(fd, &what, 1, MSG_NOSIGNAL) != 1)
                die("send");
        while (now() < end) {
                ssize_t r = what == 'g' ? recv(fd, block, BLOCK, 0) : send(fd, block, BLOCK, MSG_NOSIGNAL);

                if (r <= 0)
                        die("stream");
                n += (uint64_t) r;
        }
        reset(fd);
        return n;
}

int main(int argc, char **argv)
{
        struct sockaddr_in a;
        uint64_t *counts, total = 0;
        int streams, status, failed = 0;
        double start, length;

        signal(SIGPIPE, SIG_IGN);
        if (argc == 4 && strcmp(argv[1], "serve") == 0)
                serve(argv + 2);
        if (argc < 6 || argc > 7)
                return 2;
        a = address_of(argv + 2);
        length = atof(argv[4]);
        streams = atoi(argv[5]);
        counts = mmap(NULL, sizeof(*counts) * (size_t) streams, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (counts == MAP_FAILED)
                die("mmap");
        start = now();
        for (int i = 0; i < streams; i++)
                if (fork() == 0) {
                        counts[i] = stream(argv[1][0], &a, start + length, argv[6]);
                        _exit(0);
                }
        while (wait(&status) > 0)
                failed |= status;
        for (int i = 0; i < streams; i++)
                total += counts[i];
        printf("%llu %.6f\n", (unsigned long long) total, now() - start);
        return failed ? 1 : 0;
}
