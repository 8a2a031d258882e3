/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/parse.h"
#include "policy/allow-rule.h"
#include "policy/policy-suggest.h"

#define BLANKS " \t"

static const char *const kind_words[] = { [ALLOW_TLS] = "tls", [ALLOW_HTTP] = "http", [ALLOW_TCP] = "tcp" };
static const uint16_t default_ports[_ALLOW_KIND_MAX] = { [ALLOW_TLS] = 443, [ALLOW_HTTP] = 80 };

typedef struct RuleOption {
        const char *text;
        size_t offset;  /* of its bool in AllowRule */
        unsigned kinds; /* bits of the kinds that it makes sense for */
} RuleOption;

static const RuleOption options[] = {
        { "ech=allow", offsetof(AllowRule, ech_allow), 1u << ALLOW_TLS },
        { "private=allow", offsetof(AllowRule, private_allow),
                        1u << ALLOW_TLS | 1u << ALLOW_HTTP | 1u << ALLOW_TCP },
        { "peer-first", offsetof(AllowRule, peer_first), 1u << ALLOW_TCP | 1u << ALLOW_TCP_ADDRESS },
};

static bool *rule_option(AllowRule *r, const RuleOption *o)
{
        return (bool *) ((char *) r + o->offset);
}

static bool label_valid(const char *label, size_t n)
{
        if (n == 0 || n > 63 || label[0] == '-' || label[n - 1] == '-')
                return false;
        for (size_t i = 0; i < n; i++)
                if (!isascii((unsigned char) label[i]) ||
                                (!isalnum((unsigned char) label[i]) && label[i] != '-'))
                        return false;
        return true;
}

/* Whatever ends in a number is an address to some resolver, however odd: 127.1, 2130706433, 0x7f.1. */
static bool label_is_number(const char *label, size_t n)
{
        size_t i = 0;

        if (n >= 2 && label[0] == '0' && (label[1] == 'x' || label[1] == 'X')) {
                for (i = 2; i < n && isxdigit((unsigned char) label[i]); i++)
                        ;
                return i == n;
        }
        while (i < n && isdigit((unsigned char) label[i]))
                i++;
        return i == n;
}

bool host_name_valid(const char *name, const char **ret_reason)
{
        size_t n = strlen(name), label = 0;

        for (const char *c = name; *c; c++)
                if (!isascii((unsigned char) *c)) {
                        *ret_reason = "names are written in ASCII; an international one in its xn-- form";
                        return false;
                }
        if (n == 0 || n > ALLOW_NAME_MAX) {
                *ret_reason = n == 0 ? "the name is missing" : "a name has at most 253 bytes";
                return false;
        }
        for (const char *c = name;; c += label + 1) {
                label = strcspn(c, ".");
                if (!label_valid(c, label)) {
                        *ret_reason = "a name is made of labels of 1 to 63 letters, digits and hyphens, no "
                                      "hyphen at "
                                      "either end, with dots between them";
                        return false;
                }
                if (c[label])
                        continue;
                if (label_is_number(c, label)) {
                        *ret_reason = "this is an address, not a name; an address takes a rule tcp "
                                      "ADDRESS:PORT";
                        return false;
                }
                return true;
        }
}

static int parse_port(const char *s, uint16_t *ret)
{
        uint64_t port;

        if (*s == '0' || parse_u64(s, &port) < 0 || port > UINT16_MAX)
                return -EINVAL;
        *ret = (uint16_t) port;
        return 0;
}

/* The name of a rule into r->name, lower case, without wildcard and final dot. */
static int take_name(char *text, AllowRule *r, Error **reterr)
{
        const char *reason = NULL, *name = text;
        size_t n;

        r->wildcard = startswith(text, "*.");
        if (r->wildcard)
                name += 2;
        n = strlen(name);
        if (n > 1 && name[n - 1] == '.')
                text[name - text + (ptrdiff_t) --n] = 0;
        if (strchr(name, '*'))
                return error_set(reterr, -EINVAL,
                                "\"*\" can only be the first label of a name, as in *.example.org");
        if (strchr(name, '/'))
                return error_set(reterr, -EINVAL, "a name is wanted, not a URL or path");
        if (!host_name_valid(name, &reason))
                return error_set(reterr, -EINVAL, "\"%s\" is no host name: %s", name, reason);
        for (size_t i = 0; i <= n; i++)
                r->name[i] = (char) tolower((unsigned char) name[i]);
        if (metadata_name(r->name))
                return error_set(reterr, -EINVAL, "%s is a cloud metadata service, which nothing can allow",
                                r->name);
        n = strlen(r->name);
        if (streq(r->name, "localhost") || (n > 10 && streq(r->name + n - 10, ".localhost")))
                return error_set(reterr, -EINVAL,
                                "localhost needs no rule: it is the sandbox's own, and the host's is "
                                "never reachable");
        return 0;
}

