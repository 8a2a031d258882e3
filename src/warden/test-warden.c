/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macro.h"
#include "test-warden-harness.h"
#include "warden/warden-tls.h"

#define RULES(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* ---- what ends well */

static int talk_tls(const void *argument)
{
        const char *name = argument;
        uint8_t hello[1024], back[1024];
        size_t n = make_hello(name, hello);
        int fd = connect_name(name, 443);

        CHECK(fd >= 0);
        CHECK(send(fd, hello, n, 0) == (ssize_t) n);
        CHECK(read_all(fd, back, n) == (ssize_t) n && memcmp(hello, back, n) == 0);
        CHECK(send(fd, "more", 4, 0) == 4);
        CHECK(read_all(fd, back, 4) == 4 && memcmp(back, "more", 4) == 0);
        CHECK(shutdown(fd, SHUT_WR) == 0);
        CHECK(read_all(fd, back, 1) == 0);
        close(fd);
        return 0;
}

static void test_allowed_tls(void **state)
{
        NEED_FIXTURE(f);
        char pid[16], bytes[16];
        uint8_t hello[1024];
        size_t n = make_hello(NAME_WORLD, hello) + 4;
        const char *r;
        pid_t client;
        Box b;

        box_start(&b, f, &(Options){ .rules = RULES("tls " NAME_WORLD) });
        assert_int_equal(b.ready.error, 0);
        client = run_inside(f, talk_tls, NAME_WORLD);
        box_expect(&b, "egress-closed", 1);
        box_expect(&b, "egress-allowed", 1);
        snprintf(pid, sizeof(pid), "%i", (int) client);
        snprintf(bytes, sizeof(bytes), "%zu", n);

        r = box_record(&b, "egress-allowed", 0);
        assert_field(r, "MESSAGE_ID", "c5824184af084f7391a8a78aa9d3602e");
        assert_field(r, "PRIORITY", "6");
        assert_field(r, "SYSLOG_IDENTIFIER", "agentbox-warden");
        assert_field(r, "AGENTBOX_RUN_ID", "4f7k2m9qxa");
        assert_field(r, "AGENTBOX_POLICY", "test");
        assert_field(r, "AGENTBOX_CALLER_UID", "1000");
        assert_field(r, "AGENTBOX_UNIT", "agentbox-4f7k2m9qxa.service");
        assert_field(r, "AGENTBOX_DEST_NAME", NAME_WORLD);
        assert_field(r, "AGENTBOX_DEST_ADDR", WORLD_IPV4);
        assert_field(r, "AGENTBOX_DEST_PORT", "443");
        assert_field(r, "AGENTBOX_PROTO", "tls");
        assert_field(r, "AGENTBOX_RULE", "tls " NAME_WORLD);
        assert_field(r, "AGENTBOX_PID", pid);
        assert_field(r, "AGENTBOX_COMM", INSIDE_COMM);

        r = box_record(&b, "egress-closed", 0);
        assert_field(r, "AGENTBOX_REASON", "closed");
        assert_field(r, "AGENTBOX_DEST_ADDR", WORLD_IPV4);
        assert_field(r, "AGENTBOX_BYTES_SENT", bytes);
        assert_field(r, "AGENTBOX_BYTES_RECEIVED", bytes);
        assert_int_equal(b.tally->allowed, 1);
        assert_int_equal(b.tally->denied, 0);
        assert_int_equal(b.tally->bytes_sent, n);
        assert_int_equal(b.tally->bytes_received, n);
        assert_int_equal(box_stop(&b), 0);
        assert_int_equal(box_count(&b, "egress-denied"), 0);
        box_done(&b);
}

/* ---- what does not */

static int meet_reset(const void *argument)
{
        const char *address = argument;
        char byte;
        int fd = connect_to(address, 443);

        /* The reset may come before connect() returns. */
        CHECK(fd >= 0 || errno == ECONNRESET);
        if (fd >= 0) {
                CHECK(read_all(fd, &byte, 1) == -ECONNRESET);
                close(fd);
        }
        return 0;
}

static void test_no_rule(void **state)
{
        NEED_FIXTURE(f);
        const char *r;
        Box b;

        box_start(&b, f, &(Options){ .rules = NULL });
        run_inside(f, meet_reset, "1.2.3.4");
        run_inside(f, meet_reset, "2001:db8::1");
        run_inside(f, meet_reset, "169.254.169.254");
        assert_int_equal(b.tally->denied, 3);
        box_expect(&b, "egress-denied", 3);
        r = box_record(&b, "egress-denied", 0);
        assert_field(r, "AGENTBOX_DEST_ADDR", "1.2.3.4");
        assert_field(r, "AGENTBOX_DEST_PORT", "443");
        assert_field(r, "AGENTBOX_REASON", "no-rule");
        assert_field(r, "AGENTBOX_COUNT", "1");
        assert_field(r, "AGENTBOX_COMM", INSIDE_COMM);
        assert_field(r, "PRIORITY", "5");
        assert_no_field(r, "AGENTBOX_DEST_NAME");
        assert_field(box_record(&b, "egress-denied", 1), "AGENTBOX_DEST_ADDR", "2001:db8::1");
        r = box_record(&b, "egress-denied", 2);
        assert_field(r, "AGENTBOX_REASON", "metadata");
        assert_field(r, "PRIORITY", "4");
        assert_int_equal(b.tally->denied_on_record, 3);
        assert_int_equal(b.tally->n_top, 3);
        assert_string_equal(b.tally->top[0], "1.2.3.4:443");
        assert_string_equal(b.tally->top[1], "[2001:db8::1]:443");
        assert_int_equal(box_stop(&b), 0);
        box_done(&b);
}

int main(int argc, char *argv[])
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_allowed_tls, fixture_set_up, fixture_tear_down),
                cmocka_unit_test_setup_teardown(test_no_rule, fixture_set_up, fixture_tear_down),
        };
        int r;

        if (!world_make(argc, argv))
                return 0;
        r = cmocka_run_group_tests(tests, NULL, NULL);
        world_done();
        return r;
}
