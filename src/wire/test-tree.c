/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "wire/test-mutate.h"
#include "wire/tree.h"

#define A_LONG_NAME 300

static TreeItem item(TreeType type, const char *name)
{
        TreeItem i = { .type = type };

        snprintf(i.name, sizeof(i.name), "%s", name);
        return i;
}

static TreeItem node(TreeType type, const char *name, uint32_t mode)
{
        TreeItem i = item(type, name);

        i.mode = mode;
        i.mtime = -1;
        i.nsec = 999999999;
        return i;
}

static TreeItem link_item(const char *name, const char *target)
{
        TreeItem i = item(TREE_LINK, name);

        snprintf(i.target, sizeof(i.target), "%s", target);
        return i;
}

static TreeItem data_item(uint64_t offset, const char *text)
{
        return (TreeItem){
                .type = TREE_DATA, .offset = offset, .data = (const uint8_t *) text, .n_data = strlen(text)
        };
}

static TreeItem eof_item(uint64_t size)
{
        return (TreeItem){ .type = TREE_EOF, .size = size };
}

static TreeItem left_item(const char *name, uint32_t reason)
{
        TreeItem i = item(TREE_LEFT, name);

        i.reason = reason;
        return i;
}

static TreeItem fail_item(uint32_t reason, uint32_t error)
{
        TreeItem i = item(TREE_FAIL, "a\nb");

        i.reason = reason;
        i.error = error;
        return i;
}

static TreeItem end_item(uint64_t entries, uint64_t bytes, uint64_t left)
{
        return (TreeItem){ .type = TREE_END, .entries = entries, .bytes = bytes, .left = left };
}

/* Frames as they are, whatever the state thinks of them: what a hostile sender writes. */
typedef struct Raw {
        uint8_t data[1 << 16];
        size_t size;
} Raw;

static void raw_number(Raw *b, uint64_t v, size_t n)
{
        for (size_t i = 0; i < n; i++)
                b->data[b->size++] = (uint8_t) (v >> (8 * i));
}

static void raw_item(Raw *b, const TreeItem *i)
{
        TreeEncoder e;
        TreeState anything = { .depth = 1 };

        assert_int_equal(tree_encoder_init(&e), 0);
        e.size = 0;
        /* A state that takes it, so that its bytes are made. */
        if (i->type == TREE_DATA || i->type == TREE_EOF)
                anything.in_file = true;
        if (i->type == TREE_TOP || i->type == TREE_END)
                anything.depth = 0;
        if (i->type == TREE_END) {
                anything.entries = i->entries;
                anything.bytes = i->bytes;
                anything.left = i->left;
        }
        if (i->type != TREE_TOP && !*i->name)
                anything.wants_entry = true;
        if (i->type == TREE_END || i->type == TREE_UP || i->type == TREE_DATA || i->type == TREE_EOF || i->type == TREE_WHOLE)
                anything.wants_entry = false;
        anything.in_fresh = i->type == TREE_WHOLE;
        e.state = anything;
        assert_int_equal(tree_encode(&e, i), 0);
        memcpy(b->data + b->size, e.data, e.size);
        b->size += e.size;
        tree_encoder_done(&e);
}

/* Bytes fed in pieces of the given size. 0: the stream was whole. */
static int feed(const void *p, size_t n, size_t piece, size_t *ret_items)
{
        static TreeItem i;
        TreeDecoder d;
        size_t done = 0;
        int r = 0;

        *ret_items = 0;
        assert_int_equal(tree_decoder_init(&d), 0);
        while (done < n && r >= 0) {
                size_t space, k;
                uint8_t *to = tree_decoder_space(&d, &space);

                assert_true(space > 0);
                k = MIN2(MIN2(piece, n - done), space);
                memcpy(to, (const uint8_t *) p + done, k);
                tree_decoder_filled(&d, k);
                done += k;
                while ((r = tree_decode(&d, &i)) > 0)
                        (*ret_items)++;
        }
        if (r >= 0)
                r = tree_decoder_finish(&d);
        tree_decoder_done(&d);
        return r;
}

static int feed_all(const void *p, size_t n)
{
        size_t items;

        return feed(p, n, SIZE_MAX, &items);
}

static const char sample_data[] = "content";

