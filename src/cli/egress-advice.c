/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>

#include "cli/egress-advice.h"
#include "base/strv.h"
#include "policy/allow-rule.h"
#include "policy/policy-keys.h"
#include "policy/policy-value.h"

void advice_done(Advice *a)
{
        free(a->line);
        free(a->meaning);
        *a = (Advice){};
}

/* What kind of line would allow it. */
typedef enum LineKind {
        LINE_NONE,
        LINE_RULE,  /* the destination as it was tried */
        LINE_TCP,   /* the name, whatever is spoken */
        LINE_ASKED, /* the name that the program asked for, under the protocol of the rule */
        LINE_ECH,   /* the rule it had, with an option more */
        LINE_PRIVATE,
        LINE_CONNECTIONS, /* a limit, larger */
        LINE_EGRESS_BYTES,
} LineKind;

typedef struct ReasonRow {
        const char *reason, *proto; /* proto NULL: any */
        uint16_t port;              /* 0: any */
        AdviceClass class;
        LineKind line;
        bool needs_human;
        const char *fact;
        const char *meaning; /* NULL: said by the kind of rule */
} ReasonRow;

/* The first row that fits. */
/* clang-format off */
static const ReasonRow rows[] = {
        { "no-rule", "udp", 443, ADVICE_POINTLESS, LINE_NONE, false, "QUIC, which is HTTP over UDP",
          "There is nothing to allow: programs fall back to TCP by themselves." },
        { "no-rule", "udp", 123, ADVICE_POINTLESS, LINE_NONE, false, "the time of a network (NTP)",
          "There is nothing to allow: the clock is the host's, which keeps it." },
        { "no-rule", "udp", 0, ADVICE_POINTLESS, LINE_NONE, false, "UDP",
          "No line can allow it: only TCP can leave, and the sandbox's own name server answers its questions." },
        { "no-rule", "icmp", 0, ADVICE_POINTLESS, LINE_NONE, false, "ping and its like (ICMP)",
          "No line can allow it. Whether a host is there is found out by connecting to it." },
        { "no-rule", "other", 0, ADVICE_POINTLESS, LINE_NONE, false, "neither TCP nor UDP", "No line can allow it." },
        { "no-rule", "dns", 0, ADVICE_NAME, LINE_RULE, false, "its name was looked up, and no rule names it", NULL },
        { "no-rule", NULL, 0, ADVICE_ADDRESS, LINE_RULE, false, "no rule names it", NULL },
        { "port", NULL, 0, ADVICE_NAME, LINE_RULE, false, "a rule names it, at another port", NULL },
        { "sni-mismatch", NULL, 0, ADVICE_NAME, LINE_ASKED, false,
          "the handshake asked for another name than the one that was looked up", NULL },
        { "host-mismatch", NULL, 0, ADVICE_NAME, LINE_ASKED, false,
          "the request was for another host than the one that was looked up", NULL },
        { "sni-bad", NULL, 0, ADVICE_NAME, LINE_TCP, true, "the handshake did not name one server",
          "It opens the addresses of the name to any bytes; who answers there is not checked any more." },
        { "ech", NULL, 0, ADVICE_NAME, LINE_ECH, true, "the handshake hides the name that it asks for (ECH)",
          "It lets the program reach every site that shares this one's front; the record shows the front alone." },
        { "not-tls", NULL, 0, ADVICE_NAME, LINE_TCP, true, "what was spoken is not TLS, as the rule wants",
          "It opens the addresses of the name to any bytes. For plain HTTP, an http rule is narrower." },
        { "bad-request", NULL, 0, ADVICE_NAME, LINE_TCP, true, "an HTTP request that two readers could read differently",
          "It lets the requests pass unread, to whichever site at that address they name." },
        { "too-large", NULL, 0, ADVICE_NAME, LINE_TCP, true, "a head over 16 KiB, 100 fields or 8 KiB a line",
          "It lets what is spoken pass unread." },
        { "addr-blocked", NULL, 0, ADVICE_BROKEN, LINE_PRIVATE, true, "it leads to a private or special address",
          "It lets the name lead into private networks, as a mirror of one's own does. Whoever answers for the name "
          "then chooses where in them." },
        { "host-local", NULL, 0, ADVICE_BROKEN, LINE_NONE, false, "it is an address of this host itself",
          "No line can allow it: what listens on this host is not the sandbox's to reach." },
        { "no-mapping", NULL, 0, ADVICE_ADDRESS, LINE_NONE, false,
          "an address out of those that stand for names, which no name of this run has",
          "The program kept it from another run, or guessed. Names have to be looked up in the run." },
        { "resolve-failed", NULL, 0, ADVICE_BROKEN, LINE_NONE, false, "allowed, but this host cannot resolve the name",
          "Look at the host's own name servers: 'getent ahosts NAME' outside of the sandbox." },
        { "connect-failed", NULL, 0, ADVICE_BROKEN, LINE_NONE, false, "allowed, but the other side did not answer",
          "Try it from the host; a proxy that the host needs goes into /etc/agentbox/agentbox.conf." },
        { "proxy-failed", NULL, 0, ADVICE_BROKEN, LINE_NONE, false, "allowed, but the proxy made no connection",
          "Look at the proxy that /etc/agentbox/agentbox.conf names, and at what it lets through." },
        { "timeout", NULL, 0, ADVICE_BROKEN, LINE_NONE, false, "allowed, but it took too long",
          "A connection is to be made, and a handshake or head to be sent, within ten seconds." },
        { "limit", "dns", 0, ADVICE_BROKEN, LINE_NONE, false, "too many different names under a wildcard",
          "Four thousand have room in a run. Rules that name the hosts do not take from it." },
        { "limit", NULL, 0, ADVICE_BROKEN, LINE_CONNECTIONS, false, "too many connections were open at a time",
          "It lets more of them be open." },
        { "bytes-limit", NULL, 0, ADVICE_BROKEN, LINE_EGRESS_BYTES, false, "the run has sent all that it may",
          "It lets the run send more, to wherever its rules lead." },
        { "no-journal", NULL, 0, ADVICE_BROKEN, LINE_NONE, false, "the journal took no records",
          "What cannot be recorded is not allowed. Look at systemd-journald and at the room on its disk." },
        { "malformed", NULL, 0, ADVICE_POINTLESS, LINE_NONE, false, "a message to the name server that is none",
          "There is nothing to allow: port 53 answers questions, wherever it is." },
        { "dns-type", NULL, 0, ADVICE_POINTLESS, LINE_NONE, false, "a question for records other than addresses",
          "There is nothing to allow: programs get along without (TXT and its like can carry data)." },
        { "metadata", NULL, 0, ADVICE_METADATA, LINE_NONE, false, "a cloud metadata service",
          "Nothing can allow it: it hands credentials of this machine to whoever asks. The clouds' own libraries ask "
          "when they find no others; where none is in use, look at what the run was given to execute." },
        { "warden-lost", NULL, 0, ADVICE_BROKEN, LINE_NONE, false, "the run's warden was killed, or the journal had no room, before they were recorded",
          "Where to is not known; see 'journalctl -u agentboxd'." },
};
/* clang-format on */

