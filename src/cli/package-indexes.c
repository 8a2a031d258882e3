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

typedef enum Tool { TOOL_PIP, TOOL_NPM, TOOL_APT, _TOOL_MAX } Tool;

static const char *const index_keys[_TOOL_MAX][5] = {
        [TOOL_PIP] = { "index-url", "extra-index-url", "find-links" },
        [TOOL_NPM] = { "registry" },
        [TOOL_APT] = { "deb", "deb-src", "URIs" },
};
static const char *const proxy_keys[_TOOL_MAX][3] = {
        [TOOL_PIP] = { "proxy" },
        [TOOL_NPM] = { "proxy", "https-proxy" },
        [TOOL_APT] = { "Acquire::http::Proxy", "Acquire::https::Proxy" },
};
/* What takes the place of the index that the tool was built with; NULL: it was built with none. */
static const char *const primary_keys[_TOOL_MAX] = { [TOOL_PIP] = "index-url", [TOOL_NPM] = "registry" };

typedef struct ConfigFile {
        Tool tool;
        bool home;           /* below the user's home, not below the root */
        const char *pattern; /* of glob(3), relative */
        bool every_line;     /* there are no keys: each line may be a URL */
} ConfigFile;

static const ConfigFile config_files[] = {
        { TOOL_PIP, false, "etc/pip.conf", false },
        { TOOL_PIP, false, "etc/xdg/pip/pip.conf", false },
        { TOOL_PIP, true, ".pip/pip.conf", false },
        { TOOL_PIP, true, ".config/pip/pip.conf", false },
        { TOOL_NPM, false, "etc/npmrc", false },
        { TOOL_NPM, false, "usr/etc/npmrc", false },
        { TOOL_NPM, false, "usr/local/etc/npmrc", false },
        { TOOL_NPM, false, "usr/share/nodejs/npm/npmrc", false },
        { TOOL_NPM, false, "usr/lib/node_modules/npm/npmrc", false },
        { TOOL_NPM, true, ".npmrc", false },
        { TOOL_APT, false, "etc/apt/sources.list", false },
        { TOOL_APT, false, "etc/apt/sources.list.d/*.list", false },
        { TOOL_APT, false, "etc/apt/sources.list.d/*.sources", false },
        { TOOL_APT, false, "etc/apt/mirrors/*.list", true },
        { TOOL_APT, false, "etc/apt/apt.conf", false },
        { TOOL_APT, false, "etc/apt/apt.conf.d/*", false },
};

static const struct {
        Tool tool;
        const char *name;
        bool primary;
} environment[] = {
        { TOOL_PIP, "PIP_INDEX_URL", true },
        { TOOL_PIP, "PIP_EXTRA_INDEX_URL", false },
        { TOOL_PIP, "PIP_FIND_LINKS", false },
        { TOOL_NPM, "NPM_CONFIG_REGISTRY", true },
        { TOOL_NPM, "npm_config_registry", true },
};

/* Where the tools' own code says what they use when nobody says anything: the statement that begins so. */
static const struct {
        Tool tool;
        const char *pattern, *begin;
} builtins[] = {
        { TOOL_PIP, "usr/lib/python3/dist-packages/pip/_internal/models/index.py",
                        "\nPyPI = PackageIndex(" },
        { TOOL_PIP, "usr/lib/python3*/site-packages/pip/_internal/models/index.py",
                        "\nPyPI = PackageIndex(" },
        { TOOL_PIP, "usr/local/lib/python3*/*-packages/pip/_internal/models/index.py",
                        "\nPyPI = PackageIndex(" },
        { TOOL_NPM, "usr/lib/node_modules/npm/node_modules/@npmcli/config/lib/definitions/definitions.js",
                        "'registry', {" },
        { TOOL_NPM,
                        "usr/local/lib/node_modules/npm/node_modules/@npmcli/config/lib/definitions/"
                        "definitions.js",
                        "'registry', {" },
        { TOOL_NPM, "usr/share/nodejs/@npmcli/config/lib/definitions/definitions.js", "'registry', {" },
};
#define FILES_HOST "file_storage_domain=\"" /* where pip's index keeps the files themselves */

typedef struct Found {
        char **rules, **proxies; /* of one tool */
        bool has_primary;
} Found;

