/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "policy/allow-rule.h"

static AllowRule rule(const char *text)
{
        _cleanup_error_ Error *e = NULL;
        AllowRule r;
        size_t offset;

        if (allow_rule_parse(text, &r, &offset, &e) < 0)
                fail_msg("%s: %s", text, error_message(e, -EINVAL));
        return r;
}

static void test_canonical(void **state)
{
        static const char *const rows[][2] = {
                { "tls example.org", "tls example.org" },
                { "tls example.org:443", "tls example.org" },
                { "tls Example.ORG.", "tls example.org" },
                { "tls  example.org:8443 \t ech=allow", "tls example.org:8443 ech=allow" },
                { "tls *.example.org private=allow ech=allow", "tls *.example.org ech=allow private=allow" },
                { "tls xn--mnchen-3ya.example", "tls xn--mnchen-3ya.example" },
                { "tls *.internal", "tls *.internal" },
                { "tls mirror", "tls mirror" },
                { "tls 1.2.3.4.example", "tls 1.2.3.4.example" },
                { "http example.net:80 private=allow", "http example.net private=allow" },
                { "tcp db.example.org:5432 peer-first", "tcp db.example.org:5432 peer-first" },
                { "tcp 192.0.2.77:5432", "tcp 192.0.2.77:5432" },
                { "tcp 192.0.2.77/32:5432", "tcp 192.0.2.77:5432" },
                { "tcp 10.0.0.0/8:22 peer-first", "tcp 10.0.0.0/8:22 peer-first" },
                { "tcp 0.0.0.0/0:443", "tcp 0.0.0.0/0:443" },
                { "tcp [2001:DB8::1]:443", "tcp [2001:db8::1]:443" },
                { "tcp [2001:db8::]/32:443", "tcp [2001:db8::]/32:443" },
                { "tcp [2001:db8::/32]:443", "tcp [2001:db8::]/32:443" },
                { "192.0.2.0/24", "192.0.2.0/24" },
                { "2001:db8::1/128", "2001:db8::1" },
                { "0.0.0.0/0", "0.0.0.0/0" },
                { "@package-index", "@package-index" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                AllowRule r = rule(rows[i][0]), again;
                _cleanup_free_ char *text = allow_rule_format(&r), *second = NULL;

                assert_string_equal(text, rows[i][1]);
                again = rule(text);
                second = allow_rule_format(&again);
                assert_string_equal(text, second);
        }
}

static void test_refused(void **state)
{
        static const struct {
                const char *text;
                size_t offset;
                const char *says;
        } rows[] = {
                { "tls", 0, "destination is missing" },
                { "tls 192.0.2.1", 4, "takes a name" },
                { "tls 127.1", 4, "takes a name" },
                { "tls 0x7f000001", 4, "address" },
                { "tls a.0x7f", 4, "address" },
                { "tls exa mple.org", 8, "unknown option" },
                { "tls a-.org", 4, "labels" },
                { "tls metadata.google.internal", 4, "metadata" },
                { "tls a.metadata.google.internal", 4, "metadata" },
                { "tls METADATA.goog.", 4, "metadata" },
                { "http instance-data", 5, "metadata" },
                { "tcp example.org:65536", 16, "not a port" },
                { "tcp example.org:+1", 16, "not a port" },
                { "tcp example.org:", 16, "not a port" },
                { "tcp 169.254.169.254:80", 4, "metadata" },
                { "tcp 169.254.169.254/31:80", 4, "metadata" },
                { "tcp 169.254.0.0/16:80", 4, "metadata" },
                { "tcp [fe80::1]:80", 4, "metadata" },
                { "tcp [::ffff:169.254.169.254]:80", 4, "IPv4" },
                { "tcp [::ffff:a9fe:a9fe]:80", 4, "IPv4" },
                { "tcp [::ffff:a9fe:a9fe%lo]:80", 4, "not an address" },
                { "tcp [::a9fe:a9fe]:80", 4, "metadata" },
                { "tcp [64:ff9b:1::a9fe:a9fe]:80", 4, "metadata" },
                { "tcp [2002:a9fe:a9fe::]/48:80", 4, "metadata" },
                { "tcp [2001:db8::5efe:a9fe:a9fe]:80", 4, "metadata" },
                { "tcp 2852039166:80", 4, "not an address" },
                { "tcp 169.254.43518:80", 4, "not an address" },
                { "tcp 0251.0376.0251.0376:80", 4, "not an address" },
                { "tcp 0xa9.0xfe.0xa9.0xfe:80", 4, "address" },
                { "tcp 169.254.169.254.:80", 4, "not an address" },
                { "tls 169.254.169.254", 4, "takes a name" },
                { "http *.metadata.google.internal", 5, "metadata" },
                { "tcp Instance-Data.:80", 4, "metadata" },
                { "tcp 10.0.0.1/8:80", 4, "10.0.0.0/8" },
                { "tcp 192.0.2.1:80 ech=allow", 17, "no meaning" },
                { "169.254.169.254", 0, "metadata" },
                { "192.0.2.1 192.0.2.2", 10, "nothing can follow" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_error_ Error *e = NULL;
                AllowRule r;
                size_t offset = 999;

                if (allow_rule_parse(rows[i].text, &r, &offset, &e) != -EINVAL || offset != rows[i].offset ||
                                !strstr(e->message, rows[i].says))
                        fail_msg("%s: offset %zu, %s", rows[i].text, offset, error_message(e, 0));
        }
}

/* However an address is written: what leads to a metadata service alone is refused, what leads to it among
 * others is a rule (and the warden still denies it). */
static void test_metadata(void **state)
{
        static const struct {
                const char *prefix;
                bool only;
        } rows[] = {
                { "169.254.169.254", true },
                { "169.254.0.1", true },
                { "169.254.0.0/16", true },
                { "169.254.0.0/15", false },
                { "169.255.0.1", false },
                { "100.100.100.200", true },
                { "100.100.100.200/31", false },
                { "168.63.129.16", true },
                { "168.63.129.17", false },
                { "192.0.0.192", true },
                { "0.0.0.0/0", false },
                { "fe80::1", true },
                { "fe80::/10", true },
                { "fe00::/8", false },
                { "fd00:ec2::254", true },
                { "fd00:ec2::23", true },
                { "fd20:ce::254", true },
                { "fd00:ec2::/32", false },
                { "::169.254.169.254", true },
                { "::169.254.0.0/112", true },
                { "::169.254.0.0/111", false },
                { "::100.100.100.200", true },
                { "::ffff:169.254.169.254", true },
                { "::ffff:a9fe:a9fe", true },
                { "::ffff:0:a9fe:a9fe", true },
                { "64:ff9b::a9fe:a9fe", true },
                { "64:ff9b::169.254.0.0/112", true },
                { "64:ff9b::/96", false },
                { "64:ff9b::168.63.129.16", true },
                { "64:ff9b::168.63.129.17", false },
                { "64:ff9b:1::a9fe:a9fe", true },
                { "64:ff9b:1:ffff::169.254.169.254", true },
                { "64:ff9b:1:a9fe:a9:fe00::", true },   /* RFC 6052, a prefix of 48 bits */
                { "64:ff9b:1:a9fe:00a9:fe00::/88", true },
                { "64:ff9b:1:a9fe::/64", true },        /* all of 169.254.0.0/16 */
                { "64:ff9b:1:6464:64:c800::/88", true },
                { "64:ff9b:1:6464:64:c900::/88", false },
                { "64:ff9b:1:a9:fe:a9fe::/96", true },  /* 56 bits */
                { "64:ff9b:1:0:a9:fea9:fe00::", true }, /* 64 bits */
                { "64:ff9b:1:0:a9:ffa9:fe00::", false },
                { "64:ff9b:1::/48", false },
                { "2002:a9fe:a9fe::1", true },
                { "2002:a9fe::/32", true },
                { "2002:a9ff::1", false },
                { "2002:c000:c0::/48", true },
                { "2002:c000:c0::/47", false },
                { "2002::/16", false },
                { "2001:0:4136:e378:8000:63bf:5601:5601", true }, /* 169.254.169.254, inverted */
                { "2001:0:4136:e378:8000:63bf:a9fe:a9fe", false },
                { "2001:0:a9fe:a9fe::/64", true },
                { "2001:0:a9ff:a9fe::/64", false },
                { "2001::/32", false },
                { "2001:db8::5efe:169.254.169.254", true },
                { "2001:db8::200:5efe:a9fe:a9fe", true },
                { "2001:db8::300:5efe:a9fe:a9fe", true },
                { "2001:db8::400:5efe:a9fe:a9fe", false },
                { "2001:db8::5efe:0:0/96", false },
                { "2001:db8::5eff:a9fe:a9fe", false },
                { "2001:db8::/32", false },
                { "::/0", false },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                Prefix p;

                if (prefix_parse(rows[i].prefix, &p) < 0 || metadata_only(&p) != rows[i].only)
                        fail_msg("%s", rows[i].prefix);
        }
}

static void test_names_at_their_bounds(void **state)
{
        char text[400] = "tls ";
        _cleanup_error_ Error *e = NULL, *e2 = NULL;
        AllowRule r;
        size_t offset;

        for (int i = 0; i < 63; i++)
                strcat(text, "a");
        strcat(text, ".org");
        rule(text);
        strcpy(text, "tls a");
        for (int i = 0; i < 63; i++)
                strcat(text, "a");
        assert_int_equal(allow_rule_parse(text, &r, &offset, &e), -EINVAL);
        strcpy(text, "tls ");
        for (int i = 0; i < 126; i++)
                strcat(text, "a.");
        strcat(text, "a"); /* 253 */
        rule(text);
        strcat(text, "a");
        assert_int_equal(allow_rule_parse(text, &r, &offset, &e2), -EINVAL);
}

static void test_covers(void **state)
{
        static const struct {
                const char *outer, *inner;
                bool covers;
        } rows[] = {
                { "tls example.org", "tls example.org", true },
                { "tls example.org", "tls example.org:8443", false },
                { "tls example.org", "http example.org:443", false },
                { "tls example.org", "tcp example.org:443", false },
                { "tls example.org", "tls www.example.org", false },
                { "tls *.example.org", "tls www.example.org", true },
                { "tls *.example.org", "tls a.b.example.org", true },
                { "tls *.example.org", "tls *.b.example.org", true },
                { "tls *.example.org", "tls *.example.org", true },
                { "tls *.example.org", "tls example.org", false },
                { "tls *.example.org", "tls evilexample.org", false },
                { "tls *.b.example.org", "tls *.example.org", false },
                { "tls www.example.org", "tls *.www.example.org", false },
                { "tls example.org", "tls example.org ech=allow", false },
                { "tls example.org ech=allow", "tls example.org", true },
                { "tls example.org", "tls example.org private=allow", false },
                { "tcp 10.0.0.0/8:22", "tcp 10.1.2.3:22", true },
                { "tcp 10.0.0.0/8:22", "tcp 11.1.2.3:22", false },
                { "tcp 10.0.0.0/8:22", "tcp 10.0.0.0/7:22", false },
                { "tcp 10.0.0.0/8:22", "10.1.2.3", false },
                { "10.0.0.0/8", "10.1.2.0/24", true },
                { "::/0", "10.1.2.0/24", false },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                AllowRule outer = rule(rows[i].outer), inner = rule(rows[i].inner);

                if (allow_rule_covers(&outer, &inner) != rows[i].covers)
                        fail_msg("%s / %s", rows[i].outer, rows[i].inner);
        }
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_canonical),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_metadata),
                cmocka_unit_test(test_names_at_their_bounds),
                cmocka_unit_test(test_covers),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
