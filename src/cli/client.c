/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <unistd.h>

#include "base/strv.h"
#include "cli/client.h"
#include "cli/facts.h"
#include "cli/message.h"
#include "cli/output.h"
#include "wire/bus-iface.h"

#define USEC_PER_SEC UINT64_C(1000000)
#define CALL_TIMEOUT (30 * USEC_PER_SEC)
/* A start includes what the caller's answer to polkit takes, and a busy machine. */
/* Hundreds may be asked for at once, on a slow machine; they start one after another. */
#define RUN_TIMEOUT (600 * USEC_PER_SEC)
#define QUESTIONS_MAX 3u

static inline void bus_message_unrefp(sd_bus_message **m)
{
        sd_bus_message_unref(*m);
}
#define _cleanup_message_ _cleanup_(bus_message_unrefp)
#define _cleanup_bus_error_ _cleanup_(sd_bus_error_free)

int client_connect(sd_bus **ret, Error **reterr)
{
        int r = sd_bus_open_system(ret);

        if (r < 0)
                return error_set(reterr, r,
                                "cannot connect to the system bus: %s; is dbus.service (or dbus-broker) "
                                "running?",
                                strerror(-r));
        return 0;
}

/* Failures whose cause is the way to the broker, not the broker: they come from the bus, which cannot know
 * our advice. */
static const struct {
        const char *name; /* "*" at the end: any that begins so */
        const char *text;
} bus_errors[] = {
        { SD_BUS_ERROR_SERVICE_UNKNOWN, "the broker is not installed: nothing on the system bus offers "
                                        "org.agentbox1; install "
                                        "agentboxd with its D-Bus files, then 'systemctl reload dbus'" },
        { SD_BUS_ERROR_NAME_HAS_NO_OWNER, "the broker is not running and cannot be started on demand; see "
                                          "'systemctl status agentboxd'" },
        { "org.freedesktop.DBus.Error.Spawn.*", "the broker could not be started; see 'systemctl status "
                                                "agentboxd' and 'journalctl -u agentboxd'" },
        { "org.freedesktop.systemd1.*", "the broker could not be started; see 'systemctl status agentboxd' "
                                        "and 'journalctl -u agentboxd'" },
        { SD_BUS_ERROR_ACCESS_DENIED, "the system bus does not let you speak to the broker" },
        { SD_BUS_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED,
                        "not authorised: this needs an answer to polkit; join the group "
                        "agentbox, or call from a session with a polkit agent" },
        { SD_BUS_ERROR_NO_REPLY, "the broker did not answer; see 'journalctl -u agentboxd'" },
        { "org.freedesktop.DBus.Error.TimedOut", "the broker was not started in time; see 'systemctl status agentboxd' and "
                                                 "'journalctl -u agentboxd'" },
        { SD_BUS_ERROR_TIMEOUT, "the broker did not answer in time; see 'journalctl -u agentboxd'" },
        { SD_BUS_ERROR_DISCONNECTED, "the system bus closed the connection" },
        { SD_BUS_ERROR_UNKNOWN_METHOD, "the broker is of another version than this agentbox; restart it "
                                       "with 'systemctl restart agentboxd'" },
};

static bool matches(const char *pattern, const char *name)
{
        size_t n = strlen(pattern);

        return n > 0 && pattern[n - 1] == '*' ? strncmp(pattern, name, n - 1) == 0 : streq(pattern, name);
}

int client_error(const sd_bus_error *e, int r, Error **reterr)
{
        if (!e || !e->name)
                return error_set(reterr, r, "cannot speak to the broker: %s", strerror(-r));
        if (sd_bus_error_get_errno(e) > 0)
                r = -sd_bus_error_get_errno(e);
        if (streq(e->name, AGENTBOX_ERROR_NOT_AUTHORIZED))
                r = -EACCES;
        for (size_t i = 0; i < ELEMENTSOF(bus_errors); i++)
                if (matches(bus_errors[i].name, e->name))
                        return error_set(reterr, r, "%s (%s)", bus_errors[i].text, e->message ?: e->name);
        return error_set(reterr, r, "%s", e->message ?: e->name);
}

