/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * mask-syscall NAME... -- PROGRAM [ARG...]
 *
 * Executes PROGRAM under a filter by which the named system calls answer ENOSYS, as they do on a kernel that was built
 * without them. The lab starts its PID 1 through it, so everything in the lab lives on that poorer kernel. No
 * no_new_privs, which PID 1 must not have; that takes CAP_SYS_ADMIN instead.
 */

#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
        EXIT_BROKEN = 125,
};

static void die(const char *what, int error) {
        fprintf(stderr, "mask-syscall: %s: %s\n", what, strerror(error));
        exit(EXIT_BROKEN);
}

int main(int argc, char *argv[]) {
        scmp_filter_ctx filter;
        int i, r;

        filter = seccomp_init(SCMP_ACT_ALLOW);
        if (!filter)
                die("cannot start a filter", ENOMEM);

        r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, 0);
        if (r < 0)
                die("cannot do without no_new_privs", -r);

        for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
                int nr = seccomp_syscall_resolve_name(argv[i]);

                if (nr == __NR_SCMP_ERROR)
                        die(argv[i], ENOSYS);

                r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), nr, 0);
                if (r < 0)
                        die(argv[i], -r);
        }

        if (i + 1 >= argc)
                die("usage: mask-syscall NAME... -- PROGRAM [ARG...]", EINVAL);

        r = seccomp_load(filter);
        if (r < 0)
                die("cannot load the filter", -r);

        seccomp_release(filter);
        execv(argv[i + 1], argv + i + 1);
        die(argv[i + 1], errno);
}
