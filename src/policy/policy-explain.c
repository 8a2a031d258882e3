/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>

#include "base/buf.h"
#include "policy/allow-rule.h"
#include "policy/policy-explain.h"
#include "policy/policy-keys.h"
#include "policy/policy-value.h"

void policy_explanation_done(PolicyExplanation *e)
{
        strv_free(e->values);
        strv_free(e->sources);
        strv_free(e->enforced);
        *e = (PolicyExplanation){};
}

static int add_source(char ***l, const char *file, unsigned line)
{
        char *s;

        if (!file)
                return strv_extend(l, line > 0 ? "--set" : "default");
        return asprintf(&s, "%s:%u", file, line) < 0 ? -ENOMEM : strv_push(l, s);
}

static int explain_value(const Policy *p, PolicyKey key, PolicyExplanation *e)
{
        const PolicyValue *v = p->values + key;
        char *text;
        int r;

        if (policy_keys[key].type != POLICY_TYPE_LIST) {
                if (!v->set)
                        return 0;
                text = policy_value_format(key, v);
                r = text ? strv_push(&e->values, text) : -ENOMEM;
                return r < 0 ? r : add_source(&e->sources, v->source.file, v->source.line);
        }
        for (size_t i = 0; v->l && v->l[i]; i++) {
                _cleanup_free_ char *file = NULL;
                unsigned line, column;

                if (policy_origin_parse(v->from[i], &file, &line, &column) < 0 ||
                                strv_extend(&e->values, v->l[i]) < 0 ||
                                add_source(&e->sources, file, file ? line : 1) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static bool is_on_disk(const Policy *p, PolicyKey key)
{
        return (key == FILES_WORKSPACE || key == FILES_WORKSPACE_STORE || key == FILES_WORKSPACE_SIZE ||
                               key == FILES_WORKSPACE_INODES) &&
               policy_u64(p, FILES_WORKSPACE_STORE) == STORE_DISK;
}

/* One property carries several file systems; a key speaks of its own alone. NULL: all of the property. */
static const char *mount_point(const Policy *p, PolicyKey key, size_t i)
{
        switch (key) {
        case FILES_WORKSPACE:
        case FILES_WORKSPACE_STORE:
        case FILES_WORKSPACE_SIZE:
        case FILES_WORKSPACE_INODES:
                return i == 0 ? policy_string(p, FILES_WORKSPACE) : NULL;
        case FILES_TMP_SIZE:
                return i == 0 ? UNIT_TMP_LINK : i == 1 ? UNIT_VAR_TMP_LINK : NULL;
        case FILES_SHM_SIZE:
                return i == 0 ? "/dev/shm" : NULL;
        default:
                return NULL;
        }
}

/* "NAME=WORD WORD ..." without the words that are about other mount points. */
static int keep_mount_points(const Policy *p, PolicyKey key, char **line)
{
        _cleanup_buf_ Buf b = {};
        _cleanup_strv_ char **words = NULL;
        char *equals = strchr(*line, '='), *text;

        if (!mount_point(p, key, 0) || !equals || !startswith(*line, "TemporaryFileSystem="))
                return 0;
        if (strv_split(equals + 1, " ", &words) < 0)
                return -ENOMEM;
        buf_printf(&b, "%.*s=", (int) (equals - *line), *line);
        STRV_FOREACH(w, words)
                for (size_t i = 0; mount_point(p, key, i); i++) {
                        const char *rest = startswith(*w, mount_point(p, key, i));

                        if (rest && *rest == ':')
                                buf_printf(&b, "%s%s", b.data[b.size - 1] == '=' ? "" : " ", *w);
                }
        text = buf_take_string(&b);
        if (!text)
                return -ENOMEM;
        free(*line);
        *line = text;
        return 0;
}

static int add_property(
                const Policy *p, PolicyKey key, const UnitPropRow *row, const UnitProps *props, char ***l)
{
        const char *name = row->file_name ? row->file_name : row->name;
        const UnitProp *q = props ? unit_props_find(props, row->name) : NULL;
        _cleanup_free_ char *line = NULL;
        char *s;
        int r;

        if (!*name || (props && !q))
                return 0;
        if (q) {
                r = unit_prop_to_text(q, &line);
                if (r >= 0 && line)
                        r = keep_mount_points(p, key, &line);
                if (r < 0)
                        return -ENOMEM;
        }
        /* Without values: a policy that no unit can be made of yet. */
        r = line ? asprintf(&s, "unit property %s%s%s", line, row->verified_by ? "; verified as " : "",
                                   row->verified_by ? row->verified_by : "")
                 : asprintf(&s, "unit property %s=", name);
        return r < 0 ? -ENOMEM : strv_push(l, s);
}

static int add_properties(const Policy *p, PolicyKey key, const UnitProps *props, char ***l)
{
        /* The same property says "loopback alone" where there is no network, whatever the rules. */
        if (!policy_is_set(p, key) ||
                        (key == NETWORK_ALLOW && policy_u64(p, NETWORK_EGRESS) != EGRESS_ADDRESSES))
                return 0;
        for (size_t i = 0; i < n_unit_prop_rows; i++) {
                bool elsewhere = is_on_disk(p, key) && streq(unit_prop_rows[i].name, "TemporaryFileSystem");
                int r = unit_prop_rows[i].keys & UNIT_PROP_KEY(key) && !elsewhere
                                        ? add_property(p, key, unit_prop_rows + i, props, l)
                                        : 0;

                if (r < 0)
                        return r;
        }
        return is_on_disk(p, key) ? strv_extend(l, "file system that agentboxd makes on a disk of the host and mounts in the "
                                                   "run's root; verified as workspace")
                                  : 0;
}

/* What the warden holds a connection against before a byte of it leaves. */
static const char *const rule_checks[_ALLOW_KIND_MAX] = {
        [ALLOW_TLS] = "the ClientHello must name it",
        [ALLOW_HTTP] = "the Host of every request must be it",
        [ALLOW_TCP] = "to the addresses of this name, any bytes",
        [ALLOW_TCP_ADDRESS] = "to this address, any bytes",
};

static const char *rule_reach(const AllowRule *r)
{
        if (r->kind == ALLOW_TCP_ADDRESS)
                return "never metadata or this host";
        return r->private_allow ? "resolved by the host, to public or private addresses"
                                : "resolved by the host, to public addresses alone";
}

/* One line for each rule; no lines where there are none, which is said by the namespace's line. */
static int add_rules(const Policy *p, char ***l)
{
        STRV_FOREACH(i, policy_list(p, NETWORK_ALLOW)) {
                AllowRule rule;
                size_t offset;
                char *s;
                int n;

                if (allow_rule_parse(*i, &rule, &offset, NULL) < 0)
                        continue;
                if (!rule_checks[rule.kind]) /* a set that is missing */
                        n = asprintf(&s, "warden rule %s: not known here", *i);
                else
                        n = asprintf(&s, "warden rule %s: %s; %s", *i, rule_checks[rule.kind],
                                        rule_reach(&rule));
                if (n < 0 || strv_push(l, s) < 0)
                        return -ENOMEM;
        }
        return 0;
}

typedef struct Enforcer {
        unsigned by;
        const char *section; /* NULL: any */
        const char *text;
} Enforcer;

static const Enforcer enforcers[] = {
        { POLICY_BY_SHIM, "Syscalls", "seccomp filter of agentbox-exec" },
        { POLICY_BY_SHIM, "Environment", "environment made by agentboxd, given by agentbox-exec" },
        { POLICY_BY_SHIM, "Policy", "confinement by agentbox-exec before the workload starts" },
        { POLICY_BY_WARDEN, "Audit", "the run's warden, when it writes the journal" },
        { POLICY_BY_BROKER, "Policy", "agentboxd" },
        { POLICY_BY_BROKER, "Network",
                        "network namespace made by agentboxd, in which every connection ends at the run's "
                        "warden; verified as wall, warden, egress-record" },
        { POLICY_BY_BROKER, "Audit", "agentboxd, when it writes the journal" },
        { POLICY_BY_BROKER, "Access", "agentboxd, before anything starts" },
        { POLICY_BY_BROKER, "Limits", "agentboxd, which ends the run" },
        { POLICY_BY_BROKER, "Files", "agentboxd" },
        { POLICY_BY_CLI, NULL, "agentbox, in the caller's own process" },
};

static bool is_filtered(const Policy *p)
{
        return policy_u64(p, NETWORK_EGRESS) == EGRESS_FILTERED;
}

/* What the warden does for a key of [Network]. */
static int add_warden(const Policy *p, PolicyKey key, char ***l)
{
        if (!is_filtered(p) || !policy_is_set(p, key))
                return 0;
        if (key == NETWORK_ALLOW)
                return add_rules(p, l);
        if (key == NETWORK_EGRESS_BYTES)
                return strv_extend(l,
                                "the run's warden, which counts what goes out and closes the connections");
        if (key == NETWORK_CONNECTIONS)
                return strv_extend(l, "the run's warden, which refuses further ones");
        return 0;
}

static int add_enforcers(const Policy *p, PolicyKey key, char ***l)
{
        const PolicyKeyInfo *k = policy_keys + key;

        for (size_t i = 0; i < ELEMENTSOF(enforcers); i++) {
                const Enforcer *x = enforcers + i;
                int r;

                if (!(k->by & x->by) || (x->section && !streq(x->section, k->section)))
                        continue;
                /* Only a filtered network has a namespace of agentboxd's making, and a warden. */
                if ((key == NETWORK_EGRESS || key == AUDIT_ALLOWED_EGRESS) && !is_filtered(p))
                        continue;
                if (key == AUDIT_DENIED_SYSCALLS && !policy_records_denied_calls(p))
                        continue;
                r = strv_extend(l, x->text);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* A key that nothing has to enforce says why. */
static int add_nothing(const Policy *p, PolicyKey key, char ***l)
{
        const PolicyKeyInfo *k = policy_keys + key;
        char *s;

        if (*l && !k->pending)
                return 0;
        if (k->pending) {
                *l = strv_free(*l);
                return asprintf(&s, "nothing: %s", k->pending) < 0 ? -ENOMEM : strv_push(l, s);
        }
        if (key == AUDIT_DENIED_SYSCALLS)
                return strv_extend(l, is_filtered(p) ? "nothing: they are refused without a record"
                                                     : "nothing: they are refused without a record, which only "
                                                       "Egress=filtered has a warden for");
        if (k->by & POLICY_BY_WARDEN && policy_is_set(p, key) && !is_filtered(p))
                return strv_extend(l, policy_u64(p, NETWORK_EGRESS) == EGRESS_NONE
                                                      ? "nothing is needed: there is no network"
                                                      : "nothing: the host's network has no warden");
        return 0;
}

int policy_explain_key(const Policy *p, PolicyKey key, const UnitProps *props, PolicyExplanation *ret)
{
        _cleanup_explanation_ PolicyExplanation e = {};
        int r = explain_value(p, key, &e);

        if (r >= 0)
                r = add_properties(p, key, props, &e.enforced);
        if (r >= 0)
                r = add_warden(p, key, &e.enforced);
        if (r >= 0)
                r = add_enforcers(p, key, &e.enforced);
        if (r >= 0)
                r = add_nothing(p, key, &e.enforced);
        if (r < 0)
                return r;
        *ret = e;
        e = (PolicyExplanation){};
        return 0;
}

int policy_explain_props(const Policy *p, UnitProps *ret, Error **reterr)
{
        const UnitContext c = {
                .systemd_version = 252,
                .scope = streq(policy_string(p, FILES_ROOT), "/"), /* which nothing else can run */
                .description = "agentbox run <ID>",
                .root_directory = "<root of the run>",
                .shim_path = PKGLIBEXECDIR "/agentbox-exec",
                .netns_path = "<network namespace of the run>",
        };

        return unit_props_from_policy(p, &c, ret, reterr);
}
