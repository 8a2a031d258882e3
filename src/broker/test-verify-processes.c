/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/io.h"
#include "broker/test-verify-fixture.h"

/* A run with PIDs of its own: 4711 is its process, and 4710 the init of its namespace. */

#define INIT 4710

static void write_more(Fixture *f, const char *path, const char *text)
{
        char full[512];
        int fd;

        fixture_path(f, path, full);
        fd = open(full, O_WRONLY | O_APPEND | O_CLOEXEC);
        assert_true(fd >= 0 && write_full(fd, text, strlen(text)) == 0);
        close(fd);
}

static void write_init(Fixture *f, const char *with, const char *instead_of)
{
        static const char good[] = "Uid:\t61200\t61200\t61200\t61200\nTracerPid:\t0\nNSpid:\t4710\t1\n"
                                   "SigBlk:\t0000000000000000\nSigCgt:\t0000000000000000\nSeccomp_filters:\t32\n";
        const char *at = strstr(good, instead_of);
        char text[sizeof(good) + 64];

        assert_non_null(at);
        snprintf(text, sizeof(text), "%.*s%s%s", (int) (at - good), good, with, at + strlen(instead_of));
        fixture_write(f, "proc/4710/status", text);
}

static void copy_file(Fixture *f, const char *from, const char *to)
{
        char path[512], *text;
        size_t n;
        int fd;

        fixture_path(f, from, path);
        assert_int_equal(read_file(path, 4096, &text, &n), 0);
        fixture_write(f, to, "");
        fixture_path(f, to, path);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        assert_true(fd >= 0 && write_full(fd, text, n) == 0);
        close(fd);
        free(text);
}

void fixture_become_257(Fixture *f)
{
        char from[512], to[512];

        unit_props_done(&f->sent);
        unit_props_done(&f->answer);
        f->context.systemd_version = f->host.systemd_version = 257;
        assert_int_equal(unit_props_from_policy(f->policy, &f->context, &f->sent, NULL), 0);
        fixture_copy_props(&f->sent, &f->answer);
        fixture_replace(&f->attest.cgroup, "0::/\n");
        f->attest.pid = 2;
        f->input.main_pid = INIT;
        write_more(f, "proc/4711/status", "PPid:\t4710\nNSpid:\t4711\t2\nTracerPid:\t0\n");
        write_init(f, "", "");
        copy_file(f, "proc/4711/cmdline", "proc/4710/cmdline");
        fixture_write(f, "proc/4710/ns/x", "");
        fixture_path(f, "proc/4711/ns/pid", from);
        fixture_path(f, "proc/4710/ns/pid", to);
        assert_int_equal(link(from, to), 0);
}

#define CHANGED(name, statement)       \
        static void name(Fixture *f)   \
        {                              \
                fixture_become_257(f); \
                statement;             \
        }

/* clang-format off */
CHANGED(pids_of_host, f->host.ns[ATTEST_NS_PID] = f->attest.ns[ATTEST_NS_PID])
CHANGED(pids_unreported, f->attest.ns[ATTEST_NS_PID] = 0)
CHANGED(pids_not_sent_back, fixture_replace(&fixture_answer(f, "PrivatePIDs")->s, "no"))
CHANGED(pid_other, f->attest.pid = 3)
CHANGED(main_is_the_shim, f->input.main_pid = f->input.peer.pid)
CHANGED(main_unknown, f->input.main_pid = 0)
CHANGED(main_is_another, f->input.main_pid = INIT + 1)
CHANGED(init_gone, fixture_unlink(f, "proc/4710/status"))
CHANGED(init_is_second, write_init(f, "4710\t2", "4710\t1"))
CHANGED(init_is_deeper, write_init(f, "4710\t5\t1", "4710\t1"))
CHANGED(init_is_of_host, write_init(f, "4710\n", "4710\t1\n"))
CHANGED(init_is_root, write_init(f, "Uid:\t0", "Uid:\t61200"))
CHANGED(init_traced, write_init(f, "TracerPid:\t4711", "TracerPid:\t0"))
CHANGED(init_handles, write_init(f, "SigCgt:\t0000000000010000", "SigCgt:\t0000000000000000"))
CHANGED(init_blocks, write_init(f, "SigBlk:\t0000000000010000", "SigBlk:\t0000000000000000"))
CHANGED(init_unfiltered, write_init(f, "filters:\t31", "filters:\t32"))
CHANGED(init_program, fixture_write(f, "proc/4710/cmdline", "/bin/sh"))
CHANGED(init_elsewhere, fixture_unlink(f, "proc/4710/ns/pid"); fixture_write(f, "proc/4710/ns/pid", ""))
/* Whoever runs this owns its files: as the run, it may look into them. */
CHANGED(init_dumpable, f->input.peer.uid = getuid())

const Break process_breaks[] = {
        B("processes", pids_of_host, .v2 = true), B("processes", pids_unreported, .v2 = true), B("properties", pids_not_sent_back, .v2 = true),
        B("processes", pid_other, .v2 = true), B("processes", main_is_the_shim, .v2 = true), B("processes", main_unknown, .v2 = true),
        B("processes", main_is_another, .v2 = true), B("processes", init_gone, .v2 = true), B("processes", init_is_second, .v2 = true),
        B("processes", init_is_deeper, .v2 = true), B("processes", init_is_of_host, .v2 = true), B("processes", init_is_root, .v2 = true),
        B("processes", init_traced, .v2 = true), B("processes", init_handles, .v2 = true), B("processes", init_blocks, .v2 = true),
        B("processes", init_unfiltered, .v2 = true), B("processes", init_program, .v2 = true), B("processes", init_elsewhere, .v2 = true),
        B("processes", init_dumpable, .v2 = true),
};
/* clang-format on */
const size_t n_process_breaks = ELEMENTSOF(process_breaks);
