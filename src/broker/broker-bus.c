/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>

#include "broker/broker-bus.h"
#include "broker/broker-doctor.h"
#include "broker/run.h"
#include "wire/bus-iface.h"

#define ID_OR_NAME_MAX 64u

/* ---- Run and what belongs to it */

static int broker_method_run(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        Manager *manager = userdata;
        _cleanup_error_ Error *e = NULL;
        Run *r = run_new(manager, m);
        int k;

        if (!r)
                return -ENOMEM;
        manager_touch(manager);
        k = caller_read(m, &r->caller, &e);
        if (k < 0) {
                run_free(r);
                return sd_bus_error_set(ret_error, AGENTBOX_ERROR_NOT_AUTHORIZED, error_message(e, k));
        }
        k = manager_admit(manager, r->caller.uid, &e);
        manager_add(manager, r);
        if (k < 0) {
                run_refuse(r, k == -EBUSY ? AGENTBOX_ERROR_TOO_MANY_RUNS : AGENTBOX_ERROR_SHUTTING_DOWN,
                                "%s", error_message(e, k));
                return 1;
        }
        k = request_read(m, &r->request, &e);
        if (k < 0)
                run_refuse(r, AGENTBOX_ERROR_INVALID_REQUEST, "%s", error_message(e, k));
        else {
                if (r->request.scope)
                        run_set_scope(r);
                manager_queue(manager, r);
        }
        return 1;
}

static int refuse_lookup(uid_t uid, sd_bus_error *ret_error)
{
        return sd_bus_error_setf(ret_error, AGENTBOX_ERROR_TOO_MANY_REQUESTS,
                        "uid %u has asked about policies too often: wait a second", uid);
}

/* Whose the call is, asking nobody; (uid_t) -1: not known. Of a flood the bus and the user database are asked once. */
static uid_t known_asker(const Manager *m, sd_bus_message *call)
{
        const char *sender = sd_bus_message_get_sender(call);

        for (size_t i = 0; sender && i < ELEMENTSOF(m->askers); i++)
                if (streq(m->askers[i].sender, sender))
                        return m->askers[i].uid;
        return (uid_t) -1;
}

static void remember_asker(Manager *m, const Caller *c)
{
        size_t i = m->n_askers++ % ELEMENTSOF(m->askers);

        m->askers[i].uid = c->uid;
        snprintf(m->askers[i].sender, sizeof(m->askers[i].sender), "%s", c->sender);
}

/* Policies are read from their files, by one process for all: a user may ask so often, root as often as he likes. 0: yes. */
static int admit_lookup(Manager *m, sd_bus_message *call, sd_bus_error *ret_error)
{
        _cleanup_(caller_done) Caller c = {};
        _cleanup_error_ Error *e = NULL;
        uid_t known = known_asker(m, call);
        int r;

        if (known != (uid_t) -1 && refusal_budget_is_spent(&m->lookups, known, now_monotonic()))
                return refuse_lookup(known, ret_error);
        r = caller_read(call, &c, &e);
        if (r < 0)
                return sd_bus_error_set(ret_error, AGENTBOX_ERROR_NOT_AUTHORIZED, error_message(e, r));
        if (c.uid == 0)
                return 0;
        if (known == (uid_t) -1)
                remember_asker(m, &c);
        if (refusal_budget_is_spent(&m->lookups, c.uid, now_monotonic()))
                return refuse_lookup(c.uid, ret_error);
        (void) refusal_budget_take(&m->lookups, c.uid, now_monotonic());
        return 0;
}