/* Every type, and what is allowed at the edges. */
static size_t sample(TreeItem *l)
{
        size_t n = 0;

        l[n++] = item(TREE_TOP, "a/b");
        l[n++] = node(TREE_DIR, "", 0777);
        l[n++] = node(TREE_FILE, "f", 0);
        l[n++] = data_item(0, sample_data);
        l[n++] = data_item(4096, sample_data);
        l[n++] = eof_item(1 << 20);
        l[n++] = node(TREE_DIR, "name with\nnewline and \xff", 0700);
        l[n++] = item(TREE_WHOLE, "");
        l[n++] = link_item("l", "../f");
        l[n++] = left_item("dev", TREE_LEFT_DEVICE);
        l[n++] = left_item("gone", TREE_LEFT_WHITEOUT);
        l[n++] = item(TREE_UP, "");
        l[n++] = link_item("m", "./a//b/");
        l[n++] = item(TREE_UP, "");
        l[n++] = item(TREE_TOP, ".");
        l[n++] = left_item("", TREE_LEFT_MISSING);
        l[n++] = item(TREE_TOP, "x");
        l[n++] = node(TREE_FILE, "", 0644);
        l[n++] = eof_item(0);
        l[n++] = item(TREE_TOP, "y");
        l[n++] = left_item("", TREE_LEFT_UNCHANGED);
        l[n++] = end_item(6, 1 << 20, 4);
        return n;
}

static void encode_all(const TreeItem *l, size_t n, TreeEncoder *e)
{
        assert_int_equal(tree_encoder_init(e), 0);
        for (size_t i = 0; i < n; i++)
                assert_int_equal(tree_encode(e, l + i), 0);
}

static void test_round_trip(void **state)
{
        static TreeItem l[32], got;
        size_t n = sample(l), at = 0, space;
        TreeEncoder e;
        TreeDecoder d;

        encode_all(l, n, &e);
        assert_int_equal(tree_decoder_init(&d), 0);
        memcpy(tree_decoder_space(&d, &space), e.data, e.size);
        tree_decoder_filled(&d, e.size);
        while (tree_decode(&d, &got) > 0) {
                const TreeItem *want = l + at++;

                assert_int_equal(got.type, want->type);
                if (got.type == TREE_TOP || got.type == TREE_DIR || got.type == TREE_FILE ||
                                got.type == TREE_LINK || got.type == TREE_LEFT)
                        assert_string_equal(got.name, want->name);
                if (got.type == TREE_LINK)
                        assert_string_equal(got.target, want->target);
                if (got.type == TREE_DIR || got.type == TREE_FILE) {
                        assert_int_equal(got.mode, want->mode);
                        assert_int_equal(got.mtime, want->mtime);
                        assert_int_equal(got.nsec, want->nsec);
                }
                if (got.type == TREE_DATA) {
                        assert_int_equal(got.offset, want->offset);
                        assert_int_equal(got.n_data, want->n_data);
                        assert_memory_equal(got.data, want->data, got.n_data);
                }
                if (got.type == TREE_EOF)
                        assert_int_equal(got.size, want->size);
                if (got.type == TREE_LEFT)
                        assert_int_equal(got.reason, want->reason);
        }
        assert_int_equal(at, n);
        assert_int_equal(tree_decoder_finish(&d), 0);
        assert_int_equal(d.state.entries, 6);
        assert_int_equal(d.state.bytes, 1 << 20);
        assert_int_equal(d.state.left, 4);
        tree_decoder_done(&d);
        tree_encoder_done(&e);
}

static void test_paths(void **state)
{
        static TreeItem l[32];
        static const char *const want[] = { "a/b", "a/b", "a/b/f", "a/b/f", "a/b/f", "a/b/f",
                "a/b/name with\nnewline and \xff", "a/b/name with\nnewline and \xff", "a/b/name with\nnewline and \xff/l",
                "a/b/name with\nnewline and \xff/dev", "a/b/name with\nnewline and \xff/gone", "a/b", "a/b/m", "", "", "", "x", "x", "x",
                "y", "y" };
        TreeState s = {};

        sample(l);
        for (size_t i = 0; i < ELEMENTSOF(want); i++) {
                assert_int_equal(tree_state_advance(&s, l + i), 0);
                assert_string_equal(s.path, want[i]);
        }
}

static void test_pieces(void **state)
{
        static TreeItem l[32];
        size_t n = sample(l), items;
        TreeEncoder e;

        encode_all(l, n, &e);
        for (size_t piece = 1; piece < 64; piece++) {
                assert_int_equal(feed(e.data, e.size, piece, &items), 0);
                assert_int_equal(items, n);
        }
        /* Cut anywhere, it is no stream. */
        for (size_t cut = 0; cut < e.size; cut++)
                assert_int_equal(feed_all(e.data, cut), -EBADMSG);
        tree_encoder_done(&e);
}

