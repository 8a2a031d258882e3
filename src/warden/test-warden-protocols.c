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

/* ---- HTTP */

#define GET "GET / HTTP/1.1\r\nHost: " NAME_WORLD "\r\n\r\n"
#define GET_OTHER "GET /secret HTTP/1.1\r\nHost: evil.example\r\n\r\n"

static int talk_http(const void *argument)
{
        char back[256];
        int fd = connect_name(NAME_WORLD, 80);

        CHECK(fd >= 0);
        for (unsigned i = 0; i < 2; i++) { /* kept alive */
                CHECK(send(fd, GET, strlen(GET), 0) == (ssize_t) strlen(GET));
                CHECK(read_all(fd, back, strlen(GET)) == (ssize_t) strlen(GET));
                CHECK(memcmp(back, GET, strlen(GET)) == 0);
        }
        /* Another request on the same connection, for another host: not one byte of it is answered. */
        CHECK(send(fd, GET_OTHER, strlen(GET_OTHER), 0) == (ssize_t) strlen(GET_OTHER));
        CHECK(read_all(fd, back, sizeof(back)) == 0);
        close(fd);
        return 0;
}

static int talk_http_pipelined(const void *argument)
{
        char back[256];
        int fd = connect_name(NAME_WORLD, 80);

        CHECK(fd >= 0);
        CHECK(send(fd, GET GET_OTHER, strlen(GET GET_OTHER), 0) == (ssize_t) strlen(GET GET_OTHER));
        CHECK(read_all(fd, back, sizeof(back)) == (ssize_t) strlen(GET) && memcmp(back, GET, strlen(GET)) == 0);
        close(fd);
        return 0;
}

static int meet_400(const void *argument)
{
        char back[4096] = "";
        int fd = connect_name(NAME_WORLD, 80);

        CHECK(fd >= 0);
        CHECK(send(fd, argument, strlen(argument), 0) == (ssize_t) strlen(argument));
        CHECK(read_all(fd, back, sizeof(back) - 1) > 0);
        CHECK(strncmp(back, "HTTP/1.1 400 ", 13) == 0);
        close(fd);
        return 0;
}

static void test_http(void **state)
{
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f, &(Options){ .rules = RULES("http " NAME_WORLD) });
        run_inside(f, talk_http, NULL);
        box_expect(&b, "egress-closed", 1);
        box_expect(&b, "egress-denied", 1);
        assert_field(box_record(&b, "egress-denied", 0), "AGENTBOX_REASON", "host-mismatch");
        assert_field(box_record(&b, "egress-denied", 0), "AGENTBOX_ASKED_NAME", "evil.example");
        assert_field(box_record(&b, "egress-closed", 0), "AGENTBOX_REASON", "refused");
        assert_int_equal(b.tally->bytes_sent, 2 * strlen(GET));
        run_inside(f, talk_http_pipelined, NULL);
        box_expect(&b, "egress-denied", 2);
        assert_int_equal(b.tally->bytes_sent, 3 * strlen(GET));
        run_inside(f, meet_400, GET_OTHER);
        run_inside(f, meet_400, "GET / HTTP/1.1\r\n\r\n");
        box_expect(&b, "egress-denied", 4);
        assert_field(box_record(&b, "egress-denied", 2), "AGENTBOX_REASON", "host-mismatch");
        assert_field(box_record(&b, "egress-denied", 2), "AGENTBOX_PROTO", "http");
        assert_field(box_record(&b, "egress-denied", 3), "AGENTBOX_REASON", "bad-request");
        assert_int_equal(box_stop(&b), 0);
        assert_int_equal(box_count(&b, "egress-allowed"), 2);
        box_done(&b);
}

/* Who sends the second request resets the connection before anybody could answer the first one. */
static int hide_refusal(const void *argument)
{
        const struct linger now = { .l_onoff = 1 };
        int fd = connect_name(NAME_WORLD, PORT_STUCK);

        CHECK(fd >= 0);
        CHECK(send(fd, argument, strlen(argument), 0) == (ssize_t) strlen(argument));
        poll(NULL, 0, 200);
        if (strcmp(argument, GET) == 0) { /* by itself */
                CHECK(send(fd, GET_OTHER, strlen(GET_OTHER), 0) == (ssize_t) strlen(GET_OTHER));
                poll(NULL, 0, 200);
        }
        CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) == 0);
        close(fd);
        return 0;
}

static void test_http_refusal_hidden(void **state)
{
        static const char *const cases[] = { GET, GET GET_OTHER };
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f, &(Options){ .rules = RULES("http " NAME_WORLD ":4003") });
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                run_inside(f, hide_refusal, cases[i]);
                box_expect(&b, "egress-closed", i + 1); /* at once, though the server says nothing */
                assert_field(box_record(&b, "egress-closed", i), "AGENTBOX_REASON", "reset");
                box_expect(&b, "egress-denied", i + 1);
                assert_field(box_record(&b, "egress-denied", i), "AGENTBOX_REASON", "host-mismatch");
                assert_field(box_record(&b, "egress-denied", i), "AGENTBOX_ASKED_NAME", "evil.example");
        }
        assert_int_equal(box_stop(&b), 0);
        assert_int_equal(b.tally->denied, ELEMENTSOF(cases));
        box_done(&b);
}

/* A rule of either kind at one port: the first byte decides. */
static int talk_either(const void *argument)
{
        const char get[] = "GET / HTTP/1.1\r\nHost: " NAME_WORLD ":443\r\n\r\n";
        char back[256];
        int fd = connect_name(NAME_WORLD, 443);

        CHECK(fd >= 0 && send(fd, get, strlen(get), 0) == (ssize_t) strlen(get));
        CHECK(read_all(fd, back, strlen(get)) == (ssize_t) strlen(get));
        close(fd);
        return talk_tls(NAME_WORLD);
}

