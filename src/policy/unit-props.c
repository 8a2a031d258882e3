/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>

#include "policy/filter-compile.h"
#include "policy/unit-props.h"

const UnitPropRow *unit_prop_row(const char *name)
{
        for (size_t i = 0; i < n_unit_prop_rows; i++)
                if (streq(unit_prop_rows[i].name, name))
                        return unit_prop_rows + i;
        return NULL;
}

static void unit_prop_done(UnitProp *q)
{
        free(q->s);
        strv_free(q->l);
        *q = (UnitProp){};
}

void unit_props_done(UnitProps *p)
{
        for (size_t i = 0; i < p->n; i++)
                unit_prop_done(p->props + i);
        free(p->props);
        *p = (UnitProps){};
}

const UnitProp *unit_props_find(const UnitProps *p, const char *name)
{
        for (size_t i = 0; i < p->n; i++)
                if (streq(p->props[i].name, name))
                        return p->props + i;
        return NULL;
}

/* 1: q is to be sent. 0: not under this policy. */
static int row_fill(
                const UnitPropRow *row, const Policy *p, const UnitContext *c, UnitProp *q, Error **reterr)
{
        PolicyKey key;

        if (row->fill)
                return row->fill(p, c, q, reterr);
        if (row->s) {
                q->s = strdup(row->s);
                return q->s ? 1 : error_set(reterr, -ENOMEM, "out of memory");
        }
        if (row->keys == 0) {
                q->u = row->u;
                return 1;
        }
        key = (PolicyKey) __builtin_ctzll(row->keys);
        if (!policy_is_set(p, key))
                return 0;
        if (__builtin_mul_overflow(policy_u64(p, key), row->scale, &q->u))
                return error_set(reterr, -ERANGE, "%s is out of range", row->name);
        return 1;
}

int unit_props_from_policy(const Policy *p, const UnitContext *c, UnitProps *ret, Error **reterr)
{
        _cleanup_(unit_props_done) UnitProps props = {};
        int r = policy_check_enforceable(p, c->scope, reterr);

        if (r < 0)
                return r;
        props.props = calloc(n_unit_prop_rows, sizeof(UnitProp));
        if (!props.props)
                return error_set(reterr, -ENOMEM, "out of memory");
        for (size_t i = 0; i < n_unit_prop_rows; i++) {
                const UnitPropRow *row = unit_prop_rows + i;
                UnitProp *q = props.props + props.n;

                if (!(row->targets & (c->scope ? UNIT_TARGET_SCOPE : UNIT_TARGET_SERVICE)) ||
                                row->since > c->systemd_version)
                        continue;
                *q = (UnitProp){ .name = row->name, .type = row->type };
                r = row_fill(row, p, c, q, reterr);
                if (r <= 0)
                        unit_prop_done(q);
                if (r < 0)
                        return error_prefix(reterr, r, "%s", row->name);
                if (r > 0)
                        props.n++;
        }
        *ret = props;
        props = (UnitProps){};
        return 0;
}

/* ---- the workspace of a scope */

static UnitProp text_prop(const char *name, char *s)
{
        return (UnitProp){ .name = name, .type = UNIT_PROP_STRING, .s = s };
}

int unit_props_of_workspace(const Policy *p, const UnitContext *c, UnitProps *ret, Error **reterr)
{
        _cleanup_(unit_props_done) UnitProps props = { .props = calloc(7, sizeof(UnitProp)) };
        bool exec = policy_u64(p, SYSCALLS_PROFILE) != FILTER_PROFILE_STRICT;
        char *options = NULL;

        if (!props.props ||
                        asprintf(&options, "mode=0700,uid=%u,gid=%u,size=%llu,nr_inodes=%llu,nosuid,nodev%s",
                                        c->uid, c->gid,
                                        (unsigned long long) policy_u64(p, FILES_WORKSPACE_SIZE),
                                        (unsigned long long) policy_u64(p, FILES_WORKSPACE_INODES),
                                        exec ? "" : ",noexec") < 0)
                return error_set(reterr, -ENOMEM, "out of memory");
        props.props[props.n++] = text_prop("Description", strdup(c->description));
        props.props[props.n++] = text_prop("What", strdup("agentbox"));
        props.props[props.n++] = text_prop("Where", strdup(c->workspace));
        props.props[props.n++] = text_prop("Type", strdup("tmpfs"));
        props.props[props.n++] = text_prop("Options", options);
        for (size_t i = 0; i < props.n; i++)
                if (!props.props[i].s)
                        return error_set(reterr, -ENOMEM, "out of memory");
        /* It goes when the scope does, whoever else of the same user stands in it. */
        props.props[props.n++] = (UnitProp){ .name = "StopWhenUnneeded", .type = UNIT_PROP_BOOL, .u = true };
        props.props[props.n++] = (UnitProp){ .name = "LazyUnmount", .type = UNIT_PROP_BOOL, .u = true };
        *ret = props;
        props = (UnitProps){};
        return 0;
}
