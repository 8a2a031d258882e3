/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "policy/filter-compile.h"
#include "warden/call-records.h"
#include "warden/denied-call.h"
#include "warden/warden-records.h"
#include "warden/witness.h"
#include "wire/runspec.h"

/* A witness, for a child that plays the shim and then the run. Here are the broker, the warden and the journal. */

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

typedef struct World {
        EgressTally *tally;
        int pipe, channel, journal;
        pid_t run;
        uint64_t n_records, sum; /* of the records that came; their counts */
        char last[4096];
} World;

/* ---- inside */

static int load_filter(void)
{
        static struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_bpf, 2, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 1, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        const struct sock_fprog p = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -1;
        return (int) syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                        SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &p);
}

static int send_fd(int channel, const char *text, int fd)
{
        union {
                char space[CMSG_SPACE(sizeof(int))];
                struct cmsghdr align;
        } control = {};
        struct iovec v = { .iov_base = (char *) (uintptr_t) text, .iov_len = strlen(text) };
        struct msghdr m = {
                .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.space)
        };
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);

        *c = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int)) };
        memcpy(CMSG_DATA(c), &fd, sizeof(int));
        return sendmsg(channel, &m, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

/* errno of a call; 0: it was made. */
static int try(long number, uint64_t first, uint64_t second)
{
        return syscall(number, first, second, 0, 0, 0) < 0 ? errno : 0;
}

/* What the shim does. */
static bool arm(void)
{
        return try(SYS_ptrace, UINT64_MAX, UINT64_MAX) == EXEC_CANARY_ERROR &&
               try(SYS_unshare, UINT64_MAX, UINT64_MAX) == EXEC_CANARY_ERROR &&
               try(SYS_bpf, EXEC_CANARY_END, 2) == EXEC_CANARY_ERROR;
}

/* ---- around */

static void *shared_tally(void)
{
        void *p = mmap(NULL, sizeof(EgressTally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        assert_true(p != MAP_FAILED);
        return p;
}

static void world_start(World *w, bool kill_on_denied, int (*inside)(void))
{
        char id[] = "4f7k2m9qxa", empty[] = "";
        WardenSpec spec = { .run = id, .policy = id, .digest = id, .unit = id, .invocation_id = id, .proxy_host = empty,
                .record_calls = true, .kill_on_denied = kill_on_denied };
        int calls[2], journal[2];
        WitnessFds fds;

        *w = (World){ .tally = shared_tally() };
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, calls), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, journal), 0);
        w->channel = calls[0];
        w->journal = journal[0];
        fds = (WitnessFds){ .calls = calls[1], .proc = open("/proc", O_PATH | O_CLOEXEC), .journal = journal[1] };
        assert_int_equal(witness_start(&spec, w->tally, &fds, &w->pipe), 0);
        close(calls[1]);
        close(journal[1]);
        close(fds.proc);
        signal(SIGCHLD, SIG_DFL);
        w->run = fork();
        assert_true(w->run >= 0);
        if (w->run == 0) {
                int listener = load_filter();

                if (listener < 0 || send_fd(w->channel, WITNESS_LISTENER, listener) < 0)
                        _exit(100);
                close(listener);
                close(w->channel);
                _exit(inside());
        }
        close(w->channel);
}

/* What the broker does. */
static void look_for_records(World *w)
{
        struct timespec t;
        JournalProof p = { .arrived = w->n_records };

        clock_gettime(CLOCK_MONOTONIC, &t);
        p.looked_at = (uint64_t) t.tv_sec * 1000000u + (uint64_t) t.tv_nsec / 1000;
        p.check = journal_proof_check(&p);
        w->tally->calls_proof = p;
}

/* What journald would have: each record as text, the last one kept. */
static void read_records(World *w)
{
        char text[sizeof(w->last)];
        ssize_t n;

        while ((n = recv(w->journal, text, sizeof(text) - 1, MSG_DONTWAIT)) >= 0) {
                const char *count;

                text[n] = 0;
                if (n == 0)
                        continue; /* the mark of journal_is_read() */
                memcpy(w->last, text, sizeof(text));
                count = strstr(w->last, "\nAGENTBOX_COUNT=");
                assert_non_null(count);
                w->n_records++;
                w->sum += strtoull(count + strlen("\nAGENTBOX_COUNT="), NULL, 10);
        }
        look_for_records(w);
}

/* The byte from the witness; 0: it has closed. Takes the records meanwhile, as it waits for that. */
static char world_wait(World *w)
{
        char what = 0;

        for (unsigned i = 0; i < 20000; i++) {
                ssize_t n = read(w->pipe, &what, 1);

                read_records(w);
                if (n >= 0)
                        return n == 1 ? what : 0;
                usleep(1000);
        }
        fail_msg("the witness says nothing");
        return 0;
}

