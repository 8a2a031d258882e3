/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <sys/random.h>

#include "cli/copy-manifest.h"

/* ---- of one file */

int copy_key_make(CopyKey *k)
{
        static const uint8_t nonce[UMAC128_DIGEST_SIZE] = {};
        uint8_t key[UMAC_KEY_SIZE];

        if (getrandom(key, sizeof(key), 0) != sizeof(key))
                return -EIO;
        umac128_set_key(&k->context, key);
        /* The same one for all: they are compared, and nobody sees them. */
        umac128_set_nonce(&k->context, sizeof(nonce), nonce);
        explicit_bzero(key, sizeof(key));
        return 0;
}

void copy_digest_begin(CopyDigest *d, const CopyKey *k)
{
        d->context = k->context;
        d->used = false;
}

static void update_u64(CopyDigest *d, uint64_t v)
{
        uint8_t bytes[8];

        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (uint8_t) (v >> (8 * i));
        umac128_update(&d->context, sizeof(bytes), bytes);
}

static bool is_zero(const uint8_t *p)
{
        return p[0] == 0 && memcmp(p, p + 1, DIGEST_PAGE - 1) == 0;
}

static void take_page(CopyDigest *d, uint64_t page, const uint8_t *p)
{
        if (is_zero(p))
                return;
        update_u64(d, page);
        umac128_update(&d->context, DIGEST_PAGE, p);
}

static void flush_page(CopyDigest *d)
{
        if (d->used)
                take_page(d, d->page, d->bytes);
        d->used = false;
}

void copy_digest_data(CopyDigest *d, uint64_t offset, const uint8_t *p, size_t n)
{
        while (n > 0) {
                uint64_t page = offset / DIGEST_PAGE;
                size_t at = offset % DIGEST_PAGE, k = MIN2(n, DIGEST_PAGE - at);

                if (d->used && d->page != page)
                        flush_page(d);
                if (k == DIGEST_PAGE)
                        take_page(d, page, p);
                else {
                        if (!d->used) {
                                memset(d->bytes, 0, sizeof(d->bytes));
                                d->page = page;
                                d->used = true;
                        }
                        memcpy(d->bytes + at, p, k);
                }
                offset += k;
                p += k;
                n -= k;
        }
}

void copy_digest_end(CopyDigest *d, uint64_t size, uint8_t ret[COPY_DIGEST_SIZE])
{
        flush_page(d);
        update_u64(d, size);
        umac128_digest(&d->context, COPY_DIGEST_SIZE, ret);
}

void copy_digest_text(const CopyKey *k, const char *text, uint8_t ret[COPY_DIGEST_SIZE])
{
        struct umac128_ctx context = k->context;

        umac128_update(&context, strlen(text), (const uint8_t *) text);
        umac128_digest(&context, COPY_DIGEST_SIZE, ret);
}

/* ---- of all */

int manifest_init(Manifest *m)
{
        *m = (Manifest){};
        return copy_key_make(&m->key);
}

void manifest_done(Manifest *m)
{
        for (size_t i = 0; i < m->n; i++)
                free(m->entries[i].path);
        free(m->entries);
        *m = (Manifest){};
}

ManifestEntry *manifest_add(Manifest *m, const char *path, TreeType type)
{
        if (m->n == m->allocated) {
                size_t want = MAX2((size_t) 256, m->allocated * 2);
                ManifestEntry *e = realloc(m->entries, want * sizeof(*e));

                if (!e) {
                        m->error = -ENOMEM;
                        return NULL;
                }
                m->entries = e;
                m->allocated = want;
        }
        m->entries[m->n] = (ManifestEntry){ .path = strdup(path), .type = type };
        if (!m->entries[m->n].path) {
                m->error = -ENOMEM;
                return NULL;
        }
        return m->entries + m->n++;
}

void manifest_observe_item(void *userdata, const TreeState *s, const TreeItem *i)
{
        Manifest *m = userdata;
        ManifestEntry *e;

        switch (i->type) {
        case TREE_DIR:
                manifest_add(m, s->path, TREE_DIR);
                break;
        case TREE_LINK:
                e = manifest_add(m, s->path, TREE_LINK);
                if (e)
                        copy_digest_text(&m->key, i->target, e->digest);
                break;
        case TREE_FILE:
                m->mode = i->mode;
                copy_digest_begin(&m->digest, &m->key);
                break;
        case TREE_EOF:
                e = manifest_add(m, s->path, TREE_FILE);
                if (e) {
                        e->executable = m->mode & 0111;
                        copy_digest_end(&m->digest, i->size, e->digest);
                }
                break;
        default:
                break;
        }
}

void manifest_observe_data(void *userdata, uint64_t offset, const uint8_t *p, size_t n)
{
        Manifest *m = userdata;

        copy_digest_data(&m->digest, offset, p, n);
}

static int compare(const void *a, const void *b)
{
        const ManifestEntry *x = a, *y = b;

        return strcmp(x->path, y->path);
}

void manifest_sort(Manifest *m)
{
        if (!m->sorted && m->n > 0)
                qsort(m->entries, m->n, sizeof(*m->entries), compare);
        m->sorted = true;
}

static ManifestEntry *find(Manifest *m, const char *path)
{
        const ManifestEntry key = { .path = (char *) path };

        return m->n > 0 ? bsearch(&key, m->entries, m->n, sizeof(key), compare) : NULL;
}

bool manifest_has(Manifest *m, const char *path)
{
        return find(m, path);
}

Change manifest_compare(Manifest *m, const char *path, TreeType type, uint32_t mode, const uint8_t *digest)
{
        ManifestEntry *e = find(m, path);

        if (!e)
                return CHANGE_ADDED;
        e->seen = true;
        if (e->type != type || (type == TREE_FILE && e->executable != ((mode & 0111) != 0)))
                return CHANGED;
        return type != TREE_DIR && memcmp(e->digest, digest, sizeof(e->digest)) != 0 ? CHANGED : CHANGE_NONE;
}

void manifest_mark(Manifest *m, const char *path)
{
        ManifestEntry *e = find(m, path);

        if (e)
                e->seen = true;
}

const ManifestEntry *manifest_missing(const Manifest *m, const char *top, size_t *at)
{
        size_t n = strlen(top);

        for (; *at < m->n; (*at)++) {
                const ManifestEntry *e = m->entries + *at;

                if (e->seen || (n > 0 && (strncmp(e->path, top, n) != 0 ||
                                                         (e->path[n] && e->path[n] != '/'))))
                        continue;
                (*at)++;
                return e;
        }
        return NULL;
}
