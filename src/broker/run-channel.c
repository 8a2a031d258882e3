/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/io.h"
#include "broker/broker-stdio.h"
#include "broker/run.h"
#include "wire/bus-iface.h"

/* The first descriptor that came; any further one is closed, and is one too many. */
static bool take_descriptors(struct cmsghdr *c, int *ret)
{
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        bool alone = n == 1 && *ret < 0;

        for (size_t i = 0; i < n; i++) {
                int fd;

                memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
                if (*ret < 0)
                        *ret = fd;
                else
                        close(fd);
        }
        return alone;
}

/* What came beside the bytes. */
static int take_control(struct msghdr *m, struct ucred *ret_peer, int *ret_fd)
{
        _cleanup_close_ int received = -1;
        bool has_peer = false, is_right = true;

        for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
                if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
                        is_right &= take_descriptors(c, &received);
                else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS &&
                                c->cmsg_len == CMSG_LEN(sizeof(struct ucred))) {
                        memcpy(ret_peer, CMSG_DATA(c), sizeof(*ret_peer));
                        has_peer = true;
                } else
                        is_right = false;
        }
        if ((m->msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || !has_peer || !is_right || (received >= 0 && !ret_fd))
                return -EBADMSG;
        if (ret_fd)
                *ret_fd = TAKE_FD(received);
        return 0;
}

static int receive(int fd, int flags, Buf *ret, struct ucred *ret_peer, int *ret_fd)
{
        union {
                char space[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int))];
                struct cmsghdr align;
        } control;
        _cleanup_free_ uint8_t *data = malloc(ATTEST_SIZE_MAX);
        struct iovec v = { .iov_base = data, .iov_len = ATTEST_SIZE_MAX };
        struct msghdr m = {
                .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        ssize_t n;
        int r;

        if (!data)
                return -ENOMEM;
        do
                n = recvmsg(fd, &m, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n < 0 && (errno == EAGAIN || errno == ECONNRESET))
                return 0;
        if (n < 0)
                return -errno;
        if (n == 0 && m.msg_controllen == 0)
                return 0;
        r = take_control(&m, ret_peer, ret_fd);
        if (r < 0)
                return r;
        r = buf_append(ret, data, (size_t) n);
        if (r < 0 && ret_fd)
                closep(ret_fd);
        return r < 0 ? -ENOMEM : 1;
}

int run_channel_receive(int fd, Buf *ret, struct ucred *ret_peer, int *ret_fd)
{
        return receive(fd, 0, ret, ret_peer, ret_fd);
}

/* It stays where it is, for another broker may come: PID 1 has the channel, too (fd-store.h). Nobody but the init is
 * believed: the workload has no end of it. */
bool run_channel_has_end(const Run *r, ExecEnded *ret)
{
        _cleanup_close_ int received = -1;
        _cleanup_buf_ Buf message = {};
        struct ucred peer;

        return r->init_pid > 0 && r->channel_fd >= 0 &&
               receive(r->channel_fd, MSG_PEEK, &message, &peer, &received) > 0 && received < 0 &&
               peer.pid == r->init_pid && exec_ended_decode(message.data, message.size, ret) >= 0;
}

static int on_attestation(Run *r, const Buf *message)
{
        ExecFailure f;
        int k = attest_decode(message->data, message->size, &r->attest);

        if (k >= 0) {
                run_mark(r, MARK_ATTESTED);
                r->has_attest = true;
                k = run_find_init(r);
                if (k >= 0)
                        k = run_watch_main(r);
                if (k < 0)
                        run_refuse(r, AGENTBOX_ERROR_START_FAILED, "cannot watch the run's process: %s",
                                        strerror(-k));
                else
                        run_advance(r);
                return 0;
        }
        if (exec_failure_decode(message->data, message->size, &f) >= 0) {
                run_on_failure(r, &f);
                return 0;
        }
        return k;
}

/* Whether it hands over the listener of its filter: once, and only where one is wanted. The shim is believed in nothing: what
 * it sends must be one. */
static bool take_listener(Run *r, const Buf *message, int fd)
{
        return fd >= 0 && r->warden && message->size == strlen(EXEC_LISTENER) &&
               memcmp(message->data, EXEC_LISTENER, message->size) == 0 && run_warden_pass_listener(r, fd) >= 0;
}

/* Whether it says that the files are there, if there are any: once. */
static bool take_copied(Run *r, const Buf *message)
{
        ExecCopied c;

        if (!r->awaits_copied || exec_copied_decode(message->data, message->size, &c) < 0)
                return false;
        r->awaits_copied = false;
        run_copy_on_copied(r, &c);
        return true;
}

