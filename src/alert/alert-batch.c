/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>

#include "alert/alert-batch.h"
#include "cli/facts.h"

void alert_batch_done(AlertBatch *b)
{
        for (size_t i = 0; i < b->n; i++) {
                json_decref(b->alerts[i].record);
                free(b->alerts[i].run);
                free(b->alerts[i].key);
        }
        b->n = 0;
}

static const char *field(const json_t *record, const char *name)
{
        return facts_string(record, name) ?: "";
}

AlertLane alert_lane(const json_t *record)
{
        const char *event = field(record, "AGENTBOX_EVENT");

        if (streq(event, "tripwire") || streq(event, "run-unverified"))
                return ALERT_URGENT;
        if (!streq(event, "egress-denied"))
                return ALERT_NONE;
        return streq(field(record, "AGENTBOX_REASON"), "metadata") ? ALERT_URGENT : ALERT_DENIED;
}

/* Which alerts are equal. An attempt on a metadata service is one whatever its address and port: there are more of those than
 * anybody wants to read. A NUL is in no text of JSON's that facts_string() gives, a newline may be. */
static char *key_of(const json_t *record)
{
        static const char *const names[] = { "AGENTBOX_DEST_NAME", "AGENTBOX_DEST_ADDR", "AGENTBOX_DEST_PORT", "AGENTBOX_PROTO" };
        json_t *parts = json_pack("[s,s,s,s]", field(record, "AGENTBOX_RUN_ID"), field(record, "AGENTBOX_EVENT"),
                        field(record, "AGENTBOX_REASON"), field(record, "AGENTBOX_DECOY"));
        char *key;

        for (size_t i = 0; alert_lane(record) == ALERT_DENIED && i < ELEMENTSOF(names); i++)
                json_array_append_new(parts, json_string(field(record, names[i])));
        key = parts ? json_dumps(parts, JSON_COMPACT) : NULL;
        json_decref(parts);
        return key;
}

static void join(Alert *a, const json_t *record)
{
        uint64_t n = facts_text_u64(record, "AGENTBOX_COUNT");

        a->records++;
        if (n == UINT64_MAX)
                n = 1;
        a->count = n > UINT64_MAX - a->count ? UINT64_MAX : a->count + n;
}

int alert_batch_add(AlertBatch *b, json_t *record)
{
        const char *run = field(record, "AGENTBOX_RUN_ID");
        _cleanup_free_ char *key = key_of(record), *copy = strdup(run);
        Alert *others = NULL;
        size_t of_run = 0;

        if (!key || !copy)
                return -ENOMEM;
        for (size_t i = 0; i < b->n; i++) {
                Alert *a = b->alerts + i;

                if (!a->others && streq(a->key, key)) {
                        join(a, record);
                        return 1;
                }
                if (!streq(a->run, run))
                        continue;
                of_run++;
                if (a->others)
                        others = a;
        }
        if (others) {
                join(others, record);
                return 1;
        }
        if (b->n >= ELEMENTSOF(b->alerts))
                return 0;
        b->alerts[b->n] = (Alert){
                .record = json_incref(record),
                .run = TAKE_PTR(copy),
                .key = TAKE_PTR(key),
                .others = of_run >= ALERTS_OF_RUN_MAX,
        };
        join(b->alerts + b->n++, record);
        return 1;
}

static int set_number(json_t *j, const char *name, uint64_t n)
{
        char text[24];

        snprintf(text, sizeof(text), "%llu", (unsigned long long) n);
        return json_object_set_new(j, name, json_string(text));
}

/* What no sandbox can have had a say in. */
static json_t *plain_fields(json_t *record)
{
        static const char *const names[] = { "MESSAGE_ID", "PRIORITY", "AGENTBOX_EVENT", "AGENTBOX_RUN_ID", "AGENTBOX_POLICY",
                "AGENTBOX_POLICY_DIGEST", "AGENTBOX_CALLER_UID", "AGENTBOX_UNIT", "AGENTBOX_INVOCATION_ID", "AGENTBOX_REASON",
                "AGENTBOX_ACTION", "AGENTBOX_COUNT", "AGENTBOX_PID", "_SYSTEMD_UNIT", "_BOOT_ID", "__CURSOR", "__REALTIME_TIMESTAMP" };
        json_t *j = json_object();

        for (size_t i = 0; j && i < ELEMENTSOF(names); i++)
                (void) json_object_set(j, names[i], json_object_get(record, names[i]));
        if (j && json_object_set_new(j, "AGENTBOX_ALERT_SHORTENED", json_string("yes")) < 0)
                json_decref(TAKE_PTR(j));
        return j;
}

char *alert_line(const Alert *a, bool shortened)
{
        json_t *j = shortened ? plain_fields(a->record) : json_copy(a->record);
        char *text = NULL;

        if (j && set_number(j, "AGENTBOX_ALERT_RECORDS", a->records) == 0 && set_number(j, "AGENTBOX_ALERT_COUNT", a->count) == 0 &&
                        json_object_set_new(j, "AGENTBOX_ALERT_OTHERS", json_string(a->others ? "yes" : "no")) == 0)
                text = json_dumps(j, JSON_COMPACT | JSON_ENSURE_ASCII);
        json_decref(j);
        return text;
}
