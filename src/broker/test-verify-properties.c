/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "broker/test-verify-fixture.h"

static const char *const addresses[] = { "Network.Egress=addresses", "Network.Allow=10.0.0.0/8", NULL };

/* What PID 1 says of the unit: each property looser than it was sent, and settings that nobody sent. */

static void property_loose(Fixture *f)
{
        fixture_answer(f, "MemoryMax")->u++;
}

static void property_zero(Fixture *f)
{
        fixture_answer(f, "RuntimeMaxUSec")->u = 0;
}

static void property_missing(Fixture *f)
{
        fixture_answer(f, "PrivateIPC")->name = "PrivateOther";
}

static void property_bool(Fixture *f)
{
        fixture_answer(f, "PrivateDevices")->u = 0;
}

static void property_string(Fixture *f)
{
        fixture_replace(&fixture_answer(f, "KillMode")->s, "process");
}

static void property_syscall(Fixture *f)
{
        assert_int_equal(strv_extend(&fixture_answer(f, "SystemCallFilter")->l, "mount"), 0);
}

static void property_deny_list(Fixture *f)
{
        fixture_answer(f, "SystemCallFilter")->u = 0;
}

static void property_family(Fixture *f)
{
        assert_int_equal(strv_extend(&fixture_answer(f, "RestrictAddressFamilies")->l, "AF_PACKET"), 0);
}

static void property_path(Fixture *f)
{
        UnitProp *q = fixture_answer(f, "InaccessiblePaths");

        q->l = strv_free(q->l);
}

static void property_tmpfs(Fixture *f)
{
        fixture_replace(&fixture_answer(f, "TemporaryFileSystem")->l[1], "mode=0777");
}

static void property_bind(Fixture *f)
{
        UnitProp *q = fixture_answer(f, "BindReadOnlyPaths");

        assert_true(strv_extend(&q->l, "/root") == 0 && strv_extend(&q->l, "/srv") == 0);
}

static void property_exec(Fixture *f)
{
        assert_int_equal(strv_extend(&fixture_answer(f, "ExecStart")->l, "more"), 0);
}

static void property_umask(Fixture *f)
{
        fixture_answer(f, "UMask")->u = 0020;
}

static void property_score(Fixture *f)
{
        fixture_answer(f, "OOMScoreAdjust")->u = 499;
}

static void property_prefix(Fixture *f)
{
        assert_int_equal(strv_extend(&fixture_answer(f, "IPAddressAllow")->l, "169.254.0.0/16"), 0);
}

static void property_no_deny(Fixture *f)
{
        UnitProp *q = fixture_answer(f, "IPAddressDeny");

        q->l = strv_free(q->l);
}

/* clang-format off */
DO(setting_bind, fixture_extra(f, "BindPaths=/root"))
DO(setting_environment, fixture_extra(f, "Environment=A=1"))
DO(setting_restart, fixture_extra(f, "Restart=always"))
DO(setting_failure, fixture_extra(f, "FailureAction=reboot"))
DO(setting_user, fixture_extra(f, "User=root"))
DO(setting_group, fixture_extra(f, "Group=shadow"))
DO(setting_context, fixture_extra(f, "SELinuxContext=unconfined"))
DO(setting_devices, fixture_extra(f, "DeviceAllow=/dev/mem"))
DO(setting_stop, fixture_extra(f, "RefuseManualStop=1"))
DO(setting_nameless, fixture_extra(f, "Id="))

const Break property_breaks[] = {
        B("properties", property_loose), B("properties", property_zero), B("properties", property_missing),
        B("properties", property_bool), B("properties", property_string), B("properties", property_syscall),
        B("properties", property_deny_list), B("properties", property_family),
        B("properties", property_path), B("properties", property_tmpfs), B("properties", property_bind),
        B("properties", property_exec), B("properties", property_umask), B("properties", property_score),
        B("properties", property_prefix, addresses), B("properties", property_no_deny, addresses),
        B("settings", setting_bind), B("settings", setting_environment), B("settings", setting_restart),
        B("settings", setting_failure), B("settings", setting_user), B("settings", setting_group),
        B("settings", setting_context), B("settings", setting_devices), B("settings", setting_stop),
        B("settings", setting_nameless),
};
/* clang-format on */
const size_t n_property_breaks = ELEMENTSOF(property_breaks);
