/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "wire/codec.h"
#include "wire/runspec.h"
#include "wire/test-mutate.h"

#define STRV(...) ((char *[]){ __VA_ARGS__, NULL })
#define S(s) ((char *) (s))

static struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xc000003e, 1, 2),
        BPF_STMT(BPF_RET | BPF_K, 0x7fff0000),
};

static char *sample_argv[] = { S("/bin/sh"), S(""), S("\x01\xff"), NULL };
static char *sample_env[] = { S("A=1"), S("B="), NULL };
static RunLimit sample_limits[] = { { .resource = 7, .max = 1024 }, { .resource = 4, .max = UINT64_MAX } };
static uint32_t sample_recorded[] = { 272, 101 };
static char *sample_paths[] = { S("/workspace"), S("/tmp"), NULL };

/* Borrowed parts: never given to runspec_done(). */
static RunSpec sample(void)
{
        return (RunSpec){
                .argv = sample_argv,
                .env = sample_env,
                .cwd = S("/workspace"),
                .tty = true,
                .copy_in = true,
                .filter = program,
                .n_filter = ELEMENTSOF(program),
                .landlock_fs = 0x1122334455667788,
                .landlock_write = sample_paths,
                .landlock_exec_written = true,
                .landlock_scope = true,
                .landlock_abi = 7,
                .limits = sample_limits,
                .n_limits = ELEMENTSOF(sample_limits),
                .recorded = sample_recorded,
                .n_recorded = ELEMENTSOF(sample_recorded),
        };
}

static void assert_strv_equal(char *const *a, char *const *b)
{
        assert_int_equal(strv_length(a), strv_length(b));
        for (size_t i = 0; a && a[i]; i++)
                assert_string_equal(a[i], b[i]);
}

static void test_round_trip(void **state)
{
        RunSpec in = sample(), out;
        Buf b = {};

        assert_int_equal(runspec_encode(&in, &b), 0);
        assert_int_equal(runspec_decode(b.data, b.size, &out), 0);
        assert_strv_equal(in.argv, out.argv);
        assert_strv_equal(in.env, out.env);
        assert_strv_equal(in.landlock_write, out.landlock_write);
        assert_string_equal(in.cwd, out.cwd);
        assert_int_equal(in.n_filter, out.n_filter);
        assert_memory_equal(in.filter, out.filter, sizeof(program));
        assert_int_equal(in.landlock_fs, out.landlock_fs);
        assert_int_equal(in.landlock_abi, out.landlock_abi);
        assert_int_equal(out.n_limits, in.n_limits);
        for (uint32_t i = 0; i < in.n_limits; i++) {
                assert_int_equal(out.limits[i].resource, in.limits[i].resource);
                assert_int_equal(out.limits[i].max, in.limits[i].max);
        }
        assert_int_equal(out.n_recorded, in.n_recorded);
        assert_memory_equal(out.recorded, in.recorded, in.n_recorded * sizeof(*in.recorded));
        assert_true(out.tty && out.copy_in && out.landlock_exec_written && out.landlock_scope);
        runspec_done(&out);

        /* Each flag alone, so that none stands for another; and no list at all. */
        for (int i = 0; i < 4; i++) {
                in.tty = i == 0;
                in.copy_in = i == 3;
                in.landlock_exec_written = i == 1;
                in.landlock_scope = i == 2;
                in.env = in.landlock_write = NULL;
                buf_done(&b);
                assert_int_equal(runspec_encode(&in, &b), 0);
                assert_int_equal(runspec_decode(b.data, b.size, &out), 0);
                assert_int_equal(out.tty, i == 0);
                assert_int_equal(out.copy_in, i == 3);
                assert_int_equal(out.landlock_exec_written, i == 1);
                assert_int_equal(out.landlock_scope, i == 2);
                assert_non_null(out.env);
                assert_null(out.env[0]);
                runspec_done(&out);
        }
        buf_done(&b);
}

