/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/parse.h"
#include "broker/bus-props.h"

#define MS_REC_FLAG 16384u /* of mount(2); the header has it under two names */

static int append_part(Buf *b, const char *s)
{
        static const char separator = BUS_PROP_SEPARATOR;

        if (b->size > 0)
                buf_append(b, &separator, 1);
        return buf_append(b, s, strlen(s));
}

static int append_number(Buf *b, uint64_t v)
{
        char text[24];

        snprintf(text, sizeof(text), "%llu", (unsigned long long) v);
        return append_part(b, text);
}

static int push(char ***items, Buf *b)
{
        char *s = buf_take_string(b);

        return s ? strv_push(items, s) : -ENOMEM;
}

static int read_scalar(sd_bus_message *m, char type, char text[static 32], const char **ret)
{
        union {
                uint8_t y;
                int b, i;
                int16_t n;
                uint16_t q;
                uint32_t u;
                int64_t x;
                uint64_t t;
                double d;
                const char *s;
        } v;
        int r = sd_bus_message_read_basic(m, type, &v);

        if (r < 0)
                return r;
        *ret = text;
        switch (type) {
        case 'y':
                return snprintf(text, 32, "%u", v.y);
        case 'b':
        case 'i':
                return snprintf(text, 32, "%i", v.i);
        case 'n':
                return snprintf(text, 32, "%i", v.n);
        case 'q':
                return snprintf(text, 32, "%u", v.q);
        case 'u':
        case 'h':
                return snprintf(text, 32, "%u", v.u);
        case 'x':
                return snprintf(text, 32, "%lli", (long long) v.x);
        case 't':
                return snprintf(text, 32, "%llu", (unsigned long long) v.t);
        case 's':
        case 'o':
        case 'g':
                *ret = v.s;
                return 0;
        default: /* no unit property is a floating point number */
                return -EBADMSG;
        }
}

/* Everything that is left in the present container, as parts of one text. */
static int read_joined(sd_bus_message *m, Buf *b)
{
        for (;;) {
                const char *contents, *s;
                char type, text[32];
                int r = sd_bus_message_peek_type(m, &type, &contents);

                if (r <= 0)
                        return r;
                if (!strchr("arev", type)) {
                        r = read_scalar(m, type, text, &s);
                        if (r >= 0)
                                r = append_part(b, s);
                        if (r < 0)
                                return r;
                        continue;
                }
                r = sd_bus_message_enter_container(m, type, contents);
                if (r < 0)
                        return r;
                if (type == 'a') {
                        _cleanup_buf_ Buf inner = {};
                        size_t n = 0;

                        while ((r = sd_bus_message_at_end(m, false)) == 0) {
                                char inner_type;

                                r = sd_bus_message_peek_type(m, &inner_type, &contents);
                                if (r >= 0 && !strchr("arev", inner_type)) {
                                        r = read_scalar(m, inner_type, text, &s);
                                        if (r >= 0)
                                                r = append_part(&inner, *s ? s : "\"\"");
                                        n++;
                                } else if (r >= 0) {
                                        r = read_joined(m, &inner);
                                        n++;
                                }
                                if (r < 0)
                                        return r;
                        }
                        if (r < 0)
                                return r;
                        snprintf(text, sizeof(text), "#%zu", n);
                        r = append_part(b, text);
                        if (r >= 0 && inner.size > 0)
                                r = append_part(b, (const char *) inner.data);
                } else
                        r = read_joined(m, b);
                if (r >= 0)
                        r = sd_bus_message_exit_container(m);
                if (r < 0)
                        return r;
        }
}