static const ReasonRow unknown_row = { "", NULL, 0, ADVICE_BROKEN, LINE_NONE, false, "refused",
        "The record says no more." };

/* Without a rule, an address of this host is refused before anybody asks whose it is. */
static const char *reason_of(const EgressGroup *g, const AdviceContext *c)
{
        bool own = !g->name && g->address && strv_contains(c->own, g->address);

        return own && g->reason && streq(g->reason, "no-rule") ? "host-local" : g->reason;
}

static const ReasonRow *find_row(const EgressGroup *g, const AdviceContext *c)
{
        const char *reason = reason_of(g, c);

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (reason && streq(rows[i].reason, reason) &&
                                (!rows[i].proto || (g->proto && streq(rows[i].proto, g->proto))) &&
                                (rows[i].port == 0 || rows[i].port == g->port))
                        return rows + i;
        return &unknown_row;
}

/* ---- lines */

/* What is most likely spoken at a port that nobody has seen anything of yet. */
static const char *likely_kind(uint16_t port)
{
        switch (port) {
        case 443:
        case 465:
        case 636:
        case 853:
        case 993:
        case 995:
        case 8443:
                return "tls";
        case 80:
        case 8000:
        case 8080:
                return "http";
        default:
                return "tcp";
        }
}

static const char *kind_of(const EgressGroup *g, uint16_t port)
{
        if (g->proto && (streq(g->proto, "tls") || streq(g->proto, "http")))
                return g->proto;
        return likely_kind(port);
}

