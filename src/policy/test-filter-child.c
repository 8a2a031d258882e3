/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "base/strv.h"
#include "policy/filter-tables.h"
#include "tests/filter/rows.h"
#include "tests/filter/simulate.h"
#include "tests/filter/syscall-number.h"

/* The kernel's own verdicts. A second filter, loaded before ours, answers every call with an errno that
 * nothing else has: of two filters the harsher wins, and of two errnos that of the later one. So this errno
 * means that ours lets the call through, every row can be tried, and nothing that a row asks for ever
 * happens. */
#define LET_THROUGH 4000

#define GARBAGE UINT64_C(0xdeadbeef00000000)

enum { PLAIN_ARGS, GARBAGE_ARGS, _ARGS_MAX };

/* Written by a child into shared memory: it cannot make a call to tell. */
typedef struct Answers {
        bool ready;
        int verdict[][_ARGS_MAX]; /* by row */
} Answers;

typedef struct ChildCase {
        const FilterRow *row;
        unsigned profile;
        bool kill;
        Answers *answers;
} ChildCase;

static size_t answers_size(void)
{
        return sizeof(Answers) + filter_n_rows * sizeof(int[_ARGS_MAX]);
}

static Answers *answers_new(void)
{
        Answers *a = mmap(NULL, answers_size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        if (a == MAP_FAILED)
                abort();
        for (size_t i = 0; i < filter_n_rows; i++)
                a->verdict[i][PLAIN_ARGS] = a->verdict[i][GARBAGE_ARGS] = VERDICT_KILL;
        return a;
}

/* The marker lets by what loads the next filter (with a flag that no row has) and the end of the process;
 * exit_group() only with a certain status. */
#define LOAD_FLAGS SECCOMP_FILTER_FLAG_LOG
#define END_STATUS 86

static int load(const struct sock_filter *code, size_t n)
{
        struct sock_fprog p = { .len = (unsigned short) n, .filter = (struct sock_filter *) code };

        return (int) syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, LOAD_FLAGS, &p);
}

static int load_marker(void)
{
        const struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 2),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, LOAD_FLAGS, 3, 4),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 3),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, END_STATUS, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | LET_THROUGH),
        };

        return load(code, ELEMENTSOF(code));
}

/* 0, the errno, VERDICT_NO_OP, or VERDICT_INVALID where the call came back with another result. No kernel
 * makes a call behind the marker, so that success is one that our filter answered. */
static int call(long nr, const uint64_t *a)
{
        long r = syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);

        if (r == 0)
                return VERDICT_NO_OP;
        return r != -1 ? VERDICT_INVALID : errno == LET_THROUGH ? 0 : errno;
}

static void call_row(const FilterRow *row, int *ret)
{
        unsigned ints = filter_row_int_args(row->call);
        long nr = syscall_number(row->call);
        uint64_t args[6];

        memcpy(args, row->args, sizeof(args));
        ret[PLAIN_ARGS] = call(nr, args);
        for (unsigned a = 0; a < 6; a++)
                if (ints & (1u << a))
                        args[a] |= GARBAGE;
        ret[GARBAGE_ARGS] = call(nr, args);
}

static bool row_concerns(const FilterRow *row, unsigned profile, unsigned lacks)
{
        return row->lacks == lacks && row->profiles & (1u << profile) && syscall_number(row->call) >= 0;
}

typedef struct Compiled {
        struct sock_filter *code;
        size_t n;
} Compiled;

/* lacks × profile × kill */
static Compiled compiled[4][_FILTER_PROFILE_MAX][2];

static const Compiled *compile(const FilterSpec *spec, unsigned lacks)
{
        Compiled *c = &compiled[lacks][spec->profile][spec->kill_on_denied];

        if (!c->code && (filter_compile(spec, &c->code, &c->n, NULL) < 0 ||
                                        filter_set_uid(c->code, c->n, ROW_UID) <= 0))
                abort();
        return c;
}

/* Tries the rows of this profile in one child; where the first refusal kills, just the one given. */
static void ask_kernel(const FilterSpec *spec, const FilterRow *only, Answers *answers)
{
        unsigned lacks = (spec->unix_sockets ? 0 : NO_UNIX) | (spec->inet_sockets ? 0 : NO_INET);
        const Compiled *c = compile(spec, lacks);
        int status;
        pid_t pid;

        pid = fork();
        if (pid < 0)
                abort();
        if (pid == 0) {
                const struct rlimit no_core = { 0, 0 };

                setrlimit(RLIMIT_CORE, &no_core);
                prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
                answers->ready = load_marker() == 0 && load(c->code, c->n) == 0;
                for (size_t i = 0; i < filter_n_rows && answers->ready; i++)
                        if (only ? only == &filter_rows[i]
                                 : row_concerns(&filter_rows[i], spec->profile, lacks))
                                call_row(&filter_rows[i], answers->verdict[i]);
                syscall(SYS_exit_group, END_STATUS);
                __builtin_trap();
        }
        if (waitpid(pid, &status, 0) != pid)
                abort();
        if (!only && (!WIFEXITED(status) || WEXITSTATUS(status) != END_STATUS))
                answers->ready = false;
        if (only && WIFSIGNALED(status) && WTERMSIG(status) != SIGSYS)
                answers->ready = false;
}

