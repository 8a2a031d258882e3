/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>

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

                if (policy_origin_parse(v->from[i], &file, &line, &column) < 0 || strv_extend(&e->values, v->l[i]) < 0 ||
                    add_source(&e->sources, file, file ? line : 1) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* Without values: a policy that no unit can be made of yet. */
static int add_property_names(PolicyKey key, char ***l)
{
        for (size_t i = 0; i < n_unit_prop_rows; i++) {
                const UnitPropRow *row = unit_prop_rows + i;
                const char *name = row->file_name ? row->file_name : row->name;
                char *s;

                if (!(row->keys & UNIT_PROP_KEY(key)) || !*name)
                        continue;
                if (asprintf(&s, "unit property %s=", name) < 0 || strv_push(l, s) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int add_properties(const UnitProps *props, PolicyKey key, char ***l)
{
        _cleanup_strv_ char **lines = NULL;

        if (!props)
                return add_property_names(key, l);
        if (unit_props_text_for_key(props, key, &lines) < 0)
                return -ENOMEM;
        STRV_FOREACH(i, lines) {
                char *s;

                if (asprintf(&s, "unit property %s", *i) < 0 || strv_push(l, s) < 0)
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
        { POLICY_BY_WARDEN, NULL, "agentbox-warden (not part of this version)" },
        { POLICY_BY_BROKER, "Policy", "agentboxd" },
        { POLICY_BY_BROKER, "Network", "network namespace made by agentboxd" },
        { POLICY_BY_BROKER, "Audit", "agentboxd, when it writes the journal" },
        { POLICY_BY_BROKER, "Access", "agentboxd, before anything starts" },
        { POLICY_BY_BROKER, "Limits", "agentboxd, which ends the run" },
        { POLICY_BY_BROKER, "Files", "agentboxd" },
        { POLICY_BY_CLI, NULL, "agentbox, in the caller's own process" },
};

int policy_explain_key(const Policy *p, PolicyKey key, const UnitProps *props, PolicyExplanation *ret)
{
        _cleanup_explanation_ PolicyExplanation e = {};
        const PolicyKeyInfo *k = policy_keys + key;
        int r = explain_value(p, key, &e);

        if (r >= 0)
                r = add_properties(props, key, &e.enforced);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(enforcers); i++) {
                const Enforcer *x = enforcers + i;

                if (!(k->by & x->by) || (x->section && !streq(x->section, k->section)))
                        continue;
                /* Only a filtered network has a namespace of agentboxd's making. */
                if (key == NETWORK_EGRESS && x->by == POLICY_BY_BROKER && policy_u64(p, key) != EGRESS_FILTERED)
                        continue;
                r = strv_extend(&e.enforced, x->text);
        }
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
                .description = "agentbox run <ID>",
                .root_directory = "<root of the run>",
                .shim_path = PKGLIBEXECDIR "/agentbox-exec",
                .netns_path = "<network namespace of the run>",
        };

        return unit_props_from_policy(p, &c, ret, reterr);
}
