/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <linux/audit.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "policy/filter-tables.h"
#include "tests/filter/rows.h"
#include "tests/filter/simulate.h"
#include "tests/filter/syscall-number.h"

/* Three witnesses against the program: the rows written by hand, an evaluation of the tables that knows no
 * BPF, tried with every bit of every argument that a rule compares, and the count of instructions that none
 * of this ever reached. */

typedef struct Built {
        FilterSpec spec;
        struct sock_filter *code;
        size_t n;
        bool *covered;
} Built;

/* lacks × profile × OnDenied=kill */
static Built built[4][_FILTER_PROFILE_MAX][2];

static Built *build(unsigned lacks, unsigned profile, bool kill)
{
        Built *b = &built[lacks][profile][kill];

        if (b->code)
                return b;
        b->spec = (FilterSpec){
                .profile = profile,
                .unix_sockets = !(lacks & NO_UNIX),
                .inet_sockets = !(lacks & NO_INET),
                .kill_on_denied = kill,
        };
        assert_int_equal(filter_compile(&b->spec, &b->code, &b->n, NULL), 0);
        assert_true(filter_set_uid(b->code, b->n, ROW_UID) > 0);
        b->covered = calloc(b->n, sizeof(bool));
        assert_non_null(b->covered);
        return b;
}

static struct seccomp_data call_data(long nr, const uint64_t *args)
{
        struct seccomp_data d = {
                .nr = (int) nr, .arch = NATIVE_ARCH, .instruction_pointer = 0x123456789abc
        };

        if (args)
                memcpy(d.args, args, sizeof(d.args));
        return d;
}

static int ask(Built *b, long nr, const uint64_t *args)
{
        struct seccomp_data d = call_data(nr, args);

        return simulate_verdict(b->code, b->n, &d, b->covered);
}

/* One row in one profile: plain, and with garbage above each int. */
typedef struct RowCase {
        const FilterRow *row;
        unsigned profile;
} RowCase;

static void test_row(void **state)
{
        static const uint64_t garbage[] = { 0, UINT64_C(1) << 32, UINT64_C(1) << 63,
                UINT64_C(0xffffffff00000000), UINT64_C(0xdeadbeef00000000) };
        const RowCase *c = *state;
        Built *b = build(c->row->lacks, c->profile, false),
              *killing = build(c->row->lacks, c->profile, true);
        unsigned ints = filter_row_int_args(c->row->call);
        long nr = syscall_number(c->row->call);

        if (nr < 0)
                skip(); /* not on this architecture */
        for (size_t i = 0; i < ELEMENTSOF(garbage); i++) {
                uint64_t args[6];

                memcpy(args, c->row->args, sizeof(args));
                for (unsigned a = 0; a < 6; a++)
                        if (ints & (1u << a))
                                args[a] |= garbage[i];
                assert_int_equal(ask(b, nr, args), filter_row_verdict(c->row, false));
                assert_int_equal(ask(killing, nr, args), filter_row_verdict(c->row, true));
        }
}

/* What the tables say, for this uid. */
static uint64_t compare_value(const FilterCompare *c)
{
        return c->value == FILTER_SELF_PLACEHOLDER ? ROW_UID : c->value;
}

static bool compares_match(const FilterCompare *c, const uint64_t *args)
{
        for (size_t i = 0; i < FILTER_COMPARES_MAX && c[i].op != COMPARE_NONE; i++) {
                uint64_t v = args[c[i].arg] & c[i].mask;

                if (c[i].op == COMPARE_EQUAL ? v != compare_value(&c[i]) : v == 0)
                        return false;
        }
        return true;
}

typedef struct Call {
        const char *name;
        long nr;
        const FilterGroup *group;
} Call;

static Call call_find(const char *name)
{
        return (Call){ name, syscall_number(name), filter_group_of(name) };
}