static void test_large_data(void **state)
{
        static TreeItem l[] = { { .type = TREE_TOP, .name = "a" }, { .type = TREE_FILE } };
        static const TreeItem up[] = { { .type = TREE_EOF, .size = 5 * TREE_DATA_MAX },
                { .type = TREE_END, .entries = 1, .bytes = 5 * TREE_DATA_MAX } };
        uint8_t *all = malloc(8 * TREE_DATA_MAX);
        TreeEncoder e;
        size_t n = 0, items;

        encode_all(l, ELEMENTSOF(l), &e);
        for (unsigned i = 0; i < 5; i++) {
                uint8_t *p = tree_encode_data_begin(&e);

                if (!p) {
                        memcpy(all + n, e.data, e.size);
                        n += e.size;
                        e.size = 0;
                        p = tree_encode_data_begin(&e);
                }
                memset(p, (int) i, TREE_DATA_MAX);
                assert_int_equal(tree_encode_data_end(&e, (uint64_t) i * TREE_DATA_MAX, TREE_DATA_MAX), 0);
        }
        memcpy(all + n, e.data, e.size);
        n += e.size;
        e.size = 0;
        for (size_t i = 0; i < ELEMENTSOF(up); i++)
                assert_int_equal(tree_encode(&e, up + i), 0);
        memcpy(all + n, e.data, e.size);
        n += e.size;
        for (size_t piece = 1000; piece < 4 * TREE_DATA_MAX; piece = piece * 3 + 1) {
                assert_int_equal(feed(all, n, piece, &items), 0);
                assert_int_equal(items, 9);
        }
        free(all);
        tree_encoder_done(&e);
}

static void test_names(void **state)
{
        char name[A_LONG_NAME + 1] = "";
        static const char *const good[] = { "a", "...", "..a", ".a", "a\nb", "\xff", " ", "-rf", "a\\b",
                "*" };
        static const char *const bad[] = { "", ".", "..", "/", "a/b", "a/", "/a" };

        for (size_t i = 0; i < ELEMENTSOF(good); i++)
                assert_true(tree_name_is_valid(good[i]));
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                assert_false(tree_name_is_valid(bad[i]));
        memset(name, 'a', A_LONG_NAME);
        assert_false(tree_name_is_valid(name));
        name[TREE_NAME_MAX] = 0;
        assert_true(tree_name_is_valid(name));
}

static void test_tops(void **state)
{
        static const char *const good[] = { ".", "a", "a/b", "a/.b/...", "-" };
        static const char *const bad[] = { "", "..", "/", "/a", "a/", "a//b", "a/../b", "./a", "a/.",
                "../a" };
        char path[2 * PATH_MAX] = "";

        for (size_t i = 0; i < ELEMENTSOF(good); i++)
                assert_true(tree_path_is_valid(good[i]));
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                assert_false(tree_path_is_valid(bad[i]));
        while (strlen(path) < PATH_MAX - 1)
                strcat(path, "a/");
        assert_false(tree_path_is_valid(path));
        path[PATH_MAX - 2] = 0;
        assert_int_equal(tree_path_is_valid(path), path[PATH_MAX - 3] != '/');
}

static void test_links(void **state)
{
        static const struct {
                unsigned depth;
                const char *target;
                bool stays;
        } rows[] = {
                { 1, "a", true },
                { 1, "a/b", true },
                { 1, ".", true },
                { 1, "./a", true },
                { 1, "a/", true },
                { 2, "..", true },
                { 2, "../a", true },
                { 2, "./../a", true },
                { 3, "../../a", true },
                { 3, "..//../a", true },
                { 1, "...", true },
                { 1, "..a", true },
                { 1, "", false },
                { 1, "..", false },
                { 1, "../a", false },
                { 2, "../..", false },
                { 3, "../../../a", false },
                { 1, "/", false },
                { 1, "/workspace/a", false },
                { 1, "/proc/self/root", false },
                { 9, "/etc/passwd", false },
                /* "a" may be a link to a place further up than where it stands. */
                { 5, "a/..", false },
                { 5, "a/../b", false },
                { 5, "a/./../b", false },
                { 5, "../a/..", false },
        };
        char target[PATH_MAX + 1];

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (tree_link_stays(rows[i].depth, rows[i].target) != rows[i].stays)
                        fail_msg("depth %u: %s", rows[i].depth, rows[i].target);
        memset(target, 'a', PATH_MAX);
        target[PATH_MAX] = 0;
        assert_false(tree_link_stays(1, target));
}

