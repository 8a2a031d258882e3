/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/io.h"
#include "policy/policy.h"

/* Valid and broken policies with random changes: each is taken or refused, with words, and what is taken
 * prints and parses back to itself. Under the sanitizers this is where a reader's bad arithmetic shows.
 * argv[1] is the top of the source tree. */

static const char *top;
static uint64_t random_state = 0x9e3779b97f4a7c15u;

static size_t dice(size_t n)
{
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        random_state ^= random_state << 17;
        return (size_t) (random_state % n);
}

static const char *const seeds[] = {
        "policy.d/default.policy",
        "policy.d/python.policy",
        "policy.d/strict.policy",
        "tests/golden/errors/many.policy",
        "tests/golden/errors/rules.policy",
        "tests/golden/errors/addresses.policy",
        "tests/golden/errors/not-together.policy",
        "tests/golden/policy/build.txt",
        "tests/golden/policy/node.txt",
};

static const char *const pieces[] = {
        "\\\n",
        "\n",
        "[",
        "]",
        "=",
        "#",
        "\n[Limits]\n",
        "\n[Network]\nAllow=",
        "tcp [",
        "]:",
        "/0",
        "*.",
        "@",
        ":",
        "%",
        "..",
        "\xc2",
        "\xff",
        "\x00",
        "99999999999999999999",
        "-1",
        "Egress=addresses\n",
        "Extends=default\n",
        " ",
        "\t",
        "Set=",
        "=\\",
};

static void mutate(Buf *b)
{
        for (size_t n = 1 + dice(6); n > 0; n--) {
                size_t at = b->size > 0 ? dice(b->size) : 0, length, i;
                _cleanup_buf_ Buf out = {};

                if (b->size == 0)
                        return;
                switch (dice(4)) {
                case 0:
                        b->data[at] = (uint8_t) dice(256);
                        continue;
                case 1:
                        length = 1 + dice(20);
                        buf_append(&out, b->data, at);
                        if (at + length < b->size)
                                buf_append(&out, b->data + at + length, b->size - at - length);
                        break;
                case 2:
                        i = dice(ELEMENTSOF(pieces));
                        buf_append(&out, b->data, at);
                        buf_append(&out, pieces[i], MAX2(strlen(pieces[i]), (size_t) 1));
                        buf_append(&out, b->data + at, b->size - at);
                        break;
                default:
                        i = dice(b->size);
                        length = dice(200);
                        length = MIN2(length, b->size - i);
                        buf_append(&out, b->data, at);
                        buf_append(&out, b->data + i, length);
                        buf_append(&out, b->data + at, b->size - at);
                }
                buf_done(b);
                *b = out;
                out = (Buf){};
        }
}

static unsigned taken, refused;

static void try_one(const Buf *b)
{
        char dir[512], allow[512];
        const char *const dirs[] = { dir, NULL };
        _cleanup_policy_ Policy *p = NULL, *again = NULL;
        _cleanup_error_ Error *e = NULL, *e2 = NULL;
        _cleanup_free_ char *text = NULL, *second = NULL;
        int r;

        snprintf(dir, sizeof(dir), "%s/policy.d", top);
        snprintf(allow, sizeof(allow), "%s/tests/golden/allow.d", top);
        r = policy_load_text("m.policy", (const char *) b->data, b->size, dirs, allow, &p, &e);
        if (r < 0) {
                assert_int_equal(r, -EINVAL);
                assert_non_null(e);
                assert_true(strlen(e->message) > 0);
                refused++;
                return;
        }
        taken++;
        text = policy_to_text(p);
        r = policy_load_text("again.policy", text, strlen(text), dirs, allow, &again, &e2);
        if (r < 0)
                fail_msg("%s\n%s", e2->message, text);
        second = policy_to_text(again);
        assert_string_equal(text, second);
        policy_check_enforceable(p, dice(2), NULL);
}

static void test_mutations(void **state)
{
        for (size_t i = 0; i < ELEMENTSOF(seeds); i++) {
                _cleanup_free_ char *text = NULL;
                char path[512];
                size_t size;

                snprintf(path, sizeof(path), "%s/%s", top, seeds[i]);
                assert_int_equal(read_file(path, 1 << 20, &text, &size), 0);
                for (unsigned round = 0; round < 300; round++) {
                        _cleanup_buf_ Buf b = {};

                        assert_int_equal(buf_append(&b, text, size), 0);
                        mutate(&b);
                        try_one(&b);
                }
        }
        /* Else this test has seen one side only. */
        assert_true(taken > 100);
        assert_true(refused > 100);
}

/* The same for what comes from a caller: never wider, never broken. */
static void test_assignments(void **state)
{
        static const char *const seeds_set[] = { "Limits.Memory=128M", "Network.Allow=tls a.example.org",
                "Syscalls.Deny=@network ptrace", "Files.Expose=/srv/a", "Files.Credential=a:/etc/a",
                "Limits.Runtime=1h 30min", "Network.Egress=none" };

        for (unsigned round = 0; round < 2000; round++) {
                const char *seed = seeds_set[dice(ELEMENTSOF(seeds_set))];
                _cleanup_policy_ Policy *p = policy_new("x");
                _cleanup_error_ Error *e = NULL;
                _cleanup_free_ char *assignment = NULL;
                _cleanup_buf_ Buf b = {};
                int r;

                assert_non_null(p);
                buf_append(&b, seed, strlen(seed));
                mutate(&b);
                assignment = strndup((const char *) b.data ? (const char *) b.data : "", b.size);
                r = policy_tighten(p, assignment, false, &e);
                if (r < 0) {
                        assert_true(r == -EINVAL || r == -EPERM);
                        assert_non_null(e);
                } else {
                        assert_true(policy_u64(p, LIMITS_MEMORY) <= 256 << 20);
                        assert_null(policy_list(p, NETWORK_ALLOW));
                        assert_null(policy_list(p, FILES_EXPOSE));
                        assert_null(policy_list(p, FILES_CREDENTIAL));
                }
        }
}

int main(int argc, char **argv)
{
        static const struct CMUnitTest tests[] = { cmocka_unit_test(test_mutations),
                cmocka_unit_test(test_assignments) };

        if (argc < 2)
                return 2;
        top = argv[1];
        return cmocka_run_group_tests(tests, NULL, NULL);
}
