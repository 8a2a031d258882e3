/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* agentbox-resolver
 *
 * Turns names into addresses for one warden, by the host's own resolver (nsswitch.conf, resolv.conf). A process of its own
 * because getaddrinfo() blocks, loads libraries and parses what name servers send.
 *
 * uid            the warden's dynamic uid; no capability. It stays under the filter of the warden's unit
 * descriptors    0: the channel to the warden, a SOCK_SEQPACKET socket; 1, 2: the warden's. No other
 * system calls   what getaddrinfo() needs: files of /etc and /usr, sockets to name servers
 * trusts         the kernel and the host's configuration; the names in so far as it checks them again
 * environment    none is heeded; it sets what the C library's resolver is to heed
 * must           ask for the name as it is, never for one out of a search list; answer each request, at most once
 * must not       heed an answer's address: the warden judges each; log a name; outlive the warden
 *
 * Each of a few threads takes a request from the socket, resolves and answers: the socket's queue is the only one. All end
 * when the warden's end is closed.
 */

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#include "resolver/resolve.h"

#define CHANNEL 0
#define THREADS 4u
#define STACK_SIZE (512u << 10) /* getaddrinfo() keeps answers of up to 64 KiB on it */

static uint64_t now_usec(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * 1000000u + (uint64_t) t.tv_nsec / 1000u;
}

static bool take_address(const struct sockaddr *sa, EgressAddress *ret)
{
        *ret = (EgressAddress){ .family = (uint8_t) sa->sa_family };
        if (sa->sa_family == AF_INET)
                memcpy(ret->bytes, &((const struct sockaddr_in *) (const void *) sa)->sin_addr, 4);
        else if (sa->sa_family == AF_INET6)
                memcpy(ret->bytes, &((const struct sockaddr_in6 *) (const void *) sa)->sin6_addr, 16);
        else
                return false;
        return true;
}

static void resolve(const ResolveRequest *q, ResolveAnswer *ret)
{
        const struct addrinfo hints = {
                .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG
        };
        struct addrinfo *list = NULL;

        *ret = (ResolveAnswer){ .id = q->id };
        if (!q->name[0] || now_usec() >= q->deadline)
                return;
        if (getaddrinfo(q->name, NULL, &hints, &list) != 0)
                return;
        for (const struct addrinfo *i = list; i && ret->n < RESOLVE_ADDRESSES_MAX; i = i->ai_next)
                ret->n += take_address(i->ai_addr, ret->addresses + ret->n);
        freeaddrinfo(list);
}

/* Ends the process as soon as there is nobody to answer to. */
static void *serve(void *unused)
{
        for (;;) {
                uint8_t message[RESOLVE_MESSAGE_MAX];
                ssize_t n = recv(CHANNEL, message, sizeof(message), 0);
                _cleanup_buf_ Buf out = {};
                ResolveRequest q;
                ResolveAnswer a;

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        _exit(EXIT_SUCCESS);
                if (resolve_request_decode(message, (size_t) n, &q) < 0)
                        continue;
                resolve(&q, &a);
                if (resolve_answer_encode(&a, &out) >= 0 &&
                                send(CHANNEL, out.data, out.size, MSG_NOSIGNAL) < 0 && errno != EINTR)
                        _exit(EXIT_SUCCESS);
        }
        return NULL;
}

static bool is_channel(int fd)
{
        int domain = 0, type = 0;
        socklen_t n = sizeof(int);

        return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 && domain == AF_UNIX &&
               getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 && type == SOCK_SEQPACKET;
}

/* A search list with nothing but the root in it, so that a name is asked for as it is. (With a dot at its end it would be, too,
 * but /etc/hosts would not have it.) And no more time than the warden has. */
static int set_resolver_options(void)
{
        return clearenv() != 0 || setenv("LOCALDOMAIN", ".", true) < 0 ||
                                       setenv("RES_OPTIONS", "timeout:2 attempts:2", true) < 0
                               ? -1
                               : 0;
}

int main(void)
{
        pthread_attr_t attributes;

        if (!is_channel(CHANNEL)) {
                fputs("agentbox-resolver: started by agentbox-warden, not by hand\n", stderr);
                return EXIT_FAILURE;
        }
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || set_resolver_options() < 0 || pthread_attr_init(&attributes) != 0 ||
                        pthread_attr_setstacksize(&attributes, STACK_SIZE) != 0)
                return EXIT_FAILURE;
        for (unsigned i = 1; i < THREADS; i++) {
                pthread_t thread;

                /* Fewer are slower, not wrong. */
                if (pthread_create(&thread, &attributes, serve, NULL) != 0)
                        break;
        }
        serve(NULL);
        return EXIT_SUCCESS;
}