bool client_broker_was_lost(const sd_bus_error *e)
{
        return sd_bus_error_has_names(e, SD_BUS_ERROR_NO_REPLY, SD_BUS_ERROR_SERVICE_UNKNOWN,
                               SD_BUS_ERROR_NAME_HAS_NO_OWNER, SD_BUS_ERROR_TIMEOUT,
                               AGENTBOX_ERROR_SHUTTING_DOWN) ||
               (e->name && (startswith(e->name, "org.freedesktop.DBus.Error.Spawn.") ||
                                           startswith(e->name, "org.freedesktop.systemd1.")));
}

static int new_call(sd_bus *bus, const char *member, sd_bus_message **ret)
{
        int r = sd_bus_message_new_method_call(bus, ret, AGENTBOX_BUS_NAME, AGENTBOX_OBJECT_PATH,
                        AGENTBOX_MANAGER_INTERFACE, member);

        if (r < 0)
                return r;
        /* polkit may ask a person only where one sits. */
        return sd_bus_message_set_allow_interactive_authorization(*ret, isatty(STDERR_FILENO));
}

static int call_once(sd_bus *bus, sd_bus_message *m, sd_bus_message **ret, sd_bus_error *reterr)
{
        return sd_bus_call(bus, m, isatty(STDERR_FILENO) ? RUN_TIMEOUT : CALL_TIMEOUT, reterr, ret);
}

static int call(sd_bus *bus, sd_bus_message *m, sd_bus_message **ret, Error **reterr)
{
        _cleanup_bus_error_ sd_bus_error e = SD_BUS_ERROR_NULL;
        int r = call_once(bus, m, ret, &e);

        return r < 0 ? client_error(&e, r, reterr) : 0;
}

static int append_byte_strings(sd_bus_message *m, char *const *l)
{
        int r = sd_bus_message_open_container(m, 'a', "ay");

        STRV_FOREACH(i, l) {
                if (r < 0)
                        return r;
                r = sd_bus_message_append_array(m, 'y', *i, strlen(*i));
        }
        return r < 0 ? r : sd_bus_message_close_container(m);
}

/* The pipes that files travel through, and what is to come out. */
static int append_copies(sd_bus_message *m, const Copy *c)
{
        int r = 0;

        if (c->view.fd >= 0)
                r = sd_bus_message_append(m, "{sv}", "view", "h", c->view.fd);
        if (r >= 0 && c->has_in)
                r = sd_bus_message_append(m, "{sv}", "copy-in", "h", c->in.read_fd);
        if (r < 0 || !c->has_out)
                return r;
        r = sd_bus_message_append(m, "{sv}", "copy-out", "h", c->out.write_fd);
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'e', "sv");
        if (r >= 0)
                r = sd_bus_message_append(m, "s", "copy-out-paths");
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'v', "aay");
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'a', "ay");
        for (size_t i = 0; r >= 0 && i < c->out.n_items; i++)
                r = sd_bus_message_append_array(m, 'y', c->out.items[i].source, strlen(c->out.items[i].source));
        for (int i = 0; r >= 0 && i < 3; i++)
                r = sd_bus_message_close_container(m);
        return r;
}

static int append_options(sd_bus_message *m, const RunRequest *q, const ScopeChild *scope, const Copy *copy)
{
        const struct {
                const char *name, *value;
        } strings[] = { { "cwd", q->cwd }, { "name", q->name }, { "unit", q->unit }, { "term", q->term } };
        const struct {
                const char *name;
                bool value;
        } flags[] = { { "detach", q->detach }, { "tty", q->tty } };
        int r = sd_bus_message_open_container(m, 'a', "{sv}");

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(strings); i++)
                if (strings[i].value)
                        r = sd_bus_message_append(m, "{sv}", strings[i].name, "s", strings[i].value);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(flags); i++)
                if (flags[i].value)
                        r = sd_bus_message_append(m, "{sv}", flags[i].name, "b", 1);
        if (r >= 0)
                r = append_copies(m, copy);
        if (r >= 0 && q->scope)
                r = sd_bus_message_append(m, "{sv}{sv}", "scope-channel", "h", scope->channel, "scope-pidfd",
                                "h", scope->pidfd);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int append_request(
                sd_bus_message *m, const RunRequest *q, const int stdio[3], const ScopeChild *scope, const Copy *copy)
{
        int r = sd_bus_message_append_basic(m, 's', q->policy);

        if (r >= 0)
                r = sd_bus_message_append_strv(m, q->tightenings);
        if (r >= 0)
                r = append_byte_strings(m, q->argv);
        if (r >= 0)
                r = append_byte_strings(m, q->env);
        if (r >= 0)
                r = append_options(m, q, scope, copy);
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'a', "h");
        for (int i = 0; r >= 0 && stdio && i < 3; i++)
                r = sd_bus_message_append_basic(m, 'h', stdio + i);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

