/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "broker/test-verify-fixture.h"

static void scope_of_another(Fixture *f)
{
        f->context.scope = true;
        f->context.uid = f->input.peer.uid + 1;
}

static void scope_of_root(Fixture *f)
{
        f->context.scope = true;
        f->context.uid = f->input.peer.uid = 0;
        memset(f->attest.uid, 0, sizeof(f->attest.uid));
}

static void scope_old_landlock(Fixture *f)
{
        f->context.scope = true;
        f->attest.landlock_abi = (int32_t) (f->host.landlock_abi = 2);
}

static void scope_other_landlock(Fixture *f)
{
        f->context.scope = true;
        f->attest.landlock_abi = 6;
        f->host.landlock_abi = 0;
}

static void scope_terminal(Fixture *f)
{
        f->context.scope = true;
        f->attest.probes[PROBE_OPEN_PTMX] = 0;
}

/* The fixture's process has no /proc/PID/exe, and no TracerPid. */
static void scope_other_program(Fixture *f)
{
        f->context.scope = true;
}

/* clang-format off */
const Break scope_breaks[] = {
        B("uid", scope_of_another), B("uid", scope_of_root),
        B("file-wall", scope_old_landlock), B("file-wall", scope_other_landlock),
        B("terminals", scope_terminal), B("process", scope_other_program),
};
/* clang-format on */
const size_t n_scope_breaks = ELEMENTSOF(scope_breaks);