static int broker_method_prepare_run(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        _cleanup_message_ sd_bus_message *reply = NULL;
        _cleanup_policy_ Policy *p = NULL;
        _cleanup_error_ Error *e = NULL;
        const char *name;
        int r = sd_bus_message_read(m, AGENTBOX_PASS_SIGNATURE, &name);

        if (r < 0)
                return r;
        manager_touch(userdata);
        r = admit_lookup(userdata, m, ret_error);
        if (r < 0)
                return r;
        if (strlen(name) > POLICY_NAME_MAX)
                return sd_bus_error_set(
                                ret_error, AGENTBOX_ERROR_NO_SUCH_POLICY, "no policy has a name that long");
        r = policy_load(name, NULL, NULL, &p, &e);
        if (r < 0)
                return sd_bus_error_set(ret_error,
                                r == -ENOENT ? AGENTBOX_ERROR_NO_SUCH_POLICY : AGENTBOX_ERROR_POLICY_INVALID,
                                error_message(e, r));
        r = sd_bus_message_new_method_return(m, &reply);
        if (r >= 0)
                r = sd_bus_message_append_strv(reply, (char **) policy_list(p, ENVIRONMENT_PASS));
        return r < 0 ? r : sd_bus_send(NULL, reply, NULL);
}

static int broker_method_list_policies(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        _cleanup_message_ sd_bus_message *reply = NULL;
        _cleanup_strv_ char **names = NULL;
        int r = admit_lookup(userdata, m, ret_error);

        manager_touch(userdata);
        if (r >= 0)
                r = policy_list_names(NULL, &names);
        if (r >= 0)
                r = sd_bus_message_new_method_return(m, &reply);
        if (r >= 0)
                r = sd_bus_message_append_strv(reply, names);
        return r < 0 ? r : sd_bus_send(NULL, reply, NULL);
}

/* ---- questions about runs: the caller's own at once, others' where polkit says yes */

/* One call that waits for polkit. */
struct Question {
        Manager *manager;
        Question *next;
        sd_bus_message *call;
        AuthzQuery *query;
        int (*answer)(Manager *m, sd_bus_message *call, const Caller *c, bool all, sd_bus_error *e);
        Caller caller;
};

static void question_free(Question *q)
{
        for (Question **i = &q->manager->questions; *i; i = &(*i)->next)
                if (*i == q) {
                        *i = q->next;
                        break;
                }
        authz_query_free(q->query);
        sd_bus_message_unref(q->call);
        caller_done(&q->caller);
        free(q);
}

static void on_question_answered(void *userdata, int verdict, const char *why)
{
        Question *q = userdata;
        _cleanup_bus_error_ sd_bus_error e = SD_BUS_ERROR_NULL;
        int r;

        if (verdict > 0) {
                (void) sd_bus_message_rewind(q->call, true);
                r = q->answer(q->manager, q->call, &q->caller, true, &e);
        } else
                r = sd_bus_error_setf(&e, AGENTBOX_ERROR_NOT_AUTHORIZED,
                                "not authorised to see or end other users' runs: %s", why);
        if (r < 0)
                (void) sd_bus_reply_method_errno(q->call, r, &e);
        question_free(q);
}

typedef int (*Answer)(Manager *m, sd_bus_message *call, const Caller *c, bool all, sd_bus_error *e);

/* A person may take a minute for an answer; meanwhile each question holds its call. */
static bool asks_too_much(const Manager *m, uid_t uid)
{
        unsigned n = 0;

        for (const Question *q = m->questions; q; q = q->next)
                n += q->caller.uid == uid;
        return n >= QUESTIONS_PER_UID_MAX;
}

/* answer() gives -EACCES where only one who may see (or end) everybody's runs gets it: then polkit is asked.
 */
static int answer_or_ask(
                Manager *m, sd_bus_message *call, const char *action, Answer answer, sd_bus_error *ret_error)
{
        _cleanup_(caller_done) Caller c = {};
        _cleanup_error_ Error *e = NULL;
        Question *q;
        int r = caller_read(call, &c, &e);

        manager_touch(m);
        if (r < 0)
                return sd_bus_error_set(ret_error, AGENTBOX_ERROR_NOT_AUTHORIZED, error_message(e, r));
        r = answer(m, call, &c, c.uid == 0, ret_error);
        if (r != -EACCES)
                return r;
        if (asks_too_much(m, c.uid))
                return sd_bus_error_set(ret_error, AGENTBOX_ERROR_NOT_AUTHORIZED,
                                "not authorised: polkit is being asked too many things for you already");
        q = calloc(1, sizeof(*q));
        if (!q)
                return -ENOMEM;
        *q = (Question){ .manager = m,
                .next = m->questions,
                .call = sd_bus_message_ref(call),
                .answer = answer,
                .caller = c };
        c = (Caller){};
        m->questions = q;
        r = authz_ask(call, action, NULL, on_question_answered, q, &q->query);
        if (r < 0)
                question_free(q);
        return r < 0 ? r : 1;
}

