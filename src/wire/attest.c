/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <assert.h>
#include <errno.h>

#include "wire/attest.h"
#include "wire/codec.h"

const char *const attest_ns_names[_ATTEST_NS_MAX] = {
        [ATTEST_NS_MNT] = "mnt",
        [ATTEST_NS_NET] = "net",
        [ATTEST_NS_PID] = "pid",
        [ATTEST_NS_USER] = "user",
        [ATTEST_NS_UTS] = "uts",
        [ATTEST_NS_IPC] = "ipc",
        [ATTEST_NS_CGROUP] = "cgroup",
};

const char *const attest_probe_names[_PROBE_MAX] = {
        [PROBE_METADATA_SEND] = "metadata-send",
        [PROBE_ELSEWHERE_SEND] = "elsewhere-send",
        [PROBE_LOOPBACK] = "loopback",
        [PROBE_WRITE_ROOT] = "write-root",
        [PROBE_WRITE_USR] = "write-usr",
        [PROBE_WRITE_ETC] = "write-etc",
        [PROBE_WRITE_WORKSPACE] = "write-workspace",
        [PROBE_WRITE_TMP] = "write-tmp",
        [PROBE_WRITE_SHM] = "write-shm",
        [PROBE_OPEN_RUN_SYSTEMD] = "open-run-systemd",
        [PROBE_OPEN_PROC_1] = "open-proc-1",
        [PROBE_OPEN_KMSG] = "open-kmsg",
        [PROBE_OPEN_PTMX] = "open-ptmx",
        [PROBE_OPEN_SYS] = "open-sys",
        [PROBE_ABSTRACT_UNIX] = "abstract-unix",
        [PROBE_UNSHARE_USER] = "unshare-user",
        [PROBE_MOUNT] = "mount",
        [PROBE_SETUID_0] = "setuid-0",
        [PROBE_MPROTECT_EXEC] = "mprotect-exec",
};

const char *const attest_fs_paths[_ATTEST_FS_MAX] = {
        [ATTEST_FS_ROOT] = "/",
        [ATTEST_FS_USR] = "/usr",
        [ATTEST_FS_ETC] = "/etc",
        [ATTEST_FS_WORKSPACE] = "/workspace",
        [ATTEST_FS_TMP] = "/tmp",
        [ATTEST_FS_VAR_TMP] = "/var/tmp",
        [ATTEST_FS_SHM] = "/dev/shm",
        [ATTEST_FS_DEV] = "/dev",
        [ATTEST_FS_PROC] = "/proc",
        [ATTEST_FS_SYS] = "/sys",
        [ATTEST_FS_RUN] = "/run",
};

/* The plain fields, once for both directions, in the order of the message. An array carries its count, so
 * that two sides that were built with different lists of probes or namespaces do not understand each other
 * instead of misunderstanding. */
typedef enum FieldType { FIELD_BOOL, FIELD_32, FIELD_64, FIELD_TEXT } FieldType;
typedef struct Field {
        FieldType type;
        size_t offset;
        uint32_t count;
} Field;

#define FIELD(t, name)                                                    \
        {                                                                 \
                .type = (t), .offset = offsetof(Attest, name), .count = 1 \
        }
#define FIELD_ARRAY(t, name)                                                                                \
        {                                                                                                   \
                .type = (t), .offset = offsetof(Attest, name), .count = ELEMENTSOF(((Attest *) NULL)->name) \
        }

static const Field fields[] = {
        FIELD(FIELD_32, pid),
        FIELD_ARRAY(FIELD_32, uid),
        FIELD_ARRAY(FIELD_32, gid),
        FIELD(FIELD_64, cap_inheritable),
        FIELD(FIELD_64, cap_permitted),
        FIELD(FIELD_64, cap_effective),
        FIELD(FIELD_64, cap_bounding),
        FIELD(FIELD_64, cap_ambient),
        FIELD(FIELD_BOOL, no_new_privs),
        FIELD(FIELD_32, securebits),
        FIELD(FIELD_32, seccomp_mode),
        FIELD(FIELD_32, seccomp_filters),
        FIELD(FIELD_32, dumpable),
        FIELD_ARRAY(FIELD_64, ns),
        FIELD(FIELD_TEXT, mountinfo),
        FIELD(FIELD_TEXT, cgroup),
        FIELD(FIELD_TEXT, netdev),
        FIELD(FIELD_TEXT, keyring),
        FIELD(FIELD_32, keyring_error),
        FIELD(FIELD_32, landlock_abi),
        FIELD(FIELD_32, oom_score_adj),
        FIELD(FIELD_32, umask),
        FIELD(FIELD_TEXT, hostname),
        FIELD_ARRAY(FIELD_32, probes),
};

