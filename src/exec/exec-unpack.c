/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include "exec/exec.h"
#include "wire/tree-receive.h"

/* What the caller sends becomes files of the run's uid. Nobody else is in the workspace yet: no other
 * process has this uid, and what lies there this stream has brought. */

static int place(void *userdata, const char *path, TreePlace *ret)
{
        return tree_place_beneath(*(const int *) userdata, path, ret);
}

/* Whether the pipe blocks is up to whoever holds it, too. */
static int receive_all(TreeReceiver *r, int fd)
{
        int k;

        do {
                k = tree_receive(r, fd);
                if (k == -EAGAIN) {
                        struct pollfd p = { .fd = fd, .events = POLLIN };

                        k = poll(&p, 1, -1) < 0 && errno != EINTR ? -errno : 1;
                }
        } while (k > 0);
        return k;
}

static int unpack(int workspace, int fd, ExecCopied *ret)
{
        _cleanup_(tree_receiver_done) TreeReceiver r = TREE_RECEIVER_NONE;
        int k = tree_receiver_init(&r);

        r.userdata = &workspace;
        r.place = place;
        r.merge = true;
        if (k >= 0)
                k = receive_all(&r, fd);
        if (k < 0)
                return k;
        *ret = (ExecCopied){
                .files = r.decoder.state.entries,
                .bytes = r.decoder.state.bytes,
                .left = r.decoder.state.left,
        };
        return 0;
}

int exec_unpack(const char *workspace, int fd, ExecCopied *ret)
{
        _cleanup_close_ int dir = open(workspace, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        /* A file over FileSize= is an error to be told of, and so is a broker that went away. */
        static const int signals[] = { SIGXFSZ, SIGPIPE };
        int k;

        if (dir < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(signals); i++)
                if (signal(signals[i], SIG_IGN) == SIG_ERR)
                        return -errno;
        k = unpack(dir, fd, ret);
        for (size_t i = 0; i < ELEMENTSOF(signals); i++)
                if (signal(signals[i], SIG_DFL) == SIG_ERR)
                        return -errno;
        return k;
}