/* Negative only when out of memory; *ret NULL where no rule can say it. */
static int rule_line(const char *kind, const char *host, uint16_t port, const char *options, char **ret)
{
        _cleanup_free_ char *text = NULL;
        AllowRule rule;
        size_t offset;
        int r;

        if (asprintf(&text, "%s %s:%u%s", kind, host, port, options) < 0) {
                text = NULL;
                return -ENOMEM;
        }
        r = allow_rule_parse(text, &rule, &offset, NULL);
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                return 0;
        return asprintf(ret, "Allow=%s", text) < 0 ? -ENOMEM : 0;
}

static int address_line(const EgressGroup *g, const AdviceContext *c, char **ret)
{
        const char *address = g->address, *mapped;
        _cleanup_free_ char *host = NULL;

        if (!address || g->port == 0 || strv_contains(c->own, address))
                return 0;
        mapped = startswith(address, "::ffff:");
        if (mapped && strchr(mapped, '.')) /* rules have it as the IPv4 address that it is */
                address = mapped;
        if (asprintf(&host, strchr(address, ':') ? "[%s]" : "%s", address) < 0) {
                host = NULL;
                return -ENOMEM;
        }
        return rule_line("tcp", host, g->port, "", ret);
}

static int destination_line(const EgressGroup *g, const AdviceContext *c, char **ret)
{
        bool looked_up = g->proto && streq(g->proto, "dns");
        uint16_t port = looked_up ? 443 : g->port;
        _cleanup_free_ char *host = NULL;

        if (!g->name)
                return address_line(g, c, ret);
        if (port == 0)
                return 0;
        if (asprintf(&host, "%s%s", g->n_names > 0 ? "*." : "", g->name) < 0) {
                host = NULL;
                return -ENOMEM;
        }
        return rule_line(looked_up ? "tls" : kind_of(g, port), host, port, "", ret);
}

/* The rule that was consulted, with an option that it does not have yet. */
static int option_line(const EgressGroup *g, const char *option, char **ret)
{
        _cleanup_free_ char *text = NULL;
        AllowRule rule;
        size_t offset;

        if (!g->rule || !g->name || strstr(g->rule, option))
                return 0;
        if (asprintf(&text, "%s %s", g->rule, option) < 0) {
                text = NULL;
                return -ENOMEM;
        }
        if (allow_rule_parse(text, &rule, &offset, NULL) < 0)
                return 0;
        return asprintf(ret, "Allow=%s", text) < 0 ? -ENOMEM : 0;
}

/* With private=allow, where the address is one that it lets through. */
static int private_line(const EgressGroup *g, const AdviceContext *c, char **ret)
{
        _cleanup_free_ char *direct = NULL;
        int r = 0;

        if (g->address && g->port > 0)
                r = address_line(g, c, &direct);
        if (r < 0 || (g->address && !direct))
                return r;
        return option_line(g, "private=allow", ret);
}

/* Twice the limit that was too small, where that is known and allowed. */
static int limit_line(PolicyKey key, const Policy *policy, char **ret)
{
        const PolicyKeyInfo *k = policy_keys + key;
        _cleanup_free_ char *value = NULL;
        uint64_t v = policy && policy_is_set(policy, key) ? policy_u64(policy, key) : 0;

        if (v == 0 || v >= k->max)
                return 0;
        v = v > k->max / 2 ? k->max : 2 * v;
        value = policy_value_format_u64(key, v);
        if (!value)
                return -ENOMEM;
        return asprintf(ret, "%s=%s", k->name, value) < 0 ? -ENOMEM : 0;
}

