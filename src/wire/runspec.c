/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>
#include <signal.h>

#include "wire/codec.h"
#include "wire/runspec.h"

/* The message, in this order (integers little endian, strings and lists as in codec.h):
 *
 *   u32 magic, argv, env, cwd, u8 tty, u8 copy_in
 *   u32 n, n times (u16 code, u8 jt, u8 jf, u32 k)
 *   u64 landlock_fs, landlock_write, u8 landlock_exec_written, u8 landlock_scope, u32 landlock_abi
 *   u32 n, n times (u32 resource, u64 max)
 *   u32 n, n times u32 recorded */

void runspec_done(RunSpec *s)
{
        strv_free(s->argv);
        strv_free(s->env);
        strv_free(s->landlock_write);
        free(s->cwd);
        free(s->filter);
        free(s->limits);
        free(s->recorded);
        *s = (RunSpec){};
}

/* The rules of the header, for what is sent and for what was received. */
static int runspec_check(const RunSpec *s)
{
        size_t n_argv = strv_length(s->argv);

        if (n_argv == 0 || !s->cwd || s->cwd[0] != '/' || !s->filter || s->n_filter == 0)
                return -EINVAL;
        STRV_FOREACH(i, s->env)
        if ((*i)[0] == '=' || !strchr(*i, '='))
                return -EINVAL;
        STRV_FOREACH(i, s->landlock_write)
        if (!path_is_normal(*i))
                return -EINVAL;
        for (uint32_t i = 0; i < s->n_limits; i++)
                if (s->limits[i].resource >= RUNSPEC_LIMITS_MAX)
                        return -EINVAL;
        if (s->n_limits > RUNSPEC_LIMITS_MAX || n_argv > RUNSPEC_ARGS_MAX ||
                        strv_length(s->env) > RUNSPEC_ARGS_MAX || s->n_filter > RUNSPEC_FILTER_MAX || s->n_recorded > RUNSPEC_RECORDED_MAX ||
                        strv_length(s->landlock_write) > RUNSPEC_PATHS_MAX || strlen(s->cwd) >= PATH_MAX)
                return -E2BIG;
        return 0;
}

int runspec_encode(const RunSpec *s, Buf *out)
{
        int r = runspec_check(s);

        if (r < 0)
                return r;
        buf_u32(out, RUNSPEC_MAGIC);
        buf_strv(out, s->argv);
        buf_strv(out, s->env);
        buf_blob(out, s->cwd, strlen(s->cwd));
        buf_u8(out, s->tty);
        buf_u8(out, s->copy_in);
        buf_u32(out, s->n_filter);
        for (uint32_t i = 0; i < s->n_filter; i++) {
                const struct sock_filter *f = &s->filter[i];

                buf_u32(out, (uint32_t) f->code | (uint32_t) f->jt << 16 | (uint32_t) f->jf << 24);
                buf_u32(out, f->k);
        }
        buf_u64(out, s->landlock_fs);
        buf_strv(out, s->landlock_write);
        buf_u8(out, s->landlock_exec_written);
        buf_u8(out, s->landlock_scope);
        buf_u32(out, s->landlock_abi);
        buf_u32(out, s->n_limits);
        for (uint32_t i = 0; i < s->n_limits; i++) {
                buf_u32(out, s->limits[i].resource);
                buf_u64(out, s->limits[i].max);
        }
        buf_u32(out, s->n_recorded);
        for (uint32_t i = 0; i < s->n_recorded; i++)
                buf_u32(out, s->recorded[i]);
        if (out->error == 0 && out->size > RUNSPEC_SIZE_MAX)
                out->error = -E2BIG;
        return out->error;
}

static void read_filter(Reader *r, RunSpec *s)
{
        uint32_t n = read_count(r, RUNSPEC_FILTER_MAX, 2 * sizeof(uint32_t));

        if (n == 0)
                return;
        s->filter = calloc(n, sizeof(*s->filter));
        if (!s->filter) {
                r->error = -ENOMEM;
                return;
        }
        s->n_filter = n;
        for (uint32_t i = 0; i < n; i++) {
                uint32_t head = read_u32(r);

                s->filter[i] = (struct sock_filter){
                        .code = (uint16_t) head,
                        .jt = (uint8_t) (head >> 16),
                        .jf = (uint8_t) (head >> 24),
                        .k = read_u32(r),
                };
        }
}

