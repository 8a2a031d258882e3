/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>

#include "wire/codec.h"
#include "wire/copyout.h"

/* The spec: u32 magic, uid, gid, u64 max_entries, max_bytes, u8 has_view, paths. The report: u32 magic, outcome, error,
 * u64 entries, bytes, left. */

void copyout_spec_done(CopyoutSpec *s)
{
        strv_free(s->paths);
        *s = (CopyoutSpec){};
}

static int check(const CopyoutSpec *s)
{
        size_t n = strv_length(s->paths);

        if (s->uid == 0 || s->uid == (uid_t) -1 || s->gid == (gid_t) -1 || n == 0)
                return -EINVAL;
        if (n > COPYOUT_PATHS_MAX)
                return -E2BIG;
        STRV_FOREACH(i, s->paths)
                if (!tree_path_is_valid(*i))
                        return -EINVAL;
        return 0;
}

int copyout_spec_encode(const CopyoutSpec *s, Buf *out)
{
        int r = check(s);

        if (r < 0)
                return r;
        buf_u32(out, COPYOUT_SPEC_MAGIC);
        buf_u32(out, s->uid);
        buf_u32(out, s->gid);
        buf_u64(out, s->max_entries);
        buf_u64(out, s->max_bytes);
        buf_u8(out, s->has_view);
        buf_strv(out, s->paths);
        if (out->error == 0 && out->size > COPYOUT_SPEC_SIZE_MAX)
                out->error = -E2BIG;
        return out->error;
}

int copyout_spec_decode(const void *p, size_t n, CopyoutSpec *ret)
{
        Reader reader = { .data = p, .size = n };
        _cleanup_(copyout_spec_done) CopyoutSpec s = {};
        int r;

        if (n > COPYOUT_SPEC_SIZE_MAX || read_u32(&reader) != COPYOUT_SPEC_MAGIC)
                return -EBADMSG;
        s.uid = read_u32(&reader);
        s.gid = read_u32(&reader);
        s.max_entries = read_u64(&reader);
        s.max_bytes = read_u64(&reader);
        s.has_view = read_bool(&reader);
        s.paths = read_strv(&reader, COPYOUT_PATHS_MAX, PATH_MAX - 1);
        r = read_end(&reader);
        if (r < 0)
                return r;
        if (check(&s) < 0)
                return -EBADMSG;
        *ret = s;
        s = (CopyoutSpec){};
        return 0;
}

static bool has_error(CopyoutOutcome outcome)
{
        return outcome == COPYOUT_BROKEN || outcome == COPYOUT_CONFINED;
}

int copyout_report_encode(const CopyoutReport *r, Buf *out)
{
        if ((unsigned) r->outcome >= _COPYOUT_OUTCOME_MAX || (r->error > 0) != has_error(r->outcome) ||
                        r->error < 0)
                return -EINVAL;
        buf_u32(out, COPYOUT_REPORT_MAGIC);
        buf_u32(out, (uint32_t) r->outcome);
        buf_u32(out, (uint32_t) r->error);
        buf_u64(out, r->entries);
        buf_u64(out, r->bytes);
        return buf_u64(out, r->left);
}

int copyout_report_decode(const void *p, size_t n, CopyoutReport *ret)
{
        Reader reader = { .data = p, .size = n };
        uint32_t magic = read_u32(&reader), outcome = read_u32(&reader), error = read_u32(&reader);
        CopyoutReport r = { .entries = read_u64(&reader) };

        r.bytes = read_u64(&reader);
        r.left = read_u64(&reader);
        if (read_end(&reader) < 0 || magic != COPYOUT_REPORT_MAGIC || outcome >= _COPYOUT_OUTCOME_MAX ||
                        error > 4095 || (error > 0) != has_error((CopyoutOutcome) outcome))
                return -EBADMSG;
        r.outcome = (CopyoutOutcome) outcome;
        r.error = (int) error;
        *ret = r;
        return 0;
}
