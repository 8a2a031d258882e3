/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "base/io.h"
#include "test-exec-harness.h"
#include "wire/tree-receive.h"

static Harness harness;
static TreeEncoder stream;

/* ---- streams, made by hand */

static void add(TreeType type, const char *name, const char *target)
{
        static TreeItem i;

        i = (TreeItem){ .type = type, .mode = type == TREE_DIR ? 0755 : 0644, .mtime = 1000000000 };
        strcpy(i.name, name);
        strcpy(i.target, target);
        if (type == TREE_END) {
                i.entries = stream.state.entries;
                i.bytes = stream.state.bytes;
                i.left = stream.state.left;
        }
        if (type == TREE_FAIL)
                i.reason = TREE_FAIL_FILES;
        if (type == TREE_LEFT)
                i.reason = TREE_LEFT_FIFO;
        assert_int_equal(tree_encode(&stream, &i), 0);
}

static void add_file(const char *name, const char *text)
{
        static TreeItem i;

        add(TREE_FILE, name, "");
        i = (TreeItem){ .type = TREE_DATA, .data = (const uint8_t *) text, .n_data = strlen(text) };
        assert_int_equal(tree_encode(&stream, &i), 0);
        i = (TreeItem){ .type = TREE_EOF, .size = strlen(text) };
        assert_int_equal(tree_encode(&stream, &i), 0);
}

static int begin(void **state)
{
        return tree_encoder_init(&stream);
}

