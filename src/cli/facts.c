/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "base/parse.h"
#include "cli/facts.h"
#include "cli/output.h"

static int read_string_array(sd_bus_message *m, json_t **ret)
{
        _cleanup_json_ json_t *array = json_array();
        const char *s;
        int r;

        r = sd_bus_message_enter_container(m, 'a', "s");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_read_basic(m, 's', &s)) > 0)
                if (json_array_append_new(array, json_string(s)) < 0)
                        return -ENOMEM;
        if (r < 0)
                return r;
        *ret = TAKE_PTR(array);
        return sd_bus_message_exit_container(m);
}

/* UINT64_MAX means unknown on this bus, and JSON has no such integer anyway. */
static json_t *unsigned_value(uint64_t v)
{
        return v > INT64_MAX ? json_null() : json_integer((json_int_t) v);
}

static int read_basic(sd_bus_message *m, char type, json_t **ret)
{
        union {
                const char *s;
                uint8_t y;
                int16_t n;
                uint16_t q;
                int32_t i;
                uint32_t u;
                int64_t x;
                uint64_t t;
                int b;
        } v;
        int r = sd_bus_message_read_basic(m, type, &v);

        if (r < 0)
                return r;
        switch (type) {
        case 's':
        case 'o':
        case 'g':
                *ret = json_string(v.s);
                break;
        case 'b':
                *ret = json_boolean(v.b);
                break;
        case 'y':
                *ret = json_integer(v.y);
                break;
        case 'n':
                *ret = json_integer(v.n);
                break;
        case 'q':
                *ret = json_integer(v.q);
                break;
        case 'i':
                *ret = json_integer(v.i);
                break;
        case 'u':
                *ret = json_integer(v.u);
                break;
        case 'x':
                *ret = json_integer(v.x);
                break;
        default:
                *ret = unsigned_value(v.t);
        }
        return *ret ? 0 : -ENOMEM;
}

/* Sets *ret to NULL for a type that no fact has. */
static int read_value(sd_bus_message *m, json_t **ret)
{
        const char *contents;
        char type;
        int r;

        r = sd_bus_message_peek_type(m, &type, &contents);
        if (r < 0)
                return r;
        r = sd_bus_message_enter_container(m, 'v', contents);
        if (r < 0)
                return r;
        if (streq(contents, "as"))
                r = read_string_array(m, ret);
        else if (contents[0] && !contents[1] && strchr("sogbynqiuxt", contents[0]))
                r = read_basic(m, contents[0], ret);
        else
                r = sd_bus_message_skip(m, contents);
        if (r < 0)
                return r;
        return sd_bus_message_exit_container(m);
}

int facts_read(sd_bus_message *m, json_t **ret)
{
        _cleanup_json_ json_t *facts = json_object();
        int r;

        r = sd_bus_message_enter_container(m, 'a', "{sv}");
        if (r <= 0)
                return r < 0 ? r : -EBADMSG;
        while ((r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
                json_t *value = NULL;
                const char *name;

                r = sd_bus_message_read_basic(m, 's', &name);
                if (r < 0)
                        return r;
                r = read_value(m, &value);
                if (r >= 0 && value && json_object_set_new(facts, name, TAKE_PTR(value)) < 0)
                        r = -ENOMEM;
                json_decref(value);
                if (r < 0)
                        return r;
                r = sd_bus_message_exit_container(m);
                if (r < 0)
                        return r;
        }
        if (r < 0)
                return r;
        r = sd_bus_message_exit_container(m);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(facts);
        return 0;
}

int facts_read_list(sd_bus_message *m, json_t **ret)
{
        _cleanup_json_ json_t *list = json_array();
        int r;

        r = sd_bus_message_enter_container(m, 'a', "a{sv}");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_at_end(m, false)) == 0) {
                json_t *facts;

                r = facts_read(m, &facts);
                if (r < 0)
                        return r;
                if (json_array_append_new(list, facts) < 0)
                        return -ENOMEM;
        }
        if (r < 0)
                return r;
        *ret = TAKE_PTR(list);
        return sd_bus_message_exit_container(m);
}

const char *facts_string(const json_t *facts, const char *name)
{
        return json_string_value(json_object_get(facts, name));
}

