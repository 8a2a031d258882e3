/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/macro.h"
#include "base/parse.h"
#include "cli/audit.h"
#include "cli/facts.h"
#include "cli/journal-entry.h"
#include "cli/output.h"

/* The fields that are shown, besides AGENTBOX_…. */
static bool is_shown(const char *name)
{
        static const char *const names[] = {
                "MESSAGE",
                "MESSAGE_ID",
                "PRIORITY",
                "_SYSTEMD_UNIT",
                "_SYSTEMD_INVOCATION_ID",
                "_UID",
                "_PID",
                "_BOOT_ID",
                "_HOSTNAME",
                "_TRANSPORT",
                "_MACHINE_ID",
        };

        if (startswith(name, "AGENTBOX_"))
                return true;
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (streq(names[i], name))
                        return true;
        return false;
}

/* A second value makes the field an array. */
static int add_field(json_t *record, const char *name, json_t *value)
{
        json_t *old = json_object_get(record, name);
        json_t *array;

        if (!old)
                return json_object_set_new(record, name, value) < 0 ? -ENOMEM : 0;
        if (json_is_array(old))
                return json_array_append_new(old, value) < 0 ? -ENOMEM : 0;
        array = json_array();
        if (json_array_append(array, old) < 0 || json_array_append_new(array, value) < 0) {
                json_decref(array);
                return -ENOMEM;
        }
        return json_object_set_new(record, name, array) < 0 ? -ENOMEM : 0;
}

/* Not one of them is lost, unlike in output_json_bytes(). */
static json_t *exact_bytes(const uint8_t *p, size_t n)
{
        json_t *j = json_stringn((const char *) p, n);

        if (j)
                return j;
        j = json_array();
        for (size_t i = 0; i < n; i++)
                if (json_array_append_new(j, json_integer(p[i])) < 0) {
                        json_decref(j);
                        return NULL;
                }
        return j;
}

static json_t *field_value(JournalKind kind, const char *name, const char *p, size_t n)
{
        return kind == JOURNAL_OUTPUT && streq(name, "MESSAGE") ? exact_bytes((const uint8_t *) p, n) : output_json_bytes(p, n);
}

int journal_entry_read(sd_journal *j, JournalKind kind, json_t **ret)
{
        _cleanup_json_ json_t *record = json_object();
        char text[32];
        const void *data;
        uint64_t usec;
        size_t n;
        int r;

        r = sd_journal_get_realtime_usec(j, &usec);
        if (r < 0)
                return r;
        snprintf(text, sizeof(text), "%llu", (unsigned long long) usec);
        r = add_field(record, "__REALTIME_TIMESTAMP", json_string(text));
        SD_JOURNAL_FOREACH_DATA(j, data, n)
        {
                const char *equals = memchr(data, '=', n);
                _cleanup_free_ char *name = NULL;

                if (r < 0)
                        return r;
                if (!equals)
                        continue;
                name = strndup(data, (size_t) (equals - (const char *) data));
                if (!name)
                        return -ENOMEM;
                if (is_shown(name))
                        r = add_field(record, name, field_value(kind, name, equals + 1, n - strlen(name) - 1));
        }
        if (r < 0)
                return r;
        *ret = TAKE_PTR(record);
        return 0;
}

static bool is_trusted(const json_t *record, JournalKind kind)
{
        const char *unit = facts_string(record, "_SYSTEMD_UNIT"), *transport = facts_string(record, "_TRANSPORT");

        if (kind == JOURNAL_OUTPUT)
                return facts_string(record, "AGENTBOX_STREAM") && json_object_get(record, "MESSAGE") &&
                       audit_output_is_trusted(unit, transport);
        return facts_string(record, "AGENTBOX_EVENT") &&
               audit_writer_is_trusted(unit, facts_string(record, "_UID"), transport, facts_string(record, "AGENTBOX_RUN_ID"),
                               facts_string(record, "AGENTBOX_EVENT"));
}

const char *journal_entry_field(sd_journal *j, const char *name, char *ret, size_t size)
{
        size_t prefix = strlen(name) + 1, n;
        const void *data;

        *ret = 0;
        if (sd_journal_get_data(j, name, &data, &n) >= 0 && n >= prefix && n - prefix < size) {
                memcpy(ret, (const char *) data + prefix, n - prefix);
                ret[n - prefix] = 0;
        }
        return ret;
}

uint64_t journal_entry_number(sd_journal *j, const char *name)
{
        char text[24];
        uint64_t v;

        return parse_u64(journal_entry_field(j, name, text, sizeof(text)), &v) >= 0 ? v : UINT64_MAX;
}

static const char *short_field(sd_journal *j, const char *name, char ret[static ENTRY_FIELD_MAX])
{
        return journal_entry_field(j, name, ret, ENTRY_FIELD_MAX);
}

/* Anybody can write an entry of many megabytes with our fields in it: those are not even read. */
static bool may_count(sd_journal *j, JournalKind kind)
{
        char unit[ENTRY_FIELD_MAX], uid[ENTRY_FIELD_MAX], transport[ENTRY_FIELD_MAX], run[ENTRY_FIELD_MAX], event[ENTRY_FIELD_MAX];

        short_field(j, "_SYSTEMD_UNIT", unit);
        short_field(j, "_TRANSPORT", transport);
        if (kind == JOURNAL_OUTPUT)
                return audit_output_is_trusted(unit, transport);
        return audit_writer_is_trusted(unit, short_field(j, "_UID", uid), transport, short_field(j, "AGENTBOX_RUN_ID", run),
                        short_field(j, "AGENTBOX_EVENT", event));
}

int journal_entry_take(sd_journal *j, JournalKind kind, json_t **ret)
{
        _cleanup_json_ json_t *record = NULL;
        int r;

        if (!may_count(j, kind))
                return 0;
        r = journal_entry_read(j, kind, &record);
        if (r < 0)
                return r == -EBADMSG ? 0 : r; /* damaged: journald skips it too */
        if (!is_trusted(record, kind))
                return 0;
        *ret = TAKE_PTR(record);
        return 1;
}

int journal_entry_next(sd_journal *j, JournalKind kind, json_t **ret)
{
        int r;

        while ((r = sd_journal_next(j)) > 0) {
                r = journal_entry_take(j, kind, ret);
                if (r != 0)
                        return r;
        }
        return r;
}

int journal_add_match(sd_journal *j, const char *field, const char *value)
{
        _cleanup_free_ char *match = NULL;

        if (asprintf(&match, "%s=%s", field, value) < 0) {
                match = NULL;
                return -ENOMEM;
        }
        return sd_journal_add_match(j, match, 0);
}

int journal_open_system(sd_journal **ret)
{
        _cleanup_journal_ sd_journal *j = NULL;
        int r = sd_journal_open(&j, SD_JOURNAL_LOCAL_ONLY | SD_JOURNAL_SYSTEM);

        if (r < 0)
                return r;
        if (sd_journal_has_runtime_files(j) <= 0 && sd_journal_has_persistent_files(j) <= 0)
                return -EACCES;
        *ret = TAKE_PTR(j);
        return 0;
}