/* What the streams made. */
static int end(void **state)
{
        _cleanup_close_ int fd = open(harness.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        static const char *const names[] = { "new", "link" };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                (void) tree_remove(fd, names[i]);
        tree_encoder_done(&stream);
        return 0;
}

typedef struct Change {
        void (*change)(RunSpec *s);
        const char *script;
} Change;

/* The stream as it is now, then its end; the script is the workload. */
static void run_with_stream(const Change *c, Outcome *ret)
{
        Shim s = harness_start(&harness, NULL);
        Attest a;
        RunSpec spec;
        int fds[2];

        harness_attested(&s, &a);
        assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
        assert_int_equal(write_full(fds[1], stream.data, stream.size), 0);
        spec = harness_spec(&harness, &a, STRV(S("/bin/sh"), S("-c"), S(c->script)),
                        STRV(S("PATH=/usr/bin:/bin")));
        spec.copy_in = true;
        s.copy_in = fds[0];
        if (c->change)
                c->change(&spec);
        harness_send(&s, &spec);
        close(fds[1]);
        harness_finish(&s, ret);
        runspec_done(&spec);
        attest_done(&a);
}

/* ---- */

static void test_files(void **state)
{
        Outcome o;

        add(TREE_TOP, "new/deep/src", "");
        add(TREE_DIR, "", "");
        add_file("f", "hello");
        add(TREE_LINK, "l", "f");
        add(TREE_DIR, "d", "");
        add(TREE_LINK, "up", "../f");
        add(TREE_LEFT, "fifo", "");
        add(TREE_UP, "", "");
        add(TREE_UP, "", "");
        add(TREE_TOP, "new/g", "");
        add_file("", "second");
        add(TREE_END, "", "");
        run_with_stream(&(Change){ .script = "cd new/deep/src && cat f l d/up && echo && cat ../../g && "
                                             "echo && stat -c '%a %Y %U' f && "
                                             "id -un && grep SigIgn /proc/self/status && ls /proc/self/fd | "
                                             "wc -l" },
                        &o);
        assert_exit(&o, 0);
        assert_line(&o, "hellohellohello");
        assert_line(&o, "second");
        assert_true(strstr(o.out, "644 1000000000"));
        assert_line(&o, "SigIgn:\t0000000000000000");
        assert_line(&o, "4"); /* and that of ls: nothing stayed open */
        assert_true(o.has_copied);
        assert_true(o.copied.files == 6 && o.copied.bytes == 11 && o.copied.left == 1);
        outcome_done(&o);
}

static void set_cwd(RunSpec *s)
{
        free(s->cwd);
        assert_true(asprintf(&s->cwd, "%s/new/sub", harness.directory) > 0);
}

static void test_starts_in_what_came(void **state)
{
        Outcome o;

        add(TREE_TOP, "new", "");
        add(TREE_DIR, "", "");
        add(TREE_DIR, "sub", "");
        add_file("f", "here");
        add(TREE_UP, "", "");
        add(TREE_UP, "", "");
        add(TREE_END, "", "");
        run_with_stream(&(Change){ .change = set_cwd, .script = "cat f; echo" }, &o);
        assert_exit(&o, 0);
        assert_line(&o, "here");
        outcome_done(&o);
}

static void assert_unpack_fails(void (*change)(RunSpec *s), int error)
{
        Outcome o;

        run_with_stream(&(Change){ .change = change, .script = "echo ran" }, &o);
        assert_failure(&o, EXEC_STAGE_UNPACK, error, EXEC_EXIT_FAILED);
        assert_false(o.has_copied);
        outcome_done(&o);
}

static void test_no_stream(void **state)
{
        stream.size = 0;
        assert_unpack_fails(NULL, EBADMSG);
        memcpy(stream.data, "GET / HTTP/1.1\r\n", 16);
        stream.size = 16;
        assert_unpack_fails(NULL, EBADMSG);
}

static void test_cut_stream(void **state)
{
        add(TREE_TOP, "new", "");
        add_file("", "hello");
        assert_unpack_fails(NULL, EBADMSG);
}

static void test_sender_gives_up(void **state)
{
        add(TREE_TOP, "new", "");
        add_file("", "hello");
        add(TREE_FAIL, "x", "");
        assert_unpack_fails(NULL, EREMOTEIO);
}

/* A directory that is a link, planted by an earlier stream or whatever. */
static void test_link_in_the_way(void **state)
{
        _cleanup_close_ int fd = open(harness.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        char outside[] = "/tmp/agentbox-test-unpack-XXXXXX";

        assert_non_null(mkdtemp(outside));
        assert_int_equal(chmod(outside, 0777), 0);
        assert_int_equal(symlinkat(outside, fd, "link"), 0);
        add(TREE_TOP, "link", "");
        add(TREE_DIR, "", "");
        add_file("f", "x");
        add(TREE_UP, "", "");
        add(TREE_END, "", "");
        assert_unpack_fails(NULL, ENOTDIR);
        assert_int_equal(rmdir(outside), 0); /* nothing is in it */
}

static void test_nothing_is_overwritten(void **state)
{
        add(TREE_TOP, "new", "");
        add_file("", "x");
        add(TREE_TOP, "new", "");
        add_file("", "y");
        add(TREE_END, "", "");
        assert_unpack_fails(NULL, EEXIST);
}

/* ---- behind the walls of the workload */

static void refuse_call(RunSpec *s, unsigned nr, unsigned action)
{
        const struct sock_filter program[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, action),
                BPF_STMT(BPF_RET | BPF_K, 0x7fff0000 /* SECCOMP_RET_ALLOW */),
        };

        free(s->filter);
        s->filter = malloc(sizeof(program));
        memcpy(s->filter, program, sizeof(program));
        s->n_filter = ELEMENTSOF(program);
}

static void refuse_mkdirat(RunSpec *s)
{
        refuse_call(s, SYS_mkdirat, 0x00050000 | 77);
}

static void kill_at_sendmsg(RunSpec *s)
{
        refuse_call(s, SYS_sendmsg, 0x80000000 /* SECCOMP_RET_KILL_PROCESS */);
}

static void test_behind_the_filter(void **state)
{
        Outcome o;

        add(TREE_TOP, "new", "");
        add(TREE_DIR, "", "");
        add(TREE_UP, "", "");
        add(TREE_END, "", "");
        assert_unpack_fails(refuse_mkdirat, 77);
        /* What tells the broker goes past a policy without network. */
        run_with_stream(&(Change){ .change = kill_at_sendmsg, .script = "echo ran" }, &o);
        assert_exit(&o, 0);
        assert_line(&o, "ran");
        assert_true(o.has_copied);
        outcome_done(&o);
}

static void limit_file_size(RunSpec *s)
{
        s->limits = malloc(sizeof(*s->limits));
        s->limits[0] = (RunLimit){ .resource = RLIMIT_FSIZE, .max = 4 };
        s->n_limits = 1;
}

static void test_file_size(void **state)
{
        add(TREE_TOP, "new", "");
        add_file("", "hello");
        add(TREE_END, "", "");
        assert_unpack_fails(limit_file_size, EFBIG);
}

/* Nothing is unpacked; that it goes on to execve is told in any case. */
static void test_without(void **state)
{
        Outcome o;

        harness_run(&harness, STRV(harness.report, S("state")), NULL, &o);
        assert_exit(&o, 0);
        assert_true(o.has_copied && o.copied.files == 0 && o.copied.bytes == 0);
        outcome_done(&o);
}

int main(int argc, char *argv[])
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
        const struct CMUnitTest tests[] = {
                T(test_files),
                T(test_starts_in_what_came),
                T(test_no_stream),
                T(test_cut_stream),
                T(test_sender_gives_up),
                T(test_link_in_the_way),
                T(test_nothing_is_overwritten),
                T(test_behind_the_filter),
                T(test_file_size),
                T(test_without),
        };
        int r = harness_init(&harness, argc, argv);

        if (r != 0)
                return r == HARNESS_SKIP ? 0 : 2;
        r = cmocka_run_group_tests_name("exec-unpack", tests, NULL, NULL);
        harness_done(&harness);
        return r;
}
