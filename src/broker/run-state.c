/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>

#include "base/io.h"
#include "base/strv.h"
#include "broker/run-state.h"
#include "policy/policy.h"

#define STATE_MAGIC 0x38525341u /* "ASR8" */
#define STATE_SIZE_MAX (1024u * 1024)
#define STATE_STRING_MAX (64u * 1024)
#define STATE_LIST_MAX 256u

/* The message: u32 magic, u8 phase, then these strings, numbers, and the lists of promises, of what is to be
 * copied out and of decoys. */
static const size_t state_strings[] = {
        offsetof(RunState, id),
        offsetof(RunState, name),
        offsetof(RunState, policy),
        offsetof(RunState, digest),
        offsetof(RunState, command),
        offsetof(RunState, client),
        offsetof(RunState, bus),
        offsetof(RunState, invocation_id),
        offsetof(RunState, control_group),
        offsetof(RunState, unit_result),
};
static const size_t state_u32[] = { offsetof(RunState, caller_uid), offsetof(RunState, uid),
        offsetof(RunState, gid), offsetof(RunState, command_pid), offsetof(RunState, init_pid), offsetof(RunState, exec_main_code),
        offsetof(RunState, exec_main_status), offsetof(RunState, kill_reason) };
static const size_t state_u64[] = {
        offsetof(RunState, started),
        offsetof(RunState, started_monotonic),
        offsetof(RunState, memory_max),
        offsetof(RunState, runtime_usec),
        offsetof(RunState, output_max),
        offsetof(RunState, copy_bytes),
        offsetof(RunState, copy_files),
        offsetof(RunState, exec_main_exit),
        offsetof(RunState, exec_main_exit_monotonic),
        offsetof(RunState, on_tripwire),
        offsetof(RunState, metadata_on_record),
};

static char **string_at(RunState *s, size_t i)
{
        return (char **) ((char *) s + state_strings[i]);
}

void run_state_done(RunState *s)
{
        for (size_t i = 0; i < ELEMENTSOF(state_strings); i++)
                free(*string_at(s, i));
        strv_free(s->verified);
        strv_free(s->copy_paths);
        strv_free(s->decoys);
        *s = (RunState){};
}

static void write_list(Buf *out, char *const *l)
{
        buf_u32(out, (uint32_t) strv_length(l));
        STRV_FOREACH(i, l)
                buf_blob(out, *i, strlen(*i));
}

int run_state_encode(const RunState *s, Buf *out)
{
        buf_u32(out, STATE_MAGIC);
        buf_u8(out, (uint8_t) s->phase);
        for (size_t i = 0; i < ELEMENTSOF(state_strings); i++) {
                const char *v = *string_at((RunState *) s, i);

                buf_blob(out, v ? v : "", v ? strlen(v) : 0);
        }
        for (size_t i = 0; i < ELEMENTSOF(state_u32); i++)
                buf_u32(out, *(const uint32_t *) ((const char *) s + state_u32[i]));
        for (size_t i = 0; i < ELEMENTSOF(state_u64); i++)
                buf_u64(out, *(const uint64_t *) ((const char *) s + state_u64[i]));
        buf_u8(out, s->detached);
        buf_u8(out, s->scope);
        buf_u8(out, s->filtered);
        buf_u8(out, s->client_gone);
        write_list(out, s->verified);
        write_list(out, s->copy_paths);
        write_list(out, s->decoys);
        return out->error;
}

static int read_list(Reader *r, char ***ret)
{
        uint32_t n = read_u32(r);

        if (n > STATE_LIST_MAX)
                return -EBADMSG;
        for (uint32_t i = 0; i < n; i++) {
                char *s = read_string(r, STATE_STRING_MAX);

                if (!s)
                        return r->error;
                if (strv_push(ret, s) < 0)
                        return -ENOMEM;
        }
        return 0;
}

int run_state_decode(const void *p, size_t n, RunState *ret)
{
        _cleanup_(run_state_done) RunState s = {};
        Reader r = { .data = p, .size = n };
        uint8_t phase, detached, scope, filtered, client_gone;
        int k;

        if (read_u32(&r) != STATE_MAGIC)
                return -EBADMSG;
        phase = read_u8(&r);
        for (size_t i = 0; i < ELEMENTSOF(state_strings); i++)
                *string_at(&s, i) = read_string(&r, STATE_STRING_MAX);
        for (size_t i = 0; i < ELEMENTSOF(state_u32); i++)
                *(uint32_t *) ((char *) &s + state_u32[i]) = read_u32(&r);
        for (size_t i = 0; i < ELEMENTSOF(state_u64); i++)
                *(uint64_t *) ((char *) &s + state_u64[i]) = read_u64(&r);
        detached = read_u8(&r);
        scope = read_u8(&r);
        filtered = read_u8(&r);
        client_gone = read_u8(&r);
        k = read_list(&r, &s.verified);
        if (k >= 0)
                k = read_list(&r, &s.copy_paths);
        if (k >= 0)
                k = read_list(&r, &s.decoys);
        if (k >= 0)
                k = read_end(&r);
        if (k < 0)
                return k;
        if (phase >= _STATE_PHASE_MAX || s.on_tripwire >= _ON_TRIPWIRE_MAX || detached > 1 || scope > 1 || filtered > 1 ||
                        client_gone > 1)
                return -EBADMSG;
        s.phase = phase;
        s.detached = detached;
        s.scope = scope;
        s.filtered = filtered;
        s.client_gone = client_gone;
        *ret = s;
        s = (RunState){};
        return 0;
}

int run_state_write(int dir_fd, const RunState *s)
{
        _cleanup_buf_ Buf b = {};
        int r = run_state_encode(s, &b);

        if (r < 0)
                return r;
        (void) unlinkat(dir_fd, "state.new", 0);
        r = write_new_file_at(dir_fd, "state.new", b.data, b.size, 0600);
        if (r < 0)
                return r;
        return renameat(dir_fd, "state.new", dir_fd, "state") < 0 ? -errno : 0;
}

int run_state_read(int dir_fd, RunState *ret)
{
        _cleanup_free_ char *data = NULL;
        size_t n;
        int r = read_file_at(dir_fd, "state", STATE_SIZE_MAX, &data, &n);

        return r < 0 ? r : run_state_decode(data, n, ret);
}
