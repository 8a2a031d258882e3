/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/escape.h"
#include "broker/run-disk.h"
#include "broker/run.h"
#include "broker/workspace-disk.h"
#include "wire/bus-iface.h"
#include "wire/disk.h"
#include "wire/packet.h"

#define KEY "WorkspaceStore=disk"

RunDisk *run_disk_free(RunDisk *d)
{
        if (!d)
                return NULL;
        sd_event_source_disable_unref(d->source);
        closep(&d->socket_fd);
        free(d);
        return NULL;
}

bool run_disk_is_awaited(const Run *r)
{
        return r->disk && !r->disk->is_there;
}

/* ---- the answer */

static void refuse(Run *r, const DiskReply *reply)
{
        _cleanup_free_ char *shown = escape_for_display(reply->text, strlen(reply->text), DISK_TEXT_MAX);

        run_refuse(r, reply->error == EOPNOTSUPP ? AGENTBOX_ERROR_NOT_ENFORCEABLE : AGENTBOX_ERROR_START_FAILED, KEY ": %s",
                        shown ?: "out of memory");
}

static void take(Run *r, int fd)
{
        _cleanup_error_ Error *e = NULL;
        int k = workspace_disk_look(fd, r->peer.pid, run_workspace(r), &r->disk->seen, &e);

        if (k < 0) {
                run_refuse(r, AGENTBOX_ERROR_START_FAILED, KEY ": %s", error_message(e, k));
                return;
        }
        r->disk->is_there = true;
        run_advance(r);
}

/* Nobody but the run's mounts holds it when this returns: it ends with them. */
static int on_reply(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        Run *r = userdata;
        uint8_t message[DISK_MESSAGE_MAX];
        _cleanup_(disk_reply_done) DiskReply reply = {};
        _cleanup_close_ int disk_fd = -1;
        ssize_t n = packet_receive(fd, MSG_DONTWAIT, message, sizeof(message), &disk_fd, 1);
        int k = n < 0 ? (int) n : n == 0 ? -ECONNRESET : disk_reply_decode(message, (size_t) n, &reply);

        if (k == -EAGAIN)
                return 0;
        r->disk->source = sd_event_source_disable_unref(r->disk->source);
        if (k >= 0 && reply.error == 0 && (disk_fd < 0 || !r->disk->has_place))
                k = -EBADMSG;
        if (r->phase != RUN_STARTING)
                return 0;
        if (k < 0)
                run_refuse(r, AGENTBOX_ERROR_START_FAILED, KEY ": agentbox-disk, which was to make it, %s",
                                k == -ECONNRESET ? "ended without an answer: see \"journalctl -u 'agentbox-disk@*'\""
                                                 : "gave no right answer");
        else if (reply.error != 0)
                refuse(r, &reply);
        else
                take(r, disk_fd);
        return 0;
}

/* ---- the question */

static int send_request(Run *r)
{
        _cleanup_buf_ Buf message = {};
        int k = disk_request_encode(&(DiskRequest){
                                                    .run = r->id,
                                                    .size = policy_u64(r->policy, FILES_WORKSPACE_SIZE),
                                                    .inodes = policy_u64(r->policy, FILES_WORKSPACE_INODES),
                                                    .exec = policy_u64(r->policy, SYSCALLS_PROFILE) != FILTER_PROFILE_STRICT,
                                    },
                        &message);

        return k < 0 ? k : packet_send(r->disk->socket_fd, &message, NULL, 0);
}

int run_disk_prepare(Run *r, Error **reterr)
{
        int k;

        if (policy_u64(r->policy, FILES_WORKSPACE_STORE) != STORE_DISK)
                return 0;
        r->disk = calloc(1, sizeof(*r->disk));
        if (!r->disk)
                return error_set(reterr, -ENOMEM, "out of memory");
        k = r->disk->socket_fd = packet_connect(DISK_SOCKET);
        if (k < 0)
                return error_set(reterr, k, KEY ": agentbox-disk.socket cannot be reached: %s", strerror(-k));
        k = send_request(r);
        if (k >= 0)
                k = sd_event_add_io(r->manager->event, &r->disk->source, r->disk->socket_fd, EPOLLIN, on_reply, r);
        return k < 0 ? error_set(reterr, k, KEY ": it cannot be asked for: %s", strerror(-k)) : 0;
}

int run_disk_begin(Run *r, Error **reterr)
{
        _cleanup_buf_ Buf message = {};
        _cleanup_close_ int mounts = -1;
        int k;

        if (r->disk->has_place) /* it was sent */
                return 0;
        k = disk_place_encode(&(DiskPlace){ .workspace = (char *) run_workspace(r) }, &message);
        if (k >= 0)
                k = mounts = run_open_mounts(r);
        if (k >= 0)
                k = packet_send(r->disk->socket_fd, &message, &mounts, 1);
        if (k == -EPIPE) /* it has answered already, and on_reply() is next */
                k = 0;
        if (k < 0)
                return error_set(reterr, k, KEY ": it cannot be mounted in the run: %s", strerror(-k));
        r->disk->has_place = true;
        return 0;
}