int client_run(sd_bus *bus, const RunRequest *q, const int stdio[3], const ScopeChild *scope, const Copy *copy,
                sd_bus_message_handler_t handler, void *userdata, Error **reterr)
{
        _cleanup_message_ sd_bus_message *m = NULL;
        int r = new_call(bus, "Run", &m);

        if (r >= 0)
                r = append_request(m, q, stdio, scope, copy);
        if (r == -EINVAL)
                return error_set(reterr, r,
                                "the values of -p, --set, --timeout, --name and -C must be UTF-8 text");
        if (r >= 0)
                r = sd_bus_call_async(bus, NULL, m, handler, userdata, copy->has_in ? UINT64_MAX : RUN_TIMEOUT);
        if (r < 0)
                return error_set(reterr, r, "cannot send the request to the broker: %s", strerror(-r));
        return 0;
}

static int bad_answer(int r, Error **reterr)
{
        return error_set(reterr, r, "the broker's answer cannot be read (%s): is it of another version?",
                        strerror(-r));
}

int client_run_reply(sd_bus_message *m, char **ret_run, json_t **ret_facts, Error **reterr)
{
        _cleanup_json_ json_t *facts = NULL;
        const char *run, *path;
        char *copy;
        int r;

        if (sd_bus_message_is_method_error(m, NULL))
                return client_error(sd_bus_message_get_error(m), -EIO, reterr);
        r = sd_bus_message_read(m, "so", &run, &path);
        if (r >= 0)
                r = facts_read(m, &facts);
        if (r < 0)
                return bad_answer(r, reterr);
        copy = strdup(run);
        if (!copy)
                return error_set(reterr, -ENOMEM, "out of memory");
        *ret_run = copy;
        *ret_facts = TAKE_PTR(facts);
        return 0;
}

char *client_refused_run(sd_bus_message *m)
{
        const char *run;

        if (sd_bus_message_rewind(m, true) < 0 || sd_bus_message_read(m, "ss", NULL, &run) < 0)
                return NULL;
        return strdup(run);
}

int client_wait(sd_bus *bus, const char *run, sd_bus_message_handler_t handler, void *userdata,
                Error **reterr)
{
        _cleanup_message_ sd_bus_message *m = NULL;
        int r = new_call(bus, "WaitRun", &m);

        if (r >= 0)
                r = sd_bus_message_append(m, "s", run);
        if (r >= 0)
                r = sd_bus_call_async(bus, NULL, m, handler, userdata, UINT64_MAX);
        if (r < 0)
                return error_set(
                                reterr, r, "cannot ask the broker for the end of the run: %s", strerror(-r));
        return 0;
}

int client_wait_reply(sd_bus_message *m, RunResult *ret, Error **reterr)
{
        _cleanup_json_ json_t *facts = NULL;
        int r;

        if (sd_bus_message_is_method_error(m, NULL))
                return client_error(sd_bus_message_get_error(m), -EIO, reterr);
        r = facts_read(m, &facts);
        if (r >= 0)
                r = result_from_facts(facts, ret);
        return r < 0 ? bad_answer(r, reterr) : 0;
}

static int new_kill(sd_bus *bus, const char *run, int signal, const char *reason, sd_bus_message **ret)
{
        int r = new_call(bus, "KillRun", ret);

        return r < 0 ? r : sd_bus_message_append(*ret, AGENTBOX_KILL_SIGNATURE, run, signal, reason);
}

static int ignore_answer(sd_bus_message *m, void *userdata, sd_bus_error *e)
{
        return 0;
}

int client_kill_nowait(sd_bus *bus, const char *run, int signal, const char *reason)
{
        _cleanup_message_ sd_bus_message *m = NULL;
        int r = new_kill(bus, run, signal, reason, &m);

        /* A handler, though it does nothing: a message without one forbids the answer, and D-Bus then
         * forbids activation. */
        return r < 0 ? r : sd_bus_call_async(bus, NULL, m, ignore_answer, NULL, CALL_TIMEOUT);
}

