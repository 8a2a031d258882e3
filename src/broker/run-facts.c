/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "base/strv.h"
#include "broker/run.h"
#include "wire/bus-iface.h"

/* ---- one entry of a dictionary; what is not known is left out */

static int append_text(sd_bus_message *m, const char *key, const char *v)
{
        return v && *v ? sd_bus_message_append(m, "{sv}", key, "s", v) : 0;
}

static int append_u64(sd_bus_message *m, const char *key, uint64_t v)
{
        return v != UINT64_MAX ? sd_bus_message_append(m, "{sv}", key, "t", v) : 0;
}

static int append_list(sd_bus_message *m, const char *key, char *const *l)
{
        int r = sd_bus_message_open_container(m, 'e', "sv");

        if (r >= 0)
                r = sd_bus_message_append(m, "s", key);
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'v', "as");
        if (r >= 0)
                r = sd_bus_message_append_strv(m, (char **) l);
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

/* ---- the result record */

static int append_result_fields(sd_bus_message *m, const RunResult *result)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < n_run_result_fields; i++) {
                const RecordField *f = run_result_fields + i;
                const void *p = (const char *) result + f->offset;

                switch (f->type) {
                case RECORD_STRING:
                        r = append_text(m, f->name, *(char *const *) p);
                        break;
                case RECORD_U64:
                        r = append_u64(m, f->name, *(const uint64_t *) p);
                        break;
                case RECORD_LIST:
                        r = append_list(m, f->name, *(char **const *) p);
                        break;
                case RECORD_REASON:
                        r = append_text(m, f->name, run_reason_names[*(const RunReason *) p]);
                        break;
                }
        }
        return r;
}