uint64_t facts_u64(const json_t *facts, const char *name)
{
        const json_t *v = json_object_get(facts, name);

        return json_is_integer(v) && json_integer_value(v) >= 0 ? (uint64_t) json_integer_value(v)
                                                                : UINT64_MAX;
}

uint64_t facts_text_u64(const json_t *record, const char *name)
{
        const char *s = facts_string(record, name);
        uint64_t v;

        return s && parse_u64(s, &v) >= 0 ? v : UINT64_MAX;
}

const char *message_without_run(const json_t *record)
{
        const char *text = facts_string(record, "MESSAGE"), *run = facts_string(record, "AGENTBOX_RUN_ID") ?: "";
        const char *rest = text ? startswith(text, "Run ") : NULL;

        if (!rest || !*run || !startswith(rest, run))
                return text;
        rest += strlen(run);
        rest += strspn(rest, ": ");
        return *rest ? rest : text;
}

static int list_from_json(const json_t *array, char ***ret)
{
        _cleanup_strv_ char **l = NULL;

        for (size_t i = 0; i < json_array_size(array); i++) {
                const char *s = json_string_value(json_array_get(array, i));

                if (s && strv_extend(&l, s) < 0)
                        return -ENOMEM;
        }
        strv_free(*ret);
        *ret = TAKE_PTR(l);
        return 0;
}

static int take_string(const char *s, char **ret)
{
        char *copy;

        if (!s)
                return 0;
        copy = strdup(s);
        if (!copy)
                return -ENOMEM;
        free(*ret);
        *ret = copy;
        return 0;
}

static int take_reason(const char *s, RunReason *ret)
{
        int reason = s ? run_reason_from_string(s) : -EBADMSG;

        if (reason < 0)
                return -EBADMSG;
        *ret = (RunReason) reason;
        return 0;
}

int result_from_facts(const json_t *facts, RunResult *ret)
{
        for (size_t i = 0; i < n_run_result_fields; i++) {
                const RecordField *f = run_result_fields + i;
                void *member = (char *) ret + f->offset;
                int r = 0;

                switch (f->type) {
                case RECORD_STRING:
                        r = take_string(facts_string(facts, f->name), member);
                        break;
                case RECORD_U64:
                        *(uint64_t *) member = facts_u64(facts, f->name);
                        break;
                case RECORD_LIST:
                        r = list_from_json(json_object_get(facts, f->name), member);
                        break;
                case RECORD_REASON:
                        r = take_reason(facts_string(facts, f->name), member);
                        break;
                }
                if (r < 0)
                        return r;
        }
        return 0;
}

static json_t *field_to_json(const RecordField *f, const void *member)
{
        const char *s;
        json_t *list;

        switch (f->type) {
        case RECORD_STRING:
                s = *(char *const *) member;
                return s ? output_json_bytes(s, strlen(s)) : json_null();
        case RECORD_U64:
                return unsigned_value(*(const uint64_t *) member);
        case RECORD_REASON:
                return json_string(run_reason_names[*(const RunReason *) member]);
        case RECORD_LIST:
                list = json_array();
                STRV_FOREACH(i, *(char **const *) member)
                json_array_append_new(list, output_json_bytes(*i, strlen(*i)));
                return list;
        }
        return NULL;
}

json_t *result_to_json(const RunResult *result)
{
        _cleanup_json_ json_t *object = json_object();

        for (size_t i = 0; i < n_run_result_fields; i++) {
                const RecordField *f = run_result_fields + i;

                if (json_object_set_new(object, f->name,
                                    field_to_json(f, (const char *) result + f->offset)) < 0)
                        return NULL;
        }
        return TAKE_PTR(object);
}

json_t *facts_complete(const json_t *facts)
{
        static const char *const names[] = {
                "run",
                "name",
                "policy",
                "policy_digest",
                "unit",
                "invocation_id",
                "state",
                "caller_uid",
                "command",
                "started",
                "uid",
                "command_pid",
                "memory",
                "tasks",
                "cpu_usec",
                "verified",
                "detached",
        };
        _cleanup_json_ json_t *object = json_object();

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (json_object_set_new(object, names[i], json_null()) < 0)
                        return NULL;
        return json_object_update(object, (json_t *) facts) < 0 ? NULL : TAKE_PTR(object);
}
