/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/io.h"
#include "broker/run-view.h"
#include "broker/run.h"
#include "broker/view-source.h"
#include "wire/bus-iface.h"
#include "wire/packet.h"
#include "wire/view.h"

#define MOUNTINFO_MAX (4u << 20)

RunView *run_view_free(RunView *v)
{
        if (!v)
                return NULL;
        sd_event_source_disable_unref(v->source);
        closep(&v->socket_fd);
        closep(&v->tree_fd);
        closep(&v->changes_fd);
        closep(&v->merged_fd);
        free(v->path);
        free(v);
        return NULL;
}

int run_view_take(Run *r, Error **reterr)
{
        _cleanup_free_ char *path = NULL, *table = NULL;
        RunView *v;
        int k;

        if (r->request.view < 0)
                return 0;
        k = read_file("/proc/1/mountinfo", MOUNTINFO_MAX, &table, NULL);
        if (k < 0)
                return error_set(reterr, k, "--view: cannot read the mount table of the host: %s",
                                strerror(-k));
        k = view_source_check(r->request.view, table, r->policy, &path, reterr);
        if (k < 0)
                return error_prefix(reterr, k, "--view");
        v = calloc(1, sizeof(*v));
        if (!v)
                return error_set(reterr, -ENOMEM, "out of memory");
        *v = (RunView){
                .path = TAKE_PTR(path),
                .tree_fd = TAKE_FD(r->request.view),
                .socket_fd = -1,
                .changes_fd = -1,
                .merged_fd = -1,
        };
        r->view = v;
        return 0;
}

bool run_view_is_awaited(const Run *r)
{
        return r->view && !r->view->is_there;
}

/* ---- the answer */

static void refuse(Run *r, const ViewReply *reply)
{
        static const char *const stages[_VIEW_STAGE_MAX] = {
                [VIEW_REQUESTED] = "the request was not understood",
                [VIEW_CLONE] = "it cannot be mounted",
                [VIEW_OWNER] = "its files cannot be shown as the run's own",
                [VIEW_ENTER] = "the run's mounts cannot be entered",
                [VIEW_LAYERS] = "its layers cannot be made",
                [VIEW_BENEATH] = "what is mounted beneath it cannot be seen",
                [VIEW_OVERLAY] = "the overlay cannot be made",
        };
        static const struct {
                ViewStage stage;
                int error;
                const char *why;
        } rows[] = {
                { VIEW_CLONE, EINVAL, "it does not lie in the mount namespace of the host" },
                { VIEW_CLONE, EXDEV,
                                "where it lies something is mounted as \"unbindable\", and what that covers "
                                "might be seen" },
                { VIEW_BENEATH, EXDEV,
                                "something else is mounted in it, and what that covers would be seen; name "
                                "a directory beneath" },
                { VIEW_OWNER, EINVAL,
                                "this kernel cannot show the files of its file system as the run's own "
                                "(idmapped mounts)" },
        };
        const char *why = NULL;

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (rows[i].stage == reply->stage && rows[i].error == reply->error)
                        why = rows[i].why;
        if (why)
                run_refuse(r, AGENTBOX_ERROR_NOT_ENFORCEABLE, "--view %s: %s", r->view->path, why);
        else
                run_refuse(r, AGENTBOX_ERROR_START_FAILED, "--view %s: %s: %s", r->view->path,
                                stages[reply->stage], strerror(reply->error));
}

static int take_results(Run *r, const int fds[_VIEW_REPLY_FDS])
{
        bool on_disk = policy_u64(r->policy, FILES_WORKSPACE_STORE) == STORE_DISK;
        RunView *v = r->view;
        struct statfs fs;

        v->changes_fd = fds[VIEW_REPLY_CHANGES];
        v->merged_fd = fds[VIEW_REPLY_MERGED];
        if (v->changes_fd < 0 || v->merged_fd < 0)
                return -EBADMSG;
        if (fstatfs(v->changes_fd, &fs) < 0)
                return -errno;
        if (fs.f_type != (on_disk ? EXT4_SUPER_MAGIC : TMPFS_MAGIC))
                return -EMEDIUMTYPE;
        v->is_there = true;
        return 0;
}

static int on_reply(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Run *r = userdata;
        RunView *v = r->view;
        uint8_t message[VIEW_MESSAGE_MAX];
        int fds[_VIEW_REPLY_FDS];
        ViewReply reply;
        ssize_t n = packet_receive(fd, MSG_DONTWAIT, message, sizeof(message), fds, _VIEW_REPLY_FDS);
        int k = n < 0 ? (int) n : n == 0 ? -ECONNRESET : view_reply_decode(message, (size_t) n, &reply);

        if (k == -EAGAIN)
                return 0;
        v->source = sd_event_source_disable_unref(v->source);
        if (k >= 0 && reply.stage == VIEW_DONE)
                k = take_results(r, fds);
        else
                for (size_t i = 0; i < _VIEW_REPLY_FDS; i++)
                        closep(fds + i);
        if (r->phase != RUN_STARTING)
                return 0;
        if (k >= 0 && reply.stage != VIEW_DONE)
                refuse(r, &reply);
        else if (k < 0)
                run_refuse(r, AGENTBOX_ERROR_START_FAILED, "--view %s: whoever was to mount it %s", v->path,
                                k == -ECONNRESET ? "ended without an answer" : "gave no right answer");
        else
                run_advance(r);
        return 0;
}

/* ---- the question */

static int send_request(Run *r)
{
        RunView *v = r->view;
        ViewRequest request = { .uid = r->peer.uid, .gid = r->peer.gid, .caller = r->caller.uid };
        _cleanup_close_ int mounts = -1;
        _cleanup_buf_ Buf message = {};
        int k;

        snprintf(request.workspace, sizeof(request.workspace), "%s", run_workspace(r));
        k = view_request_encode(&request, &message);
        if (k < 0)
                return k;
        mounts = run_open_mounts(r);
        if (mounts < 0)
                return mounts;
        return packet_send(v->socket_fd, &message,
                        (int[_VIEW_REQUEST_FDS]){
                                        [VIEW_REQUEST_TREE] = v->tree_fd,
                                        [VIEW_REQUEST_MOUNTS] = mounts,
                        },
                        _VIEW_REQUEST_FDS);
}

int run_view_begin(Run *r, Error **reterr)
{
        RunView *v = r->view;
        int k;

        if (v->source) /* it was */
                return 0;
        k = v->socket_fd = packet_connect(VIEW_SOCKET);
        if (k < 0)
                return error_set(reterr, k, "--view: agentbox-view.socket cannot be reached: %s",
                                strerror(-k));
        k = send_request(r);
        if (k >= 0)
                k = sd_event_add_io(r->manager->event, &v->source, v->socket_fd, EPOLLIN, on_reply, r);
        if (k < 0)
                return error_set(reterr, k, "--view: cannot ask for it to be mounted: %s", strerror(-k));
        closep(&v->tree_fd);
        v->tree_fd = -1;
        return 0;
}