/* What may not come, at the place where it comes. */
static void test_order(void **state)
{
        static TreeItem l[8];
        static char longest[TREE_NAME_MAX + 1];
        static const char *const bad_names[] = { "", ".", "..", "a/b", "/etc/passwd", "../x" };
        struct {
                size_t n;
                TreeItem items[6];
        } * rows;
        size_t n = 0;

        memset(longest, 'a', TREE_NAME_MAX);
        rows = calloc(64, sizeof(*rows));
#define ROW(...)                                         \
        do {                                             \
                const TreeItem row[] = { __VA_ARGS__ };  \
                memcpy(rows[n].items, row, sizeof(row)); \
                rows[n++].n = ELEMENTSOF(row);           \
        } while (0)
        ROW(node(TREE_DIR, "", 0)); /* without a TOP */
        ROW(node(TREE_FILE, "a", 0));
        ROW(item(TREE_UP, ""));
        ROW(data_item(0, "x"));
        ROW(eof_item(0));
        ROW(end_item(1, 0, 0)); /* figures that are not so */
        ROW(end_item(0, 1, 0));
        ROW(end_item(0, 0, 1));
        ROW(item(TREE_TOP, "a"), item(TREE_TOP, "b"));
        ROW(item(TREE_TOP, "a"), end_item(0, 0, 0));
        ROW(item(TREE_TOP, "a"), item(TREE_UP, ""));
        ROW(item(TREE_TOP, "a"), node(TREE_FILE, "b", 0)); /* TOP has named it */
        ROW(item(TREE_TOP, "a"), node(TREE_FILE, "", 0), node(TREE_FILE, "", 0));
        ROW(item(TREE_TOP, "a"), node(TREE_FILE, "", 0), end_item(1, 0, 0));
        ROW(item(TREE_TOP, "a"), node(TREE_DIR, "", 0), end_item(1, 0, 0));
        ROW(item(TREE_TOP, "a"), node(TREE_DIR, "", 0), item(TREE_TOP, "b"));
        ROW(item(TREE_TOP, "a"), node(TREE_DIR, "", 0), item(TREE_UP, ""), item(TREE_UP, ""));
        ROW(item(TREE_TOP, "a"), node(TREE_DIR, "", 0), left_item("x", TREE_LEFT_MISSING));
        ROW(item(TREE_TOP, "a"), node(TREE_DIR, "", 0), left_item("x", TREE_LEFT_UNCHANGED));
        ROW(item(TREE_WHOLE, ""));
        ROW(item(TREE_TOP, "a"), item(TREE_WHOLE, ""));
        ROW(item(TREE_TOP, "a"), node(TREE_FILE, "", 0), item(TREE_WHOLE, ""));
        ROW(item(TREE_TOP, "a"), node(TREE_DIR, "", 0), item(TREE_WHOLE, ""), item(TREE_WHOLE, ""));
        ROW(item(TREE_TOP, "a"), node(TREE_DIR, "", 0), left_item("x", TREE_LEFT_FIFO), item(TREE_WHOLE, ""));
        ROW(item(TREE_TOP, "a"), node(TREE_DIR, "", 0), item(TREE_UP, ""), item(TREE_WHOLE, ""));
        ROW(item(TREE_TOP, "a"), link_item("", "b")); /* a link on its own stays nowhere */
        ROW(item(TREE_TOP, "a"), node(TREE_DIR, "", 0), link_item("l", ".."));
        ROW(item(TREE_TOP, "a"), node(TREE_FILE, "", 0), data_item(0, "xy"), data_item(1, "z"));
        ROW(item(TREE_TOP, "a"), node(TREE_FILE, "", 0), data_item(0, "xy"), eof_item(1));
        ROW(item(TREE_TOP, "a"), node(TREE_FILE, "", 0), data_item(INT64_MAX, "xy"));
        ROW(item(TREE_TOP, "a"), node(TREE_FILE, "", 0), eof_item(UINT64_MAX));
        ROW(fail_item(TREE_FAIL_ERROR, 0));
        ROW(fail_item(TREE_FAIL_FILES, 5));
        ROW(fail_item(_TREE_FAIL_MAX, 0));
#undef ROW
        for (size_t i = 0; i < n; i++) {
                TreeState s = {};

                for (size_t k = 0; k + 1 < rows[i].n; k++)
                        assert_int_equal(tree_state_advance(&s, rows[i].items + k), 0);
                if (tree_state_advance(&s, rows[i].items + rows[i].n - 1) != -EBADMSG)
                        fail_msg("row %zu is taken", i);
        }
        free(rows);

        for (size_t i = 0; i < ELEMENTSOF(bad_names); i++)
                for (int type = 0; type < 3; type++) {
                        TreeState s = {};

                        l[0] = item(TREE_TOP, "a");
                        l[1] = node(TREE_DIR, "", 0);
                        l[2] = type == 0   ? node(TREE_DIR, bad_names[i], 0)
                               : type == 1 ? node(TREE_FILE, bad_names[i], 0)
                                           : link_item(bad_names[i], "b");
                        assert_int_equal(tree_state_advance(&s, l), 0);
                        assert_int_equal(tree_state_advance(&s, l + 1), 0);
                        assert_int_equal(tree_state_advance(&s, l + 2), -EBADMSG);
                }
}

