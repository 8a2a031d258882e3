/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "output/output.h"

/* ---- pure */

static void test_chunks_end_with_lines(void **state)
{
        static const struct {
                const char *text;
                bool ended;
                size_t n;
        } rows[] = {
                { "a\nb\nc", false, 4 }, { "a\nb\nc", true, 5 }, { "abc", false, 3 }, { "abc\n", false, 4 },
                { "\n", false, 1 },      { "\nabc", false, 1 },  { "a", true, 1 },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                assert_int_equal(output_chunk((const uint8_t *) rows[i].text, strlen(rows[i].text), rows[i].ended), rows[i].n);
}

/* Lines that look like fields, NULs and half characters: one field, of that length. */
static void test_bytes_stay_in_their_field(void **state)
{
        static const char text[] = "x\nAGENTBOX_EVENT=run-ended\n\0\xff\x1b[2J\nMESSAGE=y\n";
        static const char head[] = "PRIORITY=6\nSYSLOG_IDENTIFIER=agentbox-output\nAGENTBOX_CALLER_UID=5\n"
                                   "AGENTBOX_RUN_ID\n\1\0\0\0\0\0\0\0r\nAGENTBOX_POLICY\n\1\0\0\0\0\0\0\0p\n"
                                   "AGENTBOX_STREAM=stdout\nMESSAGE\n";
        OutputSpec spec = { .run = (char *) "r", .policy = (char *) "p", .caller_uid = 5 };
        _cleanup_buf_ Buf common = {}, record = {}, expected = {};

        assert_int_equal(output_common(&spec, &common), 0);
        assert_int_equal(output_record(&common, "stdout", (const uint8_t *) text, sizeof(text) - 1, &record), 0);
        buf_append(&expected, head, sizeof(head) - 1);
        buf_u64(&expected, sizeof(text) - 2); /* without the NUL of C, and without the last line's end */
        buf_append(&expected, text, sizeof(text) - 2);
        buf_append(&expected, "\n", 1);
        assert_int_equal(record.size, expected.size);
        assert_memory_equal(record.data, expected.data, expected.size);
}

static void test_what_is_no_whole_line_says_so(void **state)
{
        static const char end[] = "AGENTBOX_STREAM=stderr\nAGENTBOX_PARTIAL=yes\nMESSAGE\n\2\0\0\0\0\0\0\0$ \n";
        _cleanup_buf_ Buf common = {}, record = {};

        assert_int_equal(output_record(&common, "stderr", (const uint8_t *) "$ ", 2, &record), 0);
        assert_int_equal(record.size, sizeof(end) - 1);
        assert_memory_equal(record.data, end, record.size);
}

/* ---- with pipes, a socket for the journal and one for the broker */

typedef struct World {
        int write_fds[_OUTPUT_FD_MAX], journal_fd, channel_fd;
        pid_t pid;
} World;

static void socket_pair(int type, int ret[2])
{
        assert_int_equal(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ret), 0);
}

