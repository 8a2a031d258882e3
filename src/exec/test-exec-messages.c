/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/io.h"
#include "test-exec-harness.h"

static Harness harness;

static int memfd(const void *p, size_t n)
{
        int fd = memfd_sealed("runspec", p, n);

        assert_true(fd >= 0);
        return fd;
}

static void assert_message_refused(const char *payload, const int *fds, size_t n_fds, int error)
{
        Shim s = harness_start(&harness, NULL);
        Attest a;
        Outcome o;

        harness_attested(&s, &a);
        harness_send_message(&s, payload, fds, n_fds);
        harness_finish(&s, &o);
        assert_failure(&o, EXEC_STAGE_RECEIVE, error, EXEC_EXIT_FAILED);
        outcome_done(&o);
        attest_done(&a);
}

static void test_wrong_messages(void **state)
{
        RunSpec spec = harness_spec(&harness, &(Attest){ .landlock_abi = 1 }, STRV(S("/bin/true")), NULL);
        int fds[12], unsealed = memfd_create("runspec", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        Buf b = {};

        assert_int_equal(runspec_encode(&spec, &b), 0);
        assert_int_equal(write_full(unsealed, b.data, b.size), 0);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                fds[i] = i == 0 ? memfd(b.data, b.size) : open("/dev/null", O_RDWR | O_CLOEXEC);
        for (size_t n = 0; n <= ELEMENTSOF(fds); n++)
                if (n != RUNSPEC_FDS) /* one more, and the RunSpec does not say so, is wrong as well */
                        assert_message_refused(RUNSPEC_MESSAGE, fds, n, EBADMSG);
        assert_message_refused("agentbox-runspec 1", fds, RUNSPEC_FDS, EBADMSG);
        assert_message_refused(RUNSPEC_MESSAGE "x", fds, RUNSPEC_FDS, EBADMSG);
        assert_message_refused("agentbox", fds, RUNSPEC_FDS, EBADMSG);
        assert_message_refused("x", fds, RUNSPEC_FDS, EBADMSG);
        assert_message_refused(RUNSPEC_MESSAGE, (int[]){ unsealed, fds[1], fds[1], fds[1], fds[1] },
                        RUNSPEC_FDS, EPERM);
        assert_message_refused(RUNSPEC_MESSAGE, fds + 1, RUNSPEC_FDS, EINVAL); /* no memfd */
        close(fds[0]);
        for (size_t cut = 0; cut <= b.size; cut += 7) {
                Buf wrong = {};

                buf_append(&wrong, b.data, b.size - cut);
                if (cut == 0)
                        buf_u8(&wrong, 0);
                fds[0] = memfd(wrong.data, wrong.size);
                assert_message_refused(RUNSPEC_MESSAGE, fds, RUNSPEC_FDS, EBADMSG);
                close(fds[0]);
                buf_done(&wrong);
        }
        for (size_t i = 1; i < ELEMENTSOF(fds); i++)
                close(fds[i]);
        close(unsealed);
        buf_done(&b);
        runspec_done(&spec);
}

int main(int argc, char *argv[])
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_wrong_messages),
        };
        int r = harness_init(&harness, argc, argv);

        if (r != 0)
                return r == HARNESS_SKIP ? 0 : 2;
        r = cmocka_run_group_tests_name("exec-messages", tests, NULL, NULL);
        harness_done(&harness);
        return r;
}