static int expected(const FilterSpec *s, const Call *call, const uint64_t *args)
{
        bool conditional = false;

        for (size_t i = 0; i < filter_n_no_ops; i++)
                if (streq(filter_no_ops[i].call, call->name) &&
                                compares_match(filter_no_ops[i].compares, args))
                        return VERDICT_NO_OP;
        if ((int) s->profile > call->group->strictest)
                return call->group->refusal;
        for (size_t i = 0; i < filter_n_refusals; i++) {
                const FilterRefusal *r = &filter_refusals[i];

                if (streq(r->call, call->name) &&
                                (r->unless == NEED_NOTHING || !filter_spec_has(s, r->unless)) &&
                                compares_match(r->compares, args))
                        return r->error;
        }
        for (size_t i = 0; i < filter_n_grants; i++) {
                const FilterGrant *t = &filter_grants[i];

                if (!streq(t->call, call->name))
                        continue;
                conditional = true;
                if (s->profile <= t->strictest && filter_spec_has(s, t->need) &&
                                compares_match(t->compares, args))
                        return 0;
        }
        return conditional ? EPERM : 0;
}

static void check_against_tables(Built *b, const Call *call, const uint64_t *args)
{
        int is, must;

        if (call->nr < 0)
                return;
        is = ask(b, call->nr, args);
        must = expected(&b->spec, call, args);
        if (is != must)
                fail_msg("%s: %s(%#llx, %#llx, %#llx, %#llx): is %d, must be %d",
                                filter_profile_names[b->spec.profile], call->name,
                                (unsigned long long) args[0], (unsigned long long) args[1],
                                (unsigned long long) args[2], (unsigned long long) args[3], is, must);
}

/* The rule's own values, each of the 64 bits of each argument turned, one more and one less. */
static void check_around(Built *b, const char *name, const FilterCompare *c)
{
        const Call call = call_find(name);
        uint64_t args[6] = { 0 };

        for (size_t i = 0; i < FILTER_COMPARES_MAX && c[i].op != COMPARE_NONE; i++)
                args[c[i].arg] = c[i].op == COMPARE_EQUAL ? compare_value(&c[i]) : c[i].mask;
        check_against_tables(b, &call, args);
        for (unsigned bit = 0; bit < 6 * 64; bit++) {
                args[bit / 64] ^= UINT64_C(1) << bit % 64;
                check_against_tables(b, &call, args);
                args[bit / 64] ^= UINT64_C(1) << bit % 64;
        }
        for (size_t i = 0; i < FILTER_COMPARES_MAX && c[i].op != COMPARE_NONE; i++)
                for (unsigned step = 0; step < 2; step++) {
                        args[c[i].arg] += step ? 1 : UINT64_MAX;
                        check_against_tables(b, &call, args);
                        args[c[i].arg] -= step ? 1 : UINT64_MAX;
                }
}

static void check_unlike_anything(Built *b)
{
        uint64_t seed = 42, args[6];

        for (const char *const *name = filter_names; *name; name++) {
                Call call;

                if (**name == '@')
                        continue;
                call = call_find(*name);
                for (unsigned round = 0; round < 100; round++) {
                        for (unsigned i = 0; i < 6; i++) {
                                seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
                                /* Small numbers, single bits, whole words. */
                                args[i] = round % 3 == 0   ? seed >> 56
                                          : round % 3 == 1 ? UINT64_C(1) << (seed >> 58)
                                                           : seed;
                        }
                        check_against_tables(b, &call, args);
                }
        }
}

static void test_tables(void **state)
{
        Built *b = *state;

        for (size_t i = 0; i < filter_n_no_ops; i++)
                check_around(b, filter_no_ops[i].call, filter_no_ops[i].compares);
        for (size_t i = 0; i < filter_n_grants; i++)
                check_around(b, filter_grants[i].call, filter_grants[i].compares);
        for (size_t i = 0; i < filter_n_refusals; i++)
                check_around(b, filter_refusals[i].call, filter_refusals[i].compares);
        check_unlike_anything(b);
}