static int read_run(Manager *m, sd_bus_message *call, const Caller *c, Run **ret, sd_bus_error *e)
{
        const char *id;
        int r = sd_bus_message_read(call, "s", &id);

        if (r < 0)
                return r;
        *ret = strlen(id) <= ID_OR_NAME_MAX ? manager_find(m, c, id) : NULL;
        if (*ret)
                return 0;
        if (!run_name_is_valid(id))
                return sd_bus_error_set(e, AGENTBOX_ERROR_NO_SUCH_RUN, "no run has such an id or name");
        return sd_bus_error_setf(e, AGENTBOX_ERROR_NO_SUCH_RUN,
                        "no run %s: see \"agentbox ps\" for the present ones, \"agentbox log\" for "
                        "earlier ones",
                        id);
}

static int answer_list(Manager *m, sd_bus_message *call, const Caller *c, bool all, sd_bus_error *e)
{
        _cleanup_message_ sd_bus_message *reply = NULL;
        int r = sd_bus_message_new_method_return(call, &reply);

        if (r >= 0)
                r = sd_bus_message_open_container(reply, 'a', "a{sv}");
        for (Run *i = m->runs; r >= 0 && i; i = i->next)
                if (i->phase > RUN_ASKING && !i->refused && (all || run_is_visible(i, c)))
                        r = run_append_facts(reply, i);
        if (r >= 0)
                r = sd_bus_message_close_container(reply);
        return r < 0 ? r : sd_bus_send(NULL, reply, NULL);
}

static int broker_method_list_runs(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        return answer_or_ask(userdata, m, AGENTBOX_ACTION_INSPECT_ALL, answer_list, ret_error);
}

static int answer_get(Manager *m, sd_bus_message *call, const Caller *c, bool all, sd_bus_error *e)
{
        _cleanup_message_ sd_bus_message *reply = NULL;
        Run *run;
        int r = read_run(m, call, c, &run, e);

        if (r < 0)
                return r;
        if (!all && !run_is_visible(run, c))
                return -EACCES;
        r = sd_bus_message_new_method_return(call, &reply);
        if (r >= 0)
                r = run_append_facts(reply, run);
        return r < 0 ? r : sd_bus_send(NULL, reply, NULL);
}

static int broker_method_get_run(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        return answer_or_ask(userdata, m, AGENTBOX_ACTION_INSPECT_ALL, answer_get, ret_error);
}

static int answer_wait(Manager *m, sd_bus_message *call, const Caller *c, bool all, sd_bus_error *e)
{
        _cleanup_message_ sd_bus_message *reply = NULL;
        Run *run;
        int r = read_run(m, call, c, &run, e);

        if (r < 0)
                return r;
        if (!all && !run_is_visible(run, c))
                return -EACCES;
        if (run->phase == RUN_ENDED) {
                r = sd_bus_message_new_method_return(call, &reply);
                if (r >= 0)
                        r = result_append(reply, &run->result);
                return r < 0 ? r : sd_bus_send(NULL, reply, NULL);
        }
        if (run->n_waiters >= WAITERS_MAX)
                return sd_bus_error_set(
                                e, AGENTBOX_ERROR_TOO_MANY_RUNS, "too many wait for this run already");
        r = run_add_waiter(run, call);
        return r < 0 ? r : 1;
}

