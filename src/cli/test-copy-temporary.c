/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io.h"
#include "cli/copy-temporary.h"
#include "wire/tree-receive.h"

typedef struct Place {
        char path[64];
        int fd;
} Place;

static int setup(void **state)
{
        Place *p = calloc(1, sizeof(*p));

        assert_non_null(p);
        strcpy(p->path, "/tmp/test-copy-temporary-XXXXXX");
        assert_non_null(mkdtemp(p->path));
        p->fd = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(p->fd >= 0);
        *state = p;
        return 0;
}

static int teardown(void **state)
{
        Place *p = *state;

        close(p->fd);
        assert_int_equal(tree_remove(AT_FDCWD, p->path), 0);
        free(p);
        return 0;
}

static bool is_there(const Place *p, const char *name)
{
        return faccessat(p->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) >= 0;
}

static void make(const Place *p, char name[COPY_TEMPORARY_NAME_SIZE], int *fd)
{
        assert_int_equal(copy_temporary_make(p->fd, name, fd), 0);
        assert_true(is_there(p, name));
}

static void make_entry(int dir_fd, const char *name)
{
        int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        close(fd);
}

static void directory(const Place *p, const char *name, mode_t mode, const char *entry)
{
        int fd;

        assert_int_equal(mkdirat(p->fd, name, 0700), 0);
        fd = openat(p->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(fd >= 0);
        make_entry(fd, entry);
        assert_int_equal(fchmod(fd, mode), 0);
        close(fd);
}

/* What a process leaves that is killed over it. */
static void leave(const Place *p, char name[COPY_TEMPORARY_NAME_SIZE])
{
        int fd;

        make(p, name, &fd);
        make_entry(fd, COPY_TEMPORARY_ENTRY);
        close(fd);
}

static void test_removed(void **state)
{
        Place *p = *state;
        char name[COPY_TEMPORARY_NAME_SIZE], kept[COPY_TEMPORARY_NAME_SIZE];
        int fd;

        make(p, name, &fd);
        make_entry(fd, COPY_TEMPORARY_ENTRY);
        memcpy(kept, name, sizeof(kept));
        copy_temporary_remove(p->fd, name, &fd);
        assert_false(is_there(p, kept));
        assert_int_equal(fd, -1);
        assert_string_equal(name, "");
        copy_temporary_remove(p->fd, name, &fd);
}

static void test_left_is_cleared_away(void **state)
{
        Place *p = *state;
        char left[2][COPY_TEMPORARY_NAME_SIZE], name[COPY_TEMPORARY_NAME_SIZE];
        int fd;

        leave(p, left[0]);
        leave(p, left[1]); /* which clears the first away */
        assert_false(is_there(p, left[0]));
        assert_true(is_there(p, left[1]));
        make(p, name, &fd);
        assert_false(is_there(p, left[1]));
        copy_temporary_remove(p->fd, name, &fd);
}

static void test_of_one_who_lives_stays(void **state)
{
        Place *p = *state;
        char a[COPY_TEMPORARY_NAME_SIZE], b[COPY_TEMPORARY_NAME_SIZE];
        int fd_a, fd_b;

        make(p, a, &fd_a);
        make_entry(fd_a, COPY_TEMPORARY_ENTRY);
        make(p, b, &fd_b);
        assert_true(is_there(p, a));
        copy_temporary_remove(p->fd, b, &fd_b);
        assert_true(is_there(p, a));
        copy_temporary_remove(p->fd, a, &fd_a);
}

/* Nobody's but the user's: only what a client can have made goes. */
static void test_of_others_stays(void **state)
{
        Place *p = *state;
        static const char *const kept[] = { ".agentbox-0123456789abcdef", ".agentbox-0123456789abcdee", ".agentbox-0123456789abcdeF",
                ".agentbox-0123456789abcde", ".agentbox-0123456789abcdef0", ".agentbox-0123456789abcded", ".agentbox-0123456789abcdec" };
        char name[COPY_TEMPORARY_NAME_SIZE];
        int fd;

        directory(p, kept[0], 0755, COPY_TEMPORARY_ENTRY);
        directory(p, kept[1], 0700, "other");
        for (size_t i = 2; i <= 4; i++)
                directory(p, kept[i], 0700, COPY_TEMPORARY_ENTRY);
        make_entry(p->fd, kept[5]);
        assert_int_equal(symlinkat(kept[2], p->fd, kept[6]), 0);
        make(p, name, &fd);
        for (size_t i = 0; i < ELEMENTSOF(kept); i++)
                if (!is_there(p, kept[i]))
                        fail_msg("%s is gone", kept[i]);
        copy_temporary_remove(p->fd, name, &fd);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_removed),
                TEST(test_left_is_cleared_away),
                TEST(test_of_one_who_lives_stays),
                TEST(test_of_others_stays),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
