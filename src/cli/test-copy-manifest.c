/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "cli/copy-manifest.h"

#define SIZE 20000u

static CopyKey key; /* of all that is compared here */

static int set_up(void **state)
{
        return copy_key_make(&key);
}

static void digest_of(
                const uint8_t *p, size_t n, uint64_t size, size_t piece, uint8_t ret[COPY_DIGEST_SIZE])
{
        CopyDigest d;

        copy_digest_begin(&d, &key);
        for (size_t at = 0; at < n; at += piece)
                copy_digest_data(&d, at, p + at, MIN2(piece, n - at));
        copy_digest_end(&d, size, ret);
}

static void assert_same(const uint8_t *a, const uint8_t *b)
{
        assert_memory_equal(a, b, COPY_DIGEST_SIZE);
}

static void assert_differ(const uint8_t *a, const uint8_t *b)
{
        assert_true(memcmp(a, b, COPY_DIGEST_SIZE) != 0);
}

/* However the bytes come, the digest is the same; and no bit can be changed unseen. */
static void test_digest(void **state)
{
        static uint8_t bytes[SIZE];
        uint8_t want[COPY_DIGEST_SIZE], got[COPY_DIGEST_SIZE];

        for (size_t i = 0; i < SIZE; i++)
                bytes[i] = (uint8_t) (i * 31 % 251);
        digest_of(bytes, SIZE, SIZE, SIZE, want);
        for (size_t piece = 1; piece < SIZE; piece = piece * 2 + 1) {
                digest_of(bytes, SIZE, SIZE, piece, got);
                assert_same(want, got);
        }
        for (size_t i = 0; i < SIZE; i += 997) {
                bytes[i] ^= 1;
                digest_of(bytes, SIZE, SIZE, 4096, got);
                assert_differ(want, got);
                bytes[i] ^= 1;
        }
        digest_of(bytes, SIZE, SIZE + 1, SIZE, got);
        assert_differ(want, got);
        digest_of(bytes, SIZE - 1, SIZE, SIZE, got);
        assert_differ(want, got);
}

static void test_digest_of_holes(void **state)
{
        static uint8_t bytes[10 * DIGEST_PAGE];
        uint8_t full[COPY_DIGEST_SIZE], sparse[COPY_DIGEST_SIZE], moved[COPY_DIGEST_SIZE];
        CopyDigest d;

        memset(bytes + 5 * DIGEST_PAGE + 100, 'x', 50);
        digest_of(bytes, sizeof(bytes), sizeof(bytes), 1000, full);
        copy_digest_begin(&d, &key);
        copy_digest_data(&d, 5 * DIGEST_PAGE + 90, bytes + 5 * DIGEST_PAGE + 90, 100);
        copy_digest_end(&d, sizeof(bytes), sparse);
        assert_same(full, sparse);
        copy_digest_begin(&d, &key);
        copy_digest_data(&d, 6 * DIGEST_PAGE + 90, bytes + 5 * DIGEST_PAGE + 90, 100);
        copy_digest_end(&d, sizeof(bytes), moved);
        assert_differ(full, moved);
        /* A terabyte of nothing. */
        copy_digest_begin(&d, &key);
        copy_digest_end(&d, UINT64_C(1) << 40, sparse);
        assert_differ(full, sparse);
}

/* Nobody can know which contents look alike: another process has another key. */
static void test_key(void **state)
{
        uint8_t ours[COPY_DIGEST_SIZE], theirs[COPY_DIGEST_SIZE];
        Manifest other;

        assert_int_equal(manifest_init(&other), 0);
        copy_digest_text(&key, "text", ours);
        copy_digest_text(&other.key, "text", theirs);
        assert_differ(ours, theirs);
        copy_digest_text(&key, "text", theirs);
        assert_same(ours, theirs);
        copy_digest_text(&key, "texu", theirs);
        assert_differ(ours, theirs);
}

/* ---- what went in */

static TreeState state_at(const char *path)
{
        TreeState s = {};

        strcpy(s.path, path);
        return s;
}

static void note(Manifest *m, const char *path, TreeType type, uint32_t mode, const char *text)
{
        static TreeItem i;
        TreeState s = state_at(path);

        i = (TreeItem){ .type = type, .mode = mode };
        if (type == TREE_LINK)
                strcpy(i.target, text);
        manifest_observe_item(m, &s, &i);
        if (type != TREE_FILE)
                return;
        if (*text)
                manifest_observe_data(m, 0, (const uint8_t *) text, strlen(text));
        i = (TreeItem){ .type = TREE_EOF, .size = strlen(text) };
        manifest_observe_item(m, &s, &i);
}