static void world_open(World *w, uint64_t max_bytes)
{
        OutputSpec spec = { .run = (char *) "r", .policy = (char *) "p", .max_bytes = max_bytes };
        int journal[2], channel[2], out[2], err[2];

        socket_pair(SOCK_DGRAM, journal);
        socket_pair(SOCK_SEQPACKET, channel);
        assert_int_equal(pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
        w->pid = fork();
        assert_true(w->pid >= 0);
        if (w->pid == 0) {
                Collector c = { .channel_fd = channel[1], .journal_fd = journal[1], .streams = { { .fd = out[0] }, { .fd = err[0] } } };
                int r;

                close(out[1]);
                close(err[1]);
                r = collector_init(&c, &spec);
                if (r >= 0)
                        r = collector_run(&c);
                collector_done(&c);
                _exit(r < 0);
        }
        close(journal[1]);
        close(channel[1]);
        close(out[0]);
        close(err[0]);
        *w = (World){ .write_fds = { out[1], err[1] }, .journal_fd = journal[0], .channel_fd = channel[0], .pid = w->pid };
}

static void end_stream(World *w, size_t i)
{
        close(w->write_fds[i]);
        w->write_fds[i] = -1;
}

static void world_close(World *w)
{
        int status;

        assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        close(w->journal_fd);
        close(w->channel_fd);
}

static char next_word(World *w)
{
        char c;

        assert_int_equal(recv(w->channel_fd, &c, 1, 0), 1);
        return c;
}

/* Appends the bytes of the next record that has any; the mark is an empty one. */
static void next_record(World *w, Buf *streams)
{
        static const char message[] = "MESSAGE\n";
        static char data[OUTPUT_CHUNK + 1024];
        ssize_t n = recv(w->journal_fd, data, sizeof(data), 0);
        const char *m;

        assert_true(n >= 0);
        if (n == 0)
                return;
        m = memmem(data, (size_t) n, message, sizeof(message) - 1);
        assert_non_null(m);
        m += sizeof(message) - 1 + 8;
        buf_append(streams + (memmem(data, (size_t) n, "=stderr", 7) ? OUTPUT_FD_STDERR : OUTPUT_FD_STDOUT), m,
                        (size_t) (data + n - m) - !!memmem(data, (size_t) n, "_PARTIAL", 8));
}

static void write_text(World *w, size_t i, const char *text)
{
        assert_int_equal(write(w->write_fds[i], text, strlen(text)), (ssize_t) strlen(text));
}

static void test_all_of_both_streams_is_kept(void **state)
{
        World w;
        Buf streams[_OUTPUT_FD_MAX] = {};

        world_open(&w, UINT64_MAX);
        write_text(&w, OUTPUT_FD_STDOUT, "one\ntwo");
        write_text(&w, OUTPUT_FD_STDERR, "warning\n");
        while (streams[OUTPUT_FD_STDERR].size == 0)
                next_record(&w, streams);
        write_text(&w, OUTPUT_FD_STDOUT, " and a half");
        end_stream(&w, OUTPUT_FD_STDERR);
        end_stream(&w, OUTPUT_FD_STDOUT);
        while (streams[OUTPUT_FD_STDOUT].size < strlen("one\ntwo and a half"))
                next_record(&w, streams);
        next_record(&w, streams); /* the mark: read, or it would wait for that */
        assert_string_equal(streams[OUTPUT_FD_STDOUT].data, "one\ntwo and a half");
        assert_string_equal(streams[OUTPUT_FD_STDERR].data, "warning\n");
        assert_int_equal(next_word(&w), OUTPUT_DONE);
        world_close(&w);
        for (size_t i = 0; i < ELEMENTSOF(streams); i++)
                buf_done(streams + i);
}

/* To the byte; what is more stays unread, and the end is not taken for a whole one before the writers are gone. */
static void test_limit(void **state)
{
        World w;
        Buf streams[_OUTPUT_FD_MAX] = {};

        world_open(&w, 10);
        write_text(&w, OUTPUT_FD_STDOUT, "0123456789");
        while (streams[OUTPUT_FD_STDOUT].size < 10)
                next_record(&w, streams);
        write_text(&w, OUTPUT_FD_STDERR, "more");
        assert_int_equal(next_word(&w), OUTPUT_LIMIT);
        write_text(&w, OUTPUT_FD_STDOUT, "and more");
        assert_int_equal(recv(w.channel_fd, &(char){ 0 }, 1, MSG_DONTWAIT), -1);
        end_stream(&w, OUTPUT_FD_STDERR);
        end_stream(&w, OUTPUT_FD_STDOUT);
        next_record(&w, streams);
        assert_int_equal(next_word(&w), OUTPUT_DONE);
        assert_string_equal(streams[OUTPUT_FD_STDOUT].data, "0123456789");
        assert_int_equal(streams[OUTPUT_FD_STDERR].size, 0);
        world_close(&w);
        buf_done(streams);
}

/* Each record costs the journal far more than an empty line costs who writes it. */
static void test_flood_of_lines_is_few_records(void **state)
{
        enum { TOTAL = 16 * 4096 };
        static char lines[TOTAL];
        World w;
        Buf streams[_OUTPUT_FD_MAX] = {};
        size_t n = 0;

        memset(lines, '\n', sizeof(lines));
        world_open(&w, UINT64_MAX);
        assert_int_equal(write(w.write_fds[OUTPUT_FD_STDOUT], lines, TOTAL), TOTAL); /* a pipe's size: at once */
        end_stream(&w, OUTPUT_FD_STDERR);
        end_stream(&w, OUTPUT_FD_STDOUT);
        for (; streams[OUTPUT_FD_STDOUT].size < TOTAL; n++)
                next_record(&w, streams);
        assert_true(n <= 2 * TOTAL / OUTPUT_CHUNK + 1);
        next_record(&w, streams);
        assert_int_equal(next_word(&w), OUTPUT_DONE);
        world_close(&w);
        buf_done(streams);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_chunks_end_with_lines),
                cmocka_unit_test(test_bytes_stay_in_their_field),
                cmocka_unit_test(test_what_is_no_whole_line_says_so),
                cmocka_unit_test(test_all_of_both_streams_is_kept),
                cmocka_unit_test(test_limit),
                cmocka_unit_test(test_flood_of_lines_is_few_records),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