static void test_tls_or_http(void **state)
{
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f, &(Options){ .rules = RULES("tls " NAME_WORLD, "http " NAME_WORLD ":443") });
        run_inside(f, talk_either, NULL);
        box_expect(&b, "egress-allowed", 2);
        assert_field(box_record(&b, "egress-allowed", 0), "AGENTBOX_RULE", "http " NAME_WORLD ":443");
        assert_field(box_record(&b, "egress-allowed", 1), "AGENTBOX_RULE", "tls " NAME_WORLD);
        assert_int_equal(box_stop(&b), 0);
        box_done(&b);
}

/* ---- DNS */

static const uint8_t question_evil[] = "\x12\x34\x01\0\0\1\0\0\0\0\0\0\4evil\7example\0\0\1\0\1";
#define N_EVIL (sizeof(question_evil) - 1)

static int ask_udp(const void *argument)
{
        uint8_t answer[512];
        Address a, from;
        socklen_t n = make_address(argument, 53, &a), n_from = sizeof(from);
        int fd = socket(a.any.sa_family, SOCK_DGRAM, 0);

        CHECK(fd >= 0 && sendto(fd, question_evil, N_EVIL, 0, &a.any, n) == (ssize_t) N_EVIL);
        CHECK(wait_readable(fd) == 0);
        CHECK(recvfrom(fd, answer, sizeof(answer), 0, &from.any, &n_from) >= (ssize_t) N_EVIL);
        CHECK((answer[3] & 15) == 3 && same_address(&a, &from)); /* NXDOMAIN, from where it was asked */
        close(fd);
        return 0;
}

static int ask_tcp(const void *argument)
{
        uint8_t message[2 + N_EVIL], answer[514];
        int fd = connect_to(argument, 53);

        CHECK(fd >= 0);
        message[0] = 0;
        message[1] = N_EVIL;
        memcpy(message + 2, question_evil, N_EVIL);
        for (unsigned i = 0; i < 2; i++) {
                CHECK(send(fd, message, sizeof(message), 0) == sizeof(message));
                CHECK(read_all(fd, answer, 2) == 2);
                CHECK(read_all(fd, answer + 2, (size_t) answer[0] << 8 | answer[1]) >= (ssize_t) N_EVIL);
                CHECK((answer[5] & 15) == 3);
        }
        close(fd);
        return 0;
}

static int dns_nothing(const void *argument)
{
        char byte;
        int fd = connect_to("8.8.8.8", 53);

        CHECK(fd >= 0 && send(fd, "\0\0", 2, 0) == 2); /* a message without a byte */
        CHECK(read_all(fd, &byte, 1) <= 0);
        close(fd);
        return 0;
}

static int dns_slow(const void *argument)
{
        char byte = 1;
        int fd = connect_to("8.8.8.8", 53);

        CHECK(fd >= 0);
        for (unsigned i = 0; i < 9; i++) { /* a byte a second; it ends in five */
                if (send(fd, &byte, 1, MSG_NOSIGNAL) != 1) {
                        CHECK(i >= 4);
                        close(fd);
                        return 0;
                }
                poll(NULL, 0, 1000);
        }
        CHECK(false);
}

static void test_dns(void **state)
{
        static const char *const servers[] = { EGRESS_WARDEN_IPV4, "203.0.113.53", "169.254.169.254", "2001:db8::1",
                "127.0.0.53" };
        size_t n = 0;
        NEED_FIXTURE(f);
        Box b;

        box_start(&b, f, &(Options){ .rules = NULL });
        for (size_t i = 0; i < ELEMENTSOF(servers); i++) {
                run_inside(f, ask_udp, servers[i]);
                box_expect(&b, "egress-denied", ++n);
                assert_field(box_record(&b, "egress-denied", n - 1), "AGENTBOX_DEST_ADDR", servers[i]);
                assert_field(box_record(&b, "egress-denied", n - 1), "AGENTBOX_DEST_NAME", "evil.example");
                assert_field(box_record(&b, "egress-denied", n - 1), "AGENTBOX_PROTO", "dns");
                assert_field(box_record(&b, "egress-denied", n - 1), "AGENTBOX_REASON", "no-rule");
        }
        assert_field(box_record(&b, "egress-denied", 0), "AGENTBOX_COMM", INSIDE_COMM);
        assert_string_equal(b.tally->top[0], "evil.example");
        assert_int_equal(b.tally->n_top, 1);
        for (size_t i = 0; i < 4; i++) { /* TCP to loopback stays inside */
                run_inside(f, ask_tcp, servers[i]);
                box_expect(&b, "egress-denied", n += 2);
        }
        run_inside(f, dns_nothing, NULL);
        box_expect(&b, "egress-denied", ++n);
        assert_field(box_record(&b, "egress-denied", n - 1), "AGENTBOX_REASON", "malformed");
        run_inside(f, dns_slow, NULL);
        box_expect(&b, "egress-denied", ++n);
        assert_field(box_record(&b, "egress-denied", n - 1), "AGENTBOX_REASON", "timeout");
        assert_int_equal(box_stop(&b), 0);
        assert_int_equal(b.tally->denied, n);
        box_done(&b);
}

int main(int argc, char *argv[])
{
        const struct CMUnitTest tests[] = {
                WORLD_TEST(test_http),
                WORLD_TEST(test_http_refusal_hidden),
                WORLD_TEST(test_tls_or_http),
                WORLD_TEST(test_dns),
        };

        return world_run(argc, argv, tests, ELEMENTSOF(tests));
}
