/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* agentbox-output
 *
 * Keeps what a detached run writes to standard output and error: reads it from two pipes and hands it to the journal, a
 * record for what comes within a moment. Started by PID 1 for each connection that the broker makes to
 * agentbox-output.socket.
 *
 * uid            its own dynamic one, in a unit of its own, without any capability; it refuses to be root
 * descriptors    0: the broker's connection; the two pipes, which come by it; the journal's socket
 * system calls   while there is anything of the run to read: those of output-confine.c
 * trusts         the broker and the journal
 * must           lose nothing that was within the limit, and say so where it may have; keep the order within a stream
 * must not       look at what a byte means (it is hostile); write a field that the bytes could reach into; be taken for the
 *                broker or a warden, whose words count: its unit and the journal's namespace are others
 *
 * Stages: receive, journal, confine; then until both streams have ended. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "output/output.h"

#define CHANNEL 0
/* Of its own mount namespace, where PID 1 puts the sockets of the unit's LogNamespace=. */
#define JOURNAL_SOCKET "/run/systemd/journal/socket"
#define SEND_BUFFER (1024 * 1024)

static int receive(OutputSpec *spec, Collector *c)
{
        union {
                char space[CMSG_SPACE(_OUTPUT_FD_MAX * sizeof(int))];
                struct cmsghdr align;
        } control;
        uint8_t data[OUTPUT_SPEC_SIZE_MAX];
        struct iovec v = { .iov_base = data, .iov_len = sizeof(data) };
        struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
        struct cmsghdr *h;
        int fds[_OUTPUT_FD_MAX];
        ssize_t n;

        do
                n = recvmsg(CHANNEL, &m, MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        h = CMSG_FIRSTHDR(&m);
        if ((m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || !h || h->cmsg_level != SOL_SOCKET ||
                        h->cmsg_type != SCM_RIGHTS || h->cmsg_len != CMSG_LEN(sizeof(fds)))
                return -EBADMSG;
        memcpy(fds, CMSG_DATA(h), sizeof(fds));
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                c->streams[i].fd = fds[i];
        return output_spec_decode(data, (size_t) n, spec);
}

static int open_journal(int *ret)
{
        const struct sockaddr_un a = { .sun_family = AF_UNIX, .sun_path = JOURNAL_SOCKET };
        const int size = SEND_BUFFER;
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || connect(fd, (const struct sockaddr *) &a, sizeof(a)) < 0)
                return -errno;
        /* A wish: the usual size is enough for one record. */
        (void) setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
        *ret = fd;
        return 0;
}

static int collect(Collector *c)
{
        OutputSpec spec = {};
        int r = receive(&spec, c);

        if (r >= 0)
                r = open_journal(&c->journal_fd);
        if (r >= 0)
                r = collector_init(c, &spec);
        output_spec_done(&spec);
        if (r >= 0)
                r = output_confine();
        if (r >= 0)
                r = output_say(CHANNEL, OUTPUT_READY);
        return r < 0 ? r : collector_run(c);
}

int main(int argc, char *argv[])
{
        Collector c = { .channel_fd = CHANNEL, .journal_fd = -1, .streams = { { .fd = -1 }, { .fd = -1 } } };
        int type = 0;
        socklen_t n = sizeof(type);

        (void) argv;
        if (argc != 1 || getuid() == 0 || getsockopt(CHANNEL, SOL_SOCKET, SO_TYPE, &type, &n) < 0 ||
                        type != SOCK_SEQPACKET) {
                fputs("agentbox-output: started by PID 1 for agentboxd, never as root\n", stderr);
                return EXIT_FAILURE;
        }
        /* What is open ends with this process; freeing would be calls that it may not make any more. */
        _exit(collect(&c) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}