static void test_scope_start(void **state)
{
        static const uint8_t golden[] = "ABC1\6\0\0\0/a/b.c";
        _cleanup_buf_ Buf b = {};
        char *workspace = NULL;

        assert_int_equal(scope_start_encode("relative", &b), -EINVAL);
        assert_int_equal(scope_start_encode("/a/../b", &b), -EINVAL);
        assert_int_equal(scope_start_encode("/a/b.c", &b), 0);
        assert_int_equal(b.size, sizeof(golden) - 1);
        assert_memory_equal(b.data, golden, b.size);
        for (size_t n = 0; n < b.size; n++)
                assert_int_equal(scope_start_decode(b.data, n, &workspace), -EBADMSG);
        assert_null(workspace);
        assert_int_equal(scope_start_decode(b.data, b.size, &workspace), 0);
        assert_string_equal(workspace, "/a/b.c");
        free(workspace);
        workspace = NULL;
        b.data[8] = 'a'; /* no absolute path any more */
        assert_int_equal(scope_start_decode(b.data, b.size, &workspace), -EBADMSG);
        assert_null(workspace);
}

/* The bytes themselves: what they are must not change without the magic number changing, too. */
static void test_golden(void **state)
{
        static const uint8_t golden[] = "ABS4"
                                        "\3\0\0\0"
                                        "\7\0\0\0/bin/sh"
                                        "\0\0\0\0"
                                        "\2\0\0\0\x01\xff"
                                        "\2\0\0\0"
                                        "\3\0\0\0A=1"
                                        "\2\0\0\0B="
                                        "\12\0\0\0/workspace"
                                        "\1\1"
                                        "\3\0\0\0"
                                        "\x20\0\0\0\4\0\0\0"
                                        "\x15\0\1\2\x3e\0\0\xc0"
                                        "\6\0\0\0\0\0\xff\x7f"
                                        "\x88\x77\x66\x55\x44\x33\x22\x11"
                                        "\2\0\0\0"
                                        "\12\0\0\0/workspace"
                                        "\4\0\0\0/tmp"
                                        "\1\1"
                                        "\7\0\0\0"
                                        "\2\0\0\0"
                                        "\7\0\0\0\0\4\0\0\0\0\0\0"
                                        "\4\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"
                                        "\2\0\0\0"
                                        "\x10\1\0\0\x65\0\0\0";
        RunSpec in = sample();
        Buf b = {};

        assert_int_equal(runspec_encode(&in, &b), 0);
        assert_int_equal(b.size, sizeof(golden) - 1);
        assert_memory_equal(b.data, golden, b.size);
        buf_done(&b);
}

static void test_rules(void **state)
{
        static char *nothing[] = { NULL };
        static char equals[] = "=x", plain[] = "x", relative[] = "tmp", dots[] = "/a/../b", slash[] = "/a/",
                    twice[] = "//a";
        char *bad_env[] = { equals, plain }, *bad_paths[] = { relative, dots, slash, twice };
        RunSpec in;
        Buf b = {};

        in = sample(), in.argv = nothing;
        assert_int_equal(runspec_encode(&in, &b), -EINVAL);
        in = sample(), in.cwd = S("workspace");
        assert_int_equal(runspec_encode(&in, &b), -EINVAL);
        in = sample(), in.n_filter = 0;
        assert_int_equal(runspec_encode(&in, &b), -EINVAL);
        in = sample(), in.n_filter = RUNSPEC_FILTER_MAX + 1;
        assert_int_equal(runspec_encode(&in, &b), -E2BIG);
        for (size_t i = 0; i < ELEMENTSOF(bad_env); i++) {
                in = sample(), in.env = STRV(bad_env[i]);
                assert_int_equal(runspec_encode(&in, &b), -EINVAL);
        }
        for (size_t i = 0; i < ELEMENTSOF(bad_paths); i++) {
                in = sample(), in.landlock_write = STRV(bad_paths[i]);
                assert_int_equal(runspec_encode(&in, &b), -EINVAL);
        }
        assert_true(path_is_normal("/") && path_is_normal("/a/..b/.c/d."));
        assert_false(path_is_normal("") || path_is_normal("/.") || path_is_normal("/a/.") ||
                        path_is_normal("/..") || path_is_normal("//"));
        buf_done(&b);
}

static void test_size_bound(void **state)
{
        size_t n = RUNSPEC_SIZE_MAX - 1024;
        char *big = malloc(n + 2048);
        RunSpec in = sample(), out;
        Buf b = {};

        memset(big, 'x', n + 2047);
        big[n] = 0;
        in.argv = STRV(S("/bin/true"), big);
        assert_int_equal(runspec_encode(&in, &b), 0);
        assert_int_equal(runspec_decode(b.data, b.size, &out), 0);
        assert_int_equal(strlen(out.argv[1]), n);
        runspec_done(&out);
        buf_done(&b);
        big[n] = 'x';
        big[n + 2047] = 0;
        assert_int_equal(runspec_encode(&in, &b), -E2BIG);
        buf_done(&b);
        free(big);
}