static void read_limits(Reader *r, RunSpec *s)
{
        uint32_t n = read_count(r, RUNSPEC_LIMITS_MAX, sizeof(uint32_t) + sizeof(uint64_t));

        if (n == 0)
                return;
        s->limits = calloc(n, sizeof(*s->limits));
        if (!s->limits) {
                r->error = -ENOMEM;
                return;
        }
        s->n_limits = n;
        for (uint32_t i = 0; i < n; i++) {
                s->limits[i].resource = read_u32(r);
                s->limits[i].max = read_u64(r);
        }
}

static void read_recorded(Reader *r, RunSpec *s)
{
        uint32_t n = read_count(r, RUNSPEC_RECORDED_MAX, sizeof(uint32_t));

        if (n == 0)
                return;
        s->recorded = calloc(n, sizeof(*s->recorded));
        if (!s->recorded) {
                r->error = -ENOMEM;
                return;
        }
        s->n_recorded = n;
        for (uint32_t i = 0; i < n; i++)
                s->recorded[i] = read_u32(r);
}

int runspec_decode(const void *p, size_t n, RunSpec *ret)
{
        Reader reader = { .data = p, .size = n };
        _cleanup_(runspec_done) RunSpec s = {};
        int r;

        if (n > RUNSPEC_SIZE_MAX || read_u32(&reader) != RUNSPEC_MAGIC)
                return -EBADMSG;
        s.argv = read_strv(&reader, RUNSPEC_ARGS_MAX, RUNSPEC_SIZE_MAX);
        s.env = read_strv(&reader, RUNSPEC_ARGS_MAX, RUNSPEC_SIZE_MAX);
        s.cwd = read_string(&reader, PATH_MAX - 1);
        s.tty = read_bool(&reader);
        s.copy_in = read_bool(&reader);
        read_filter(&reader, &s);
        s.landlock_fs = read_u64(&reader);
        s.landlock_write = read_strv(&reader, RUNSPEC_PATHS_MAX, PATH_MAX - 1);
        s.landlock_exec_written = read_bool(&reader);
        s.landlock_scope = read_bool(&reader);
        s.landlock_abi = read_u32(&reader);
        read_limits(&reader, &s);
        read_recorded(&reader, &s);
        r = read_end(&reader);
        if (r < 0)
                return r;
        if (runspec_check(&s) < 0)
                return -EBADMSG;
        *ret = s;
        s = (RunSpec){};
        return 0;
}

int scope_start_encode(const char *workspace, Buf *out)
{
        if (!path_is_normal(workspace) || strlen(workspace) >= SCOPE_START_SIZE_MAX - 64)
                return -EINVAL;
        buf_u32(out, SCOPE_START_MAGIC);
        return buf_blob(out, workspace, strlen(workspace));
}

int scope_start_decode(const void *p, size_t n, char **ret_workspace)
{
        Reader reader = { .data = p, .size = n };
        _cleanup_free_ char *workspace = NULL;
        int r;

        if (read_u32(&reader) != SCOPE_START_MAGIC)
                return -EBADMSG;
        workspace = read_string(&reader, SCOPE_START_SIZE_MAX);
        r = read_end(&reader);
        if (r < 0)
                return r;
        if (!path_is_normal(workspace))
                return -EBADMSG;
        *ret_workspace = TAKE_PTR(workspace);
        return 0;
}