static int broker_method_wait_run(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        return answer_or_ask(userdata, m, AGENTBOX_ACTION_INSPECT_ALL, answer_wait, ret_error);
}

static int answer_kill(Manager *m, sd_bus_message *call, const Caller *c, bool all, sd_bus_error *e)
{
        const char *reason;
        int32_t signal;
        Run *run;
        int r = read_run(m, call, c, &run, e);

        if (r >= 0)
                r = sd_bus_message_read(call, "is", &signal, &reason);
        if (r < 0)
                return r;
        if (!all && !run_is_visible(run, c))
                return -EACCES;
        if (signal < 0 || signal > 64)
                return sd_bus_error_set(e, AGENTBOX_ERROR_INVALID_REQUEST, "no such signal");
        if (streq(reason, "output-limit") && streq(c->sender, run->caller.sender))
                run_kill(run, KILL_OUTPUT_LIMIT);
        else if (*reason)
                return sd_bus_error_set(e, AGENTBOX_ERROR_INVALID_REQUEST,
                                "only the client of a run may give that reason");
        else if (signal == 0)
                run_kill(run, KILL_ASKED);
        else {
                r = run_signal(run, signal);
                if (r < 0)
                        return r;
        }
        return sd_bus_reply_method_return(call, NULL);
}

static int broker_method_kill_run(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        return answer_or_ask(userdata, m, AGENTBOX_ACTION_MANAGE_ALL, answer_kill, ret_error);
}

/* What froze it was its policy, which its caller may not loosen: so its caller may not thaw it either. */
static int answer_thaw(Manager *m, sd_bus_message *call, const Caller *c, bool all, sd_bus_error *e)
{
        Run *run;
        int r = read_run(m, call, c, &run, e);

        if (r < 0)
                return r;
        if (!all)
                return -EACCES;
        if (run->phase != RUN_RUNNING || !unit_status_is_frozen(&run->status))
                return sd_bus_error_set(e, AGENTBOX_ERROR_INVALID_REQUEST, "the run is not frozen");
        r = run_tripwires_thaw(run, call);
        return r < 0 ? r : 1;
}

static int broker_method_thaw_run(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        return answer_or_ask(userdata, m, AGENTBOX_ACTION_MANAGE_ALL, answer_thaw, ret_error);
}

/* Nobody but its client could know: whoever else asks is told nothing, not even by polkit. */
static int broker_method_report_exit(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        _cleanup_(caller_done) Caller c = {};
        _cleanup_error_ Error *e = NULL;
        int32_t code, status;
        Run *run;
        int r = caller_read(m, &c, &e);

        manager_touch(userdata);
        if (r < 0)
                return sd_bus_error_set(ret_error, AGENTBOX_ERROR_NOT_AUTHORIZED, error_message(e, r));
        r = read_run(userdata, m, &c, &run, ret_error);
        if (r >= 0)
                r = sd_bus_message_read(m, "ii", &code, &status);
        if (r < 0)
                return r;
        if (!run->caller.sender || !streq(c.sender, run->caller.sender))
                return sd_bus_error_set(ret_error, AGENTBOX_ERROR_NOT_AUTHORIZED,
                                "only the client of a run can say how its command ended");
        if (run_scope_report(run, code, status) < 0)
                return sd_bus_error_set(ret_error, AGENTBOX_ERROR_INVALID_REQUEST,
                                "only a scope's end is reported, by CLD_EXITED, CLD_KILLED or CLD_DUMPED");
        return sd_bus_reply_method_return(m, NULL);
}

/* Who has its uid could end it, too: nothing is given away by taking the word of one of them for being its client. */
static int broker_method_claim_run(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        _cleanup_(caller_done) Caller c = {};
        _cleanup_error_ Error *e = NULL;
        Run *run;
        int r = caller_read(m, &c, &e);

        manager_touch(userdata);
        if (r < 0)
                return sd_bus_error_set(ret_error, AGENTBOX_ERROR_NOT_AUTHORIZED, error_message(e, r));
        r = read_run(userdata, m, &c, &run, ret_error);
        if (r < 0)
                return r;
        if (c.uid != run->caller.uid || !run_claim(run, &c))
                return sd_bus_error_set(ret_error, AGENTBOX_ERROR_NOT_AUTHORIZED,
                                "only a run whose client went with an earlier bus can be claimed, by who started it");
        return sd_bus_reply_method_return(m, NULL);
}

