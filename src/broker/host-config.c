/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/escape.h"
#include "base/io.h"
#include "base/parse.h"
#include "broker/host-config.h"
#include "policy/allow-rule.h"

#define CONFIG_SIZE_MAX (64u * 1024)
#define SECTION "[Network]"

void host_config_done(HostConfig *c)
{
        free(c->proxy_host);
        *c = (HostConfig){};
}

/* ---- values */

static int parse_port(const char *s, uint16_t *ret)
{
        uint64_t port;

        if (parse_u64(s, &port) < 0 || port < 1 || port > 65535)
                return -EINVAL;
        *ret = (uint16_t) port;
        return 0;
}

/* Nothing sends what runs say to a metadata service, not even the administrator. */
static int check_proxy_address(const Prefix *p, Error **reterr)
{
        if (metadata_only(p))
                return error_set(reterr, -EINVAL, "the proxy's address is a cloud metadata service");
        return 0;
}

static int check_proxy_host(char *host, Error **reterr)
{
        const char *why = NULL;
        Prefix p;

        if (!strchr(host, '/') && prefix_parse(host, &p) == 0)
                return check_proxy_address(&p, reterr);
        if (!host_name_valid(host, &why))
                return error_set(reterr, -EINVAL, "the proxy's host is neither a name nor an address: %s",
                                why);
        for (char *c = host; *c; c++)
                *c = (char) tolower((unsigned char) *c);
        return metadata_name(host)
                               ? error_set(reterr, -EINVAL, "the proxy's name is a cloud metadata service")
                               : 0;
}

/* http://HOST:PORT, with a slash behind it at most. */
static int parse_proxy(const char *value, HostConfig *c, Error **reterr)
{
        const char *rest = startswith(value, "http://"), *colon, *end;
        _cleanup_free_ char *host = NULL, *port = NULL;
        bool bracket;
        int r;

        if (c->proxy_host)
                return error_set(reterr, -EINVAL, "https_proxy= is there twice");
        if (!rest)
                return error_set(reterr, -EINVAL,
                                "https_proxy= takes http://HOST:PORT (the proxy itself is spoken to "
                                "without TLS)");
        end = rest + strlen(rest);
        if (end > rest && end[-1] == '/')
                end--;
        bracket = *rest == '[';
        colon = bracket ? memchr(rest, ']', (size_t) (end - rest))
                        : memchr(rest, ':', (size_t) (end - rest));
        if (colon && bracket)
                colon++;
        if (!colon || colon >= end || *colon != ':')
                return error_set(
                                reterr, -EINVAL, "https_proxy= takes http://HOST:PORT: the port is missing");
        host = bracket ? strndup(rest + 1, (size_t) (colon - rest - 2))
                       : strndup(rest, (size_t) (colon - rest));
        port = strndup(colon + 1, (size_t) (end - colon - 1));
        if (!host || !port)
                return error_set(reterr, -ENOMEM, "out of memory");
        if (parse_port(port, &c->proxy_port) < 0)
                return error_set(reterr, -EINVAL, "the proxy's port is no number from 1 to 65535");
        if (bracket && !strchr(host, ':'))
                return error_set(reterr, -EINVAL, "only an IPv6 address stands in brackets");
        r = check_proxy_host(host, reterr);
        if (r >= 0)
                c->proxy_host = TAKE_PTR(host);
        return r;
}

