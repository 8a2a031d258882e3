/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "wire/tree-receive.h"

/* One transfer through a pipe, from/src to to/dst, both in a directory that each test has for itself. Everything asserts. */

extern char base[]; /* its path */
extern int base_fd, from_fd, to_fd;
int set_up(void **state);
int tear_down(void **state);
#define TREE_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

void put(int dir, const char *path, const char *text);
void assert_text(int dir, const char *path, const char *want);
bool exists(int dir, const char *path);
struct stat stat_of(int dir, const char *path);

typedef struct Transfer {
        /* In. */
        uint64_t max_entries, max_bytes; /* of the sender; 0: no limit */
        bool foreign, merge;
        const char *path; /* NULL: "dst" */
        const char *beside; /* in from: what src is a layer of; NULL: it is none */
        void (*change)(TreeSender *s);
        /* Out. */
        int sent, received;
        TreeFail fail;
        char fail_path[PATH_MAX];
        uint64_t entries, bytes, left;
        TreeLeft lefts[32];
        char left_paths[32][256];
        size_t n_lefts;
        char whole_paths[32][256]; /* directories of which all came */
        size_t n_wholes;
        TreeSender sender;
} Transfer;

/* Of a receiver with a Transfer, or with nothing, as its userdata. */
void note(void *userdata, const TreeState *s, const TreeItem *i);
int place(void *userdata, const char *path, TreePlace *ret);
/* A thread: what userdata, a Transfer, says. */
void *send_all(void *userdata);
int receive_all(TreeReceiver *r, int fd);

void transfer(Transfer *t);
void assert_whole(Transfer *t);
void assert_failed(Transfer *t, TreeFail reason, const char *path);
bool was_left(const Transfer *t, const char *path, TreeLeft reason);