static int make_line(const EgressGroup *g, LineKind kind, const AdviceContext *c, char **ret)
{
        switch (kind) {
        case LINE_RULE:
                return destination_line(g, c, ret);
        case LINE_TCP:
                return g->name && g->port > 0 ? rule_line("tcp", g->name, g->port, "", ret) : 0;
        case LINE_ASKED:
                return g->asked && g->port > 0 ? rule_line(kind_of(g, g->port), g->asked, g->port, "", ret)
                                               : 0;
        case LINE_ECH:
                return option_line(g, "ech=allow", ret);
        case LINE_PRIVATE:
                return private_line(g, c, ret);
        case LINE_CONNECTIONS:
                return limit_line(NETWORK_CONNECTIONS, c->policy, ret);
        case LINE_EGRESS_BYTES:
                return limit_line(NETWORK_EGRESS_BYTES, c->policy, ret);
        default:
                return 0;
        }
}

/* ---- what a line means */

/* Of a rule for the destination as it was tried. */
static char *rule_meaning(const EgressGroup *g, const char *line)
{
        const char *text;
        char *s;

        if (g->n_names > 0)
                return strdup("It opens every name below, at any depth. Very many names that mean nothing "
                              "are how data is carried out in questions: look at them first ('agentbox log "
                              "--denied').");
        if (g->proto && streq(g->proto, "dns"))
                return asprintf(&s,
                                       "It opens TLS to this very name; for plain HTTP the line is "
                                       "Allow=http %s:80.",
                                       g->name) < 0
                                       ? NULL
                                       : s;
        if (startswith(line, "Allow=tls "))
                text = "It opens TLS to this very name, at this port.";
        else if (startswith(line, "Allow=http "))
                text = "It opens plain HTTP to this very name, at this port.";
        else if (g->name)
                text = "It opens the addresses of this name at this port, to any bytes.";
        else
                text = "It opens this address at this port, to any bytes. Where the program could go by a "
                       "name, a rule with the name says more.";
        return strdup(text);
}

/* Where there should be a line and none can be. */
static const char *no_line(const ReasonRow *row)
{
        switch (row->line) {
        case LINE_CONNECTIONS:
                return "A larger Connections= allows more (8192 at most).";
        case LINE_EGRESS_BYTES:
                return "A larger EgressBytes= allows more.";
        case LINE_PRIVATE:
                return "No line can allow it: what is neither public nor private is never reached, and this "
                       "host is not.";
        case LINE_ASKED:
                return "The name that was asked for is not known, or no rule can have it.";
        default:
                return "No line can allow it.";
        }
}

static char *meaning_of(const EgressGroup *g, const ReasonRow *row, const char *line)
{
        if (row->line != LINE_NONE && !line)
                return strdup(no_line(row));
        return row->meaning ? strdup(row->meaning) : rule_meaning(g, line);
}

static bool is_allowed_now(const char *line, const Policy *policy)
{
        const char *text = startswith(line, "Allow=");
        AllowRule rule, other;
        size_t offset;

        if (!text || !policy || allow_rule_parse(text, &rule, &offset, NULL) < 0)
                return false;
        STRV_FOREACH(i, policy_list(policy, NETWORK_ALLOW))
                if (allow_rule_parse(*i, &other, &offset, NULL) >= 0 && allow_rule_covers(&other, &rule))
                        return true;
        return false;
}

int egress_advise(const EgressGroup *g, const AdviceContext *c, Advice *ret)
{
        const ReasonRow *row = find_row(g, c);
        _cleanup_advice_ Advice a = {
                .class = row->class, .fact = row->fact, .needs_human = row->needs_human
        };
        int r = make_line(g, row->line, c, &a.line);

        if (r < 0)
                return r;
        a.meaning = meaning_of(g, row, a.line);
        if (!a.meaning)
                return -ENOMEM;
        if (row->line == LINE_RULE && g->name)
                a.class = ADVICE_NAME;
        a.needs_human |= a.line && (g->n_names > 0 || !g->name);
        a.allowed_now = a.line && is_allowed_now(a.line, c->policy);
        *ret = a;
        a = (Advice){};
        return 0;
}