/* RFC 6052, 2.2: these lengths, and bits 64 to 71 are zero. */
static int parse_nat64(const char *value, HostConfig *c, Error **reterr)
{
        static const unsigned lengths[] = { 32, 40, 48, 56, 64, 96 };
        bool length_is_good = false;
        Prefix p;
        int r = prefix_parse(value, &p);

        if (c->has_nat64)
                return error_set(reterr, -EINVAL, "nat64_prefix= is there twice");
        if (r == -ERANGE)
                return error_set(reterr, r, "nat64_prefix=: bits behind the length are set");
        for (size_t i = 0; r == 0 && i < ELEMENTSOF(lengths); i++)
                length_is_good |= p.length == lengths[i];
        if (r < 0 || p.family != PREFIX_IPV6 || !length_is_good)
                return error_set(reterr, -EINVAL,
                                "nat64_prefix= takes an IPv6 prefix of 32, 40, 48, 56, 64 or 96 bits");
        for (unsigned i = 0; i < 16; i++)
                c->nat64[i] = (uint8_t) (p.address >> (120 - 8 * i));
        if (p.length > 64 && c->nat64[8] != 0)
                return error_set(reterr, -EINVAL, "nat64_prefix=: bits 64 to 71 must be zero (RFC 6052)");
        c->has_nat64 = true;
        c->nat64_length = (uint8_t) p.length;
        return 0;
}

static const struct {
        const char *key;
        int (*parse)(const char *value, HostConfig *c, Error **reterr);
} keys[] = {
        { "https_proxy", parse_proxy },
        { "nat64_prefix", parse_nat64 },
};

/* ---- lines */

static char *stripped(char *s)
{
        size_t n;

        s += strspn(s, " \t\r");
        n = strlen(s);
        while (n > 0 && strchr(" \t\r", s[n - 1]))
                s[--n] = 0;
        return s;
}

static int parse_line(char *line, HostConfig *c, Error **reterr)
{
        _cleanup_free_ char *shown = NULL;
        char *key = stripped(line), *value = strchr(key, '=');

        if (!*key || *key == '#' || *key == ';' || streq(key, SECTION))
                return 0;
        shown = escape_for_display(key, strlen(key), 80);
        if (!shown)
                return error_set(reterr, -ENOMEM, "out of memory");
        if (!value)
                return error_set(reterr, -EINVAL,
                                *key == '[' ? "no section but " SECTION " is known: %s"
                                            : "neither KEY=VALUE nor a comment: %s",
                                shown);
        *value = 0;
        value = stripped(value + 1);
        key = stripped(key);
        for (size_t i = 0; i < ELEMENTSOF(keys); i++)
                if (streq(key, keys[i].key))
                        /* An empty value sets nothing, as if the line were not there. */
                        return *value ? keys[i].parse(value, c, reterr) : 0;
        return error_set(reterr, -EINVAL, "no such key: %s", shown);
}

int host_config_parse(const char *file, const char *text, size_t size, HostConfig *ret, Error **reterr)
{
        _cleanup_host_config_ HostConfig c = {};
        _cleanup_free_ char *copy = strndup(text, size);
        unsigned number = 1;

        if (!copy)
                return error_set(reterr, -ENOMEM, "out of memory");
        if (strlen(copy) != size)
                return error_set(reterr, -EINVAL, "%s: holds a NUL byte", file);
        for (char *line = copy, *next; line; line = next, number++) {
                int r;

                next = strchr(line, '\n');
                if (next)
                        *next++ = 0;
                r = parse_line(line, &c, reterr);
                if (r < 0)
                        return error_prefix(reterr, r, "%s:%u", file, number);
        }
        *ret = c;
        c = (HostConfig){};
        return 0;
}

int host_config_read(const char *path, HostConfig *ret, Error **reterr)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        _cleanup_free_ char *text = NULL;
        char self[32];
        struct stat st;
        size_t n;
        int r;

        if (fd < 0 && errno == ENOENT) {
                *ret = (HostConfig){};
                return 0;
        }
        if (fd < 0 || fstat(fd, &st) < 0)
                return error_set(reterr, -errno, "%s: %m", path);
        if (!S_ISREG(st.st_mode))
                return error_set(reterr, -EINVAL, "%s: is no regular file", path);
        if (st.st_uid != 0 || (st.st_mode & 022))
                return error_set(reterr, -EPERM, "%s: must be root's, and writable for nobody else", path);
        snprintf(self, sizeof(self), "/proc/self/fd/%i", fd);
        r = read_file(self, CONFIG_SIZE_MAX, &text, &n);
        if (r < 0)
                return error_set(reterr, r, "%s: %s", path, strerror(-r));
        return host_config_parse(path, text, n, ret, reterr);
}
