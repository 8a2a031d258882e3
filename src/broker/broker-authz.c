/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>

#include "base/strv.h"
#include "broker/broker-authz.h"
#include "broker/broker-unit.h"
#include "wire/caller-uid.h"

#define POLKIT_NAME "org.freedesktop.PolicyKit1"
#define POLKIT_PATH "/org/freedesktop/PolicyKit1/Authority"
#define POLKIT_INTERFACE "org.freedesktop.PolicyKit1.Authority"
#define POLKIT_ALLOW_INTERACTION 1u
/* A person may have to type a password. */
#define POLKIT_TIMEOUT_USEC (110u * 1000000u)
#define GROUPS_MAX 65536

void caller_done(Caller *c)
{
        free(c->sender);
        free(c->user);
        strv_free(c->groups);
        *c = (Caller){};
}

static int read_groups(Caller *c, const struct passwd *pw)
{
        int n = 64, r;
        _cleanup_free_ gid_t *gids = NULL;

        for (;;) {
                gid_t *more = realloc(gids, (size_t) n * sizeof(gid_t));

                if (!more)
                        return -ENOMEM;
                gids = more;
                if (getgrouplist(pw->pw_name, pw->pw_gid, gids, &n) >= 0)
                        break;
                if (n > GROUPS_MAX)
                        return -E2BIG;
        }
        for (int i = 0; i < n; i++) {
                const struct group *g = getgrgid(gids[i]);

                if (!g)
                        continue;
                r = strv_extend(&c->groups, g->gr_name);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* No name where the database does not know the uid, or fails. */
static int read_names(Caller *c)
{
        const struct passwd *pw = getpwuid(c->uid);

        if (!pw)
                return 0;
        c->user = strdup(pw->pw_name);
        if (!c->user)
                return -ENOMEM;
        return c->uid == 0 ? 0 : read_groups(c, pw);
}

int caller_read(sd_bus_message *m, Caller *ret, Error **reterr)
{
        _cleanup_(caller_done) Caller c = {};
        sd_bus_creds *creds = NULL;
        const char *sender = sd_bus_message_get_sender(m), *refusal;
        int r;

        /* Without AUGMENT: nothing is read from /proc, where the pid may be somebody else's by now. */
        r = sd_bus_query_sender_creds(m, SD_BUS_CREDS_EUID | SD_BUS_CREDS_PID, &creds);
        if (r >= 0)
                r = sd_bus_creds_get_euid(creds, &c.uid);
        if (r >= 0)
                r = sd_bus_creds_get_pid(creds, &c.pid);
        sd_bus_creds_unref(creds);
        if (r < 0 || !sender)
                return error_set(reterr, r < 0 ? r : -EBADMSG, "the bus does not say who calls: %s",
                                strerror(r < 0 ? -r : EBADMSG));
        c.sender = strdup(sender);
        r = c.sender ? read_names(&c) : -ENOMEM;
        if (r < 0)
                return error_set(reterr, r, "cannot look up the caller: %s", strerror(-r));
        refusal = caller_uid_refusal(c.uid, c.user);
        if (refusal)
                return error_set(reterr, -EACCES, "not authorised: uid %u %s", (unsigned) c.uid, refusal);
        *ret = c;
        c = (Caller){};
        return 0;
}

bool authz_policy_is_open(const Policy *p, const Caller *c)
{
        char *const *users = policy_list(p, ACCESS_USERS), *const *groups = policy_list(p, ACCESS_GROUPS);

        if (c->uid == 0)
                return true;
        if (strv_length(users) == 0 && strv_length(groups) == 0)
                return strv_contains(c->groups, AGENTBOX_GROUP);
        if (c->user && strv_contains(users, c->user))
                return true;
        STRV_FOREACH(i, groups)
                if (strv_contains(c->groups, *i))
                        return true;
        return false;
}

bool authz_owns(const Caller *c, uid_t owner)
{
        return c->uid == 0 || c->uid == owner;
}

/* ---- polkit */

struct AuthzQuery {
        sd_bus_slot *slot;
        AuthzHandler handler;
        void *userdata;
};

AuthzQuery *authz_query_free(AuthzQuery *q)
{
        if (q) {
                sd_bus_slot_unref(q->slot);
                free(q);
        }
        return NULL;
}

static int on_answer(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
        AuthzQuery *q = userdata;
        const sd_bus_error *e = sd_bus_message_get_error(m);
        int authorized = 0, challenge = 0, r;

        if (e) {
                bool absent = sd_bus_error_has_names(
                                e, SD_BUS_ERROR_SERVICE_UNKNOWN, SD_BUS_ERROR_NAME_HAS_NO_OWNER);

                q->handler(q->userdata, -EACCES,
                                absent ? "polkit is not running, so nobody can be asked"
                                       : "polkit cannot be asked (see \"systemctl status polkit\")");
                return 0;
        }
        r = sd_bus_message_enter_container(m, 'r', "bba{ss}");
        if (r >= 0)
                r = sd_bus_message_read(m, "bb", &authorized, &challenge);
        if (r < 0)
                q->handler(q->userdata, r, "polkit's answer cannot be read");
        else if (authorized)
                q->handler(q->userdata, 1, NULL);
        else
                q->handler(q->userdata, 0,
                                challenge ? "polkit wants a password, and nobody is there to be asked"
                                          : "polkit says no");
        return 0;
}

static int append_question(sd_bus_message *m, sd_bus_message *call, const char *action, const char *policy)
{
        int interactive = sd_bus_message_get_allow_interactive_authorization(call);
        int r = sd_bus_message_append(m, "(sa{sv})s", "system-bus-name", 1, "name", "s",
                        sd_bus_message_get_sender(call), action);

        if (r >= 0)
                r = policy ? sd_bus_message_append(m, "a{ss}", 1, "policy", policy)
                           : sd_bus_message_append(m, "a{ss}", 0);
        return r < 0 ? r
                     : sd_bus_message_append(m, "us", interactive > 0 ? POLKIT_ALLOW_INTERACTION : 0, "");
}

int authz_ask(sd_bus_message *call, const char *action, const char *policy, AuthzHandler handler,
                void *userdata, AuthzQuery **ret)
{
        sd_bus *bus = sd_bus_message_get_bus(call);
        _cleanup_message_ sd_bus_message *m = NULL;
        AuthzQuery *q = calloc(1, sizeof(*q));
        int r;

        if (!q)
                return -ENOMEM;
        q->handler = handler;
        q->userdata = userdata;
        r = sd_bus_message_new_method_call(
                        bus, &m, POLKIT_NAME, POLKIT_PATH, POLKIT_INTERFACE, "CheckAuthorization");
        if (r >= 0)
                r = append_question(m, call, action, policy);
        if (r >= 0)
                r = sd_bus_call_async(bus, &q->slot, m, on_answer, q, POLKIT_TIMEOUT_USEC);
        if (r < 0) {
                authz_query_free(q);
                return r;
        }
        *ret = q;
        return 0;
}