static void test_numbers(void **state)
{
        Built *b = *state;
        bool known[FILTER_NUMBER_MAX + 1] = { false };

        for (const char *const *call = filter_names; *call; call++)
                if (**call != '@' && syscall_number(*call) >= 0)
                        known[syscall_number(*call)] = true;
        for (long nr = 0; nr <= (long) FILTER_NUMBER_MAX; nr++)
                if (!known[nr])
                        assert_int_equal(ask(b, nr, NULL), EPERM);
        for (long nr = FILTER_NUMBER_MAX + 1; nr < 5000; nr++)
                assert_int_equal(ask(b, nr, NULL), ENOSYS);
        assert_int_equal(ask(b, 0x3fffffff, NULL), ENOSYS);
        /* What a tracer puts in to skip a call. */
        assert_int_not_equal(ask(b, -1, NULL), 0);
}

static void test_foreign(void **state)
{
        static const uint32_t foreign[] = { AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_RISCV64,
                AUDIT_ARCH_X86_64 ^ 1, 0, UINT32_MAX, AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64 };
        Built *b = *state;

        for (size_t i = 0; i < ELEMENTSOF(foreign); i++)
                for (long nr = 0; nr < 600; nr++) {
                        struct seccomp_data d = call_data(nr, NULL);

                        d.arch = foreign[i];
                        if (d.arch != NATIVE_ARCH)
                                assert_int_equal(simulate_verdict(b->code, b->n, &d, b->covered),
                                                VERDICT_KILL);
                }
        if (NATIVE_ARCH == AUDIT_ARCH_X86_64)
                for (long nr = 0; nr < 600; nr++) {
                        assert_int_equal(ask(b, 0x40000000 | nr, NULL), VERDICT_KILL);
                        assert_int_equal(ask(b, 0x7fffffff - nr, NULL), VERDICT_KILL);
                }
}

/* The second program asks again for what the first has settled: foreign architectures, and numbers that the
 * bound between them has cut off. libseccomp also ends each with a refusal that nothing jumps to. Neither
 * lets anything through. */
static bool may_be_unreachable(const struct sock_filter *i)
{
        return (i->code == (BPF_RET | BPF_K) && i->k == SECCOMP_RET_KILL_PROCESS) ||
               (i->code == (BPF_JMP | BPF_JEQ | BPF_K) && i->k == UINT32_MAX);
}

/* Runs last: the cases before it have marked what they reached. */
static void test_coverage(void **state)
{
        Built *b = *state;

        for (size_t i = 0; i < b->n; i++)
                if (!b->covered[i] && !may_be_unreachable(&b->code[i]))
                        fail_msg("%s: instruction %zu of %zu was never reached",
                                        filter_profile_names[b->spec.profile], i, b->n);
}

static bool some_row_touches(const char *call, const FilterCompare *c, int verdict)
{
        for (size_t i = 0; i < filter_n_rows; i++)
                if (streq(filter_rows[i].call, call) && filter_rows[i].verdict == verdict &&
                                compares_match(c, filter_rows[i].args))
                        return true;
        return false;
}

/* Each rule of the tables has a row that was written for it. */
static void test_rows_complete(void **state)
{
        for (size_t i = 0; i < filter_n_no_ops; i++)
                if (!some_row_touches(filter_no_ops[i].call, filter_no_ops[i].compares, VERDICT_NO_OP))
                        fail_msg("no row for no-op %zu (%s)", i, filter_no_ops[i].call);
        for (size_t i = 0; i < filter_n_grants; i++)
                if (!some_row_touches(filter_grants[i].call, filter_grants[i].compares, 0))
                        fail_msg("no row for grant %zu (%s)", i, filter_grants[i].call);
        for (size_t i = 0; i < filter_n_refusals; i++)
                if (!some_row_touches(filter_refusals[i].call, filter_refusals[i].compares,
                                    filter_refusals[i].error))
                        fail_msg("no row for refusal %zu (%s)", i, filter_refusals[i].call);
}

/* A stricter profile lets nothing through that a laxer one refuses. */
static void test_order(void **state)
{
        for (size_t r = 0; r < filter_n_rows; r++) {
                long nr = syscall_number(filter_rows[r].call);
                int before = 0;

                for (unsigned p = 0; nr >= 0 && p < _FILTER_PROFILE_MAX; p++) {
                        int v = ask(build(0, p, false), nr, filter_rows[r].args);

                        assert_false(v == 0 && before != 0);
                        before = v;
                }
        }
}

