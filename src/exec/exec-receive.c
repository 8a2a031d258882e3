/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <sys/socket.h>

#include "base/io.h"
#include "exec/exec.h"

int exec_channel_send(int channel, const Buf *message)
{
        ssize_t n;

        if (message->error < 0)
                return message->error;
        do
                n = write(channel, message->data, message->size);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        return (size_t) n == message->size ? 0 : -EIO;
}

/* Exactly one control message, with RUNSPEC_FDS or RUNSPEC_FDS_MAX descriptors: how many. Whatever came is closed where
 * that is not so. */
static int take_fds(struct msghdr *m, int ret[RUNSPEC_FDS_MAX])
{
        int fds[RUNSPEC_FDS_MAX] = {};
        size_t n_fds = 0, n_messages = 0;

        for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
                size_t n;

                n_messages++;
                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                for (size_t i = 0; i < n; i++) {
                        int fd;

                        memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
                        if (n_fds < RUNSPEC_FDS_MAX)
                                fds[n_fds] = fd;
                        else
                                close(fd);
                        n_fds++;
                }
        }
        if (n_messages == 1 && n_fds >= RUNSPEC_FDS && n_fds <= RUNSPEC_FDS_MAX &&
                        !(m->msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
                memcpy(ret, fds, n_fds * sizeof(int));
                return (int) n_fds;
        }
        for (size_t i = 0; i < MIN2(n_fds, (size_t) RUNSPEC_FDS_MAX); i++)
                close(fds[i]);
        return -EBADMSG;
}

int exec_receive_start(int channel, char **ret_workspace)
{
        char payload[SCOPE_START_SIZE_MAX + 1];
        ssize_t n;
        int r;

        do
                n = recv(channel, payload, sizeof(payload), 0);
        while (n < 0 && errno == EINTR);
        if (n == 0 || (n < 0 && errno == ECONNRESET))
                return 0;
        if (n < 0)
                return -errno;
        r = scope_start_decode(payload, (size_t) n, ret_workspace);
        return r < 0 ? r : 1;
}

int exec_receive(int channel, RunSpec *ret, ExecFds *ret_fds)
{
        /* One byte and some descriptors more than a right message has, to see that there is more. */
        char payload[sizeof(RUNSPEC_MESSAGE)];
        union {
                char space[CMSG_SPACE(8 * sizeof(int))];
                struct cmsghdr align;
        } control;
        struct iovec v = { .iov_base = payload, .iov_len = sizeof(payload) };
        struct msghdr m = {
                .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        _cleanup_free_ void *data = NULL;
        int fds[RUNSPEC_FDS_MAX], n_fds, r = 0;
        size_t size = 0;
        ssize_t n;

        do
                n = recvmsg(channel, &m, MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        /* A peer that closes without having read our attestation resets the connection. */
        if ((n < 0 && errno == ECONNRESET) || (n == 0 && m.msg_controllen == 0))
                return 0;
        if (n < 0)
                return -errno;
        n_fds = take_fds(&m, fds);
        if (n_fds < 0)
                return n_fds;
        if ((size_t) n != strlen(RUNSPEC_MESSAGE) || memcmp(payload, RUNSPEC_MESSAGE, (size_t) n) != 0)
                r = -EBADMSG;
        else
                r = memfd_read_sealed(fds[0], RUNSPEC_SIZE_MAX, &data, &size);
        if (r >= 0)
                r = runspec_decode(data, size, ret);
        if (r >= 0 && ret->copy_in != (n_fds > (int) RUNSPEC_FDS)) {
                runspec_done(ret);
                r = -EBADMSG;
        }
        close(fds[0]);
        if (r < 0) {
                for (int i = 1; i < n_fds; i++)
                        close(fds[i]);
                return r;
        }
        *ret_fds = (ExecFds){
                .stdio = { fds[1], fds[2], fds[3] },
                .executed = fds[4],
                .copy_in = ret->copy_in ? fds[5] : -1,
        };
        return 1;
}