static const char *const exec_stage_names[_EXEC_STAGE_MAX] = {
        [EXEC_STAGE_ATTEST] = "attest",
        [EXEC_STAGE_RECEIVE] = "receive",
        [EXEC_STAGE_STDIO] = "stdio",
        [EXEC_STAGE_TTY] = "tty",
        [EXEC_STAGE_CWD] = "cwd",
        [EXEC_STAGE_LIMITS] = "limits",
        [EXEC_STAGE_CAPABILITIES] = "capabilities",
        [EXEC_STAGE_LANDLOCK] = "landlock",
        [EXEC_STAGE_SECCOMP] = "seccomp",
        [EXEC_STAGE_UNPACK] = "unpack",
        [EXEC_STAGE_EXECVE] = "execve",
};

const char *exec_stage_to_string(ExecStage stage)
{
        return (unsigned) stage < _EXEC_STAGE_MAX ? exec_stage_names[stage] : "unknown";
}

int exec_failure_encode(const ExecFailure *f, Buf *out)
{
        if ((unsigned) f->stage >= _EXEC_STAGE_MAX || f->error <= 0)
                return -EINVAL;
        buf_u32(out, EXEC_FAILURE_MAGIC);
        buf_u32(out, (uint32_t) f->stage);
        return buf_u32(out, (uint32_t) f->error);
}

int exec_failure_decode(const void *p, size_t n, ExecFailure *ret)
{
        Reader reader = { .data = p, .size = n };
        uint32_t magic = read_u32(&reader), stage = read_u32(&reader), error = read_u32(&reader);

        /* 4095: the kernel's errors end there, and strerror() callers need not mind stranger values. */
        if (read_end(&reader) < 0 || magic != EXEC_FAILURE_MAGIC || stage >= _EXEC_STAGE_MAX || error == 0 ||
                        error > 4095)
                return -EBADMSG;
        *ret = (ExecFailure){ .stage = (ExecStage) stage, .error = (int) error };
        return 0;
}

int exec_copied_encode(const ExecCopied *c, Buf *out)
{
        buf_u32(out, EXEC_COPIED_MAGIC);
        buf_u64(out, c->files);
        buf_u64(out, c->bytes);
        return buf_u64(out, c->left);
}

int exec_copied_decode(const void *p, size_t n, ExecCopied *ret)
{
        Reader reader = { .data = p, .size = n };
        uint32_t magic = read_u32(&reader);
        ExecCopied c = { .files = read_u64(&reader) };

        c.bytes = read_u64(&reader);
        c.left = read_u64(&reader);
        if (read_end(&reader) < 0 || magic != EXEC_COPIED_MAGIC)
                return -EBADMSG;
        *ret = c;
        return 0;
}

#define SIGNAL_MAX 64 /* of the kernel's */

static bool ended_is_valid(uint32_t code, uint32_t status)
{
        if (code == CLD_EXITED)
                return status <= 255;
        return (code == CLD_KILLED || code == CLD_DUMPED) && status >= 1 && status <= SIGNAL_MAX;
}

int exec_ended_encode(const ExecEnded *e, Buf *out)
{
        if (!ended_is_valid((uint32_t) e->code, (uint32_t) e->status))
                return -EINVAL;
        buf_u32(out, EXEC_ENDED_MAGIC);
        buf_u32(out, (uint32_t) e->code);
        return buf_u32(out, (uint32_t) e->status);
}

int exec_ended_decode(const void *p, size_t n, ExecEnded *ret)
{
        Reader reader = { .data = p, .size = n };
        uint32_t magic = read_u32(&reader), code = read_u32(&reader), status = read_u32(&reader);

        if (read_end(&reader) < 0 || magic != EXEC_ENDED_MAGIC || !ended_is_valid(code, status))
                return -EBADMSG;
        *ret = (ExecEnded){ .code = (int) code, .status = (int) status };
        return 0;
}

int exec_ended_exit_status(const ExecEnded *e)
{
        return e->code == CLD_EXITED ? e->status : 128 + e->status;
}

int exec_failure_exit_status(const ExecFailure *f)
{
        if (f->stage != EXEC_STAGE_EXECVE)
                return EXEC_EXIT_FAILED;
        return f->error == ENOENT ? EXEC_EXIT_NOT_FOUND : EXEC_EXIT_NOT_RUNNABLE;
}
