/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>

#include "base/strv.h"
#include "cli/audit.h"
#include "cli/facts.h"
#include "cli/journal-log.h"
#include "cli/output.h"
#include "wire/output.h"

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

static int read_record(sd_journal *j, JournalKind kind, json_t **ret)
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

#define SHORT_MAX 256u

/* A field of the entry, without looking at the others; "" where it has none, or a long one, which none is that counts. */
static const char *short_field(sd_journal *j, const char *name, char ret[static SHORT_MAX])
{
        size_t prefix = strlen(name) + 1, n;
        const void *data;

        *ret = 0;
        if (sd_journal_get_data(j, name, &data, &n) >= 0 && n >= prefix && n - prefix < SHORT_MAX) {
                memcpy(ret, (const char *) data + prefix, n - prefix);
                ret[n - prefix] = 0;
        }
        return ret;
}

/* Anybody can write an entry of many megabytes with our fields in it: those are not even read. */
static bool may_count(sd_journal *j, JournalKind kind)
{
        char unit[SHORT_MAX], uid[SHORT_MAX], transport[SHORT_MAX], run[SHORT_MAX], event[SHORT_MAX];

        short_field(j, "_SYSTEMD_UNIT", unit);
        short_field(j, "_TRANSPORT", transport);
        if (kind == JOURNAL_OUTPUT)
                return audit_output_is_trusted(unit, transport);
        return audit_writer_is_trusted(unit, short_field(j, "_UID", uid), transport, short_field(j, "AGENTBOX_RUN_ID", run),
                        short_field(j, "AGENTBOX_EVENT", event));
}

int journal_log_next(sd_journal *j, JournalKind kind, json_t **ret)
{
        int r;

        while ((r = sd_journal_next(j)) > 0) {
                _cleanup_json_ json_t *record = NULL;

                if (!may_count(j, kind))
                        continue;
                r = read_record(j, kind, &record);
                if (r == -EBADMSG) /* a damaged entry: journald skips it too */
                        continue;
                if (r < 0)
                        return r;
                if (is_trusted(record, kind)) {
                        *ret = TAKE_PTR(record);
                        return 1;
                }
        }
        return r;
}

static int open_journal(JournalKind kind, sd_journal **ret, Error **reterr)
{
        _cleanup_journal_ sd_journal *j = NULL, *output = NULL;
        int r = sd_journal_open(&j, SD_JOURNAL_LOCAL_ONLY | SD_JOURNAL_SYSTEM);

        /* A namespace without any file may be one that nobody has written to yet: the system's journal has some. */
        if (r >= 0 && sd_journal_has_runtime_files(j) <= 0 && sd_journal_has_persistent_files(j) <= 0)
                return error_set(reterr, -EACCES,
                                "cannot read the system's journal: be root or a member of the group "
                                "systemd-journal (or adm)");
        if (r >= 0 && kind == JOURNAL_OUTPUT)
                r = sd_journal_open_namespace(&output, OUTPUT_NAMESPACE, SD_JOURNAL_LOCAL_ONLY);
        if (r < 0)
                return error_set(reterr, r, "cannot open the journal: %s", strerror(-r));
        *ret = output ? TAKE_PTR(output) : TAKE_PTR(j);
        return 0;
}

static int add_match(sd_journal *j, const char *field, const char *value)
{
        _cleanup_free_ char *match = NULL;

        return asprintf(&match, "%s=%s", field, value) < 0 ? -ENOMEM : sd_journal_add_match(j, match, 0);
}

int journal_log_open(const JournalQuery *query, uid_t caller, sd_journal **ret, Error **reterr)
{
        _cleanup_journal_ sd_journal *j = NULL;
        char uid[16];
        int r = open_journal(query->kind, &j, reterr);

        if (r < 0)
                return r;
        for (size_t i = 0; r >= 0 && query->kind == JOURNAL_AUDIT && audit_event_name(i); i++)
                r = add_match(j, "AGENTBOX_EVENT", audit_event_name(i));
        if (r >= 0 && *query->run)
                r = add_match(j, "AGENTBOX_RUN_ID", query->run);
        if (r >= 0 && caller != CALLER_ANY) {
                snprintf(uid, sizeof(uid), "%u", (unsigned) caller);
                r = add_match(j, "AGENTBOX_CALLER_UID", uid);
        }
        if (r >= 0)
                r = query->since > 0 ? sd_journal_seek_realtime_usec(j, query->since) : sd_journal_seek_head(j);
        if (r < 0)
                return error_set(reterr, r, "cannot search the journal: %s", strerror(-r));
        *ret = TAKE_PTR(j);
        return 0;
}