int client_claim_nowait(sd_bus *bus, const char *run)
{
        _cleanup_message_ sd_bus_message *m = NULL;
        int r = new_call(bus, "ClaimRun", &m);

        if (r >= 0)
                r = sd_bus_message_append(m, "s", run);
        return r < 0 ? r : sd_bus_call_async(bus, NULL, m, ignore_answer, NULL, CALL_TIMEOUT);
}

int client_report_exit_nowait(sd_bus *bus, const char *run, int code, int status)
{
        _cleanup_message_ sd_bus_message *m = NULL;
        int r = new_call(bus, "ReportExit", &m);

        if (r >= 0)
                r = sd_bus_message_append(m, AGENTBOX_REPORT_EXIT_SIGNATURE, run, code, status);
        return r < 0 ? r : sd_bus_call_async(bus, NULL, m, ignore_answer, NULL, CALL_TIMEOUT);
}

int client_report_copy(sd_bus *bus, const char *run, uint64_t files, uint64_t bytes, const char *reason,
                sd_bus_message_handler_t handler, void *userdata)
{
        _cleanup_message_ sd_bus_message *m = NULL;
        int r = new_call(bus, "ReportCopy", &m);

        if (r >= 0)
                r = sd_bus_message_append(m, AGENTBOX_REPORT_COPY_SIGNATURE, run, files, bytes, reason);
        return r < 0 ? r : sd_bus_call_async(bus, NULL, m, handler, userdata, CALL_TIMEOUT);
}

int client_kill(sd_bus *bus, const char *run, int signal, Error **reterr)
{
        _cleanup_message_ sd_bus_message *m = NULL, *reply = NULL;
        int r = new_kill(bus, run, signal, "", &m);

        return r < 0 ? error_set(reterr, r, "cannot ask for the kill: %s", strerror(-r))
                     : call(bus, m, &reply, reterr);
}

/* A call of member with one string argument, or none where argument is NULL. */
static int new_call_with_string(sd_bus *bus, const char *member, const char *argument, sd_bus_message **ret, Error **reterr)
{
        _cleanup_message_ sd_bus_message *m = NULL;
        int r = new_call(bus, member, &m);

        if (r >= 0 && argument)
                r = sd_bus_message_append_basic(m, 's', argument);
        if (r < 0)
                return error_set(reterr, r, r == -EINVAL ? "not UTF-8 text" : "cannot ask the broker: %s",
                                strerror(-r));
        *ret = TAKE_PTR(m);
        return 0;
}

/* What changes nothing may be asked again: where a broker died over it, its successor answers. */
static int ask(sd_bus *bus, const char *member, const char *argument, sd_bus_message **ret, Error **reterr)
{
        for (unsigned n = 1;; n++) {
                _cleanup_bus_error_ sd_bus_error e = SD_BUS_ERROR_NULL;
                _cleanup_message_ sd_bus_message *m = NULL;
                int r = new_call_with_string(bus, member, argument, &m, reterr);

                if (r < 0)
                        return r;
                r = call_once(bus, m, ret, &e);
                if (r >= 0)
                        return 0;
                if (n >= QUESTIONS_MAX || !sd_bus_error_has_names(&e, SD_BUS_ERROR_NO_REPLY, AGENTBOX_ERROR_SHUTTING_DOWN))
                        return client_error(&e, r, reterr);
        }
}

int client_thaw(sd_bus *bus, const char *run, Error **reterr)
{
        _cleanup_message_ sd_bus_message *m = NULL, *reply = NULL;
        int r = new_call_with_string(bus, "ThawRun", run, &m, reterr);

        return r < 0 ? r : call(bus, m, &reply, reterr);
}

int client_list_runs(sd_bus *bus, json_t **ret, Error **reterr)
{
        _cleanup_message_ sd_bus_message *reply = NULL;
        int r = ask(bus, "ListRuns", NULL, &reply, reterr);

        if (r < 0)
                return r;
        r = facts_read_list(reply, ret);
        return r < 0 ? bad_answer(r, reterr) : 0;
}

int client_get_run(sd_bus *bus, const char *run, json_t **ret, Error **reterr)
{
        _cleanup_message_ sd_bus_message *reply = NULL;
        int r = ask(bus, "GetRun", run, &reply, reterr);

        if (r < 0)
                return r;
        r = facts_read(reply, ret);
        return r < 0 ? bad_answer(r, reterr) : 0;
}

