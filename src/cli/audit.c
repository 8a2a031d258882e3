/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/macro.h"
#include "cli/audit.h"
#include "wire/output.h"

#define WARDEN_PREFIX "agentbox-warden-"

static const struct {
        const char *name;
        bool denies;
        bool is_wardens; /* a warden may write it; the broker may write all */
} events[] = {
        { "run-requested", false, false },
        { "run-refused", true, false },
        { "run-verified", false, false },
        { "run-unverified", true, false },
        { "run-started", false, false },
        { "run-ended", false, false },
        { "egress-allowed", false, true },
        { "egress-denied", true, true },
        { "egress-closed", false, true },
        { "syscall-denied", true, true },
        { "tripwire", true, false },
        { "copy-in", false, false },
        { "copy-out", false, false },
        { "copy-refused", true, false },
        { "kernel-denied", true, false }, /* made of the kernel's own record, see journal-kernel.h; nobody writes one */
};

const char *audit_event_name(size_t i)
{
        return i < ELEMENTSOF(events) ? events[i].name : NULL;
}

bool audit_event_denies(const char *event)
{
        for (size_t i = 0; i < ELEMENTSOF(events); i++)
                if (streq(events[i].name, event))
                        return events[i].denies;
        return false;
}

static bool is_wardens(const char *event)
{
        for (size_t i = 0; event && i < ELEMENTSOF(events); i++)
                if (streq(events[i].name, event))
                        return events[i].is_wardens;
        return false;
}

bool audit_writer_is_trusted(const char *unit, const char *uid, const char *transport, const char *run, const char *event)
{
        const char *rest;
        size_t n;

        /* What a service prints ends up in the journal too, with its unit's name. */
        if (!unit || !uid || !transport || !streq(transport, "journal"))
                return false;
        if (streq(unit, AUDIT_BROKER_UNIT))
                return streq(uid, "0");
        rest = startswith(unit, WARDEN_PREFIX);
        if (!rest || !run || !*run || !is_wardens(event))
                return false;
        n = strlen(run);
        return strncmp(rest, run, n) == 0 && streq(rest + n, ".service");
}

bool audit_output_is_trusted(const char *unit, const char *transport)
{
        return unit && transport && startswith(unit, OUTPUT_UNIT_PREFIX) && streq(transport, "journal");
}
