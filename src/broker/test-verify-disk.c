/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <linux/magic.h>
#include <sys/statvfs.h>

#include "broker/test-verify-fixture.h"

const char *const disk_settings[] = { "Files.WorkspaceStore=disk", NULL };
const char *const strict_disk_settings[] = { "Files.WorkspaceStore=disk", "Syscalls.Profile=strict", NULL };

static void disk_big(Fixture *f)
{
        f->disk.bytes = (UINT64_C(256) << 20) + 1;
}

static void disk_unlimited(Fixture *f)
{
        f->disk.bytes = 0;
}

static void disk_inodes(Fixture *f)
{
        f->disk.inodes++;
}

static void disk_memory(Fixture *f)
{
        f->disk.type = TMPFS_MAGIC;
}

static void disk_dev(Fixture *f)
{
        f->disk.flags = ST_NOSUID;
}

static void disk_exec(Fixture *f)
{
        f->disk.flags = ST_NOSUID | ST_NODEV;
}

static void disk_read_only(Fixture *f)
{
        f->disk.flags |= ST_RDONLY;
}

static void disk_other(Fixture *f)
{
        f->disk.error = EXDEV;
}

static void disk_absent(Fixture *f)
{
        f->input.disk = NULL;
}

/* clang-format off */
const Break disk_breaks[] = {
        B("workspace", disk_big, disk_settings),
        B("workspace", disk_unlimited, disk_settings),
        B("workspace", disk_inodes, disk_settings),
        B("workspace", disk_memory, disk_settings),
        B("workspace", disk_dev, disk_settings),
        B("workspace", disk_exec, strict_disk_settings),
        B("workspace", disk_read_only, disk_settings),
        B("workspace", disk_other, disk_settings),
        B("workspace", disk_absent, disk_settings),
};
/* clang-format on */
const size_t n_disk_breaks = ELEMENTSOF(disk_breaks);