/* What became of the results where they arrived, its client alone can say. */
static int broker_method_report_copy(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        _cleanup_(caller_done) Caller c = {};
        _cleanup_error_ Error *e = NULL;
        uint64_t files, bytes;
        const char *reason;
        Run *run;
        int r = caller_read(m, &c, &e);

        manager_touch(userdata);
        if (r < 0)
                return sd_bus_error_set(ret_error, AGENTBOX_ERROR_NOT_AUTHORIZED, error_message(e, r));
        r = read_run(userdata, m, &c, &run, ret_error);
        if (r >= 0)
                r = sd_bus_message_read(m, "tts", &files, &bytes, &reason);
        if (r < 0)
                return r;
        if (!run->caller.sender || !streq(c.sender, run->caller.sender))
                return sd_bus_error_set(ret_error, AGENTBOX_ERROR_NOT_AUTHORIZED,
                                "only the client of a run can say what became of its results");
        if (run_copy_report(run, files, bytes, reason) < 0)
                return sd_bus_error_set(ret_error, AGENTBOX_ERROR_INVALID_REQUEST,
                                "the run has no results that this could be about, or enough was said of them");
        return sd_bus_reply_method_return(m, NULL);
}

static int answer_doctor(Manager *m, sd_bus_message *call, const Caller *c, bool all, sd_bus_error *e)
{
        return all ? broker_doctor(m, call) : -EACCES;
}

static int broker_method_doctor(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        return answer_or_ask(userdata, m, AGENTBOX_ACTION_INSPECT_ALL, answer_doctor, ret_error);
}

/* The same for everybody. */
static int broker_method_list_promises(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        _cleanup_message_ sd_bus_message *reply = NULL;
        int r = sd_bus_message_new_method_return(m, &reply);

        if (r >= 0)
                r = sd_bus_message_open_container(reply, 'a', "(ssss)");
        for (size_t i = 0; r >= 0 && i < n_verify_rows; i++)
                r = sd_bus_message_append(reply, "(ssss)", verify_rows[i].name, verify_rows[i].promise,
                                verify_rows[i].advice ?: "", verify_row_trial(verify_rows + i));
        if (r >= 0)
                r = sd_bus_message_close_container(reply);
        return r < 0 ? r : sd_bus_send(NULL, reply, NULL);
}

#define METHOD(name, in, in_names, out, out_names, handler) \
        SD_BUS_METHOD_WITH_NAMES(name, in, in_names, out, out_names, handler, SD_BUS_VTABLE_UNPRIVILEGED)
#define P SD_BUS_PARAM