/* The checks that hold for an address whatever stands around it. */
static int check_prefix(const char *text, int parsed, const Prefix *p, Error **reterr)
{
        static const Prefix mapped = { PREFIX_IPV6, 96, (PrefixBits) 0xffff << 32 };
        char good[PREFIX_TEXT_MAX];

        if (parsed == -ERANGE) {
                prefix_format(p, false, good);
                return error_set(reterr, -EINVAL, "%s has bits set behind its prefix length; write %s", text,
                                good);
        }
        if (parsed < 0)
                return error_set(reterr, -EINVAL, "\"%s\" is not an address or prefix", text);
        if (prefix_covers(&mapped, p))
                return error_set(reterr, -EINVAL, "%s is an IPv4 address in IPv6 clothes; write it as IPv4",
                                text);
        if (metadata_only(p))
                return error_set(reterr, -EINVAL, "%s is a cloud metadata address, which nothing can allow",
                                text);
        return 0;
}

/* Destinations that no connection through the warden can have. */
static int check_reachable(const char *text, const Prefix *p, Error **reterr)
{
        static const struct {
                Prefix prefix;
                const char *why;
        } table[] = {
                { { PREFIX_IPV4, 8, (PrefixBits) 127 << 24 }, "is loopback: the sandbox's own needs no "
                                                              "rule, the host's is never reachable" },
                { { PREFIX_IPV6, 128, 1 }, "is loopback: the sandbox's own needs no rule, the host's is "
                                           "never reachable" },
                { { PREFIX_IPV4, 8, 0 }, "is no destination" },
                { { PREFIX_IPV6, 128, 0 }, "is no destination" },
                { { PREFIX_IPV4, 4, (PrefixBits) 224 << 24 }, "is multicast, which TCP cannot reach" },
                { { PREFIX_IPV6, 8, (PrefixBits) 0xff << 120 }, "is multicast, which TCP cannot reach" },
                { { PREFIX_IPV4, 4, (PrefixBits) 240 << 24 }, "is reserved" },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (prefix_covers(&table[i].prefix, p))
                        return error_set(reterr, -EINVAL, "%s %s", text, table[i].why);
        return 0;
}

/* "[v6]/LEN:PORT", "[v6/LEN]:PORT" or "v4/LEN:PORT"; text is cut up on the way. */
static int take_address(char *text, AllowRule *r, size_t *offset, Error **reterr)
{
        char address[PREFIX_TEXT_MAX], *port = strrchr(text, ':');
        char *bracket = text[0] == '[' ? strchr(text, ']') : NULL;
        int k;

        if (text[0] == '[' && (!bracket || !port || port < bracket))
                return error_set(reterr, -EINVAL, "an IPv6 address with a port is written [ADDRESS]:PORT");
        if (!port)
                return error_set(reterr, -EINVAL, "the port is missing: tcp %s:PORT", text);
        *port++ = 0;
        if (bracket)
                k = snprintf(address, sizeof(address), "%.*s%s", (int) (bracket - text - 1), text + 1,
                                bracket + 1);
        else
                k = snprintf(address, sizeof(address), "%s", text);
        if (k < 0 || (size_t) k >= sizeof(address))
                return error_set(reterr, -EINVAL, "\"%s\" is not an address or prefix", text);
        if (!bracket && strchr(address, ':'))
                return error_set(reterr, -EINVAL, "an IPv6 address with a port is written [ADDRESS]:PORT");
        k = check_prefix(address, prefix_parse(address, &r->prefix), &r->prefix, reterr);
        if (k >= 0)
                k = check_reachable(address, &r->prefix, reterr);
        if (k < 0)
                return k;
        if (parse_port(port, &r->port) < 0) {
                *offset += (size_t) (port - text);
                return error_set(reterr, -EINVAL, "\"%s\" is not a port (1 to 65535)", port);
        }
        return 0;
}

/* What is tried as an address: brackets, or only digits, dots and a length before the port. */
static bool looks_like_address(const char *text)
{
        return text[0] == '[' || strspn(text, "0123456789./") == strcspn(text, ":") ||
               (strchr(text, ':') && strchr(strchr(text, ':') + 1, ':'));
}

static int take_destination(char *text, AllowRule *r, size_t *offset, Error **reterr)
{
        char *port;
        int k;

        if (looks_like_address(text)) {
                if (r->kind != ALLOW_TCP)
                        return error_set(reterr, -EINVAL,
                                        "a %s rule takes a name; for an address write tcp ADDRESS:PORT",
                                        kind_words[r->kind]);
                r->kind = ALLOW_TCP_ADDRESS;
                return take_address(text, r, offset, reterr);
        }
        port = strchr(text, ':');
        if (startswith(text, "http://") || startswith(text, "https://"))
                return error_set(reterr, -EINVAL, "a name is wanted, not a URL");
        if (port)
                *port++ = 0;
        k = take_name(text, r, reterr);
        if (k < 0)
                return k;
        r->port = default_ports[r->kind];
        if (!port && r->port == 0)
                return error_set(reterr, -EINVAL, "the port is missing: tcp %s:PORT", text);
        if (port && parse_port(port, &r->port) < 0) {
                *offset += (size_t) (port - text);
                return error_set(reterr, -EINVAL, "\"%s\" is not a port (1 to 65535)", port);
        }
        return 0;
}

static int take_option(const char *word, AllowRule *r, Error **reterr)
{
        const char *texts[ELEMENTSOF(options)], *near;

        for (size_t i = 0; i < ELEMENTSOF(options); i++) {
                texts[i] = options[i].text;
                if (!streq(word, options[i].text))
                        continue;
                if (!(options[i].kinds & 1u << r->kind))
                        return error_set(reterr, -EINVAL, "%s has no meaning behind %s", word,
                                        r->kind == ALLOW_TCP_ADDRESS ? "tcp and an address"
                                                                     : kind_words[r->kind]);
                if (*rule_option(r, options + i))
                        return error_set(reterr, -EINVAL, "%s is given twice", word);
                *rule_option(r, options + i) = true;
                return 0;
        }
        near = policy_suggest(word, texts, ELEMENTSOF(texts));
        return error_set(reterr, -EINVAL, "unknown option \"%s\"%s%s%s", word, near ? "; did you mean " : "",
                        near ? near : "",
                        near ? "?" : "; there are ech=allow, private=allow and peer-first");
}

static int parse_set(const char *s, AllowRule *r, Error **reterr)
{
        size_t n = strlen(s + 1);

        /* A part of a path: no slash and no leading dot can get in. */
        if (n == 0 || n > 64 || s[1] == '.' || s[1] == '-' ||
                        strspn(s + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") !=
                                        n)
                return error_set(reterr, -EINVAL,
                                "\"%s\" is no name of a set: @ and up to 64 letters, digits, \"_\", "
                                "\"-\" and \".\"",
                                s);
        r->kind = ALLOW_SET;
        memcpy(r->name, s + 1, n + 1);
        return 0;
}

/* The word at *s as a copy; *s moves to what follows, behind blanks. NULL with *s at the end: there is none.
 */
static char *next_word(const char **s)
{
        const char *start = *s + strspn(*s, BLANKS);
        size_t n = strcspn(start, BLANKS);

        *s = start + n;
        return strndup(start, n);
}

static int parse_kind(const char *word, AllowRule *r, Error **reterr)
{
        const char *near;
        int k;

        for (size_t i = 0; i < ELEMENTSOF(kind_words); i++)
                if (streq(word, kind_words[i])) {
                        r->kind = (AllowKind) i;
                        return 1;
                }
        if (word[0] == '@')
                return parse_set(word, r, reterr);
        k = prefix_parse(word, &r->prefix);
        if (k != -EINVAL || isdigit((unsigned char) word[0])) {
                r->kind = ALLOW_ADDRESS;
                return check_prefix(word, k, &r->prefix, reterr);
        }
        if (streq(word, "https") || streq(word, "udp") || streq(word, "dns") || streq(word, "quic"))
                return error_set(reterr, -EINVAL, "there are no %s rules%s", word,
                                streq(word, "https") ? "; write tls NAME"
                                                     : ": a rule starts with tls, http or tcp");
        near = policy_suggest(word, kind_words, ELEMENTSOF(kind_words));
        return error_set(reterr, -EINVAL,
                        "a rule starts with tls, http, tcp or @SET (with Egress=addresses it is an "
                        "address), "
                        "not with \"%s\"%s%s%s",
                        word, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

int allow_rule_parse(const char *s, AllowRule *ret, size_t *ret_offset, Error **reterr)
{
        _cleanup_free_ char *word = NULL;
        const char *rest = s;
        AllowRule r = {};
        size_t offset = 0;
        int k;

        word = next_word(&rest);
        if (!word)
                return error_set(reterr, -ENOMEM, "out of memory");
        offset = (size_t) (rest - s) - strlen(word);
        k = parse_kind(word, &r, reterr);
        for (int i = 0; k >= 0 && rest[strspn(rest, BLANKS)]; i++) {
                free(word);
                word = next_word(&rest);
                if (!word)
                        return error_set(reterr, -ENOMEM, "out of memory");
                offset = (size_t) (rest - s) - strlen(word);
                if (r.kind == ALLOW_SET || r.kind == ALLOW_ADDRESS)
                        k = error_set(reterr, -EINVAL,
                                        "nothing can follow here: options stand behind a single rule");
                else
                        k = i == 0 ? take_destination(word, &r, &offset, reterr)
                                   : take_option(word, &r, reterr);
        }
        if (k >= 0 && r.kind < ALLOW_ADDRESS && r.port == 0)
                k = error_set(reterr, -EINVAL, "the destination is missing: %s NAME%s", kind_words[r.kind],
                                r.kind == ALLOW_TCP ? ":PORT" : "");
        if (k < 0) {
                *ret_offset = offset;
                return k;
        }
        *ret = r;
        return 0;
}

char *allow_rule_format(const AllowRule *r)
{
        _cleanup_buf_ Buf b = {};
        char prefix[PREFIX_TEXT_MAX], *slash;

        switch (r->kind) {
        case ALLOW_SET:
                buf_printf(&b, "@%s", r->name);
                break;
        case ALLOW_ADDRESS:
                prefix_format(&r->prefix, true, prefix);
                buf_printf(&b, "%s", prefix);
                break;
        case ALLOW_TCP_ADDRESS:
                prefix_format(&r->prefix, true, prefix);
                slash = strchr(prefix, '/');
                if (r->prefix.family == PREFIX_IPV6)
                        buf_printf(&b, "tcp [%.*s]%s:%u", (int) strcspn(prefix, "/"), prefix,
                                        slash ? slash : "", r->port);
                else
                        buf_printf(&b, "tcp %s:%u", prefix, r->port);
                break;
        default:
                buf_printf(&b, "%s %s%s", kind_words[r->kind], r->wildcard ? "*." : "", r->name);
                if (r->port != default_ports[r->kind])
                        buf_printf(&b, ":%u", r->port);
        }
        for (size_t i = 0; i < ELEMENTSOF(options); i++)
                if (*rule_option((AllowRule *) r, options + i))
                        buf_printf(&b, " %s", options[i].text);
        return buf_take_string(&b);
}

/* inner is name itself or, under a wildcard, below it. A wildcard inside must lie within a wildcard outside.
 */
static bool name_covers(const AllowRule *outer, const AllowRule *inner)
{
        size_t n = strlen(inner->name), m = strlen(outer->name);

        if (streq(outer->name, inner->name))
                return outer->wildcard == inner->wildcard;
        return outer->wildcard && n > m && inner->name[n - m - 1] == '.' &&
               streq(inner->name + n - m, outer->name);
}

bool allow_rule_covers(const AllowRule *outer, const AllowRule *inner)
{
        if (outer->kind != inner->kind || outer->port != inner->port)
                return false;
        for (size_t i = 0; i < ELEMENTSOF(options); i++)
                if (*rule_option((AllowRule *) inner, options + i) &&
                                !*rule_option((AllowRule *) outer, options + i))
                        return false;
        if (inner->kind == ALLOW_TCP_ADDRESS || inner->kind == ALLOW_ADDRESS)
                return prefix_covers(&outer->prefix, &inner->prefix);
        return name_covers(outer, inner);
}