/* The other architecture's program, compiled here: the same tables, its own numbers. */
static void test_other_architecture(void **state)
{
        const FilterSpec spec = {
                .profile = FILTER_PROFILE_DEFAULT, .unix_sockets = true, .inet_sockets = true
        };
        static const struct {
                int nr, verdict;
                uint64_t arg;
        } calls[] = { { 63, 0, 0 }, { 220, 0, 17 }, { 220, EPERM, 0x10000000 }, { 435, ENOSYS, 0 },
                { 97, EPERM, 0 }, { 425, EPERM, 0 }, { 280, EPERM, 0 }, { 117, EPERM, 0 },
                { 600, ENOSYS, 0 }, { 221, 0, 0 }, { 146, VERDICT_NO_OP, ROW_UID }, { 146, EPERM, 0 } };
        _cleanup_free_ struct sock_filter *code = NULL;
        size_t n;

        assert_int_equal(filter_compile_for(&spec, AUDIT_ARCH_AARCH64, &code, &n, NULL), 0);
        assert_true(filter_set_uid(code, n, ROW_UID) > 0);
        for (size_t i = 0; i < ELEMENTSOF(calls); i++) {
                struct seccomp_data d = {
                        .nr = calls[i].nr, .arch = AUDIT_ARCH_AARCH64, .args = { calls[i].arg }
                };

                assert_int_equal(simulate_verdict(code, n, &d, NULL), calls[i].verdict);
                d.arch = AUDIT_ARCH_ARM;
                assert_int_equal(simulate_verdict(code, n, &d, NULL), VERDICT_KILL);
        }
}

static bool is_recorded(const char *call)
{
        for (const char *const *i = filter_recorded; *i; i++)
                if (streq(*i, call) || streq(*i, filter_group_of(call)->name))
                        return true;
        return false;
}

static size_t path_length(const struct sock_filter *code, size_t n, const struct seccomp_data *d)
{
        bool covered[BPF_MAXINSNS] = {};
        size_t length = 0;

        (void) simulate(code, n, d, covered);
        for (size_t i = 0; i < n; i++)
                length += covered[i];
        return length;
}

/* With a listener nothing changes but who answers for a refusal of those calls; and no instruction more stands before a call
 * that is allowed. */
static void check_recorded(unsigned profile, bool kill)
{
        const Built *plain = build(0, profile, kill);
        FilterSpec spec = plain->spec;
        _cleanup_free_ struct sock_filter *code = NULL;
        size_t n, refused = 0;

        spec.record_denied = true;
        assert_int_equal(filter_compile(&spec, &code, &n, NULL), 0);
        assert_true(filter_set_uid(code, n, ROW_UID) > 0);
        for (size_t i = 0; i < filter_n_rows; i++) {
                long nr = syscall_number(filter_rows[i].call);
                struct seccomp_data d = call_data(nr, filter_rows[i].args);
                uint32_t before = simulate(plain->code, plain->n, &d, NULL), after = simulate(code, n, &d, NULL),
                         refusal = kill ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM;
                bool on_record = nr >= 0 && before == refusal && is_recorded(filter_rows[i].call);

                if (nr >= 0 && after != (on_record ? SECCOMP_RET_USER_NOTIF : before))
                        fail_msg("row %zu, %s: %#x becomes %#x", i + 1, filter_rows[i].call, before, after);
                refused += on_record;
                if (nr >= 0 && before == SECCOMP_RET_ALLOW)
                        assert_int_equal(path_length(code, n, &d), path_length(plain->code, plain->n, &d));
        }
        assert_true(refused > 10);
}

static void test_recorded(void **state)
{
        for (unsigned profile = 0; profile < _FILTER_PROFILE_MAX; profile++) {
                check_recorded(profile, false);
                check_recorded(profile, true);
        }
}

