/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/macro.h"
#include "test-warden-harness.h"

/* What the policy, and the warden's own bounds, allow at most. */

#define MIB ((size_t) 1 << 20)
#define TCP_RULE(port) "tcp " NAME_WORLD ":" port

static const char *const all_rules[] = { TCP_RULE("443"), TCP_RULE("4001"), NULL };

static int send_too_much(const void *argument)
{
        static char data[65536];
        char byte;
        size_t sent = 0;
        int fd = connect_name(NAME_WORLD, PORT_SINK);

        CHECK(fd >= 0);
        while (sent < 8 * MIB) {
                ssize_t n = send(fd, data, sizeof(data), MSG_NOSIGNAL);

                if (n < 0)
                        break;
                sent += (size_t) n;
        }
        CHECK(sent >= MIB);
        CHECK(sent < 8 * MIB || read_all(fd, &byte, 1) == -ECONNRESET);
        close(fd);
        /* And nothing any more, to anywhere. */
        fd = connect_name(NAME_WORLD, PORT_ECHO);
        CHECK(fd >= 0 || errno == ECONNRESET);
        CHECK(fd < 0 || read_all(fd, &byte, 1) == -ECONNRESET);
        return 0;
}

static void test_bytes_limit(void **state)
{
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f, &(Options){ .rules = all_rules, .egress_bytes = MIB });
        run_inside(f, send_too_much, NULL);
        box_expect(&b, "egress-closed", 1);
        box_expect(&b, "egress-denied", 2);
        assert_int_equal(b.tally->bytes_sent, MIB);
        assert_field(box_record(&b, "egress-closed", 0), "AGENTBOX_REASON", "bytes-limit");
        assert_field(box_record(&b, "egress-closed", 0), "AGENTBOX_BYTES_SENT", "1048576");
        assert_field(box_record(&b, "egress-denied", 0), "AGENTBOX_REASON", "bytes-limit");
        assert_field(box_record(&b, "egress-denied", 1), "AGENTBOX_REASON", "bytes-limit");
        assert_int_equal(box_stop(&b), 0);
        box_done(&b);
}

static int meet_reset_port(const void *argument)
{
        char byte;
        int fd = connect_to("1.2.3.4", *(const uint16_t *) argument);

        CHECK(fd >= 0 || errno == ECONNRESET);
        CHECK(fd < 0 || read_all(fd, &byte, 1) == -ECONNRESET);
        return 0;
}

static int meet_reset_name(const void *argument)
{
        char byte;
        int fd = connect_name(NAME_WORLD, *(const uint16_t *) argument);

        CHECK(fd >= 0 || errno == ECONNRESET);
        CHECK(fd < 0 || read_all(fd, &byte, 1) == -ECONNRESET);
        return 0;
}

static int exceed_connections(const void *argument)
{
        const unsigned most = *(const unsigned *) argument;
        char byte;
        int fd;

        for (unsigned i = 0; i < most; i++) {
                fd = connect_name(NAME_WORLD, PORT_ECHO);
                CHECK(fd >= 0 && send(fd, "x", 1, 0) == 1 && read_all(fd, &byte, 1) == 1);
        }
        fd = connect_name(NAME_WORLD, PORT_ECHO);
        CHECK(fd >= 0 || errno == ECONNRESET);
        CHECK(fd < 0 || read_all(fd, &byte, 1) == -ECONNRESET);
        return 0; /* all close */
}

static void test_connections_limit(void **state)
{
        const unsigned most = 5;
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f, &(Options){ .rules = all_rules, .connections = most });
        for (unsigned i = 1; i <= 2; i++) { /* what is closed makes room */
                run_inside(f, exceed_connections, &most);
                box_expect(&b, "egress-closed", i * most);
                box_expect(&b, "egress-denied", i);
                assert_field(box_record(&b, "egress-denied", i - 1), "AGENTBOX_REASON", "limit");
        }
        assert_int_equal(box_stop(&b), 0);
        box_done(&b);
        /* The same where it is descriptors that end. */
        box_start(&b, f, &(Options){ .rules = all_rules, .connections = 1000, .open_files = 48 + 2 * most });
        run_inside(f, exceed_connections, &most);
        box_expect(&b, "egress-denied", 1);
        assert_field(box_record(&b, "egress-denied", 0), "AGENTBOX_REASON", "limit");
        assert_int_equal(box_stop(&b), 0);
        box_done(&b);
}

/* No descriptor at all is left, however that came: who connects is refused, and does not hang. */
static void test_no_descriptors(void **state)
{
        NEED_FIXTURE(f);
        struct rlimit before, none;
        int highest = 0;
        char path[64];
        Box b;

        box_start(&b, f, &(Options){ .rules = all_rules });
        for (int fd = 0; fd < 200; fd++) {
                snprintf(path, sizeof(path), "/proc/%i/fd/%i", (int) b.pid, fd);
                highest = readlink(path, (char[1]){ 0 }, 1) > 0 ? fd : highest;
        }
        assert_int_equal(prlimit(b.pid, RLIMIT_NOFILE, NULL, &before), 0);
        none = (struct rlimit){ (rlim_t) highest + 1, before.rlim_max };
        assert_int_equal(prlimit(b.pid, RLIMIT_NOFILE, &none, NULL), 0);
        for (unsigned i = 1; i <= 3; i++) {
                run_inside(f, meet_reset_name, &(const uint16_t){ PORT_ECHO });
                box_expect(&b, "egress-denied", 2 * i - 1);
                assert_field(box_record(&b, "egress-denied", 2 * i - 2), "AGENTBOX_REASON", "limit");
                /* What no rule names is on record as that, once. */
                run_inside(f, meet_reset_port, &(const uint16_t){ PORT_ECHO });
                box_expect(&b, "egress-denied", 2 * i);
                assert_field(box_record(&b, "egress-denied", 2 * i - 1), "AGENTBOX_REASON", "no-rule");
        }
        assert_int_equal(prlimit(b.pid, RLIMIT_NOFILE, &before, NULL), 0);
        run_inside(f, talk_once, NULL);
        assert_int_equal(box_stop(&b), 0);
        box_done(&b);
}

int main(int argc, char *argv[])
{
        const struct CMUnitTest tests[] = {
                WORLD_TEST(test_bytes_limit),
                WORLD_TEST(test_connections_limit),
                WORLD_TEST(test_no_descriptors),
        };

        return world_run(argc, argv, tests, ELEMENTSOF(tests));
}
