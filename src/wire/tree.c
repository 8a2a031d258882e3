/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "base/buf.h"
#include "wire/tree.h"

#define MODE_MAX 0777u
#define NSEC_MAX 999999999u
#define MAGIC_SIZE 4u
#define DATA_HEAD (TREE_FRAME_HEAD + 8u)

static const char *const left_texts[_TREE_LEFT_MAX] = {
        [TREE_LEFT_DEVICE] = "a device",
        [TREE_LEFT_SOCKET] = "a socket",
        [TREE_LEFT_FIFO] = "a fifo",
        [TREE_LEFT_LINK] = "a symbolic link that leads out, or may",
        [TREE_LEFT_UNREADABLE] = "not readable",
        [TREE_LEFT_CHANGED] = "changed while it was read",
        [TREE_LEFT_MISSING] = "not there",
        [TREE_LEFT_WHITEOUT] = "deleted",
        [TREE_LEFT_UNCHANGED] = "as it was",
};

const char *tree_left_text(TreeLeft reason)
{
        return (unsigned) reason < _TREE_LEFT_MAX && left_texts[reason] ? left_texts[reason] : "unknown";
}

/* ---- names */

static bool component_is_valid(const char *p, size_t n)
{
        return n > 0 && n <= TREE_NAME_MAX && !(p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.')));
}

bool tree_name_is_valid(const char *name)
{
        size_t n = strnlen(name, TREE_NAME_MAX + 1);

        return component_is_valid(name, n) && !memchr(name, '/', n);
}

bool tree_path_is_valid(const char *path)
{
        if (streq(path, "."))
                return true;
        if (strnlen(path, PATH_MAX) >= PATH_MAX)
                return false;
        for (;;) {
                size_t n = strcspn(path, "/");

                if (!component_is_valid(path, n))
                        return false;
                path += n;
                if (!*path)
                        return true;
                path++;
        }
}

bool tree_link_stays(unsigned depth, const char *target)
{
        bool plain = false;
        unsigned up = 0;

        if (target[0] == 0 || target[0] == '/' || strnlen(target, PATH_MAX) >= PATH_MAX)
                return false;
        for (;;) {
                size_t n = strcspn(target, "/");

                if (n == 2 && target[0] == '.' && target[1] == '.') {
                        if (plain || ++up >= depth)
                                return false;
                } else if (n > 0 && !(n == 1 && target[0] == '.'))
                        plain = true;
                target += n;
                if (!*target)
                        return true;
                target++;
        }
}

/* ---- the grammar */

static int check_entry(const TreeState *s, const TreeItem *i)
{
        if (s->in_file || s->ended)
                return -EBADMSG;
        /* The one behind a TOP is named there; the others are in a directory. */
        if (s->wants_entry ? *i->name != 0 : s->depth == 0 || !tree_name_is_valid(i->name))
                return -EBADMSG;
        switch (i->type) {
        case TREE_DIR:
        case TREE_FILE:
                return i->mode > MODE_MAX || i->nsec > NSEC_MAX ? -EBADMSG : 0;
        case TREE_LINK:
                return s->depth > 0 && tree_link_stays(s->depth, i->target) ? 0 : -EBADMSG;
        case TREE_LEFT:
                if ((i->reason == TREE_LEFT_MISSING || i->reason == TREE_LEFT_UNCHANGED) && !s->wants_entry)
                        return -EBADMSG;
                return i->reason == 0 || i->reason >= _TREE_LEFT_MAX ? -EBADMSG : 0;
        default:
                return -EBADMSG;
        }
}

bool tree_state_fits(const TreeState *s, const char *name, bool is_directory)
{
        return s->length + (s->length > 0) + strlen(name) < sizeof(s->path) &&
               !(is_directory && s->depth >= TREE_DEPTH_MAX);
}

static int advance_entry(TreeState *s, const TreeItem *i)
{
        size_t n = s->length;
        int r = check_entry(s, i);

        if (r < 0)
                return r;
        if (!tree_state_fits(s, i->name, i->type == TREE_DIR))
                return -EBADMSG;
        if (s->wants_entry)
                n = strlen(s->path);
        else {
                if (n > 0)
                        s->path[n++] = '/';
                strcpy(s->path + n, i->name);
                n += strlen(i->name);
        }
        s->wants_entry = false;
        if (i->type == TREE_LEFT) {
                s->left++;
                return 0;
        }
        s->entries++;
        if (i->type == TREE_FILE) {
                s->in_file = true;
                s->position = 0;
        } else if (i->type == TREE_DIR) {
                s->parents[s->depth++] = s->length;
                s->length = (uint16_t) n;
        }
        return 0;
}

static int advance_bytes(TreeState *s, uint64_t offset, size_t n)
{
        if (!s->in_file || n == 0 || n > TREE_DATA_MAX || offset < s->position || offset > TREE_SIZE_MAX - n)
                return -EBADMSG;
        s->position = offset + n;
        return 0;
}

static int advance_data(TreeState *s, const TreeItem *i)
{
        return advance_bytes(s, i->offset, i->n_data);
}

static int advance_eof(TreeState *s, const TreeItem *i)
{
        if (!s->in_file || i->size < s->position || i->size > TREE_SIZE_MAX ||
                        s->bytes > UINT64_MAX - i->size)
                return -EBADMSG;
        s->in_file = false;
        s->bytes += i->size;
        return 0;
}

static bool is_between(const TreeState *s)
{
        return !s->ended && !s->in_file && !s->wants_entry && s->depth == 0;
}

static int advance_top(TreeState *s, const TreeItem *i)
{
        if (!is_between(s) || !tree_path_is_valid(i->name))
                return -EBADMSG;
        s->wants_entry = true;
        strcpy(s->path, streq(i->name, ".") ? "" : i->name);
        s->length = 0;
        return 0;
}

static int advance_up(TreeState *s, const TreeItem *i)
{
        if (s->ended || s->in_file || s->wants_entry || s->depth == 0)
                return -EBADMSG;
        s->length = s->parents[--s->depth];
        s->path[s->length] = 0;
        return 0;
}

static int advance_end(TreeState *s, const TreeItem *i)
{
        if (!is_between(s) || i->entries != s->entries || i->bytes != s->bytes || i->left != s->left)
                return -EBADMSG;
        s->ended = true;
        return 0;
}

static int advance_whole(TreeState *s, const TreeItem *i)
{
        return s->in_fresh ? 0 : -EBADMSG;
}

/* It may come at any time but behind the end. Its path is for a person. */
static int advance_fail(TreeState *s, const TreeItem *i)
{
        if (s->ended || i->reason == 0 || i->reason >= _TREE_FAIL_MAX ||
                        (i->reason == TREE_FAIL_ERROR ? i->error == 0 || i->error > 4095 : i->error != 0))
                return -EBADMSG;
        s->ended = true;
        return 0;
}

static int (*const advances[_TREE_TYPE_MAX])(TreeState *s, const TreeItem *i) = {
        [TREE_TOP] = advance_top,
        [TREE_DIR] = advance_entry,
        [TREE_UP] = advance_up,
        [TREE_FILE] = advance_entry,
        [TREE_DATA] = advance_data,
        [TREE_EOF] = advance_eof,
        [TREE_LINK] = advance_entry,
        [TREE_LEFT] = advance_entry,
        [TREE_END] = advance_end,
        [TREE_FAIL] = advance_fail,
        [TREE_WHOLE] = advance_whole,
};

int tree_state_advance(TreeState *s, const TreeItem *i)
{
        int r;

        if ((unsigned) i->type >= _TREE_TYPE_MAX || !advances[i->type])
                return -EBADMSG;
        r = advances[i->type](s, i);
        s->in_fresh = i->type == TREE_DIR;
        return r;
}

/* ---- fields; one table for both ways */

typedef enum FieldType { FIELD_U32, FIELD_U64, FIELD_NAME, FIELD_PATH } FieldType;

typedef struct Field {
        FieldType type;
        size_t offset;
} Field;

#define FIELDS_MAX 5
#define F(t, member)                                  \
        {                                             \
                FIELD_##t, offsetof(TreeItem, member) \
        }
#define NODE                                                             \
        {                                                                \
                F(NAME, name), F(U32, mode), F(U64, mtime), F(U32, nsec) \
        }

static const struct {
        size_t n;
        Field fields[FIELDS_MAX];
} layouts[_TREE_TYPE_MAX] = {
        [TREE_TOP] = { 1, { F(PATH, name) } },
        [TREE_DIR] = { 4, NODE },
        [TREE_UP] = { 0, {} },
        [TREE_FILE] = { 4, NODE },
        [TREE_DATA] = { 1, { F(U64, offset) } }, /* and the bytes */
        [TREE_EOF] = { 1, { F(U64, size) } },
        [TREE_LINK] = { 2, { F(NAME, name), F(PATH, target) } },
        [TREE_LEFT] = { 2, { F(NAME, name), F(U32, reason) } },
        [TREE_END] = { 3, { F(U64, entries), F(U64, bytes), F(U64, left) } },
        [TREE_FAIL] = { 3, { F(U32, reason), F(U32, error), F(PATH, name) } },
        [TREE_WHOLE] = { 0, {} },
};

static size_t text_max(FieldType type)
{
        return type == FIELD_NAME ? TREE_NAME_MAX : PATH_MAX - 1;
}

/* ---- making frames */

int tree_encoder_init(TreeEncoder *e)
{
        *e = (TreeEncoder){ .data = malloc(TREE_BUFFER_SIZE), .size = MAGIC_SIZE };
        if (!e->data)
                return -ENOMEM;
        for (size_t i = 0; i < MAGIC_SIZE; i++)
                e->data[i] = (uint8_t) (TREE_MAGIC >> (8 * i));
        return 0;
}

void tree_encoder_done(TreeEncoder *e)
{
        free(e->data);
        *e = (TreeEncoder){};
}

static void put_number(TreeEncoder *e, uint64_t v, size_t n)
{
        for (size_t i = 0; i < n; i++)
                e->data[e->size++] = (uint8_t) (v >> (8 * i));
}

static void put_bytes(TreeEncoder *e, const void *p, size_t n)
{
        memcpy(e->data + e->size, p, n);
        e->size += n;
}

static int put_field(TreeEncoder *e, const Field *f, const TreeItem *i)
{
        const char *p = (const char *) i + f->offset;
        uint64_t wide;
        uint32_t word;
        size_t n;

        switch (f->type) {
        case FIELD_U32:
                memcpy(&word, p, sizeof(word));
                put_number(e, word, sizeof(word));
                return 0;
        case FIELD_U64:
                memcpy(&wide, p, sizeof(wide));
                put_number(e, wide, sizeof(wide));
                return 0;
        case FIELD_NAME:
        case FIELD_PATH:
                n = strnlen(p, text_max(f->type) + 1);
                if (n > text_max(f->type))
                        return -EBADMSG;
                put_number(e, n, sizeof(uint32_t));
                put_bytes(e, p, n);
                return 0;
        }
        return -EBADMSG;
}

/* The length is known when the frame is there. */
static void close_frame(TreeEncoder *e, size_t begin)
{
        size_t end = e->size, n = end - begin - TREE_FRAME_HEAD;

        e->size = begin + 1;
        put_number(e, n, sizeof(uint32_t));
        e->size = end;
}

int tree_encode(TreeEncoder *e, const TreeItem *i)
{
        size_t begin = e->size;
        int r;

        if (TREE_BUFFER_SIZE - e->size < TREE_FRAME_MAX)
                return -ENOBUFS;
        r = tree_state_advance(&e->state, i);
        if (r < 0)
                return r;
        put_number(e, i->type, 1);
        put_number(e, 0, sizeof(uint32_t));
        for (size_t k = 0; r >= 0 && k < layouts[i->type].n; k++)
                r = put_field(e, layouts[i->type].fields + k, i);
        if (r < 0) {
                e->size = begin;
                return r;
        }
        if (i->type == TREE_DATA)
                put_bytes(e, i->data, i->n_data);
        close_frame(e, begin);
        return 0;
}

uint8_t *tree_encode_data_begin(TreeEncoder *e)
{
        return TREE_BUFFER_SIZE - e->size < TREE_FRAME_MAX ? NULL : e->data + e->size + DATA_HEAD;
}

int tree_encode_data_end(TreeEncoder *e, uint64_t offset, size_t n)
{
        size_t begin = e->size;
        int r = advance_bytes(&e->state, offset, n);

        if (r < 0)
                return r;
        put_number(e, TREE_DATA, 1);
        put_number(e, 8 + n, sizeof(uint32_t));
        put_number(e, offset, sizeof(offset));
        e->size = begin + DATA_HEAD + n;
        return 0;
}

/* ---- taking them apart */

int tree_decoder_init(TreeDecoder *d)
{
        *d = (TreeDecoder){ .data = malloc(TREE_BUFFER_SIZE) };
        return d->data ? 0 : -ENOMEM;
}

void tree_decoder_done(TreeDecoder *d)
{
        free(d->data);
        *d = (TreeDecoder){};
}

uint8_t *tree_decoder_space(TreeDecoder *d, size_t *ret_size)
{
        /* Moved only where a frame might not fit behind it: at most once for each TREE_FRAME_MAX bytes. */
        if (d->start == d->size)
                d->start = d->size = 0;
        else if (TREE_BUFFER_SIZE - d->start < TREE_FRAME_MAX) {
                memmove(d->data, d->data + d->start, d->size - d->start);
                d->size -= d->start;
                d->start = 0;
        }
        *ret_size = TREE_BUFFER_SIZE - d->size;
        return d->data + d->size;
}

void tree_decoder_filled(TreeDecoder *d, size_t n)
{
        d->size += n;
}

static uint64_t get_number(const uint8_t *p, size_t n)
{
        uint64_t v = 0;

        while (n > 0)
                v = v << 8 | p[--n];
        return v;
}

static void get_text(Reader *r, size_t max, char *ret)
{
        const uint8_t *p;
        size_t n;

        p = read_blob(r, max, &n);
        if (r->error < 0)
                return;
        if (memchr(p, 0, n)) {
                r->error = -EBADMSG;
                return;
        }
        memcpy(ret, p, n);
        ret[n] = 0;
}

static void get_field(Reader *r, const Field *f, TreeItem *i)
{
        char *p = (char *) i + f->offset;
        uint64_t wide;
        uint32_t word;

        switch (f->type) {
        case FIELD_U32:
                word = read_u32(r);
                memcpy(p, &word, sizeof(word));
                break;
        case FIELD_U64:
                wide = read_u64(r);
                memcpy(p, &wide, sizeof(wide));
                break;
        case FIELD_NAME:
        case FIELD_PATH:
                get_text(r, text_max(f->type), p);
                break;
        }
}

static int decode_frame(const uint8_t *p, size_t n, TreeItem *i)
{
        Reader r = { .data = p, .size = n };

        for (size_t k = 0; k < layouts[i->type].n; k++)
                get_field(&r, layouts[i->type].fields + k, i);
        if (r.error < 0)
                return -EBADMSG;
        if (i->type == TREE_DATA) {
                i->data = p + r.pos;
                i->n_data = n - r.pos;
                return 0;
        }
        return r.pos == n ? 0 : -EBADMSG;
}

int tree_decode(TreeDecoder *d, TreeItem *ret)
{
        size_t left = d->size - d->start, n;
        const uint8_t *p = d->data + d->start;
        int r;

        if (!d->has_magic) {
                if (left < MAGIC_SIZE)
                        return 0;
                if (get_number(p, MAGIC_SIZE) != TREE_MAGIC)
                        return -EBADMSG;
                d->has_magic = true;
                d->start += MAGIC_SIZE;
                return tree_decode(d, ret);
        }
        if (d->state.ended)
                return left > 0 ? -EBADMSG : 0;
        if (left < TREE_FRAME_HEAD)
                return 0;
        n = get_number(p + 1, sizeof(uint32_t));
        if (p[0] >= _TREE_TYPE_MAX || !advances[p[0]] || n > TREE_FRAME_MAX - TREE_FRAME_HEAD)
                return -EBADMSG;
        if (left - TREE_FRAME_HEAD < n)
                return 0;
        ret->type = p[0];
        r = decode_frame(p + TREE_FRAME_HEAD, n, ret);
        if (r >= 0)
                r = tree_state_advance(&d->state, ret);
        if (r < 0)
                return -EBADMSG;
        d->start += TREE_FRAME_HEAD + n;
        return 1;
}

int tree_decoder_finish(const TreeDecoder *d)
{
        return d->state.ended && d->start == d->size ? 0 : -EBADMSG;
}
