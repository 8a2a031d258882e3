/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/mount.h>
#include <stddef.h>
#include <stdio.h>

#include "broker/broker-unit.h"
#include "base/parse.h"

#define PID1_PRIVATE_SOCKET "unix:path=/run/systemd/private"
#define PID1_NAME "org.freedesktop.systemd1"
#define PID1_PATH "/org/freedesktop/systemd1"
#define PID1_UNIT_PREFIX PID1_PATH "/unit"
#define PID1_MANAGER "org.freedesktop.systemd1.Manager"
#define PID1_UNIT_INTERFACE "org.freedesktop.systemd1.Unit"
#define PID1_SLICE_INTERFACE "org.freedesktop.systemd1.Slice"
#define PROPERTIES "org.freedesktop.DBus.Properties"
#define CALL_TIMEOUT_USEC (30u * 1000000u)

#ifndef MS_REC
#define MS_REC 16384
#endif

/* ---- events */

static int on_job_removed(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        const UnitBus *u = userdata;
        const char *unit, *result;

        if (sd_bus_message_read(m, "uoss", NULL, NULL, &unit, &result) >= 0 && startswith(unit, "agentbox-"))
                u->events->job_removed(u->userdata, unit, result);
        return 0;
}

static int on_unit_removed(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        const UnitBus *u = userdata;
        const char *unit;

        if (sd_bus_message_read(m, "so", &unit, NULL) >= 0 && startswith(unit, "agentbox-"))
                u->events->removed(u->userdata, unit);
        return 0;
}

static int on_changed(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        const UnitBus *u = userdata;
        _cleanup_free_ char *unit = NULL;

        if (sd_bus_path_decode(sd_bus_message_get_path(m), PID1_UNIT_PREFIX, &unit) > 0 &&
                        startswith(unit, "agentbox-"))
                u->events->changed(u->userdata, unit, m);
        return 0;
}

static int on_disconnected(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
        const UnitBus *u = userdata;

        u->events->disconnected(u->userdata);
        return 0;
}

static int listen_to(UnitBus *u)
{
        static const struct {
                const char *path, *interface, *member;
                sd_bus_message_handler_t handler;
        } rows[] = {
                { PID1_PATH, PID1_MANAGER, "JobRemoved", on_job_removed },
                { PID1_PATH, PID1_MANAGER, "UnitRemoved", on_unit_removed },
                { NULL, PROPERTIES, "PropertiesChanged", on_changed },
                { "/org/freedesktop/DBus/Local", "org.freedesktop.DBus.Local", "Disconnected",
                                on_disconnected },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                int r = sd_bus_match_signal(u->bus, NULL, NULL, rows[i].path, rows[i].interface,
                                rows[i].member, rows[i].handler, u);

                if (r < 0)
                        return r;
        }
        return 0;
}

static int connect_bus(UnitBus *u, sd_event *event)
{
        int r = sd_bus_new(&u->bus);

        if (r >= 0)
                r = sd_bus_set_address(u->bus, PID1_PRIVATE_SOCKET);
        if (r >= 0)
                r = sd_bus_negotiate_fds(u->bus, true);
        if (r >= 0)
                r = sd_bus_start(u->bus);
        if (r >= 0)
                r = listen_to(u);
        /* Before what clients ask: a run's end is told before the next question about it. */
        return r < 0 ? r : sd_bus_attach_event(u->bus, event, SD_EVENT_PRIORITY_NORMAL - 1);
}

int broker_unit_connect(UnitBus *u, sd_event *event, Error **reterr)
{
        int r = connect_bus(u, event);

        if (r >= 0)
                return 0;
        broker_unit_disconnect(u);
        return error_set(reterr, r, "cannot connect to PID 1 (%s): %s; is systemd running?",
                        PID1_PRIVATE_SOCKET, strerror(-r));
}

void broker_unit_disconnect(UnitBus *u)
{
        sd_bus_close_unref(u->bus);
        u->bus = NULL;
}

/* ---- calls */

static int new_call(sd_bus *pid1, const char *path, const char *interface, const char *member,
                sd_bus_message **ret)
{
        return sd_bus_message_new_method_call(pid1, ret, PID1_NAME, path, interface, member);
}

