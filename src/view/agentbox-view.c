/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* agentbox-view
 *
 * Makes one copy-on-write view: a directory of the host's, seen in a run's workspace through an overlay whose
 * upper layer is that workspace. The broker may not override file permissions, as whoever mounts an overlay
 * must; it connects to the socket that PID 1 holds, and PID 1 starts one of these for each connection, in a
 * unit of its own (agentbox-view@.service), in the host's mount namespace.
 *
 * uid
 *     root, with the capabilities of its unit. They stay with the overlay, too: it acts on its two layers as
 *     whoever mounted it, once the kernel has judged what the run itself may do by the owner, mode and access
 *     list of the file in the view
 *
 * descriptors
 *     0: the connection; 2: the journal
 *
 * trusts
 *     whoever is root at the other end; the tree is a hostile caller's, and is opened nowhere here
 *
 * must
 *     show as the run's own what is the caller's own, and nothing else: a run reads in a view what its caller
 *     owns, and what everybody may read. The right to come to the tree at all is the caller's own open
 *     descriptor to it, which the broker never makes from a name
 *
 * must not
 *     follow a name that a caller chose; leave the tree itself where the run could reach it; mount in the
 *     host's namespace; run on when it has answered
 *
 * Stages: those of wire/view.h.
 *
 * Why the caller's files become the run's own (an idmapped mount beneath the overlay): the run has a uid that
 * nobody else has. Without, it could neither read what only its caller may, nor change one file that its
 * caller may change. Groups are not mapped: what the caller may read as the member of a group alone stays
 * closed to the run. */

#include <errno.h>
#include <stdio.h>

#include "view/view.h"
#include "wire/packet.h"

static int receive(int fd, ViewRequest *ret, int ret_fds[_VIEW_REQUEST_FDS])
{
        uint8_t message[VIEW_MESSAGE_MAX];
        ssize_t n;
        int r = packet_check_root(fd);

        if (r < 0)
                return r;
        n = packet_receive(fd, 0, message, sizeof(message), ret_fds, _VIEW_REQUEST_FDS);
        if (n < 0)
                return (int) n;
        for (size_t i = 0; i < _VIEW_REQUEST_FDS; i++)
                if (ret_fds[i] < 0)
                        return -EBADMSG;
        return view_request_decode(message, (size_t) n, ret);
}

int main(int argc, char *argv[])
{
        int fds[_VIEW_REQUEST_FDS] = { -1, -1 }, results[_VIEW_REPLY_FDS] = { -1, -1 }, r;
        _cleanup_buf_ Buf answer = {};
        ViewStage stage = VIEW_REQUESTED;
        ViewRequest request;

        (void) argv;
        r = argc == 1 ? receive(STDIN_FILENO, &request, fds) : -EINVAL;
        if (r == -ENOTSOCK || r == -EINVAL) {
                fputs("agentbox-view: started by PID 1 for agentboxd, not by hand\n", stderr);
                return EXIT_FAILURE;
        }
        if (r >= 0)
                r = view_make(&request, fds, results, &stage);
        if (r >= 0)
                stage = VIEW_DONE;
        r = view_reply_encode(&(ViewReply){ .stage = stage, .error = r < 0 ? -r : 0 }, &answer);
        if (r >= 0)
                r = packet_send(STDIN_FILENO, &answer, results, stage == VIEW_DONE ? _VIEW_REPLY_FDS : 0);
        return r < 0 || stage != VIEW_DONE ? EXIT_FAILURE : EXIT_SUCCESS;
}