static FilterSpec case_spec(const ChildCase *c)
{
        return (FilterSpec){
                .profile = c->profile,
                .unix_sockets = !(c->row->lacks & NO_UNIX),
                .inet_sockets = !(c->row->lacks & NO_INET),
                .kill_on_denied = c->kill,
        };
}

static void test_row(void **state)
{
        const ChildCase *c = *state;
        int must = filter_row_verdict(c->row, c->kill);
        const int *is = c->answers->verdict[c->row - filter_rows];

        if (syscall_number(c->row->call) < 0)
                skip(); /* not on this architecture */
        if (c->kill) {
                const FilterSpec spec = case_spec(c);

                ask_kernel(&spec, c->row, c->answers);
        }
        assert_true(c->answers->ready);
        assert_int_equal(is[PLAIN_ARGS], must);
        assert_int_equal(is[GARBAGE_ARGS], must);
}

/* systemd's layer, as it would make it from the list: what is not named is EPERM. */
static int load_systemd_list(char *const *list)
{
        _cleanup_free_ struct sock_filter *code = calloc(2 * strv_length(list) + 2, sizeof(*code));
        size_t n = 0;

        if (!code)
                return -1;
        code[n++] = (struct sock_filter) BPF_STMT(
                        BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
        STRV_FOREACH(name, list) {
                long nr = syscall_number(*name);

                if (nr < 0)
                        continue;
                code[n++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t) nr, 0, 1);
                code[n++] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        }
        code[n++] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
        return load(code, n);
}

#define NOBODY 65534

/* What a program of the run finds under both layers; the number of the first thing that is not so. */
static int try_uids(uid_t uid, const struct sock_filter *code, size_t n, char *const *list)
{
        char *const argv[] = { (char *) "true", NULL };
        posix_spawnattr_t reset;
        int status;
        pid_t pid;

        if (posix_spawnattr_init(&reset) != 0 || posix_spawnattr_setflags(&reset, POSIX_SPAWN_RESETIDS) != 0)
                return 1;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || load_systemd_list(list) < 0)
                return 2;
        if (setuid(uid) == 0 || errno != EPERM || setresuid(-1, -1, -1) == 0 || errno != EPERM)
                return 3;
        if (load(code, n) < 0)
                return 4;
        if (setuid(uid) < 0 || setresuid(-1, -1, -1) < 0 || seteuid(uid) < 0 || setreuid(-1, uid) < 0)
                return 5;
        if (setuid(0) == 0 || errno != EPERM || setresuid(-1, 0, -1) == 0 || errno != EPERM)
                return 6;
        if (getuid() != uid || geteuid() != uid)
                return 7;
        if (posix_spawn(&pid, "/bin/true", NULL, &reset, argv, NULL) != 0)
                return 8;
        return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 9;
}

