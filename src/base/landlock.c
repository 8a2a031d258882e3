/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/landlock.h"
#include "base/macro.h"

#define VERSION_FLAG (1u << 0)
#define RULE_PATH_BENEATH 1

typedef struct RulesetAttr {
        uint64_t handled_access_fs, handled_access_net, scoped;
} RulesetAttr;

/* Packed, as the kernel has it. */
typedef struct __attribute__((packed)) PathBeneath {
        uint64_t allowed_access;
        int32_t parent_fd;
} PathBeneath;

/* From version 1 on: all that it knows, and how much of the attribute it takes. A later one than these knows what the last does. */
static const struct {
        LandlockRights rights;
        size_t attr_size;
} abis[] = {
        { { 0x1fff, 0, 0 }, 8 },
        { { 0x3fff, 0, 0 }, 8 },
        { { 0x7fff, 0, 0 }, 8 },
        { { 0x7fff, LANDLOCK_NET_ALL, 0 }, 16 },
        { { 0xffff, LANDLOCK_NET_ALL, 0 }, 16 },
        { { 0xffff, LANDLOCK_NET_ALL, LANDLOCK_SCOPE_ALL }, 24 },
};

static size_t row(int abi)
{
        return MIN2((size_t) abi, ELEMENTSOF(abis)) - 1;
}

int landlock_abi(void)
{
        long r = syscall(SYS_landlock_create_ruleset, NULL, 0, VERSION_FLAG);

        return r < 0 ? -errno : (int) r;
}

LandlockRights landlock_known(int abi, LandlockRights wanted)
{
        const LandlockRights *known;

        if (abi < 1)
                return (LandlockRights){};
        known = &abis[row(abi)].rights;
        return (LandlockRights){ wanted.fs & known->fs, wanted.net & known->net, wanted.scopes & known->scopes };
}

int landlock_ruleset(int abi, LandlockRights rights)
{
        const RulesetAttr attr = { rights.fs, rights.net, rights.scopes };
        long fd;

        if (abi < 1)
                return -EOPNOTSUPP;
        fd = syscall(SYS_landlock_create_ruleset, &attr, abis[row(abi)].attr_size, 0);
        return fd < 0 ? -errno : (int) fd;
}

int landlock_allow_beneath(int ruleset_fd, int fd, uint64_t fs)
{
        const PathBeneath rule = { .allowed_access = fs, .parent_fd = fd };

        return syscall(SYS_landlock_add_rule, ruleset_fd, RULE_PATH_BENEATH, &rule, 0) < 0 ? -errno : 0;
}

int landlock_restrict(int ruleset_fd)
{
        /* No flag, LOG_NEW_EXEC_ON least of all: the kernel would write an audit record for each access that is refused, without a
         * bound, into the one queue that the whole host's records wait in. */
        return syscall(SYS_landlock_restrict_self, ruleset_fd, 0) < 0 ? -errno : 0;
}
