/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "wire/packet.h"

int packet_connect(const char *path)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (strlen(path) >= sizeof(address.sun_path))
                return -ENAMETOOLONG;
        strcpy(address.sun_path, path);
        if (fd < 0 || connect(fd, (const struct sockaddr *) &address, sizeof(address)) < 0)
                return -errno;
        return TAKE_FD(fd);
}

int packet_check_root(int fd)
{
        struct ucred peer;
        socklen_t n = sizeof(peer);

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
                return -errno;
        return peer.uid == 0 ? 0 : -EPERM;
}

typedef union Control {
        char space[CMSG_SPACE(PACKET_FDS_MAX * sizeof(int))];
        struct cmsghdr align;
} Control;

int packet_send(int fd, const Buf *message, const int *fds, size_t n_fds)
{
        Control control = {};
        struct iovec v = { .iov_base = message->data, .iov_len = message->size };
        struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
        ssize_t n;

        if (message->error < 0)
                return message->error;
        if (n_fds > 0) {
                struct cmsghdr *c;

                m.msg_control = &control;
                m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
                c = CMSG_FIRSTHDR(&m);
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
                memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
        }
        do
                n = sendmsg(fd, &m, MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : 0;
}

/* The other end has gone and not read all that was sent to it. The kernel says so once, before what that end has said. */
static bool is_first_reset(bool *was_reset)
{
        if (errno != ECONNRESET || *was_reset)
                return false;
        *was_reset = true;
        return true;
}

ssize_t packet_receive(int fd, int flags, void *p, size_t max, int *ret_fds, size_t n_fds)
{
        Control control;
        struct iovec v = { .iov_base = p, .iov_len = max };
        /* Not CMSG_SPACE(): in its padding there is room for a descriptor more. */
        struct msghdr m = { .msg_iov = &v,
                .msg_iovlen = 1,
                .msg_control = &control,
                .msg_controllen = CMSG_LEN(n_fds * sizeof(int)) };
        struct cmsghdr *c;
        ssize_t n;
        size_t came = 0;
        bool was_reset = false;

        for (size_t i = 0; i < n_fds; i++)
                ret_fds[i] = -1;
        do
                n = recvmsg(fd, &m, flags | MSG_CMSG_CLOEXEC);
        while (n < 0 && (errno == EINTR || is_first_reset(&was_reset)));
        if (n < 0)
                return -errno;
        c = CMSG_FIRSTHDR(&m);
        if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
                came = MIN2((c->cmsg_len - CMSG_LEN(0)) / sizeof(int), n_fds);
                memcpy(ret_fds, CMSG_DATA(c), came * sizeof(int));
        }
        if (!(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && (!c || (came > 0 && !CMSG_NXTHDR(&m, c))))
                return n;
        for (size_t i = 0; i < came; i++) {
                close(ret_fds[i]);
                ret_fds[i] = -1;
        }
        return -EBADMSG;
}