static int run_status(World *w)
{
        int status = 0;

        assert_int_equal(waitpid(w->run, &status, 0), w->run);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void world_done(World *w)
{
        close(w->pipe);
        close(w->journal);
        munmap(w->tally, sizeof(*w->tally));
}

/* ---- tests */

static int ask_once(void)
{
        prctl(PR_SET_NAME, "x\n=y");
        return !arm() || try(SYS_unshare, 0x10000000, 0) != EPERM;
}

static void test_one(void **state)
{
        World w;
        char pid[64];

        world_start(&w, false, ask_once);
        snprintf(pid, sizeof(pid), "\nAGENTBOX_PID=%i\n", (int) w.run);
        assert_int_equal(run_status(&w), 0);
        assert_int_equal(world_wait(&w), WITNESS_DONE);
        assert_int_equal(w.n_records, 1);
        assert_non_null(strstr(w.last, "\nAGENTBOX_EVENT=syscall-denied\n"));
        assert_non_null(strstr(w.last, "\nAGENTBOX_SYSCALL=unshare\nAGENTBOX_SYSCALL_ARGS=CLONE_NEWUSER\n"));
        assert_non_null(strstr(w.last, pid));
        assert_non_null(strstr(w.last, "\nAGENTBOX_COMM=x\\x0a=y\n"));
        assert_int_equal(w.tally->calls_denied, 1);
        assert_int_equal(w.tally->calls_on_record, 1);
        assert_int_equal(world_wait(&w), 0);
        world_done(&w);
}

/* The end of the canaries comes once; without the right number they are not over. */
static int ask_wrongly(void)
{
        if (try(SYS_ptrace, 0, 0) != EXEC_CANARY_ERROR || try(SYS_bpf, EXEC_CANARY_END, 7) != EPROTO)
                return 1;
        if (try(SYS_bpf, EXEC_CANARY_END, 1) != EXEC_CANARY_ERROR)
                return 2;
        return try(SYS_bpf, EXEC_CANARY_END, 1) != EPERM;
}

static void test_canaries(void **state)
{
        World w;

        world_start(&w, false, ask_wrongly);
        assert_int_equal(run_status(&w), 0);
        assert_int_equal(world_wait(&w), WITNESS_DONE);
        assert_int_equal(w.tally->calls_denied, 1);
        assert_non_null(strstr(w.last, "\nAGENTBOX_SYSCALL=bpf\n"));
        world_done(&w);
}

#define THREADS 4
#define EACH 2500

static void *flood(void *argument)
{
        for (unsigned i = 0; i < EACH; i++)
                if (try(SYS_ptrace, i % 200, (uintptr_t) argument) != EPERM)
                        return argument;
        return NULL;
}

static int ask_often(void)
{
        pthread_t threads[THREADS];
        void *bad = NULL, *one;

        if (!arm())
                return 1;
        for (uintptr_t i = 0; i < THREADS; i++)
                if (pthread_create(threads + i, NULL, flood, (void *) (i + 1)) != 0)
                        return 2;
        for (unsigned i = 0; i < THREADS; i++) {
                pthread_join(threads[i], &one);
                bad = bad ?: one;
        }
        return bad ? 3 : 0;
}

/* More different ones than are kept apart. */
static void test_flood(void **state)
{
        World w;
        char what;

        world_start(&w, false, ask_often);
        what = world_wait(&w);
        assert_int_equal(run_status(&w), 0);
        assert_int_equal(what, WITNESS_DONE);
        assert_int_equal(w.tally->calls_denied, THREADS * EACH);
        assert_int_equal(w.sum, THREADS * EACH);
        assert_int_equal(w.tally->calls_on_record, THREADS * EACH);
        assert_true(w.n_records < 1000);
        world_done(&w);
}

/* The record first; and whoever called never hears of it. */
static void test_fatal(void **state)
{
        World w;

        world_start(&w, true, ask_once);
        assert_int_equal(world_wait(&w), WITNESS_FATAL);
        assert_int_equal(w.n_records, 1);
        assert_int_equal(w.tally->fatal, SYS_unshare + 1);
        assert_int_equal(waitpid(w.run, NULL, WNOHANG), 0);
        kill(w.run, SIGKILL);
        assert_int_equal(run_status(&w), 128 + SIGKILL);
        assert_int_equal(world_wait(&w), WITNESS_DONE);
        world_done(&w);
}

static int ask_until_nobody_answers(void)
{
        if (!arm())
                return 1;
        for (unsigned i = 0; i < 100000; i++) {
                int error = try(SYS_ptrace, 0, 0);

                if (error == ENOSYS)
                        return 0;
                if (error != EPERM)
                        return 2;
        }
        return 3;
}

/* What nobody answers is refused all the same. */
static void test_death(void **state)
{
        World w;
        FILE *children;
        char path[64];
        int child;

        world_start(&w, false, ask_until_nobody_answers);
        snprintf(path, sizeof(path), "/proc/self/task/%i/children", (int) getpid());
        children = fopen(path, "re");
        if (!children) {
                kill(w.run, SIGKILL);
                print_message("skipped: the kernel does not tell the children of a process\n");
                skip();
        }
        usleep(20000);
        while (fscanf(children, "%d", &child) == 1) /* with those of earlier tests, which are dead */
                if (child != w.run)
                        kill(child, SIGKILL);
        fclose(children);
        assert_int_equal(run_status(&w), 0);
        assert_int_equal(world_wait(&w), 0);
        world_done(&w);
}

static int nothing(void)
{
        return 0;
}

/* The broker closed its end without a listener. */
static void test_abandoned(void **state)
{
        World w;

        world_start(&w, false, nothing);
        (void) run_status(&w);
        assert_int_equal(world_wait(&w), WITNESS_DONE);
        world_done(&w);
}

/* Whatever the filter's tables leave to a listener has a name here, the same one. */
static void test_names(void **state)
{
        unsigned n = 0;

        for (uint32_t i = 0; i < 600; i++) {
                char *want = filter_recorded_name(i), is[DENIED_CALL_NAME_MAX];

                if (!want)
                        continue;
                denied_call_name((int) i, is);
                assert_string_equal(is, want);
                free(want);
                n++;
        }
        assert_true(n > 45);
}

static void test_args(void **state)
{
        static const struct {
                struct seccomp_data d;
                const char *want;
        } rows[] = {
                { { .nr = SYS_unshare, .args = { 0x10020000 } }, "CLONE_NEWNS|CLONE_NEWUSER" },
                { { .nr = SYS_unshare, .args = { 0 } }, "0" },
                { { .nr = SYS_unshare, .args = { UINT64_C(1) << 40 | 0x10000001 } }, "CLONE_NEWUSER|0x1" },
                { { .nr = SYS_socket, .args = { 17, 02000003, 0x300 } }, "AF_PACKET, SOCK_RAW|SOCK_CLOEXEC, 768" },
                { { .nr = SYS_socket, .args = { 99, 7, 0 } }, "99, 7, 0" },
                { { .nr = SYS_ptrace, .args = { 16, 1, 0x7fff12345678, 0 } }, "PTRACE_ATTACH, 1, 0x7fff12345678, 0x0" },
                { { .nr = SYS_personality, .args = { 0x0400000 } }, "0|READ_IMPLIES_EXEC" },
                { { .nr = SYS_setns, .args = { (uint32_t) -1, 0 } }, "-1, 0" },
                { { .nr = SYS_vhangup, .args = { 1 } }, "" },
                { { .nr = 4000, .args = { 1 } }, "0x1, 0x0, 0x0, 0x0, 0x0, 0x0" },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                char is[DENIED_CALL_ARGS_MAX];

                denied_call_args(&rows[i].d, is);
                assert_string_equal(is, rows[i].want);
        }
        /* The longest one: every bit of every argument. */
        for (int nr = 0; nr < 600; nr++) {
                struct seccomp_data d = { .nr = nr, .args = { -1, -1, -1, -1, -1, -1 } };
                char is[DENIED_CALL_ARGS_MAX];

                denied_call_args(&d, is);
                assert_true(strlen(is) < DENIED_CALL_ARGS_MAX);
        }
}

/* A flood, by a clock of its own: 34 µs of processor time for each call, and none of what is waited. */
static void test_share(void **state)
{
        CpuShare s = CPU_SHARE_FULL(7, 1000);
        uint64_t used = 7, now = 1000, waited = 0;

        for (unsigned i = 0; i < 1000000; i++) {
                uint64_t wait;

                used += 34;
                now += 34;
                wait = cpu_share_wait(&s, used, now);
                /* What is refused in good faith, a burst of it, is not held up. */
                if (used < CPU_SHARE_BURST)
                        assert_int_equal(wait, 0);
                assert_true(wait < 60000);
                now += wait;
                waited += wait;
                assert_true(used - 7 <= (uint64_t) CPU_SHARE_BURST + (now - 1000) / CPU_SHARE + 2000);
        }
        assert_true(waited > 0);
        /* After a while of nothing it has its burst again, and no more than that. */
        now += UINT64_C(1) << 50;
        assert_int_equal(cpu_share_wait(&s, used, now), 0);
        assert_true(s.credit <= CPU_SHARE_BURST);
        used += 3 * (uint64_t) CPU_SHARE_BURST;
        assert_true(cpu_share_wait(&s, used, now + 1) <= (uint64_t) CPU_SHARE_BURST * CPU_SHARE);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names), cmocka_unit_test(test_args),  cmocka_unit_test(test_one),
                cmocka_unit_test(test_canaries), cmocka_unit_test(test_flood), cmocka_unit_test(test_fatal),
                cmocka_unit_test(test_death), cmocka_unit_test(test_abandoned), cmocka_unit_test(test_share),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
