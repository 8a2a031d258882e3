/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>

#include "wire/codec.h"
#include "wire/disk.h"

#define ERRNO_MAX 4095

void disk_request_done(DiskRequest *q)
{
        free(q->run);
        strv_free(q->living);
        *q = (DiskRequest){};
}

void disk_place_done(DiskPlace *p)
{
        free(p->workspace);
        *p = (DiskPlace){};
}

void disk_reply_done(DiskReply *r)
{
        free(r->text);
        strv_free(r->left);
        *r = (DiskReply){};
}

/* ---- what may be said */

static bool is_id(const char *s)
{
        size_t n = strspn(s, "0123456789abcdefghijklmnopqrstuvwxyz");

        return n > 0 && n <= DISK_RUN_MAX && !s[n];
}

static bool are_ids(char *const *l)
{
        STRV_FOREACH(i, l)
                if (!is_id(*i))
                        return false;
        return strv_length(l) <= DISK_LIVING_MAX;
}

static bool request_is_valid(const DiskRequest *q)
{
        bool is_trial = q->run && !*q->run;

        return q->run && (is_trial || is_id(q->run)) && q->size > 0 && q->inodes > 0 && are_ids(q->living) &&
               (is_trial || strv_length(q->living) == 0);
}

static bool place_is_valid(const DiskPlace *p)
{
        return p->workspace && path_is_normal(p->workspace) && !streq(p->workspace, "/");
}

static bool is_line(const char *s)
{
        for (; *s; s++)
                if ((unsigned char) *s < 0x20 || *s == 0x7f)
                        return false;
        return true;
}

static bool reply_is_valid(const DiskReply *r)
{
        return r->text && strlen(r->text) <= DISK_TEXT_MAX && is_line(r->text) && r->error >= 0 && r->error <= ERRNO_MAX &&
               (r->error == 0) == !*r->text && are_ids(r->left);
}

/* ---- codecs */

int disk_request_encode(const DiskRequest *q, Buf *out)
{
        if (!request_is_valid(q))
                return -EINVAL;
        buf_u32(out, DISK_REQUEST_MAGIC);
        buf_blob(out, q->run, strlen(q->run));
        buf_u64(out, q->size);
        buf_u64(out, q->inodes);
        buf_u8(out, q->exec);
        return buf_strv(out, q->living);
}

int disk_request_decode(const void *p, size_t n, DiskRequest *ret)
{
        Reader reader = { .data = p, .size = n };
        uint32_t magic = read_u32(&reader);
        DiskRequest q = { .run = read_string(&reader, DISK_RUN_MAX) };

        q.size = read_u64(&reader);
        q.inodes = read_u64(&reader);
        q.exec = read_bool(&reader);
        q.living = read_strv(&reader, DISK_LIVING_MAX, DISK_RUN_MAX);
        if (read_end(&reader) < 0 || magic != DISK_REQUEST_MAGIC || !request_is_valid(&q)) {
                disk_request_done(&q);
                return -EBADMSG;
        }
        *ret = q;
        return 0;
}

int disk_place_encode(const DiskPlace *p, Buf *out)
{
        if (!place_is_valid(p))
                return -EINVAL;
        buf_u32(out, DISK_PLACE_MAGIC);
        return buf_blob(out, p->workspace, strlen(p->workspace));
}

int disk_place_decode(const void *p, size_t n, DiskPlace *ret)
{
        Reader reader = { .data = p, .size = n };
        uint32_t magic = read_u32(&reader);
        DiskPlace place = { .workspace = read_string(&reader, PATH_MAX) };

        if (read_end(&reader) < 0 || magic != DISK_PLACE_MAGIC || !place_is_valid(&place)) {
                disk_place_done(&place);
                return -EBADMSG;
        }
        *ret = place;
        return 0;
}

int disk_reply_encode(const DiskReply *r, Buf *out)
{
        if (!reply_is_valid(r))
                return -EINVAL;
        buf_u32(out, DISK_REPLY_MAGIC);
        buf_u32(out, (uint32_t) r->error);
        buf_blob(out, r->text, strlen(r->text));
        return buf_strv(out, r->left);
}

int disk_reply_decode(const void *p, size_t n, DiskReply *ret)
{
        Reader reader = { .data = p, .size = n };
        uint32_t magic = read_u32(&reader), error = read_u32(&reader);
        DiskReply r = { .error = error <= ERRNO_MAX ? (int) error : -1, .text = read_string(&reader, DISK_TEXT_MAX) };

        r.left = read_strv(&reader, DISK_LIVING_MAX, DISK_RUN_MAX);
        if (read_end(&reader) < 0 || magic != DISK_REPLY_MAGIC || !reply_is_valid(&r)) {
                disk_reply_done(&r);
                return -EBADMSG;
        }
        *ret = r;
        return 0;
}