static Change came(Manifest *m, const char *path, TreeType type, uint32_t mode, const char *text)
{
        uint8_t digest[COPY_DIGEST_SIZE];

        if (type == TREE_LINK)
                copy_digest_text(&m->key, text, digest);
        else
                digest_of((const uint8_t *) text, strlen(text), strlen(text), 1, digest);
        return manifest_compare(m, path, type, mode, digest);
}

static void fill(Manifest *m)
{
        note(m, "src", TREE_DIR, 0755, "");
        note(m, "src/z", TREE_FILE, 0644, "z");
        note(m, "src/a", TREE_FILE, 0644, "a");
        note(m, "src/x", TREE_FILE, 0755, "#!");
        note(m, "src/l", TREE_LINK, 0, "a");
        note(m, "src/gone", TREE_FILE, 0644, "");
        note(m, "src-other", TREE_FILE, 0644, "");
        manifest_sort(m);
        assert_int_equal(m->error, 0);
}

static void test_compare(void **state)
{
        static const struct {
                const char *path;
                TreeType type;
                uint32_t mode;
                const char *text;
                Change want;
        } rows[] = {
                { "src", TREE_DIR, 0700, "", CHANGE_NONE },
                { "src/a", TREE_FILE, 0600, "a", CHANGE_NONE },
                { "src/a", TREE_FILE, 0600, "b", CHANGED },
                { "src/a", TREE_FILE, 0600, "aa", CHANGED },
                { "src/a", TREE_FILE, 0700, "a", CHANGED },
                { "src/a", TREE_LINK, 0, "a", CHANGED },
                { "src/a", TREE_DIR, 0700, "", CHANGED },
                { "src/x", TREE_FILE, 0711, "#!", CHANGE_NONE },
                { "src/x", TREE_FILE, 0644, "#!", CHANGED },
                { "src/l", TREE_LINK, 0, "a", CHANGE_NONE },
                { "src/l", TREE_LINK, 0, "b", CHANGED },
                { "src/new", TREE_FILE, 0644, "", CHANGE_ADDED },
                { "src/z/z", TREE_FILE, 0644, "z", CHANGE_ADDED },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                Manifest m = { .key = key };

                fill(&m);
                if (came(&m, rows[i].path, rows[i].type, rows[i].mode, rows[i].text) != rows[i].want)
                        fail_msg("row %zu: %s", i, rows[i].path);
                manifest_done(&m);
        }
}

static void test_missing(void **state)
{
        static const char *const want[] = { "src/gone", "src/l" };
        const ManifestEntry *e;
        Manifest m = { .key = key }, empty = { .key = key };
        size_t at = 0, n = 0;

        fill(&m);
        came(&m, "src", TREE_DIR, 0, "");
        came(&m, "src/a", TREE_FILE, 0644, "changed");
        came(&m, "src/x", TREE_FILE, 0644, "");
        manifest_mark(&m, "src/z");
        manifest_mark(&m, "nowhere");
        while ((e = manifest_missing(&m, "src", &at)))
                assert_string_equal(e->path, want[n++]);
        assert_int_equal(n, ELEMENTSOF(want));
        at = n = 0;
        while (manifest_missing(&m, "", &at))
                n++;
        assert_int_equal(n, 3); /* src-other too: "" is all */
        at = 0;
        assert_null(manifest_missing(&m, "sr", &at));
        manifest_done(&m);

        at = 0;
        manifest_sort(&empty);
        assert_int_equal(came(&empty, "x", TREE_FILE, 0, ""), CHANGE_ADDED);
        assert_null(manifest_missing(&empty, "", &at));
        manifest_done(&empty);
}

static void test_many(void **state)
{
        Manifest m = { .key = key };
        char path[32];

        for (int i = 0; i < 5000; i++) {
                snprintf(path, sizeof(path), "f/%i", i * 7919 % 5000);
                note(&m, path, TREE_FILE, 0644, path);
        }
        manifest_sort(&m);
        for (int i = 0; i < 5000; i++) {
                snprintf(path, sizeof(path), "f/%i", i);
                assert_int_equal(came(&m, path, TREE_FILE, 0644, path), CHANGE_NONE);
        }
        manifest_done(&m);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_digest),
                cmocka_unit_test(test_digest_of_holes),
                cmocka_unit_test(test_key),
                cmocka_unit_test(test_compare),
                cmocka_unit_test(test_missing),
                cmocka_unit_test(test_many),
        };

        return cmocka_run_group_tests_name("copy-manifest", tests, set_up, NULL);
}
