/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <assert.h>
#include <errno.h>
#include <sys/socket.h>

#include "wire/codec.h"
#include "wire/view.h"

#define FDS_MAX 2u
static_assert(_VIEW_REQUEST_FDS <= FDS_MAX && _VIEW_REPLY_FDS <= FDS_MAX, "room for the descriptors");

static bool request_is_valid(const ViewRequest *q)
{
        return q->uid != 0 && q->uid != (uid_t) -1 && q->gid != 0 && q->gid != (gid_t) -1 &&
               q->caller != (uid_t) -1 && q->caller != q->uid && path_is_normal(q->workspace) &&
               !streq(q->workspace, "/");
}

int view_request_encode(const ViewRequest *q, Buf *out)
{
        if (!request_is_valid(q))
                return -EINVAL;
        buf_u32(out, VIEW_REQUEST_MAGIC);
        buf_u32(out, q->uid);
        buf_u32(out, q->gid);
        buf_u32(out, q->caller);
        return buf_blob(out, q->workspace, strlen(q->workspace));
}

int view_request_decode(const void *p, size_t n, ViewRequest *ret)
{
        Reader reader = { .data = p, .size = n };
        uint32_t magic = read_u32(&reader);
        ViewRequest q = { .uid = read_u32(&reader) };
        _cleanup_free_ char *workspace = NULL;

        q.gid = read_u32(&reader);
        q.caller = read_u32(&reader);
        workspace = read_string(&reader, VIEW_WORKSPACE_MAX);
        if (read_end(&reader) < 0 || magic != VIEW_REQUEST_MAGIC)
                return -EBADMSG;
        strcpy(q.workspace, workspace);
        if (!request_is_valid(&q))
                return -EBADMSG;
        *ret = q;
        return 0;
}

static bool reply_is_valid(uint32_t stage, uint32_t error)
{
        return stage < _VIEW_STAGE_MAX && error <= 4095 && (stage == VIEW_DONE) == (error == 0);
}

int view_reply_encode(const ViewReply *r, Buf *out)
{
        if (!reply_is_valid((uint32_t) r->stage, (uint32_t) r->error))
                return -EINVAL;
        buf_u32(out, VIEW_REPLY_MAGIC);
        buf_u32(out, (uint32_t) r->stage);
        return buf_u32(out, (uint32_t) r->error);
}

int view_reply_decode(const void *p, size_t n, ViewReply *ret)
{
        Reader reader = { .data = p, .size = n };
        uint32_t magic = read_u32(&reader), stage = read_u32(&reader), error = read_u32(&reader);

        if (read_end(&reader) < 0 || magic != VIEW_REPLY_MAGIC || !reply_is_valid(stage, error))
                return -EBADMSG;
        *ret = (ViewReply){ .stage = (ViewStage) stage, .error = (int) error };
        return 0;
}

/* ---- with descriptors */

typedef union Control {
        char space[CMSG_SPACE(FDS_MAX * sizeof(int))];
        struct cmsghdr align;
} Control;

int view_send(int fd, const Buf *message, const int *fds, size_t n_fds)
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

ssize_t view_receive(int fd, int flags, void *p, int *ret_fds, size_t n_fds)
{
        Control control;
        struct iovec v = { .iov_base = p, .iov_len = VIEW_MESSAGE_MAX };
        /* Not CMSG_SPACE(): in its padding there is room for a descriptor more. */
        struct msghdr m = { .msg_iov = &v,
                .msg_iovlen = 1,
                .msg_control = &control,
                .msg_controllen = CMSG_LEN(n_fds * sizeof(int)) };
        struct cmsghdr *c;
        ssize_t n;
        size_t came = 0;

        for (size_t i = 0; i < n_fds; i++)
                ret_fds[i] = -1;
        do
                n = recvmsg(fd, &m, flags | MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
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