/* One element of an opened array or structure. */
static int read_element(sd_bus_message *m, char type, const char *contents, char ***items)
{
        _cleanup_buf_ Buf b = {};
        const char *s;
        char text[32];
        int r;

        if (!strchr("arev", type)) {
                r = read_scalar(m, type, text, &s);
                return r < 0 ? r : strv_extend(items, s);
        }
        r = sd_bus_message_enter_container(m, type, contents);
        if (r >= 0)
                r = read_joined(m, &b);
        if (r >= 0)
                r = push(items, &b);
        return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int read_array(sd_bus_message *m, const char *contents, char ***items)
{
        int r = sd_bus_message_enter_container(m, 'a', contents);

        while (r >= 0 && (r = sd_bus_message_at_end(m, false)) == 0) {
                const char *inner;
                char type;

                r = sd_bus_message_peek_type(m, &type, &inner);
                if (r >= 0)
                        r = read_element(m, type, inner, items);
        }
        return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int read_struct(sd_bus_message *m, const char *contents, char ***items)
{
        int r = sd_bus_message_enter_container(m, 'r', contents);

        while (r >= 0 && (r = sd_bus_message_at_end(m, false)) == 0) {
                const char *inner;
                char type;

                r = sd_bus_message_peek_type(m, &type, &inner);
                if (r >= 0)
                        r = type == 'a' ? read_array(m, inner, items) : read_element(m, type, inner, items);
        }
        return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int read_value(sd_bus_message *m, char ***items)
{
        const char *contents, *inner;
        char type;
        int r = sd_bus_message_peek_type(m, &type, &contents);

        if (r < 0)
                return r;
        r = sd_bus_message_enter_container(m, 'v', contents);
        if (r < 0)
                return r;
        r = sd_bus_message_peek_type(m, &type, &inner);
        if (r < 0)
                return r;
        r = type == 'a'   ? read_array(m, inner, items)
            : type == 'r' ? read_struct(m, inner, items)
                          : read_element(m, type, inner, items);
        return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int add_prop(BusProps *p, const char *name, char ***items)
{
        BusProp *grown = (p->n & (p->n - 1)) == 0
                                         ? realloc(p->props, MAX2(p->n * 2, (size_t) 1) * sizeof(BusProp))
                                         : p->props;

        if (!grown)
                return -ENOMEM;
        p->props = grown;
        p->props[p->n] = (BusProp){ .name = strdup(name) };
        if (!p->props[p->n].name)
                return -ENOMEM;
        p->props[p->n++].items = TAKE_PTR(*items);
        return 0;
}

int bus_props_read(sd_bus_message *m, BusProps *ret)
{
        _cleanup_(bus_props_done) BusProps p = {};
        int r = sd_bus_message_rewind(m, true);

        if (r >= 0)
                r = sd_bus_message_enter_container(m, 'a', "{sv}");
        while (r >= 0 && (r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
                _cleanup_strv_ char **items = NULL;
                const char *name;

                r = sd_bus_message_read_basic(m, 's', &name);
                if (r >= 0)
                        r = read_value(m, &items);
                if (r >= 0)
                        r = add_prop(&p, name, &items);
                if (r >= 0)
                        r = sd_bus_message_exit_container(m);
        }
        if (r >= 0)
                r = sd_bus_message_rewind(m, true);
        if (r < 0)
                return r;
        *ret = p;
        p = (BusProps){};
        return 0;
}

void bus_props_done(BusProps *p)
{
        for (size_t i = 0; i < p->n; i++) {
                free(p->props[i].name);
                strv_free(p->props[i].items);
        }
        free(p->props);
        *p = (BusProps){};
}

const BusProp *bus_props_find(const BusProps *p, const char *name)
{
        for (size_t i = 0; i < p->n; i++)
                if (streq(p->props[i].name, name))
                        return p->props + i;
        return NULL;
}

bool bus_prop_is_empty(const BusProp *p)
{
        STRV_FOREACH(i, p->items)
                if (**i && !streq(*i, "0"))
                        return false;
        return true;
}

/* ---- what is to be sent */

static int from_prefix(const char *prefix, Buf *b)
{
        const char *slash = strchr(prefix, '/');
        char address[INET6_ADDRSTRLEN];
        unsigned char bytes[16];
        uint64_t length;
        int family;

        if (!slash || (size_t) (slash - prefix) >= sizeof(address) || parse_u64(slash + 1, &length) < 0)
                return -EINVAL;
        memcpy(address, prefix, (size_t) (slash - prefix));
        address[slash - prefix] = 0;
        family = strchr(address, ':') ? AF_INET6 : AF_INET;
        if (inet_pton(family, address, bytes) != 1)
                return -EINVAL;
        append_number(b, (uint64_t) family);
        append_part(b, family == AF_INET ? "#4" : "#16");
        for (size_t i = 0; i < (family == AF_INET ? 4u : 16u); i++)
                append_number(b, bytes[i]);
        return append_number(b, length);
}

static int from_pairs(const UnitProp *q, char ***items)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && q->l && q->l[i]; i += 2) {
                _cleanup_buf_ Buf b = {};

                append_part(&b, q->l[i]);
                append_part(&b, q->l[i + 1]);
                if (q->type == UNIT_PROP_BINDS) {
                        append_number(&b, 0); /* not ignored where it is missing */
                        append_number(&b, MS_REC_FLAG);
                }
                r = push(items, &b);
        }
        return r;
}

static int from_exec(const UnitProp *q, char ***items)
{
        _cleanup_buf_ Buf b = {};
        char count[24];

        append_part(&b, q->s);
        snprintf(count, sizeof(count), "#%zu", strv_length(q->l));
        append_part(&b, count);
        STRV_FOREACH(i, q->l)
                append_part(&b, *i);
        append_number(&b, 0); /* a failure is one */
        append_part(&b, "");
        return push(items, &b);
}

int bus_prop_from_unit_prop(const UnitProp *q, char ***ret)
{
        _cleanup_strv_ char **items = NULL;
        _cleanup_buf_ Buf b = {};
        int r = 0;

        switch (q->type) {
        case UNIT_PROP_STRING:
                r = strv_extend(&items, q->s);
                break;
        case UNIT_PROP_I32:
                buf_printf(&b, "%i", (int32_t) q->u);
                r = push(&items, &b);
                break;
        case UNIT_PROP_BOOL:
        case UNIT_PROP_U64:
        case UNIT_PROP_U32:
                append_number(&b, q->u);
                r = push(&items, &b);
                break;
        case UNIT_PROP_BOOL_STRV:
                r = strv_extend(&items, q->u ? "1" : "0");
                __attribute__((fallthrough));
        case UNIT_PROP_STRV:
                for (char *const *i = q->l; r >= 0 && i && *i; i++)
                        r = strv_extend(&items, *i);
                break;
        case UNIT_PROP_PAIRS:
        case UNIT_PROP_BINDS:
                r = from_pairs(q, &items);
                break;
        case UNIT_PROP_PREFIXES:
                for (char *const *i = q->l; r >= 0 && i && *i; i++) {
                        r = from_prefix(*i, &b);
                        if (r >= 0)
                                r = push(&items, &b);
                }
                break;
        case UNIT_PROP_EXEC:
                r = from_exec(q, &items);
                break;
        }
        if (r < 0)
                return r;
        *ret = TAKE_PTR(items);
        return 0;
}
