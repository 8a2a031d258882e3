/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/allow-rule.h"
#include "policy/policy-checks.h"
#include "policy/policy-keys.h"
#include "policy/policy-parse.h"
#include "policy/policy-value.h"

static void note(PolicyProblems *problems, const char *file, const PolicyLine *l, size_t offset,
                const Error *e)
{
        unsigned line, column;

        policy_line_position(l, offset, &line, &column);
        policy_problem(problems, file, line, column, "%s", e ? e->message : "out of memory");
}

static int append_items(PolicyValue *v, PolicyKey key, const char *file, const PolicyLine *l,
                PolicyProblems *problems)
{
        size_t at = 0, start;

        for (;;) {
                _cleanup_free_ char *item = NULL, *from = NULL;
                _cleanup_error_ Error *e = NULL;
                unsigned line, column;
                size_t offset;
                int r = policy_value_next_item(key, l->value, &at, &item, &start);

                if (r <= 0)
                        return r;
                policy_line_position(l, start, &line, &column);
                from = file ? policy_origin_format(file, line, column) : strdup("--set");
                if (!from)
                        return -ENOMEM;
                r = policy_value_append(v, key, item, from, &offset, &e);
                if (r == -ENOMEM)
                        return r;
                if (r < 0)
                        note(problems, file, l, start + offset, e);
        }
}

int policy_assign(Policy *p, PolicyKey key, const char *file, const PolicyLine *l, PolicyProblems *problems)
{
        PolicyValue *v = p->values + key;
        _cleanup_free_ char *source = NULL;
        _cleanup_error_ Error *e = NULL;
        size_t offset = 0;
        int r;

        if (file && !(source = strdup(file)))
                return -ENOMEM;
        if (!*l->value)
                r = policy_value_reset(v, key);
        else if (policy_keys[key].type == POLICY_TYPE_LIST)
                r = append_items(v, key, file, l, problems);
        else
                r = policy_value_take(v, key, l->value, &offset, &e);
        if (r == -ENOMEM)
                return r;
        if (r < 0) {
                note(problems, file, l, offset, e);
                return 0;
        }
        free(v->source.file);
        v->source = (PolicySource){ TAKE_PTR(source), file ? l->line : 1 };
        return 0;
}

static void unknown_section(const char *file, const PolicyLine *l, PolicyProblems *problems)
{
        const char *near = policy_section_suggest(l->section);

        if (!*l->section)
                return; /* already noted by the reader: its header was malformed */
        policy_problem(problems, file, l->line, l->column, "unknown section [%s]%s%s%s", l->section,
                        near ? "; did you mean [" : "", near ? near : "", near ? "]?" : "");
}

static void unknown_key(const char *file, const PolicyLine *l, PolicyProblems *problems)
{
        const char *near = policy_key_suggest(l->section, l->key);

        if (near) {
                policy_problem(problems, file, l->line, l->column,
                                "unknown key %s= in [%s]; did you mean %s=?", l->key, l->section, near);
                return;
        }
        for (int k = 0; k < _POLICY_KEY_MAX; k++)
                if (streq(policy_keys[k].name, l->key)) {
                        policy_problem(problems, file, l->line, l->column,
                                        "%s= belongs in section [%s], not in [%s]", l->key,
                                        policy_keys[k].section, l->section);
                        return;
                }
        for (int k = 0; k < _POLICY_KEY_MAX; k++) {
                near = policy_key_suggest(policy_keys[k].section, l->key);
                if (near) {
                        policy_problem(problems, file, l->line, l->column,
                                        "unknown key %s=; did you mean %s= in section [%s]?", l->key, near,
                                        policy_keys[k].section);
                        return;
                }
        }
        policy_problem(problems, file, l->line, l->column, "unknown key %s= in [%s]", l->key, l->section);
}