int result_append(sd_bus_message *m, const RunResult *result)
{
        int r = sd_bus_message_open_container(m, 'a', "{sv}");

        if (r >= 0)
                r = append_result_fields(m, result);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

/* ---- a run */

static int append_identity(sd_bus_message *m, const Run *r)
{
        const struct {
                const char *key, *value;
        } texts[] = {
                { "name", r->name },
                { "policy_digest", r->digest },
                { "unit", r->unit },
                { "invocation_id", r->status.invocation_id },
                { "state", run_state_name(r) },
                { "command", r->command },
        };
        int k = sd_bus_message_append(m, "{sv}{sv}", "caller_uid", "u", (uint32_t) r->caller.uid, "detached",
                        "b", (int) r->detached);

        for (size_t i = 0; k >= 0 && i < ELEMENTSOF(texts); i++)
                k = append_text(m, texts[i].key, texts[i].value);
        return k;
}

/* What its warden has counted so far. */
static int append_egress(sd_bus_message *m, const Run *r)
{
        EgressTally t;

        if (!run_warden_read_tally(r, &t))
                return 0;
        return sd_bus_message_append(m, "{sv}{sv}{sv}{sv}", "egress_bytes", "t", (uint64_t) t.bytes_sent,
                        "ingress_bytes", "t", (uint64_t) t.bytes_received, "egress_allowed", "t",
                        (uint64_t) t.allowed, "egress_denied", "t", (uint64_t) t.denied);
}

/* Of a run that lives: the figures of this moment. */
static int append_living(sd_bus_message *m, Run *r)
{
        int k = append_text(m, "run", r->id);

        if (k >= 0)
                k = append_text(m, "policy", r->policy_name);
        if (k >= 0)
                k = append_list(m, "verified", r->verified);
        if (k < 0 || r->phase < RUN_RUNNING)
                return k;
        run_usage_sample(&r->usage);
        k = sd_bus_message_append(m, "{sv}{sv}", "uid", "u", (uint32_t) r->uid, "command_pid", "u",
                        (uint32_t) r->peer.pid);
        if (k >= 0)
                k = append_u64(m, "started", r->result.started);
        if (k >= 0)
                k = append_u64(m, "memory", r->usage.last[USAGE_MEMORY]);
        if (k >= 0)
                k = append_u64(m, "tasks", run_tasks(r, r->usage.last[USAGE_TASKS]));
        if (k >= 0)
                k = append_u64(m, "cpu_usec", r->usage.last[USAGE_CPU_USEC]);
        return k < 0 ? k : append_egress(m, r);
}

int run_append_facts(sd_bus_message *m, Run *r)
{
        int k = sd_bus_message_open_container(m, 'a', "{sv}");

        if (k >= 0)
                k = append_identity(m, r);
        if (k >= 0)
                k = r->phase == RUN_ENDED ? append_result_fields(m, &r->result) : append_living(m, r);
        return k < 0 ? k : sd_bus_message_close_container(m);
}

/* ---- what the client is told */

int run_reply_started(Run *r)
{
        _cleanup_message_ sd_bus_message *reply = NULL;
        char path[sizeof(AGENTBOX_RUN_PATH_PREFIX) + RUN_ID_LENGTH];
        int k;

        if (!r->call)
                return 0;
        strcpy(path, AGENTBOX_RUN_PATH_PREFIX);
        strcat(path, r->id);
        k = sd_bus_message_new_method_return(r->call, &reply);
        if (k >= 0)
                k = sd_bus_message_append(reply, "so", r->id, path);
        if (k >= 0)
                k = sd_bus_message_append(reply, "a{sv}", 5, "policy", "s", r->policy_name, "workspace", "s",
                                run_workspace(r), "output_limit", "t", r->output_max, "copy_out_size", "t",
                                policy_u64(r->policy, FILES_COPY_OUT_SIZE), "copy_out_files", "t",
                                policy_u64(r->policy, FILES_COPY_OUT_FILES));
        if (k >= 0)
                k = sd_bus_send(NULL, reply, NULL);
        r->call = sd_bus_message_unref(r->call);
        return k;
}

int run_add_waiter(Run *r, sd_bus_message *call)
{
        _cleanup_message_ sd_bus_message *reply = NULL;
        sd_bus_message **waiters;
        int k;

        if (sd_bus_message_get_expect_reply(call) <= 0) /* nobody waits */
                return 0;
        k = sd_bus_message_new_method_return(call, &reply);
        if (k < 0)
                return k;
        waiters = realloc(r->waiters, (r->n_waiters + 1) * sizeof(*waiters));
        if (!waiters)
                return -ENOMEM;
        r->waiters = waiters;
        r->waiters[r->n_waiters++] = TAKE_PTR(reply);
        return 0;
}

void run_forget_waiters(Run *r, const char *sender)
{
        size_t n = 0;

        for (size_t i = 0; i < r->n_waiters; i++)
                if (streq(sd_bus_message_get_destination(r->waiters[i]), sender))
                        sd_bus_message_unref(r->waiters[i]);
                else
                        r->waiters[n++] = r->waiters[i];
        r->n_waiters = n;
}

static int reply_waiter(sd_bus_message *reply, const RunResult *result)
{
        int k = result_append(reply, result);

        return k < 0 ? k : sd_bus_send(NULL, reply, NULL);
}

static int send_ended(Run *r)
{
        _cleanup_message_ sd_bus_message *m = NULL;
        int k = sd_bus_message_new_signal(
                        r->manager->bus, &m, AGENTBOX_OBJECT_PATH, AGENTBOX_MANAGER_INTERFACE, "RunEnded");

        if (k >= 0)
                k = sd_bus_message_set_destination(m, r->caller.sender);
        if (k >= 0)
                k = sd_bus_message_append(m, "s", r->id);
        if (k >= 0)
                k = result_append(m, &r->result);
        return k < 0 ? k : sd_bus_send(NULL, m, NULL);
}

void run_tell_ended(Run *r)
{
        if (!r->client_gone && r->caller.sender && *r->caller.sender && !streq(r->caller.sender, CLIENT_AWAITED))
                (void) send_ended(r);
        for (size_t i = 0; i < r->n_waiters; i++) {
                (void) reply_waiter(r->waiters[i], &r->result);
                sd_bus_message_unref(r->waiters[i]);
        }
        free(r->waiters);
        r->waiters = NULL;
        r->n_waiters = 0;
}
