/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Both ends of tests/bench/relay, and the least that can stand between them.
 *
 *     relay-peer serve ADDRESS PORT
 *     relay-peer bare ADDRESS PORT TO-ADDRESS TO-PORT
 *     relay-peer get|put|connect ADDRESS PORT SECONDS STREAMS [CONNECT-TARGET]
 *
 * A connection's first byte says what it is for: 'g' the server sends until it is closed, 'p' it reads, 'c' it answers with one byte
 * and closes (first, so that it is not the client who runs out of ports). With CONNECT-TARGET, ADDRESS is an HTTP proxy.
 * A client prints the bytes (connect: the connections), the seconds that they took and its own CPU seconds.
 *
 * "bare" takes connections, makes one to TO-ADDRESS for each and moves the bytes by splice(2): no rules, no records, no bounds. What
 * a relay costs at least on this machine is what this one costs: copies, also of half a MiB at a time, and smaller pipes cost more.
 *
 * On loopback nothing is lost and nothing is far: there a connection has plain congestion control, as in the namespace of a run. Pacing
 * (bbr) would cost both of its ends twice as much.
 *
 * Each of the three is one thread that waits for all its connections at once: what is measured is to be the relay. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BLOCK ((size_t) 256 << 10)
#define PIPE ((size_t) 1 << 20) /* no pipe may be larger without a privilege */
#define COPY (BLOCK / 4)
#define EVENTS 64

typedef struct Peer Peer;

/* Something that has a socket and waits. */
typedef struct Source {
        void (*ready)(Peer *p, struct Source *s, uint32_t events);
        int fd;
        bool heard; /* a client's, of the answer */
} Source;

struct Peer {
        int epoll_fd;
        Source listener;
        struct sockaddr_in to; /* bare: where; a client: whom it connects to */
        const char *target;    /* a client's, by a proxy */
        char what;             /* a client's */
        double end;
        uint64_t count;
        unsigned alive;
        struct Pair *over; /* bare: to be freed after this batch of events */
        char block[BLOCK];
};

static double now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