/* Counts that promise more than there is cost nothing, and each prefix is refused. */
static void test_hostile(void **state)
{
        RunSpec in = sample(), out;
        Buf b = {};
        static const uint8_t many[] = "ABS1\0\0\1\0", most[] = "ABS1\xff\xff\xff\xff";

        memset(&out, 0x5a, sizeof(out));
        assert_int_equal(runspec_decode(many, sizeof(many) - 1, &out), -EBADMSG);
        assert_int_equal(runspec_decode(most, sizeof(most) - 1, &out), -EBADMSG);
        assert_int_equal(runspec_encode(&in, &b), 0);
        for (size_t i = 0; i < b.size; i++)
                assert_int_equal(runspec_decode(b.data, i, &out), -EBADMSG);
        buf_u8(&b, 0);
        assert_int_equal(runspec_decode(b.data, b.size, &out), -EBADMSG);
        for (size_t i = 0; i < sizeof(out); i++) /* untouched on failure */
                assert_int_equal(((uint8_t *) &out)[i], 0x5a);
        buf_done(&b);
}

static int decode_and_encode(const void *p, size_t n)
{
        RunSpec s;
        Buf b = {};
        int r = runspec_decode(p, n, &s);

        if (r < 0)
                return r;
        /* What is accepted has one form only. */
        assert_int_equal(runspec_encode(&s, &b), 0);
        assert_int_equal(b.size, n);
        assert_memory_equal(b.data, p, n);
        buf_done(&b);
        runspec_done(&s);
        return 0;
}

static void test_mutations(void **state)
{
        RunSpec in = sample();
        Buf b = {};

        assert_int_equal(runspec_encode(&in, &b), 0);
        mutate(b.data, b.size, 100000, decode_and_encode);
        buf_done(&b);
}

static void test_failure(void **state)
{
        static const uint8_t golden[] = "ABF1\3\0\0\0\15\0\0\0";
        ExecFailure out;
        Buf b = {};

        for (ExecStage s = 0; s < _EXEC_STAGE_MAX; s++) {
                ExecFailure in = { .stage = s, .error = ENOENT };

                assert_int_equal(exec_failure_encode(&in, &b), 0);
                assert_int_equal(b.size, EXEC_FAILURE_SIZE);
                assert_int_equal(exec_failure_decode(b.data, b.size, &out), 0);
                assert_int_equal(out.stage, s);
                assert_int_equal(out.error, ENOENT);
                assert_int_equal(exec_failure_exit_status(&out), s == EXEC_STAGE_EXECVE ? 127 : 125);
                assert_string_not_equal(exec_stage_to_string(s), "unknown");
                buf_done(&b);
        }
        assert_int_equal(exec_failure_exit_status(&(ExecFailure){ EXEC_STAGE_EXECVE, EACCES }), 126);
        assert_string_equal(exec_stage_to_string(_EXEC_STAGE_MAX), "unknown");
        assert_int_equal(exec_failure_encode(&(ExecFailure){ _EXEC_STAGE_MAX, 1 }, &b), -EINVAL);
        assert_int_equal(exec_failure_encode(&(ExecFailure){ EXEC_STAGE_CWD, 0 }, &b), -EINVAL);
        assert_int_equal(exec_failure_encode(&(ExecFailure){ EXEC_STAGE_TTY, EACCES }, &b), 0);
        assert_int_equal(b.size, sizeof(golden) - 1);
        assert_memory_equal(b.data, golden, b.size);
        for (size_t i = 0; i < b.size; i++)
                assert_int_equal(exec_failure_decode(b.data, i, &out), -EBADMSG);
        b.data[4] = _EXEC_STAGE_MAX;
        assert_int_equal(exec_failure_decode(b.data, b.size, &out), -EBADMSG);
        b.data[4] = 0, b.data[9] = 0x10; /* errno 4096 + 13 */
        assert_int_equal(exec_failure_decode(b.data, b.size, &out), -EBADMSG);
        b.data[9] = b.data[8] = 0;
        assert_int_equal(exec_failure_decode(b.data, b.size, &out), -EBADMSG);
        buf_done(&b);
}

