/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <assert.h>
#include <errno.h>

#include "wire/codec.h"
#include "wire/packet.h"
#include "wire/view.h"

static_assert(_VIEW_REQUEST_FDS <= PACKET_FDS_MAX && _VIEW_REPLY_FDS <= PACKET_FDS_MAX, "room for the descriptors");

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