/* The numbers that are tried are refused with all bits set; where Allow= names a call, it is not among them. */
static void test_recorded_numbers(void **state)
{
        static char ptrace[] = "ptrace";
        char *const allow[] = { ptrace, NULL };
        FilterSpec spec = build(0, FILTER_PROFILE_DEFAULT, false)->spec;
        bool has_unshare = false;

        spec.record_denied = true;
        spec.allow = allow;
        _cleanup_free_ struct sock_filter *code = NULL;
        _cleanup_free_ uint32_t *numbers = NULL;
        size_t n, n_numbers;

        assert_int_equal(filter_compile(&spec, &code, &n, NULL), 0);
        assert_int_equal(filter_recorded_numbers(&spec, &numbers, &n_numbers), 0);
        assert_true(n_numbers > 40);
        for (size_t i = 0; i < n_numbers; i++) {
                static const uint64_t all[6] = { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX };
                struct seccomp_data d = call_data(numbers[i], all);

                assert_int_equal(simulate(code, n, &d, NULL), SECCOMP_RET_USER_NOTIF);
                assert_true((long) numbers[i] != syscall_number("ptrace"));
                has_unshare = has_unshare || (long) numbers[i] == syscall_number("unshare");
        }
        assert_true(has_unshare);
}

#define WHOLE_PROGRAM_TESTS 4

static size_t add_rows(struct CMUnitTest *tests, RowCase *cases)
{
        size_t n = 0;

        for (size_t r = 0; r < filter_n_rows; r++)
                for (unsigned p = 0; p < _FILTER_PROFILE_MAX; p++) {
                        char *name = NULL;

                        if (!(filter_rows[r].profiles & (1u << p)))
                                continue;
                        if (asprintf(&name, "%s: row %zu %s", filter_profile_names[p], r + 1,
                                            filter_rows[r].call) < 0)
                                abort();
                        cases[n] = (RowCase){ &filter_rows[r], p };
                        tests[n] = (struct CMUnitTest){ name, test_row, NULL, NULL, &cases[n] };
                        n++;
                }
        return n;
}

static size_t add_whole_programs(struct CMUnitTest *tests)
{
        static const struct {
                const char *name;
                CMUnitTestFunction function;
        } whole[WHOLE_PROGRAM_TESTS] = { { "tables", test_tables }, { "numbers", test_numbers },
                { "foreign", test_foreign }, { "coverage", test_coverage } };
        size_t n = 0;

        for (unsigned lacks = 0; lacks < 4; lacks++)
                for (unsigned p = 0; p < _FILTER_PROFILE_MAX; p++)
                        for (size_t i = 0; i < WHOLE_PROGRAM_TESTS; i++) {
                                char *name = NULL;

                                if (asprintf(&name, "%s without %u: %s", filter_profile_names[p], lacks,
                                                    whole[i].name) < 0)
                                        abort();
                                tests[n++] = (struct CMUnitTest){ name, whole[i].function, NULL, NULL,
                                        build(lacks, p, false) };
                        }
        return n;
}

int main(void)
{
        size_t most = (filter_n_rows + 4 * WHOLE_PROGRAM_TESTS) * _FILTER_PROFILE_MAX + 5, n;
        _cleanup_free_ struct CMUnitTest *tests = calloc(most, sizeof(struct CMUnitTest));
        _cleanup_free_ RowCase *cases = calloc(most, sizeof(RowCase));
        int r;

        if (!tests || !cases)
                return 1;
        n = add_rows(tests, cases);
        tests[n++] = (struct CMUnitTest) cmocka_unit_test(test_rows_complete);
        tests[n++] = (struct CMUnitTest) cmocka_unit_test(test_order);
        tests[n++] = (struct CMUnitTest) cmocka_unit_test(test_other_architecture);
        tests[n++] = (struct CMUnitTest) cmocka_unit_test(test_recorded);
        tests[n++] = (struct CMUnitTest) cmocka_unit_test(test_recorded_numbers);
        n += add_whole_programs(tests + n);
        r = _cmocka_run_group_tests("filter-simulate", tests, n, NULL, NULL);
        for (size_t i = 0; i < n; i++)
                if (tests[i].initial_state)
                        free((void *) tests[i].name);
        for (unsigned i = 0; i < 4 * _FILTER_PROFILE_MAX * 2; i++) {
                free((&built[0][0][0])[i].code);
                free((&built[0][0][0])[i].covered);
        }
        return r;
}
