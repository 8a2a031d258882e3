/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/io.h"
#include "broker/host-config.h"

static int parse(const char *text, HostConfig *ret, Error **reterr)
{
        return host_config_parse("agentbox.conf", text, strlen(text), ret, reterr);
}

static void test_empty(void **state)
{
        static const char *const texts[] = { "", "\n\n", "# https_proxy=http://a:1\n; x\n", "[Network]\n",
                "https_proxy=\nnat64_prefix=  \n" };

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                HostConfig c = { .proxy_port = 1 };

                assert_int_equal(parse(texts[i], &c, NULL), 0);
                assert_null(c.proxy_host);
                assert_int_equal(c.proxy_port, 0);
                assert_false(c.has_nat64);
        }
}

static void test_proxy(void **state)
{
        static const struct {
                const char *value, *host;
                unsigned port;
        } rows[] = {
                { "http://proxy.example:3128", "proxy.example", 3128 },
                { "http://Proxy.Example:80/", "proxy.example", 80 },
                { "http://10.0.0.1:65535", "10.0.0.1", 65535 },
                { "http://[fd00::1]:8080/", "fd00::1", 8080 },
                { "http://127.0.0.1:3128", "127.0.0.1", 3128 },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_host_config_ HostConfig c = {};
                char text[128];

                snprintf(text, sizeof(text), "[Network]\n  https_proxy = %s  \r\n", rows[i].value);
                assert_int_equal(parse(text, &c, NULL), 0);
                assert_string_equal(c.proxy_host, rows[i].host);
                assert_int_equal(c.proxy_port, rows[i].port);
        }
}

static void test_nat64(void **state)
{
        _cleanup_host_config_ HostConfig c = {};

        assert_int_equal(parse("nat64_prefix=2001:db8:64::/96", &c, NULL), 0);
        assert_true(c.has_nat64);
        assert_int_equal(c.nat64_length, 96);
        assert_memory_equal(c.nat64, ((uint8_t[16]){ 0x20, 0x01, 0x0d, 0xb8, 0, 0x64 }), 16);
}

/* Each is refused, and the error names its line and a word of why. */
static void test_refused(void **state)
{
        static const struct {
                const char *line, *why;
        } rows[] = {
                { "https_proxy=https://proxy.example:3128", "http://HOST:PORT" },
                { "https_proxy=proxy.example:3128", "http://HOST:PORT" },
                { "https_proxy=http://proxy.example", "port" },
                { "https_proxy=http://proxy.example/", "port" },
                { "https_proxy=http://proxy.example:", "port" },
                { "https_proxy=http://proxy.example:0", "port" },
                { "https_proxy=http://proxy.example:65536", "port" },
                { "https_proxy=http://proxy.example:80x", "port" },
                { "https_proxy=http://proxy.example:80/x", "port" },
                { "https_proxy=http://user:secret@proxy.example:80", "port" },
                { "https_proxy=http://user@proxy.example:80", "neither a name nor an address" },
                { "https_proxy=http://:80", "neither a name nor an address" },
                { "https_proxy=http://[]:80", "brackets" },
                { "https_proxy=http://[proxy.example]:80", "brackets" },
                { "https_proxy=http://[10.0.0.1]:80", "brackets" },
                { "https_proxy=http://[fd00::1:80", "port" },
                { "https_proxy=http://[fd00::1]80", "port" },
                { "https_proxy=http://fd00::1:80", "port" },
                { "https_proxy=http://10.1:80", "neither a name nor an address" },
                { "https_proxy=http://10.0.0.1/8:80", "neither a name nor an address" },
                { "https_proxy=http://169.254.169.254:80", "metadata" },
                { "https_proxy=http://[fd00:ec2::254]:80", "metadata" },
                { "https_proxy=http://metadata.google.internal:80", "metadata" },
                { "https_proxy=http://a b:80", "neither a name nor an address" },
                { "https_proxy=http://a.example:80\nhttps_proxy=http://b.example:80", "twice" },
                { "nat64_prefix=64:ff9b::", "IPv6 prefix" },
                { "nat64_prefix=64:ff9b::/95", "IPv6 prefix" },
                { "nat64_prefix=10.0.0.0/32", "IPv6 prefix" },
                { "nat64_prefix=2001:db8::1/96", "bits behind" },
                { "nat64_prefix=2001:db8:0:0:100::/96", "64 to 71" },
                { "nat64_prefix=2001:db8::/96\nnat64_prefix=2001:db8::/96", "twice" },
                { "[Other]", "section" },
                { "http_proxy=http://a.example:80", "no such key" },
                { "https_proxy", "KEY=VALUE" },
                { "\x1b[2J=1", "\\x1b" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                HostConfig c = { .proxy_port = 4711 };
                Error *e = NULL;
                char text[256];
                unsigned line = strchr(rows[i].line, '\n') ? 3 : 2;
                char place[64];

                snprintf(text, sizeof(text), "# a comment\n%s\n", rows[i].line);
                snprintf(place, sizeof(place), "agentbox.conf:%u: ", line);
                if (parse(text, &c, &e) >= 0)
                        fail_msg("taken: %s", rows[i].line);
                if (!startswith(e->message, place) || !strstr(e->message, rows[i].why))
                        fail_msg("%s: %s", rows[i].line, e->message);
                assert_int_equal(c.proxy_port, 4711); /* untouched */
                error_free(e);
        }
        assert_int_equal(host_config_parse("x", "a\0b", 3, &(HostConfig){}, NULL), -EINVAL);
}

/* Whoever can write it decides where all that runs send goes. */
static void test_file(void **state)
{
        char directory[] = "/tmp/test-host-config.XXXXXX", path[64];
        Error *e = NULL;
        HostConfig c = {};
        int fd, r;

        assert_non_null(mkdtemp(directory));
        snprintf(path, sizeof(path), "%s/agentbox.conf", directory);
        assert_int_equal(host_config_read(path, &c, &e), 0);
        assert_null(c.proxy_host);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0 && write_full(fd, "https_proxy=http://a.example:1\n", 31) == 0);
        r = host_config_read(path, &c, &e);
        if (geteuid() == 0) {
                assert_int_equal(r, 0);
                assert_string_equal(c.proxy_host, "a.example");
                host_config_done(&c);
                assert_int_equal(fchmod(fd, 0620), 0);
                r = host_config_read(path, &c, &e);
        }
        close(fd);
        assert_int_equal(r, -EPERM); /* not root's, or not root's alone */
        error_free(e);
        e = NULL;
        assert_int_equal(host_config_read(directory, &c, &e), -EINVAL);
        error_free(e);
        assert_true(unlink(path) == 0 && rmdir(directory) == 0);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_empty),
                cmocka_unit_test(test_proxy),
                cmocka_unit_test(test_nat64),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_file),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