static void found_done(Found *f)
{
        strv_free(f->rules);
        strv_free(f->proxies);
        *f = (Found){};
}

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

/* Whether a line sets this key itself, not one of a scope. */
static bool sets_key(const char *text, const char *key)
{
        for (const char *line = text; *line; line += *line == '\n') {
                const char *rest = startswith(line, key);

                if (rest && strchr("=:", rest[strspn(rest, " \t")]) && rest[strspn(rest, " \t")])
                        return true;
                line += strcspn(line, "\n");
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

/* Calls take for each file that the pattern means; what is not there or cannot be read counts as empty. */
static int for_each_file(const char *top, const char *pattern,
                int (*take)(const char *text, const void *row, Found *f), const void *row, Found *f)
{
        _cleanup_free_ char *path = NULL;
        glob_t found = {};
        int r = 0;

        if (asprintf(&path, "%s/%s", top, pattern) < 0) {
                path = NULL;
                return -ENOMEM;
        }
        if (glob(path, 0, NULL, &found) == 0)
                for (size_t i = 0; r >= 0 && i < found.gl_pathc; i++) {
                        _cleanup_free_ char *text = NULL;

                        r = read_file(found.gl_pathv[i], CONFIG_SIZE_MAX, &text, NULL);
                        if (r >= 0)
                                r = take(text, row, f);
                        else if (r != -ENOMEM)
                                r = 0;
                }
        globfree(&found);
        return r;
}

static int take_config(const char *text, const void *row, Found *f)
{
        const ConfigFile *c = row;
        int r = package_indexes_from_text(text, c->every_line ? NULL : index_keys[c->tool], &f->rules);

        if (r >= 0)
                r = package_indexes_from_text(text, proxy_keys[c->tool], &f->proxies);
        if (primary_keys[c->tool])
                f->has_primary |= sets_key(text, primary_keys[c->tool]);
        return r;
}

/* The statement's first URL and, of pip, the host of the files. */
static int take_builtin(const char *text, const void *row, Found *f)
{
        const char *begin = strstr(text, row), *line, *files;
        size_t n;
        int r;

        line = begin ? strstr(begin, "https://") : NULL;
        if (!line || line - begin > 200)
                return 0;
        n = strcspn(line, "\n");
        r = add_urls(line, n, &f->rules);
        files = strstr(line, FILES_HOST);
        if (r < 0 || !files || files > line + n + 100)
                return r;
        files += strlen(FILES_HOST);
        return add_authority(files, strcspn(files, "\"\n"), "tls", &f->rules);
}

static int read_tool(Tool tool, const char *root, const char *home, Found *f)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(config_files); i++) {
                const char *top = config_files[i].home ? home : root;

                if (config_files[i].tool == tool && top)
                        r = for_each_file(top, config_files[i].pattern, take_config, config_files + i, f);
        }
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(environment); i++) {
                const char *value = environment[i].tool == tool ? getenv(environment[i].name) : NULL;

                if (!value || !*value)
                        continue;
                f->has_primary |= environment[i].primary;
                r = package_indexes_from_text(value, NULL, &f->rules);
        }
        for (size_t i = 0; r >= 0 && !f->has_primary && i < ELEMENTSOF(builtins); i++)
                if (builtins[i].tool == tool)
                        r = for_each_file(root, builtins[i].pattern, take_builtin, builtins[i].begin, f);
        return r;
}

static int merge(char *const *from, char ***to)
{
        STRV_FOREACH(i, from)
                if (!strv_contains(*to, *i) && strv_extend(to, *i) < 0)
                        return -ENOMEM;
        return 0;
}

int package_indexes(const char *root, const char *home, char ***ret_rules, char ***ret_proxies)
{
        _cleanup_strv_ char **rules = NULL, **proxies = NULL;

        for (Tool tool = 0; tool < _TOOL_MAX; tool++) {
                _cleanup_(found_done) Found f = {};
                int r = read_tool(tool, root, home, &f);

                if (r >= 0)
                        r = merge(f.rules, &rules);
                if (r >= 0)
                        r = merge(f.proxies, &proxies);
                if (r < 0)
                        return r;
        }
        *ret_rules = TAKE_PTR(rules);
        *ret_proxies = TAKE_PTR(proxies);
        return 0;
}
