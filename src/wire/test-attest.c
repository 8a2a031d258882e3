/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "wire/attest.h"
#include "wire/test-mutate.h"

/* A value of its own in each field, so that two that were exchanged are seen. */
static Attest sample(void)
{
        Attest a = {
                .pid = 1234,
                .uid = { 61184, 61185, 61186, 61187 },
                .gid = { 1, 2, 3, 4 },
                .n_groups = 2,
                .cap_inheritable = 0x101,
                .cap_permitted = 0x102,
                .cap_effective = 0x103,
                .cap_bounding = 0x1ffffffffff,
                .cap_ambient = 0x105,
                .no_new_privs = true,
                .securebits = 0xef,
                .seccomp_mode = 2,
                .seccomp_filters = 17,
                .dumpable = 3,
                .n_fds = 2,
                .n_limits = 2,
                .keyring_error = 126,
                .landlock_abi = -95,
                .oom_score_adj = -1000,
                .umask = 022,
        };

        a.groups = calloc(2, sizeof(uint32_t));
        a.groups[0] = 0;
        a.groups[1] = UINT32_MAX;
        for (size_t i = 0; i < _ATTEST_NS_MAX; i++)
                a.ns[i] = 4026531840 + i;
        for (size_t i = 0; i < _ATTEST_FS_MAX; i++)
                a.fs[i] = (AttestFs){ 0xff534d42 + i, 1 + i, 1ull << 40 | i, 65536 + i, (int32_t) i };
        for (size_t i = 0; i < _PROBE_MAX; i++)
                a.probes[i] = (int32_t) i - 1;
        a.fds = calloc(2, sizeof(AttestFd));
        a.fds[0] = (AttestFd){ 0, strdup("socket:[123]") };
        a.fds[1] = (AttestFd){ 1, strdup("/dev/null") };
        a.limits = calloc(2, sizeof(AttestLimit));
        a.limits[0] = (AttestLimit){ 7, 1024, 4096 };
        a.limits[1] = (AttestLimit){ 4, 0, UINT64_MAX };
        a.mountinfo = strdup("1 2 0:1 / / rw\n");
        a.cgroup = strdup("0::/x\n");
        a.netdev = strdup("lo: 0\n");
        a.keyring = strdup("keyring;1;2;3f030000;_ses");
        a.hostname = strdup("sandbox");
        assert_int_equal(strv_extend(&a.environ_, "A=\xff"), 0);
        assert_int_equal(strv_extend(&a.environ_, ""), 0);
        return a;
}

static void test_round_trip(void **state)
{
        Attest in = sample(), out;
        Buf b = {};

        assert_int_equal(attest_encode(&in, &b), 0);
        assert_int_equal(attest_decode(b.data, b.size, &out), 0);
#define SAME(f) assert_memory_equal(&in.f, &out.f, sizeof(in.f))
        SAME(pid);
        SAME(uid);
        SAME(gid);
        SAME(n_groups);
        SAME(cap_inheritable);
        SAME(cap_permitted);
        SAME(cap_effective);
        SAME(cap_bounding);
        SAME(cap_ambient);
        SAME(no_new_privs);
        SAME(securebits);
        SAME(seccomp_mode);
        SAME(seccomp_filters);
        SAME(dumpable);
        SAME(ns);
        SAME(n_fds);
        SAME(n_limits);
        SAME(keyring_error);
        SAME(landlock_abi);
        SAME(oom_score_adj);
        SAME(umask);
        SAME(probes);
        assert_memory_equal(in.groups, out.groups, 2 * sizeof(uint32_t));
        for (size_t i = 0; i < _ATTEST_FS_MAX; i++) {
                SAME(fs[i].type);
                SAME(fs[i].flags);
                SAME(fs[i].bytes);
                SAME(fs[i].inodes);
                SAME(fs[i].error);
        }
        for (size_t i = 0; i < 2; i++) {
                SAME(fds[i].fd);
                assert_string_equal(in.fds[i].target, out.fds[i].target);
                SAME(limits[i].resource);
                SAME(limits[i].soft);
                SAME(limits[i].hard);
                assert_string_equal(in.environ_[i], out.environ_[i]);
        }
        assert_null(out.environ_[2]);
        assert_string_equal(in.mountinfo, out.mountinfo);
        assert_string_equal(in.cgroup, out.cgroup);
        assert_string_equal(in.netdev, out.netdev);
        assert_string_equal(in.keyring, out.keyring);
        assert_string_equal(in.hostname, out.hostname);
        attest_done(&out);
        attest_done(&in);
        buf_done(&b);
}

static uint64_t digest(const uint8_t *p, size_t n)
{
        uint64_t h = 0xcbf29ce484222325; /* FNV-1a */

        for (size_t i = 0; i < n; i++)
                h = (h ^ p[i]) * 0x100000001b3;
        return h;
}