/* The run that has the id; or the one of this user's that has the name; or the only one whose id begins so.
 * NULL and how many fit otherwise. Names of other users come last, and the broker judges them: they must not
 * stand in the way of an id. */
static const char *match_run(const json_t *list, const char *wanted, size_t *ret_n)
{
        const char *named = NULL, *begins = NULL;
        size_t n = 0;

        *ret_n = 1;
        for (size_t i = 0; i < json_array_size(list); i++) {
                const json_t *facts = json_array_get(list, i);
                const char *id = facts_string(facts, "run"), *name = facts_string(facts, "name");

                if (!id)
                        continue;
                if (streq(id, wanted))
                        return id;
                if (name && streq(name, wanted) && facts_u64(facts, "caller_uid") == getuid())
                        named = id;
                if (startswith(id, wanted)) {
                        begins = id;
                        n++;
                }
        }
        if (named)
                return named;
        *ret_n = n;
        return n == 1 ? begins : NULL;
}

int client_find_run(sd_bus *bus, const char *run, char **ret_id, Error **reterr)
{
        _cleanup_json_ json_t *list = NULL;
        _cleanup_free_ char *shown = message_clean(run);
        const char *id;
        char *copy;
        size_t n;
        int r;

        if (!*run)
                return error_set(reterr, -EINVAL, "no run is named by an empty text");
        r = client_list_runs(bus, &list, reterr);
        if (r < 0)
                return r;
        id = match_run(list, run, &n);
        if (n > 1)
                return error_set(reterr, -EINVAL, "%zu runs begin with %s: give more of the id", n, shown);
        /* One that is not listed (it ended a while ago) may still be known by its id; the broker says so or
         * not. */
        copy = strdup(id ?: run);
        if (!copy)
                return error_set(reterr, -ENOMEM, "out of memory");
        *ret_id = copy;
        return 0;
}

int client_connect_for(const char *run, sd_bus **ret_bus, char **ret_id, Error **reterr)
{
        _cleanup_bus_ sd_bus *bus = NULL;
        int r = client_connect(&bus, reterr);

        if (r >= 0)
                r = client_find_run(bus, run, ret_id, reterr);
        if (r < 0)
                return r;
        *ret_bus = TAKE_PTR(bus);
        return 0;
}

int client_prepare_run(sd_bus *bus, const char *policy, char ***ret, Error **reterr)
{
        _cleanup_message_ sd_bus_message *reply = NULL;
        int r = ask(bus, "PrepareRun", policy, &reply, reterr);

        if (r < 0)
                return r;
        r = sd_bus_message_read_strv(reply, ret);
        return r < 0 ? bad_answer(r, reterr) : 0;
}

/* An a(ssss) as an array of objects, with these names for the four. */
static int read_rows(sd_bus_message *reply, const char *const names[static 4], json_t **ret, Error **reterr)
{
        _cleanup_json_ json_t *list = json_array();
        const char *a, *b, *c, *d;
        int r = sd_bus_message_enter_container(reply, 'a', "(ssss)");

        while (r >= 0 && (r = sd_bus_message_read(reply, "(ssss)", &a, &b, &c, &d)) > 0)
                if (json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:s}", names[0], a, names[1], b, names[2], c,
                                                                names[3], d)) < 0)
                        r = -ENOMEM;
        if (r < 0)
                return bad_answer(r, reterr);
        *ret = TAKE_PTR(list);
        return 0;
}

int client_doctor(sd_bus *bus, json_t **ret, Error **reterr)
{
        static const char *const names[] = { "check", "status", "message", "advice" };
        _cleanup_message_ sd_bus_message *reply = NULL;
        int r = ask(bus, "Doctor", NULL, &reply, reterr);

        return r < 0 ? r : read_rows(reply, names, ret, reterr);
}

int client_list_promises(sd_bus *bus, json_t **ret, Error **reterr)
{
        static const char *const names[] = { "name", "promise", "advice", "trial" };
        _cleanup_message_ sd_bus_message *reply = NULL;
        int r = ask(bus, "ListPromises", NULL, &reply, reterr);

        return r < 0 ? r : read_rows(reply, names, ret, reterr);
}