static int on_channel(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Run *r = userdata;
        _cleanup_close_ int received = -1;
        _cleanup_buf_ Buf message = {};
        struct ucred peer;
        ExecFailure f;
        ExecEnded ended;
        int k = run_channel_has_end(r, &ended) ? 0 : run_channel_receive(r->channel_fd, &message, &peer, &received);

        if (k == 0) { /* PID 1 holds the other end open; whether the unit is over, it says itself */
                (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
                return 0;
        }
        if (k > 0 && r->phase == RUN_STARTING && !r->has_attest) {
                r->peer = peer;
                k = run_scope_attests(r) && received < 0 ? on_attestation(r, &message) : -EPERM;
        } else if (k > 0 && r->phase == RUN_LAUNCHED && peer.pid == r->peer.pid) {
                if (take_listener(r, &message, received) || (received < 0 && take_copied(r, &message)))
                        return 0;
                k = exec_failure_decode(message.data, message.size, &f);
                if (k >= 0)
                        run_on_failure(r, &f);
        } else if (k > 0)
                k = -EBADMSG;
        if (k < 0)
                run_refuse(r, AGENTBOX_ERROR_START_FAILED, "the shim said something that it should not: %s",
                                strerror(-k));
        return 0;
}

static int make_channel(Run *r, int *ret_shim_fd, Error **reterr)
{
        int fds[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
                return error_set(reterr, -errno, "cannot make the shim's channel: %s", strerror(errno));
        r->channel_fd = fds[0];
        *ret_shim_fd = fds[1];
        return 0;
}

int run_channel_open(Run *r, int *ret_shim_fd, Error **reterr)
{
        int one = 1, k = r->scope ? run_scope_take_channel(r, reterr) : make_channel(r, ret_shim_fd, reterr);

        if (k < 0)
                return k;
        if (setsockopt(r->channel_fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) < 0)
                return error_set(reterr, -errno, "cannot ask for credentials on the shim's channel: %s",
                                strerror(errno));
        k = sd_event_add_io(r->manager->event, &r->channel_source, r->channel_fd, EPOLLIN, on_channel, r);
        return k < 0 ? error_set(reterr, k, "cannot watch the shim's channel: %s", strerror(-k)) : 0;
}

/* The shim has executed the command, or is dead. A message of failure, if there is one, was sent before. */
static int on_executed(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Run *r = userdata;
        ExecEnded ended;
        ExecFailure f;

        while (!run_channel_has_end(r, &ended)) {
                _cleanup_close_ int received = -1;
                _cleanup_buf_ Buf message = {};
                struct ucred peer;

                if (run_channel_receive(r->channel_fd, &message, &peer, &received) <= 0 || peer.pid != r->peer.pid)
                        break;
                if (take_listener(r, &message, received) || take_copied(r, &message))
                        continue;
                if (exec_failure_decode(message.data, message.size, &f) < 0)
                        break;
                run_on_failure(r, &f);
                return 0;
        }
        if (!r->awaits_copied)
                run_on_executed(r);
        else if (source) /* it died before it came to that; of what, PID 1 says soon */
                return sd_event_source_set_enabled(source, SD_EVENT_OFF);
        else
                run_on_failure(r, &(ExecFailure){ .stage = EXEC_STAGE_UNPACK });
        return 0;
}

void run_channel_settle(Run *r)
{
        (void) on_executed(NULL, r->executed_fd, 0, r);
}

static int send_message(int channel, const int *fds, size_t n_fds)
{
        union {
                char space[CMSG_SPACE(RUNSPEC_FDS_MAX * sizeof(int))];
                struct cmsghdr align;
        } control = {};
        struct iovec v = { .iov_base = (void *) RUNSPEC_MESSAGE, .iov_len = strlen(RUNSPEC_MESSAGE) };
        struct msghdr m = {
                .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(n_fds * sizeof(int))
        };
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        ssize_t n;

        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
        do
                n = sendmsg(channel, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : 0;
}

static int send_spec(Run *r, int memfd, int executed)
{
        _cleanup_close_ int null = -1;
        int copy_in = run_copy_in_fd(r), stdio[3], k;

        memcpy(stdio, r->request.stdio, sizeof(stdio));
        if (r->output) {
                null = open("/dev/null", O_RDONLY | O_CLOEXEC | O_NOCTTY);
                if (null < 0)
                        return -errno;
                stdio[0] = null;
                stdio[1] = r->output->write_fds[OUTPUT_FD_STDOUT];
                stdio[2] = r->output->write_fds[OUTPUT_FD_STDERR];
        }
        k = send_message(r->channel_fd,
                        (int[RUNSPEC_FDS_MAX]){ memfd, stdio[0], stdio[1], stdio[2], executed, copy_in },
                        copy_in >= 0 ? RUNSPEC_FDS_MAX : RUNSPEC_FDS);
        if (k >= 0 && copy_in >= 0)
                run_copy_on_sent(r);
        r->awaits_copied = true;
        run_output_on_sent(r);
        return k;
}

int run_channel_send_spec(Run *r, Error **reterr)
{
        _cleanup_close_ int memfd = -1, executed = -1;
        _cleanup_buf_ Buf b = {};
        int fds[2], k = run_spec_encode(r, &b, reterr);

        if (k < 0)
                return k;
        memfd = memfd_sealed("agentbox-runspec", b.data, b.size);
        if (memfd < 0)
                return error_set(reterr, memfd, "cannot write down what is to be run: %s", strerror(-memfd));
        if (pipe2(fds, O_CLOEXEC) < 0)
                return error_set(reterr, -errno, "cannot make a pipe: %s", strerror(errno));
        r->executed_fd = fds[0];
        executed = fds[1];
        k = sd_event_add_io(r->manager->event, &r->executed_source, r->executed_fd, EPOLLIN, on_executed, r);
        if (k >= 0)
                k = send_spec(r, memfd, executed);
        return k < 0 ? error_set(reterr, k, "cannot tell the shim what to run: %s", strerror(-k)) : 0;
}

void run_channel_leave(Run *r)
{
        r->channel_source = sd_event_source_disable_unref(r->channel_source);
        r->executed_source = sd_event_source_disable_unref(r->executed_source);
        closep(&r->executed_fd);
        r->executed_fd = -1;
        if (r->init_pid > 0)
                return;
        closep(&r->channel_fd);
        r->channel_fd = -1;
}

void run_channel_close(Run *r)
{
        run_channel_leave(r);
        closep(&r->channel_fd);
        r->channel_fd = -1;
}