int policy_apply(Policy *p, const char *file, const PolicyIni *ini, PolicyFileKind kind,
                PolicyProblems *problems)
{
        for (size_t i = 0; i < ini->n; i++) {
                const PolicyLine *l = ini->lines + i;
                bool known = l->section && policy_section_known(l->section);
                int r, key;

                if (!l->key) {
                        if (!known)
                                unknown_section(file, l, problems);
                        continue;
                }
                if (!l->section)
                        policy_problem(problems, file, l->line, l->column,
                                        "%s= stands before the first [Section]", l->key);
                if (!known)
                        continue; /* the section's header was noted, its keys mean nothing */
                key = policy_key_find(l->section, l->key);
                if (key < 0) {
                        unknown_key(file, l, problems);
                        continue;
                }
                if (key == POLICY_EXTENDS && kind == POLICY_FILE_DROP_IN) {
                        policy_problem(problems, file, l->line, l->column,
                                        "Extends= can stand in the policy's own file only, not in "
                                        "a drop-in");
                        continue;
                }
                r = policy_assign(p, key, file, l, problems);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Takes a note at the place that an item came from. */
static void note_at(PolicyProblems *problems, const char *from, const char *format, ...) _printf_(3, 4);
static void note_at(PolicyProblems *problems, const char *from, const char *format, ...)
{
        _cleanup_free_ char *file = NULL, *text = NULL;
        unsigned line, column;
        va_list ap;

        va_start(ap, format);
        if (vasprintf(&text, format, ap) < 0)
                text = NULL;
        va_end(ap);
        if (!text || policy_origin_parse(from, &file, &line, &column) < 0)
                problems->out_of_memory = true;
        else
                policy_problem(problems, file, line, column, "%s", text);
}

static void check_rules(const Policy *p, PolicyProblems *problems)
{
        const PolicyValue *v = p->values + NETWORK_ALLOW;
        uint64_t egress = policy_u64(p, NETWORK_EGRESS);

        for (size_t i = 0; v->l && v->l[i]; i++) {
                AllowRule rule;
                size_t offset;

                if (allow_rule_parse(v->l[i], &rule, &offset, NULL) < 0 || rule.kind == ALLOW_SET)
                        continue;
                if (egress == EGRESS_OPEN)
                        note_at(problems, v->from[i],
                                        "Allow=%s has no meaning: Egress=open lets everything out", v->l[i]);
                else if (egress == EGRESS_ADDRESSES && rule.kind != ALLOW_ADDRESS)
                        note_at(problems, v->from[i],
                                        "Allow=%s cannot be enforced: Egress=addresses takes addresses and "
                                        "prefixes "
                                        "without protocol and port",
                                        v->l[i]);
                else if (egress == EGRESS_FILTERED && rule.kind == ALLOW_ADDRESS)
                        note_at(problems, v->from[i],
                                        "Allow=%s: with Egress=filtered an address takes a protocol and a "
                                        "port, tcp "
                                        "%s:PORT",
                                        v->l[i], v->l[i]);
        }
}

/* What the warden counts, where there is none. Egress=none is no place to count, but keeps every such
 * promise. */
static void check_counted(const Policy *p, PolicyProblems *problems)
{
        static const PolicyKey keys[] = { NETWORK_EGRESS_BYTES, NETWORK_CONNECTIONS };
        uint64_t egress = policy_u64(p, NETWORK_EGRESS);

        for (size_t i = 0; i < ELEMENTSOF(keys); i++) {
                const PolicyValue *v = p->values + keys[i];

                if (egress == EGRESS_FILTERED || egress == EGRESS_NONE ||
                                policy_value_is_default(v, keys[i]))
                        continue;
                policy_problem(problems, v->source.file, v->source.line, 1,
                                "%s= cannot be enforced with Egress=%s: only the warden of Egress=filtered "
                                "counts",
                                policy_keys[keys[i]].name, policy_keys[NETWORK_EGRESS].names[egress]);
        }
}

static void check_paths(const Policy *p, PolicyProblems *problems)
{
        const PolicyValue *v = p->values + FILES_EXPOSE;
        const char *workspace = policy_string(p, FILES_WORKSPACE);

        for (size_t i = 0; v->l && v->l[i]; i++)
                if (policy_path_beneath(v->l[i], workspace) || policy_path_beneath(workspace, v->l[i]))
                        note_at(problems, v->from[i], "Expose=%s and Workspace=%s lie in one another",
                                        v->l[i], workspace);
}

/* Each name is one file. */
static void check_credentials(const Policy *p, PolicyProblems *problems)
{
        const PolicyValue *v = p->values + FILES_CREDENTIAL;

        for (size_t i = 0; v->l && v->l[i]; i++) {
                size_t n = strcspn(v->l[i], ":") + 1;

                for (size_t k = 0; k < i; k++)
                        if (strncmp(v->l[i], v->l[k], n) == 0)
                                note_at(problems, v->from[i], "Credential=%s: the name is taken by %s",
                                                v->l[i], v->l[k]);
        }
}

/* Made for good before the run starts, an inode takes its room whether it is used or not; and each part of the disk has a few.
 * Twice what they take is the least that is of use. */
#define DISK_SIZE_MIN (UINT64_C(16) << 20)
#define DISK_BYTES_PER_INODE_MIN 512u
#define DISK_BYTES_PER_INODE_MAX (UINT64_C(4) << 20)

static void check_store(const Policy *p, PolicyProblems *problems)
{
        const PolicyValue *v = p->values + FILES_WORKSPACE_STORE;
        uint64_t size = policy_u64(p, FILES_WORKSPACE_SIZE), inodes = policy_u64(p, FILES_WORKSPACE_INODES);

        if (v->u == STORE_DISK && (size < DISK_SIZE_MIN || size / DISK_BYTES_PER_INODE_MIN < inodes))
                policy_problem(problems, v->source.file, v->source.line, 1,
                                "WorkspaceStore=disk needs a WorkspaceSize= of 16M or more, and of half a KiB for each of "
                                "WorkspaceInodes=");
        else if (v->u == STORE_DISK && size / DISK_BYTES_PER_INODE_MAX > inodes)
                policy_problem(problems, v->source.file, v->source.line, 1,
                                "WorkspaceStore=disk needs one of WorkspaceInodes= for each 4M of WorkspaceSize=");
}

static void check_variables(const Policy *p, PolicyProblems *problems)
{
        const PolicyValue *set = p->values + ENVIRONMENT_SET, *pass = p->values + ENVIRONMENT_PASS;

        for (size_t i = 0; pass->l && pass->l[i]; i++)
                STRV_FOREACH(s, set->l) {
                        const char *rest = startswith(*s, pass->l[i]);

                        if (rest && *rest == '=')
                                note_at(problems, pass->from[i],
                                                "Pass=%s: the same variable is given a value by Set=%s",
                                                pass->l[i], *s);
                }
}

void policy_check_consistent(const Policy *p, PolicyProblems *problems)
{
        check_rules(p, problems);
        check_counted(p, problems);
        check_paths(p, problems);
        check_credentials(p, problems);
        check_store(p, problems);
        check_variables(p, problems);
}