/* "ADDRESS/LEN" as the (iayu) of IPAddressAllow=. */
static int append_prefix(sd_bus_message *m, const char *text)
{
        char address[INET6_ADDRSTRLEN];
        const char *slash = strchr(text, '/');
        unsigned char bytes[16];
        uint64_t length;
        int family, r;

        if (!slash || (size_t) (slash - text) >= sizeof(address) || parse_u64(slash + 1, &length) < 0)
                return -EINVAL;
        memcpy(address, text, (size_t) (slash - text));
        address[slash - text] = 0;
        family = strchr(address, ':') ? AF_INET6 : AF_INET;
        if (inet_pton(family, address, bytes) != 1 || length > (family == AF_INET ? 32 : 128))
                return -EINVAL;
        r = sd_bus_message_open_container(m, 'r', "iayu");
        if (r >= 0)
                r = sd_bus_message_append(m, "i", family);
        if (r >= 0)
                r = sd_bus_message_append_array(m, 'y', bytes, family == AF_INET ? 4 : 16);
        if (r >= 0)
                r = sd_bus_message_append(m, "u", (uint32_t) length);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int append_string(sd_bus_message *m, const UnitProp *q)
{
        return sd_bus_message_append(m, "s", q->s);
}

static int append_bool(sd_bus_message *m, const UnitProp *q)
{
        return sd_bus_message_append(m, "b", (int) (q->u != 0));
}

static int append_u64(sd_bus_message *m, const UnitProp *q)
{
        return sd_bus_message_append(m, "t", q->u);
}

static int append_i32(sd_bus_message *m, const UnitProp *q)
{
        return sd_bus_message_append(m, "i", (int32_t) q->u);
}

static int append_u32(sd_bus_message *m, const UnitProp *q)
{
        return sd_bus_message_append(m, "u", (uint32_t) q->u);
}

static int append_strv(sd_bus_message *m, const UnitProp *q)
{
        return sd_bus_message_append_strv(m, q->l);
}

static int append_bool_strv(sd_bus_message *m, const UnitProp *q)
{
        int r = sd_bus_message_open_container(m, 'r', "bas");

        if (r >= 0)
                r = append_bool(m, q);
        if (r >= 0)
                r = sd_bus_message_append_strv(m, q->l);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int append_pairs(sd_bus_message *m, const UnitProp *q)
{
        int r = sd_bus_message_open_container(m, 'a', "(ss)");

        for (char **i = q->l; r >= 0 && i && i[0] && i[1]; i += 2)
                r = sd_bus_message_append(m, "(ss)", i[0], i[1]);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int append_binds(sd_bus_message *m, const UnitProp *q)
{
        int r = sd_bus_message_open_container(m, 'a', "(ssbt)");

        for (char **i = q->l; r >= 0 && i && i[0] && i[1]; i += 2)
                r = sd_bus_message_append(m, "(ssbt)", i[0], i[1], 0, (uint64_t) MS_REC);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int append_prefixes(sd_bus_message *m, const UnitProp *q)
{
        int r = sd_bus_message_open_container(m, 'a', "(iayu)");

        STRV_FOREACH(i, q->l)
                if (r >= 0)
                        r = append_prefix(m, *i);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int append_exec(sd_bus_message *m, const UnitProp *q)
{
        int r = sd_bus_message_open_container(m, 'a', "(sasb)");

        if (r >= 0)
                r = sd_bus_message_open_container(m, 'r', "sasb");
        if (r >= 0)
                r = sd_bus_message_append(m, "s", q->s);
        if (r >= 0)
                r = sd_bus_message_append_strv(m, q->l);
        if (r >= 0)
                r = sd_bus_message_append(m, "b", 0); /* a failure is one */
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static const struct {
        const char *signature;
        int (*append)(sd_bus_message *m, const UnitProp *q);
} prop_types[] = {
        [UNIT_PROP_STRING] = { "s", append_string },
        [UNIT_PROP_BOOL] = { "b", append_bool },
        [UNIT_PROP_U64] = { "t", append_u64 },
        [UNIT_PROP_I32] = { "i", append_i32 },
        [UNIT_PROP_U32] = { "u", append_u32 },
        [UNIT_PROP_STRV] = { "as", append_strv },
        [UNIT_PROP_BOOL_STRV] = { "(bas)", append_bool_strv },
        [UNIT_PROP_PAIRS] = { "a(ss)", append_pairs },
        [UNIT_PROP_BINDS] = { "a(ssbt)", append_binds },
        [UNIT_PROP_PREFIXES] = { "a(iayu)", append_prefixes },
        [UNIT_PROP_EXEC] = { "a(sasb)", append_exec },
};

static int append_prop(sd_bus_message *m, const UnitProp *q)
{
        int r = sd_bus_message_open_container(m, 'r', "sv");

        if ((size_t) q->type >= ELEMENTSOF(prop_types))
                return -EINVAL;
        if (r >= 0)
                r = sd_bus_message_append(m, "s", q->name);
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'v', prop_types[q->type].signature);
        if (r >= 0)
                r = prop_types[q->type].append(m, q);
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int append_props(sd_bus_message *m, const UnitProps *props)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < props->n; i++)
                r = append_prop(m, props->props + i);
        return r;
}

static int append_stdin(sd_bus_message *m, int fd)
{
        return sd_bus_message_append(m, "(sv)", "StandardInputFileDescriptor", "h", fd);
}

/* What makes the unit one of this run: the shim's standard input, or the process itself. */
static int append_process(sd_bus_message *m, const UnitStart *start)
{
        if (start->stdin_fd >= 0)
                return append_stdin(m, start->stdin_fd);
        return sd_bus_message_append(m, "(sv)", "PIDFDs", "ah", 1, start->pidfd);
}

/* One unit more in the same transaction. */
static int append_unit(sd_bus_message *m, const char *unit, const UnitProps *props, int stdin_fd)
{
        int r = sd_bus_message_open_container(m, 'r', "sa(sv)");

        if (r >= 0)
                r = sd_bus_message_append(m, "s", unit);
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'a', "(sv)");
        if (r >= 0)
                r = append_props(m, props);
        if (r >= 0 && stdin_fd >= 0)
                r = append_stdin(m, stdin_fd);
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

/* The disk is shared out between the slices of runs, and a unit alone in its slice has nobody to be weighed
 * against: the slice gets the same weight. Without one PID 1 makes the slice itself. */
static int append_slice(sd_bus_message *m, const UnitProps *props)
{
        const UnitProp *slice = unit_props_find(props, "Slice"), *weight = unit_props_find(props, "IOWeight");

        if (!slice || !weight)
                return 0;
        return append_unit(m, slice->s, &(UnitProps){ .props = (UnitProp *) weight, .n = 1 }, -1);
}

static int append_others(sd_bus_message *m, const UnitStart *start)
{
        int r = sd_bus_message_open_container(m, 'a', "(sa(sv))");

        if (r >= 0)
                r = append_slice(m, start->props);
        if (r >= 0 && start->other)
                r = append_unit(m, start->other, start->other_props, start->other_stdin_fd);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

int broker_unit_start(sd_bus *pid1, const UnitStart *start, sd_bus_message_handler_t handler, void *userdata,
                sd_bus_slot **ret)
{
        _cleanup_message_ sd_bus_message *m = NULL;
        int r = new_call(pid1, PID1_PATH, PID1_MANAGER, "StartTransientUnit", &m);

        if (r >= 0)
                r = sd_bus_message_append(m, "ss", start->unit, "fail");
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'a', "(sv)");
        if (r >= 0)
                r = append_props(m, start->props);
        if (r >= 0)
                r = append_process(m, start);
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        if (r >= 0)
                r = append_others(m, start);
        return r < 0 ? r : sd_bus_call_async(pid1, ret, m, handler, userdata, CALL_TIMEOUT_USEC);
}

static int new_get_all(sd_bus *pid1, const char *unit, sd_bus_message **ret)
{
        _cleanup_free_ char *path = NULL;
        int r = sd_bus_path_encode(PID1_UNIT_PREFIX, unit, &path);

        if (r >= 0)
                r = new_call(pid1, path, PROPERTIES, "GetAll", ret);
        return r < 0 ? r : sd_bus_message_append(*ret, "s", "");
}

int broker_unit_get_all(sd_bus *pid1, const char *unit, sd_bus_message_handler_t handler, void *userdata,
                sd_bus_slot **ret)
{
        _cleanup_message_ sd_bus_message *m = NULL;
        int r = new_get_all(pid1, unit, &m);

        return r < 0 ? r : sd_bus_call_async(pid1, ret, m, handler, userdata, CALL_TIMEOUT_USEC);
}

int broker_unit_get_all_now(sd_bus *pid1, const char *unit, sd_bus_message **ret)
{
        _cleanup_message_ sd_bus_message *m = NULL;
        int r = new_get_all(pid1, unit, &m);

        return r < 0 ? r : sd_bus_call(pid1, m, CALL_TIMEOUT_USEC, NULL, ret);
}

int broker_unit_kill(sd_bus *pid1, const char *unit, int signal)
{
        return sd_bus_call_method_async(pid1, NULL, PID1_NAME, PID1_PATH, PID1_MANAGER, "KillUnit", NULL,
                        NULL, "ssi", unit, "all", signal);
}

int broker_unit_stop(sd_bus *pid1, const char *unit)
{
        return sd_bus_call_method_async(pid1, NULL, PID1_NAME, PID1_PATH, PID1_MANAGER, "StopUnit", NULL,
                        NULL, "ss", unit, "replace");
}

int broker_unit_freeze(sd_bus *pid1, const char *unit, sd_bus_message_handler_t handler, void *userdata,
                sd_bus_slot **ret)
{
        return sd_bus_call_method_async(pid1, ret, PID1_NAME, PID1_PATH, PID1_MANAGER, "FreezeUnit", handler, userdata,
                        "s", unit);
}

int broker_unit_thaw(sd_bus *pid1, const char *unit, sd_bus_message_handler_t handler, void *userdata,
                sd_bus_slot **ret)
{
        return sd_bus_call_method_async(pid1, ret, PID1_NAME, PID1_PATH, PID1_MANAGER, "ThawUnit", handler, userdata,
                        "s", unit);
}

int broker_unit_stop_slice(sd_bus *pid1, const char *slice, sd_bus_message_handler_t handler, void *userdata,
                sd_bus_slot **ret)
{
        return sd_bus_call_method_async(pid1, ret, PID1_NAME, PID1_PATH, PID1_MANAGER, "StopUnit", handler,
                        userdata, "ss", slice, "replace");
}

int broker_unit_get_ip_allow(sd_bus *pid1, const char *slice, sd_bus_message_handler_t handler, void *userdata,
                sd_bus_slot **ret)
{
        _cleanup_free_ char *path = NULL;
        int r = sd_bus_path_encode(PID1_UNIT_PREFIX, slice, &path);

        return r < 0 ? r
                     : sd_bus_call_method_async(pid1, ret, PID1_NAME, path, PROPERTIES, "Get", handler, userdata, "ss",
                                       PID1_SLICE_INTERFACE, "IPAddressAllow");
}

int broker_unit_read_ip_allow(sd_bus_message *reply)
{
        int r = sd_bus_message_is_method_error(reply, NULL) ? -sd_bus_message_get_errno(reply) : 0;

        if (r >= 0)
                r = sd_bus_message_enter_container(reply, 'v', "a(iayu)");
        if (r >= 0)
                r = sd_bus_message_enter_container(reply, 'a', "(iayu)");
        if (r >= 0)
                r = sd_bus_message_at_end(reply, false);
        return r < 0 ? r : r == 0;
}

int broker_unit_list(sd_bus *pid1, char ***ret, Error **reterr)
{
        _cleanup_message_ sd_bus_message *m = NULL, *reply = NULL;
        _cleanup_bus_error_ sd_bus_error e = SD_BUS_ERROR_NULL;
        _cleanup_strv_ char **units = NULL;
        const char *unit;
        int r = new_call(pid1, PID1_PATH, PID1_MANAGER, "ListUnitsByPatterns", &m);

        if (r >= 0)
                r = sd_bus_message_append(m, "asas", 0, 3, "agentbox-*.service", "agentbox-*.scope",
                                "agentbox-*.slice");
        if (r >= 0)
                r = sd_bus_call(pid1, m, CALL_TIMEOUT_USEC, &e, &reply);
        if (r >= 0)
                r = sd_bus_message_enter_container(reply, 'a', "(ssssssouso)");
        while (r >= 0 && (r = sd_bus_message_read(reply, "(ssssssouso)", &unit, NULL, NULL, NULL, NULL, NULL,
                                          NULL, NULL, NULL, NULL)) > 0)
                r = strv_extend(&units, unit);
        if (r < 0)
                return error_set(reterr, r, "PID 1 does not list its units: %s", e.message ?: strerror(-r));
        *ret = TAKE_PTR(units);
        return 0;
}

int broker_unit_file(sd_bus *pid1, const char *unit, char **ret)
{
        _cleanup_free_ char *path = NULL;
        int r = sd_bus_path_encode(PID1_UNIT_PREFIX, unit, &path);

        if (r < 0)
                return r;
        return sd_bus_get_property_string(
                        pid1, PID1_NAME, path, PID1_UNIT_INTERFACE, "FragmentPath", NULL, ret);
}

int broker_unit_version(sd_bus *pid1, char **ret)
{
        return sd_bus_get_property_string(pid1, PID1_NAME, PID1_PATH, PID1_MANAGER, "Version", NULL, ret);
}

/* ---- what PID 1 tells */

void unit_status_done(UnitStatus *s)
{
        free(s->active_state);
        free(s->result);
        free(s->control_group);
        free(s->freezer_state);
        *s = (UnitStatus){};
}

bool unit_status_is_over(const UnitStatus *s)
{
        return s->active_state && (streq(s->active_state, "inactive") || streq(s->active_state, "failed"));
}

bool unit_status_is_frozen(const UnitStatus *s)
{
        return s->freezer_state && startswith(s->freezer_state, "frozen");
}

int unit_status_set_frozen(UnitStatus *s, bool frozen)
{
        char *state = strdup(frozen ? "frozen" : "running");

        if (!state)
                return -ENOMEM;
        free(s->freezer_state);
        s->freezer_state = state;
        return 0;
}

static int read_string_into(sd_bus_message *m, void *field)
{
        char **s = field, *copy;
        const char *text;
        int r = sd_bus_message_read(m, "v", "s", &text);

        if (r < 0)
                return r;
        copy = strdup(text);
        if (!copy)
                return -ENOMEM;
        free(*s);
        *s = copy;
        return 0;
}

static int read_u32_into(sd_bus_message *m, void *field)
{
        return sd_bus_message_read(m, "v", "u", (uint32_t *) field);
}

static int read_i32_into(sd_bus_message *m, void *field)
{
        return sd_bus_message_read(m, "v", "i", (int32_t *) field);
}

static int read_u64_into(sd_bus_message *m, void *field)
{
        return sd_bus_message_read(m, "v", "t", (uint64_t *) field);
}

static int read_id_into(sd_bus_message *m, void *field)
{
        const uint8_t *bytes;
        size_t n;
        int r = sd_bus_message_enter_container(m, 'v', "ay");

        if (r >= 0)
                r = sd_bus_message_read_array(m, 'y', (const void **) &bytes, &n);
        if (r < 0)
                return r;
        for (size_t i = 0; n == 16 && i < n; i++)
                snprintf((char *) field + 2 * i, 3, "%02x", bytes[i]);
        return sd_bus_message_exit_container(m);
}

static const struct {
        const char *name;
        int (*read)(sd_bus_message *m, void *field);
        size_t offset;
} status_fields[] = {
        { "ActiveState", read_string_into, offsetof(UnitStatus, active_state) },
        { "Result", read_string_into, offsetof(UnitStatus, result) },
        { "ControlGroup", read_string_into, offsetof(UnitStatus, control_group) },
        { "FreezerState", read_string_into, offsetof(UnitStatus, freezer_state) },
        { "InvocationID", read_id_into, offsetof(UnitStatus, invocation_id) },
        { "MainPID", read_u32_into, offsetof(UnitStatus, main_pid) },
        { "ExecMainCode", read_i32_into, offsetof(UnitStatus, exec_main_code) },
        { "ExecMainStatus", read_i32_into, offsetof(UnitStatus, exec_main_status) },
        { "ExecMainExitTimestamp", read_u64_into, offsetof(UnitStatus, exec_main_exit) },
        { "ExecMainExitTimestampMonotonic", read_u64_into, offsetof(UnitStatus, exec_main_exit_monotonic) },
};

static int read_field(UnitStatus *s, const char *name, sd_bus_message *m)
{
        for (size_t i = 0; i < ELEMENTSOF(status_fields); i++)
                if (streq(status_fields[i].name, name))
                        return status_fields[i].read(m, (char *) s + status_fields[i].offset);
        return sd_bus_message_skip(m, "v");
}

static int read_dictionary(UnitStatus *s, sd_bus_message *m)
{
        const char *name;
        int r = sd_bus_message_enter_container(m, 'a', "{sv}");

        while (r >= 0 && (r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
                r = sd_bus_message_read(m, "s", &name);
                if (r >= 0)
                        r = read_field(s, name, m);
                if (r >= 0)
                        r = sd_bus_message_exit_container(m);
        }
        return r < 0 ? r : sd_bus_message_rewind(m, true);
}

int unit_status_read_reply(UnitStatus *s, sd_bus_message *get_all_reply)
{
        return read_dictionary(s, get_all_reply);
}

int unit_status_read_changed(UnitStatus *s, sd_bus_message *changed)
{
        int r = sd_bus_message_skip(changed, "s");

        return r < 0 ? r : read_dictionary(s, changed);
}