/* What the bytes are must not change without the magic number changing, too. */
static void test_golden(void **state)
{
        Attest in = sample();
        Buf b = {};

        assert_int_equal(attest_encode(&in, &b), 0);
        assert_memory_equal(b.data,
                        "ABA2\xd2\4\0\0"
                        "\4\0\0\0"
                        "\0\xef\0\0"
                        "\1\xef\0\0",
                        20);
        assert_int_equal(b.size, 852);
        assert_int_equal(digest(b.data, b.size), 0x5ca8cc99ed7335cb);
        buf_done(&b);
        attest_done(&in);
}

/* Nothing set: no pointer is needed by the encoder, none is missing after the decoder. */
static void test_empty(void **state)
{
        Attest in = {}, out;
        Buf b = {};

        assert_int_equal(attest_encode(&in, &b), 0);
        assert_int_equal(attest_decode(b.data, b.size, &out), 0);
        assert_string_equal(out.mountinfo, "");
        assert_string_equal(out.hostname, "");
        assert_non_null(out.environ_);
        assert_int_equal(out.n_fds + out.n_groups + out.n_limits, 0);
        attest_done(&out);
        buf_done(&b);
}

static void test_bounds(void **state)
{
        Attest in = sample(), out;
        Buf b = {};

        free(in.mountinfo);
        in.mountinfo = malloc(ATTEST_TEXT_MAX + 2);
        memset(in.mountinfo, 'x', ATTEST_TEXT_MAX + 1);
        in.mountinfo[ATTEST_TEXT_MAX] = 0;
        assert_int_equal(attest_encode(&in, &b), 0);
        assert_int_equal(attest_decode(b.data, b.size, &out), 0);
        attest_done(&out);
        buf_done(&b);

        in.mountinfo[ATTEST_TEXT_MAX] = 'x';
        in.mountinfo[ATTEST_TEXT_MAX + 1] = 0;
        assert_int_equal(attest_encode(&in, &b), -E2BIG);
        buf_done(&b);

        in.mountinfo[ATTEST_TEXT_MAX] = 0;
        free(in.netdev);
        in.netdev = strdup(in.mountinfo); /* each within its bound, both together not */
        assert_int_equal(attest_encode(&in, &b), -E2BIG);
        buf_done(&b);
        attest_done(&in);

        in = (Attest){ .n_fds = ATTEST_LIST_MAX + 1 };
        assert_int_equal(attest_encode(&in, &b), -E2BIG);
        in = (Attest){ .n_groups = ATTEST_LIST_MAX + 1 };
        assert_int_equal(attest_encode(&in, &b), -E2BIG);
        buf_done(&b);
}

static void test_hostile(void **state)
{
        Attest in = sample(), out;
        Buf b = {};

        memset(&out, 0x5a, sizeof(out));
        assert_int_equal(attest_encode(&in, &b), 0);
        for (size_t i = 0; i < b.size; i++)
                assert_int_equal(attest_decode(b.data, i, &out), -EBADMSG);
        buf_u8(&b, 0);
        assert_int_equal(attest_decode(b.data, b.size, &out), -EBADMSG);
        for (size_t i = 0; i < sizeof(out); i++) /* untouched on failure */
                assert_int_equal(((uint8_t *) &out)[i], 0x5a);
        buf_done(&b);
        attest_done(&in);
}

static int decode_and_encode(const void *p, size_t n)
{
        Attest a;
        Buf b = {};
        int r = attest_decode(p, n, &a);

        if (r < 0)
                return r;
        assert_int_equal(attest_encode(&a, &b), 0);
        assert_int_equal(b.size, n);
        assert_memory_equal(b.data, p, n);
        buf_done(&b);
        attest_done(&a);
        return 0;
}

static void test_mutations(void **state)
{
        Attest in = sample();
        Buf b = {};

        assert_int_equal(attest_encode(&in, &b), 0);
        mutate(b.data, b.size, 100000, decode_and_encode);
        buf_done(&b);
        attest_done(&in);
}

static void test_names(void **state)
{
        for (size_t i = 0; i < _PROBE_MAX; i++)
                assert_non_null(attest_probe_names[i]);
        for (size_t i = 0; i < _ATTEST_NS_MAX; i++)
                assert_non_null(attest_ns_names[i]);
        for (size_t i = 0; i < _ATTEST_FS_MAX; i++)
                assert_int_equal(attest_fs_paths[i][0], '/');
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_golden),
                cmocka_unit_test(test_empty),
                cmocka_unit_test(test_bounds),
                cmocka_unit_test(test_hostile),
                cmocka_unit_test(test_mutations),
                cmocka_unit_test(test_names),
        };

        return cmocka_run_group_tests_name("attest", tests, NULL, NULL);
}
