/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <unistd.h>

#include "broker/test-verify-fixture.h"

static const char *const strict[] = { "Syscalls.Profile=strict", NULL };

/* A run with a view, of which all holds. The directory is no overlay, which the mount table says and stat(2) does not. */
#define VIEW_TMPFS "60 50 0:41 / /workspace rw,nosuid,nodev - tmpfs tmpfs rw,size=256k\n"
#define VIEW_DISK "60 50 7:0 / /workspace rw,nosuid,nodev - ext4 /dev/loop0 rw\n"
#define VIEW_LAYERS "lowerdir=tree,upperdir=changes,workdir=work"
#define VIEW_OVERLAY(options, layers) "61 60 0:42 / /workspace " options " - overlay view rw," layers ",redirect_dir=nofollow\n"
#define VIEW_GOOD VIEW_OVERLAY("rw,nosuid,nodev,relatime", VIEW_LAYERS)

static void view_with(Fixture *f, const char *mountinfo)
{
        char path[512];

        fixture_write(f, "proc/4711/root/workspace/x", "");
        fixture_write(f, "proc/4711/mountinfo", mountinfo);
        fixture_path(f, "proc/4711/root/workspace", path);
        f->input.has_view = true;
        f->input.view_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        assert_true(f->input.view_fd >= 0);
}

static void view_of_another(Fixture *f)
{
        view_with(f, VIEW_TMPFS VIEW_GOOD);
        close(f->input.view_fd);
        f->input.view_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* clang-format off */
DO(view_none, view_with(f, VIEW_TMPFS))
DO(view_suid, view_with(f, VIEW_TMPFS VIEW_OVERLAY("rw,nodev", VIEW_LAYERS)))
DO(view_devices, view_with(f, VIEW_TMPFS VIEW_OVERLAY("rw,nosuid", VIEW_LAYERS)))
DO(view_executable, view_with(f, VIEW_TMPFS VIEW_GOOD))
DO(view_two_layers, view_with(f, VIEW_TMPFS VIEW_OVERLAY("rw,nosuid,nodev", "lowerdir=tree:etc,upperdir=changes,workdir=work")))
DO(view_other_upper, view_with(f, VIEW_TMPFS VIEW_OVERLAY("rw,nosuid,nodev", "lowerdir=tree,upperdir=/srv,workdir=work")))
DO(view_no_upper, view_with(f, VIEW_TMPFS VIEW_OVERLAY("rw,nosuid,nodev", "lowerdir=tree")))
DO(view_on_disk, view_with(f, VIEW_DISK VIEW_GOOD))
DO(view_in_memory, view_with(f, VIEW_TMPFS VIEW_GOOD))
DO(view_twice, view_with(f, VIEW_TMPFS VIEW_GOOD VIEW_GOOD))
DO(view_tree_beneath, view_with(f, VIEW_TMPFS "62 60 8:1 /home/a /workspace/tree ro,nosuid,nodev - ext4 ext4 rw\n" VIEW_GOOD))
DO(view_unread, view_with(f, "x\n"))

const Break view_breaks[] = {
        B("view", view_none), B("view", view_suid), B("view", view_devices), B("view", view_executable, strict),
        B("view", view_two_layers), B("view", view_other_upper), B("view", view_no_upper), B("view", view_on_disk), B("view", view_in_memory, disk_settings),
        B("view", view_twice), B("view", view_tree_beneath), B("view", view_of_another), B("view", view_unread),
};
/* clang-format on */
const size_t n_view_breaks = ELEMENTSOF(view_breaks);

static void check_view(const char *const *settings, const char *store)
{
        static const char beside[] = "63 50 8:1 / /workspaces rw,nosuid,nodev - ext4 ext4 rw\n";
        _cleanup_strv_ char **verified = NULL, **wrong = NULL;
        _cleanup_free_ char *table = NULL;
        Fixture f;

        fixture_init(&f, settings, true);
        assert_true(asprintf(&table, "%s%s%s", store, VIEW_GOOD, beside) > 0);
        view_with(&f, table);
        if (fixture_verify(&f, &verified, &wrong) != 0)
                fail_msg("%s", wrong ? wrong[0] : "error");
        assert_true(strv_contains(verified, "view"));
        close(f.input.view_fd);
        fixture_done(&f);
}

void test_view(void **state)
{
        check_view(fixture_filtered, VIEW_TMPFS);
        check_view(disk_settings, VIEW_DISK);
}

