/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "warden/warden-resolve.h"

#define CHANNEL 0 /* of the resolver */

/* The rest of the descriptors are closed by execve(). */
_noreturn_ static void become_resolver(int channel, const char *path)
{
        char *const argv[] = { (char *) "agentbox-resolver", NULL }, *const environment[] = { NULL };
        const sigset_t none = {};

        if (dup2(channel, CHANNEL) >= 0 && sigprocmask(SIG_SETMASK, &none, NULL) >= 0)
                execve(path, argv, environment);
        _exit(127);
}

static int send_request(Resolver *r, const ResolveRequest *q)
{
        _cleanup_buf_ Buf b = {};
        int k = resolve_request_encode(q, &b);

        if (k < 0)
                return k;
        return send(r->fd, b.data, b.size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int resolver_start(Resolver *r, const char *path)
{
        _cleanup_close_ int ours = -1, theirs = -1;
        int pair[2];
        pid_t pid;

        r->lookups = calloc(LOOKUPS_MAX, sizeof(*r->lookups));
        if (!r->lookups)
                return -ENOMEM;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        ours = pair[0];
        theirs = pair[1];
        /* Nobody waits for it: its end is the closing of its socket. */
        if (signal(SIGCHLD, SIG_IGN) == SIG_ERR)
                return -errno;
        pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0)
                become_resolver(theirs, path);
        r->fd = TAKE_FD(ours);
        return send_request(r, &(ResolveRequest){});
}

int resolver_wait(Resolver *r, int timeout_msec)
{
        struct pollfd p = { .fd = r->fd, .events = POLLIN };
        uint8_t message[RESOLVE_MESSAGE_MAX];
        ResolveAnswer a;
        ssize_t n;
        int k;

        do
                k = poll(&p, 1, timeout_msec);
        while (k < 0 && errno == EINTR);
        if (k <= 0)
                return k < 0 ? -errno : -ETIMEDOUT;
        n = recv(r->fd, message, sizeof(message), MSG_DONTWAIT);
        if (n <= 0)
                return n < 0 ? -errno : -EPIPE;
        k = resolve_answer_decode(message, (size_t) n, &a);
        return k < 0 ? k : a.id == 0 && a.n == 0 ? 0 : -EBADMSG;
}

static Lookup *find_by_name(Resolver *r, const char *name)
{
        for (size_t i = 0; i < LOOKUPS_MAX; i++)
                if (r->lookups[i].id != 0 && streq(r->lookups[i].name, name))
                        return r->lookups + i;
        return NULL;
}

/* id 0: one that is free. */
static Lookup *find_by_id(Resolver *r, uint32_t id)
{
        for (size_t i = 0; i < LOOKUPS_MAX; i++)
                if (r->lookups[i].id == id)
                        return r->lookups + i;
        return NULL;
}

int resolver_ask(Resolver *r, Waiter *w, const char *name, uint64_t deadline)
{
        ResolveRequest q = { .deadline = deadline };
        Lookup *l;
        int k;

        if (r->fd < 0)
                return -ENOTCONN;
        l = find_by_name(r, name);
        if (!l) {
                l = find_by_id(r, 0);
                if (!l)
                        return -EAGAIN;
                if (++r->last_id == 0)
                        r->last_id = 1;
                q.id = r->last_id;
                snprintf(q.name, sizeof(q.name), "%s", name);
                k = send_request(r, &q);
                if (k < 0)
                        return k;
                *l = (Lookup){ .id = q.id };
                memcpy(l->name, q.name, sizeof(l->name));
        }
        w->lookup = l;
        w->next = l->waiters;
        l->waiters = w;
        return 0;
}

/* Nobody waits for it any more: its answer will find no lookup. */
static void lookup_done(Lookup *l)
{
        *l = (Lookup){};
}

void resolver_cancel(Waiter *w)
{
        Lookup *l = w->lookup;

        if (!l)
                return;
        for (Waiter **i = &l->waiters; *i; i = &(*i)->next)
                if (*i == w) {
                        *i = w->next;
                        break;
                }
        w->next = NULL;
        w->lookup = NULL;
        if (!l->waiters)
                lookup_done(l);
}

/* Those who are called may ask anew, for the same name as well: the lookup is free by then. */
static void lookup_answer(Lookup *l, void *userdata, const ResolveAnswer *a)
{
        Waiter *waiters = TAKE_PTR(l->waiters), *w;

        lookup_done(l);
        for (w = waiters; w; w = w->next)
                w->lookup = NULL;
        while ((w = waiters)) {
                waiters = TAKE_PTR(w->next);
                w->answered(userdata, w, a);
        }
}

static int die(Resolver *r, void *userdata, int error)
{
        close(TAKE_FD(r->fd));
        for (size_t i = 0; i < LOOKUPS_MAX; i++)
                if (r->lookups[i].id != 0)
                        lookup_answer(r->lookups + i, userdata, &(ResolveAnswer){});
        return error;
}

int resolver_dispatch(Resolver *r, void *userdata)
{
        for (unsigned i = 0; i < LOOKUPS_MAX; i++) {
                uint8_t message[RESOLVE_MESSAGE_MAX];
                ResolveAnswer a;
                Lookup *l;
                ssize_t n = recv(r->fd, message, sizeof(message), MSG_DONTWAIT);

                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        return 0;
                if (n <= 0)
                        return die(r, userdata, n < 0 ? -errno : -EPIPE);
                /* It reads what foreign name servers send: whatever is wrong with it ends it. */
                if (resolve_answer_decode(message, (size_t) n, &a) < 0 || a.id == 0)
                        return die(r, userdata, -EBADMSG);
                l = find_by_id(r, a.id);
                if (l)
                        lookup_answer(l, userdata, &a);
        }
        return 0;
}

void resolver_close(Resolver *r)
{
        if (r->fd >= 0)
                close(TAKE_FD(r->fd));
        free(r->lookups);
        r->lookups = NULL;
}
