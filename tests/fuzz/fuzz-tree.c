/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/io.h"
#include "wire/tree-receive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ENTRIES_MAX 64u
#define BYTES_MAX (1u << 20)

/* Frames of every kind in any order, with names that try to lead elsewhere: what random bytes find too
 * seldom. Two bytes of the input make one. */
static const char *const names[] = { "", "a", "b", "..", ".", "a/b", "/etc", "../beside", "a\nb", "\xff",
        "l", "../../x", "a/..", "l/../..", "../a", "./a" };

static void put_number(Buf *b, uint64_t v, size_t n)
{
        for (size_t i = 0; i < n; i++)
                buf_u8(b, (uint8_t) (v >> (8 * i)));
}

static void put_frame(Buf *out, TreeType type, uint8_t choice)
{
        const char *name = names[choice % 16], *target = names[(choice >> 2) % 16];
        _cleanup_buf_ Buf b = {};

        if (type == TREE_TOP || type == TREE_DIR || type == TREE_FILE || type == TREE_LINK ||
                        type == TREE_LEFT)
                buf_blob(&b, name, strlen(name));
        if (type == TREE_LINK)
                buf_blob(&b, target, strlen(target));
        if (type == TREE_DIR || type == TREE_FILE) {
                put_number(&b, (uint32_t) choice * 4, 4);
                put_number(&b, choice & 1 ? UINT64_MAX - choice : (uint64_t) choice << 40, 8);
                put_number(&b, choice, 4);
        }
        if (type == TREE_DATA || type == TREE_EOF)
                put_number(&b, (uint64_t) (choice & 7) << (choice >> 3), 8);
        if (type == TREE_DATA)
                buf_append(&b, "content", choice % 8);
        if (type == TREE_LEFT)
                put_number(&b, choice >> 4, 4);
        if (type == TREE_END)
                for (int i = 0; i < 3; i++)
                        put_number(&b, (choice >> (2 * i)) & 3, 8);
        if (type == TREE_FAIL) {
                put_number(&b, choice & 7, 4);
                put_number(&b, choice >> 3, 4);
                buf_blob(&b, name, strlen(name));
        }
        put_number(out, type, 1);
        put_number(out, b.size, 4);
        buf_append(out, b.data, b.size);
}

static void compose(const uint8_t *data, size_t size, Buf *out)
{
        put_number(out, TREE_MAGIC, 4);
        for (size_t i = 0; i + 1 < size; i += 2)
                put_frame(out, data[i] % (_TREE_TYPE_MAX + 1), data[i + 1]);
        if (out->error < 0)
                abort();
}

/* One form only: what is taken is made again to the same bytes. Whether anything is. */
static bool take_apart(const uint8_t *data, size_t size)
{
        static TreeItem i;
        TreeDecoder d = {};
        TreeEncoder e = {};
        size_t at = 0, space;
        int r;

        if (tree_decoder_init(&d) < 0 || tree_encoder_init(&e) < 0)
                abort();
        memcpy(tree_decoder_space(&d, &space), data, size);
        tree_decoder_filled(&d, size);
        while ((r = tree_decode(&d, &i)) > 0) {
                if (strlen(d.state.path) >= PATH_MAX || d.state.depth > TREE_DEPTH_MAX)
                        abort();
                if (tree_encode(&e, &i) < 0 || at + e.size > size || memcmp(data + at, e.data, e.size) != 0)
                        abort();
                at += e.size;
                e.size = 0;
        }
        if (tree_decoder_finish(&d) == 0 && at != size)
                abort();
        tree_decoder_done(&d);
        tree_encoder_done(&e);
        return at > 0;
}

static int scratch_fd = -1;
static char scratch[] = "/dev/shm/agentbox-fuzz-tree-XXXXXX";

static void remove_scratch(void)
{
        (void) tree_remove(AT_FDCWD, scratch);
}

/* Beneath a directory of its own, with a canary beside it. */
static void make_scratch(void)
{
        if (!mkdtemp(scratch) || atexit(remove_scratch) != 0)
                abort();
        scratch_fd = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (scratch_fd < 0 || mkdirat(scratch_fd, "beside", 0755) < 0)
                abort();
}

static int place(void *userdata, const char *path, TreePlace *ret)
{
        return tree_place_beneath(*(int *) userdata, path, ret);
}

static void write_out(const uint8_t *data, size_t size, bool foreign)
{
        TreeReceiver r = TREE_RECEIVER_NONE;
        int fd = memfd_create("fuzz", MFD_CLOEXEC), top, k;
        struct stat st;

        if (fd < 0 || write_full(fd, data, size) < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
                        mkdirat(scratch_fd, "top", 0755) < 0 || tree_receiver_init(&r) < 0)
                abort();
        top = openat(scratch_fd, "top", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r.userdata = &top;
        r.place = place;
        r.merge = !foreign;
        r.foreign = r.beneath = foreign;
        r.max_entries = ENTRIES_MAX;
        r.max_bytes = BYTES_MAX;
        do
                k = tree_receive(&r, fd);
        while (k > 0);
        tree_receiver_done(&r);
        close(top);
        close(fd);
        /* Whatever came: nothing beside the top. */
        if (tree_remove(scratch_fd, "top") < 0 || unlinkat(scratch_fd, "beside", AT_REMOVEDIR) < 0 ||
                        fstat(scratch_fd, &st) < 0 || st.st_nlink != 2 ||
                        mkdirat(scratch_fd, "beside", 0755) < 0)
                abort();
}

static void try_stream(const uint8_t *data, size_t size)
{
        if (!take_apart(data, size))
                return;
        write_out(data, size, false);
        write_out(data, size, true);
}

/* What a run's shim reads from a client, and the client from the reader of a run's workspace. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_buf_ Buf b = {};

        if (scratch_fd < 0)
                make_scratch();
        try_stream(data, size);
        compose(data, size, &b);
        try_stream(b.data, b.size);
        return 0;
}
