/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "policy/policy-checks.h"
#include "policy/policy-suggest.h"
#include "policy/policy-value.h"

#define BLANKS " \t"
#define ITEMS_MAX 4096

void policy_value_done(PolicyValue *v)
{
        free(v->s);
        strv_free(v->l);
        strv_free(v->from);
        strv_free(v->bound);
        free(v->source.file);
        *v = (PolicyValue){};
}

int policy_value_copy(const PolicyValue *v, PolicyValue *ret)
{
        PolicyValue copy = { .u = v->u, .set = v->set, .source.line = v->source.line };

        if (strv_copy(v->l, &copy.l) < 0 || strv_copy(v->from, &copy.from) < 0 ||
                        strv_copy(v->bound, &copy.bound) < 0 || (v->s && !(copy.s = strdup(v->s))) ||
                        (v->source.file && !(copy.source.file = strdup(v->source.file)))) {
                policy_value_done(&copy);
                return -ENOMEM;
        }
        *ret = copy;
        return 0;
}

int policy_value_reset(PolicyValue *v, PolicyKey key)
{
        PolicyValue fresh = {};
        size_t offset;

        if (policy_keys[key].fallback) {
                int r = policy_value_take(&fresh, key, policy_keys[key].fallback, &offset, NULL);

                if (r < 0)
                        return r;
        }
        policy_value_done(v);
        *v = fresh;
        return 0;
}

bool policy_value_is_default(const PolicyValue *v, PolicyKey key)
{
        _cleanup_(policy_value_done) PolicyValue fallback = {};

        if (policy_value_reset(&fallback, key) < 0)
                return false;
        return v->set == fallback.set && v->u == fallback.u;
}

static int take_enum(const PolicyKeyInfo *key, const char *text, uint64_t *ret, Error **reterr)
{
        const char *near;
        char all[256] = "";
        size_t n = 0;

        for (size_t i = 0; i < key->n_names; i++) {
                if (streq(text, key->names[i])) {
                        *ret = i;
                        return 0;
                }
                n += (size_t) snprintf(all + n, sizeof(all) - n, "%s%s", i > 0 ? ", " : "", key->names[i]);
        }
        near = policy_suggest(text, key->names, key->n_names);
        if (near)
                return error_set(reterr, -EINVAL, "\"%s\" is no value of %s=; did you mean %s?", text,
                                key->name, near);
        return error_set(reterr, -EINVAL, "\"%s\" is no value of %s=; there %s %s", text, key->name,
                        key->n_names == 1 ? "is" : "are", all);
}

static int take_bool(const PolicyKeyInfo *key, const char *text, uint64_t *ret, Error **reterr)
{
        int b;

        if (parse_bool(text, &b) < 0)
                return error_set(reterr, -EINVAL, "\"%s\" is neither yes nor no", text);
        *ret = (uint64_t) b;
        return 0;
}

typedef struct NumberForm {
        int (*parse)(const char *s, uint64_t *ret);
        const char *expected;
} NumberForm;

static const NumberForm number_forms[] = {
        [POLICY_TYPE_SIZE] = { parse_size, "a size such as 64K, 256M or 2G" },
        [POLICY_TYPE_TIME] = { parse_usec, "a time such as 90s, 5min or 1h 30min" },
        [POLICY_TYPE_PERCENT] = { parse_percent, "a percentage such as 150%" },
        [POLICY_TYPE_NUMBER] = { parse_u64, "a number" },
};

static int take_number(PolicyKey k, const char *text, uint64_t *ret, Error **reterr)
{
        const PolicyKeyInfo *key = policy_keys + k;
        uint64_t u;
        int r = number_forms[key->type].parse(text, &u);

        if (r == -EINVAL && (streq(text, "infinity") || streq(text, "unlimited") || streq(text, "none")))
                return error_set(reterr, -EINVAL, "%s= cannot be without limit; it is %s", key->name,
                                number_forms[key->type].expected);
        if (r == -EINVAL)
                return error_set(
                                reterr, -EINVAL, "\"%s\" is not %s", text, number_forms[key->type].expected);
        if (r < 0 || u < key->min || u > key->max) {
                _cleanup_free_ char *min = policy_value_format_u64(k, key->min),
                                    *max = policy_value_format_u64(k, key->max);

                return error_set(reterr, -ERANGE, "%s=%s is out of range: from %s to %s", key->name, text,
                                min ? min : "?", max ? max : "?");
        }
        *ret = u;
        return 0;
}

/* What every text has to be, and the row's own judgement. */
static int check_item(
                PolicyKey k, const char *item, size_t *ret_offset, char **ret_canonical, Error **reterr)
{
        const PolicyKeyInfo *key = policy_keys + k;
        int r = policy_check_text(item, ret_offset, reterr);

        if (r < 0)
                return r;
        if (strlen(item) > key->max) {
                *ret_offset = (size_t) key->max;
                return error_set(reterr, -EINVAL, "longer than %llu bytes", (unsigned long long) key->max);
        }
        return key->check ? key->check(item, ret_offset, ret_canonical, reterr) : 0;
}

static int take_string(PolicyValue *v, PolicyKey k, const char *text, size_t *ret_offset, Error **reterr)
{
        _cleanup_free_ char *canonical = NULL;
        int r = check_item(k, text, ret_offset, &canonical, reterr);

        if (r < 0)
                return r;
        if (!canonical && !(canonical = strdup(text)))
                return error_set(reterr, -ENOMEM, "out of memory");
        free(v->s);
        v->s = TAKE_PTR(canonical);
        v->set = true;
        return 0;
}

