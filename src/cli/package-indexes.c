/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "cli/package-indexes.h"
#include "policy/allow-rule.h"

#define CONFIG_SIZE_MAX (1024u * 1024)

static const char *const pip_keys[] = { "index-url", "extra-index-url", "find-links", "proxy", NULL };
static const char *const npm_keys[] = { "registry", "proxy", "https-proxy", NULL };
static const char *const apt_source_keys[] = { "deb", "deb-src", "URIs", NULL };
static const char *const apt_proxy_keys[] = { "Acquire::http::Proxy", "Acquire::https::Proxy", NULL };

typedef struct ConfigFile {
        bool home;           /* below the user's home, not below the root */
        const char *pattern; /* of glob(3), relative */
        const char *const *keys;
} ConfigFile;

static const ConfigFile config_files[] = {
        { false, "etc/pip.conf", pip_keys },
        { false, "etc/xdg/pip/pip.conf", pip_keys },
        { true, ".pip/pip.conf", pip_keys },
        { true, ".config/pip/pip.conf", pip_keys },
        { false, "etc/npmrc", npm_keys },
        { false, "usr/etc/npmrc", npm_keys },
        { false, "usr/local/etc/npmrc", npm_keys },
        { false, "usr/share/nodejs/npm/npmrc", npm_keys },
        { false, "usr/lib/node_modules/npm/npmrc", npm_keys },
        { true, ".npmrc", npm_keys },
        { false, "etc/apt/sources.list", apt_source_keys },
        { false, "etc/apt/sources.list.d/*.list", apt_source_keys },
        { false, "etc/apt/sources.list.d/*.sources", apt_source_keys },
        { false, "etc/apt/mirrors/*.list", NULL },
        { false, "etc/apt/apt.conf", apt_proxy_keys },
        { false, "etc/apt/apt.conf.d/*", apt_proxy_keys },
};

static const char *const environment[] = { "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "NPM_CONFIG_REGISTRY",
        "npm_config_registry" };

/* "[user[:password]@]HOST[:PORT]" of a URL, n bytes; "http" or "tls". What makes no valid rule (a
 * placeholder, a metadata name) is left out. The password is dropped here and goes nowhere. */
static int add_authority(const char *s, size_t n, const char *kind, char ***rules)
{
        const char *at = memrchr(s, '@', n);
        _cleanup_free_ char *text = NULL, *rule_text = NULL;
        AllowRule rule;
        size_t offset;
        int r;

        if (at) {
                n -= (size_t) (at + 1 - s);
                s = at + 1;
        }
        if (asprintf(&text, "%s %.*s", kind, (int) n, s) < 0) {
                text = NULL;
                return -ENOMEM;
        }
        r = allow_rule_parse(text, &rule, &offset, NULL);
        if (r == -EINVAL) {
                /* An address, which takes another kind of rule and says its port. */
                const char *colon = memrchr(s, ':', n);
                bool port = colon && !memchr(colon, ']', n - (size_t) (colon - s));

                free(text);
                if (asprintf(&text, "tcp %.*s%s", (int) n, s,
                                    port                 ? ""
                                    : streq(kind, "tls") ? ":443"
                                                         : ":80") < 0) {
                        text = NULL;
                        return -ENOMEM;
                }
                r = allow_rule_parse(text, &rule, &offset, NULL);
                if (r >= 0 && rule.kind != ALLOW_TCP_ADDRESS)
                        return 0;
        }
        if (r == -EINVAL)
                return 0;
        rule_text = r < 0 ? NULL : allow_rule_format(&rule);
        if (!rule_text)
                return -ENOMEM;
        return strv_contains(*rules, rule_text) ? 0 : strv_extend(rules, rule_text);
}

/* Every URL of the line, wherever it stands in it ("deb [options] URL suite"). */
static int add_urls(const char *line, size_t n, char ***rules)
{
        for (size_t i = 0; i < n; i++) {
                const char *rest = startswith(line + i, "https://"), *kind = "tls";
                size_t length;
                int r;

                if (!rest) {
                        rest = startswith(line + i, "http://");
                        kind = "http";
                }
                if (!rest || rest > line + n)
                        continue;
                length = strcspn(rest, "/?# \t\r\n\"';,");
                length = MIN2(length, (size_t) (line + n - rest));
                r = add_authority(rest, length, kind, rules);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Whether the line gives one of the keys: "key = value", "key: value", "@scope:key=value", "deb URL",
 * "Acquire::http::Proxy ...;". */
static bool line_has_key(const char *line, size_t n, const char *const *keys)
{
        for (; *keys; keys++) {
                size_t m = strlen(*keys);

                for (size_t i = 0; i + m < n; i++)
                        if (strncasecmp(line + i, *keys, m) == 0 && strchr(" \t=:", line[i + m]) &&
                                        (i == 0 || line[i - 1] == ':'))
                                return true;
        }
        return false;
}

int package_indexes_from_text(const char *text, const char *const *keys, char ***rules)
{
        bool counts = false;

        for (const char *line = text; *line;) {
                size_t n = strcspn(line, "\n"), blank = strspn(line, " \t");
                int r;

                if (blank < n && !strchr("#;", line[blank]) && strncmp(line + blank, "//", 2) != 0) {
                        if (blank == 0)
                                counts = !keys || line_has_key(line, n, keys);
                        r = counts ? add_urls(line, n, rules) : 0;
                        if (r < 0)
                                return r;
                }
                line += n + (line[n] == '\n');
        }
        return 0;
}

static int read_files(const char *top, const ConfigFile *f, char ***rules)
{
        _cleanup_free_ char *pattern = NULL;
        glob_t found = {};
        int r = 0;

        if (asprintf(&pattern, "%s/%s", top, f->pattern) < 0) {
                pattern = NULL;
                return -ENOMEM;
        }
        if (glob(pattern, 0, NULL, &found) == 0)
                for (size_t i = 0; r >= 0 && i < found.gl_pathc; i++) {
                        _cleanup_free_ char *text = NULL;

                        r = read_file(found.gl_pathv[i], CONFIG_SIZE_MAX, &text, NULL);
                        if (r >= 0)
                                r = package_indexes_from_text(text, f->keys, rules);
                        else if (r != -ENOMEM)
                                r = 0;
                }
        globfree(&found);
        return r;
}

int package_indexes(const char *root, const char *home, char ***ret)
{
        _cleanup_strv_ char **rules = NULL;

        for (size_t i = 0; i < ELEMENTSOF(config_files); i++) {
                const char *top = config_files[i].home ? home : root;
                int r = top ? read_files(top, config_files + i, &rules) : 0;

                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < ELEMENTSOF(environment); i++) {
                const char *value = getenv(environment[i]);
                int r = value ? package_indexes_from_text(value, NULL, &rules) : 0;

                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(rules);
        return 0;
}
