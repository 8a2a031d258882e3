/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <signal.h>
#include <sys/socket.h>

#include "base/macro.h"
#include "warden/warden-splice.h"

int splicer_open(Splicer *ret)
{
        Splicer s;

        if (signal(SIGPIPE, SIG_IGN) == SIG_ERR || pipe2(s.fds, O_CLOEXEC | O_NONBLOCK) < 0)
                return -errno;
        /* Where it cannot be had, each call moves fewer. */
        (void) fcntl(s.fds[1], F_SETPIPE_SZ, (int) SPLICE_MAX);
        *ret = s;
        return 0;
}

void splicer_close(Splicer *s)
{
        for (size_t i = 0; i < ELEMENTSOF(s->fds); i++)
                if (s->fds[i] >= 0)
                        close(TAKE_FD(s->fds[i]));
}

size_t splicer_size(int to)
{
        uint32_t memory[SK_MEMINFO_VARS] = {};
        socklen_t n = sizeof(memory);
        size_t room;

        if (getsockopt(to, SOL_SOCKET, SO_MEMINFO, memory, &n) < 0 ||
                        memory[SK_MEMINFO_SNDBUF] < memory[SK_MEMINFO_WMEM_QUEUED])
                return SPLICE_MIN;
        /* The kernel's own headers are in the same account. */
        room = (memory[SK_MEMINFO_SNDBUF] - memory[SK_MEMINFO_WMEM_QUEUED]) / 4 * 3;
        return MAX2(SPLICE_MIN, MIN2(room, SPLICE_MAX));
}

/* No more than that is said: the warden's own filter allows splice(2) with no other flags. */
static ssize_t move(int from, int to, size_t n)
{
        ssize_t k;

        do
                k = splice(from, NULL, to, NULL, n, SPLICE_F_NONBLOCK);
        while (k < 0 && errno == EINTR);
        return k < 0 ? -errno : k;
}

/* Into rest, or (NULL) nowhere. */
static int take_back(Splicer *s, uint8_t *rest, size_t n)
{
        uint8_t nowhere[4096];

        for (size_t at = 0; at < n;) {
                ssize_t k = read(s->fds[0], rest ? rest + at : nowhere, rest ? n - at : MIN2(n - at, sizeof(nowhere)));

                if (k < 0 && errno == EINTR)
                        continue;
                if (k <= 0) {
                        splicer_close(s);
                        return -EIO;
                }
                at += (size_t) k;
        }
        return 0;
}

void splicer_move(Splicer *s, int from, int to, size_t n, uint8_t *rest, Spliced *ret)
{
        Spliced m = {};
        ssize_t k = move(from, s->fds[1], n);

        m.taken = k > 0 ? (size_t) k : 0;
        /* To the end: only a call that says EAGAIN has asked the kernel to tell when there is room. */
        while (m.given < m.taken && m.error == 0) {
                k = move(s->fds[0], to, m.taken - m.given);
                if (k > 0)
                        m.given += (size_t) k;
                else
                        m.error = k < 0 ? (int) k : -EIO;
        }
        if (take_back(s, m.error == -EAGAIN ? rest : NULL, m.taken - m.given) < 0)
                m.error = -EIO;
        *ret = m;
}