int policy_value_take(PolicyValue *v, PolicyKey key, const char *text, size_t *ret_offset, Error **reterr)
{
        uint64_t u;
        int r;

        *ret_offset = 0;
        switch (policy_keys[key].type) {
        case POLICY_TYPE_STRING:
                return take_string(v, key, text, ret_offset, reterr);
        case POLICY_TYPE_LIST:
                return error_set(reterr, -EINVAL, "%s= is a list", policy_keys[key].name);
        case POLICY_TYPE_BOOL:
                r = take_bool(policy_keys + key, text, &u, reterr);
                break;
        case POLICY_TYPE_ENUM:
                r = take_enum(policy_keys + key, text, &u, reterr);
                break;
        default:
                r = take_number(key, text, &u, reterr);
        }
        if (r < 0)
                return r;
        v->u = u;
        v->set = true;
        return 0;
}

/* A line of rules holds several items only where it starts with an address or a set: those have no options
 * behind them. */
static bool splits_at_blanks(PolicyKey key, const char *text)
{
        size_t n = strcspn(text, BLANKS);

        switch (policy_keys[key].split) {
        case POLICY_SPLIT_WORDS:
                return true;
        case POLICY_SPLIT_NEVER:
                return false;
        default:
                return text[0] == '@' ||
                       (n > 0 && (memchr(text, ':', n) || strspn(text, "0123456789./") == n));
        }
}

int policy_value_next_item(PolicyKey key, const char *text, size_t *offset, char **ret, size_t *ret_start)
{
        size_t start = *offset + strspn(text + *offset, BLANKS), n;
        char *item;

        if (!text[start])
                return 0;
        n = splits_at_blanks(key, text + strspn(text, BLANKS)) ? strcspn(text + start, BLANKS)
                                                               : strlen(text + start);
        item = strndup(text + start, n);
        if (!item)
                return -ENOMEM;
        *offset = start + n;
        *ret = item;
        *ret_start = start;
        return 1;
}

/* Set=: a later value of a variable takes the place of the earlier one. */
static bool same_item(PolicyKey key, const char *a, const char *b)
{
        size_t n = strcspn(a, "=");

        if (key != ENVIRONMENT_SET)
                return streq(a, b);
        return n == strcspn(b, "=") && strncmp(a, b, n) == 0;
}

int policy_value_append(PolicyValue *v, PolicyKey key, const char *item, const char *from,
                size_t *ret_offset, Error **reterr)
{
        _cleanup_free_ char *canonical = NULL, *source = strdup(from);
        int r;

        *ret_offset = 0;
        if (!source)
                return error_set(reterr, -ENOMEM, "out of memory");
        r = check_item(key, item, ret_offset, &canonical, reterr);
        if (r < 0)
                return r;
        if (!canonical && !(canonical = strdup(item)))
                return error_set(reterr, -ENOMEM, "out of memory");
        for (size_t i = 0; v->l && v->l[i]; i++)
                if (same_item(key, v->l[i], canonical)) {
                        free(v->l[i]);
                        free(v->from[i]);
                        v->l[i] = TAKE_PTR(canonical);
                        v->from[i] = TAKE_PTR(source);
                        return 0;
                }
        if (strv_length(v->l) >= ITEMS_MAX)
                return error_set(reterr, -EINVAL, "more than %d items", ITEMS_MAX);
        if (strv_push(&v->from, TAKE_PTR(source)) < 0)
                return error_set(reterr, -ENOMEM, "out of memory");
        if (strv_push(&v->l, TAKE_PTR(canonical)) < 0) {
                size_t n = strv_length(v->from);

                free(v->from[n - 1]);
                v->from[n - 1] = NULL;
                return error_set(reterr, -ENOMEM, "out of memory");
        }
        v->set = true;
        return 0;
}

char *policy_value_format_u64(PolicyKey key, uint64_t u)
{
        char *s = NULL;

        switch (policy_keys[key].type) {
        case POLICY_TYPE_SIZE:
                return format_size(u);
        case POLICY_TYPE_TIME:
                return format_usec(u);
        case POLICY_TYPE_PERCENT:
                return asprintf(&s, "%llu%%", (unsigned long long) u) < 0 ? NULL : s;
        case POLICY_TYPE_BOOL:
                return strdup(u ? "yes" : "no");
        case POLICY_TYPE_ENUM:
                return strdup(policy_keys[key].names[u]);
        default:
                return asprintf(&s, "%llu", (unsigned long long) u) < 0 ? NULL : s;
        }
}

char *policy_value_format(PolicyKey key, const PolicyValue *v)
{
        return policy_keys[key].type == POLICY_TYPE_STRING ? strdup(v->s ? v->s : "")
                                                           : policy_value_format_u64(key, v->u);
}

char *policy_origin_format(const char *file, unsigned line, unsigned column)
{
        char *s;

        return asprintf(&s, "%s:%u:%u", file, line, column) < 0 ? NULL : s;
}

int policy_origin_parse(const char *from, char **ret_file, unsigned *ret_line, unsigned *ret_column)
{
        size_t column = strlen(from), line;
        char *file;

        /* Looked for from the end: the file's name may contain colons itself. */
        while (column > 0 && from[column] != ':')
                column--;
        line = column > 0 ? column - 1 : 0;
        while (line > 0 && from[line] != ':')
                line--;
        if (line == 0) {
                *ret_file = NULL;
                *ret_line = *ret_column = 0;
                return 0;
        }
        file = strndup(from, line);
        if (!file)
                return -ENOMEM;
        *ret_file = file;
        *ret_line = (unsigned) strtoul(from + line + 1, NULL, 10);
        *ret_column = (unsigned) strtoul(from + column + 1, NULL, 10);
        return 0;
}