static const sd_bus_vtable manager_vtable[] = {
        SD_BUS_VTABLE_START(0),
        METHOD("Run", AGENTBOX_RUN_SIGNATURE,
                        P(policy) P(tightenings) P(argv) P(environment) P(options) P(stdio),
                        AGENTBOX_RUN_RESULT, P(run) P(path) P(facts), broker_method_run),
        METHOD("PrepareRun", AGENTBOX_PASS_SIGNATURE, P(policy), AGENTBOX_PASS_RESULT, P(variables),
                        broker_method_prepare_run),
        METHOD("ListPolicies", "", , "as", P(policies), broker_method_list_policies),
        METHOD("ListRuns", "", , AGENTBOX_LIST_RESULT, P(runs), broker_method_list_runs),
        METHOD("GetRun", "s", P(run), AGENTBOX_FACTS, P(facts), broker_method_get_run),
        METHOD("WaitRun", "s", P(run), AGENTBOX_FACTS, P(result), broker_method_wait_run),
        METHOD("KillRun", AGENTBOX_KILL_SIGNATURE, P(run) P(signal) P(reason), "", , broker_method_kill_run),
        METHOD("ThawRun", "s", P(run), "", , broker_method_thaw_run),
        METHOD("ReportExit", AGENTBOX_REPORT_EXIT_SIGNATURE, P(run) P(code) P(status), "", ,
                        broker_method_report_exit),
        METHOD("ClaimRun", "s", P(run), "", , broker_method_claim_run),
        METHOD("ReportCopy", AGENTBOX_REPORT_COPY_SIGNATURE, P(run) P(files) P(bytes) P(reason), "", ,
                        broker_method_report_copy),
        METHOD("ListPromises", "", , AGENTBOX_PROMISES_RESULT, P(promises), broker_method_list_promises),
        METHOD("Doctor", "", , AGENTBOX_DOCTOR_RESULT, P(checks), broker_method_doctor),
        SD_BUS_SIGNAL_WITH_NAMES("RunEnded", AGENTBOX_RUN_ENDED_SIGNATURE, P(run) P(result), 0),
        SD_BUS_VTABLE_END,
};

/* ---- the objects of runs */

/* Somebody else's run does not exist for the caller. */
static int find_run(sd_bus *bus, const char *path, const char *interface, void *userdata, void **ret,
                sd_bus_error *e)
{
        sd_bus_message *m = sd_bus_get_current_message(bus);
        _cleanup_(caller_done) Caller c = {};
        const char *id = startswith(path, AGENTBOX_RUN_PATH_PREFIX);
        Run *run = id ? manager_by_id(userdata, id) : NULL;

        if (!run || run->phase == RUN_ASKING || !m || caller_read(m, &c, NULL) < 0 ||
                        !run_is_visible(run, &c))
                return 0;
        *ret = run;
        return 1;
}

static int enumerate_runs(sd_bus *bus, const char *prefix, void *userdata, char ***ret, sd_bus_error *e)
{
        const Manager *manager = userdata;
        sd_bus_message *m = sd_bus_get_current_message(bus);
        _cleanup_(caller_done) Caller c = {};
        _cleanup_strv_ char **paths = NULL;

        if (!m || caller_read(m, &c, NULL) < 0)
                return 0;
        for (Run *i = manager->runs; i; i = i->next) {
                char path[sizeof(AGENTBOX_RUN_PATH_PREFIX) + RUN_ID_LENGTH];

                if (i->phase == RUN_ASKING || !run_is_visible(i, &c))
                        continue;
                snprintf(path, sizeof(path), "%s%s", AGENTBOX_RUN_PATH_PREFIX, i->id);
                if (strv_extend(&paths, path) < 0)
                        return -ENOMEM;
        }
        *ret = TAKE_PTR(paths);
        return 0;
}