static void test_modes(void **state)
{
        TreeItem i = node(TREE_FILE, "", 04755);
        TreeState top = {}, s;
        TreeItem t = item(TREE_TOP, "a");

        assert_int_equal(tree_state_advance(&top, &t), 0);
        for (uint32_t mode = 0; mode < 07777 * 2; mode++) {
                s = top;
                i.mode = mode;
                assert_int_equal(tree_state_advance(&s, &i), mode <= 0777 ? 0 : -EBADMSG);
        }
        i.mode = 0;
        i.nsec = 1000000000;
        s = top;
        assert_int_equal(tree_state_advance(&s, &i), -EBADMSG);
        /* Years are judged by whoever sets them. */
        i.nsec = 0;
        i.mtime = INT64_MAX;
        s = top;
        assert_int_equal(tree_state_advance(&s, &i), 0);
}

static void test_depth(void **state)
{
        TreeState s = {};
        TreeItem i = item(TREE_TOP, "a");
        unsigned depth = 1;

        assert_int_equal(tree_state_advance(&s, &i), 0);
        i = node(TREE_DIR, "", 0700);
        assert_int_equal(tree_state_advance(&s, &i), 0);
        i = node(TREE_DIR, "d", 0700);
        while (tree_state_fits(&s, "d", true)) {
                assert_int_equal(tree_state_advance(&s, &i), 0);
                depth++;
        }
        assert_int_equal(depth, TREE_DEPTH_MAX);
        assert_true(tree_state_fits(&s, "d", false));
        assert_int_equal(tree_state_advance(&s, &i), -EBADMSG);
}

/* A path of many long names ends before PATH_MAX. */
static void test_long_path(void **state)
{
        TreeState s = {};
        TreeItem i = item(TREE_TOP, "a");
        char name[TREE_NAME_MAX + 1] = "";

        memset(name, 'n', TREE_NAME_MAX);
        assert_int_equal(tree_state_advance(&s, &i), 0);
        i = node(TREE_DIR, "", 0700);
        assert_int_equal(tree_state_advance(&s, &i), 0);
        i = node(TREE_DIR, name, 0700);
        while (tree_state_fits(&s, name, true)) {
                assert_int_equal(tree_state_advance(&s, &i), 0);
                assert_true(strlen(s.path) < PATH_MAX);
        }
        assert_true(s.depth > 10 && s.depth < 20);
        assert_int_equal(tree_state_advance(&s, &i), -EBADMSG);
}

