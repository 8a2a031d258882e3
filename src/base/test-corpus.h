/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/io.h"

/* Kept inputs of the fuzzers, tests/fuzz/corpus/NAME/: what a file must get stands behind the last dot of its name ("ok" or
 * a reason). Calls check for each; returns how many there were. */
static inline unsigned corpus_each(const char *top, const char *name,
                void (*check)(const char *file, const uint8_t *p, size_t n, const char *want))
{
        char path[4096];
        struct dirent *e;
        unsigned count = 0;
        DIR *dir;

        snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/%s", top, name);
        dir = opendir(path);
        if (!dir)
                fail_msg("cannot open %s", path);
        while ((e = readdir(dir))) {
                _cleanup_free_ char *text = NULL;
                const char *want = strrchr(e->d_name, '.');
                size_t n;

                if (e->d_name[0] == '.')
                        continue;
                assert_non_null(want);
                assert_int_equal(read_file_at(dirfd(dir), e->d_name, 1 << 20, &text, &n), 0);
                check(e->d_name, (const uint8_t *) text, n, want + 1);
                count++;
        }
        closedir(dir);
        return count;
}