static const size_t field_sizes[] = {
        [FIELD_BOOL] = sizeof(bool),
        [FIELD_32] = sizeof(uint32_t),
        [FIELD_64] = sizeof(uint64_t),
        [FIELD_TEXT] = sizeof(char *),
};

/* The arrays of structures: groups, fs, fds, limits, then environ_. Bytes of an element at the least, on the
 * wire. */
#define GROUP_SIZE 4u
#define FD_SIZE 8u
#define LIMIT_SIZE 20u
static_assert(sizeof(int32_t) == 4 && sizeof(pid_t) == 4, "signed fields travel as 32 bits");

void attest_done(Attest *a)
{
        for (uint32_t i = 0; i < a->n_fds; i++)
                free(a->fds[i].target);
        free(a->fds);
        free(a->limits);
        free(a->groups);
        strv_free(a->environ_);
        for (size_t i = 0; i < ELEMENTSOF(fields); i++)
                if (fields[i].type == FIELD_TEXT)
                        free(*(char **) ((char *) a + fields[i].offset));
        *a = (Attest){};
}

static void encode_one(Buf *out, FieldType type, const void *p)
{
        const char *text;

        switch (type) {
        case FIELD_BOOL:
                buf_u8(out, *(const bool *) p);
                break;
        case FIELD_32:
                buf_u32(out, *(const uint32_t *) p);
                break;
        case FIELD_64:
                buf_u64(out, *(const uint64_t *) p);
                break;
        case FIELD_TEXT:
                text = *(char *const *) p ?: "";
                if (strlen(text) > ATTEST_TEXT_MAX && out->error == 0)
                        out->error = -E2BIG;
                buf_blob(out, text, strlen(text));
                break;
        }
}

static void decode_one(Reader *r, FieldType type, void *p)
{
        switch (type) {
        case FIELD_BOOL:
                *(bool *) p = read_bool(r);
                break;
        case FIELD_32:
                *(uint32_t *) p = read_u32(r);
                break;
        case FIELD_64:
                *(uint64_t *) p = read_u64(r);
                break;
        case FIELD_TEXT:
                *(char **) p = read_string(r, ATTEST_TEXT_MAX);
                break;
        }
}

static void encode_lists(const Attest *a, Buf *out)
{
        buf_u32(out, a->n_groups);
        for (uint32_t i = 0; i < a->n_groups; i++)
                buf_u32(out, a->groups[i]);
        buf_u32(out, _ATTEST_FS_MAX);
        for (size_t i = 0; i < _ATTEST_FS_MAX; i++) {
                buf_u64(out, a->fs[i].type);
                buf_u64(out, a->fs[i].flags);
                buf_u64(out, a->fs[i].bytes);
                buf_u64(out, a->fs[i].inodes);
                buf_u32(out, (uint32_t) a->fs[i].error);
        }
        buf_u32(out, a->n_fds);
        for (uint32_t i = 0; i < a->n_fds; i++) {
                buf_u32(out, (uint32_t) a->fds[i].fd);
                buf_blob(out, a->fds[i].target, strlen(a->fds[i].target));
        }
        buf_u32(out, a->n_limits);
        for (uint32_t i = 0; i < a->n_limits; i++) {
                buf_u32(out, (uint32_t) a->limits[i].resource);
                buf_u64(out, a->limits[i].soft);
                buf_u64(out, a->limits[i].hard);
        }
        buf_strv(out, a->environ_);
}