static int decode_failure(const void *p, size_t n)
{
        ExecFailure f;
        int r = exec_failure_decode(p, n, &f);

        if (r >= 0)
                assert_true((unsigned) f.stage < _EXEC_STAGE_MAX && f.error > 0 && f.error < 4096);
        return r;
}

static void test_failure_mutations(void **state)
{
        Buf b = {};

        assert_int_equal(exec_failure_encode(&(ExecFailure){ EXEC_STAGE_CWD, EACCES }, &b), 0);
        mutate(b.data, b.size, 20000, decode_failure);
        buf_done(&b);
}

static int decode_copied(const void *p, size_t n)
{
        ExecCopied c;

        return exec_copied_decode(p, n, &c);
}

static void test_copied(void **state)
{
        static const uint8_t golden[] = "ABI1\1\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\3\0\0\0\0\0\0\0";
        ExecCopied out = {};
        ExecFailure f;
        Buf b = {};

        assert_int_equal(exec_copied_encode(&(ExecCopied){ 1, 512, 3 }, &b), 0);
        assert_int_equal(b.size, EXEC_COPIED_SIZE);
        assert_memory_equal(b.data, golden, b.size);
        for (size_t i = 0; i < b.size; i++)
                assert_int_equal(exec_copied_decode(b.data, i, &out), -EBADMSG);
        assert_int_equal(out.files, 0);
        assert_int_equal(exec_copied_decode(b.data, b.size, &out), 0);
        assert_true(out.files == 1 && out.bytes == 512 && out.left == 3);
        assert_int_equal(exec_failure_decode(b.data, b.size, &f), -EBADMSG);
        mutate(b.data, b.size, 20000, decode_copied);
        buf_done(&b);
}

static int decode_ended(const void *p, size_t n)
{
        ExecEnded e;
        int r = exec_ended_decode(p, n, &e);

        if (r >= 0)
                assert_in_range(exec_ended_exit_status(&e), 0, 255);
        return r;
}

static void test_ended(void **state)
{
        static const struct {
                ExecEnded e;
                int exit_status; /* -1: is none */
        } cases[] = {
                { { CLD_EXITED, 0 }, 0 },
                { { CLD_EXITED, 255 }, 255 },
                { { CLD_KILLED, SIGKILL }, 137 },
                { { CLD_DUMPED, SIGSEGV }, 139 },
                { { CLD_KILLED, 64 }, 192 },
                { { CLD_EXITED, 256 }, -1 },
                { { CLD_EXITED, -1 }, -1 },
                { { CLD_KILLED, 0 }, -1 },
                { { CLD_KILLED, 65 }, -1 },
                { { CLD_STOPPED, SIGSTOP }, -1 },
                { { 0, 0 }, -1 },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                ExecEnded out = { -7, -7 };
                ExecFailure f;
                Buf b = {};

                if (cases[i].exit_status < 0) {
                        assert_int_equal(exec_ended_encode(&cases[i].e, &b), -EINVAL);
                        continue;
                }
                assert_int_equal(exec_ended_encode(&cases[i].e, &b), 0);
                assert_int_equal(b.size, EXEC_ENDED_SIZE);
                for (size_t n = 0; n < b.size; n++)
                        assert_int_equal(exec_ended_decode(b.data, n, &out), -EBADMSG);
                assert_int_equal(out.code, -7);
                assert_int_equal(exec_ended_decode(b.data, b.size, &out), 0);
                assert_memory_equal(&out, &cases[i].e, sizeof(out));
                assert_int_equal(exec_ended_exit_status(&out), cases[i].exit_status);
                assert_int_equal(exec_failure_decode(b.data, b.size, &f), -EBADMSG);
                mutate(b.data, b.size, 5000, decode_ended);
                buf_done(&b);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_golden),
                cmocka_unit_test(test_scope_start),
                cmocka_unit_test(test_rules),
                cmocka_unit_test(test_size_bound),
                cmocka_unit_test(test_hostile),
                cmocka_unit_test(test_mutations),
                cmocka_unit_test(test_failure),
                cmocka_unit_test(test_failure_mutations),
                cmocka_unit_test(test_copied),
                cmocka_unit_test(test_ended),
        };

        return cmocka_run_group_tests_name("runspec", tests, NULL, NULL);
}
