/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "output/output.h"

static const char *program;

typedef struct Pair {
        int a, b;
} Pair;

static void read_and_send(const Pair *p)
{
        struct pollfd f = { .fd = p->b, .events = POLLIN };
        char c;

        if (send(p->a, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1 || poll(&f, 1, 1000) != 1 || read(p->b, &c, 1) != 1)
                _exit(1);
}

static void open_file(const Pair *p)
{
        (void) open("/dev/null", O_RDONLY);
}

static void make_socket(const Pair *p)
{
        (void) socket(AF_UNIX, SOCK_DGRAM, 0);
}

static void write_file(const Pair *p)
{
        (void) !write(p->a, "x", 1);
}

static void receive_descriptor(const Pair *p)
{
        (void) recvmsg(p->b, &(struct msghdr){}, MSG_DONTWAIT);
}

static void map_code(const Pair *p)
{
        (void) mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void execute(const Pair *p)
{
        execl("/bin/true", "true", NULL);
}

static void test_calls(void **state)
{
        static const struct {
                void (*call)(const Pair *p);
                bool allowed;
        } rows[] = {
                { read_and_send, true },        { open_file, false }, { make_socket, false }, { write_file, false },
                { receive_descriptor, false }, { map_code, false },  { execute, false },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                int fds[2], status;
                pid_t pid;

                assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), 0);
                pid = fork();
                assert_true(pid >= 0);
                if (pid == 0) {
                        if (output_confine() < 0)
                                _exit(2);
                        rows[i].call(&(Pair){ fds[0], fds[1] });
                        _exit(0);
                }
                assert_int_equal(waitpid(pid, &status, 0), pid);
                if (rows[i].allowed)
                        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
                else
                        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
                close(fds[0]);
                close(fds[1]);
        }
}

/* By hand, and as root, it does nothing. */
static void test_refuses(void **state)
{
        int status;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
                int null = open("/dev/null", O_RDWR);

                dup2(null, STDIN_FILENO);
                dup2(null, STDERR_FILENO);
                execl(program, program, NULL);
                _exit(99);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE);
}

int main(int argc, char *argv[])
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_calls),
                cmocka_unit_test(test_refuses),
        };

        program = argc > 1 ? argv[1] : "agentbox-output";
        return cmocka_run_group_tests(tests, NULL, NULL);
}