static int check_bounds(const Attest *a)
{
        if (a->n_groups > ATTEST_LIST_MAX || a->n_fds > ATTEST_LIST_MAX || a->n_limits > ATTEST_LIST_MAX ||
                        strv_length(a->environ_) > ATTEST_LIST_MAX)
                return -E2BIG;
        for (uint32_t i = 0; i < a->n_fds; i++) {
                if (!a->fds[i].target)
                        return -EINVAL;
                if (strlen(a->fds[i].target) > ATTEST_NAME_MAX)
                        return -E2BIG;
        }
        STRV_FOREACH(i, a->environ_)
        if (strlen(*i) > ATTEST_NAME_MAX)
                return -E2BIG;
        return 0;
}

int attest_encode(const Attest *a, Buf *out)
{
        int r = check_bounds(a);

        if (r < 0)
                return r;
        buf_u32(out, ATTEST_MAGIC);
        for (size_t i = 0; i < ELEMENTSOF(fields); i++) {
                const Field *f = &fields[i];

                if (f->count > 1)
                        buf_u32(out, f->count);
                for (uint32_t k = 0; k < f->count; k++)
                        encode_one(out, f->type, (const char *) a + f->offset + k * field_sizes[f->type]);
        }
        encode_lists(a, out);
        if (out->error == 0 && out->size > ATTEST_SIZE_MAX)
                out->error = -E2BIG;
        return out->error;
}

/* An array of n elements where the reader has no error yet; NULL for n = 0. */
static void *decode_array(Reader *r, uint32_t n, size_t size)
{
        void *p = NULL;

        if (n > 0 && r->error == 0) {
                p = calloc(n, size);
                if (!p)
                        r->error = -ENOMEM;
        }
        return p;
}

static void decode_fds(Reader *r, Attest *a)
{
        uint32_t n = read_count(r, ATTEST_LIST_MAX, FD_SIZE);

        a->fds = decode_array(r, n, sizeof(*a->fds));
        for (uint32_t i = 0; a->fds && i < n; i++) {
                a->fds[i].fd = (int32_t) read_u32(r);
                a->fds[i].target = read_string(r, ATTEST_NAME_MAX);
                a->n_fds = i + 1;
        }
}

static void decode_lists(Reader *r, Attest *a)
{
        uint32_t n = read_count(r, ATTEST_LIST_MAX, GROUP_SIZE);

        a->groups = decode_array(r, n, sizeof(*a->groups));
        for (uint32_t i = 0; a->groups && i < n; i++)
                a->groups[i] = read_u32(r);
        a->n_groups = a->groups ? n : 0;

        if (read_u32(r) != _ATTEST_FS_MAX)
                r->error = -EBADMSG;
        for (size_t i = 0; i < _ATTEST_FS_MAX; i++) {
                a->fs[i].type = read_u64(r);
                a->fs[i].flags = read_u64(r);
                a->fs[i].bytes = read_u64(r);
                a->fs[i].inodes = read_u64(r);
                a->fs[i].error = (int32_t) read_u32(r);
        }
        decode_fds(r, a);

        n = read_count(r, ATTEST_LIST_MAX, LIMIT_SIZE);
        a->limits = decode_array(r, n, sizeof(*a->limits));
        for (uint32_t i = 0; a->limits && i < n; i++) {
                a->limits[i].resource = (int32_t) read_u32(r);
                a->limits[i].soft = read_u64(r);
                a->limits[i].hard = read_u64(r);
        }
        a->n_limits = a->limits ? n : 0;

        a->environ_ = read_strv(r, ATTEST_LIST_MAX, ATTEST_NAME_MAX);
}

int attest_decode(const void *p, size_t n, Attest *ret)
{
        Reader reader = { .data = p, .size = n };
        _cleanup_(attest_done) Attest a = {};
        int r;

        if (n > ATTEST_SIZE_MAX || read_u32(&reader) != ATTEST_MAGIC)
                return -EBADMSG;
        for (size_t i = 0; i < ELEMENTSOF(fields); i++) {
                const Field *f = &fields[i];

                if (f->count > 1 && read_u32(&reader) != f->count)
                        return -EBADMSG;
                for (uint32_t k = 0; k < f->count; k++)
                        decode_one(&reader, f->type, (char *) &a + f->offset + k * field_sizes[f->type]);
        }
        decode_lists(&reader, &a);
        r = read_end(&reader);
        if (r < 0)
                return r;
        *ret = a;
        a = (Attest){};
        return 0;
}