int journal_log_open_matches(const char *const *matches, sd_journal **ret, Error **reterr)
{
        _cleanup_journal_ sd_journal *j = NULL;
        int r = open_journal(JOURNAL_AUDIT, &j, reterr);

        if (r < 0)
                return r;
        for (; r >= 0 && *matches; matches++)
                r = streq(*matches, "+") ? sd_journal_add_disjunction(j) : sd_journal_add_match(j, *matches, 0);
        if (r < 0)
                return error_set(reterr, r, "cannot search the journal: %s", strerror(-r));
        *ret = TAKE_PTR(j);
        return 0;
}

void journal_owner_done(JournalOwner *o)
{
        sd_journal_close(o->journal);
        free(o->run);
        *o = (JournalOwner){};
}

static int match_owner(sd_journal *j, const char *run, uid_t caller)
{
        char uid[16];
        int r;

        snprintf(uid, sizeof(uid), "%u", (unsigned) caller);
        sd_journal_flush_matches(j);
        r = add_match(j, "AGENTBOX_RUN_ID", run);
        if (r >= 0)
                r = add_match(j, "AGENTBOX_CALLER_UID", uid);
        if (r >= 0)
                r = add_match(j, "_SYSTEMD_UNIT", AUDIT_BROKER_UNIT);
        return r < 0 ? r : sd_journal_seek_head(j);
}

int journal_owner_has(JournalOwner *o, const json_t *record)
{
        const char *run = facts_string(record, "AGENTBOX_RUN_ID");
        _cleanup_json_ json_t *said = NULL;
        char *copy;
        int r = 0;

        if (o->caller == CALLER_ANY)
                return 1;
        if (!run)
                return 0;
        if (o->run && streq(o->run, run))
                return 1;
        if (!o->journal)
                r = open_journal(JOURNAL_AUDIT, &o->journal, NULL);
        else /* files that have come since */
                r = sd_journal_process(o->journal);
        if (r >= 0)
                r = match_owner(o->journal, run, o->caller);
        if (r >= 0)
                r = journal_log_next(o->journal, JOURNAL_AUDIT, &said);
        if (r <= 0)
                return r;
        copy = strdup(run);
        if (!copy)
                return -ENOMEM;
        free(o->run);
        o->run = copy;
        return 1;
}

static bool has_record(char *run, uid_t caller)
{
        _cleanup_(journal_owner_done) JournalOwner owner = { .caller = caller };
        _cleanup_journal_ sd_journal *j = NULL;
        _cleanup_json_ json_t *record = NULL;

        return journal_log_open(&(JournalQuery){ .run = run }, caller, &j, NULL) >= 0 &&
               journal_log_next(j, JOURNAL_AUDIT, &record) > 0 && journal_owner_has(&owner, record) > 0;
}

/* The ids in the journal that begin so. Everybody can put some there, so each must have a record that
 * counts. */
static int collect_candidates(sd_journal *j, const char *run, uid_t caller, char ***ret)
{
        const size_t prefix = strlen("AGENTBOX_RUN_ID=");
        _cleanup_strv_ char **l = NULL;
        const void *data;
        size_t n;
        int r = sd_journal_query_unique(j, "AGENTBOX_RUN_ID");

        if (r < 0)
                return r;
        SD_JOURNAL_FOREACH_UNIQUE(j, data, n)
        {
                _cleanup_free_ char *id =
                                n > prefix && n < SHORT_MAX ? strndup((const char *) data + prefix, n - prefix) : NULL;

                if (!id || !startswith(id, run) || strv_contains(l, id) || !has_record(id, caller))
                        continue;
                r = strv_extend(&l, id);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(l);
        return 0;
}

int journal_log_find(const char *run, uid_t caller, char **ret_id, Error **reterr)
{
        _cleanup_journal_ sd_journal *j = NULL;
        _cleanup_strv_ char **l = NULL;
        const char *id;
        char *copy;
        int r = open_journal(JOURNAL_AUDIT, &j, reterr);

        if (r < 0)
                return r;
        r = collect_candidates(j, run, caller, &l);
        if (r < 0)
                return error_set(reterr, r, "cannot search the journal: %s", strerror(-r));
        id = strv_contains(l, run) ? run : l ? l[0] : NULL;
        if (!id)
                return error_set(reterr, -ENOENT, "the journal knows no run %s%s", run,
                                caller == CALLER_ANY ? "" : " of yours");
        if (!streq(id, run) && strv_length(l) > 1)
                return error_set(reterr, -EINVAL, "%zu runs begin with %s: give more of the id",
                                strv_length(l), run);
        copy = strdup(id);
        if (!copy)
                return error_set(reterr, -ENOMEM, "out of memory");
        *ret_id = copy;
        return 0;
}