static int get_text(sd_bus *bus, const char *path, const char *interface, const char *property,
                sd_bus_message *reply, void *userdata, sd_bus_error *e)
{
        const Run *r = userdata;
        const struct {
                const char *property, *value;
        } rows[] = {
                { "Id", r->id },
                { "Name", r->name },
                { "Policy", r->policy_name },
                { "Unit", r->unit },
                { "Command", r->command },
                { "State", run_state_name(r) },
                { "PolicyDigest", r->digest },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (streq(rows[i].property, property))
                        return sd_bus_message_append(reply, "s", rows[i].value ?: "");
        return -ENXIO;
}

static int get_facts(sd_bus *bus, const char *path, const char *interface, const char *property,
                sd_bus_message *reply, void *userdata, sd_bus_error *e)
{
        return run_append_facts(reply, userdata);
}

static const sd_bus_vtable run_vtable[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_PROPERTY("Id", "s", get_text, 0, SD_BUS_VTABLE_PROPERTY_CONST),
        SD_BUS_PROPERTY("Name", "s", get_text, 0, SD_BUS_VTABLE_PROPERTY_CONST),
        SD_BUS_PROPERTY("Policy", "s", get_text, 0, SD_BUS_VTABLE_PROPERTY_CONST),
        SD_BUS_PROPERTY("PolicyDigest", "s", get_text, 0, SD_BUS_VTABLE_PROPERTY_CONST),
        SD_BUS_PROPERTY("Unit", "s", get_text, 0, SD_BUS_VTABLE_PROPERTY_CONST),
        SD_BUS_PROPERTY("Command", "s", get_text, 0, SD_BUS_VTABLE_PROPERTY_CONST),
        SD_BUS_PROPERTY("State", "s", get_text, 0, 0),
        SD_BUS_PROPERTY("Facts", "a{sv}", get_facts, 0, 0),
        SD_BUS_VTABLE_END,
};

/* ---- the connection */

/* A name with a colon that nobody owns any more: that client is gone. */
static int on_name_lost(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        Manager *manager = userdata;
        const char *name, *owner;
        Run *next;

        if (sd_bus_message_read(m, "sss", &name, NULL, &owner) < 0 || name[0] != ':' || *owner)
                return 0;
        for (Run *r = manager->runs; r; r = next) {
                next = r->next;
                run_forget_waiters(r, name);
                if (r->caller.sender && streq(r->caller.sender, name))
                        run_on_client_lost(r);
        }
        return 0;
}

static int on_disconnected(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        Manager *manager = userdata;

        /* Without the bus nobody can ask for anything, and no client can be seen leaving: the next broker
         * sorts that out. */
        return sd_event_exit(manager->event, -ECONNRESET);
}

static int add_objects(Manager *m)
{
        int r = sd_bus_add_object_vtable(
                        m->bus, NULL, AGENTBOX_OBJECT_PATH, AGENTBOX_MANAGER_INTERFACE, manager_vtable, m);

        if (r >= 0)
                r = sd_bus_add_fallback_vtable(m->bus, NULL, "/org/agentbox1/run", AGENTBOX_RUN_INTERFACE,
                                run_vtable, find_run, m);
        if (r >= 0)
                r = sd_bus_add_node_enumerator(m->bus, NULL, "/org/agentbox1/run", enumerate_runs, m);
        return r;
}

int broker_bus_connect(Manager *m, Error **reterr)
{
        static const char lost[] =
                        "type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',"
                        "member='NameOwnerChanged',path='/org/freedesktop/DBus',arg2=''";
        sd_id128_t id;
        int r = sd_bus_open_system(&m->bus);

        if (r >= 0)
                r = add_objects(m);
        if (r >= 0)
                r = sd_bus_add_match(m->bus, NULL, lost, on_name_lost, m);
        if (r >= 0)
                r = sd_bus_match_signal(m->bus, NULL, "org.freedesktop.DBus.Local",
                                "/org/freedesktop/DBus/Local", "org.freedesktop.DBus.Local", "Disconnected",
                                on_disconnected, m);
        if (r >= 0)
                r = sd_bus_attach_event(m->bus, m->event, SD_EVENT_PRIORITY_NORMAL);
        if (r >= 0)
                r = sd_bus_get_bus_id(m->bus, &id);
        if (r >= 0)
                sd_id128_to_string(id, m->bus_id);
        return r < 0 ? error_set(reterr, r, "cannot use the system bus: %s", strerror(-r)) : 0;
}

int broker_bus_take_name(Manager *m, Error **reterr)
{
        int r = sd_bus_request_name(m->bus, AGENTBOX_BUS_NAME, 0);

        return r < 0 ? error_set(reterr, r, "cannot take the name %s on the system bus: %s",
                                       AGENTBOX_BUS_NAME, strerror(-r))
                     : 0;
}

int broker_bus_has_client(Manager *m, const char *name)
{
        sd_bus_creds *creds = NULL;
        int r = sd_bus_get_name_creds(m->bus, name, 0, &creds);

        sd_bus_creds_unref(creds);
        return r >= 0;
}