static void test_both_layers(void **state)
{
        static const FilterSpec spec = {
                .profile = FILTER_PROFILE_STRICT, .unix_sockets = true, .inet_sockets = true
        };
        _cleanup_free_ struct sock_filter *code = NULL;
        _cleanup_strv_ char **list = NULL;
        const uid_t uid = getuid() ?: NOBODY;
        int status;
        size_t n;
        pid_t pid;

        assert_int_equal(filter_compile(&spec, &code, &n, NULL), 0);
        assert_true(filter_set_uid(code, n, uid) > 0);
        assert_int_equal(filter_systemd_allow_list(&spec, &list, NULL), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                if (getuid() == 0 && setresuid(uid, uid, uid) < 0)
                        _exit(99);
                _exit(try_uids(uid, code, n, list));
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
}

#ifdef __x86_64__
static const FilterSpec plain = {
        .profile = FILTER_PROFILE_DEFAULT, .unix_sockets = true, .inet_sockets = true
};
#define X32 0x40000000

/* The signal that ends a child which makes this call; with our filter, or as a control without it. */
static int killed_by(bool filtered, void (*make_call)(uint32_t nr, uint32_t arg), uint32_t nr, uint32_t arg)
{
        _cleanup_free_ struct sock_filter *code = NULL;
        int status;
        size_t n;
        pid_t pid;

        assert_int_equal(filter_compile(&plain, &code, &n, NULL), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                const struct rlimit no_core = { 0, 0 };

                setrlimit(RLIMIT_CORE, &no_core);
                signal(SIGSEGV, SIG_DFL);
                if (filtered && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || load(code, n) < 0))
                        _exit(1);
                make_call(nr, arg);
                _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void call_x32(uint32_t nr, uint32_t arg)
{
        syscall(X32 | nr, arg, 0, 0);
}

static void call_i386(uint32_t nr, uint32_t arg)
{
        __asm__ volatile("int $0x80" : "+a"(nr) : "b"(arg), "c"(0) : "memory", "r8", "r9", "r10", "r11");
}

static void test_x32(void **state)
{
        assert_int_equal(killed_by(false, call_x32, SYS_getpid, 0), 0);
        assert_int_equal(killed_by(true, call_x32, SYS_getpid, 0), SIGSYS);
        assert_int_equal(killed_by(true, call_x32, SYS_socket, 40), SIGSYS);
        assert_int_equal(killed_by(true, call_x32, 520 /* execve */, 0), SIGSYS);
        assert_int_equal(killed_by(true, call_x32, 0x3fffffff, 0), SIGSYS);
}

static void test_i386(void **state)
{
        if (killed_by(false, call_i386, 20 /* getpid */, 0) != 0) {
                print_message("skipped: this kernel has no 32-bit calls\n");
                skip();
        }
        assert_int_equal(killed_by(true, call_i386, 20, 0), SIGSYS);
        assert_int_equal(killed_by(true, call_i386, 102 /* socketcall */, 1), SIGSYS);
        assert_int_equal(killed_by(true, call_i386, 359 /* socket */, 40), SIGSYS);
        assert_int_equal(killed_by(true, call_i386, 11 /* execve */, 0), SIGSYS);
}
#endif

static Answers *answers_of(const ChildCase *c)
{
        static Answers *known[4][_FILTER_PROFILE_MAX];
        const FilterSpec spec = case_spec(c);
        Answers **a = &known[c->row->lacks][c->profile];

        if (c->kill)
                return answers_new();
        if (!*a) {
                *a = answers_new();
                ask_kernel(&spec, NULL, *a);
        }
        return *a;
}

/* A death is slow (the kernel writes it into its log), and all of them are tried in the simulator. */
#define KILL_EVERY 8

/* A row's profiles; some once more, in the strictest of them, with OnDenied=kill. */
static size_t add_row(const FilterRow *row, size_t number, struct CMUnitTest *tests, ChildCase *cases)
{
        size_t n = 0;

        for (unsigned p = 0; p < _FILTER_PROFILE_MAX + 1; p++) {
                bool kill = p == _FILTER_PROFILE_MAX;
                unsigned profile = kill ? (unsigned) (31 - __builtin_clz(row->profiles)) : p;
                char *name = NULL;

                if (!(row->profiles & (1u << profile)) || (kill && number % KILL_EVERY != 0))
                        continue;
                if (asprintf(&name, "%s%s: row %zu %s", filter_profile_names[profile],
                                    kill ? " OnDenied=kill" : "", number, row->call) < 0)
                        abort();
                cases[n] = (ChildCase){ row, profile, kill, NULL };
                cases[n].answers = answers_of(&cases[n]);
                tests[n] = (struct CMUnitTest){ name, test_row, NULL, NULL, &cases[n] };
                n++;
        }
        return n;
}

int main(void)
{
        size_t most = filter_n_rows * (_FILTER_PROFILE_MAX + 1) + 3, n = 0;
        _cleanup_free_ struct CMUnitTest *tests = calloc(most, sizeof(struct CMUnitTest));
        _cleanup_free_ ChildCase *cases = calloc(most, sizeof(ChildCase));
        int r;

        if (!tests || !cases)
                return 1;
        for (size_t i = 0; i < filter_n_rows; i++)
                n += add_row(&filter_rows[i], i + 1, tests + n, cases + n);
        tests[n++] = (struct CMUnitTest) cmocka_unit_test(test_both_layers);
#ifdef __x86_64__
        tests[n++] = (struct CMUnitTest) cmocka_unit_test(test_x32);
        tests[n++] = (struct CMUnitTest) cmocka_unit_test(test_i386);
#endif
        r = _cmocka_run_group_tests("filter-child", tests, n, NULL, NULL);
        for (size_t i = 0; i < n; i++)
                if (tests[i].initial_state)
                        free((void *) tests[i].name);
        for (unsigned i = 0; i < 4 * _FILTER_PROFILE_MAX * 2; i++)
                free((&compiled[0][0][0])[i].code);
        return r;
}
