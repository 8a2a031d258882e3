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
#include "cli/package-indexes.h"

static char top[48];

static int set_up(void **state)
{
        static const char *const variables[] = { "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL",
                "PIP_FIND_LINKS", "NPM_CONFIG_REGISTRY", "npm_config_registry" };

        for (size_t i = 0; i < ELEMENTSOF(variables); i++)
                unsetenv(variables[i]);
        strcpy(top, "/tmp/test-package-indexes.XXXXXX");
        return mkdtemp(top) ? 0 : -1;
}

static int tear_down(void **state)
{
        char command[80];

        snprintf(command, sizeof(command), "rm -rf %s", top);
        return system(command);
}

static void put(const char *path, const char *text)
{
        char full[256];

        for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
                snprintf(full, sizeof(full), "%s/%.*s", top, (int) (slash - path), path);
                assert_true(mkdir(full, 0755) == 0 || errno == EEXIST);
        }
        snprintf(full, sizeof(full), "%s/%s", top, path);
        assert_int_equal(write_new_file_at(AT_FDCWD, full, text, strlen(text), 0644), 0);
}

static void expect_proxies(const char *want, const char *want_proxies)
{
        _cleanup_strv_ char **rules = NULL, **proxies = NULL;
        _cleanup_free_ char *joined = NULL, *joined_proxies = NULL;
        char home[80];

        snprintf(home, sizeof(home), "%s/home", top);
        assert_int_equal(package_indexes(top, home, &rules, &proxies), 0);
        joined = strv_join(rules, "\n");
        joined_proxies = strv_join(proxies, "\n");
        assert_string_equal(joined, want);
        assert_string_equal(joined_proxies, want_proxies);
}

static void expect(const char *want)
{
        expect_proxies(want, "");
}

static void test_nothing(void **state)
{
        expect("");
}

static void test_pip(void **state)
{
        put("etc/pip.conf", "[global]\n"
                            "timeout = 60\n"
                            "index-url = https://user:secret@index.example.org/simple/\n"
                            "extra-index-url =\n"
                            "    https://extra.example.org:8443/simple\n"
                            "    # http://commented.example.org/\n"
                            "    http://192.0.2.7/simple http://192.0.2.8:8080/simple\n"
                            "trusted-host = https://not-an-index.example.org\n");
        put("home/.config/pip/pip.conf", "[global]\nindex-url=https://INDEX.example.org\n");
        expect("tls index.example.org\n"
               "tls extra.example.org:8443\n"
               "tcp 192.0.2.7:80\n"
               "tcp 192.0.2.8:8080");
}

static void test_npm(void **state)
{
        put("home/.npmrc", "registry=https://npm.example.org/\n"
                           "@scope:registry = https://scope.example.org:4873\n"
                           "//npm.example.org/:_authToken=secret\n"
                           "; registry=http://old.example.org\n"
                           "fund=false\n"
                           "homepage=https://elsewhere.example.org\n");
        expect("tls npm.example.org\n"
               "tls scope.example.org:4873");
}

static void test_apt(void **state)
{
        put("etc/apt/sources.list",
                        "# deb http://commented.example.org x main\n"
                        "deb http://archive.example.net/debian stable main\n"
                        "deb-src [signed-by=/x arch=amd64] https://src.example.net/debian stable main\n");
        put("etc/apt/sources.list.d/a.sources",
                        "Types: deb\n"
                        "URIs: http://archive.example.net/debian https://sec.example.net/\n"
                        "Suites: stable\n"
                        "Signed-By: /usr/share/keyrings/https://x\n");
        put("etc/apt/apt.conf.d/proxy", "Acquire::http::Proxy \"http://proxy.example.net:3128\";\n// "
                                        "http://comment.example\n");
        expect_proxies("http archive.example.net\n"
                       "tls src.example.net\n"
                       "tls sec.example.net",
                        "http proxy.example.net:3128");
}

/* What cannot be a rule is left out: no line that "policy check" would refuse later. */
static void test_no_rule(void **state)
{
        put("etc/pip.conf", "index-url = https://169.254.169.254/\n"
                            "extra-index-url = http://metadata.google.internal/ https://${HOST}/ https:///x "
                            "http://a_b/ "
                            "https://localhost/ http://[fe80::1]/ https://[2001:db8::1]/\n");
        expect("tcp [2001:db8::1]:443");
}

static void test_environment(void **state)
{
        setenv("PIP_INDEX_URL", "https://env.example.org/simple", 1);
        setenv("PIP_FIND_LINKS", "/srv/wheels https://links.example.org/x", 1);
        expect("tls env.example.org\n"
               "tls links.example.org");
}

/* As the tools' own code has it: used where nobody names another index, and nowhere else. */
static void test_builtin(void **state)
{
        put("usr/lib/python3/dist-packages/pip/_internal/models/index.py",
                        "class PackageIndex:\n    # https://comment.example.org/\n\n"
                        "PyPI = PackageIndex(\"https://default.example.org/\", file_storage_domain=\"files.example.org\")\n"
                        "TestPyPI = PackageIndex(\n    \"https://test.example.org/\", file_storage_domain=\"t.example.org\"\n)\n");
        put("usr/lib/node_modules/npm/node_modules/@npmcli/config/lib/definitions/definitions.js",
                        "  'node-url': x({ default: 'https://no.example.org/' }),\n"
                        "  registry: new Definition('registry', {\n    default: 'https://npm-default.example.org/',\n"
                        "    description: `see https://docs.example.org`\n");
        expect("tls default.example.org\n"
               "tls files.example.org\n"
               "tls npm-default.example.org");
        put("etc/pip.conf", "[global]\nextra-index-url = https://extra.example.org/\nproxy = http://user:x@proxy.example.net:8080\n");
        put("etc/npmrc", "@scope:registry=https://scope.example.org/\nhttps-proxy=http://proxy.example.net:8080\n");
        expect_proxies("tls extra.example.org\n"
                       "tls default.example.org\n"
                       "tls files.example.org\n"
                       "tls scope.example.org\n"
                       "tls npm-default.example.org",
                        "http proxy.example.net:8080");
        put("home/.pip/pip.conf", "[global]\nindex-url=https://own.example.org/\n");
        put("home/.npmrc", "registry = https://own-npm.example.org/\n");
        expect_proxies("tls extra.example.org\n"
                       "tls own.example.org\n"
                       "tls scope.example.org\n"
                       "tls own-npm.example.org",
                        "http proxy.example.net:8080");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        static const struct CMUnitTest tests[] = {
                TEST(test_nothing),
                TEST(test_pip),
                TEST(test_npm),
                TEST(test_apt),
                TEST(test_no_rule),
                TEST(test_environment),
                TEST(test_builtin),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