/* Bytes that no encoder makes. */
static void test_bad_frames(void **state)
{
        static Raw b;
        static TreeItem top, i;

        top = item(TREE_TOP, "a");
        assert_int_equal(feed_all("XXXX", 4), -EBADMSG);

#define BEGIN()                                \
        do {                                   \
                b.size = 0;                    \
                raw_number(&b, TREE_MAGIC, 4); \
        } while (0)
        /* An unknown type; a length that no frame has. */
        BEGIN();
        raw_number(&b, _TREE_TYPE_MAX, 1);
        raw_number(&b, 0, 4);
        assert_int_equal(feed_all(b.data, b.size), -EBADMSG);
        BEGIN();
        raw_number(&b, 0, 5);
        assert_int_equal(feed_all(b.data, b.size), -EBADMSG);
        BEGIN();
        raw_number(&b, TREE_TOP, 1);
        raw_number(&b, UINT32_MAX, 4);
        assert_int_equal(feed_all(b.data, b.size), -EBADMSG);

        /* A name of 300 bytes, with NUL in it, longer than its frame. */
        BEGIN();
        raw_item(&b, &top);
        i = node(TREE_DIR, "", 0700);
        raw_item(&b, &i);
        raw_number(&b, TREE_LINK, 1);
        raw_number(&b, 4 + A_LONG_NAME + 4 + 1, 4);
        raw_number(&b, A_LONG_NAME, 4);
        for (size_t k = 0; k < A_LONG_NAME; k++)
                raw_number(&b, 'a', 1);
        raw_number(&b, 1, 4);
        raw_number(&b, 'b', 1);
        assert_int_equal(feed_all(b.data, b.size), -EBADMSG);
        for (unsigned n = 0; n < 3; n++) {
                BEGIN();
                raw_item(&b, &top);
                raw_item(&b, &i);
                raw_number(&b, TREE_LINK, 1);
                raw_number(&b, 4 + 2 + 4 + 1, 4);
                raw_number(&b, n == 0 ? 2 : n == 1 ? 2000 : UINT32_MAX, 4);
                raw_number(&b, 'a', 2); /* "a", NUL */
                raw_number(&b, 1, 4);
                raw_number(&b, 'b', 1);
                assert_int_equal(feed_all(b.data, b.size), -EBADMSG);
        }
        /* A byte more in the frame than it has fields; and after the end. */
        BEGIN();
        raw_item(&b, &top);
        b.data[4 + 1]++;
        raw_number(&b, 0, 1);
        raw_item(&b, &i);
        assert_int_equal(feed_all(b.data, b.size), -EBADMSG);
        BEGIN();
        i = end_item(0, 0, 0);
        raw_item(&b, &i);
        assert_int_equal(feed_all(b.data, b.size), 0);
        raw_number(&b, 0, 1);
        assert_int_equal(feed_all(b.data, b.size), -EBADMSG);
        /* No data at all in a DATA. */
        BEGIN();
        raw_item(&b, &top);
        i = node(TREE_FILE, "", 0700);
        raw_item(&b, &i);
        raw_number(&b, TREE_DATA, 1);
        raw_number(&b, 8, 4);
        raw_number(&b, 0, 8);
        assert_int_equal(feed_all(b.data, b.size), -EBADMSG);
        /* A FAIL ends it, anywhere. */
        BEGIN();
        raw_item(&b, &top);
        i = fail_item(TREE_FAIL_ERROR, EIO);
        raw_item(&b, &i);
        assert_int_equal(feed_all(b.data, b.size), 0);
#undef BEGIN
}

static void test_mutations(void **state)
{
        static TreeItem l[32];
        TreeEncoder e;

        encode_all(l, sample(l), &e);
        mutate(e.data, e.size, 4000, feed_all);
        tree_encoder_done(&e);
}

/* What is not accepted is not written, and leaves no trace. */
static void test_encoder_refuses(void **state)
{
        static TreeItem i;
        TreeEncoder e;
        size_t size;

        assert_int_equal(tree_encoder_init(&e), 0);
        size = e.size;
        i = item(TREE_TOP, "../a");
        assert_int_equal(tree_encode(&e, &i), -EBADMSG);
        i = node(TREE_DIR, "a", 0);
        assert_int_equal(tree_encode(&e, &i), -EBADMSG);
        assert_int_equal(e.size, size);
        e.size = TREE_BUFFER_SIZE - TREE_FRAME_MAX + 1;
        i = item(TREE_TOP, "a");
        assert_int_equal(tree_encode(&e, &i), -ENOBUFS);
        assert_null(tree_encode_data_begin(&e));
        tree_encoder_done(&e);
}

static void test_texts(void **state)
{
        for (int i = 1; i < _TREE_LEFT_MAX; i++)
                assert_string_not_equal(tree_left_text(i), "unknown");
        assert_string_equal(tree_left_text(0), "unknown");
        assert_string_equal(tree_left_text(_TREE_LEFT_MAX), "unknown");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_paths),
                cmocka_unit_test(test_pieces),
                cmocka_unit_test(test_large_data),
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_tops),
                cmocka_unit_test(test_links),
                cmocka_unit_test(test_order),
                cmocka_unit_test(test_modes),
                cmocka_unit_test(test_depth),
                cmocka_unit_test(test_long_path),
                cmocka_unit_test(test_bad_frames),
                cmocka_unit_test(test_mutations),
                cmocka_unit_test(test_encoder_refuses),
                cmocka_unit_test(test_texts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