static double seconds(struct timeval t)
{
        return (double) t.tv_sec + (double) t.tv_usec / 1e6;
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

static void watch(Peer *p, int op, Source *s, uint32_t events)
{
        struct epoll_event e = { .events = events, .data.ptr = s };

        if (epoll_ctl(p->epoll_fd, op, s->fd, &e) < 0)
                die("epoll_ctl");
}

static Source *source_new(size_t size, int fd, void (*ready)(Peer *p, Source *s, uint32_t events))
{
        Source *s = calloc(1, size);

        if (!s)
                die("calloc");
        s->fd = fd;
        s->ready = ready;
        return s;
}

static void source_close(Source *s)
{
        close(s->fd);
        free(s);
}

static void set_nodelay(int fd)
{
        const int one = 1;

        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* What is accepted inherits both. */
static void set_plain(int fd, const struct sockaddr_in *a)
{
        if (ntohl(a->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) < 0)
                die("reno");
}

static int dial(const struct sockaddr_in *to, int flags)
{
        int fd = socket(AF_INET, SOCK_STREAM | flags, 0);

        set_nodelay(fd);
        set_plain(fd, to);
        if (fd < 0 || (connect(fd, (const struct sockaddr *) to, sizeof(*to)) < 0 && errno != EINPROGRESS))
                die("connect");
        return fd;
}

static void listen_on(Peer *p, char **argv, void (*ready)(Peer *p, Source *s, uint32_t events))
{
        struct sockaddr_in a = address_of(argv);
        const int one = 1;

        p->listener = (Source){ .ready = ready, .fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0) };
        setsockopt(p->listener.fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        set_nodelay(p->listener.fd);
        set_plain(p->listener.fd, &a);
        if (bind(p->listener.fd, (struct sockaddr *) &a, sizeof(a)) < 0 || listen(p->listener.fd, 4096) < 0)
                die("listen");
        watch(p, EPOLL_CTL_ADD, &p->listener, EPOLLIN);
}

/* ---- the server */

static void server_send(Peer *p, Source *s, uint32_t events)
{
        if (send(s->fd, p->block, BLOCK, MSG_NOSIGNAL) < 0 && errno != EAGAIN)
                source_close(s);
}

static void server_receive(Peer *p, Source *s, uint32_t events)
{
        ssize_t n = recv(s->fd, p->block, BLOCK, 0);

        if (n == 0 || (n < 0 && errno != EAGAIN))
                source_close(s);
}

static void server_hear(Peer *p, Source *s, uint32_t events)
{
        char what = 0;

        if (recv(s->fd, &what, 1, 0) != 1) {
                if (errno != EAGAIN)
                        source_close(s);
        } else if (what == 'g') {
                s->ready = server_send;
                watch(p, EPOLL_CTL_MOD, s, EPOLLOUT);
        } else if (what == 'p')
                s->ready = server_receive;
        else {
                (void) send(s->fd, &what, 1, MSG_NOSIGNAL);
                source_close(s);
        }
}

static void server_accept(Peer *p, Source *s, uint32_t events)
{
        int fd;

        while ((fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK)) >= 0)
                watch(p, EPOLL_CTL_ADD, source_new(sizeof(Source), fd, server_hear), EPOLLIN);
}

/* ---- the bare relay */

typedef struct Half {
        Source source;
        struct Pair *pair;
        struct Half *other;
        int pipe[2]; /* what was read here and not been taken there; 0: not made yet */
        size_t held;
        bool hung_up, eof, shut;
} Half;

typedef struct Pair {
        Half client, upstream;
        bool stands; /* the upstream connection */
        bool over;
        struct Pair *next; /* of those that are */
} Pair;

static void half_pipe(Half *h)
{
        if (h->pipe[1] == 0 && (pipe2(h->pipe, O_NONBLOCK) < 0 || fcntl(h->pipe[1], F_SETPIPE_SZ, PIPE) < 0))
                die("pipe");
}

static ssize_t half_read(Half *h, char *to, size_t room)
{
        ssize_t n = recv(h->source.fd, to, room, 0);

        h->eof = n == 0 || (n < 0 && errno != EAGAIN);
        return n > 0 ? n : 0;
}

/* The first bytes by a copy: most connections have few; and the end in one packet with them. false: there is nothing more at the
 * moment. */
static bool half_copy(Peer *p, Half *h)
{
        ssize_t n = half_read(h, p->block, COPY), k;

        if (n == 0)
                return false;
        if (h->hung_up && n < (ssize_t) COPY)
                n += half_read(h, p->block + n, COPY - (size_t) n);
        k = send(h->other->source.fd, p->block, (size_t) n, MSG_NOSIGNAL | (h->eof ? MSG_MORE : 0));
        if (k < 0 && errno != EAGAIN) {
                h->eof = h->other->eof = true;
                return false;
        }
        k = k < 0 ? 0 : k;
        if (n == (ssize_t) COPY || k < n)
                half_pipe(h);
        if (k < n && write(h->pipe[1], p->block + k, (size_t) (n - k)) != n - k)
                die("write");
        h->held = (size_t) (n - k);
        return true;
}

static bool half_splice(Half *h)
{
        ssize_t n = 0, k = 0;

        if (h->held < PIPE && !h->eof) {
                n = splice(h->source.fd, NULL, h->pipe[1], NULL, PIPE - h->held, SPLICE_F_NONBLOCK);
                h->held += n > 0 ? (size_t) n : 0;
                h->eof = n == 0 || (n < 0 && errno != EAGAIN);
        }
        if (h->held > 0)
                k = splice(h->pipe[0], NULL, h->other->source.fd, NULL, h->held, SPLICE_F_NONBLOCK);
        if (k < 0 && errno != EAGAIN) {
                h->held = 0;
                h->eof = h->other->eof = true;
        }
        h->held -= k > 0 ? (size_t) k : 0;
        return k > 0;
}

static void half_move(Peer *p, Half *h)
{
        while ((!h->eof || h->held > 0) && (h->pipe[1] != 0 ? half_splice(h) : half_copy(p, h)))
                ;
        if (h->eof && h->held == 0 && !h->shut) {
                h->shut = true;
                if (!h->other->shut)
                        shutdown(h->other->source.fd, SHUT_WR);
        }
}

static void half_close(Half *h)
{
        if (h->pipe[1] != 0) {
                close(h->pipe[0]);
                close(h->pipe[1]);
        }
        close(h->source.fd);
}

static void half_ready(Peer *p, Source *s, uint32_t events)
{
        Pair *pair = ((Half *) s)->pair;

        ((Half *) s)->hung_up |= (events & EPOLLRDHUP) != 0;
        pair->stands |= s == &pair->upstream.source && (events & EPOLLOUT);
        if (pair->over || !pair->stands)
                return;
        half_move(p, &pair->client);
        half_move(p, &pair->upstream);
        if (!pair->client.shut || !pair->upstream.shut)
                return;
        half_close(&pair->client);
        half_close(&pair->upstream);
        pair->over = true;
        pair->next = p->over;
        p->over = pair;
}

static void bare_accept(Peer *p, Source *s, uint32_t events)
{
        const uint32_t all = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
        int fd;

        while ((fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                Pair *pair = calloc(1, sizeof(*pair));

                if (!pair)
                        die("calloc");
                pair->client = (Half){ { .ready = half_ready, .fd = fd }, .pair = pair, .other = &pair->upstream };
                pair->upstream = (Half){ { .ready = half_ready, .fd = dial(&p->to, SOCK_NONBLOCK) },
                        .pair = pair, .other = &pair->client };
                watch(p, EPOLL_CTL_ADD, &pair->upstream.source, all);
                watch(p, EPOLL_CTL_ADD, &pair->client.source, all);
        }
}

static void bury(Peer *p)
{
        while (p->over) {
                Pair *pair = p->over;

                p->over = pair->next;
                free(pair);
        }
}

/* ---- the client */

static void client_start(Peer *p);

static void client_over(Peer *p, Source *s)
{
        source_close(s);
        p->alive--;
        if (p->what == 'c' && now() < p->end)
                client_start(p);
}

/* The one byte, then the end. */
static void client_answer(Peer *p, Source *s, uint32_t events)
{
        char answer[2];
        ssize_t n = recv(s->fd, answer, sizeof(answer), MSG_DONTWAIT);

        if (n == 1 && !s->heard) {
                s->heard = true;
                n = recv(s->fd, answer, sizeof(answer), MSG_DONTWAIT);
        }
        if (n < 0 && errno == EAGAIN)
                return;
        if (n != 0 || !s->heard)
                die("answer");
        p->count++;
        client_over(p, s);
}

static void client_stream(Peer *p, Source *s, uint32_t events)
{
        ssize_t n = p->what == 'g' ? recv(s->fd, p->block, BLOCK, MSG_DONTWAIT)
                                   : send(s->fd, p->block, BLOCK, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n == 0 || (n < 0 && errno != EAGAIN))
                die("stream");
        p->count += n > 0 ? (uint64_t) n : 0;
}

static void client_ask(Peer *p, Source *s)
{
        if (send(s->fd, &p->what, 1, MSG_NOSIGNAL) != 1)
                die("send");
        s->ready = p->what == 'c' ? client_answer : client_stream;
        if (p->what == 'p')
                watch(p, EPOLL_CTL_MOD, s, EPOLLOUT);
}

static void client_proxy(Peer *p, Source *s, uint32_t events)
{
        char head[1024] = "";
        ssize_t n = recv(s->fd, head, sizeof(head) - 1, MSG_PEEK | MSG_DONTWAIT);
        const char *end = n > 0 ? strstr(head, "\r\n\r\n") : NULL;

        if (end && strstr(head, " 200")) {
                (void) recv(s->fd, head, (size_t) (end + 4 - head), 0);
                client_ask(p, s);
        } else if (n == 0 || end)
                die("proxy");
}

/* On one machine the kernel makes a connection while it is asked to, so that waiting for it is none. */
static void client_start(Peer *p)
{
        Source *s = source_new(sizeof(*s), dial(&p->to, 0), client_proxy);

        p->alive++;
        watch(p, EPOLL_CTL_ADD, s, EPOLLIN);
        if (p->target)
                dprintf(s->fd, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", p->target, p->target);
        else
                client_ask(p, s);
}

/* ---- */

/* A client ends: its streams where they are, its connections each with its answer. */
static bool is_over(const Peer *p)
{
        return p->what != 0 && now() >= p->end && (p->what != 'c' || p->alive == 0);
}

static void run(Peer *p)
{
        struct epoll_event events[EVENTS];

        while (!is_over(p)) {
                int n = epoll_wait(p->epoll_fd, events, EVENTS, 1000);

                for (int i = 0; i < n; i++) {
                        Source *s = events[i].data.ptr;

                        s->ready(p, s, events[i].events);
                }
                bury(p);
        }
}

int main(int argc, char **argv)
{
        Peer *p = calloc(1, sizeof(*p));
        double start = now();
        struct rusage used;

        signal(SIGPIPE, SIG_IGN);
        if (!p || argc < 4)
                return 2;
        p->epoll_fd = epoll_create1(0);
        if (argc == 4 && strcmp(argv[1], "serve") == 0)
                listen_on(p, argv + 2, server_accept);
        else if (argc == 6 && strcmp(argv[1], "bare") == 0) {
                p->to = address_of(argv + 4);
                listen_on(p, argv + 2, bare_accept);
        } else if (argc == 6 || argc == 7) {
                p->what = argv[1][0];
                p->to = address_of(argv + 2);
                p->end = start + atof(argv[4]);
                p->target = argv[6];
                for (int i = 0; i < atoi(argv[5]); i++)
                        client_start(p);
        } else
                return 2;
        run(p);
        getrusage(RUSAGE_SELF, &used);
        printf("%llu %.6f %.6f\n", (unsigned long long) p->count, now() - start,
                        seconds(used.ru_utime) + seconds(used.ru_stime));
        return 0;
}
